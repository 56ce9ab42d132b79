/* SPDX-License-Identifier: MIT */
/*
 * The backing directory on the parallel filesystem, and all system calls that ckptfs makes on it.
 *
 * - No call leaves the directory. A name is a single component, looked up relative to the
 *   descriptor of a directory that was reached the same way, never following a symlink (with
 *   openat2, RESOLVE_BENEATH on top). No path is walked twice.
 * - A "pin" is an O_PATH descriptor: it names an inode, whatever happens to the inode's name. Calls
 *   that Linux refuses on O_PATH go through /proc/self/fd, which reaches that very inode.
 * - Every function returns 0 (or a count, an offset, a descriptor that the caller owns) or -errno.
 *   It blocks as long as the backing blocks, and any thread may call it.
 * - struct backing is a handle that says as which user its calls are made (who.h). The handle that
 *   backing_open filled is the daemon's. A copy for another user lives only in the function that
 *   makes it, and uses the descriptors of the first handle.
 */
#ifndef ENGINE_BACKING_BACKING_H
#define ENGINE_BACKING_BACKING_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "engine/backing/features.h"
#include "engine/backing/who.h"
#include "engine/base/message.h"

/* What a sync makes durable: data and size of a file, all of an inode, or the whole filesystem. */
enum backing_sync { BACKING_SYNC_DATA, BACKING_SYNC_INODE, BACKING_SYNC_FS };

/*
 * The raw system calls behind the functions below. Each is one call, which may be cut short or
 * interrupted, and returns -errno instead of -1. Checks, retries and fallbacks are above this
 * table, so a test can install a table that records, fails or holds calls and passes them on to the
 * one it replaced (tests/backing). All pointers are set. @fd is a pin where the function below
 * takes one.
 */
struct backing_ops {
	/* Names in the directory @dir. */
	/* openat2 if @resolve, else openat. O_CREAT always comes with O_EXCL. */
	int (*open)(void *arg, int dir, const char *name, int flags, mode_t mode, uint64_t resolve);
	int (*mkdir)(void *arg, int dir, const char *name, mode_t mode);
	int (*mknod)(void *arg, int dir, const char *name, mode_t mode, dev_t dev);
	int (*symlink)(void *arg, const char *target, int dir, const char *name);
	int (*link)(void *arg, int fd, int dir, const char *name);
	int (*unlink)(void *arg, int dir, const char *name, int flags);
	int (*rename)(void *arg, int dir, const char *name, int new_dir, const char *new_name,
		      unsigned flags);
	/* An inode. */
	int (*reopen)(void *arg, int fd, int flags);
	int (*dup)(void *arg, int fd);
	/* The absolute path as the kernel knows it, without a final 0. */
	ssize_t (*path)(void *arg, int fd, char *buf, size_t size);
	int (*stat)(void *arg, int dir, const char *name, int flags, struct statx *stx);
	int (*statfs)(void *arg, int fd, struct statvfs *sv);
	ssize_t (*readlink)(void *arg, int fd, char *buf, size_t size);
	int (*chmod)(void *arg, int fd, mode_t mode);
	int (*chown)(void *arg, int fd, uid_t uid, gid_t gid);
	int (*utimens)(void *arg, int fd, const struct timespec times[2]);
	int (*truncate)(void *arg, int fd, off_t size);
	ssize_t (*getxattr)(void *arg, int fd, const char *name, void *buf, size_t size);
	ssize_t (*listxattr)(void *arg, int fd, char *buf, size_t size);
	int (*setxattr)(void *arg, int fd, const char *name, const void *value, size_t size,
			int flags);
	int (*removexattr)(void *arg, int fd, const char *name);
	/* An open file. */
	ssize_t (*read)(void *arg, int fd, void *buf, size_t size, off_t off);
	ssize_t (*write)(void *arg, int fd, const void *buf, size_t size, off_t off, int rwf);
	int (*ftruncate)(void *arg, int fd, off_t size);
	int (*fallocate)(void *arg, int fd, int mode, off_t off, off_t len);
	int (*sync)(void *arg, int fd, enum backing_sync what);
	int (*write_back)(void *arg, int fd);
	off_t (*seek)(void *arg, int fd, off_t off, int whence);
	ssize_t (*copy_range)(void *arg, int in, off_t off_in, int out, off_t off_out, size_t len,
			      unsigned flags);
	ssize_t (*getdents)(void *arg, int fd, void *buf, size_t size);
};

