/* SPDX-License-Identifier: MIT */
#include "engine/base/lock.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define HELD_MAX 16

static const char *const names[LOCK_RANKS] = {
	[LOCK_ENDING] = "ending",
	[LOCK_CONTROL_SOCKET] = "control socket",
	[LOCK_HANDLE_DIR] = "directory handle",
	[LOCK_COPIED_COMMIT] = "copied commits",
	[LOCK_REQUESTS] = "requests",
	[LOCK_TREE] = "tree",
	[LOCK_RECEIVER] = "receiver",
	[LOCK_INDEXER] = "indexer",
	[LOCK_VIEWS_MAKING] = "views being made",
	[LOCK_VIEWS] = "views",
	[LOCK_CAPTURES] = "captures",
	[LOCK_SESSION] = "session",
	[LOCK_TRACE] = "trace",
	[LOCK_UNITS] = "units",
	[LOCK_NODES] = "nodes",
	[LOCK_COORD] = "coord",
	[LOCK_COORD_WATCH] = "coord watch",
	[LOCK_JOBS] = "jobs",
	[LOCK_CACHE] = "cache",
	[LOCK_DIGEST] = "digest",
	[LOCK_IO] = "io",
	[LOCK_FAILURES] = "failures",
	[LOCK_CREDS] = "creds",
	[LOCK_LOG] = "log",
};

/* The locks that this thread holds, in the order in which it took them. */
static _Thread_local const struct lock *held[HELD_MAX];
static _Thread_local unsigned nr_held;

void lock_init(struct lock *l, enum lock_rank rank)
{
	pthread_mutex_init(&l->mutex, NULL);
	l->rank = rank;
}

void lock_finish(struct lock *l)
{
	pthread_mutex_destroy(&l->mutex);
}

/* Does not use the log, which takes a lock itself. */
static _Noreturn void stop(const char *what, const struct lock *l, const struct lock *other)
{
	char text[256];
	int len = snprintf(text, sizeof(text), "ckptfs: lock '%s' is %s%s%s%s\n", names[l->rank],
			   what, other ? " '" : "", other ? names[other->rank] : "",
			   other ? "'" : "");

	if (write(STDERR_FILENO, text, (size_t)len) < 0)
		__builtin_trap();
	__builtin_trap();
}

void lock_check_take(const struct lock *l)
{
	unsigned i;

	for (i = 0; i < nr_held; i++)
		if (held[i]->rank >= l->rank)
			stop("taken after", l, held[i]);
	if (nr_held == HELD_MAX)
		stop("one too many", l, NULL);
	held[nr_held++] = l;
}

void lock_check_drop(const struct lock *l)
{
	unsigned i = nr_held;

	lock_check_held(l);
	while (held[--i] != l)
		;
	memmove(held + i, held + i + 1, (nr_held - i - 1) * sizeof(*held));
	nr_held--;
}

void lock_check_held(const struct lock *l)
{
	unsigned i;

	for (i = 0; i < nr_held; i++)
		if (held[i] == l)
			return;
	stop("not held", l, NULL);
}

void lock_check_alone(const struct lock *l)
{
	unsigned i;

	lock_check_held(l);
	for (i = 0; i < nr_held; i++)
		if (held[i] != l && held[i]->rank != LOCK_ENDING)
			stop("waited with while holding", l, held[i]);
}
