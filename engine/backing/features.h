/* SPDX-License-Identifier: MIT */
/*
 * Features of this kernel and this backing. The daemon finds each one by trying, never by a version
 * number, and each has a fallback. CKPTFS_FEATURES_OFF="passthrough,openat2,..." (or "all") in the
 * daemon's environment turns features off, to test the fallbacks or to get around a fault.
 */
#ifndef ENGINE_BACKING_FEATURES_H
#define ENGINE_BACKING_FEATURES_H

#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>

enum feature {
	FEATURE_PASSTHROUGH,   /* kernel 6.9+, CAP_SYS_ADMIN: reads do not enter the daemon */
	FEATURE_DIRECT_MMAP,   /* kernel 6.6+: shared mmap of files open for writing */
	FEATURE_OPENAT2,       /* kernel 5.6+: RESOLVE_BENEATH */
	FEATURE_BTIME,	       /* the backing tells when an inode was born */
	FEATURE_XATTR,	       /* user.* extended attributes */
	FEATURE_ODIRECT,       /* O_DIRECT on the backing */
	FEATURE_RENAME_FLAGS,  /* RENAME_NOREPLACE, with RENAME_EXCHANGE */
	FEATURE_ACT_AS_CALLER, /* a root daemon that may change its fsuid */
	FEATURE_IO_URING,      /* kernel 5.14+, not forbidden by sysctl or a seccomp filter */
	NR_FEATURES
};

enum feature_state { FEATURE_UNKNOWN, FEATURE_NO, FEATURE_YES, FEATURE_TURNED_OFF };

struct features {
	enum feature_state state[NR_FEATURES]; /* const after mount; passthrough: an atomic int */
	atomic_int lists_inodes; /* whether a listing gives inode numbers; 0: unknown (fresh.c) */
};

extern const char *const feature_names[NR_FEATURES];
extern const char *const feature_fallbacks[NR_FEATURES]; /* what happens without it */

/* Initializes @f and applies CKPTFS_FEATURES_OFF. */
void features_init(struct features *f);

/* The same, allocated. NULL: no memory. */
struct features *features_new(void);

/*
 * Finds out what the backing behind @root_fd can do, and leaves no file behind. Features that need
 * a temporary file to find out stay unknown unless @may_write.
 */
void features_probe(struct features *f, int root_fd, bool may_write);

/* Records a result. A feature that was turned off stays off. */
void features_set(struct features *f, enum feature what, bool yes);

static inline bool feature(const struct features *f, enum feature what)
{
	return __atomic_load_n(&f->state[what], __ATOMIC_RELAXED) == FEATURE_YES;
}

/* True if nobody has found out yet whether the feature works. */
static inline bool feature_untried(const struct features *f, enum feature what)
{
	return __atomic_load_n(&f->state[what], __ATOMIC_RELAXED) == FEATURE_UNKNOWN;
}

/* {name: "yes"|"no"|"off"|"unknown"} */
json_t *features_to_json(const struct features *f);

#endif
