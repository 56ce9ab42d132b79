/* SPDX-License-Identifier: MIT */
/*
 * The committers look at waiting removals from time to time: a removal is applied, kept, turned
 * into a change to the checkpoint, or undone because its process died.
 *
 * For callers that hold the units' lock, which is dropped for the backing and for messages. What
 * becomes of a removal is judged elsewhere (journal_removal_judge.c).
 */
#include "engine/commit/journal_removal_work.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "engine/backing/dirwalk.h"
#include "engine/base/clock.h"
#include "engine/base/lock.h"

/*
 * 1: the directory @pin, which is taken over, or one below has a file that was not removed. 0:
 * none. -errno: unknown.
 */
static int has_file(struct units *us, struct backing *b, int pin)
{
	__cleanup_dirwalk struct dirwalk w = DIRWALK_CLOSED;
	struct inode_id id;
	struct statx stx;
	int has = pin < 0 ? pin : dirwalk_begin(&w, b, pin);

	if (pin >= 0)
		close(pin);
	if (!has)
		has = backing_stat(b, w.fd, &stx);
	if (has)
		return has;
	id = inode_id_of(&stx);
	while (!has && removals_next_seen(us, &id, &w)) {
		has = backing_stat_at(b, w.fd, w.name, &stx);
		if (!has)
			has = S_ISDIR(stx.stx_mode) ? has_file(us, b, backing_pin(b, w.fd, w.name))
						    : S_ISREG(stx.stx_mode);
	}
	return has ? has : w.err;
}

/*
 * True if a job has removed every file. So that the job keeps its last checkpoint, the removal does
 * not become a change, but waits as if whole.
 */
static bool is_emptied(struct units *us, const struct removal *r)
{
	struct backing b = backing_for(us->contents->backing, &removal_last_part(r)->owner);

	return removal_waits(us, removal_last_part(r)->process, &r->dir_id, r->name) &&
	       !has_file(us, &b, backing_pin(&b, r->dir, r->name));
}

/* Tells people that what was removed with @part reappears: none newer (@kept), or a death. */
static void tell_undone(struct units *us, const struct part *part, const char *path, bool kept)
{
	char text[MESSAGE_MAX], how[64];
	struct writer_end end;

	if (kept) {
		MESSAGE(text, REMOVAL_KEPT, path);
	} else {
		process_is_gone(part->process, &end);
		if (end.code < 0)
			snprintf(how, sizeof(how), "was killed by signal %d", -end.code);
		else
			snprintf(how, sizeof(how), "exited with status %d", end.code);
		MESSAGE(text, REMOVAL_CUT_SHORT, path, (int)part->process->tgid, how);
	}
	failures_add(us->failures, part->owner.uid, "removal", path, ECANCELED, text);
}

/* One that is due, and its fate. */
static struct removal *choose_locked(struct units *us, enum fate *fate)
{
	uint64_t now = clock_mono_ns();
	struct list *l;

	list_for_each (l, &us->removals) {
		struct removal *r = container_of(l, struct removal, link);

		if (r->busy || r->again_ns > now || removal_is_being_replaced_locked(us, r))
			continue;
		*fate = removal_fate_locked(us, r, false);
		if (*fate != FATE_WAIT)
			return r;
	}
	return NULL;
}

static enum fate look(struct units *us, struct removal *r)
{
	removal_look(us, r);
	LOCK_SCOPE(&us->lock);
	r->left = !r->newer;
	return removal_fate_locked(us, r, false);
}

/* Does what @fate says on the backing. True: @r is done. */
static bool act(struct units *us, struct removal *r, enum fate fate)
{
	if (fate == FATE_APPLY)
		return !removal_apply(us, r);
	if (fate != FATE_CHANGE)
		return false;
	if (!is_emptied(us, r))
		return !removal_change(us, r);
	LOCK_SCOPE(&us->lock);
	r->emptied = true;
	return false;
}

bool removals_work_locked(struct units *us)
{
	struct part *part = NULL;
	enum fate fate = FATE_WAIT;
	struct removal *r = choose_locked(us, &fate);
	bool done, kept = false;
	char path[PATH_MAX];

	if (!r)
		return false;
	busy_begin(&r->busy, BUSY_APPLY);
	lock_drop(&us->lock);
	units_path(us, r->dir, r->name, path, sizeof(path));
	if (fate == FATE_LOOK)
		fate = look(us, r);
	done = act(us, r, fate);
	lock_take(&us->lock);
	/* Perhaps a newer checkpoint was committed just now. */
	if (fate == FATE_DROP && removal_fate_locked(us, r, false) == FATE_DROP) {
		part = r->whole ? NULL : removal_cut_short_locked(r);
		kept = !part;
		part = part ? part : removal_last_part(r);
		removal_undo_locked(us, r, part);
		done = list_empty(&r->parts);
	}
	removal_let_go_locked(us, r, done);
	lock_drop(&us->lock);
	if (part) {
		tell_undone(us, part, path, kept);
		removal_destroy_part(part);
	}
	if (done)
		removal_destroy(r);
	lock_take(&us->lock);
	return true;
}
