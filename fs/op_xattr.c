/* SPDX-License-Identifier: MIT */
/* Handlers for extended attributes: the backing's, but for user.ckptfs.*. They take no lock. */
#include <errno.h>
#include <string.h>

#include "engine/backing/backing.h"
#include "engine/base/cleanup.h"
#include "engine/base/message.h"
#include "engine/commit/report.h"
#include "engine/content/content.h"
#include "engine/content/recorded.h"
#include "engine/format/commit.h"
#include "engine/format/digest_record.h"
#include "engine/gen/state.h"
#include "engine/rule/rule.h"
#include "engine/save/checkpoint.h"
#include "fs/control_dir.h"
#include "fs/data.h"
#include "fs/fs.h"
#include "fs/has_commit_file.h"
#include "fs/route.h"
#include "fs/views.h"

/* The node of the request, with a descriptor. False: the error was replied. */
static bool begin(fuse_req_t req, const char *op, fuse_ino_t id, struct caller *c,
		  struct node_fd *nf)
{
	struct fs *fs = req_fs(req);
	struct backing b;
	struct node *n;
	int err;

	*c = req_caller(req);
	if (control_is(id) || views_is(id)) {
		fuse_reply_err(req, EOPNOTSUPP);
		return false;
	}
	n = req_node(req, id);
	if (!n)
		return false;
	b = fs_as(fs, c);
	err = tree_fd(fs->tree, &b, n, nf);
	node_put(fs->tree, n); /* the descriptor keeps the node */
	if (err)
		reply_result(req, op, id, NULL, err);
	return !err;
}

/* Replies a value, or with @size 0 only its length. */
static void reply_value(fuse_req_t req, const char *op, fuse_ino_t id, ssize_t len, size_t size,
			const char *buf)
{
	if (len < 0)
		reply_result(req, op, id, NULL, (int)len);
	else if (!size)
		fuse_reply_xattr(req, (size_t)len);
	else
		fuse_reply_buf(req, buf, (size_t)len);
}

/* True for ACLs. If they are "not supported", the kernel's access check refuses the access. */
static bool is_acl(const char *name)
{
	return !strncmp(name, "system.posix_acl_", strlen("system.posix_acl_"));
}

/*
 * True for the names of ckptfs. The engine answers .state and .error of a file or checkpoint; the
 * backing has the digest. None is listed, so that a copy of a file does not claim to be it, and no
 * program can set one.
 */
static bool is_ours(const char *name)
{
	return !strncmp(name, "user.ckptfs.", strlen("user.ckptfs."));
}

/*
 * True if a directory above @n is a committed checkpoint. @name: gets the name of @n, or "" if @n
 * has none any more.
 */
static bool is_committed_part(struct fs *fs, const struct caller *c, struct node *n,
			      char name[NAME_MAX + 1])
{
	char ignored[NAME_MAX + 1];
	struct node *dir, *above;
	bool found = false, more;

	*name = '\0';
	for (more = tree_place(fs->tree, n, &dir, name); more; dir = above) {
		found = has_commit_file(fs, c, dir) == 1;
		more = !found && tree_place(fs->tree, dir, &above, ignored);
		node_put(fs->tree, dir);
	}
	return found;
}

/*
 * True if @n is a file of a checkpoint that is not committed. Sets *@state, and @reason if that
 * checkpoint failed.
 */
static bool is_open_part(struct fs *fs, struct node *n, enum generation_state *state, char *reason)
{
	struct units *us = fs->engine->units;
	struct inode_id id = node_inode(n);
	char rel[PATH_MAX];
	struct checkpoint *cp = tree_checkpoint(fs->tree, n, NULL, rel, sizeof(rel));
	bool open = cp && (!checkpoint_state_of(us, checkpoint_id(cp), state, reason) ||
			   *state < GENERATION_COMMITTED);
	bool failed = cp && !open && *state == GENERATION_FAILED;

	if (open)
		*state = checkpoints_have_durable(us, &id) ? GENERATION_DURABLE : GENERATION_OPEN;
	checkpoint_put(cp);
	return open || failed;
}

/* The state of a file. @reason: gets why it failed, or "". */
static const char *state_of_file(struct fs *fs, const struct caller *c, struct node *n, int fd,
				 char *reason)
{
	struct backing b = fs_as(fs, c);
	struct inode_id id = node_inode(n);
	enum generation_state state;
	char name[NAME_MAX + 1];
	ssize_t len;

	if (units_state_of(fs->engine->units, &id, &state, reason) ||
	    is_open_part(fs, n, &state, reason))
		return generation_state_name(state);
	len = recorded_get(&b, fd, NULL, 0);
	if (len > 0 || is_committed_part(fs, c, n, name))
		return generation_state_name(GENERATION_COMMITTED);
	return rules_single(fs->engine->rules, name) ? "foreign" : "ordinary";
}

/* As state_of_file, for a directory; NULL: it is no checkpoint. */
static const char *state_of_directory(struct fs *fs, const struct caller *c, const struct node *n,
				      int fd, char *reason)
{
	struct backing b = fs_as(fs, c);
	struct inode_id id = node_inode(n);
	enum generation_state state;
	struct statx stx;

	if (checkpoint_state_of(fs->engine->units, &id, &state, reason))
		return generation_state_name(state);
	if (!backing_stat_at(&b, fd, COMMIT_FILE, &stx))
		return generation_state_name(GENERATION_COMMITTED);
	return NULL;
}

