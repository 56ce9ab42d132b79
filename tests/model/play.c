/* SPDX-License-Identifier: MIT */
/*
 * Plays a sequence: each operation is a call in the mount; what it returns, what the mount shows then,
 * and what the backing shows, must be what the reference allows.
 */
#include "tests/model/model.h"

#include "tests/model/calls.h"
#include "tests/model/cuts.h"
#include "tests/model/look.h"
#include "tests/model/people.h"
#include "tests/model/point.h"
#include "tests/model/reference.h"
#include "tests/model/singles.h"

#define LOOKS	     10
#define BIT(process) (1ull << (process))

struct play_counts counts;
char model_wrong[MODEL_WRONG_MAX];

static bool racing, show;
static struct opened opens[NR_OPENS];

void wrong(const char *format, ...)
{
	va_list ap;

	if (*model_wrong)
		return; /* the first tells most */
	va_start(ap, format);
	vsnprintf(model_wrong, sizeof(model_wrong), format, ap);
	va_end(ap);
}

/* --- what the backing shows --- */

static void snap_of(unsigned u, struct snap *s)
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

	snap_of(u, &view);
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

		snap_of(u, &view);
		if (say)
			say_wrong(u, "was committed as it never was", &s, &view);
		return false;
	}
	adopt_commit(u, &s, generation, candidate);
	return true;
}

/* Is it as it may be? */
static bool try_back(unsigned u)
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

static void look_back(unsigned u)
{
	if (!try_back(u))
		look_back_once(u, true);
}

/* --- what the mount shows --- */

static void look_view(unsigned u)
{
	struct snap found, wanted;

	if (is_wrong() || ref.units[u].view_unknown || !look_mount(name_of(NAME_UNIT(u)), &found))
		return;
	snap_of(u, &wanted);
	if (!snap_same(&found, &wanted))
		say_wrong(u, "in the mount shows", &found, &wanted);
}

enum {
	MAY_BE_NOW = 1,
	MAY_BE_OLD = 2,
	MAY_BE_GONE = 4,
	MAY_BE_EMPTY = 8,
	MAY_BE_CANDIDATE = 16,
	MAY_BE_ANY = 32
};

