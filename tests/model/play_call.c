/* SPDX-License-Identifier: MIT */
/*
 * Calls of processes: what each returns must be what the reference expects, or what the state of
 * the unit allows; what is done in the mount is done in the reference. It does not look at what
 * the mount shows then (play_look.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "tests/model/cuts.h"
#include "tests/model/play_inside.h"
#include "tests/model/point.h"
#include "tests/model/singles.h"
#include "tests/model/world.h"

/* --- who may --- */

enum touch { MAY_CHANGE, IS_BUSY, TAKES_OVER };

static enum touch touch(int u, unsigned who)
{
	const struct unit *n = u < 0 ? NULL : &ref.units[u];
	bool own = false;
	unsigned i;

	if (!n || !n->pending || !(n->claimed || n->committed))
		return MAY_CHANGE;
	for (i = 0; i < ref.nr_procs; i++) {
		if (!(n->part & BIT(i)))
			continue;
		if (ref.procs[i].job == ref.procs[who].job)
			own = true;
		else if (ref.procs[i].alive)
			return IS_BUSY;
	}
	return own || n->job == ref.procs[who].job ? MAY_CHANGE : TAKES_OVER;
}

/* May it be committed already, and what was begun after that be of others, who are gone? */
static bool may_take_over(int u, unsigned who)
{
	const struct unit *n = u < 0 ? NULL : &ref.units[u];
	bool left = false;
	unsigned i;

	if (!n || !play_racing || n->ended == ENDED_NO)
		return false;
	for (i = 0; i < ref.nr_procs; i++) {
		if (!((n->late | n->maybe) & BIT(i)))
			continue;
		if (n->late & BIT(i) && ref.procs[i].job == ref.procs[who].job)
			return false;
		left = left || (ref.procs[i].job != ref.procs[who].job && !ref.procs[i].alive);
	}
	return left;
}

/* @joins: who does this takes part in it from now on; else only the unit is another. */
static void changed(int u, unsigned who, unsigned path, bool file, bool joins)
{
	struct unit *n = u < 0 ? NULL : &ref.units[u];
	unsigned name = path % NAMES_IN_UNIT;

	if (!n)
		return;
	if (!n->pending) {
		n->pending = true;
		n->ended = ENDED_NO;
		n->asked = false;
		n->part = n->late = n->maybe = 0;
		n->job = ref.procs[who].job;
	}
	if (joins) {
		n->part |= BIT(who);
		n->ever |= BIT(who);
		if (n->ended != ENDED_NO)
			n->late |= BIT(who);
		ref.procs[who].saved = true;
	}
	if (!file || n->claimed)
		return;
	if (name >= IN_DATA0 && name <= IN_META) {
		n->claimed = true;
		if (n->job != ref.procs[who].job && (!n->committed || n->may_go)) {
			n->job = ref.procs[who].job; /* whose file shows it to be a unit has it */
			n->part = BIT(who);
		}
	}
	if (!n->claimed && (!n->committed || n->may_go))
		n->back_unknown = true; /* an ordinary directory, then */
}

/* A rank has a part in what it changes in any way; not in what it removes of a committed one. */
static void changed_by_rank(int u, unsigned who)
{
	struct unit *n = u < 0 ? NULL : &ref.units[u];

	if (!n || !n->pending || ref.procs[who].person)
		return;
	n->ever |= BIT(who);
	if (play_racing && n->ended != ENDED_NO)
		n->maybe |= BIT(who);
	else
		n->part |= BIT(who);
}

/* --- calls --- */

/*
 * Has somebody of another job changed it who lives? He may have begun the next change before the
 * last was seen.
 */
static bool was_busy(int u, unsigned who)
{
	unsigned i;

	for (i = 0; u >= 0 && i < ref.nr_procs; i++)
		if (ref.units[u].ever & BIT(i) && ref.procs[i].alive &&
		    ref.procs[i].job != ref.procs[who].job)
			return true;
	return false;
}

/* A call that is refused may have begun a change all the same: one in which nothing is changed. */
static void refused_change(int u, unsigned who)
{
	struct unit *n = u < 0 ? NULL : &ref.units[u];

	if (!n || !n->committed || n->pending)
		return;
	n->pending = true;
	n->ended = ENDED_NO;
	n->job = ref.procs[who].job;
	n->part = n->late = n->maybe = 0;
}

