/* SPDX-License-Identifier: MIT */
/*
 * What verbs ask about one path. In a mount, or below the backing of one, its daemon answers;
 * without a mount or a daemon, the backing itself is looked at.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/base/json.h"
#include "engine/base/message.h"
#include "engine/format/format.h"
#include "engine/rule/rule.h"
#include "fs/cmd/cmd.h"
#include "fs/control_socket.h"
#include "fs/foreign.h"
#include "fs/leftovers.h"
#include "fs/record.h"

/* --- where a path is --- */

/* The length of the part of the resolved @path that is a backing with a version file; 0: none. */
static size_t backing_around(const char *path)
{
	char probe[PATH_MAX + sizeof("/" FORMAT_DIR "/" FORMAT_FILE)];
	size_t len = strlen(path);

	while (len) {
		snprintf(probe, sizeof(probe), "%.*s/" FORMAT_DIR "/" FORMAT_FILE, (int)len, path);
		if (!access(probe, F_OK))
			return len;
		while (len && path[--len] != '/')
			;
	}
	return 0;
}

int place_find(struct given_path *p, const char *path, struct error *e)
{
	size_t len;

	memset(p, 0, sizeof(*p));
	if (mountinfo_resolve(path, p->path))
		return FAIL(e, EINVAL, NOT_A_MOUNT, path);
	if (mountinfo_find_ckptfs(p->path, &p->mount)) {
		p->mounted = true;
		/* A bind mount may show only a part of the filesystem. */
		snprintf(p->below, sizeof(p->below), "%s%s", p->mount.root,
			 p->path + strlen(p->mount.path));
	} else if (mountinfo_find_backing(p->path, &p->mount)) {
		p->mounted = p->on_backing = true;
		snprintf(p->below, sizeof(p->below), "%s", p->path + strlen(p->mount.source));
	} else {
		len = backing_around(p->path);
		if (!len)
			return FAIL(e, EINVAL, NOT_A_MOUNT, path);
		p->on_backing = true;
		snprintf(p->below, sizeof(p->below), "%s", p->path + len);
	}
	len = strspn(p->below, "/");
	memmove(p->below, p->below + len, strlen(p->below + len) + 1);
	return 0;
}

/* --- a backing without a mount on this host --- */

static json_t *not_there(const char *below, int err)
{
	const char *kind = err == ENOENT || err == ENOTDIR ? "absent" : "unreadable";

	return json_pack("{s:s, s:o, s:s, s:s}", "kind", kind, "path", json_text(below), "state",
			 kind, "reason", strerror(err));
}

/* True if a directory above the path, below the backing, has a commit file. */
static bool is_part(const struct given_path *p)
{
	size_t top = strlen(p->path) - strlen(p->below), len = strlen(p->path);
	char dir[PATH_MAX];

	for (;;) {
		__cleanup_fd int fd = -1;

		while (len > top && p->path[--len] != '/')
			;
		if (len <= top)
			return false;
		snprintf(dir, sizeof(dir), "%.*s", (int)len, p->path);
		fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (fd >= 0 && leftovers_is_unit(fd))
			return true;
	}
}

static json_t *look_at_dir(const struct given_path *p, int fd)
{
	struct rules *rules = NULL;
	const struct rule *rule = NULL;
	struct error e;
	json_t *o;

	if (leftovers_is_unit(fd))
		return json_pack("{s:s, s:o, s:s, s:b}", "kind", "unit", "path",
				 json_text(p->below), "state", "committed", "directory", 1);
	if (!rules_create(&rules, NULL, "", &e))
		rule = foreign_rule(rules, p->below, fd);
	if (rule)
		o = json_pack("{s:s, s:o, s:s, s:b, s:b, s:s}", "kind", "unit", "path",
			      json_text(p->below), "state", "foreign", "foreign", 1, "directory", 1,
			      "rule", rule->name);
	else
		o = json_pack("{s:s, s:o}", "kind", "directory", "path", json_text(p->below));
	rules_destroy(rules);
	return o;
}

static json_t *look_at_file(const struct given_path *p, int fd, const struct stat *st)
{
	const char *name = strrchr(p->path, '/');
	struct record record;
	int err = record_read(fd, &record);
	/* A file that another rule has claimed has a record. */
	bool unit = leftovers_is_checkpoint(name ? name + 1 : p->path) || !err || err == -EINVAL;

	if (leftovers_is_pointer(name ? name + 1 : p->path))
		return json_pack("{s:s, s:o, s:s, s:b}", "kind", "pointer", "path",
				 json_text(p->below), "state", "committed", "link", 0);
	return json_pack("{s:s, s:o, s:s, s:b, s:b, s:I}", "kind", unit ? "unit" : "file", "path",
			 json_text(p->below), "state",
			 !unit		   ? "ordinary"
			 : err == -ENODATA ? "foreign"
					   : "committed",
			 "foreign", unit && err == -ENODATA, "modified",
			 err != -ENODATA && (err || !record_is_of(&record, st)), "size",
			 (json_int_t)st->st_size);
}

/* Describes the path as control_file does, from commit file and digest record. */
static json_t *look_at_backing(const struct given_path *p)
{
	__cleanup_fd int fd = open(p->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		return not_there(p->below, errno);
	if (is_part(p))
		return json_pack("{s:s, s:o, s:s, s:I}", "kind", "part", "path",
				 json_text(p->below), "state", "committed", "size",
				 (json_int_t)st.st_size);
	return S_ISDIR(st.st_mode) ? look_at_dir(p, fd) : look_at_file(p, fd, &st);
}

/* --- asking --- */

int place_ask(const struct given_path *p, const char *generation, json_t **answer, struct error *e)
{
	json_t *request;
	int err = -ENOTCONN;

	*answer = NULL;
	if (p->mounted) {
		request = json_pack("{s:s, s:o}", "verb", "file", "path", json_text(p->below));
		if (generation)
			json_object_set_new(request, "generation", json_string(generation));
		err = control_request(&p->mount, request, CONTROL_ASK_MS, answer, NULL, NULL, e);
	}
	/* A daemon that does not answer in time exists, and knows better. */
	if (err && err != -ETIMEDOUT && p->on_backing) {
		*answer = look_at_backing(p);
		return 0;
	}
	return err;
}

/* --- failures --- */

int fail_verb(bool json, int err, const char *text)
{
	json_t *o;

	complain(text);
	if (!json)
		return EXIT_NO;
	o = json_pack("{s:b, s:o}", "ok", 0, "error", error_to_json(err, text));
	put_json(o);
	json_decref(o);
	return EXIT_NO;
}

json_t *error_to_json(int err, const char *text)
{
	const char *code = strerrorname_np(err < 0 ? -err : err);

	return json_pack("{s:s, s:o}", "code", code ? code : "EIO", "message", json_text(text));
}
