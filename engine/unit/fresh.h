/* SPDX-License-Identifier: MIT */
/*
 * Names that another node may have given to something else a moment ago, where this one's client of the backing remembers
 * what they lead to, and how that was: rule V says what is there now.
 *
 * How many links an inode has gives a stale name away: what a checkpoint has inherited has one there and one where it was
 * inherited from; what was made in it has one. Or the directory is listed, and tells another inode number. A listing refreshes
 * what most clients remember: NFS asks for names anew when it sees that the directory has changed, a FUSE client takes names and
 * attributes from it, but GlusterFS only where it has no replicas. Then there is time to pass.
 */
#ifndef ENGINE_UNIT_FRESH_H
#define ENGINE_UNIT_FRESH_H

#include "engine/unit/checkpoint.h"

/*
 * Before @name is looked up in @dir (a descriptor), a directory of @cp: from here on it leads to what it does on the
 * backing. 0, also if there is nothing, or none can tell; -ENOENT: there is nothing any more; -EINTR. As the daemon, without locks.
 */
int fresh_name(struct checkpoint *cp, int dir, const char *name);

/*
 * @name in @dir, pinned for @owner; where @p is of a job of several nodes, or NULL, what has it on the backing now, and not what the client
 * remembers of it. Or -errno; -ESTALE: that is another one, and does not come to be known; -EINTR. Lock not held.
 */
int fresh_pin(struct units *us, const struct process *p, const struct caller *owner, int dir,
	      const char *name);

/* The same of a name that was just listed with the inode number @ino. */
int fresh_pin_listed(struct units *us, const struct process *p, const struct caller *owner, int dir,
		     const char *name, uint64_t ino);

/* What there is to know of the file of @cp that is pinned as @fd: as it is on the backing, not as it was. Lock not held. */
int fresh_stat(struct checkpoint *cp, int fd, struct statx *stx);

#endif