/* It shows one of these from now on. */
static void adopt_view(unsigned u, unsigned may_be)
{
	const struct snap gone = {.there = false}, empty = {.there = true};
	struct unit *n = &ref.units[u];
	struct snap found, now;

	if (is_wrong() || !look_mount(name_of(NAME_UNIT(u)), &found))
		return;
	counts.adopted++;
	snap_of(u, &now);
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
static void fail_unit(unsigned u, unsigned may_be)
{
	struct unit *n = &ref.units[u];
	struct snap was, view;

	look_back(u);
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
	if (racing || n->partial || n->back_unknown)
		may_be |= MAY_BE_CANDIDATE;
	snap_of(u, &was);
	adopt_view(u, may_be);
	snap_of(u, &view);
	if (racing && n->ended == ENDED_YES)
		n->ended = ENDED_MAYBE; /* of the next change, perhaps */
	if ((may_be & MAY_BE_NOW && (racing || snap_same(&was, &view))) ||
	    (racing && view.there && !(n->committed && snap_same(&view, &n->old))))
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

	if (!n || !racing || n->ended == ENDED_NO)
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
	if (racing && n->ended != ENDED_NO)
		n->maybe |= BIT(who);
	else
		n->part |= BIT(who);
}

/* --- calls --- */

/* Has somebody of another job changed it who lives? He may have begun the next change before the last was seen. */
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
 * Judges what a call that is to change unit @u got. True: it has been done, so do it in the reference. The error that
 * any filesystem gives is @wanted.
 */
static bool judge(const char *call, const char *path, int u, unsigned who, int wanted, int got)
{
	if (got && u >= 0 && ref.units[u].pending && !ref.procs[who].person)
		ref.units[u].maybe |= BIT(who); /* it may have got as far as that */
	if (got == wanted || (got == -EEXIST && wanted == -ENOTEMPTY)) /* the latter, on an XFS */
		return !got;
	if (got == -EBUSY && (touch(u, who) == IS_BUSY || (racing && was_busy(u, who)))) {
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
 * A call that any filesystem would grant got @got. What another job has left is no more, then: if that was so, true.
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
	/* As in fail_unit. */
	if ((racing && n->ended != ENDED_NO) || n->removers)
		n->view_unknown = n->back_unknown = true;
	if (n->committed) { /* what was added and is whole was committed first */
		if (!ends)
			look_back((unsigned)u);
		else if (!try_back((unsigned)u)) {
			snap_of((unsigned)u, &n->old); /* that was there, for a moment */
			*n->generation = '\0';
		}
		point_look(!racing);
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

static void play_open(const struct op *op, unsigned who)
{
	const char *path = name_of(op->path);
	int u = unit_of(op->path), wanted = ref_expect_open(path), got;

	got = call_open(ref.procs[who].pid, path, O_WRONLY | O_CREAT | (op->flag ? O_TRUNC : 0),
			&opens[op->slot]);
	if (!wanted && take_over(u, who, got, false))
		wanted = ref_expect_open(path);
	if (!judge("open", path, u, who, wanted, got)) {
		if (!got)
			call_close(ref.procs[who].pid, &opens[op->slot]);
		return;
	}
	if (u >= 0 && racing && op->flag && ref.units[u].ended == ENDED_YES)
		ref.units[u].ended = ENDED_MAYBE;
	ref_open(op->slot, who, path, op->flag);
	if (op->path == NAME_SINGLE || op->path == NAME_SINGLE_TEMP)
		ref.procs[who].saved = true;
	changed(u, who, op->path, true, true);
}

static void play_in_open(const struct op *op)
{
	struct open_ref *o = &ref.opens[op->slot];
	pid_t pid = ref.procs[o->who].pid;
	int u = ref_unit_of_open(op->slot), got;
	char data[DATA_MAX];

	switch (op->kind) {
	case OP_WRITE:
		memset(data, op->byte, op->len);
		got = call_write(pid, &opens[op->slot], data, op->len, op->off);
		break;
	case OP_CUT:
		got = call_cut(pid, &opens[op->slot], op->off);
		break;
	case OP_FSYNC:
		got = call_sync(pid, &opens[op->slot]);
		break;
	default:
		got = call_close(pid, &opens[op->slot]);
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

static void play_mkdir(const struct op *op, unsigned who)
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
		ref.units[u].ended = racing ? ENDED_MAYBE : ENDED_NO;
}

static bool remove_one(unsigned who, const char *path, int u, bool directory)
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
		if (((n->committed && !n->pending) || (racing && n->ended != ENDED_NO)) &&
		    ref.procs[who].person && !ref.procs[who].saved) {
			n->back_unknown = true; /* a person does: in its place */
			snap_of((unsigned)u, &s);
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

static void play_rmtree(const struct op *op, unsigned who)
{
	int u = unit_of(op->path);
	struct snap s;
	unsigned i;

	snap_of((unsigned)u, &s);
	if (!s.there || (u >= 0 && ref.units[u].view_unknown))
		return;
	for (i = s.nr; i-- > 0;) {
		char path[2 * PATH_LEN];

		snprintf(path, sizeof(path), "%s/%s", name_of(op->path), s.entries[i].rel);
		if (!remove_one(who, path, u, s.entries[i].directory) || is_wrong())
			return;
	}
	remove_one(who, name_of(op->path), u, true);
}

static void play_cut_path(const struct op *op, unsigned who)
{
	const char *path = name_of(op->path);
	int u = unit_of(op->path), wanted = ref_expect_cut(path);
	int got = call_cut_path(ref.procs[who].pid, path, op->off);

	if (!wanted && take_over(u, who, got, false))
		wanted = ref_expect_cut(path);
	if (!judge("truncate", path, u, who, wanted, got))
		return;
	if (u >= 0 && racing && ref.units[u].ended == ENDED_YES)
		ref.units[u].ended = ENDED_MAYBE;
	ref_cut(ref_file(path), op->off);
	changed(u, who, op->path, true, true);
}

/* What is committed goes along, but what was removed before stays where it was until the next commit. */
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

static void play_rename(const struct op *op, unsigned who)
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
	if (v >= 0 && racing && ref.units[v].ended != ENDED_NO) {
		ref.units[v].maybe |= BIT(who);
		ref.units[v].ever |= BIT(who);
	}
	if (v >= 0 && op->to % NAMES_IN_UNIT == IN_META) {
		ref.units[v].ended = ENDED_YES;
		ref.units[v].late = 0;
	}
}

static void play_commit(const struct op *op)
{
	int u = unit_of(op->path), got = call_commit(name_of(op->path));

	if (!got && ref.units[u].ended == ENDED_NO)
		ref.units[u].ended = ENDED_MAYBE;
	if (!got) {
		ref.units[u].asked = true;
		ref.units[u].late = 0;
	}
}

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

static void play_start(const struct op *op)
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
static void play_end(unsigned who, bool well)
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
		call_close(p->pid, &opens[i]);
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
			if (i != who &&
			    (ref.procs[i].job == n->job || (racing && ref.procs[i].job == p->job)))
				ref.procs[i].may_fail = true;
		if (whole[u] && n->ended == ENDED_YES && !racing && !n->back_unknown)
			continue; /* its end was seen */
		committed = !(n->part & BIT(who)) ||
			    (racing && n->ended != ENDED_NO && !(n->late & BIT(who)));
		fail_unit(u, (whole[u] && n->ended != ENDED_NO) || committed || !n->claimed
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

	look_back(u);
	look_unit(&world.look, u, &s, generation, why, sizeof(why));
	ref_put(name_of(NAME_UNIT(u)), &s);
	n->pending = n->claimed = n->view_unknown = n->may_go = n->partial = false;
	n->part = n->late = n->maybe = n->removers = 0;
	n->ended = ENDED_NO;
	unit_forget_candidates(u, n->nr_candidates);
}

static void play_mount(bool crash)
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
			if (opens[i].file.h->generation)
				generation_released(opens[i].file.h->generation);
			handle_put(world.m.fs.tree, opens[i].file.h, &ignored);
			opens[i].used = false;
			ref_close(i);
		}
		world_drop();
	} else {
		world_unmount();
	}
	world_mount();
	for (u = 0; !is_wrong() && u < NR_UNITS; u++) {
		look_back(u);
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
	switch ((enum op_kind)op->kind) {
	case OP_EXIT:
	case OP_KILL:
		play_end((unsigned)who, op->kind == OP_EXIT);
		return true;
	case OP_OPEN:
		if (ref.opens[op->slot].used || has_it_open((unsigned)who, op->path))
			return false;
		play_open(op, (unsigned)who);
		return true;
	case OP_MKDIR:
		play_mkdir(op, (unsigned)who);
		return true;
	case OP_POINT:
		point_write((unsigned)who, (unsigned)unit_of(op->path), op->flag);
		return true;
	case OP_LINK:
		point_link((unsigned)who, (unsigned)unit_of(op->path));
		return true;
	case OP_RENAME:
		play_rename(op, (unsigned)who);
		return true;
	case OP_UNLINK:
		/* That of a job may be seen again, when it ends: tests/unit/file_removals.c. */
		if ((op->path == NAME_SINGLE || op->path == NAME_SINGLE_TEMP) &&
		    (!ref.procs[who].person || ref.procs[who].saved))
			return false;
		remove_one((unsigned)who, name_of(op->path), unit_of(op->path), false);
		return true;
	case OP_RMDIR:
		remove_one((unsigned)who, name_of(op->path), unit_of(op->path), true);
		return true;
	case OP_RMTREE:
		play_rmtree(op, (unsigned)who);
		return true;
	case OP_CUT_PATH:
		play_cut_path(op, (unsigned)who);
		return true;
	default:
		return false;
	}
}

static void note_candidates(void)
{
	struct snap s;
	unsigned u;

	for (u = 0; u < NR_UNITS; u++) {
		if (!ref.units[u].pending || ref_has_open(u))
			continue;
		snap_of(u, &s);
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
		look_back(u);
		look_view(u);
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

/* A change that leaves no file is not committed: by and by the last good one is seen again, or nothing. */
static void expect_emptied_to_go(void)
{
	unsigned u;

	for (u = 0; u < NR_UNITS; u++) {
		struct snap view;

		snap_of(u, &view);
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
	racing = s->racing;
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
		if (!racing)
			world_settle();
		for (u = 0; !is_wrong() && u < NR_UNITS; u++) {
			if (!(looked_at >> u & 1))
				continue;
			look_back(u);
			look_view(u);
		}
		if (!is_wrong())
			point_look(!racing);
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
