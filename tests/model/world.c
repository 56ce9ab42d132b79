/* SPDX-License-Identifier: MIT */
#include "tests/model/world.h"

#include <ftw.h>

#include "engine/calls/journal_held.h"
#include "engine/journal/journal_written.h"
#include "engine/save/units.h"
#include "tests/model/model.h"
#include "tests/model/people.h"

#define OPTIONS "chunk_size=64K,host_cache_size=512K,quiet_s=3600,flush_depth=2"
#define DRAIN_S 30

struct world world;
bool world_in_memory;

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static void open_mount(void)
{
	if (world.memory)
		mnt_open_memory(&world.m, world.memory, OPTIONS);
	else
		mnt_open(&world.m, world.path, OPTIONS);
}

void world_begin(bool record)
{
	struct error e;

	memset(&world, 0, sizeof(world));
	world.memory = world_in_memory ? memory_create() : NULL;
	if (world.memory)
		memory_open(world.memory, &world.look);
	else if (backing_open(&world.look, scratch_dir(world.path), &e))
		abort();
	open_mount();
	peek_mkdir(&world.look, "run");
	if (record)
		world.record = record_start(&world.m.en.backing);
	mnt_start(&world.m);
}

void world_mount(void)
{
	open_mount();
	mnt_start(&world.m);
}

void world_drop(void)
{
	engine_stop(&world.m.en);
	if (world.record)
		record_stop(world.record);
	mnt_close(&world.m);
	memset(&world.m, 0, sizeof(world.m));
	if (people_held())
		wrong("the mount has kept %u references to processes", people_held());
}

void world_unmount(void)
{
	int err;

	engine_no_more_calls(&world.m.en, "/mnt");
	err = mnt_drain(&world.m, DRAIN_S);
	if (err && err != -EIO)
		wrong("umount: %s", strerror(-err));
	world_drop();
}

void world_end(void)
{
	if (world.m.en.units)
		world_drop();
	if (world.record)
		record_free(world.record);
	backing_close(&world.look);
	if (world.memory && memory_descriptors(world.memory))
		wrong("%zu descriptors are left open", memory_descriptors(world.memory));
	if (world.memory) {
		memory_destroy(world.memory);
		return;
	}
	nftw(world.path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* Lock held. */
static bool is_busy(struct units *us)
{
	struct list *l;

	list_for_each (l, &us->checkpoints) {
		struct checkpoint *cp = container_of(l, struct checkpoint, link);

		checkpoint_look_for_end_locked(cp);
		if (cp->state == GENERATION_SEALED || checkpoint_is_held_locked(cp))
			return true;
	}
	list_for_each (l, &us->live.all) {
		struct generation *g = container_of(l, struct generation, link);

		g->hurried = true;
		if (generation_is_held_locked(g) ||
		    (g->state == GENERATION_SEALED && !(g->pointer && fate_waits(pointer_fate(g)))))
			return true;
	}
	return held_any_due_locked(us);
}

/* @pass: of everything that waits for silence it is said that there was enough. */
static void settle(bool pass)
{
	struct units *us = world.m.en.units;
	uint64_t until = clock_mono_ns() + DRAIN_S * NSEC_PER_SEC, quiet;
	bool busy;
	LOCK_SCOPE(&us->lock);

	quiet = us->quiet_ns;
	if (pass)
		us->quiet_ns = 0;
	while ((busy = is_busy(us)) && clock_mono_ns() < until) {
		waitq_wake(&us->work);
		waitq_wake(&us->commits);
		units_wait(us);
	}
	us->quiet_ns = quiet;
	if (busy)
		wrong("there is no end of what is being committed");
}

void world_settle(void)
{
	settle(false);
}

void world_pass(void)
{
	settle(true);
}
