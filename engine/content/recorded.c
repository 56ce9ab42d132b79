/* SPDX-License-Identifier: MIT */
#include "engine/content/recorded.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/format/format.h"

/* True if the record @text names the size and the time of change in *@stx. */
static bool is_record_of(const char *text, ssize_t len, const struct statx *stx,
			 char hex[DIGEST_HEX])
{
	uint64_t size, mtime_ns;

	return len > 0 && !digest_record_parse(text, (size_t)len, hex, &size, &mtime_ns) &&
	       size == stx->stx_size &&
	       mtime_ns == (uint64_t)stx->stx_mtime.tv_sec * NSEC_PER_SEC + stx->stx_mtime.tv_nsec;
}

/* --- record files --- */

static bool has_record_files(const struct backing *b)
{
	return !feature(b->features, FEATURE_XATTR) && !feature_untried(b->features, FEATURE_XATTR);
}

static bool is_trusted(const struct statx *stx, uid_t owner, mode_t type)
{
	return (stx->stx_mode & S_IFMT) == type && (stx->stx_uid == owner || stx->stx_uid == 0);
}

/* A pin of the directory of all records, or -errno. @make: make it if it is missing. */
static int pin_all(struct backing *b, bool make)
{
	__cleanup_fd int top = backing_pin(b, b->root_fd, FORMAT_DIR);

	if (top >= 0 && make)
		backing_mkdir(b, top, FORMAT_DIGESTS, 01777);
	return top < 0 ? top : backing_pin(b, top, FORMAT_DIGESTS);
}

/* A pin of the directory of the records of @owner, or -errno. */
static int pin_dir(struct backing *b, uid_t owner)
{
	__cleanup_fd int all = pin_all(b, false), pin = -1;
	struct statx stx;
	char name[DIGEST_FILE_MAX];
	int err;

	digest_file_dir(name, owner);
	pin = all < 0 ? all : backing_pin(b, all, name);
	err = pin < 0 ? pin : backing_stat(b, pin, &stx);
	if (!err && !is_trusted(&stx, owner, S_IFDIR))
		err = -EPERM;
	return err ? err : take_fd(&pin);
}

/*
 * Makes that directory for the owner of the file *@of, as the daemon, and moves away what another
 * user has put in its place. The owner makes it. So the daemon changes the ownership of no
 * directory that another user may have moved there.
 */
static void make_dir(struct backing *b, const struct statx *of)
{
	struct caller owner = {.uid = of->stx_uid, .gid = of->stx_gid, .pid = NO_PROCESS};
	__cleanup_fd int all = pin_all(b, true);
	struct backing as = backing_as(b, &owner);
	char name[DIGEST_FILE_MAX], aside[48];
	struct statx stx;
	int err;

	if (all < 0)
		return;
	digest_file_dir(name, owner.uid);
	if (!backing_stat_at(b, all, name, &stx) && !is_trusted(&stx, owner.uid, S_IFDIR)) {
		snprintf(aside, sizeof(aside), "%s-%llx", name,
			 (unsigned long long)clock_wall_ns());
		backing_rename(b, all, name, all, aside, 0);
	}
	err = backing_mkdir(&as, all, name, 0755);
	if (err && err != -EEXIST)
		backing_mkdir(b, all, name, 0755);
}

static ssize_t get_file(struct backing *b, const struct statx *of, char *buf, size_t size)
{
	char name[DIGEST_FILE_MAX], text[DIGEST_FILE_TEXT_MAX];
	__cleanup_fd int dir = pin_dir(b, of->stx_uid), pin = -1, file = -1;
	struct statx stx;
	ssize_t len;

	if (dir < 0)
		return -ENODATA;
	digest_file_name(name, of->stx_ino);
	pin = backing_pin(b, dir, name);
	if (pin < 0 || backing_stat(b, pin, &stx) || !is_trusted(&stx, of->stx_uid, S_IFREG) ||
	    stx.stx_size >= sizeof(text))
		return -ENODATA;
	file = backing_reopen(b, pin, O_RDONLY);
	len = file < 0 ? file : backing_read(b, file, text, sizeof(text), 0);
	len = len < 0 ? len : digest_file_check(text, (size_t)len);
	if (len < 0)
		return -ENODATA;
	if (size && (size_t)len > size)
		return -ERANGE;
	if (size)
		memcpy(buf, text, (size_t)len);
	return len;
}

