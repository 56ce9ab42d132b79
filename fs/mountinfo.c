/* SPDX-License-Identifier: MIT */
#include "fs/mountinfo.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/ckptfs_abi.h"
#include "engine/base/cleanup.h"

/* mountinfo writes space, tab, newline and backslash as \ooo. */
static void unescape(char *s)
{
	char *out = s;

	while (*s) {
		unsigned octal;

		if (*s == '\\' && sscanf(s + 1, "%3o", &octal) == 1 && strlen(s) >= 4) {
			*out++ = (char)octal;
			s += 4;
		} else {
			*out++ = *s++;
		}
	}
	*out = '\0';
}

static void copy_field(char *to, size_t size, char *from)
{
	if (from)
		unescape(from);
	snprintf(to, size, "%s", from ? from : "");
}

/* True if @list, which commas separate, contains @wanted. */
static bool has_word(const char *list, const char *wanted)
{
	size_t len = strlen(wanted);

	for (; list; list = strchr(list, ',')) {
		list += *list == ',';
		if (!strncmp(list, wanted, len) && (list[len] == ',' || !list[len]))
			return true;
	}
	return false;
}

/* One line: id parent maj:min root point options [tags] - type source superoptions */
static bool parse_line(char *line, struct mount_entry *m)
{
	char *rest = strstr(line, " - "), *save = NULL, *options, *user, *point, *own;
	int i;

	if (!rest)
		return false;
	*rest = '\0';
	for (i = 0, point = strtok_r(line, " ", &save); point && i < 4; i++) {
		if (i == 2 && sscanf(point, "%u:%u", &m->major, &m->minor) != 2)
			return false;
		if (i == 3)
			copy_field(m->root, sizeof(m->root), point);
		point = strtok_r(NULL, " ", &save);
	}
	own = strtok_r(NULL, " ", &save);
	if (!point || !own)
		return false;
	m->no_exec = has_word(own, "noexec");
	m->no_atime = has_word(own, "noatime");
	copy_field(m->path, sizeof(m->path), point);
	copy_field(m->type, sizeof(m->type), strtok_r(rest + 3, " ", &save));
	copy_field(m->source, sizeof(m->source), strtok_r(NULL, " ", &save));
	options = strtok_r(NULL, " \n", &save);
	m->read_only = has_word(own, "ro") || (options && has_word(options, "ro"));
	m->allow_other = options && has_word(options, "allow_other");
	user = options ? strstr(options, "user_id=") : NULL;
	m->user = user ? (uid_t)strtoul(user + 8, NULL, 10) : 0;
	return true;
}

static bool is_below(const char *path, const char *top)
{
	size_t len = strlen(top);

	if (!strcmp(top, "/"))
		return true;
	return !strncmp(path, top, len) && (path[len] == '/' || !path[len]);
}

/* Passes the entries to @accept in order; @out is the last that it accepts. */
static bool find_last(bool (*accept)(const struct mount_entry *m, const char *path),
		      const char *path, struct mount_entry *out)
{
	__cleanup_free struct mount_entry *m = calloc(1, sizeof(*m));
	__cleanup_file FILE *f = fopen("/proc/self/mountinfo", "re");
	__cleanup_free char *line = NULL;
	size_t size = 0;
	bool found = false;

	while (f && m && getline(&line, &size, f) > 0) {
		if (!parse_line(line, m) || !accept(m, path))
			continue;
		*out = *m;
		found = true;
	}
	return found;
}

static bool contains(const struct mount_entry *m, const char *path)
{
	return is_below(path, m->path);
}

static bool is_at(const struct mount_entry *m, const char *path)
{
	return !strcmp(path, m->path);
}

static bool is_ckptfs_around(const struct mount_entry *m, const char *path)
{
	return !strcmp(m->type, CKPTFS_FSTYPE) && contains(m, path);
}

bool mountinfo_find_at(const char *path, struct mount_entry *out)
{
	return find_last(is_at, path, out);
}

/* The last mount around the path hides those before it, whatever its kind. */
bool mountinfo_find_ckptfs(const char *path, struct mount_entry *out)
{
	struct mount_entry *deepest = calloc(1, sizeof(*deepest));
	bool found = deepest && find_last(is_ckptfs_around, path, out);

	/* A mount of another kind, over it or inside it around the path, hides it. */
	if (found && find_last(contains, path, deepest) && strcmp(deepest->type, CKPTFS_FSTYPE) &&
	    is_below(deepest->path, out->path))
		found = false;
	free(deepest);
	return found;
}

static bool is_backing_around(const struct mount_entry *m, const char *path)
{
	return !strcmp(m->type, CKPTFS_FSTYPE) && m->source[0] == '/' && is_below(path, m->source);
}

