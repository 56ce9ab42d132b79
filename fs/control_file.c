/* SPDX-License-Identifier: MIT */
#include "fs/control_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "engine/backing/backing.h"
#include "engine/base/cleanup.h"
#include "engine/base/json.h"
#include "engine/base/message.h"
#include "engine/cluster/fail.h"
#include "engine/commit/report.h"
#include "engine/content/content.h"
#include "engine/content/recorded.h"
#include "engine/format/commit.h"
#include "engine/format/digest_record.h"
#include "engine/names/names.h"
#include "engine/rule/rule.h"
#include "fs/foreign.h"

/* What a walk passed through. */
struct way {
	bool inside;	/* a checkpoint that is not committed yet */
	bool committed; /* a committed checkpoint */
};

/* Pins the directory @name in @dir: of the checkpoint that the name shows, or the backing's. */
static int step(struct fs *fs, const struct caller *c, int dir, const char *name, struct way *way)
{
	struct backing b = fs_as(fs, c);
	struct checkpoint *cp;
	struct inode_id id;
	struct statx stx;
	int fd;

	if (!backing_name_ok(name))
		return -EINVAL;
	if (backing_stat(&b, dir, &stx))
		return backing_pin(&b, dir, name);
	id = inode_id_of(&stx);
	cp = names_checkpoint(fs->engine->units, &id, name);
	if (!cp)
		return backing_pin(&b, dir, name);
	way->inside = true;
	fd = backing_dup(&b, checkpoint_fd(cp));
	checkpoint_put(cp);
	return fd;
}

/* Walks to the parent of @path's last component; @name gets that component. A pin or -errno. */
static int walk(struct fs *fs, const struct caller *c, const char *path, char name[NAME_MAX + 1],
		struct way *way)
{
	struct backing b = fs_as(fs, c);
	int dir = backing_dup(&b, b.root_fd);
	struct statx stx;

	*way = (struct way){false};
	if (dir < 0)
		return dir;
	for (;;) {
		size_t len;
		int next;

		path += strspn(path, "/");
		len = strcspn(path, "/");
		if (len > NAME_MAX) {
			close(dir);
			return -ENAMETOOLONG;
		}
		memcpy(name, path, len);
		name[len] = '\0';
		path += len;
		if (!*(path + strspn(path, "/")))
			return dir;
		next = step(fs, c, dir, name, way);
		close(dir);
		if (next < 0)
			return next;
		if (!backing_stat_at(&b, next, COMMIT_FILE, &stx))
			way->committed = true;
		dir = next;
	}
}

/* "absent": nothing has the name. "unreadable": whether something has it cannot be known. */
static json_t *failure(const char *path, int err)
{
	const char *kind = err == -ENOENT || err == -ENOTDIR ? "absent" : "unreadable";

	return json_pack("{s:s, s:o, s:s, s:s}", "kind", kind, "path", json_text(path), "state",
			 kind, "reason", strerror(-err));
}

/*
 * The state of a file that has its name on the backing, from its digest record. NULL: no
 * checkpoint. A valid record counts also where no rule claims the file: a rule claimed the
 * temporary name under which the file was saved.
 */
static const char *recorded_state(struct fs *fs, struct backing *b, const char *path, int pin,
				  const struct statx *stx, bool *modified)
{
	ssize_t len = pin < 0 ? pin : recorded_get(b, pin, NULL, 0);
	bool any = len != -ENODATA && len != -EOPNOTSUPP; /* or it cannot be read */
	char hex[DIGEST_HEX];

	*modified = len > 0 && !recorded_valid(b, pin, stx, hex);
	if (!rules_single(fs->engine->rules, path))
		return len > 0 && !*modified ? "committed" : NULL;
	return any ? "committed" : "foreign";
}

/* Describes a file that has its name on the backing, and no generation known here. */
static json_t *plain(struct fs *fs, const struct caller *c, const char *path, int dir,
		     const char *name, const struct statx *stx)
{
	bool link = S_ISLNK(stx->stx_mode);
	struct backing b = fs_as(fs, c);
	struct inode_id id = inode_id_of(stx);
	struct content *ct = fs->engine->contents ? content_find(fs->engine->contents, &id) : NULL;
	uint64_t dirty = ct ? content_dirty_bytes(ct) : 0;
	__cleanup_fd int pin = backing_pin(&b, dir, name);
	const char *state;
	bool modified;

	state = recorded_state(fs, &b, path, pin, stx, &modified);
	content_put(ct);
	if (link || rules_is_pointer(fs->engine->rules, name))
		return json_pack("{s:s, s:o, s:s, s:b}", "kind", "pointer", "path", json_text(path),
				 "state", "committed", "link", link);
	return json_pack("{s:s, s:o, s:s, s:b, s:b, s:I, s:I}", "kind", state ? "unit" : "file",
			 "path", json_text(path), "state", state ? state : "ordinary", "foreign",
			 state && !strcmp(state, "foreign"), "modified", modified, "size",
			 (json_int_t)stx->stx_size, "dirty_bytes", (json_int_t)dirty);
}

