/* SPDX-License-Identifier: MIT */
/*
 * Plays a sequence: each operation is a call in the mount; what it returns, what the mount shows
 * then, and what the backing shows, must be what the reference allows.
 */
#include "tests/model/model.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tests/model/calls.h"
#include "tests/model/cuts.h"
#include "tests/model/people.h"
#include "tests/model/play_inside.h"
#include "tests/model/point.h"
#include "tests/model/singles.h"

struct play_counts counts;
char model_wrong[MODEL_WRONG_MAX];

bool play_racing;
struct opened play_opens[NR_OPENS];

static bool show;

void wrong(const char *format, ...)
{
	va_list ap;

	if (*model_wrong)
		return; /* the first tells most */
	va_start(ap, format);
	vsnprintf(model_wrong, sizeof(model_wrong), format, ap);
	va_end(ap);
}

/* --- all of it --- */

/* A process that closes one of two descriptors has closed the file, as far as can be seen. */
static bool has_it_open(unsigned who, unsigned path)
{
	int file = ref_file(name_of(path));
	unsigned i;

	for (i = 0; i < NR_OPENS; i++)
		if (ref.opens[i].used && ref.opens[i].who == who && ref.opens[i].file == file)
			return true;
	return false;
}

/* Who removed it was killed: it comes back, or goes, at a moment of its own. */
static bool comes_or_goes(unsigned path)
{
	int u = unit_of(path);

	return u >= 0 && ref.units[u].view_unknown && ref.units[u].removers;
}

/* What process @who does. */
static bool play_of(const struct op *op, unsigned who)
{
	switch ((enum op_kind)op->kind) {
	case OP_EXIT:
	case OP_KILL:
		play_end(who, op->kind == OP_EXIT);
		return true;
	case OP_OPEN:
		if (ref.opens[op->slot].used || has_it_open(who, op->path))
			return false;
		play_open(op, who);
		return true;
	case OP_MKDIR:
		play_mkdir(op, who);
		return true;
	case OP_POINT:
		point_write(who, (unsigned)unit_of(op->path), op->flag);
		return true;
	case OP_LINK:
		point_link(who, (unsigned)unit_of(op->path));
		return true;
	case OP_RENAME:
		play_rename(op, who);
		return true;
	case OP_UNLINK:
		/* That of a job may be seen again, when it ends: tests/unit/file_removals.c. */
		if ((op->path == NAME_SINGLE || op->path == NAME_SINGLE_TEMP) &&
		    (!ref.procs[who].person || ref.procs[who].saved))
			return false;
		play_remove_one(who, name_of(op->path), unit_of(op->path), false);
		return true;
	case OP_RMDIR:
		play_remove_one(who, name_of(op->path), unit_of(op->path), true);
		return true;
	case OP_RMTREE:
		play_rmtree(op, who);
		return true;
	case OP_CUT_PATH:
		play_cut_path(op, who);
		return true;
	default:
		return false;
	}
}

static bool play_op(const struct op *op)
{
	int who = ref.at[op->who];
	bool alive = who >= 0 && ref.procs[who].alive;

	switch ((enum op_kind)op->kind) {
	case OP_START:
		if (alive)
			play_end((unsigned)who, true);
		play_start(op);
		return true;
	case OP_WRITE:
	case OP_CUT:
	case OP_FSYNC:
	case OP_CLOSE:
		if (!ref.opens[op->slot].used)
			return false;
		play_in_open(op);
		return true;
	case OP_COMMIT:
		play_commit(op);
		return true;
	case OP_PASS:
		world_pass();
		return true;
	case OP_SETTLE:
		world_settle();
		return true;
	case OP_REMOUNT:
	case OP_CRASH:
		if (world.record)
			return false;
		play_mount(op->kind == OP_CRASH);
		return true;
	default:
		break;
	}
	if (!alive || comes_or_goes(op->path) || comes_or_goes(op->to))
		return false;
	return play_of(op, (unsigned)who);
}

static void note_candidates(void)
{
	struct snap s;
	unsigned u;

	for (u = 0; u < NR_UNITS; u++) {
		if (!ref.units[u].pending || ref_has_open(u))
			continue;
		play_snap_of(u, &s);
		if (!s.there || !s.nr)
			continue;
		unit_candidate(u, &s);
		cuts_may_be(u, &s);
	}
}

