/* SPDX-License-Identifier: MIT */
/*
 * Acting as the caller: a root daemon gives each of its threads the fsuid, fsgid and (only when
 * they are needed) supplementary groups of the process it works for, so that ownership, quota,
 * root_squash and the clearing of suid bits on the backing are what they are without ckptfs.
 * Per thread: Linux credentials belong to threads, glibc's set*id wrappers are avoided.
 */
#ifndef ENGINE_BACKING_CREDS_H
#define ENGINE_BACKING_CREDS_H

#include <stdbool.h>
#include <sys/types.h>

#include "engine/backing/who.h"

/*
 * Once, before any thread: finds out whether this process may switch at all, drops root's
 * supplementary groups and CAP_SYS_RESOURCE (with it the backing would let users exceed their
 * quota). Returns true when threads can act as others; never unless @wanted.
 */
bool creds_init(bool wanted);

/* One call as @w: acting_begin, then the call, again for as long as acting_again says so. Calls do not nest. */
struct acting {
	const struct who *who;
	int step;
	struct caller before; /* as whom the thread acts otherwise */
	bool was;
};

void acting_begin(struct acting *a, const struct who *w);

/* True if the call, which returned @result, is to be made again, as somebody else. False: the thread is as it was. */
bool acting_again(struct acting *a, long result);

/* Evaluates @expr, system calls alone (0 or more, or -errno), as @who says. */
#define ACT_AS(w, expr) \
	({ \
		struct acting acting_; \
		__typeof__(expr) acted_; \
		acting_begin(&acting_, (w)); \
		do { \
			acted_ = (expr); \
		} while (acting_again(&acting_, (long)acted_)); \
		acted_; \
	})

/*
 * A call that makes something as @w, with @mode. creds_mask returns the mode to ask for; creds_unmask follows the call with
 * what *before became.
 */
mode_t creds_mask(const struct who *w, mode_t mode, mode_t *before);
void creds_unmask(mode_t before);

/* From here on this thread acts as @c without supplementary groups. No effect if creds_init said no. */
void creds_become(const struct caller *c);

/*
 * Adds the supplementary groups of @c, read from /proc/PID/status, to a thread that is @c already.
 * Returns false when there is nothing to add, so a retry would be in vain. Why lazily: the kernel
 * has checked the caller's permission already, most files belong to their user, and reading /proc
 * costs more than most operations.
 */
bool creds_add_groups(const struct caller *c);

/*
 * The same for work on what @c made: that goes on when the process has ended, with the groups that it had when they were
 * last needed, as long as these are remembered.
 */
bool creds_add_last_groups(const struct caller *c);

/*
 * Prepares this thread to make something with @mode by a caller whose umask is @mask: the backing
 * applies it, or not where the directory has a default ACL. Returns the mode to ask for.
 */
mode_t creds_umask(mode_t mode, mode_t mask);

/* From here on this thread acts as the daemon. */
void creds_restore(void);

/*
 * For whom this thread works from here on, NULL: for nobody. What the backing refuses to the daemon, as one with
 * root_squash does, is tried once more as that one (ON_BEHALF), who may do no more than that; and what is refused to that one,
 * with its groups. @c is copied.
 */
void creds_on_behalf(const struct caller *c);

/* For whom, if this thread is the daemon just now, and that is somebody else; or NULL. Valid until the next call of it. */
const struct caller *creds_behalf(void);

/* Adds its groups if this thread is the one for whom it works. False: it is not, or there is nothing to add. */
bool creds_add_behalf_groups(void);

/* Evaluates @expr (0 or more, or -errno) as @c; once more with its groups if that was refused. */
#define AS_CALLER(c, expr) \
	({ \
		creds_become(c); \
		__typeof__(expr) as_caller_ = (expr); \
		if ((as_caller_ == -EACCES || as_caller_ == -EPERM) && creds_add_groups(c)) \
			as_caller_ = (expr); \
		as_caller_; \
	})

/*
 * Evaluates @expr as who this thread is; if that is the daemon, and was refused, as the one for whom it works; if it is that
 * one, with its groups.
 */
#define ON_BEHALF(expr) \
	({ \
		__typeof__(expr) on_behalf_ = (expr); \
		bool refused_ = on_behalf_ == -EACCES || on_behalf_ == -EPERM; \
		const struct caller *behalf_ = refused_ ? creds_behalf() : NULL; \
		if (behalf_) { \
			creds_become(behalf_); \
			on_behalf_ = (expr); \
			if ((on_behalf_ == -EACCES || on_behalf_ == -EPERM) && \
			    creds_add_last_groups(behalf_)) \
				on_behalf_ = (expr); \
			creds_restore(); \
		} else if (refused_ && creds_add_behalf_groups()) { \
			on_behalf_ = (expr); \
		} \
		on_behalf_; \
	})

#endif
