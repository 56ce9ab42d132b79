/* SPDX-License-Identifier: MIT */
#include "engine/redo/recover.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/fault.h"
#include "engine/base/wait.h"
#include "engine/coord/agreement.h"
#include "engine/flush/flush.h"
#include "engine/record/decision.h"
#include "engine/record/namechain.h"
#include "engine/record/open_record.h"
#include "engine/redo/order.h"
#include "engine/redo/publish_dir.h"

#define PAUSE_NS (NSEC_PER_SEC / 20)

/* Repeats @expr until it works, fails for good, or time is up: until then programs miss saves. */
#define PATIENTLY(r, expr) \
	({ \
		__typeof__(expr) done_ = BACKING_ANEW(expr); \
		while (recover_may_pass((int)done_) && clock_mono_ns() < (r)->until_ns && \
		       !wait_ns(PAUSE_NS)) \
			done_ = BACKING_ANEW(expr); \
		done_; \
	})

bool recover_may_pass(int err)
{
	/* -EAGAIN: another daemon does it. */
	return err < 0 && err != -EAGAIN && (err == -ESTALE || flush_error_may_pass(err));
}

static void left(const struct recovery *r, int err)
{
	if (r->waits && recover_may_pass(err))
		*r->waits = true;
}

/*
 * Locks a staging directory, which may have its final name already. -EBUSY: a live daemon holds the
 * lock. Where the backing has no locks, a daemon may live unseen, and would do the same. *@gid: the
 * group of the directory.
 */
static int lock_directory(struct backing *b, int dir, const char *name, gid_t *gid)
{
	struct statx stx;
	int pin = backing_pin(b, dir, name), fd, err;

	if (pin < 0)
		return pin;
	err = backing_stat(b, pin, &stx);
	fd = err ? err : backing_reopen(b, pin, O_RDONLY | O_DIRECTORY);
	close(pin);
	if (fd < 0)
		return fd;
	*gid = stx.stx_gid;
	if (backing_lock(b, fd, true) && backing_has_locks(b, fd)) {
		close(fd);
		return -EBUSY;
	}
	return fd;
}

/* --- what follows a commit --- */

static void told(const struct recovery *r, const struct order_place *p, const struct decision *d,
		 const char *name, bool removed, int err)
{
	size_t len = strlen(d->unit) - strlen(p->unit);
	char path[PATH_MAX + NAME_MAX];

	if (!err)
		return;
	snprintf(path, sizeof(path), "%.*s%s", (int)len, d->unit, name);
	r->followed(r->arg, p->owner, path, removed, d->unit, err < 0 ? err : 0);
}

/* (O6), (O7) A failed pointer does not hold up the others, but removals wait for all pointers. */
static int follow(const struct recovery *r, const struct order_place *p, const struct decision *d)
{
	const struct order *o = &d->order;
	char trash[STAGING_MAX];
	int first = 0, err;
	size_t i;

	for (i = 0; i < o->nr_pointers; i++) {
		err = order_point(p, &o->pointers[i]);
		told(r, p, d, o->pointers[i].name, false, err);
		first = first || err > 0 ? first : err;
	}
	if (!first && o->nr_pointers && !r->only_look)
		first = backing_sync_dir(p->backing, p->dir);
	for (i = 0; !first && i < o->nr_removals; i++) {
		err = order_remove(p, &o->removals[i], trash);
		told(r, p, d, o->removals[i].name, true, err);
		if (err == 1 && !r->only_look)
			r->trashed(r->arg, p->owner, p->dir, trash);
		first = err > 0 ? first : err;
	}
	return first;
}

/*
 * -EBUSY: something else has the name. -EAGAIN: the daemon that decided lives, and does it. 1: is
 * to be done. *@named: the checkpoint had its name already. *@waits: the error for which something
 * that follows is left for later.
 */
static int redo(const struct recovery *r, struct caller *owner, const char *id,
		const struct decision *d, bool *named, int *waits)
{
	struct backing b = backing_for(r->backing, owner);
	char staging[STAGING_MAX];
	const char *name;
	bool trashed = false;
	int dir = backing_walk(&b, b.root_fd, d->unit, &name), fd, err;

	if (dir < 0)
		return dir;
	staging_name(staging, id);
	fd = lock_directory(&b, dir, staging, &owner->gid);
	*named = fd == -ENOENT;
	if (fd == -ENOENT) {
		fd = lock_directory(&b, dir, name, &owner->gid);
		fd = fd == -EBUSY || fd >= 0 ? fd : -ENOENT; /* something else may have the name */
	}
	if (fd < 0 && fd != -ENOENT) {
		close(dir);
		return fd == -EBUSY ? -EAGAIN : fd;
	}
	b = backing_owner(r->backing, owner);
	err = publish_dir_place(
		&(struct placement){
			.backing = &b,
			.owner = owner,
			.dir = dir,
			.staging = staging,
			.name = name,
			.ordinary = d->ordinary,
			.replaces = d->replaces,
			.generation = d->generation,
			.ino = d->ino,
			.btime_ns = d->btime_ns,
			.owned = true, /* a decision counts only for what its owner has staged */
			.only_look = r->only_look,
		},
		&trashed);
	if (!err && trashed)
		r->trashed(r->arg, owner, dir, id);
	if (!err || err == 1) /* only then */
		*waits = follow(r,
				&(struct order_place){.backing = &b,
						      .owner = owner,
						      .rules = r->rules,
						      .dir = dir,
						      .unit = name,
						      .id = id,
						      .to_come = r->only_look ? &d->order : NULL,
						      .only_look = r->only_look},
				d);
	if (fd >= 0)
		close(fd);
	close(dir);
	return err;
}