/* What units it may change: bits. */
static unsigned concerns(const struct op *op)
{
	const unsigned all = (1u << NR_UNITS) - 1;
	int u = -1, v = -1, who = ref.at[op->who];

	switch ((enum op_kind)op->kind) {
	case OP_WRITE:
	case OP_CUT:
	case OP_FSYNC:
		return 0; /* that is seen when it is closed */
	case OP_CLOSE:
		u = ref_unit_of_open(op->slot);
		break;
	case OP_START:
		return who >= 0 && ref.procs[who].alive ? all : 0;
	case OP_RENAME:
		v = unit_of(op->to);
		u = unit_of(op->path);
		break;
	default:
		if (op->kind < OP_MKDIR || op->kind > OP_COMMIT)
			return all;
		u = unit_of(op->path);
	}
	return (u < 0 ? 0 : 1u << u) | (v < 0 ? 0 : 1u << v);
}

static void look_file_of(const char *path, bool directory, const char *data, unsigned len)
{
	char found[DATA_MAX + 1];
	ssize_t n;

	if (directory)
		return;
	n = call_read(path, found, sizeof(found));
	if (n != (ssize_t)len || memcmp(found, data, len))
		wrong("%s in the mount has %zd bytes instead of %u", path, n, len);
}

static void look_all(void)
{
	unsigned u;

	for (u = 0; !is_wrong() && u < NR_UNITS; u++) {
		play_look_back(u);
		play_look_view(u);
	}
	if (!is_wrong())
		ref_each(look_file_of);
}

static bool has_files(const struct snap *s)
{
	unsigned i;

	for (i = 0; i < s->nr; i++)
		if (!s->entries[i].directory)
			return true;
	return false;
}

/*
 * A change that leaves no file is not committed: by and by the last good one is seen again, or
 * nothing.
 */
static void expect_emptied_to_go(void)
{
	unsigned u;

	for (u = 0; u < NR_UNITS; u++) {
		struct snap view;

		play_snap_of(u, &view);
		if (ref.units[u].pending && view.there && !has_files(&view))
			ref.units[u].view_unknown = true;
	}
}

/* All jobs end well; what has all that its rule asks for is committed then. */
static void finish(void)
{
	unsigned i, u;

	for (i = 0; i < NR_OPENS; i++)
		if (ref.opens[i].used)
			play_in_open(&(struct op){.kind = OP_CLOSE, .slot = (uint8_t)i});
	note_candidates();
	for (i = 0; i < ref.nr_procs; i++)
		if (ref.procs[i].alive)
			play_end(i, true);
	note_candidates();
	singles_note();
	world_pass();
	expect_emptied_to_go();
	look_all();
	for (u = 0; !is_wrong() && u < NR_UNITS; u++) {
		struct unit *n = &ref.units[u];

		if (n->pending && n->ended == ENDED_YES && !n->back_unknown && !n->view_unknown)
			wrong("%s: its end was seen, and it is not committed",
			      name_of(NAME_UNIT(u)));
	}
	if (!is_wrong() && !world.record)
		play_mount(false);
	if (!is_wrong())
		look_all();
	cuts_mark();
}

bool play(const struct sequence *s, const struct play_options *o, unsigned *at)
{
	unsigned i, u, looked_at;

	*model_wrong = '\0';
	play_racing = s->racing;
	show = o->show;
	people_reset();
	ref_begin();
	cuts_begin();
	point_begin();
	world_begin(o->cuts);
	for (i = 0; !is_wrong() && i < s->nr; i++) {
		const struct op *op = &s->ops[i];

		if (show) {
			char text[200];

			op_describe(op, text, sizeof(text));
			fprintf(stderr, "%3u %s\n", i, text);
		}
		looked_at = concerns(op);
		if (!play_op(op)) {
			counts.skipped++;
			continue;
		}
		counts.ops++;
		note_candidates();
		singles_note();
		if (!play_racing)
			world_settle();
		for (u = 0; !is_wrong() && u < NR_UNITS; u++) {
			if (!(looked_at >> u & 1))
				continue;
			play_look_back(u);
			play_look_view(u);
		}
		if (!is_wrong())
			point_look(!play_racing);
		cuts_mark();
	}
	*at = i;
	if (!is_wrong())
		finish();
	if (!is_wrong() && o->cuts) {
		world_drop();
		counts.cuts += cuts_explore(o->cuts);
	}
	world_end();
	cuts_end();
	ref_end();
	return !is_wrong();
}