bool mountinfo_find_backing(const char *path, struct mount_entry *out)
{
	return find_last(is_backing_around, path, out);
}

static bool has_device(const struct mount_entry *m, const char *device)
{
	char own[32];

	snprintf(own, sizeof(own), "%u:%u", m->major, m->minor);
	return !strcmp(own, device);
}

bool mountinfo_find_device(unsigned major, unsigned minor, struct mount_entry *out)
{
	char device[32];

	snprintf(device, sizeof(device), "%u:%u", major, minor);
	return find_last(has_device, device, out);
}

void mountinfo_each_ckptfs(void (*each)(void *arg, const struct mount_entry *m), void *arg)
{
	__cleanup_free struct mount_entry *m = calloc(2, sizeof(*m));
	__cleanup_file FILE *f = fopen("/proc/self/mountinfo", "re");
	__cleanup_free char *line = NULL;
	size_t size = 0;

	while (f && m && getline(&line, &size, f) > 0)
		if (parse_line(line, &m[0]) && !strcmp(m[0].type, CKPTFS_FSTYPE) &&
		    mountinfo_find_ckptfs(m[0].path, &m[1]) && m[0].major == m[1].major &&
		    m[0].minor == m[1].minor && !strcmp(m[0].path, m[1].path))
			each(arg, &m[0]);
}

static bool in_ckptfs(const char *path)
{
	__cleanup_free struct mount_entry *m = calloc(1, sizeof(*m));

	return m && mountinfo_find_ckptfs(path, m);
}

/* Appends a component to @path textually: "." adds nothing, ".." removes one. */
static int append(char path[PATH_MAX], const char *name)
{
	char *slash = strrchr(path, '/');
	size_t len = strlen(path);

	if (!*name || !strcmp(name, "."))
		return 0;
	if (!strcmp(name, "..")) {
		*(slash > path ? slash : slash + 1) = '\0';
		return 0;
	}
	if (len + strlen(name) + 2 > PATH_MAX)
		return -ENAMETOOLONG;
	sprintf(path + len, "%s%s", len > 1 ? "/" : "", name);
	return 0;
}

int mountinfo_resolve(const char *path, char out[PATH_MAX])
{
	char rest[2 * PATH_MAX], link[PATH_MAX], next[PATH_MAX];
	int links = 0, err;

	if (!*path)
		return -ENOENT;
	strcpy(out, "/");
	if (path[0] != '/' && !getcwd(next, sizeof(next)))
		return -errno;
	if (snprintf(rest, PATH_MAX, "%s/%s", path[0] == '/' ? "" : next, path) >= PATH_MAX)
		return -ENAMETOOLONG;
	while (*rest) {
		char *end = strchrnul(rest, '/');
		bool more = *end;
		ssize_t n;

		*end = '\0';
		strcpy(next, out);
		err = append(next, rest);
		if (err)
			return err;
		memmove(rest, more ? end + 1 : end, more ? strlen(end + 1) + 1 : 1);
		n = in_ckptfs(next) ? -1 : readlink(next, link, sizeof(link) - 1);
		if (n < 0) {
			strcpy(out, next);
			continue;
		}
		link[n] = '\0';
		if (++links > 40)
			return -ELOOP;
		if (strlen(rest) + (size_t)n + 2 > sizeof(rest))
			return -ENAMETOOLONG;
		memmove(rest + n + 1, rest, strlen(rest) + 1);
		memcpy(rest, link, (size_t)n);
		rest[n] = '/';
		if (link[0] == '/')
			strcpy(out, "/");
	}
	return 0;
}

enum mount_life mountinfo_probe(const char *path, int timeout_ms)
{
	int pipes[2];
	char answer = 0;
	struct pollfd p;
	pid_t child;

	if (pipe(pipes))
		return MOUNT_SILENT;
	child = fork();
	if (child == 0) {
		struct statx stx;

		/* Attributes that the kernel has cached outlive the daemon. */
		answer = !statx(AT_FDCWD, path, AT_STATX_FORCE_SYNC, STATX_BASIC_STATS, &stx) ? 'a'
			 : errno == ENOTCONN || errno == ECONNABORTED			      ? 'd'
											      : 'a';
		_exit(write(pipes[1], &answer, 1) != 1);
	}
	close(pipes[1]);
	p = (struct pollfd){.fd = pipes[0], .events = POLLIN};
	if (child > 0 && poll(&p, 1, timeout_ms) > 0 && read(pipes[0], &answer, 1) != 1)
		answer = 0;
	close(pipes[0]);
	if (child > 0) {
		kill(child, SIGKILL);
		waitpid(child, NULL, answer ? 0 : WNOHANG);
	}
	return answer == 'a' ? MOUNT_ALIVE : answer == 'd' ? MOUNT_DEAD : MOUNT_SILENT;
}