/* Gives the new record @file to the owner and the group of the file *@of. */
static int give(struct backing *b, int file, const struct statx *of)
{
	struct statx stx;
	int err = backing_stat(b, file, &stx);

	if (err || (stx.stx_uid == of->stx_uid && stx.stx_gid == of->stx_gid) ||
	    !backing_chown(b, file, of->stx_uid, of->stx_gid))
		return err;
	if (!is_trusted(&stx, of->stx_uid, S_IFREG))
		return -EPERM;
	return backing_chmod(b, file, 0600 | (of->stx_mode & 0404)); /* another group */
}

/* Returns 0, or -errno: nothing was recorded. */
static int put_file(struct backing *b, const struct statx *of, const char *text)
{
	char name[DIGEST_FILE_MAX], line[DIGEST_FILE_TEXT_MAX];
	__cleanup_fd int dir = pin_dir(b, of->stx_uid), file = -1;
	bool created;
	int len = snprintf(line, sizeof(line), "%s\n", text), err;

	if (dir < 0)
		return dir;
	digest_file_name(name, of->stx_ino);
	backing_unlink(b, dir, name, false); /* of a former file with that inode */
	file = backing_create(b, dir, name, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW,
			      0600 | (of->stx_mode & 0444), &created);
	if (file < 0)
		return file;
	err = give(b, file, of);
	if (!err && backing_write(b, file, line, (size_t)len, 0, 0) != len)
		err = -EIO;
	if (!err)
		err = backing_sync(b, file, false);
	if (err)
		backing_unlink(b, dir, name, false);
	return err;
}

static void unlink_file(struct backing *b, const struct statx *of)
{
	__cleanup_fd int dir = pin_dir(b, of->stx_uid);
	char name[DIGEST_FILE_MAX];

	digest_file_name(name, of->stx_ino);
	if (dir >= 0)
		backing_unlink(b, dir, name, false);
}

/* --- in both places --- */

ssize_t recorded_get(struct backing *b, int fd, char *buf, size_t size)
{
	ssize_t len = backing_getxattr(b, fd, DIGEST_XATTR, buf, size);
	struct statx stx;

	if (len != -EOPNOTSUPP)
		return len;
	len = backing_stat(b, fd, &stx);
	return len ? len : get_file(b, &stx, buf, size);
}

bool recorded_valid(struct backing *b, int fd, const struct statx *stx, char hex[DIGEST_HEX])
{
	char record[DIGEST_RECORD_MAX];

	return is_record_of(record, recorded_get(b, fd, record, sizeof(record)), stx, hex);
}

int recorded_put(struct backing *b, const struct caller *owner, int fd, const char *text, bool file)
{
	int err = backing_setxattr(b, fd, DIGEST_XATTR, text, strlen(text), 0);
	struct statx of;

	if (err == -EOPNOTSUPP && file && !backing_stat(b, fd, &of)) {
		struct backing daemon = backing_for(b, owner), as = backing_as(b, owner);

		err = put_file(&daemon, &of, text); /* root can give the record to any group */
		if (err) {
			make_dir(&daemon, &of);
			err = put_file(&daemon, &of, text);
		}
		if (err) /* a backing with root_squash; if this fails too, there is no record */
			put_file(&as, &of, text);
		return 0;
	}
	return err == -EOPNOTSUPP || err == -EPERM || err == -EACCES ? 0 : err;
}

void recorded_drop(struct backing *b, int fd)
{
	struct statx stx;

	if (backing_getxattr(b, fd, DIGEST_XATTR, NULL, 0) > 0) {
		backing_removexattr(b, fd, DIGEST_XATTR);
	} else if (has_record_files(b) && !backing_stat(b, fd, &stx) && S_ISREG(stx.stx_mode)) {
		struct backing daemon =
			backing_daemon(b); /* another user may be changing the file */

		unlink_file(&daemon, &stx);
	}
}

int recorded_hold(struct backing *b, int dir, const char *name, struct statx *stx)
{
	__cleanup_fd int pin = -1;
	int err;

	if (!has_record_files(b))
		return -ENODATA;
	pin = backing_pin(b, dir, name);
	err = pin < 0 ? pin : backing_stat(b, pin, stx);
	if (err)
		return err;
	return S_ISREG(stx->stx_mode) && stx->stx_nlink == 1 ? take_fd(&pin) : -ENODATA;
}

void recorded_forget(struct backing *b, const struct statx *stx)
{
	char text[DIGEST_RECORD_MAX], hex[DIGEST_HEX];

	if (is_record_of(text, get_file(b, stx, text, sizeof(text)), stx, hex))
		unlink_file(b, stx);
}
