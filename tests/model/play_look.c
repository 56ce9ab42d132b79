/* SPDX-License-Identifier: MIT */
/*
 * What the backing and the mount show of the units while a sequence is played, and what the
 * reference takes over of it, where more than one outcome is right.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tests/model/look.h"
#include "tests/model/play_inside.h"
#include "tests/model/world.h"

#define LOOKS 10

/* --- what the backing shows --- */

void play_snap_of(unsigned u, struct snap *s)
{
	ref_snap(name_of(NAME_UNIT(u)), s);
}

static void say_wrong(unsigned u, const char *what, const struct snap *found,
		      const struct snap *wanted)
{
	static char a[900], b[900];

	snap_print(found, a, sizeof(a));
	if (wanted)
		snap_print(wanted, b, sizeof(b));
	wrong("%s %s: %s%s%s", name_of(NAME_UNIT(u)), what, a, wanted ? "\n    instead of: " : "",
	      wanted ? b : "");
}

/* A new commit was found. */
static void adopt_commit(unsigned u, const struct snap *s, const char *generation, int candidate)
{
	struct unit *n = &ref.units[u];
	struct snap view;

	play_snap_of(u, &view);
	n->old = *s;
	n->committed = true;
	n->may_go = !view.there;
	snprintf(n->generation, GENERATION, "%s", generation);
	unit_forget_candidates(u, (unsigned)candidate + 1);
	counts.commits++;
	if (n->ended == ENDED_YES)
		n->ended = snap_same(&view, s) ? ENDED_NO : ENDED_MAYBE;
	if (!snap_same(&view, s) || ref_has_open(u))
		return;
	n->pending = n->claimed = n->partial = false;
	n->ended = ENDED_NO;
	n->part = n->late = n->maybe = 0;
}

/* False: not as it may be; that is said if @say. */
static bool look_back_once(unsigned u, bool say)
{
	struct unit *n = &ref.units[u];
	char generation[GENERATION], why[300] = "";
	struct snap s;
	enum found found = look_unit(&world.look, u, &s, generation, why, sizeof(why));
	int candidate;

	switch (found) {
	case FOUND_NOTHING:
		if (n->committed && !n->may_go && !n->back_unknown) {
			if (say)
				wrong("%s was committed, and is not on the backing",
				      name_of(NAME_UNIT(u)));
			return false;
		}
		n->committed = n->may_go = false;
		return true;
	case FOUND_PLAIN:
		if (n->back_unknown)
			return true;
		if (say)
			say_wrong(u, "is on the backing without a commit file", &s, NULL);
		return false;
	case FOUND_BROKEN:
		if (n->back_unknown)
			return true;
		if (say)
			wrong("%s is broken on the backing: %s", name_of(NAME_UNIT(u)), why);
		return false;
	case FOUND_UNIT:
		break;
	}
	candidate = unit_find_candidate(u, &s);
	if (n->back_unknown && candidate < 0)
		return true;
	n->back_unknown = false;
	if (n->committed && !strcmp(n->generation, generation)) {
		if (snap_same(&s, &n->old))
			return true;
		if (say)
			say_wrong(u, "on the backing is not what was committed", &s, &n->old);
		return false;
	}
	if (candidate < 0) {
		struct snap view;

		play_snap_of(u, &view);
		if (say)
			say_wrong(u, "was committed as it never was", &s, &view);
		return false;
	}
	adopt_commit(u, &s, generation, candidate);
	return true;
}

/* Is it as it may be? */
bool play_try_back(unsigned u)
{
	const struct timespec moment = {.tv_nsec = NSEC_PER_MSEC};
	unsigned tries;

	/* It may be replaced or removed while it is read. */
	for (tries = 0; tries < LOOKS; tries++) {
		if (look_back_once(u, false))
			return true;
		world_settle();
		nanosleep(&moment, NULL);
	}
	return false;
}

void play_look_back(unsigned u)
{
	if (!play_try_back(u))
		look_back_once(u, true);
}

/* --- what the mount shows --- */

void play_look_view(unsigned u)
{
	struct snap found, wanted;

	if (is_wrong() || ref.units[u].view_unknown || !look_mount(name_of(NAME_UNIT(u)), &found))
		return;
	play_snap_of(u, &wanted);
	if (!snap_same(&found, &wanted))
		say_wrong(u, "in the mount shows", &found, &wanted);
}

/* It shows one of these from now on. */
static void adopt_view(unsigned u, unsigned may_be)
{
	const struct snap gone = {.there = false}, empty = {.there = true};
	struct unit *n = &ref.units[u];
	struct snap found, now;

	if (is_wrong() || !look_mount(name_of(NAME_UNIT(u)), &found))
		return;
	counts.adopted++;
	play_snap_of(u, &now);
	if (may_be & MAY_BE_NOW && snap_same(&found, &now))
		return;
	if (!(may_be & MAY_BE_ANY) &&
	    !(may_be & MAY_BE_OLD && n->committed && snap_same(&found, &n->old)) &&
	    !(may_be & MAY_BE_GONE && snap_same(&found, &gone)) &&
	    !(may_be & MAY_BE_EMPTY && snap_same(&found, &empty)) &&
	    !(may_be & MAY_BE_CANDIDATE && unit_find_candidate(u, &found) >= 0))
		say_wrong(u, "shows, which it was neither before nor after", &found, &now);
	ref_put(name_of(NAME_UNIT(u)), &found);
}

/* What was changed since the last commit has failed, or may have. */
void play_fail_unit(unsigned u, unsigned may_be)
{
	struct unit *n = &ref.units[u];
	struct snap was, view;

	play_look_back(u);
	if (!n->pending)
		return;
	/* What was removed of the committed one stays so, or not. */
	if (n->removers) {
		n->view_unknown = n->back_unknown = true;
		if (look_mount(name_of(NAME_UNIT(u)), &view))
			ref_put(name_of(NAME_UNIT(u)), &view);
		return;
	}
	if (!n->committed || n->may_go)
		may_be |= MAY_BE_GONE;
	if (n->committed)
		may_be |= MAY_BE_OLD;
	if (play_racing || n->partial || n->back_unknown)
		may_be |= MAY_BE_CANDIDATE;
	play_snap_of(u, &was);
	adopt_view(u, may_be);
	play_snap_of(u, &view);
	if (play_racing && n->ended == ENDED_YES)
		n->ended = ENDED_MAYBE; /* of the next change, perhaps */
	if ((may_be & MAY_BE_NOW && (play_racing || snap_same(&was, &view))) ||
	    (play_racing && view.there && !(n->committed && snap_same(&view, &n->old))))
		return;
	if (n->partial) {
		n->part = n->late = n->maybe = 0;
		n->ended = ENDED_NO;
		return;
	}
	n->pending = n->claimed = false;
	n->ended = ENDED_NO;
	n->part = n->late = n->maybe = 0;
	unit_forget_candidates(u, n->nr_candidates);
}
