/* SPDX-License-Identifier: MIT */
/*
 * The mounts of this host as /proc/self/mountinfo tells them, and questions about them that never
 * touch a mount: a hung one must not hang whoever asks.
 */
#ifndef FS_MOUNTINFO_H
#define FS_MOUNTINFO_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

struct mount_entry {
	unsigned major, minor; /* st_dev of everything in it */
	char path[PATH_MAX];   /* the mount point */
	/* what of the filesystem is mounted there: "/", or below for a bind mount */
	char root[PATH_MAX];
	char source[PATH_MAX]; /* for ckptfs: the backing */
	char type[64];
	uid_t user;		/* that mounted it (FUSE option user_id) */
	bool read_only;		/* the whole filesystem, or this mount of it */
	bool no_exec, no_atime; /* this mount of it */
	bool allow_other;	/* FUSE option */
};

/*
 * Makes @path absolute and resolves symlinks in it, but stops at the first component that lies in
 * a ckptfs mount: what follows is only tidied textually. 0 or -errno (of the ordinary part).
 */
int mountinfo_resolve(const char *path, char out[PATH_MAX]);

/* The ckptfs mount that contains the resolved @path, the topmost if several are stacked there. */
bool mountinfo_find_ckptfs(const char *path, struct mount_entry *out);

/* A ckptfs mount whose backing contains the resolved @path. Of several the last. */
bool mountinfo_find_backing(const char *path, struct mount_entry *out);

/* The topmost mount of any kind at exactly @path. */
bool mountinfo_find_at(const char *path, struct mount_entry *out);

/* Any mount with that device number: another bind mount of the same filesystem. */
bool mountinfo_find_device(unsigned major, unsigned minor, struct mount_entry *out);

/*
 * Calls @each for every mount of a ckptfs filesystem that can be reached at its path, in the order
 * of mountinfo.
 */
void mountinfo_each_ckptfs(void (*each)(void *arg, const struct mount_entry *m), void *arg);

enum mount_life {
	MOUNT_ALIVE,  /* answered */
	MOUNT_DEAD,   /* its daemon is gone */
	MOUNT_SILENT, /* no answer within the time */
};

/* Asks the filesystem at @path itself, in a child process that can be left behind. */
enum mount_life mountinfo_probe(const char *path, int timeout_ms);

#endif
