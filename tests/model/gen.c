/* SPDX-License-Identifier: MIT */
/*
 * A seed becomes a sequence. What frameworks do is written as short programs of several processes,
 * interleaved at random; between that come deeds of chance: late files, removals, ends.
 */
#include "tests/model/model.h"

#include <string.h>

struct gen {
	struct sequence *s;
	uint64_t state;
	unsigned job_of[NR_PROCS], world_of[NR_PROCS];
	bool alive[NR_PROCS];
	unsigned open_by[NR_OPENS]; /* 1 + who; 0: free */
	unsigned next_job;
};

static unsigned below(struct gen *g, unsigned n)
{
	g->state ^= g->state >> 12;
	g->state ^= g->state << 25;
	g->state ^= g->state >> 27;
	return (unsigned)((g->state * 0x2545F4914F6CDD1Dull >> 33) % n);
}

static bool one_in(struct gen *g, unsigned n)
{
	return !below(g, n);
}

static void add(struct gen *g, struct op op)
{
	if (g->s->nr < OPS_MAX)
		g->s->ops[g->s->nr++] = op;
}

/* --- who is there --- */

static void start(struct gen *g, unsigned who, unsigned job, unsigned rank, unsigned world)
{
	add(g, (struct op){.kind = OP_START, .who = who, .job = job, .rank = rank, .world = world});
	g->alive[who] = true;
	g->job_of[who] = job;
	g->world_of[who] = world;
}

/* Processes [first, first + world) are a job. */
static void start_job(struct gen *g, unsigned first, unsigned world)
{
	unsigned job = ++g->next_job, i;

	for (i = 0; i < world; i++)
		start(g, first + i, job, i, world);
}

static void end(struct gen *g, unsigned who, enum op_kind how)
{
	unsigned i;

	if (!g->alive[who])
		return;
	add(g, (struct op){.kind = how, .who = who});
	g->alive[who] = false;
	for (i = 0; i < NR_OPENS; i++)
		if (g->open_by[i] == who + 1)
			g->open_by[i] = 0;
}

static unsigned anybody(struct gen *g)
{
	unsigned i, who = below(g, NR_PROCS);

	for (i = 0; i < NR_PROCS && !g->alive[who]; i++)
		who = (who + 1) % NR_PROCS;
	return who;
}

/* --- files --- */

static int open_one(struct gen *g, unsigned who, unsigned path, bool trunc)
{
	unsigned i;

	for (i = 0; i < NR_OPENS && g->open_by[i]; i++)
		;
	if (i == NR_OPENS)
		return -1;
	add(g, (struct op){.kind = OP_OPEN, .who = who, .path = path, .slot = i, .flag = trunc});
	g->open_by[i] = who + 1;
	return (int)i;
}

static void write_some(struct gen *g, int slot)
{
	unsigned off = one_in(g, 3) ? below(g, 40) : 0;

	add(g, (struct op){.kind = OP_WRITE,
			   .slot = (uint8_t)slot,
			   .off = off,
			   .len = 1 + below(g, 50),
			   .byte = 'a' + below(g, 26)});
}

static void close_one(struct gen *g, int slot)
{
	add(g, (struct op){.kind = OP_CLOSE, .slot = (uint8_t)slot});
	g->open_by[slot] = 0;
}

static void save_file(struct gen *g, unsigned who, unsigned path)
{
	int slot = open_one(g, who, path, !one_in(g, 6));

	if (slot < 0)
		return;
	write_some(g, slot);
	if (one_in(g, 4))
		write_some(g, slot);
	if (one_in(g, 8))
		add(g, (struct op){.kind = OP_CUT, .slot = (uint8_t)slot, .off = below(g, 30)});
	if (one_in(g, 6))
		add(g, (struct op){.kind = OP_FSYNC, .slot = (uint8_t)slot});
	if (one_in(g, 10) && g->s->nr < OPS_MAX / 2)
		return; /* it is closed later, or never */
	close_one(g, slot);
}

/* --- what chance does --- */

static unsigned any_unit(struct gen *g)
{
	return NAME_UNIT(below(g, NR_UNITS));
}

static void save_by_chance(struct gen *g, unsigned what, unsigned who, unsigned unit)
{
	switch (what) {
	case 0:
	case 1:
		save_file(g, who, unit + 1 + below(g, NAMES_IN_UNIT - 1));
		break;
	case 2:
		save_file(g, who, unit + IN_NOTE);
		break;
	case 3:
		save_file(g, who, unit + IN_DATA0 + below(g, 3));
		break;
	case 4:
		save_file(g, who, NAME_LOG + below(g, 3));
		break;
	case 5:
		save_file(g, who, NAME_SINGLE_TEMP);
		add(g, (struct op){.kind = OP_RENAME,
				   .who = who,
				   .path = NAME_SINGLE_TEMP,
				   .to = NAME_SINGLE});
		break;
	default:
		break;
	}
}

static void name_by_chance(struct gen *g, unsigned what, unsigned who, unsigned unit,
			   unsigned other)
{
	switch (what) {
	case 6:
		add(g, (struct op){.kind = OP_UNLINK,
				   .who = who,
				   .path = unit + 1 + below(g, NAMES_IN_UNIT - 1)});
		break;
	case 7:
	case 8:
		add(g, (struct op){.kind = OP_RMTREE, .who = who, .path = unit});
		break;
	case 9:
		add(g, (struct op){.kind = OP_RENAME, .who = who, .path = unit, .to = other});
		break;
	case 10:
		add(g, (struct op){.kind = OP_RENAME,
				   .who = who,
				   .path = unit + 1 + below(g, NAMES_IN_UNIT - 1),
				   .to = unit + 1 + below(g, NAMES_IN_UNIT - 1)});
		break;
	case 11:
		add(g, (struct op){.kind = OP_MKDIR,
				   .who = who,
				   .path = unit + (one_in(g, 2) ? IN_SUB : 0)});
		break;
	default:
		break;
	}
}

