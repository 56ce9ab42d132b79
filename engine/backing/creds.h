/* SPDX-License-Identifier: MIT */
/*
 * The switch of users behind who.h. For one system call a root daemon gives its thread the fsuid,
 * fsgid and, only where needed, the supplementary groups of a user. So ownership, quota,
 * root_squash and the clearing of suid bits on the backing are the same as without ckptfs.
 *
 * Linux credentials belong to threads, so this module avoids glibc's set*id wrappers. Between calls
 * a thread is the daemon, and no trace of a user remains. Calls do not nest: the inner call would
 * leave the thread as the daemon for the outer one. The lock of creds.c guards the remembered
 * groups, and is a leaf.
 */
#ifndef ENGINE_BACKING_CREDS_H
#define ENGINE_BACKING_CREDS_H

#include <stdbool.h>
#include <sys/types.h>

#include "engine/backing/who.h"

/*
 * Called once, before any thread starts. Finds out whether this process may switch users, drops
 * root's supplementary groups, and drops CAP_SYS_RESOURCE (with which the backing would let users
 * exceed their quota). Returns true if calls can act as other users; always false unless @wanted.
 */
bool creds_init(bool wanted);

/* One call as @who: acting_begin, then the call, repeated while acting_again says so. */
struct acting {
	const struct who *who;
	int step;
	bool has_groups;
};

void acting_begin(struct acting *a, const struct who *who);

/* True if the call that returned @result must be repeated. False: the thread is the daemon. */
bool acting_again(struct acting *a, long result);

/* Evaluates @expr as @who. @expr is system calls only, and yields 0 or more, or -errno. */
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
 * where the directory has a default ACL. creds_mask returns the mode to pass; creds_unmask takes
 * the value that *before got.
 */
mode_t creds_mask(const struct who *who, mode_t mode, mode_t *before);
void creds_unmask(mode_t before);

#endif
