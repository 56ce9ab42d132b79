/* SPDX-License-Identifier: MIT */
/*
 * The user that a system call on the backing acts as. The handle (struct backing) carries it, and
 * backing.c makes the switch for that one call (creds.h): before and after the call the thread is
 * the daemon. A call that the backing refuses to a user (EACCES, EPERM) is made once more with the
 * supplementary groups that the user's process has, or had when they were last needed.
 *
 * - who_for: the daemon, on behalf of a user. What the backing refuses to the daemon, as one with
 *   root_squash does, is tried as that user. Zero is the daemon on nobody's behalf.
 * - who_as: a caller, never the daemon. For what a program asks for.
 * - who_owner: a user first, then the daemon. For work on what the user owns, which may be shut
 *   from the user by its mode.
 *
 * A call that only reads, by a descriptor that is open, is tried as the daemon first in any case.
 * A daemon that may not switch (creds_init) makes every call as itself.
 */
#ifndef ENGINE_BACKING_WHO_H
#define ENGINE_BACKING_WHO_H

#include <stdbool.h>
#include <sys/types.h>

struct caller {
	uid_t uid;
	gid_t gid;
	pid_t pid;    /* 0: not visible from here */
	mode_t umask; /* for who_maker */
};

/*
 * The pid of a user without a known process, whose groups are those that the system gives the user.
 */
#define NO_PROCESS ((pid_t)-1)

enum who_kind { WHO_DAEMON, WHO_CALLER, WHO_OWNER };

struct who {
	enum who_kind kind;
	bool groups;  /* the first try is with the supplementary groups */
	mode_t umask; /* for what the call makes */
	struct caller user;
};

/* NULL: on nobody's behalf. */
static inline struct who who_for(const struct caller *user)
{
	struct who w = {.kind = WHO_DAEMON};

	if (user)
		w.user = *user;
	return w;
}

static inline struct who who_as(const struct caller *caller)
{
	return (struct who){.kind = WHO_CALLER, .user = *caller};
}

/* As who_as, for a call that makes something: with the umask of the program. */
static inline struct who who_maker(const struct caller *caller)
{
	struct who w = who_as(caller);

	w.umask = caller->umask;
	return w;
}

static inline struct who who_owner(const struct caller *owner)
{
	return (struct who){.kind = WHO_OWNER, .user = *owner};
}

#endif