static void else_by_chance(struct gen *g, unsigned what, unsigned who, unsigned unit, unsigned i)
{
	switch (what) {
	case 12:
		add(g, (struct op){.kind = OP_COMMIT, .path = unit});
		break;
	case 13:
		add(g, (struct op){.kind = OP_PASS});
		break;
	case 14:
		add(g, (struct op){.kind = OP_SETTLE});
		break;
	case 15:
		end(g, who, OP_KILL);
		break;
	case 16:
		end(g, who, one_in(g, 3) ? OP_KILL : OP_EXIT);
		break;
	case 17:
		if (g->open_by[i])
			close_one(g, (int)i);
		break;
	case 18:
		if (g->open_by[i])
			write_some(g, (int)i);
		break;
	case 19:
		add(g, (struct op){.kind = OP_CUT_PATH,
				   .who = who,
				   .path = unit + 1 + below(g, NAMES_IN_UNIT - 1),
				   .off = one_in(g, 2) ? 0 : below(g, 30)});
		break;
	case 20:
		if (one_in(g, 3))
			add(g, (struct op){.kind = one_in(g, 2) ? OP_REMOUNT : OP_CRASH});
		break;
	case 21:
		add(g, (struct op){.kind = OP_RMDIR,
				   .who = who,
				   .path = unit + (one_in(g, 2) ? IN_SUB : 0)});
		break;
	default:
		break;
	}
}

static void by_chance(struct gen *g)
{
	unsigned who = anybody(g), unit = any_unit(g), other = any_unit(g), i = below(g, NR_OPENS);
	unsigned what = below(g, 24);

	if (what < 6)
		save_by_chance(g, what, who, unit);
	else if (what < 12)
		name_by_chance(g, what, who, unit, other);
	else
		else_by_chance(g, what, who, unit, i);
}

/* --- what a framework does --- */

/* Ranks [first, first + world) save @unit as torch.distributed.checkpoint does. */
static void save(struct gen *g, unsigned first, unsigned world, unsigned unit)
{
	unsigned order[NR_PROCS], i, chance = 4 + below(g, 12);

	add(g, (struct op){.kind = OP_MKDIR, .who = first, .path = unit});
	for (i = 0; i < world; i++)
		order[i] = i;
	for (i = 0; i < world; i++) {
		unsigned j = i + below(g, world - i), rank = order[j];

		order[j] = order[i];
		save_file(g, first + rank, unit + IN_DATA0 + rank);
		if (one_in(g, chance))
			by_chance(g);
	}
	if (one_in(g, 4)) {
		add(g, (struct op){.kind = OP_MKDIR, .who = first, .path = unit + IN_SUB});
		save_file(g, first, unit + IN_SUB_FILE);
	}
	if (one_in(g, chance))
		by_chance(g);
	if (one_in(g, 8))
		add(g, (struct op){
			       .kind = OP_POINT, .who = first, .path = unit, .flag = one_in(g, 2)});
	save_file(g, first, unit + IN_META_TEMP);
	if (one_in(g, chance))
		by_chance(g);
	add(g, (struct op){.kind = OP_RENAME,
			   .who = first,
			   .path = unit + IN_META_TEMP,
			   .to = unit + IN_META});
	if (one_in(g, 4))
		save_file(g, first, unit + IN_NOTE);
	if (one_in(g, 2))
		add(g, (struct op){
			       .kind = OP_POINT, .who = first, .path = unit, .flag = one_in(g, 2)});
}

static void train(struct gen *g, unsigned first, unsigned world)
{
	unsigned steps = 1 + below(g, 4), keep = below(g, 3), at = below(g, NR_UNITS), i, k;

	start_job(g, first, world);
	for (i = 0; i < steps; i++) {
		bool before = one_in(g, 2);
		unsigned unit = NAME_UNIT((at + i) % NR_UNITS);
		struct op rotate = {.kind = OP_RMTREE,
				    .who = first,
				    .path = NAME_UNIT((at + i + NR_UNITS - keep) % NR_UNITS)};

		if (keep && i >= keep && before)
			add(g, rotate);
		save(g, first, world, one_in(g, 6) ? NAME_UNIT(at) : unit);
		if (keep && i >= keep && !before)
			add(g, rotate);
		for (k = below(g, 3); k; k--)
			by_chance(g);
	}
	if (one_in(g, 2))
		for (i = 0; i < world; i++)
			end(g, first + i, one_in(g, 4) ? OP_KILL : OP_EXIT);
}

void generate(struct sequence *s, uint64_t seed)
{
	struct gen g = {.s = s, .state = (seed + 1) * 0x9E3779B97F4A7C15ull | 1};
	unsigned rounds, i;

	memset(s, 0, sizeof(*s));
	s->seed = seed;
	for (i = 0; i < 4; i++)
		below(&g, 2);
	s->racing = one_in(&g, 2);
	start(&g, NR_PROCS - 1, 0, 0, 0); /* a person */
	rounds = 1 + below(&g, 3);
	for (i = 0; i < rounds; i++) {
		unsigned first = below(&g, 2) * 2;

		train(&g, first, 1 + below(&g, first ? 2 : 3));
	}
}