/* Describes a file or directory of a checkpoint. */
static json_t *part(struct fs *fs, const char *path, const struct way *way, const struct statx *stx)
{
	struct inode_id id = inode_id_of(stx);
	bool file = S_ISREG(stx->stx_mode) && fs->engine->units;
	json_t *o = file ? units_describe_inode(fs->engine->units, &id) : NULL;
	const char *state = "open", *waits_for = "the commit of its checkpoint";

	if (!o && !way->inside) {
		state = "committed";
		waits_for = NULL;
	} else if (!o && checkpoints_have_durable(fs->engine->units, &id)) {
		state = "durable";
	} else if (!o && S_ISREG(stx->stx_mode)) {
		waits_for = "the commit of its checkpoint; another node writes it, or a program "
			    "copied it there";
	}
	if (!o)
		o = json_pack("{s:o, s:s, s:I, s:I, s:s*}", "path", json_text(path), "state", state,
			      "size", (json_int_t)stx->stx_size, "dirty_bytes", (json_int_t)0,
			      "waits_for", waits_for);
	json_object_set_new(o, "kind", json_string("part"));
	return o;
}

/*
 * Describes a directory of the backing; a committed unit has a commit file. Asks the servers, since
 * another node may have published it a moment ago.
 */
static json_t *directory(struct fs *fs, const struct caller *c, const char *path, int dir,
			 const char *name)
{
	struct backing b = fs_as(fs, c);
	struct units *us = fs->engine->units;
	struct backing shared =
		us && accord_has_others(us) ? accord_backing(us, NULL, c) : fs_as(fs, c);
	__cleanup_fd int pin = backing_pin_now(&shared, dir, name);
	const struct rule *rule;
	__cleanup_fd int list = -1;
	struct statx stx;

	if (pin == -ESTALE || pin == -EINTR)
		return failure(path, -ENOENT); /* what has the name is not known yet */
	if (pin >= 0 && !backing_stat_at(&b, pin, COMMIT_FILE, &stx))
		return json_pack("{s:s, s:o, s:s, s:b}", "kind", "unit", "path", json_text(path),
				 "state", "committed", "directory", 1);
	list = pin < 0 ? pin : backing_reopen(&b, pin, O_RDONLY | O_DIRECTORY);
	rule = list < 0 ? NULL : foreign_rule(fs->engine->rules, path, list);
	if (!rule)
		return json_pack("{s:s, s:o, s:b}", "kind", "directory", "path", json_text(path),
				 "undecided",
				 rules_suggest(fs->engine->rules, path) ||
					 (list >= 0 && foreign_is_empty(list)));
	return json_pack("{s:s, s:o, s:s, s:b, s:b, s:s}", "kind", "unit", "path", json_text(path),
			 "state", "foreign", "foreign", 1, "directory", 1, "rule", rule->name);
}

json_t *control_file(struct fs *fs, const struct caller *c, const char *path,
		     const char *generation)
{
	struct backing b = fs_as(fs, c);
	char name[NAME_MAX + 1];
	struct way way;
	__cleanup_fd int dir = walk(fs, c, path += strspn(path, "/"), name, &way);
	struct statx at, stx;
	struct inode_id dir_id;
	json_t *o = NULL;
	bool may = c->uid == 0 || c->uid == geteuid();
	int err;

	if (dir < 0)
		return failure(path, dir);
	if (!*name)
		return json_pack("{s:s, s:o}", "kind", "directory", "path", json_text(path));
	err = backing_stat(&b, dir, &at);
	if (!err)
		err = backing_stat_at(&b, dir, name, &stx);
	if (err == -EACCES || err == -EPERM)
		return failure(path, err);
	if (!err && (way.inside || way.committed) && !S_ISLNK(stx.stx_mode))
		o = part(fs, path, &way, &stx);
	dir_id = inode_id_of(&at);
	if (!o && fs->engine->units) {
		o = units_describe(fs->engine->units, &dir_id, name, generation);
		if (o && !may && json_get_int(o, "uid", -1) != c->uid)
			json_object_del(o, "failure");
		/* An ended one counts if it failed, was asked for, or explains an absence. */
		if (o && !generation && !err && strcmp(json_get_text(o, "state", ""), "failed") &&
		    json_object_get(o, "ended_s")) {
			json_decref(o);
			o = NULL;
		}
		if (o)
			json_object_set_new(o, "kind", json_string("unit"));
		/*
		 * No caller has to wait for a provisional one in particular: its first file may
		 * turn it into something else.
		 */
		if (o && json_object_get(o, "directory") && !*json_get_text(o, "rule", "?") &&
		    !json_is_true(json_object_get(o, "replaces")))
			json_object_del(o, "generation");
	}
	if (!o && !err && S_ISDIR(stx.stx_mode))
		o = directory(fs, c, path, dir, name);
	else if (!o)
		o = err ? failure(path, err) : plain(fs, c, path, dir, name, &stx);
	return o;
}

