/* SPDX-License-Identifier: MIT */
/*
 * Recovery at mount (recover.h), and what it reports to people.
 *
 * The daemon recovers before any program can look. If the backing or the service is away, the
 * daemon does what is possible within RECOVER_NS. Then the trash thread tries again each
 * RECOVER_NS, until all is done, and once more at umount. A state that the first try reported is
 * not reported again. Recovery skips what a live daemon has locked, and thus checkpoints that this
 * mount has begun.
 *
 * Takes the units' lock only for recover_ns.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/lock.h"
#include "engine/base/log.h"
#include "engine/cluster/claim.h"
#include "engine/cluster/cluster.h"
#include "engine/commit/start.h"
#include "engine/coord/nodes.h"
#include "engine/redo/recover.h"
#include "engine/save/trash_queue.h"
#include "engine/save/units.h"

/* Must be below 30 s, for which `ckptfs mount` waits for the daemon. */
#define RECOVER_NS (10 * NSEC_PER_SEC)

/* The first try reports everything; later ones no error that may pass. */
static bool was_told(struct units *us, int err)
{
	return us->recovered && recover_may_pass(err);
}

static void told_redone(void *units, const struct caller *owner, const char *unit,
			const char *staging, int err)
{
	struct units *us = units;
	char text[MESSAGE_MAX];

	if (!err) {
		log_info("'%s' had been committed when its daemon died, and has its name now",
			 unit);
		return;
	}
	if (was_told(us, err))
		return;
	if (err == -EBUSY)
		MESSAGE(text, PUBLISH_CONFLICT, unit, staging);
	else if (err == -EBADMSG)
		MESSAGE(text, RECOVERY_DAMAGED, unit, staging, staging);
	else
		MESSAGE(text, RECOVERY_WAITS, unit, strerror(-err), staging);
	failures_add(us->failures, owner->uid, "checkpoint", unit, -err, text);
}

static void told_followed(void *units, const struct caller *owner, const char *path, bool removed,
			  const char *unit, int err)
{
	struct units *us = units;
	char text[MESSAGE_MAX];

	if (!err) {
		log_info("'%s' %s the commit of '%s', which its daemon had made when it died", path,
			 removed ? "is removed, after" : "has its new content, by", unit);
		return;
	}
	if (was_told(us, err))
		return;
	MESSAGE(text, RECOVERY_FOLLOWS, path, removed ? "removed" : "changed", unit,
		strerror(-err));
	failures_add(us->failures, owner->uid, removed ? "removal" : "pointer", path, -err, text);
}

static void told_trashed(void *units, const struct caller *owner, int dir, const char *id)
{
	trash_empty_later(units, owner, dir, id);
}

static int told_undecided(void *units, const struct caller *owner, const char *gen)
{
	return accord_abort_for_former_mount(units, owner, gen);
}

static int recover_name(void *units, uid_t uid, const char *key)
{
	const struct caller owner = {.uid = uid, .gid = uid, .pid = NO_PROCESS};

	claim_recover(units, &owner, key);
	return 0;
}

/* Recovers what @coord knows of. True if something waits. */
static bool recover_by(struct units *us, const struct coord_ops *coord, void *coord_arg)
{
	const bool first = !us->recovered, own = coord == us->coord;
	uint64_t patience = us->retry_ns < RECOVER_NS ? us->retry_ns : RECOVER_NS;
	bool waits = false;
	const struct recovery r = {.backing = us->contents->backing,
				   .coord = coord,
				   .coord_arg = coord_arg,
				   .rules = us->rules,
				   .until_ns = first ? clock_mono_ns() + patience : 0,
				   .waits = &waits,
				   .followed = told_followed,
				   .redone = told_redone,
				   .trashed = told_trashed,
				   .undecided = own ? told_undecided : NULL,
				   .arg = us};
	int err = recover_decided(&r);

	if (!err && first && own && accord_has_others(us))
		err = coord->list(coord_arg, recover_name, us);
	if (err && first)
		log_warn("what was decided before a crash could not be looked at: %s. Checkpoints "
			 "that were committed just then may still lack their names. This mount "
			 "looks again every %d s, `ckptfs fsck` does so at once",
			 strerror(-err), (int)(RECOVER_NS / NSEC_PER_SEC));
	return waits || err;
}

void units_recover(struct units *us)
{
	bool waits = recover_by(us, us->coord, us->coord_arg);

	if (us->coord != &coord_dir_ops) /* what was decided before another service was chosen */
		waits |= recover_by(us, &coord_dir_ops, us->contents->backing);
	us->recovered = true;
	/* Once more for what only former mounts of this label could remove. */
	if (!waits && us->nodes && nodes_end_before(us->nodes))
		waits = recover_by(us, us->coord, us->coord_arg);
	LOCK_SCOPE(&us->lock);
	us->recover_ns = waits ? clock_mono_ns() + RECOVER_NS : CLOCK_NEVER;
	waitq_wake_all(&us->trashed);
}