struct backing {
	char *path;		       /* absolute, for messages */
	int root_fd;		       /* pin of the top directory */
	int proc_fd;		       /* /proc/self/fd */
	int tree_fd;		       /* 0, or keeps the mount of backing_stop_atime alive */
	dev_t dev;		       /* of the top directory */
	uint64_t ino;		       /* of the top directory */
	bool fuse;		       /* a FUSE filesystem, whose kind the kernel does not know */
	bool shared;		       /* of a handle: other nodes may make changes too */
	struct features *features;     /* shared by all copies */
	const struct backing_ops *ops; /* like ops_arg: changed only while unused */
	void *ops_arg;
	struct who who;
};

static inline struct backing backing_with(const struct backing *b, struct who who)
{
	struct backing copy = *b;

	copy.who = who;
	return copy;
}

/* The daemon, on behalf of @user; NULL: on nobody's behalf. */
static inline struct backing backing_for(const struct backing *b, const struct caller *user)
{
	return backing_with(b, who_for(user));
}

/* The daemon, on behalf of the user of @b. */
static inline struct backing backing_daemon(const struct backing *b)
{
	return backing_for(b, &b->who.user);
}

/* @caller. */
static inline struct backing backing_as(const struct backing *b, const struct caller *caller)
{
	return backing_with(b, who_as(caller));
}

/* @caller, for a call that makes a file or directory, with the umask of the program. */
static inline struct backing backing_maker(const struct backing *b, const struct caller *caller)
{
	return backing_with(b, who_maker(caller));
}

/*
 * The same handle, for names and files that other nodes may be changing if @shared: see "as it is
 * on the backing now".
 */
static inline struct backing backing_shared(struct backing b, bool shared)
{
	b.shared = shared;
	return b;
}

/* @owner, and the daemon where the backing refuses a call to @owner. */
static inline struct backing backing_owner(const struct backing *b, const struct caller *owner)
{
	return backing_with(b, who_owner(owner));
}

/* The real system calls, which backing_open installs. @arg is the backing. */
extern const struct backing_ops backing_real_ops;

/* Opens the directory @path; features_probe comes later. Returns 0, or -errno with @e filled. */
int backing_open(struct backing *b, const char *path, struct error *e);

/*
 * From here on no read changes an access time in the backing: the daemon reaches the backing
 * through a noatime mount of its own. Call it before anything below is opened. Returns 0, or
 * -errno: nothing has changed.
 */
int backing_stop_atime(struct backing *b);

/*
 * Locks a file or directory until @fd and its duplicates are closed: shared for use, or exclusively
 * (@alone) for repair or removal. The lock holds on this host, and between hosts where the backing
 * supports that. -EBUSY: another process has a conflicting lock; with @alone also if the backing
 * has no locks.
 */
int backing_lock(struct backing *b, int fd, bool alone);
void backing_unlock(int fd);

/* True if the backing has such locks: then -EBUSY means a conflict. @fd may keep a shared lock. */
bool backing_has_locks(struct backing *b, int fd);
void backing_close(struct backing *b);

/* True if @name may be a directory entry. Names from the kernel are checked too. */
bool backing_name_ok(const char *name);

/* --- names in the directory @dir (any descriptor of one) --- */
int backing_pin(struct backing *b, int dir, const char *name);
int backing_stat_at(struct backing *b, int dir, const char *name, struct statx *stx);
/* Opens or creates a regular file. If @flags has no O_EXCL, *created tells which. */
int backing_create(struct backing *b, int dir, const char *name, int flags, mode_t mode,
		   bool *created);
int backing_mkdir(struct backing *b, int dir, const char *name, mode_t mode);
int backing_mknod(struct backing *b, int dir, const char *name, mode_t mode, dev_t dev);
int backing_symlink(struct backing *b, const char *target, int dir, const char *name);
int backing_link(struct backing *b, int pin, int dir, const char *name);
int backing_unlink(struct backing *b, int dir, const char *name, bool directory);
int backing_rename(struct backing *b, int dir, const char *name, int new_dir, const char *new_name,
		   unsigned flags);

/* --- an inode, by pin or by any descriptor of it --- */
int backing_stat(struct backing *b, int fd, struct statx *stx);
int backing_reopen(struct backing *b, int fd, int flags);
/* Another descriptor of what @fd, a pin or an open file, refers to. No call to the backing. */
int backing_dup(struct backing *b, int fd);
/*
 * Walks from the directory @fd to that of @path, name by name; *@name: the last one. A descriptor,
 * or -errno.
 */