/*
 * Judges what a call that is to change unit @u got. True: it has been done, so do it in the
 * reference. The error that any filesystem gives is @wanted.
 */
static bool judge(const char *call, const char *path, int u, unsigned who, int wanted, int got)
{
	if (got && u >= 0 && ref.units[u].pending && !ref.procs[who].person)
		ref.units[u].maybe |= BIT(who); /* it may have got as far as that */
	if (got == wanted || (got == -EEXIST && wanted == -ENOTEMPTY)) /* the latter, on an XFS */
		return !got;
	if (got == -EBUSY && (touch(u, who) == IS_BUSY || (play_racing && was_busy(u, who)))) {
		counts.refused++;
		return false;
	}
	if (got == -EIO && ref.procs[who].may_fail) {
		ref.procs[who].may_fail = false;
		counts.refused++;
		refused_change(u, who);
		return false;
	}
	if (u >= 0 && ref.units[u].view_unknown)
		return false;
	wrong("%s %s: %s instead of %s", call, path, strerror(-got),
	      wanted ? strerror(-wanted) : "success");
	return false;
}

/*
 * A call that any filesystem would grant got @got. What another job has left is no more, then: if
 * that was so, true.
 * @ends: it may be the end of a checkpoint, which is committed already.
 */
static bool take_over(int u, unsigned who, int got, bool ends)
{
	struct unit *n = u < 0 ? NULL : &ref.units[u];
	struct snap empty = {.there = true};

	if (!n || (got == -EIO && ref.procs[who].may_fail))
		return false;
	if (may_take_over(u, who))
		n->view_unknown = n->back_unknown = true;
	if (touch(u, who) != TAKES_OVER)
		return false;
	/* As in play_fail_unit. */
	if ((play_racing && n->ended != ENDED_NO) || n->removers)
		n->view_unknown = n->back_unknown = true;
	if (n->committed) { /* what was added and is whole was committed first */
		if (!ends)
			play_look_back((unsigned)u);
		else if (!play_try_back((unsigned)u)) {
			play_snap_of((unsigned)u, &n->old); /* that was there, for a moment */
			*n->generation = '\0';
		}
		point_look(!play_racing);
	}
	ref_put(name_of(NAME_UNIT((unsigned)u)), n->committed && !n->may_go ? &n->old : &empty);
	n->pending = n->claimed = false;
	n->part = n->late = n->maybe = 0;
	unit_forget_candidates((unsigned)u, n->nr_candidates);
	if (!n->committed || n->may_go) {
		n->pending = true;
		n->job = ref.procs[who].job;
		n->ended = ENDED_NO;
	}
	return true;
}

void play_open(const struct op *op, unsigned who)
{
	const char *path = name_of(op->path);
	int u = unit_of(op->path), wanted = ref_expect_open(path), got;

	got = call_open(ref.procs[who].pid, path, O_WRONLY | O_CREAT | (op->flag ? O_TRUNC : 0),
			&play_opens[op->slot]);
	if (!wanted && take_over(u, who, got, false))
		wanted = ref_expect_open(path);
	if (!judge("open", path, u, who, wanted, got)) {
		if (!got)
			call_close(ref.procs[who].pid, &play_opens[op->slot]);
		return;
	}
	if (u >= 0 && play_racing && op->flag && ref.units[u].ended == ENDED_YES)
		ref.units[u].ended = ENDED_MAYBE;
	ref_open(op->slot, who, path, op->flag);
	if (op->path == NAME_SINGLE || op->path == NAME_SINGLE_TEMP)
		ref.procs[who].saved = true;
	changed(u, who, op->path, true, true);
}