/* True if there are only leftovers of an unfinished record. What is staged is fsck's. */
static bool is_nothing(const struct recovery *r, uid_t uid, const char *gen)
{
	static const char *const kinds[] = {COORD_NAME, COORD_OPEN, COORD_PREPARE, COORD_NEXT,
					    COORD_DECISION};
	char text[1];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(kinds); i++)
		if (r->coord->read(r->coord_arg, uid, gen, kinds[i], text, sizeof(text)) != -ENOENT)
			return false;
	return true;
}

static void recover_one_decided(const struct recovery *r, struct caller *owner, const char *gen,
				const struct decision *d, bool shared)
{
	char staging[STAGING_MAX];
	bool named = false;
	int waits = 0, err = PATIENTLY(r, redo(r, owner, gen, d, &named, &waits));

	left(r, err);
	left(r, waits);
	if (err == -EAGAIN)
		return;
	staging_name(staging, gen);
	/*
	 * -ENOENT: the checkpoint had its name, and was removed since. On a shared checkpoint,
	 * usually another node has named it: nothing to tell.
	 */
	if (err != -ENOENT && (err || !(r->only_look || (shared && named))))
		r->redone(r->arg, owner, d->unit, staging, err == 1 ? 0 : err);
	if (!r->only_look && !waits && (!err || err == -ENOENT || err == -EBUSY))
		r->coord->forget(r->coord_arg, owner, gen);
}

/*
 * Parses a decision. One of several nodes counts while the record `open` exists: until the
 * generation is over.
 */
static int parse_decision(const struct recovery *r, uid_t uid, const char *gen, char *text,
			  size_t len, struct decision *d, bool *shared)
{
	struct agree_decision of_nodes;
	char one[1];

	text[len] = '\0';
	*shared = agreement_read_decision(text, &of_nodes);
	if (!*shared)
		return decision_parse(text, len, d);
	if (!of_nodes.commit ||
	    r->coord->read(r->coord_arg, uid, gen, COORD_OPEN, one, sizeof(one)) == -ENOENT)
		return -ENOENT;
	return decision_parse(of_nodes.payload, strlen(of_nodes.payload), d);
}

/*
 * True if a generation ended without a commit, and the node that began it is gone: no node removes
 * its records.
 */
static bool is_left(const struct recovery *r, uid_t uid, const char *gen)
{
	__cleanup_free char *text = malloc(COORD_TEXT_MAX + 1);
	ssize_t len =
		text ? r->coord->read(r->coord_arg, uid, gen, COORD_OPEN, text, COORD_TEXT_MAX)
		     : -ENOMEM;
	char lease[COORD_LEASE_MAX];
	struct open_record o;

	if (len < 0 || open_record_read(text, (size_t)len, &o))
		return len == -ENOENT;
	return r->coord->lease_read(r->coord_arg, o.node, lease, sizeof(lease)) == -ENOENT;
}

static int recover_one(void *recovery, uid_t uid, const char *gen)
{
	const struct recovery *r = recovery;
	struct caller owner = {.uid = uid, .gid = uid, .pid = NO_PROCESS};
	__cleanup_free char *text = malloc(COORD_TEXT_MAX + 1);
	__cleanup_free struct decision *d = malloc(sizeof(*d));
	bool shared = false;
	ssize_t len;
	int err;

	if (!text || !d)
		return -ENOMEM;
	len = PATIENTLY(
		r, r->coord->read(r->coord_arg, uid, gen, COORD_DECISION, text, COORD_TEXT_MAX));
	left(r, (int)len);
	err = len < 0 ? (int)len : parse_decision(r, uid, gen, text, (size_t)len, d, &shared);
	if (!err && d->commit)
		recover_one_decided(r, &owner, gen, d, shared);
	else if (err == -ENOENT && shared && !r->only_look && is_left(r, uid, gen))
		r->coord->forget(r->coord_arg, &owner, gen);
	else if (len == -ENOENT && r->alone && !r->only_look && is_nothing(r, uid, gen))
		r->coord->forget(r->coord_arg, &owner, gen);
	else if (len == -ENOENT && r->undecided)
		left(r, r->undecided(r->arg, &owner, gen));
	return 0;
}

int recover_decided(const struct recovery *r)
{
	if (FAULT(RECOVERY_FORGOTTEN))
		return 0;
	return PATIENTLY(r, r->coord->list(r->coord_arg, recover_one, (void *)r));
}

static int any_lease(void *arg, const char *node)
{
	(void)arg;
	(void)node;
	return 1;
}

static int recover_one_name(void *recovery, uid_t uid, const char *key)
{
	const struct recovery *r = recovery;
	struct caller owner = {.uid = uid, .gid = uid, .pid = NO_PROCESS};
	const struct namechain ch = {r->coord, r->coord_arg, &owner, ""};

	if (namechain_is_over(&ch, key))
		r->coord->forget(r->coord_arg, &owner, key);
	return 0;
}

int recover_names(const struct recovery *r)
{
	int err = r->coord->lease_list(r->coord_arg, any_lease, NULL);

	if (err && err != -ENOENT)
		return err < 0 ? err : 0;
	return r->coord->list(r->coord_arg, recover_one_name, (void *)r);
}
