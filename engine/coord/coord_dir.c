/* SPDX-License-Identifier: MIT */
/*
 * Records as files on the backing: BACKING/.ckptfs/txn/UID/GEN.KIND. Has no state and no lock.
 *
 * - txn is open to all users, with the sticky bit. Each user makes its own directory UID and the
 *   files in it, for itself alone. What belongs to another user, or is open to others, is not
 *   believed: a user may make any name in txn that is still free.
 * - A record is written under a name of its own, synced, and then linked: the link is made once,
 *   and what it names is whole. Where the backing has no hard links the file itself is made with
 *   O_EXCL. Then it can be there in part, which its first line tells, and stays so if its maker
 *   crashed.
 * - GlusterFS, which spreads names over bricks, makes a hard link in two steps. A node that looks
 *   in between undoes the first step, and another node then makes the same link. A symlink is made
 *   in one step. So on FUSE a record is a symlink to the file with a name of its own.
 * - A network may lose the answer of a link that was made, and its repetition then says EEXIST.
 *   After any answer the file is read, and its content decides.
 * - A listing only finds what to clear up, and no ENOENT is final.
 * - A node may see a link before its maker has synced the directory. A node that believes a record
 *   syncs it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/coord/dir_inside.h"

#define MAGIC	 "ckptfs-record"
#define HEAD_MAX 32
#define FILE_MAX (HEAD_MAX + COORD_TEXT_MAX)

static int trust_file(struct backing *b, int pin, uid_t owner, const char *name)
{
	struct statx stx;
	int err = backing_stat(b, pin, &stx);

	if (err)
		return err;
	if (!S_ISREG(stx.stx_mode))
		return dir_distrust(b, owner, name, "it is no regular file");
	if (stx.stx_uid != owner)
		return dir_distrust(b, owner, name, "it belongs to uid %u", stx.stx_uid);
	if (stx.stx_size > FILE_MAX)
		return dir_distrust(b, owner, name, "it is larger than any record");
	return 0;
}

/* Opens txn/@owner, and makes it if it is missing; then its name is durable. */
static int make_owner(struct backing *b, uid_t owner)
{
	__cleanup_fd int txn = dir_open(b, FORMAT_TXN), dir = -1;
	char name[COORD_UID_MAX];
	int err;

	if (txn < 0)
		return txn;
	coord_uid_name(name, owner);
	err = backing_mkdir(b, txn, name, 0700);
	dir = dir_open_owner_in(b, txn, owner, false); /* whatever mkdir answered */
	if (dir < 0)
		return dir == -ENOENT && err && err != -EEXIST ? err : dir;
	err = backing_sync(b, txn, false); /* its maker may not have synced it yet */
	return err ? err : take_fd(&dir);
}

/* --- a record --- */

static size_t put_head(char head[HEAD_MAX], size_t len)
{
	return (size_t)snprintf(head, HEAD_MAX, MAGIC " %zu\n", len);
}

/*
 * Where the text begins in a file of @n bytes. 0: the file is there in part: what was not written
 * is missing at the end or reads as zeros. -1: it is no record.
 */
static ssize_t text_of(const char *file, size_t n)
{
	char head[HEAD_MAX];
	size_t head_len, len;

	if (memchr(file, '\0', n) || !memchr(file, '\n', n))
		return 0;
	if (sscanf(file, MAGIC " %6zu", &len) != 1 || len > COORD_TEXT_MAX)
		return -1;
	head_len = put_head(head, len);
	if (n < head_len || memcmp(file, head, head_len) || n - head_len > len)
		return -1;
	return n - head_len == len ? (ssize_t)head_len : 0;
}

/* True if @name is @record, a dot and random digits: the own name of its file. */
static bool is_file_of(const char *name, const char *record)
{
	size_t len = strlen(record);

	return dir_before_random(name) == len && !strncmp(name, record, len);
}

/*
 * Where @pin, of the record @name, is a symlink, replaces it by a pin of the file. -EIO: that file
 * is not seen (yet).
 */
static int follow(struct backing *b, int dir, uid_t owner, const char *name, int *pin)
{
	char target[DIR_TMP_NAME_SIZE];
	struct statx stx;
	int len, err = backing_stat(b, *pin, &stx);

	if (err || !S_ISLNK(stx.stx_mode))
		return err;
	if (stx.stx_uid != owner)
		return dir_distrust(b, owner, name, "it belongs to uid %u", stx.stx_uid);
	len = backing_readlink(b, *pin, target, sizeof(target) - 1);
	if (len < 0)
		return len;
	target[len] = '\0';
	if (!is_file_of(target, name))
		return dir_distrust(b, owner, name, "it is a symlink to something else");
	close(*pin);
	*pin = backing_pin(b, dir, target);
	return *pin >= 0 ? 0 : *pin == -ENOENT ? -EIO : *pin;
}

