/* SPDX-License-Identifier: MIT */
#include "fs/control_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/cleanup.h"

/* The directory @name in @dir: that of a checkpoint which shows the name, or the backing's. *@inside: so. */
static int step(struct fs *fs, const struct caller *c, int dir, const char *name, bool *inside)
{
	struct backing *b = &fs->engine->backing;
	struct checkpoint *cp;
	struct inode_id id;
	struct statx stx;
	int fd;

	if (!backing_name_ok(name))
		return -EINVAL;
	if (!fs->engine->units || backing_stat(b, dir, &stx))
		return AS_CALLER(c, backing_pin(b, dir, name));
	id = inode_id_of(&stx);
	cp = checkpoints_find(fs->engine->units, &id, name);
	if (!cp)
		return AS_CALLER(c, backing_pin(b, dir, name));
	*inside = true;
	fd = fcntl(cp->fd, F_DUPFD_CLOEXEC, 0);
	checkpoint_put(cp);
	return fd < 0 ? -errno : fd;
}

/*
 * Walks to the directory that @path's last component is in. Its pin, and that component; or -errno.
 * *@inside: in a checkpoint.
 */
static int walk(struct fs *fs, const struct caller *c, const char *path, char name[NAME_MAX + 1],
		bool *inside)
{
	int dir = fcntl(fs->engine->backing.root_fd, F_DUPFD_CLOEXEC, 0);

	*inside = false;
	if (dir < 0)
		return -errno;
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
		next = step(fs, c, dir, name, inside);
		close(dir);
		if (next < 0)
			return next;
		dir = next;
	}
}

/* There is nothing of that name; or it cannot be known, which is another thing. */
static json_t *failure(const char *path, int err)
{
	const char *kind = err == -ENOENT || err == -ENOTDIR ? "absent" : "unreadable";

	return json_pack("{s:s, s:o, s:s, s:s}", "kind", kind, "path", json_text(path), "state",
			 kind, "reason", strerror(-err));
}

/* A file that has its name on the backing, and no generation that is known. */
static json_t *plain(struct fs *fs, const struct caller *c, const char *path, int dir,
		     const char *name, const struct statx *stx)
{
	struct backing *b = &fs->engine->backing;
	struct inode_id id = inode_id_of(stx);
	struct content *ct = fs->engine->contents ? content_find(fs->engine->contents, &id) : NULL;
	uint64_t dirty = ct ? content_dirty_bytes(ct) : 0;
	bool unit = rules_single(fs->engine->rules, path);
	__cleanup_fd int pin = AS_CALLER(c, backing_pin(b, dir, name));
	bool digest = pin >= 0 && backing_getxattr(b, pin, DIGEST_XATTR, NULL, 0) > 0;

	content_put(ct);
	return json_pack("{s:s, s:o, s:s, s:b, s:I, s:I}", "kind", unit ? "unit" : "file", "path",
			 json_text(path), "state",
			 unit	 ? "committed"
			 : dirty ? "open"
				 : "durable",
			 "foreign", unit && !digest, "size", (json_int_t)stx->stx_size,
			 "dirty_bytes", (json_int_t)dirty);
}

/* One of a checkpoint that is being written. */
static json_t *part(struct fs *fs, const char *path, const struct statx *stx)
{
	struct inode_id id = inode_id_of(stx);
	json_t *o = units_describe_inode(fs->engine->units, &id);

	if (!o)
		o = json_pack("{s:o, s:s, s:I, s:I, s:s}", "path", json_text(path), "state",
			      "durable", "size", (json_int_t)stx->stx_size, "dirty_bytes",
			      (json_int_t)0, "waits_for", "the commit of its checkpoint");
	json_object_set_new(o, "kind", json_string("part"));
	return o;
}

/* A directory of the backing: one that was committed has a commit file. Another node may have given it its name a moment ago. */
static json_t *directory(struct fs *fs, const struct caller *c, const char *path, int dir,
			 const char *name)
{
	struct backing *b = &fs->engine->backing;
	struct units *us = fs->engine->units;
	__cleanup_fd int pin = us && accord_has_others(us)
				       ? fresh_pin(us, NULL, c, dir, name)
				       : AS_CALLER(c, backing_pin(b, dir, name));
	struct statx stx;

	if (pin == -ESTALE || pin == -EINTR)
		return failure(path, -ENOENT); /* what has the name is not known yet */
	if (pin < 0 || AS_CALLER(c, backing_stat_at(b, pin, COMMIT_FILE, &stx)))
		return json_pack("{s:s, s:o}", "kind", "directory", "path", json_text(path));
	return json_pack("{s:s, s:o, s:s, s:b}", "kind", "unit", "path", json_text(path), "state",
			 "committed", "directory", 1);
}