/* Answers .state and .error. -ENOTSUP: it is neither. */
static ssize_t get_ours(struct fs *fs, const struct caller *c, struct node *n, int fd,
			const char *name, char *buf, size_t size)
{
	bool is_state = !strcmp(name, "user.ckptfs.state");
	char reason[MESSAGE_MAX] = "";
	const char *value;
	size_t len;

	if ((!S_ISREG(n->type) && !S_ISDIR(n->type)) || !fs->engine->units ||
	    (!is_state && strcmp(name, "user.ckptfs.error")))
		return -ENOTSUP;
	value = S_ISDIR(n->type) ? state_of_directory(fs, c, n, fd, reason)
				 : state_of_file(fs, c, n, fd, reason);
	if (value && !is_state)
		value = *reason ? reason : NULL;
	if (!value)
		return -ENODATA;
	len = strlen(value);
	if (size && len > size)
		return -ERANGE;
	if (size)
		memcpy(buf, value, len);
	return (ssize_t)len;
}

/* replies: buf, xattr, error */
static void op_getxattr(fuse_req_t req, fuse_ino_t id, const char *name, size_t size)
{
	struct fs *fs = req_fs(req);
	struct node_fd nf;
	struct caller c;
	struct backing b;
	char *buf = requests_data_buffer();
	char key[XATTR_NAME_MAX + 1];
	ssize_t len;

	if ((control_is(id) || views_is(id)) && is_acl(name)) {
		fuse_reply_err(req, ENODATA);
		return;
	}
	if (!begin(req, "getxattr", id, &c, &nf))
		return;
	b = fs_as(fs, &c);
	/* The name lies in the message, which the buffer may overwrite. */
	snprintf(key, sizeof(key), "%s", name);
	if (size > REQUEST_MAX_BYTES)
		size = REQUEST_MAX_BYTES;
	len = get_ours(fs, &c, nf.node, nf.fd, key, buf, size);
	if (len == -ENOTSUP && !strcmp(key, DIGEST_XATTR))
		len = recorded_get(&b, nf.fd, buf, size);
	else if (len == -ENOTSUP)
		len = backing_getxattr(&b, nf.fd, key, buf, size);
	/* To the kernel's permission check, a backing without ACLs is a file without one. */
	if (len == -EOPNOTSUPP && is_acl(key))
		len = -ENODATA;
	reply_value(req, "getxattr", id, len, size, buf);
	tree_fd_put(fs->tree, &nf);
}

/* Removes the names of ckptfs and, if @trusted, trusted ones from @buf. Returns the new length. */
static ssize_t hide_some(char *buf, ssize_t len, bool trusted)
{
	ssize_t in = 0, out = 0;

	while (in < len) {
		ssize_t n = (ssize_t)strnlen(buf + in, (size_t)(len - in)) + 1;

		if (!is_ours(buf + in) && !(trusted && !strncmp(buf + in, "trusted.", 8))) {
			memmove(buf + out, buf + in, (size_t)n);
			out += n;
		}
		in += n;
	}
	return out;
}

/* replies: buf, xattr, error */
static void op_listxattr(fuse_req_t req, fuse_ino_t id, size_t size)
{
	struct fs *fs = req_fs(req);
	struct node_fd nf;
	struct caller c;
	struct backing b;
	char *buf = requests_data_buffer();
	ssize_t len;

	if (!begin(req, "listxattr", id, &c, &nf))
		return;
	b = fs_as(fs, &c);
	len = backing_listxattr(&b, nf.fd, buf, XATTR_LIST_MAX);
	/* The backing judged by the daemon's capabilities, which fsuid does not lower. */
	if (len > 0)
		len = hide_some(buf, len, c.uid != 0);
	if (size && len > (ssize_t)size)
		len = -ERANGE;
	reply_value(req, "listxattr", id, len, size, buf);
	tree_fd_put(fs->tree, &nf);
}

static int set_as(struct fs *fs, const struct caller *c, int fd, const char *name,
		  const void *value, size_t size, int flags)
{
	struct backing b = fs_as(fs, c);

	if (is_ours(name))
		return 0; /* `cp -a` brings them along */
	/* A caller that is not in the file's group loses S_ISGID by this, without an error. */
	b.who.groups = !strcmp(name, "system.posix_acl_access");
	return backing_setxattr(&b, fd, name, value, size, flags);
}

/* replies: error */
static void op_setxattr(fuse_req_t req, fuse_ino_t id, const char *name, const char *value,
			size_t size, int flags)
{
	struct fs *fs = req_fs(req);
	struct generation *g;
	struct node_fd nf;
	struct caller c;
	int err;

	if (!begin(req, "setxattr", id, &c, &nf))
		return;
	err = route_begin_change(fs, &c, nf.fd, &g);
	if (!err) {
		err = set_as(fs, &c, nf.fd, name, value, size, flags);
		route_end_change(g);
	}
	reply_result(req, "setxattr", id, NULL, err);
	tree_fd_put(fs->tree, &nf);
}

/* replies: error */
static void op_removexattr(fuse_req_t req, fuse_ino_t id, const char *name)
{
	struct fs *fs = req_fs(req);
	struct generation *g;
	struct node_fd nf;
	struct caller c;
	int err;

	if (!begin(req, "removexattr", id, &c, &nf))
		return;
	err = route_begin_change(fs, &c, nf.fd, &g);
	if (!err) {
		struct backing b = fs_as(fs, &c);

		err = backing_removexattr(&b, nf.fd, name);
		route_end_change(g);
	}
	reply_result(req, "removexattr", id, NULL, err);
	tree_fd_put(fs->tree, &nf);
}

void ops_xattr(struct fuse_lowlevel_ops *ops)
{
	ops->getxattr = op_getxattr;
	ops->listxattr = op_listxattr;
	ops->setxattr = op_setxattr;
	ops->removexattr = op_removexattr;
}
