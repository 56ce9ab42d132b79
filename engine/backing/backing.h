/* SPDX-License-Identifier: MIT */
/*
 * The directory on the parallel filesystem, and every system call that ckptfs makes on it.
 *
 * - Nothing leaves the directory: names are single components, looked up relative to descriptors
 *   of directories that were reached the same way, never following a symlink (with openat2,
 *   RESOLVE_BENEATH on top). No path is walked twice.
 * - "pin" is an O_PATH descriptor: it names an inode whatever happens to its name. Calls that
 *   Linux refuses on O_PATH go through /proc/self/fd, which reaches that very inode.
 * - Every function returns 0 (or a count, an offset, a descriptor that the caller owns) or
 *   -errno, blocks as long as the backing blocks, and may be called from any thread.
 * - struct backing is a handle, and says as whom its calls are made (who.h). The one that was
 *   opened is the daemon's. A copy that says somebody else lives in the function that makes it, and
 *   uses what the first one has opened.
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
 * The system calls that the functions below make, raw: one call each, which may be cut short or
 * interrupted, and returns -errno for -1. All judging, repeating and falling back is above this
 * table, so that tests can put another in its place, which records, fails or holds calls and
 * passes them on to the one it replaced (tests/backing). All pointers are set. @fd is a pin where
 * the function below takes one.
 */
struct backing_ops {
	/* Names in the directory @dir. */
	/* openat2 if @resolve, else openat. With O_CREAT there always is O_EXCL. */
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
	/* The path from "/" on, as the kernel knows it, without a 0 at its end. */
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
	char *path;   /* absolute, for messages */
	int root_fd;  /* pin of the top directory */
	int proc_fd;  /* /proc/self/fd */
	int tree_fd;  /* 0, or keeps the mount of backing_stop_atime */
	dev_t dev;    /* of the top directory */
	uint64_t ino; /* of the top directory */
	bool fuse;    /* the kernel does not know what kind of filesystem it is: FUSE does */
	bool shared;  /* of a handle: other nodes may be changing what it is for */
	struct features *features;     /* the same of all copies */
	const struct backing_ops *ops; /* these two change only while nobody uses the backing */
	void *ops_arg;
	struct who who;
};

static inline struct backing backing_with(const struct backing *b, struct who who)
{
	struct backing copy = *b;

	copy.who = who;
	return copy;
}

/* The daemon, on behalf of @user; NULL: on nobody's. */
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

/* @caller, for a call that makes something: with the umask of the program. */
static inline struct backing backing_maker(const struct backing *b, const struct caller *caller)
{
	return backing_with(b, who_maker(caller));
}

/*
 * The same handle for what other nodes may be changing, if @shared: see "as it is on the backing
 * now".
 */
static inline struct backing backing_shared(struct backing b, bool shared)
{
	b.shared = shared;
	return b;
}

/* @owner, and the daemon for what the backing refuses to @owner. */
static inline struct backing backing_owner(const struct backing *b, const struct caller *owner)
{
	return backing_with(b, who_owner(owner));
}

/* The calls themselves; backing_open puts them in. @arg is the backing. */
extern const struct backing_ops backing_real_ops;

/*
 * Opens the directory @path; what it can do is probed later (features_probe). 0 or -errno, @e
 * filled.
 */
int backing_open(struct backing *b, const char *path, struct error *e);

/*
 * From here on no read changes an access time in the backing: it is reached through a mount of its
 * own, with noatime. Before anything below it is opened. 0 or -errno: then all is as before.
 */
int backing_stop_atime(struct backing *b);

/*
 * Until @fd and its duplicates are closed, who uses a file or directory excludes who repairs or
 * removes it (@alone), and the other way round: on this host, and on others where the backing has
 * locks for all of them. -EBUSY: somebody else is at it, or, to who wants it alone, the backing has
 * no locks to tell.
 */
int backing_lock(struct backing *b, int fd, bool alone);
void backing_unlock(int fd);

