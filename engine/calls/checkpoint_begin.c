/* SPDX-License-Identifier: MIT */
/*
 * The begin of a checkpoint: stages it (checkpoint_stage.c), agrees with other nodes that this one
 * begins it (accord_join.c), and shows it; or gives it up. Takes the units' lock, and makes no call
 * to the backing with it. This file does not inherit files (inherit.c).
 */
#include "engine/calls/checkpoint_impl.h"

#include <errno.h>
#include <string.h>

#include "engine/base/lock.h"
#include "engine/cluster/checkpoint_stage.h"
#include "engine/cluster/cluster.h"
#include "engine/cluster/fail.h"

int checkpoint_give_up(struct checkpoint *cp, int err)
{
	struct units *us = cp->units;
	char path[PATH_MAX], text[MESSAGE_MAX];

	if (!accord_agreement(cp) || err == -EEXIST) {
		{
			LOCK_SCOPE(&us->lock);
			/* It was shown for a moment, and may be over by now. */
			if (cp->visible && !state_is_over(cp->state))
				checkpoint_end_locked(cp, GENERATION_DROPPED);
		}
		accord_never_shown(cp);
		return err;
	}
	err = failure_of_backing(err);
	checkpoint_path(cp, path, sizeof(path));
	MESSAGE(text, COMMIT_FAILED, path, "beginning it", strerror(-err), path);
	checkpoint_fail(cp, err, text);
	LOCK_SCOPE(&us->lock);
	if (err != -EINTR) /* some programs ignore that, and call again */
		casualty_tell(&us->casualties, cp->maker, path, sizeof(path));
	return err;
}

int checkpoint_begin(struct units *us, const struct caller *c, struct process *p,
		     const struct place *at, mode_t mode, struct checkpoint **out)
{
	struct backing b = backing_for(us->contents->backing, c);
	int err;
	{
		LOCK_SCOPE(&us->lock);
		*out = NULL;
		err = checkpoints_tell_casualty_locked(us, p);
		if (err)
			return err;
	}
	err = WITH_ROOM(us, c, &at->id, checkpoint_make(us, c, p, at, mode, NULL, out));
	if (err)
		return err;
	if (accord_is_for(us, p))
		err = accord_begin(*out);
	if (!err)
		err = checkpoint_show(*out);
	if (!err)
		err = checkpoint_check_free(*out);
	if (!err)
		return 0;
	err = checkpoint_give_up(*out, err);
	backing_unlink(&b, at->dir, (*out)->staging, true);
	checkpoint_put(*out);
	*out = NULL;
	return err;
}
