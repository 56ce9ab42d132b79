/* SPDX-License-Identifier: MIT */
/*
 * The user as which a system call on the backing acts. The handle (struct backing) carries the
 * user, and backing.c switches for that one call (creds.h). Before and after the call the thread is
 * the daemon. If the backing refuses the call to a user (EACCES, EPERM), backing.c repeats it with
 * the supplementary groups that the user's process has, or had when they were last needed.
 *
 * - who_for: the daemon, on behalf of a user. A call that the backing refuses to the daemon, as
 *   with root_squash, is tried as that user. Zero is the daemon on nobody's behalf.
 * - who_as: a caller, never the daemon. For operations that a program asks for.
 * - who_owner: a user first, then the daemon. For work on files that the user owns, and whose mode
 *   may deny that user access.
 *
 * A call that only reads, by an open descriptor, is always tried as the daemon first. A daemon that
 * may not switch (creds_init) makes every call as itself.
 */
#ifndef ENGINE_BACKING_WHO_H
#define ENGINE_BACKING_WHO_H

#include <stdbool.h>
#include <sys/types.h>

struct caller {
	uid_t uid;
	gid_t gid;
	pid_t pid;    /* 0: not visible to the daemon */
	mode_t umask; /* for who_maker */
};

/* The pid of a user without a known process: the system gives the groups of the user. */
#define NO_PROCESS ((pid_t)-1)

enum who_kind { WHO_DAEMON, WHO_CALLER, WHO_OWNER };

struct who {
	enum who_kind kind;
	bool groups;  /* the first try already has the supplementary groups */
	mode_t umask; /* for new files and directories */
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
