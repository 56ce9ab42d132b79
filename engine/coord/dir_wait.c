/* SPDX-License-Identifier: MIT */
/*
 * Waits for a record on a filesystem that reports no changes: by looking, less often the longer
 * nothing has come, and the more nodes look. Has no lock: one thread waits at a time.
 */
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/coord/dir_inside.h"

#define LOOK_FIRST_NS (2 * NSEC_PER_MSEC)
#define LOOK_LAST_NS  (100 * NSEC_PER_MSEC)
/* A pause between two looks is this part of the time waited so far: a record is seen that late. */
#define LOOK_PART 64
#define LOOKS_A_S 4000 /* by all nodes together, while they are few */

static atomic_bool outage; /* of the one backing of this process */

static int look_as_owner(struct backing *b, const struct coord_key *key)
{
	__cleanup_fd int dir = dir_open_owner(b, key->owner, true), pin = -1;
	char name[COORD_NAME_MAX];

	if (dir < 0)
		return dir;
	coord_record_name(name, key->gen, key->kind);
	pin = backing_pin(b, dir, name);
	return pin < 0 ? pin : 1;
}

/*
 * 1: the record may be there. A directory that is not believed counts as 1, too: the read then says
 * what is wrong.
 */
static int look(struct backing *b, const struct coord_key *key)
{
	const struct caller owner = {.uid = key->owner, .gid = DIR_NOGROUP};
	struct backing as = backing_as(b, &owner);
	int seen = look_as_owner(&as, key);

	return seen == -ENOENT ? 0 : seen == -EPERM ? 1 : seen;
}

/* Stops at the first that is found: where one is there the others mostly are not. */
static int look_at_all(struct backing *b, struct coord_key *keys, size_t nr)
{
	int seen = 0;
	size_t i;

	for (i = 0; !seen && i < nr; i++) {
		seen = look(b, &keys[i]);
		keys[i].there = seen == 1;
	}
	return seen;
}

static void tell(const struct backing *b, int err)
{
	char text[MESSAGE_MAX];

	if (atomic_exchange(&outage, err != 0) == (err != 0))
		return;
	if (err)
		MESSAGE(text, COORD_OUTAGE, b->path, strerror(-err));
	else
		MESSAGE(text, COORD_OUTAGE_OVER, b->path);
	log_warn("%s", text);
}

/* False: @wake is readable. */
static bool nap(int wake, uint64_t ns)
{
	struct timespec ts = {.tv_sec = (time_t)(ns / NSEC_PER_SEC),
			      .tv_nsec = (long)(ns % NSEC_PER_SEC)};
	struct pollfd p = {.fd = wake, .events = POLLIN};

	return ppoll(&p, 1, &ts, NULL) <= 0;
}

/* The time until the next look. */
static uint64_t pause_ns(const struct coord_key *keys, size_t nr, uint64_t now)
{
	uint64_t least = LOOK_LAST_NS;
	size_t i;

	for (i = 0; i < nr; i++) {
		uint64_t pause = (now - keys[i].since_ns) / LOOK_PART,
			 share = keys[i].nodes * (NSEC_PER_SEC / LOOKS_A_S);

		if (!keys[i].nodes)
			continue;
		pause = pause > share ? pause : share;
		pause = pause > LOOK_FIRST_NS ? pause : LOOK_FIRST_NS;
		least = least < pause ? least : pause;
	}
	return least;
}

int dir_wait(void *arg, struct coord_key *keys, size_t nr, int wake, uint64_t deadline_ns)
{
	struct backing *b = arg;
	uint64_t now, every;
	int seen;
	size_t i;

	for (i = 0; i < nr; i++)
		if (!coord_gen_ok(keys[i].gen) || !coord_kind_ok(keys[i].kind))
			return -EINVAL;
	now = clock_mono_ns();
	if (!nr && now < deadline_ns)
		nap(wake, deadline_ns - now);
	while (nr) {
		seen = look_at_all(b, keys, nr);
		tell(b, seen < 0 ? seen : 0);
		now = clock_mono_ns();
		if (seen < 0 && now < deadline_ns) /* so that the caller does not spin */
			nap(wake,
			    deadline_ns - now < LOOK_LAST_NS ? deadline_ns - now : LOOK_LAST_NS);
		every = pause_ns(keys, nr, now);
		if (seen || now >= deadline_ns ||
		    !nap(wake, deadline_ns - now < every ? deadline_ns - now : every))
			return seen;
	}
	return 0;
}
