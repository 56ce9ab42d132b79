/* SPDX-License-Identifier: MIT */
/*
 * The switch behind who.h. For one system call a root daemon gives its thread the fsuid, fsgid and,
 * only where they are needed, the supplementary groups of a user, so that ownership, quota,
 * root_squash and the clearing of suid bits on the backing are what they are without ckptfs.
 *
 * Linux credentials belong to threads, so glibc's set*id wrappers are avoided. Between calls a
 * thread is the daemon, and nothing is left behind that other code could depend on. Calls do not
 * nest: the inner one would leave the thread as the daemon to the outer one. The lock of creds.c
 * guards the remembered groups, and is a leaf.
 */
#ifndef ENGINE_BACKING_CREDS_H
#define ENGINE_BACKING_CREDS_H

#include <stdbool.h>
#include <sys/types.h>

#include "engine/backing/who.h"

/*
 * Once, before any thread: finds out whether this process may switch at all, drops root's
 * supplementary groups and CAP_SYS_RESOURCE (with it the backing would let users exceed their
 * quota). Returns true when calls can act as others; never unless @wanted.
 */
bool creds_init(bool wanted);

/* One call as @who: acting_begin, then the call, again for as long as acting_again says so. */
struct acting {
	const struct who *who;
	int step;
	bool has_groups;
};

void acting_begin(struct acting *a, const struct who *who);

/*
 * True if the call, which returned @result, is to be made again. False: the thread is the daemon.
 */
bool acting_again(struct acting *a, long result);

/* Evaluates @expr, system calls alone (0 or more, or -errno), as @who says. */
#define ACT_AS(who, expr) \
	({ \
		struct acting acting_; \
		__typeof__(expr) acted_; \
		acting_begin(&acting_, (who)); \
		do { \
			acted_ = (expr); \
		} while (acting_again(&acting_, (long)acted_)); \
		acted_; \
	})

/*
 * Around a call that makes something as @who with @mode. The backing applies the umask, except
 * where the directory has a default ACL. creds_mask returns the mode to ask for; creds_unmask takes
 * what *before became.
 */
mode_t creds_mask(const struct who *who, mode_t mode, mode_t *before);
void creds_unmask(mode_t before);

#endif
