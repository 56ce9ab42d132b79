/* SPDX-License-Identifier: MIT */
/*
 * Who a system call on the backing acts as. The handle (struct backing) carries it, and backing.c makes the
 * switch for the one call (creds.h): before and after it the thread is the daemon. One whom the backing
 * refuses without supplementary groups is tried once more with them.
 *
 * - daemon: the daemon, and what the backing refuses to it, as one with root_squash does, is tried as the
 *   user on whose behalf the daemon works, if there is one. Zero is the daemon on nobody's behalf.
 * - caller: a user, never the daemon. For a call that a program has made.
 * - owner: a user first, and the daemon for what the backing refuses to the user. For a call on what the
 *   user owns, which the user may have shut from itself.
 *
 * Without a right to switch (creds_init) every call acts as the daemon.
 */
#ifndef ENGINE_BACKING_WHO_H
#define ENGINE_BACKING_WHO_H

#include <stdbool.h>
#include <sys/types.h>

struct caller {
	uid_t uid;
	gid_t gid;
	pid_t pid; /* 0: not visible from here */
};

/* The pid of a user of whom no process is known: the groups are those that the system gives the user. */
#define NO_PROCESS ((pid_t)-1)

enum who_kind { WHO_DAEMON, WHO_CALLER, WHO_OWNER };

struct who {
	enum who_kind kind;
	bool stated; /* false: the state of the thread tells, for as long as there is one */
	bool groups; /* has the supplementary groups from the start */
	mode_t umask; /* of what the call makes; the backing ignores it where a directory has a default ACL */
	struct caller user;
};

/* NULL is nobody. */
static inline struct who who_for(const struct caller *user)
{
	struct who w = {.kind = WHO_DAEMON, .stated = true};

	if (user)
		w.user = *user;
	return w;
}

static inline struct who who_as(const struct caller *caller)
{
	return (struct who){.kind = WHO_CALLER, .stated = true, .user = *caller};
}

static inline struct who who_owner(const struct caller *owner)
{
	return (struct who){.kind = WHO_OWNER, .stated = true, .user = *owner};
}

#endif