void play_in_open(const struct op *op)
{
	struct open_ref *o = &ref.opens[op->slot];
	pid_t pid = ref.procs[o->who].pid;
	int u = ref_unit_of_open(op->slot), got;
	char data[DATA_MAX];

	switch (op->kind) {
	case OP_WRITE:
		memset(data, op->byte, op->len);
		got = call_write(pid, &play_opens[op->slot], data, op->len, op->off);
		break;
	case OP_CUT:
		got = call_cut(pid, &play_opens[op->slot], op->off);
		break;
	case OP_FSYNC:
		got = call_sync(pid, &play_opens[op->slot]);
		break;
	default:
		got = call_close(pid, &play_opens[op->slot]);
		break;
	}
	if (!o->lost && !(u >= 0 && ref.units[u].view_unknown) && got)
		wrong("%s: %s",
		      op->kind == OP_WRITE   ? "write"
		      : op->kind == OP_CUT   ? "ftruncate"
		      : op->kind == OP_FSYNC ? "fsync"
					     : "close",
		      strerror(-got));
	if (op->kind == OP_WRITE && !got)
		ref_write(op->slot, (char)op->byte, op->off, op->len);
	if (op->kind == OP_CUT && !got)
		ref_cut(o->file, op->off);
	if (op->kind == OP_CLOSE)
		ref_close(op->slot);
}

static bool is_on_backing(unsigned u)
{
	return peek_exists(&world.look, name_of(NAME_UNIT(u)));
}

void play_mkdir(const struct op *op, unsigned who)
{
	const char *path = name_of(op->path);
	bool top = op->path % NAMES_IN_UNIT == IN_TOP;
	int u = unit_of(op->path), wanted = ref_expect_mkdir(path);
	int got = call_mkdir(ref.procs[who].pid, path);

	if (!wanted && !top && take_over(u, who, got, false))
		wanted = ref_expect_mkdir(path);
	if (!judge("mkdir", path, top ? -1 : u, who, wanted, got))
		return;
	ref_mkdir(path);
	if (top && u >= 0) {
		ref.units[u].pending = false;
		ref.units[u].back_unknown = ref.units[u].back_unknown && is_on_backing((unsigned)u);
		ref.units[u].view_unknown = false;
	}
	changed(u, who, op->path, false, true);
}

/* The file that showed the end is not there any more. */
static void lose_end(int u, unsigned path)
{
	if (u >= 0 && path % NAMES_IN_UNIT == IN_META && ref.units[u].ended == ENDED_YES)
		ref.units[u].ended = play_racing ? ENDED_MAYBE : ENDED_NO;
}

bool play_remove_one(unsigned who, const char *path, int u, bool directory)
{
	struct unit *n = u < 0 ? NULL : &ref.units[u];
	bool top = n && !strcmp(path, name_of(NAME_UNIT((unsigned)u)));
	int wanted = directory ? ref_expect_rmdir(path) : ref_expect_unlink(path), got;
	struct snap s;

	got = directory ? call_rmdir(ref.procs[who].pid, path)
			: call_unlink(ref.procs[who].pid, path);
	if (!wanted && !top && take_over(u, who, got, false))
		wanted = directory ? ref_expect_rmdir(path) : ref_expect_unlink(path);
	if (!judge(directory ? "rmdir" : "unlink", path, u, who, wanted, got))
		return false;
	ref_remove(path);
	if (!n)
		singles_unsure();
	if (!n)
		return true;
	if (!strcmp(path, name_of(NAME_UNIT((unsigned)u) + IN_META)))
		lose_end(u, IN_META);
	n->removers |= BIT(who);
	if (!top) {
		if (((n->committed && !n->pending) || (play_racing && n->ended != ENDED_NO)) &&
		    ref.procs[who].person && !ref.procs[who].saved) {
			n->back_unknown = true; /* a person does: in its place */
			play_snap_of((unsigned)u, &s);
			unit_candidate((unsigned)u, &s);
			cuts_unknown((unsigned)u);
		} else {
			changed_by_rank(u, who);
			if (n->pending && n->ended == ENDED_YES)
				n->ended = ENDED_MAYBE; /* not before some silence: more may go */
			n->partial = n->partial || (n->committed && !n->pending);
			changed(u, who, NAME_UNIT((unsigned)u), false, false);
		}
		return true;
	}
	point_removed((unsigned)u);
	n->pending = n->claimed = n->view_unknown = n->partial = false;
	n->part = n->late = n->maybe = 0;
	n->ended = ENDED_NO;
	if (n->back_unknown && ref.procs[who].person && !ref.procs[who].saved) {
		n->committed =
			n->committed && n->may_go; /* what was removed before waits as it did */
		n->back_unknown = false;
	}
	n->may_go = true;
	return true;
}