int backing_walk(struct backing *b, int fd, const char *path, const char **name);
/*
 * The current path of the directory @fd relative to the top directory, byte for byte ("" for the
 * top). Returns 0 or -errno.
 */
int backing_path_below(struct backing *b, int fd, char *buf, size_t size);
int backing_readlink(struct backing *b, int pin, char *buf, size_t size);
int backing_chmod(struct backing *b, int fd, mode_t mode);
int backing_chown(struct backing *b, int fd, uid_t uid, gid_t gid);
int backing_utimens(struct backing *b, int fd, const struct timespec times[2]);
int backing_truncate(struct backing *b, int fd, off_t size);
int backing_statfs(struct backing *b, int fd, struct statvfs *sv);
ssize_t backing_getxattr(struct backing *b, int fd, const char *name, void *buf, size_t size);
ssize_t backing_listxattr(struct backing *b, int fd, char *buf, size_t size);
int backing_setxattr(struct backing *b, int fd, const char *name, const void *value, size_t size,
		     int flags);
int backing_removexattr(struct backing *b, int fd, const char *name);

/*
 * --- as it is on the backing now (fresh.c) ---
 *
 * Where other nodes make changes too, this node's client of the backing may answer from an old
 * cache. These functions wait, for a few seconds at most, until the client's answer is current.
 * Called without locks.
 */

/*
 * backing_pin, by a shared handle. -ESTALE: another inode has the name, and the client does not
 * find it in time; -EINTR.
 */
int backing_pin_now(struct backing *b, int dir, const char *name);

/* The same for a name that was just listed with the inode number @ino. */
int backing_pin_listed(struct backing *b, int dir, const char *name, uint64_t ino);

/* backing_stat. On a FUSE backing it syncs the file first, also while the file is written. */
int backing_stat_now(struct backing *b, int fd, struct statx *stx);

/*
 * The caller's knowledge of a file: how many links it has if the name leads to it (0: the name does
 * lead to it), and whether no process writes to it.
 */
struct backing_known {
	unsigned links;
	bool rests;
};
typedef struct backing_known backing_knows(void *arg, const struct statx *stx);

/*
 * Called before a lookup of @name in @dir: from here on @name leads to what it does on the backing.
 * Calls @knows for the regular file that @name seems to lead to. Returns 0, also if the name is
 * missing or nothing can tell; -ENOENT: the name is gone; -EINTR.
 */
int backing_refresh_name(struct backing *b, int dir, const char *name, backing_knows *knows,
			 void *arg);

/* For these: backing_stat as the servers answer, if they are asked; as the client knows it. */
int backing_stat_asked(struct backing *b, int fd, struct statx *stx);
int backing_stat_known(struct backing *b, int fd, struct statx *stx);

/* --- an open file (a real descriptor) --- */
/* Reads until @size, the end of the file, or an error. A part before an error counts. */
ssize_t backing_read(struct backing *b, int fd, void *buf, size_t size, off_t off);
/* Writes all, or a part before an error. @rwf: RWF_APPEND, RWF_SYNC, RWF_DSYNC. */
ssize_t backing_write(struct backing *b, int fd, const void *buf, size_t size, off_t off, int rwf);
int backing_ftruncate(struct backing *b, int fd, off_t size);
int backing_fallocate(struct backing *b, int fd, int mode, off_t off, off_t len);
int backing_sync(struct backing *b, int fd, bool data_only);
/* Makes the present names in the directory @dir, a pin or a real descriptor, durable. */
int backing_sync_dir(struct backing *b, int dir);
/* Makes all data written to the filesystem of @fd durable. */
int backing_sync_fs(struct backing *b, int fd);
/* Sends written data to the servers of the backing, as a close does there. */
int backing_write_back(struct backing *b, int fd);
off_t backing_seek(struct backing *b, int fd, off_t off, int whence);
ssize_t backing_copy_range(struct backing *b, int in, off_t off_in, int out, off_t off_out,
			   size_t len, unsigned flags);
ssize_t backing_getdents(struct backing *b, int fd, void *buf, size_t size);

/*
 * Evaluates @expr, which starts at an open directory, up to five times while it is -ESTALE. A
 * client of a network backing answers that while its cache of the names below is out of date.
 */
#define BACKING_ANEW(expr) \
	({ \
		unsigned tries_ = 5; \
		__typeof__(expr) anew_; \
		do { \
			anew_ = (expr); \
		} while (anew_ == -ESTALE && --tries_); \
		anew_; \
	})

#endif