/* Does it have such locks at all? Then -EBUSY means that somebody else is at it. */
bool backing_has_locks(struct backing *b, int fd);
void backing_close(struct backing *b);

/* May @name be a directory entry? Everything from the kernel is, but it is not trusted. */
bool backing_name_ok(const char *name);

/* --- names in the directory @dir (any descriptor of one) --- */
int backing_pin(struct backing *b, int dir, const char *name);
int backing_stat_at(struct backing *b, int dir, const char *name, struct statx *stx);
/* Opens or creates a regular file; *created tells which where @flags has no O_EXCL. */
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
/*
 * Another descriptor of what @fd, a pin or an open file, stands for. Nothing is asked of the
 * backing.
 */
int backing_dup(struct backing *b, int fd);
/*
 * The path of the directory @fd below the top, where that is "": as it is now, byte for byte. 0 or
 * -errno.
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
 * Where other nodes change something too, this node's client of the backing may answer for what
 * was. These wait until it answers for what is, for some seconds at most. Without locks.
 */

/*
 * backing_pin, by a handle that is shared. -ESTALE: another one has the name, and does not come to
 * be known; -EINTR.
 */
int backing_pin_now(struct backing *b, int dir, const char *name);

/* The same of a name that was just listed with the inode number @ino. */
int backing_pin_listed(struct backing *b, int dir, const char *name, uint64_t ino);

/* backing_stat. A file that is being written is synced. */
int backing_stat_now(struct backing *b, int fd, struct statx *stx);

/*
 * What the caller knows of a file: how many links it has if the name leads to it (0: it does), and
 * if nobody writes to it.
 */
struct backing_known {
	unsigned links;
	bool rests;
};
typedef struct backing_known backing_knows(void *arg, const struct statx *stx);

/*
 * Before @name is looked up in @dir: from here on it leads to what it does on the backing. @knows
 * is asked of the regular file that it seems to lead to. 0, also if there is nothing, or none can
 * tell; -ENOENT: there is nothing any more; -EINTR.
 */
int backing_refresh_name(struct backing *b, int dir, const char *name, backing_knows *knows,
			 void *arg);

/*
 * For these: backing_stat, asked of the servers if the client does not insist on answering by
 * itself; and nobody asked.
 */
int backing_stat_asked(struct backing *b, int fd, struct statx *stx);
int backing_stat_known(struct backing *b, int fd, struct statx *stx);

/* --- an open file (a real descriptor) --- */
/* Reads until @size, the end, or an error after a part (then the part counts). */
ssize_t backing_read(struct backing *b, int fd, void *buf, size_t size, off_t off);
/* Writes all of it, unless an error comes after a part. @rwf: RWF_APPEND, RWF_SYNC, RWF_DSYNC. */
ssize_t backing_write(struct backing *b, int fd, const void *buf, size_t size, off_t off, int rwf);
int backing_ftruncate(struct backing *b, int fd, off_t size);
int backing_fallocate(struct backing *b, int fd, int mode, off_t off, off_t len);
int backing_sync(struct backing *b, int fd, bool data_only);
/* The names in the directory @dir, a pin or a real descriptor, as they are now. */
int backing_sync_dir(struct backing *b, int dir);
/* Makes all that was written to the filesystem of @fd durable. */
int backing_sync_fs(struct backing *b, int fd);
/* Gives what was written to the backing's servers, as a close there does. */
int backing_write_back(struct backing *b, int fd);
off_t backing_seek(struct backing *b, int fd, off_t off, int whence);
ssize_t backing_copy_range(struct backing *b, int in, off_t off_in, int out, off_t off_out,
			   size_t len, unsigned flags);
ssize_t backing_getdents(struct backing *b, int fd, void *buf, size_t size);

/*
 * @expr, which begins at a directory that is open: again while a client of a network backing
 * answers -ESTALE, since what it remembered below that is there no more.
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
