/* SPDX-License-Identifier: MIT */
/*
 * Processes that start and end, and mounts that end and begin again: well, or by a kill or a
 * crash.
 */
#include "tests/model/look.h"
#include "tests/model/people.h"
#include "tests/model/play_inside.h"
#include "tests/model/point.h"
#include "tests/model/singles.h"
#include "tests/model/world.h"

/* --- processes --- */

/* It shows whatever it was before, or is not there: a save of it may have failed. */
static void adopt_file(const char *path)
{
	char data[DATA_MAX + 1];
	ssize_t n = call_read(path, data, sizeof(data));
	int file = ref_file(path);
	unsigned i;

	for (i = 0; file >= 0 && i < NR_OPENS; i++)
		if (ref.opens[i].used && ref.opens[i].file == file)
			ref.opens[i].lost = true;
	if (file >= 0)
		ref_remove(path);
	if (n >= 0)
		ref_set(path, data, (unsigned)n);
	singles_unsure();
}

void play_start(const struct op *op)
{
	struct process_ref *p = &ref.procs[ref.nr_procs];

	if (ref.nr_procs == PROCS_MAX)
		return;
	*p = (struct process_ref){.alive = true,
				  .person = !op->job,
				  .job = op->job ? op->job : 1000 + ref.nr_procs,
				  .world = op->world,
				  .pid = people_start(op->job, 0, op->rank, op->world)};
	ref.at[op->who] = (int)ref.nr_procs++;
}

/* Also of what it has open. */
void play_end(unsigned who, bool well)
{
	struct process_ref *p = &ref.procs[who];
	bool whole[NR_UNITS], single = false, committed;
	unsigned u, i;

	for (u = 0; u < NR_UNITS; u++)
		whole[u] = !ref_has_open(u);
	people_ending(p->pid, well);
	for (i = 0; i < NR_OPENS; i++) {
		if (!ref.opens[i].used || ref.opens[i].who != who)
			continue;
		single = single || ref.opens[i].file == ref_file(name_of(NAME_SINGLE)) ||
			 ref.opens[i].file == ref_file(name_of(NAME_SINGLE_TEMP));
		call_close(p->pid, &play_opens[i]);
		ref_close(i);
	}
	p->alive = false;
	people_ended(p->pid);
	if (well)
		return;
	counts.kills++;
	if (single) {
		adopt_file(name_of(NAME_SINGLE));
		adopt_file(name_of(NAME_SINGLE_TEMP));
	}
	for (u = 0; u < NR_UNITS; u++) {
		struct unit *n = &ref.units[u];

		/* Soon it is seen again, or gone, if there is a newer one. */
		if (n->committed && n->removers & BIT(who))
			n->view_unknown = n->back_unknown = true;
		if (!n->pending || !((n->part | n->maybe) & BIT(who)))
			continue;
		for (i = 0; i < ref.nr_procs; i++)
			if (i != who && (ref.procs[i].job == n->job ||
					 (play_racing && ref.procs[i].job == p->job)))
				ref.procs[i].may_fail = true;
		if (whole[u] && n->ended == ENDED_YES && !play_racing && !n->back_unknown)
			continue; /* its end was seen */
		committed = !(n->part & BIT(who)) ||
			    (play_racing && n->ended != ENDED_NO && !(n->late & BIT(who)));
		play_fail_unit(u, (whole[u] && n->ended != ENDED_NO) || committed || !n->claimed
					  ? MAY_BE_NOW
					  : 0);
	}
}

/* --- mounts --- */

static void back_to_view(unsigned u)
{
	struct unit *n = &ref.units[u];
	char generation[GENERATION], why[300] = "";
	struct snap s;

	play_look_back(u);
	look_unit(&world.look, u, &s, generation, why, sizeof(why));
	ref_put(name_of(NAME_UNIT(u)), &s);
	n->pending = n->claimed = n->view_unknown = n->may_go = n->partial = false;
	n->part = n->late = n->maybe = n->removers = 0;
	n->ended = ENDED_NO;
	unit_forget_candidates(u, n->nr_candidates);
}

void play_mount(bool crash)
{
	unsigned u, i;
	bool must[NR_UNITS];

	for (i = 0; i < NR_OPENS; i++)
		if (ref.opens[i].used && !crash)
			return; /* busy */
	for (u = 0; u < NR_UNITS; u++)
		must[u] = !crash && ref.units[u].pending && ref.units[u].ended == ENDED_YES &&
			  !ref.units[u].view_unknown && !ref.units[u].back_unknown;
	if (crash) {
		engine_stop(&world.m.en);
		for (i = 0; i < NR_OPENS; i++) {
			int ignored;

			if (!ref.opens[i].used)
				continue;
			if (play_opens[i].file.h->generation)
				generation_released(play_opens[i].file.h->generation);
			handle_put(world.m.fs.tree, play_opens[i].file.h, &ignored);
			play_opens[i].used = false;
			ref_close(i);
		}
		world_drop();
	} else {
		world_unmount();
	}
	world_mount();
	for (u = 0; !is_wrong() && u < NR_UNITS; u++) {
		play_look_back(u);
		if (must[u] && ref.units[u].pending)
			wrong("%s: its end was seen, and umount did not commit it",
			      name_of(NAME_UNIT(u)));
		back_to_view(u);
	}
	point_remounted();
	for (i = 0; i < ref.nr_procs; i++)
		ref.procs[i].may_fail = false;
	if (!crash)
		return;
	adopt_file(name_of(NAME_SINGLE));
	adopt_file(name_of(NAME_SINGLE_TEMP));
}
