/* SPDX-License-Identifier: MIT */
#include "engine/cluster/missing.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/lock.h"
#include "engine/base/text.h"
#include "engine/cluster/fail.h"
#include "engine/cluster/others.h"
#include "engine/save/accord.h"
#include "engine/save/units.h"

#define NAMED_MAX 4 /* most open files to name, and ranges of ranks */

/* --- words --- */

/* Says which ranks have no file that fits, such as "rank 3, 5 to 7"; returns their number. */
static unsigned say_ranks_locked(struct checkpoint *cp, const struct evidence *ev, struct text *t)
{
	int world = checkpoint_world_locked(cp), rank, first = -1;
	unsigned nr = 0, named = 0;

	for (rank = 0; rank <= world; rank++) {
		bool absent = rank < world && !checkpoint_has_file_of_locked(cp, ev, rank);

		nr += absent;
		if (absent && first < 0)
			first = rank;
		if (absent || first < 0)
			continue;
		if (named == NAMED_MAX)
			text_say(t, ", ...");
		else if (named < NAMED_MAX)
			text_say(t, "%s%d", named ? ", " : "rank ", first);
		if (named < NAMED_MAX && rank - 1 > first)
			text_say(t, " to %d", rank - 1);
		named++;
		first = -1;
	}
	return nr;
}

/* The same for each file "of every rank", in a world of several. */
static void say_missing_ranks_locked(struct checkpoint *cp, struct text *t, const char *before)
{
	unsigned i;

	for (i = 0; cp->rule && checkpoint_world_locked(cp) > 1 && i < cp->rule->nr_evidence; i++) {
		const struct evidence *ev = &cp->rule->evidence[i];
		char ranks[256] = "";
		struct text words = {ranks, sizeof(ranks), 0};

		if (ev->kind != EVIDENCE_EVERY_RANK || !checkpoint_has_file_of_locked(cp, ev, -1) ||
		    !say_ranks_locked(cp, ev, &words))
			continue;
		text_say(t, "%s%s of %d (%s)", before, ranks, checkpoint_world_locked(cp),
			 ev->pattern);
		before = ", ";
	}
}

/* Returns their number. */
static unsigned say_open_files_locked(struct checkpoint *cp, struct text *t, const char *before)
{
	unsigned nr = 0;
	struct list *l;

	list_for_each (l, &cp->files) {
		struct generation *g = container_of(l, struct generation, beside);

		if (g->state != GENERATION_OPEN)
			break;
		if (nr == NAMED_MAX)
			text_say(t, ", ...");
		else if (nr < NAMED_MAX)
			text_say(t, "%s%s", nr ? ", " : before, g->rel);
		if (nr++ < NAMED_MAX && g->rank >= 0)
			text_say(t, " (of rank %d)", g->rank);
	}
	return nr;
}

/* --- when --- */

static uint64_t last_progress_locked(const struct checkpoint *cp)
{
	uint64_t last = cp->changed_ns > cp->left_ns ? cp->changed_ns : cp->left_ns;
	struct list *l;

	if (accord_heard_ns(cp) > last)
		last = accord_heard_ns(cp);
	list_for_each (l, &cp->files) {
		const struct generation *g = container_of(l, struct generation, beside);

		if (g->touched_ns > last)
			last = g->touched_ns;
	}
	return last;
}

static bool has_begun(void *checkpoint, const struct evidence *ev)
{
	return ev->kind == EVIDENCE_EVERY_RANK ? checkpoint_has_file_of_locked(checkpoint, ev, -1)
					       : checkpoint_holds_locked(checkpoint, ev);
}

/* True if a process that wrote to it lives, or is not known to have ended. */
static bool has_writer_locked(const struct checkpoint *cp)
{
	struct list *l;

	list_for_each (l, &cp->participants)
		if (!container_of(l, struct participant, link)->ended)
			return true;
	return accord_has_writers(cp);
}

/* True if something is missing that has to come within commit_timeout_s. */
static bool lacks_parts_locked(struct checkpoint *cp)
{
	if (cp->state != GENERATION_OPEN || !cp->rule || cp->nr_changing || !accord_sees_end(cp))
		return false;
	if (rule_ended(cp->rule, checkpoint_holds_locked, cp) >= 0)
		return !checkpoint_is_closed_locked(cp) || rule_is_temp(cp->rule, cp->target.name);
	switch (rule_waits(cp->rule, checkpoint_holds_locked, has_begun, cp)) {
	case RULE_WAITS_FOR_PARTS:
		return true;
	case RULE_WAITS_FOR_JOB:
		return !has_writer_locked(cp);
	default:
		return false;
	}
}

static struct checkpoint *find_late_locked(struct units *us)
{
	uint64_t now = clock_mono_ns();
	struct list *l;