/* Reads all of the file @pin into @file, which has room for FILE_MAX + 1, and makes it durable. */
static ssize_t read_durable(struct backing *b, int dir, int pin, char *file)
{
	__cleanup_fd int fd = backing_reopen(b, pin, O_RDONLY | O_NONBLOCK);
	ssize_t n = fd < 0 ? fd : backing_read(b, fd, file, FILE_MAX, 0);
	int err;

	if (n < 0)
		return n;
	file[n] = '\0';
	err = backing_sync(b, fd, false);
	if (!err)
		err = backing_sync(b, dir, false);
	return err ? err : n;
}

/*
 * Reads the text of a record into @buf. -EBUSY: it is there in part. -ERANGE: it has more than
 * @size bytes.
 */
static ssize_t read_record(struct backing *b, int dir, uid_t owner, const char *name, char *buf,
			   size_t size)
{
	__cleanup_fd int pin = backing_pin(b, dir, name);
	__cleanup_free char *file = malloc(FILE_MAX + 1);
	ssize_t n, at;

	if (pin < 0)
		return pin;
	if (!file)
		return -ENOMEM;
	n = follow(b, dir, owner, name, &pin);
	if (!n)
		n = trust_file(b, pin, owner, name);
	if (!n)
		n = read_durable(b, dir, pin, file);
	if (n < 0)
		return n;
	at = text_of(file, (size_t)n);
	if (at < 0)
		return dir_distrust(b, owner, name, "it is no record of ckptfs");
	if (!at)
		return -EBUSY;
	if ((size_t)(n - at) > size)
		return -ERANGE;
	memcpy(buf, file + at, (size_t)(n - at));
	return n - at;
}

/* Writes @text and syncs it. */
static int fill(struct backing *b, int fd, const char *text, size_t len)
{
	char *file = malloc(HEAD_MAX + len);
	size_t head = file ? put_head(file, len) : 0;
	ssize_t n = -ENOMEM;

	if (file) {
		memcpy(file + head, text, len);
		n = backing_write(b, fd, file, head + len, 0, 0);
		if (n >= 0 && (size_t)n != head + len)
			n = -EIO;
	}
	free(file);
	return n < 0 ? (int)n : backing_sync(b, fd, false);
}

static bool no_links(int err)
{
	return err == -EPERM || err == -EOPNOTSUPP || err == -ENOSYS || err == -EMLINK;
}

/*
 * Makes @name a symlink to @file, which it removes if @name leads to another file. The directory is
 * synced first, so that no crash leaves the symlink without its file.
 */
static int point(struct backing *b, int dir, const char *name, const char *file)
{
	int synced = backing_sync(b, dir, false);
	int err = synced ? synced : backing_symlink(b, file, dir, name);
	__cleanup_fd int pin = err == -EEXIST ? backing_pin(b, dir, name) : -1;
	char target[DIR_TMP_NAME_SIZE] = "";

	if (pin < 0)
		return err;
	/* If @name leads to @file, the symlink is ours and only the answer was lost. */
	if (backing_readlink(b, pin, target, sizeof(target) - 1) > 0 && strcmp(target, file))
		backing_unlink(b, dir, file, false);
	return err;
}

/* Whatever the outcome, a reader sees all of the record or nothing. */
static int make_whole(struct backing *b, int dir, const char *name, const char *text, size_t len)
{
	char tmp[DIR_TMP_NAME_SIZE];
	uint64_t nr;
	bool created;
	int err;
	__cleanup_fd int fd = -1;

	if (getrandom(&nr, sizeof(nr), 0) != sizeof(nr))
		return -EIO;
	snprintf(tmp, sizeof(tmp), "%s.%016llx", name, (unsigned long long)nr);
	fd = backing_create(b, dir, tmp, O_WRONLY | O_EXCL, 0600, &created);
	err = fd < 0 ? fd : fill(b, fd, text, len);
	if (!err && b->fuse)
		return point(b, dir, name, tmp);
	if (!err)
		err = backing_link(b, fd, dir, name);
	backing_unlink(b, dir, tmp, false); /* if this fails, `forget` removes it */
	return err;
}

static int make_exclusive(struct backing *b, int dir, const char *name, const char *text,
			  size_t len)
{
	bool created;
	__cleanup_fd int fd = backing_create(b, dir, name, O_WRONLY | O_EXCL, 0600, &created);

	/* On failure the name stays: another node may have seen the record whole. */
	return fd < 0 ? fd : fill(b, fd, text, len);
}