enum ckptfs_state control_state(const json_t *file)
{
	const char *state = json_get_text(file, "state", ""),
		   *kind = json_get_text(file, "kind", "");

	if (!strcmp(kind, "absent") || !strcmp(state, "removed") ||
	    json_is_true(json_object_get(file, "undecided")))
		return CKPTFS_ABSENT;
	if (!strcmp(kind, "unreadable") || !strcmp(kind, "directory") || !strcmp(kind, "file"))
		return CKPTFS_NEVER;
	if (!strcmp(state, "foreign"))
		return CKPTFS_NEVER;
	if (!strcmp(state, "committed"))
		return CKPTFS_COMMITTED;
	if (!strcmp(state, "durable"))
		return CKPTFS_DURABLE;
	if (!strcmp(state, "sealed"))
		return json_object_get(file, "promised_bytes") ? CKPTFS_OPEN : CKPTFS_CAPTURED;
	if (!strcmp(state, "failed") || !strcmp(state, "dropped"))
		return CKPTFS_FAILED;
	return CKPTFS_OPEN;
}

const char *control_reason(const json_t *file)
{
	if (!strcmp(json_get_text(file, "state", ""), "removed"))
		return "it was removed, and is not saved anew yet";
	if (json_is_true(json_object_get(file, "undecided")))
		return "no file in it makes it a checkpoint yet";
	if (!strcmp(json_get_text(file, "kind", ""), "directory"))
		return "it is a directory that no rule claims, which is never committed";
	if (!strcmp(json_get_text(file, "kind", ""), "file"))
		return "it is an ordinary file: no rule claims this name, so nothing is committed";
	if (!strcmp(json_get_text(file, "state", ""), "foreign"))
		return "it was not saved through a mount: it has no digest, and nothing vouches "
		       "for it";
	if (!strcmp(json_get_text(file, "state", ""), "dropped"))
		return "it was removed, or replaced by a later save, before it was committed";
	if (json_object_get(file, "failure"))
		return json_get_text(file, "failure", "");
	if (!strcmp(json_get_text(file, "kind", ""), "unreadable"))
		return json_get_text(file, "reason", "it cannot be looked at");
	return json_get_text(file, "waits_for", "it does not exist yet");
}

/* The checkpoint that the last component of @path shows, referenced, or NULL. */
static struct checkpoint *find_checkpoint(struct fs *fs, const struct caller *c, const char *path)
{
	struct backing b = fs_for(fs, c);
	char name[NAME_MAX + 1];
	struct inode_id id;
	struct statx stx;
	struct way way;
	__cleanup_fd int dir = walk(fs, c, path + strspn(path, "/"), name, &way);

	if (dir < 0 || backing_stat(&b, dir, &stx))
		return NULL;
	id = inode_id_of(&stx);
	return names_checkpoint(fs->engine->units, &id, name);
}

json_t *control_commit(struct fs *fs, const struct caller *c, const char *path, bool abandon)
{
	struct checkpoint *cp = find_checkpoint(fs, c, path);
	char text[MESSAGE_MAX];
	struct error e;
	int err = 0;

	if (!cp) {
		err = FAIL(&e, ENOENT, COMMIT_NOTHING, path);
	} else if (c->uid && c->uid != geteuid() && c->uid != checkpoint_owner(cp)->uid) {
		err = FAIL(&e, EPERM, COMMIT_DENIED, path, (unsigned)checkpoint_owner(cp)->uid);
	} else if (abandon) {
		MESSAGE(text, CHECKPOINT_ABANDONED, path, (unsigned)c->uid, path);
		checkpoint_fail(cp, -ECANCELED, text);
	} else if (checkpoint_ask(cp)) {
		err = FAIL(&e, ENODATA, COMMIT_EMPTY, path);
	}
	checkpoint_put(cp);
	if (err)
		return json_pack("{s:s, s:i, s:o}", "error", strerrorname_np(e.err), "errno", e.err,
				 "message", json_text(e.text));
	return json_object();
}
