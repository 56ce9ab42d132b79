/* SPDX-License-Identifier: MIT */
/*
 * The mounts of this host, as /proc/self/mountinfo lists them. Each call reads that file; there is
 * no lock. None but mountinfo_probe touches a mount, since a hung mount would hang the caller.
 */
#ifndef FS_MOUNTINFO_H
#define FS_MOUNTINFO_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

struct mount_entry {
	unsigned major, minor; /* st_dev of everything in it */
	char path[PATH_MAX];   /* the mount point */
	/* the part of the filesystem that is mounted there: "/", or below for a bind mount */
	char root[PATH_MAX];
	char source[PATH_MAX]; /* for ckptfs: the backing */
	char type[64];
	uid_t user;		/* that mounted it (FUSE option user_id) */
	bool read_only;		/* the whole filesystem, or this mount of it */
	bool no_exec, no_atime; /* this mount of it */
	bool allow_other;	/* FUSE option */
};

/*
 * Makes @path absolute and resolves its symlinks, but stops at the first component in a ckptfs
 * mount: the rest is only tidied textually. 0 or -errno (of the part outside).
 */
int mountinfo_resolve(const char *path, char out[PATH_MAX]);

/* The ckptfs mount that contains the resolved @path; of several stacked there the topmost. */
bool mountinfo_find_ckptfs(const char *path, struct mount_entry *out);

/* A ckptfs mount whose backing contains the resolved @path; of several the last. */
bool mountinfo_find_backing(const char *path, struct mount_entry *out);

/* The topmost mount of any kind at exactly @path. */
bool mountinfo_find_at(const char *path, struct mount_entry *out);

/* Any mount with that device number, a bind mount of the filesystem included. */
bool mountinfo_find_device(unsigned major, unsigned minor, struct mount_entry *out);

/*
 * Calls @each for every mount of a ckptfs filesystem that can be reached at its path, in the order
 * of mountinfo.
 */
void mountinfo_each_ckptfs(void (*each)(void *arg, const struct mount_entry *m), void *arg);

enum mount_life {
	MOUNT_ALIVE,  /* answered */
	MOUNT_DEAD,   /* its daemon is gone */
	MOUNT_SILENT, /* did not answer in time */
};

/* Asks the filesystem at @path itself, in a child process that may be left behind. */
enum mount_life mountinfo_probe(const char *path, int timeout_ms);

#endif