	list_for_each (l, &us->checkpoints) {
		struct checkpoint *cp = container_of(l, struct checkpoint, link);

		if (!checkpoint_rests_in_locked(cp, GENERATION_OPEN) ||
		    now - cp->changed_ns <= us->commit_ns ||
		    now - last_progress_locked(cp) <= us->commit_ns || !lacks_parts_locked(cp))
			continue;
		return cp;
	}
	return NULL;
}

static void say_what_locked(struct checkpoint *cp, char *buf, size_t size)
{
	struct text t = {buf, size, 0};

	*buf = '\0';
	say_missing_ranks_locked(cp, &t, "");
	say_open_files_locked(cp, &t, t.len ? "; the close of " : "the close of ");
	others_say_open(cp, &t, t.len ? "; the close of files on " : "the close of files on ");
	if (!has_writer_locked(cp))
		text_say(&t, "%severybody who wrote it has ended", t.len ? "; " : "");
	if (t.len)
		return;
	rule_missing(cp->rule, checkpoint_holds_locked, cp, buf, size);
	if (!*buf)
		snprintf(buf, size, "the rename to its final name");
}

bool missing_work_locked(struct units *us)
{
	char text[MESSAGE_MAX], path[PATH_MAX], what[RULE_WORDS_MAX];
	struct checkpoint *cp = find_late_locked(us);

	if (!cp)
		return false;
	say_what_locked(cp, what, sizeof(what));
	cp->refs++;
	lock_drop(&us->lock);
	checkpoint_path(cp, path, sizeof(path));
	MESSAGE(text, CHECKPOINT_MISSING, path, (unsigned long long)(us->commit_ns / NSEC_PER_SEC),
		what, path);
	checkpoint_fail_open(cp, -ETIMEDOUT, text);
	checkpoint_put(cp);
	lock_take(&us->lock);
	return true;
}

/*
 * Adds to the text on a pending one: which ranks and nodes are missing, and when it fails for that.
 */
static void add_missing_locked(struct checkpoint *cp, char *buf, size_t size)
{
	struct text t = {buf, size, strlen(buf)};
	uint64_t since, limit = cp->units->commit_ns;

	if (cp->state != GENERATION_OPEN || !cp->rule)
		return;
	if (!accord_sees_end(cp)) {
		say_open_files_locked(cp, &t, "; open here: ");
		return; /* this node knows nothing of others */
	}
	say_missing_ranks_locked(cp, &t, "; missing: ");
	others_say_open(cp, &t, "; files are open on ");
	if (!lacks_parts_locked(cp))
		return;
	say_open_files_locked(cp, &t, "; open: ");
	since = clock_mono_ns() - last_progress_locked(cp);
	text_say(&t, "; if nothing of that comes it fails in %llu s (commit_timeout_s)",
		 (unsigned long long)((since < limit ? limit - since : 0) / NSEC_PER_SEC));
}

static void say_missing_evidence_locked(struct checkpoint *cp, char *buf, size_t size)
{
	struct text t = {buf, size, 0};

	rule_missing(cp->rule, checkpoint_holds_locked, cp, buf, size);
	t.len = strlen(buf);
	if (checkpoint_has_unseen_writer_locked(cp) && strstr(buf, "(quiet_s)"))
		text_say(&t, "; no silence counts, since the daemon cannot see a process that "
			     "wrote it (another pid namespace?): `ckptfs commit` does it");
}

void checkpoint_missing(struct checkpoint *cp, char *buf, size_t size)
{
	LOCK_SCOPE(&cp->units->lock);
	if (others_missing(cp, buf, size))
		; /* that has filled @buf */
	else if (cp->state == GENERATION_SEALED)
		snprintf(buf, size, "its end was seen; files of it are still being flushed");
	else if (cp->stuck)
		snprintf(buf, size,
			 "the backing, which refuses its commit so far; it is tried again");
	else if (cp->state != GENERATION_OPEN)
		snprintf(buf, size, "being committed");
	else if (checkpoint_is_being_removed_locked(cp))
		snprintf(buf, size,
			 "a while without changes (quiet_s), since files of it were removed");
	else if (checkpoint_is_being_copied_locked(cp))
		snprintf(buf, size,
			 "the exit of every writer with status 0 and a while without writes "
			 "(quiet_s), since it is being copied");
	else if (checkpoint_is_follow_up_locked(cp))
		snprintf(buf, size, "the close of every file and a while without writes (quiet_s)");
	else if (!cp->rule)
		snprintf(buf, size, "a file whose name tells what it is");
	else if (rule_is_temp(cp->rule, cp->target.name))
		snprintf(buf, size, "the rename to its final name");
	else if (rule_ended(cp->rule, checkpoint_holds_locked, cp) >= 0 &&
		 !checkpoint_is_closed_locked(cp))
		snprintf(buf, size, "the close of every file");
	else if (rule_ended(cp->rule, checkpoint_holds_locked, cp) >= 0)
		snprintf(buf, size,
			 "a while without writes (quiet_s), since what writes it has no rank");
	else
		say_missing_evidence_locked(cp, buf, size);
	add_missing_locked(cp, buf, size);
}