/* Compares the record that stands with @text. 1: equal; 0: @first has another text. */
static int look(struct backing *b, int dir, uid_t owner, const char *name, const char *text,
		size_t len, char *first, size_t *first_len)
{
	ssize_t n = read_record(b, dir, owner, name, first, COORD_TEXT_MAX);

	if (n < 0)
		return (int)n;
	*first_len = (size_t)n;
	return (size_t)n == len && !memcmp(first, text, len);
}

static int record_as_owner(struct backing *b, uid_t owner, const char *name, const char *text,
			   size_t len, char *first, size_t *first_len)
{
	__cleanup_fd int dir = make_owner(b, owner);
	int made, seen;

	if (dir < 0)
		return dir;
	seen = look(b, dir, owner, name, text, len, first, first_len);
	if (seen != -ENOENT)
		return seen;
	made = make_whole(b, dir, name, text, len);
	if (no_links(made)) {
		made = make_exclusive(b, dir, name, text, len);
		if (made && made != -EEXIST)
			return made; /* a sync that failed may succeed when repeated */
	}
	seen = look(b, dir, owner, name, text, len, first, first_len);
	if (seen == -ENOENT && made && made != -EEXIST)
		return made;
	return seen == -ENOENT ? -EIO : seen; /* it was said to exist: the caller asks again */
}

static int dir_record(void *arg, const struct caller *owner, const char *gen, const char *kind,
		      const char *text, size_t len, char *first, size_t *first_len)
{
	struct backing b = backing_as(arg, owner);
	char name[COORD_NAME_MAX];

	if (!coord_gen_ok(gen) || !coord_kind_ok(kind) || len > COORD_TEXT_MAX ||
	    memchr(text, '\0', len))
		return -EINVAL;
	coord_record_name(name, gen, kind);
	return record_as_owner(&b, owner->uid, name, text, len, first, first_len);
}

static ssize_t read_as_owner(struct backing *b, uid_t owner, const char *name, char *buf,
			     size_t size)
{
	__cleanup_fd int dir = dir_open_owner(b, owner, false);

	return dir < 0 ? dir : read_record(b, dir, owner, name, buf, size);
}

static ssize_t dir_read(void *arg, uid_t owner, const char *gen, const char *kind, char *buf,
			size_t size)
{
	const struct caller as = {.uid = owner, .gid = DIR_NOGROUP};
	struct backing b = backing_as(arg, &as);
	char name[COORD_NAME_MAX];
	ssize_t n;

	if (!coord_gen_ok(gen) || !coord_kind_ok(kind))
		return -EINVAL;
	coord_record_name(name, gen, kind);
	n = read_as_owner(&b, owner, name, buf, size);
	return n == -EBUSY ? -ENOENT : n; /* no node was told yet that it exists */
}

/* The file that a symlink leads to is removed after it, in this order on disk too. */
static int remove_as_owner(struct backing *b, uid_t owner, const char *name)
{
	__cleanup_fd int dir = dir_open_owner(b, owner, false);
	__cleanup_fd int pin = dir < 0 ? dir : backing_pin(b, dir, name);
	char target[DIR_TMP_NAME_SIZE];
	int len = pin < 0 ? pin : backing_readlink(b, pin, target, sizeof(target) - 1), err;

	if (pin < 0)
		return pin == -ENOENT ? 0 : pin;
	err = backing_unlink(b, dir, name, false);
	if (err && err != -ENOENT)
		return err;
	target[len > 0 ? len : 0] = '\0';
	if (len <= 0 || !is_file_of(target, name))
		return 0;
	err = backing_sync(b, dir, false);
	return err ? err : backing_unlink(b, dir, target, false);
}

static int dir_remove(void *arg, const struct caller *owner, const char *gen, const char *kind)
{
	struct backing b = backing_as(arg, owner);
	char name[COORD_NAME_MAX];

	if (!coord_gen_ok(gen) || !coord_kind_ok(kind))
		return -EINVAL;
	coord_record_name(name, gen, kind);
	return remove_as_owner(&b, owner->uid, name);
}

const struct coord_ops coord_dir_ops = {
	.record = dir_record,
	.read = dir_read,
	.forget = dir_forget,
	.remove = dir_remove,
	.list = dir_list,
	.wait = dir_wait,
	.lease = dir_lease,
	.lease_read = dir_lease_read,
	.lease_end = dir_lease_end,
	.lease_list = dir_lease_list,
};