void play_rmtree(const struct op *op, unsigned who)
{
	int u = unit_of(op->path);
	struct snap s;
	unsigned i;

	play_snap_of((unsigned)u, &s);
	if (!s.there || (u >= 0 && ref.units[u].view_unknown))
		return;
	for (i = s.nr; i-- > 0;) {
		char path[2 * PATH_LEN];

		snprintf(path, sizeof(path), "%s/%s", name_of(op->path), s.entries[i].rel);
		if (!play_remove_one(who, path, u, s.entries[i].directory) || is_wrong())
			return;
	}
	play_remove_one(who, name_of(op->path), u, true);
}

void play_cut_path(const struct op *op, unsigned who)
{
	const char *path = name_of(op->path);
	int u = unit_of(op->path), wanted = ref_expect_cut(path);
	int got = call_cut_path(ref.procs[who].pid, path, op->off);

	if (!wanted && take_over(u, who, got, false))
		wanted = ref_expect_cut(path);
	if (!judge("truncate", path, u, who, wanted, got))
		return;
	if (u >= 0 && play_racing && ref.units[u].ended == ENDED_YES)
		ref.units[u].ended = ENDED_MAYBE;
	ref_cut(ref_file(path), op->off);
	changed(u, who, op->path, true, true);
}

/*
 * What is committed goes along, but what was removed before stays where it was until the next
 * commit.
 */
static void move_unit(unsigned from, unsigned to)
{
	struct unit *a = &ref.units[from], *b = &ref.units[to], was = *b;

	point_renamed(from); /* what waits is applied under the old name */
	cuts_unknown(from);  /* a rename is no commit */
	cuts_unknown(to);
	*b = *a;
	*a = (struct unit){.candidates = was.candidates, .room = was.room};
	if (b->may_go) {
		a->committed = a->may_go = true;
		a->old = b->old;
		a->removers = b->removers;
		memcpy(a->generation, b->generation, GENERATION);
		b->committed = b->may_go = false;
		b->removers = 0;
	}
	if (!was.committed || b->committed)
		return; /* in the latter case what was removed there has made way */
	b->committed = b->may_go = true;
	b->removers |= was.removers;
	b->old = was.old;
	memcpy(b->generation, was.generation, GENERATION);
}

void play_rename(const struct op *op, unsigned who)
{
	const char *from = name_of(op->path), *to = name_of(op->to);
	int u = unit_of(op->path), v = unit_of(op->to), wanted = ref_expect_rename(from, to), got;
	bool begins; /* a change to a committed one */
	bool top = u >= 0 && op->path == NAME_UNIT((unsigned)u);

	if (top != (v >= 0 && op->to == NAME_UNIT((unsigned)v)))
		return;
	got = call_rename(ref.procs[who].pid, from, to);
	if (!wanted && !top && op->path != op->to &&
	    take_over(v, who, got, op->to % NAMES_IN_UNIT == IN_META))
		wanted = ref_expect_rename(from, to);
	if (!judge("rename", from, v, who, wanted, got) || !strcmp(from, to))
		return;
	ref_rename(from, to);
	singles_unsure();
	lose_end(u, op->path);
	if (top) {
		move_unit((unsigned)u, (unsigned)v);
		return;
	}
	changed_by_rank(v, who);
	begins = v >= 0 && ref.units[v].committed && !ref.units[v].pending;
	changed(u, who, op->path, true, begins);
	changed(v, who, op->to, true, begins);
	if (v >= 0 && play_racing && ref.units[v].ended != ENDED_NO) {
		ref.units[v].maybe |= BIT(who);
		ref.units[v].ever |= BIT(who);
	}
	if (v >= 0 && op->to % NAMES_IN_UNIT == IN_META) {
		ref.units[v].ended = ENDED_YES;
		ref.units[v].late = 0;
	}
}

void play_commit(const struct op *op)
{
	int u = unit_of(op->path), got = call_commit(name_of(op->path));

	if (!got && ref.units[u].ended == ENDED_NO)
		ref.units[u].ended = ENDED_MAYBE;
	if (!got) {
		ref.units[u].asked = true;
		ref.units[u].late = 0;
	}
}
