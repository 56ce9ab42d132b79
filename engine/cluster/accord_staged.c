/* SPDX-License-Identifier: MIT */
/*
 * What a staging directory says of itself on the backing: by an xattr, the name that it is to get,
 * so that listings on other nodes find it; and whether another node has removed it or made it
 * ordinary. Takes the units' lock, and makes no call to the backing with it. The xattr is a hint:
 * the records of a name decide (claim.h).
 */
#include "engine/cluster/accord_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "engine/backing/dirwalk.h"
#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/lock.h"
#include "engine/base/log.h"
#include "engine/cluster/other_nodes.h"
#include "engine/save/publish_checkpoint.h"

#define STAGED_XATTR "user.ckptfs.name"
#define REMOVED_NS   (5 * NSEC_PER_SEC) /* for the remover's report; too short: it is still shown */

void accord_stage_name(struct checkpoint *cp)
{
	struct backing b = backing_owner(cp->units->contents->backing, &cp->owner);
	char name[NAME_MAX + 1];
	int err;
	{
		LOCK_SCOPE(&cp->units->lock);
		memcpy(name, cp->target.name, sizeof(name));
	}
	err = backing_setxattr(&b, cp->fd, STAGED_XATTR, name, strlen(name), 0);
	if (err)
		log_debug("'%s' does not tell its name: %s", cp->staging, strerror(-err));
}

void accord_has_name(struct checkpoint *cp)
{
	struct backing b = backing_owner(cp->units->contents->backing, &cp->owner);

	if (cp->accord)
		backing_removexattr(&b, cp->fd, STAGED_XATTR);
}

int accord_staged_name(struct backing *b, int fd, char name[NAME_MAX + 1])
{
	ssize_t len = backing_getxattr(b, fd, STAGED_XATTR, name, NAME_MAX);

	if (len < 0)
		return (int)len;
	name[len] = '\0';
	return backing_name_ok(name) && !name_is_reserved(name) ? 0 : -EBADMSG;
}

bool accord_was_renamed(struct checkpoint *cp, const char *name, char now[NAME_MAX + 1])
{
	struct backing b = backing_owner(cp->units->contents->backing, &cp->owner);

	return cp->accord && !accord_staged_name(&b, cp->fd, now) && strcmp(now, name);
}

/*
 * The @nth checkpoint that is shown in @dir, as @name (NULL: any), and in which other nodes may
 * have a part. Referenced, or NULL.
 */
static struct checkpoint *nth_shown(struct units *us, const struct inode_id *dir, const char *name,
				    unsigned nth)
{
	struct list *l;
	LOCK_SCOPE(&us->lock);

	list_for_each (l, &us->checkpoints) {
		struct checkpoint *cp = container_of(l, struct checkpoint, link);

		if (cp->visible && cp->accord && same_inode(&cp->target.dir_id, dir) &&
		    (!name || !strcmp(cp->target.name, name)) && !nth--) {
			cp->refs++;
			return cp;
		}
	}
	return NULL;
}

static bool is_removed(struct checkpoint *cp)
{
	struct backing b = backing_for(cp->units->contents->backing, &cp->owner);
	struct statx stx;
	int err = backing_stat(&b, cp->fd, &stx);

	return err ? err == -ENOENT || err == -ESTALE : !stx.stx_nlink;
}

static int await_end(struct checkpoint *cp)
{
	uint64_t until = clock_mono_ns() + REMOVED_NS;
	int err = 0;
	LOCK_SCOPE(&cp->units->lock);

	while (!err && cp->visible && clock_mono_ns() < until)
		err = units_wait(cp->units);
	return err;
}

int accord_await_removed(struct units *us, const struct inode_id *dir, const char *name)
{
	struct checkpoint *cp;
	unsigned i;
	int err = 0;

	for (i = 0; !err && (cp = nth_shown(us, dir, name, i)); i++) {
		err = is_removed(cp) ? await_end(cp) : 0;
		checkpoint_put(cp);
	}
	return err;
}

/* True if @cp has its staging name; if @sure, also as the backing has it now. */
static bool is_staged(struct checkpoint *cp, bool sure)
{
	struct backing b = accord_backing(cp->units, NULL, &cp->owner);
	int pin;

	if (!sure)
		return checkpoint_has_name(cp, cp->staging) > 0;
	pin = backing_pin_now(&b, cp->target.dir, cp->staging);
	if (pin >= 0)
		close(pin);
	return pin != -ENOENT && pin != -ESTALE;
}

int accord_await_name(struct checkpoint *cp, bool sure)
{
	{
		LOCK_SCOPE(&cp->units->lock);
		if (!cp->accord || cp->rule)
			return 0;
	}
	return is_staged(cp, sure) ? 1 : await_end(cp);
}

static bool is_beside(void *checkpoint, const char *name)
{
	struct checkpoint *cp = checkpoint;
	struct backing b = backing_for(cp->units->contents->backing, &cp->owner);
	struct statx stx;

	return !backing_stat_at(&b, cp->target.dir, name, &stx);
}

const struct rule *accord_rule_of_others(struct checkpoint *cp, const char *path)
{
	struct backing b = backing_owner(cp->units->contents->backing, &cp->owner);
	__cleanup_dirwalk struct dirwalk w = DIRWALK_CLOSED;
	const struct rule *rule = NULL;

	if (!cp->accord)
		return NULL;
	(void)dirwalk_begin(&w, &b, cp->fd);
	while (!rule && dirwalk_next_visible(&w))
		if (w.type == DT_REG || w.type == DT_UNKNOWN)
			rule = rules_claim(cp->units->rules, path, w.name, is_beside, cp);
	return rule;
}