json_t *control_file(struct fs *fs, const struct caller *c, const char *path,
		     const char *generation)
{
	struct backing *b = &fs->engine->backing;
	char name[NAME_MAX + 1];
	bool inside;
	__cleanup_fd int dir = walk(fs, c, path += strspn(path, "/"), name, &inside);
	struct statx at, stx;
	struct inode_id dir_id;
	json_t *o = NULL;
	bool may = c->uid == 0 || c->uid == geteuid();
	int err;

	if (dir < 0) {
		creds_restore();
		return failure(path, dir);
	}
	if (!*name)
		return json_pack("{s:s, s:o}", "kind", "directory", "path", json_text(path));
	err = backing_stat(b, dir, &at);
	if (!err)
		err = AS_CALLER(c, backing_stat_at(b, dir, name, &stx));
	if (err == -EACCES || err == -EPERM) {
		creds_restore();
		return failure(path, err);
	}
	if (!err && inside && S_ISREG(stx.stx_mode))
		o = part(fs, path, &stx);
	dir_id = inode_id_of(&at);
	if (!o && fs->engine->units) {
		o = units_describe(fs->engine->units, &dir_id, name, generation);
		if (o && !may && json_get_int(o, "uid", -1) != c->uid)
			json_object_del(o, "failure");
		/* One that ended is of interest where it is asked for, or why there is none. */
		if (o && !generation && !err && strcmp(json_get_text(o, "state", ""), "failed") &&
		    json_object_get(o, "ended_s")) {
			json_decref(o);
			o = NULL;
		}
		if (o)
			json_object_set_new(o, "kind", json_string("unit"));
	}
	if (!o && !err && S_ISDIR(stx.stx_mode))
		o = directory(fs, c, path, dir, name);
	else if (!o)
		o = err ? failure(path, err) : plain(fs, c, path, dir, name, &stx);
	creds_restore();
	return o;
}

enum ckptfs_state control_state(const json_t *file)
{
	const char *state = json_get_text(file, "state", ""),
		   *kind = json_get_text(file, "kind", "");

	if (!strcmp(kind, "absent") || !strcmp(state, "removed"))
		return CKPTFS_ABSENT;
	if (!strcmp(kind, "unreadable") || !strcmp(kind, "directory"))
		return CKPTFS_NEVER;
	if (!strcmp(state, "committed"))
		return CKPTFS_COMMITTED;
	/* An ordinary file has no commit: it is durable, or being written. */
	if (!strcmp(state, "durable"))
		return !strcmp(kind, "file") ? CKPTFS_COMMITTED : CKPTFS_DURABLE;
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
	if (!strcmp(json_get_text(file, "kind", ""), "directory"))
		return "it is an ordinary directory, which is never committed";
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
	char name[NAME_MAX + 1];
	struct inode_id id;
	struct statx stx;
	bool inside;
	__cleanup_fd int dir = walk(fs, c, path + strspn(path, "/"), name, &inside);

	creds_restore();
	if (dir < 0 || !fs->engine->units || backing_stat(&fs->engine->backing, dir, &stx))
		return NULL;
	id = inode_id_of(&stx);
	return checkpoints_find(fs->engine->units, &id, name);
}

json_t *control_commit(struct fs *fs, const struct caller *c, const char *path, bool abandon)
{
	struct checkpoint *cp = find_checkpoint(fs, c, path);
	char text[MESSAGE_MAX];
	struct error e;
	int err = 0;

	if (!cp) {
		err = FAIL(&e, ENOENT, COMMIT_NOTHING, path);
	} else if (c->uid && c->uid != geteuid() && c->uid != cp->owner.uid) {
		err = FAIL(&e, EPERM, COMMIT_DENIED, path, (unsigned)cp->owner.uid);
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
