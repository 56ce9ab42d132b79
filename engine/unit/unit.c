/* SPDX-License-Identifier: MIT */
#include "engine/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/sysmacros.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/json.h"
#include "engine/base/log.h"
#include "engine/base/wait.h"
#include "engine/unit/checkpoint.h"
#include "engine/unit/following.h"
#include "engine/unit/held.h"
#include "engine/unit/accord.h"
#include "engine/unit/internal.h"
#include "engine/unit/pointer.h"
#include "engine/unit/recover.h"
#include "engine/unit/removal.h"
#include "engine/unit/rules.h"
#include "engine/unit/trash.h"

#define POLL_NS	  (50 * NSEC_PER_MSEC)
#define COPY_STEP ((size_t)64 << 20)
#define MAX_XATTR 65536

bool same_inode(const struct inode_id *a, const struct inode_id *b)
{
	return a->ino == b->ino && a->dev == b->dev && a->btime_ns == b->btime_ns;
}

struct inode_id inode_id_of(const struct statx *stx)
{
	return (struct inode_id){
		.dev = makedev(stx->stx_dev_major, stx->stx_dev_minor),
		.ino = stx->stx_ino,
		.btime_ns = stx->stx_mask & STATX_BTIME
				    ? (uint64_t)stx->stx_btime.tv_sec * NSEC_PER_SEC +
					      stx->stx_btime.tv_nsec
				    : 0,
	};
}

/* --- the table --- */

static void content_failed(void *units, const struct inode_id *id, int err)
{
	struct units *us = units;
	struct generation *g = units_find_inode(us, id);
	char text[MESSAGE_MAX], path[PATH_MAX];

	if (g) {
		generation_path(g, path, sizeof(path));
		MESSAGE(text, FLUSH_FAILED, path, strerror(-err), path);
		generation_fail(g, err, text);
		generation_put(g);
		return;
	}
	{
		LOCK_SCOPE(&us->lock);
		if (history_find_inode(&us->history, id))
			return; /* it ended before, and that was told */
	}
	units_path(us, id, NULL, path, sizeof(path));
	MESSAGE(text, FILE_FLUSH_FAILED, path, strerror(-err));
	failures_add(us->failures, (uid_t)-1, "flush", path, -err, text);
}

static bool content_full(void *units, const struct inode_id *id, struct shortage *s)
{
	struct generation *g = units_find_inode(units, id);
	bool may = g && room_for_file(g, s);

	generation_put(g);
	return may;
}

static void content_rested(void *units)
{
	struct units *us = units;
	LOCK_SCOPE(&us->lock);

	waitq_wake(&us->work);
}

static int start(struct units *us, const char *name, void *(*main)(void *), unsigned nr)
{
	int err = 0;

	while (!err && nr--) {
		err = worker_start(&us->threads[us->nr_threads], name, main, us);
		us->nr_threads += !err;
	}
	return err;
}

int units_create(struct units **out, const struct unit_options *o, struct error *e)
{
	struct units *us = calloc(1, sizeof(*us));
	int err;

	*out = us;
	if (!us)
		return FAIL(e, ENOMEM, IO_THREADS, strerror(ENOMEM));
	us->contents = o->contents;
	us->failures = o->failures;
	us->notices = o->notices;
	us->rules = o->rules;
	us->coord = o->coord;
	us->coord_arg = o->coord_arg;
	us->node = o->node;
	us->nodes = o->nodes;
	us->forget_ns = 2 * o->lease_s * NSEC_PER_SEC;
	us->accord_wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	us->retry_ns = o->retry_s * NSEC_PER_SEC;
	us->quiet_ns = o->quiet_s * NSEC_PER_SEC;
	us->order_ns = o->order_timeout_s * NSEC_PER_SEC;
	us->commit_ns = o->commit_timeout_s * NSEC_PER_SEC;
	us->open_ns = o->open_max_s * NSEC_PER_SEC;
	us->room.delete_last = o->delete_last;
	us->room.wait_ns = o->full_wait_s * NSEC_PER_SEC;
	lock_init(&us->lock, LOCK_UNITS);
	waitq_init(&us->changed, &us->lock);
	waitq_init(&us->work, &us->lock);
	waitq_init(&us->commits, &us->lock);
	waitq_init(&us->trashed, &us->lock);
	list_init(&us->litter);
	list_init(&us->checkpoints);
	list_init(&us->wrecks.all);
	list_init(&us->accords);
	list_init(&us->trash);
	list_init(&us->room.wanted);
	list_init(&us->removals);
	list_init(&us->held);
	list_init(&us->drains);
	us->contents->arg = us;
	us->contents->failed = content_failed;
	us->contents->full = content_full;
	us->contents->rested = content_rested;
	err = live_init(&us->live);
	if (!err)
		err = table_init(&us->removed);
	if (!err)
		err = casualties_init(&us->casualties);
	if (!err)
		err = replaced_init(&us->replaced);
	if (!err)
		err = wrecks_init(&us->wrecks);
	if (!err)
		err = known_init(&us->left, true);
	if (!err)
		err = known_init(&us->savers, false);
	if (err)
		FAIL(e, -err, IO_THREADS, strerror(-err));
	else
		err = jobs_create(&us->jobs, checkpoints_process_ended, us, e);
	if (!err) {
		err = start(us, "ckptfs-publish", publisher_main, PUBLISHERS);
		if (!err)
			err = start(us, "ckptfs-commit", committer_main, COMMITTERS);
		if (!err)
			err = start(us, "ckptfs-trash", trash_main, 1);
		if (!err && us->nodes)
			err = us->accord_wake < 0 ? -EMFILE
						  : start(us, "ckptfs-accord", accord_main, 1);
		if (err)
			FAIL(e, -err, IO_THREADS, strerror(-err));
	}
	if (err) {
		units_stop(us);
		units_destroy(us);
		*out = NULL;
	}
	return err;
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
	MESSAGE(text, RECOVERY_FOLLOWS, path, removed ? "removed" : "changed", unit,
		strerror(-err));
	failures_add(us->failures, owner->uid, removed ? "removal" : "pointer", path, -err, text);
}

static void told_trashed(void *units, const struct caller *owner, int dir, const char *id)
{
	trash_empty_later(units, owner, dir, id);
}

static void told_undecided(void *units, const struct caller *owner, const char *gen)
{
	accord_succeed(units, owner, gen);
}

void units_recover(struct units *us, const struct coord_ops *coord, void *coord_arg)
{
	const struct recovery r = {.backing = us->contents->backing,
				   .coord = coord,
				   .coord_arg = coord_arg,
				   .rules = us->rules,
				   .followed = told_followed,
				   .redone = told_redone,
				   .trashed = told_trashed,
				   .undecided = coord == us->coord ? told_undecided : NULL,
				   .arg = us};
	int err = recover_decided(&r);

	if (err)
		log_warn("what was decided before a crash could not be looked at: %s. Checkpoints "
			 "that "
			 "were committed just then may still lack their names; the next mount, or "
			 "`ckptfs fsck`, tries again",
			 strerror(-err));
}

void units_stop(struct units *us)
{
	uint64_t one = 1;
	struct list *l;

	if (!us)
		return;
	{
		LOCK_SCOPE(&us->lock);
		us->ending = true;
		waitq_wake_all(&us->changed);
		waitq_wake_all(&us->work);
		waitq_wake_all(&us->commits);
		waitq_wake_all(&us->trashed);
		if (us->accord_wake >= 0 && write(us->accord_wake, &one, sizeof(one)) < 0)
			log_debug("eventfd: %s", strerror(errno));
	}
	contents_end(us->contents);
	while (us->nr_threads)
		worker_join(&us->threads[--us->nr_threads]);
	lock_take(&us->lock);
	trash_empty_locked(us); /* what the others have put there since its thread ended */
	lock_drop(&us->lock);
	accords_finish(us);
	list_for_each (l, &us->checkpoints) /* what is decided, and not done: by the next mount */
		following_release(container_of(l, struct checkpoint, link));
	while (!list_empty(&us->live.all)) {
		struct generation *g = container_of(us->live.all.next, struct generation, link);

		generation_get(g);
		content_discard(g->content);
		lock_take(&us->lock);
		generation_end_locked(g, GENERATION_DROPPED);
		lock_drop(&us->lock);
		generation_put(g);
	}
	while (!list_empty(&us->checkpoints)) {
		struct checkpoint *cp = container_of(us->checkpoints.next, struct checkpoint, link);

		list_del(&cp->link);
		checkpoint_put(cp);
	}
	wrecks_finish(us);
	removals_finish(us);
	lock_take(&us->lock);
	trash_empty_locked(us);
	lock_drop(&us->lock);
	held_finish(us);
	casualties_finish(&us->casualties);
	known_finish(&us->left);
	known_finish(&us->savers);
	room_finish(us);
}

void units_destroy(struct units *us)
{
	if (!us)
		return;
	history_finish(&us->history);
	live_finish(&us->live);
	table_finish(&us->removed);
	replaced_finish(&us->replaced);
	jobs_destroy(us->jobs);
	lock_finish(&us->lock);
	if (us->accord_wake >= 0)
		close(us->accord_wake);
	free(us);
}

void units_set_namer(struct units *us,
		     void (*name)(void *arg, const struct inode_id *dir, const char *name,
				  char *buf, size_t size),
		     void *arg)
{
	us->name = name;
	us->name_arg = arg;
}

void units_set_knower(struct units *us, bool (*knows)(void *arg, const struct inode_id *id))
{
	us->knows = knows;
}

void units_path(const struct units *us, const struct inode_id *dir, const char *name, char *buf,
		size_t size)
{
	if (us->name)
		us->name(us->name_arg, dir, name, buf, size);
	else
		snprintf(buf, size, "%s", name ? name : "?");
}

/* The path of @t, which may change meanwhile. */
static void target_path(struct units *us, const struct target *t, char *buf, size_t size)
{
	struct inode_id dir;
	char name[NAME_MAX + 1];
	{
		LOCK_SCOPE(&us->lock);
		dir = t->dir_id;
		memcpy(name, t->name, sizeof(name));
	}
	units_path(us, &dir, name, buf, size);
}

void generation_path(struct generation *g, char *buf, size_t size)
{
	target_path(g->units, &g->target, buf, size);
}

void checkpoint_path(struct checkpoint *cp, char *buf, size_t size)
{
	target_path(cp->units, &cp->target, buf, size);
}

void held_path(struct held *h, char *buf, size_t size)
{
	target_path(h->units, &h->target, buf, size);
}

/*
 * Much of what is waited for here comes about by time alone, or on another node: nobody signals it, so
 * a wait ends after a moment, too.
 */
static uint64_t in_a_moment(void)
{
	return clock_mono_ns() + POLL_NS;
}

int units_wait(struct units *us)
{
	return wait_on(&us->changed, in_a_moment()) == -EINTR ? -EINTR : 0;
}

int units_pause(struct units *us, uint64_t ns)
{
	uint64_t until = clock_mono_ns() + ns;
	int err = 0;
	LOCK_SCOPE(&us->lock);

	while (!err && clock_mono_ns() < until)
		err = units_wait(us);
	return err;
}

void units_wait_for_work_locked(struct units *us)
{
	wait_out(&us->work, in_a_moment());
}

void units_wait_for_commits_locked(struct units *us)
{
	wait_out(&us->commits, in_a_moment());
}

/* --- the beginning --- */

static bool begins_as_one_of(const char *text, const char *const *beginnings)
{
	while (*beginnings && strncmp(text, *beginnings, strlen(*beginnings)))
		beginnings++;
	return *beginnings;
}

/*
 * Do attributes of this name go over from a file to what replaces it? Not its digest, nor what any
 * write clears, nor what filesystems note about the one inode.
 */
static bool is_inherited(const char *xattr)
{
	static const char *const some[] = {"user.", "trusted.", "security.", "system.posix_acl_",
					   NULL};
	static const char *const but[] = {"user.ckptfs.", "security.capability", "security.ima",
					  "security.evm", "trusted.glusterfs.",	 "trusted.gfid",
					  "trusted.afr.", "trusted.overlay.",	 "trusted.lov",
					  "trusted.lma",  "trusted.link",	 "trusted.fid",
					  "trusted.som",  "trusted.hsm",	 NULL};

	return begins_as_one_of(xattr, some) && !begins_as_one_of(xattr, but);
}

static int copy_xattrs(struct backing *b, int from, int to)
{
	__cleanup_free char *names = malloc(MAX_XATTR), *value = malloc(MAX_XATTR);
	ssize_t len = names && value ? backing_listxattr(b, from, names, MAX_XATTR) : -ENOMEM, at;

	for (at = 0; at < len; at += (ssize_t)strlen(names + at) + 1) {
		const char *name = names + at;
		ssize_t n;

		if (!is_inherited(name))
			continue;
		n = backing_getxattr(b, from, name, value, MAX_XATTR);
		if (n >= 0)
			n = backing_setxattr(b, to, name, value, (size_t)n, 0);
		/* Some are not for everyone to see or to set. */
		if (n < 0 && n != -EPERM && n != -EACCES && n != -EOPNOTSUPP && n != -ENODATA)
			return (int)n;
	}
	return len < 0 && len != -EOPNOTSUPP ? (int)len : 0;
}

static int copy_bytes(struct units *us, int from, int to, uint64_t size)
{
	struct backing *b = us->contents->backing;
	uint64_t at = 0;

	while (at < size) {
		ssize_t n = backing_copy_range(b, from, (off_t)at, to, (off_t)at,
					       size - at < COPY_STEP ? size - at : COPY_STEP, 0);

		if (n < 0)
			return (int)n;
		if (n == 0)
			break;
		at += (uint64_t)n;
		if (wait_interrupted())
			return -EINTR;
	}
	return 0;
}

/* What a write leaves of a mode. */
static mode_t written_mode(mode_t mode)
{
	if (S_ISDIR(mode))
		return mode & 07777;
	return mode & 07777 & ~(mode_t)(S_ISUID | (mode & S_IXGRP ? S_ISGID : 0));
}

int units_take_over(struct units *us, int old, int fd, const struct statx *was, bool copy)
{
	struct backing *b = us->contents->backing;
	struct statx stx;
	int err = backing_stat(b, fd, &stx);

	if (!err && (stx.stx_uid != was->stx_uid || stx.stx_gid != was->stx_gid))
		err = backing_chown(b, fd, was->stx_uid, was->stx_gid);
	if (!err)
		err = backing_removexattr(b, fd, "system.posix_acl_access"); /* of the directory */
	if (err == -ENODATA || err == -EOPNOTSUPP)
		err = 0;
	if (!err)
		err = backing_chmod(b, fd, written_mode(was->stx_mode));
	if (!err)
		err = copy_xattrs(b, old, fd);
	if (!err && copy)
		err = copy_bytes(us, old, fd, was->stx_size);
	return err;
}

int units_new_id(char staging[STAGING_MAX])
{
	unsigned char id[16];
	size_t i, len;

	if (getrandom(id, sizeof(id), 0) != sizeof(id))
		return -EIO;
	len = (size_t)snprintf(staging, STAGING_MAX, "%s", STAGING_PREFIX);
	for (i = 0; i < sizeof(id); i++)
		len += (size_t)snprintf(staging + len, STAGING_MAX - len, "%02x", id[i]);
	return 0;
}

void generation_unstage(struct generation *g, int dir)
{
	struct backing *b = g->units->contents->backing;
	int err;

	if (g->checkpoint)
		return; /* it lies under its name, in what is staged as a whole */
	err = AS_CALLER(&g->owner, backing_unlink(b, dir, g->staging, false));
	creds_restore();
	if (err == -EACCES || err == -EPERM) /* its maker was allowed to; their groups are gone */
		err = backing_unlink(b, dir, g->staging, false);
	if (err && err != -ENOENT)
		log_warn("'%s' cannot be removed: %s. It is the remains of a save; `ckptfs fsck` "
			 "clears "
			 "it away",
			 g->staging, strerror(-err));
}

static int stage(struct generation *g, int dir, mode_t mode, int old, bool copy)
{
	struct units *us = g->units;
	struct backing *b = us->contents->backing;
	struct statx stx = {0}, was;
	bool created;
	int fd, err;

	fd = AS_CALLER(&g->owner,
		       backing_create(b, dir, g->staging, O_RDWR | O_EXCL, mode, &created));
	if (fd < 0)
		return fd;
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
	backing_lock(b, fd, false); /* for remains.c */
	err = old >= 0 ? backing_stat(b, old, &was) : 0;
	creds_restore(); /* attributes as they were, whoever saves anew */
	if (!err && old >= 0) {
		err = units_take_over(us, old, fd, &was, copy);
		g->inherited = copy;
	}
	if (!err) {
		err = backing_stat_at(b, dir, g->target.name, &stx);
		g->replaces = !err;
		g->replaced = inode_id_of(&stx);
		err = err == -ENOENT ? 0 : err;
	}
	if (!err)
		err = backing_stat(b, fd, &stx);
	if (err) {
		close(fd);
	} else {
		g->id = inode_id_of(&stx);
		g->content =
			content_create(us->contents, fd, &g->id, stx.stx_size, &g->owner, true);
		err = g->content ? 0 : -ENOMEM;
	}
	if (err)
		generation_unstage(g, dir);
	return err;
}

static struct generation *find_locked(struct units *us, const struct inode_id *dir,
				      const char *name)
{
	struct generation *g = live_newest(&us->live, dir, name);

	while (g && !g->visible)
		g = live_older(&us->live, g);
	return g;
}

void generation_show_locked(struct generation *g)
{
	struct generation *older;

	g->visible = false; /* under the name it had */
	older = find_locked(g->units, &g->target.dir_id, g->target.name);
	if (older)
		older->visible = false;
	g->visible = true;
	live_renew(&g->units->live, g);
}

static struct opener *opener_of_locked(struct generation *g, pid_t pid)
{
	struct list *l;

	list_for_each (l, &g->expected) {
		struct opener *o = container_of(l, struct opener, link);

		if (o->pid == pid)
			return o;
	}
	return NULL;
}

static bool expect_locked(struct generation *g, pid_t pid)
{
	struct opener *o;

	if (!generation_rests_in(g, GENERATION_OPEN))
		return false;
	o = opener_of_locked(g, pid);
	if (!o) {
		o = calloc(1, sizeof(*o));
		if (!o)
			return false;
		o->pid = pid;
		list_append(&g->expected, &o->link);
		g->nr_handles++;
	}
	o->since_ns = clock_mono_ns();
	return true;
}

static struct generation *new_generation(struct units *us, const struct caller *c,
					 const struct inode_id *dir, const char *name)
{
	struct generation *g = calloc(1, sizeof(*g));
	enum live_key key;

	if (!g)
		return NULL;
	g->units = us;
	g->owner = *c;
	g->refs = 1;
	list_init(&g->link);
	list_init(&g->sealed);
	list_init(&g->beside);
	for (key = 0; key < LIVE_KEYS; key++)
		list_init(&g->found_by[key].link);
	list_init(&g->writers);
	list_init(&g->expected);
	snprintf(g->target.name, sizeof(g->target.name), "%s", name);
	g->target.dir_id = *dir;
	g->target.dir = -1;
	return g;
}

int generation_begin(struct units *us, const struct caller *c, const struct place *at, mode_t mode,
		     int old, bool copy, pid_t opener, struct generation **out)
{
	struct generation *g = new_generation(us, c, &at->id, at->name), *other;
	int err;

	*out = NULL;
	if (!g)
		return -ENOMEM;
	g->pointer = rules_is_pointer(us->rules, at->name);
	if (rules_single(us->rules, at->name))
		g->maker = units_process(us, c);
	/* Ranks on other nodes learn of its close by a barrier, and read it then, by its name on the backing. */
	g->durable_calls = g->maker && accord_is_for(us, g->maker);
	g->target.dir = backing_dup(us->contents->backing, at->dir);
	err = g->target.dir < 0 ? g->target.dir : units_new_id(g->staging);
	if (!err)
		err = WITH_ROOM(us, c, &at->id, stage(g, at->dir, mode, old, copy));
	if (err) {
		generation_put(g);
		return err;
	}
	{
		LOCK_SCOPE(&us->lock);
		other = opener ? find_locked(us, &at->id, at->name) : NULL;
		if (!other || !expect_locked(other, opener)) {
			g->opened_ns = g->touched_ns = clock_mono_ns();
			live_add(&us->live, g);
			if (g->maker)
				removal_note_saver_locked(us, g->maker, &at->id);
			if (!g->pointer)
				generation_show_locked(g);
			if (opener)
				expect_locked(g, opener);
			g->refs++; /* the caller's; the first is that of the list */
			*out = g;
			return 0;
		}
	}
	generation_unstage(g, at->dir);
	generation_put(g);
	return -ESTALE;
}

static struct generation *find_inode_locked(struct units *us, const struct inode_id *id)
{
	struct generation *g = live_find_inode(&us->live, id);

	if (g)
		g->refs++;
	return g;
}

int generation_begin_in(struct checkpoint *cp, const struct caller *c, int rank,
			const struct inode_id *dir, const char *name, const char *rel, int fd,
			bool inherits, struct generation **out)
{
	struct units *us = cp->units;
	struct generation *g = new_generation(us, c, dir, name), *other;
	struct statx stx;
	int err = g ? backing_stat(us->contents->backing, fd, &stx) : -ENOMEM;

	*out = NULL;
	if (!err)
		err = units_new_id(g->staging);
	if (!err) {
		g->id = inode_id_of(&stx);
		g->inherited = inherits;
		g->rank = rank;
		g->rel = strdup(rel);
		g->content =
			content_stage_in_place(us->contents, take_fd(&fd), &g->id, stx.stx_size, c);
		err = g->rel && g->content ? 0 : -EIO;
	}
	if (fd >= 0)
		close(fd);
	if (err) {
		generation_put(g);
		return err;
	}
	checkpoint_get(cp);
	g->checkpoint = cp;
	if (stx.stx_size) {
		struct tensor_map *known;

		if (checkpoint_by_handle(cp, &g->id, &known))
			content_set_tensors(g->content, known);
		tensor_map_put(known);
	}
	{
		LOCK_SCOPE(&us->lock);
		other = find_inode_locked(us, &g->id);
		if (!other) {
			g->opened_ns = g->touched_ns = clock_mono_ns();
			live_add(&us->live, g);
			g->refs++;
		}
		*out = other ? other : g;
	}
	if (other)
		generation_put(g);
	return 0;
}

void generation_moved_in(struct generation *g, const struct inode_id *dir, const char *name,
			 const char *rel)
{
	char *copy = strdup(rel);
	LOCK_SCOPE(&g->units->lock);

	if (live_has(g))
		live_rename(&g->units->live, g, dir, name);
	if (copy) {
		free(g->rel);
		g->rel = copy;
	}
}

void generation_get(struct generation *g)
{
	LOCK_SCOPE(&g->units->lock);
	g->refs++;
}

void generation_put(struct generation *g)
{
	struct list *l, *tmp;

	if (!g)
		return;
	{
		LOCK_SCOPE(&g->units->lock);
		if (--g->refs)
			return;
	}
	list_for_each_safe (l, tmp, &g->writers)
		free(container_of(l, struct writer, link));
	list_for_each_safe (l, tmp, &g->expected)
		free(container_of(l, struct opener, link));
	if (g->target.dir >= 0)
		close(g->target.dir);
	content_put(g->content);
	checkpoint_put(g->checkpoint);
	process_put(g->maker);
	process_put(g->writer);
	free(g->path);
	free(g->rel);
	free(g);
}

struct generation *units_find(struct units *us, const struct inode_id *dir, const char *name)
{
	LOCK_SCOPE(&us->lock);
	struct generation *g = find_locked(us, dir, name);

	if (g)
		g->refs++;
	return g;
}

struct generation *units_find_for(struct units *us, const struct inode_id *dir, const char *name,
				  pid_t pid)
{
	struct generation *g;
	LOCK_SCOPE(&us->lock);

	g = pid ? live_newest(&us->live, dir, name) : NULL;
	while (g && !(g->pointer && opener_of_locked(g, pid)))
		g = live_older(&us->live, g);
	g = g ? g : find_locked(us, dir, name);
	if (g)
		g->refs++;
	return g;
}

struct generation *units_find_inode(struct units *us, const struct inode_id *id)
{
	LOCK_SCOPE(&us->lock);
	return find_inode_locked(us, id);
}

struct generation *units_find_staging(struct units *us, const char *staging)
{
	LOCK_SCOPE(&us->lock);
	struct generation *g = live_find_staging(&us->live, staging);

	if (g)
		g->refs++;
	return g;
}

void units_list(struct units *us, const struct inode_id *dir,
		void (*add)(void *arg, const char *name, const struct inode_id *id, mode_t type),
		void *arg)
{
	struct list *l;
	LOCK_SCOPE(&us->lock);

	list_for_each (l, &us->live.all) {
		struct generation *g = container_of(l, struct generation, link);

		if (g->visible && same_inode(&g->target.dir_id, dir))
			add(arg, g->target.name, &g->id, S_IFREG);
	}
	list_for_each (l, &us->checkpoints) {
		struct checkpoint *cp = container_of(l, struct checkpoint, link);

		if (cp->visible && same_inode(&cp->target.dir_id, dir))
			add(arg, cp->target.name, &cp->id, S_IFDIR);
	}
	list_for_each (l, &us->held) {
		struct held *h = container_of(l, struct held, link);

		if (!h->overtaken && same_inode(&h->target.dir_id, dir))
			add(arg, h->target.name, &h->id, h->type);
	}
}

/* --- the end --- */

/* What has failed gives its name back to the newest that is left. */
static void show_older_locked(const struct generation *g)
{
	const struct live *lv = &g->units->live;
	struct generation *o = live_newest(lv, &g->target.dir_id, g->target.name);

	while (o && (o == g || o->overtaken))
		o = live_older(lv, o);
	if (o)
		o->visible = true;
}

/* The list's reference goes; the caller has another. */
void generation_end_locked(struct generation *g, enum generation_state state)
{
	generation_set_state(g, state);
	if (g->visible && state == GENERATION_FAILED)
		show_older_locked(g);
	g->visible = false;
	g->ended_ns = clock_mono_ns();
	if (state != GENERATION_DURABLE)
		history_note(&g->units->history, g);
	g->units->nr_committed += state == GENERATION_COMMITTED;
	g->units->nr_failed += state == GENERATION_FAILED;
	live_remove(&g->units->live, g);
	g->refs--;
	waitq_wake_all(&g->units->changed);
	if (g->checkpoint && list_empty(&g->checkpoint->files))
		waitq_wake(&g->units->commits); /* it may have waited for this one */
}

void generation_fail(struct generation *g, int err, const char *reason)
{
	struct units *us = g->units;
	char path[PATH_MAX];
	bool first;

	generation_path(g, path, sizeof(path));
	{
		LOCK_SCOPE(&us->lock);
		first = generation_rests(g);
		/* Until that has failed, too: it must not look as if all of it were closed, or flushed. */
		if (first && g->checkpoint)
			g->checkpoint->nr_changing++;
		if (first || (!state_is_over(g->state) && !g->err)) {
			g->err = err; /* in the second case for generation_let_go */
			snprintf(g->reason, sizeof(g->reason), "%s", reason);
		}
		if (first) {
			free(g->path);
			g->path = strdup(path);
			g->refs++;
			generation_end_locked(g, GENERATION_FAILED);
		}
	}
	if (!first)
		return;
	failures_add(us->failures, g->owner.uid, "save", path, -err, reason);
	content_fail(g->content, err);
	content_discard(g->content);
	if (g->checkpoint) {
		checkpoint_fail(g->checkpoint, err, reason);
		checkpoint_leave(g->checkpoint);
	}
	/* In conflict with another: whole, and kept beside it. A checkpoint is kept as a whole. */
	if (err == -EBUSY || g->checkpoint) {
		generation_put(g);
		return;
	}
	/* Whoever found out must not wait for the backing; a publisher may. */
	LOCK_SCOPE(&us->lock);
	list_append(&us->litter, &g->link);
	waitq_wake(&us->work);
}

bool generation_let_go(struct generation *g, enum busy with)
{
	char reason[MESSAGE_MAX];
	int err;
	{
		LOCK_SCOPE(&g->units->lock);
		if (with)
			busy_end(g->units, &g->busy, with);
		else
			generation_set_state(g, GENERATION_SEALED);
		generation_settle_locked(g); /* handles and writers may have gone meanwhile */
		err = g->err;
		memcpy(reason, g->reason, sizeof(reason));
		waitq_wake_all(&g->units->changed);
		waitq_wake(&g->units->work);
	}
	if (err)
		generation_fail(g, err, reason);
	return err;
}

void generations_hurry_locked(struct checkpoint *cp)
{
	struct list *l;

	list_for_each (l, &cp->files)
		container_of(l, struct generation, beside)->hurried = true;
	waitq_wake(&cp->units->work);
}

/* Referenced. */
static struct generation *one_of_locked(struct checkpoint *cp)
{
	struct list *l;

	list_for_each (l, &cp->files) {
		struct generation *g = container_of(l, struct generation, beside);

		if (generation_rests(g)) {
			g->refs++;
			return g;
		}
	}
	return NULL;
}

/* Those that are being published end as they do: nobody looks for them any more. */
void generations_fail(struct checkpoint *cp, int err, const char *reason)
{
	for (;;) {
		struct generation *g;
		{
			LOCK_SCOPE(&cp->units->lock);
			g = one_of_locked(cp);
		}
		if (!g)
			return;
		generation_fail(g, err, reason);
		generation_put(g);
	}
}

/* --- writers --- */

/* May it be published? */
bool generation_is_closed_locked(const struct generation *g)
{
	struct list *l;

	if (!g->nr_handles)
		return true;
	if (list_empty(&g->writers) || !list_empty(&g->expected))
		return false;
	list_for_each (l, &g->writers)
		if (!container_of(l, struct writer, link)->closed)
			return false;
	return true;
}

void generation_settle_locked(struct generation *g)
{
	/* An open whose program never learnt of it is no save: the publishers give it up. */
	bool closed = generation_is_closed_locked(g) && (g->flushed || !list_empty(&g->writers));

	if (generation_rests_in(g, GENERATION_OPEN) && closed) {
		generation_set_state(g, GENERATION_SEALED);
		g->closed_ns = clock_mono_ns();
		content_hurry(g->content);
		if (g->pointer)
			pointer_closed(g);
		if (g->checkpoint)
			checkpoint_event_locked(g->checkpoint, EVIDENCE_CLOSE, g->rel, g->rank);
		waitq_wake(&g->units->work);
	} else if (generation_rests_in(g, GENERATION_SEALED) && !closed) {
		generation_set_state(g, GENERATION_OPEN);
	}
	waitq_wake_all(&g->units->changed);
}

/*
 * A file of a checkpoint may be opened again until that is committed; what those did with it who
 * have closed it is no matter then.
 */
static void reopen_sealed_locked(struct generation *g)
{
	while (!list_empty(&g->writers)) {
		struct list *w = g->writers.next;

		list_del(w);
		free(container_of(w, struct writer, link));
	}
	g->flushed = false;
	generation_set_state(g, GENERATION_OPEN);
}

bool generation_open(struct generation *g, pid_t pid)
{
	struct opener *o;
	LOCK_SCOPE(&g->units->lock);

	if (g->checkpoint && generation_rests_in(g, GENERATION_SEALED))
		reopen_sealed_locked(g);
	if (!generation_rests_in(g, GENERATION_OPEN))
		return false;
	g->nr_handles++;
	o = opener_of_locked(g, pid);
	if (o)
		generation_miss_locked(g, o);
	return true;
}

bool generation_expect(struct generation *g, pid_t pid)
{
	LOCK_SCOPE(&g->units->lock);
	return expect_locked(g, pid);
}

bool generation_expect_in(struct generation *g, pid_t pid, bool emptied)
{
	LOCK_SCOPE(&g->units->lock);
	if (generation_rests_in(g, GENERATION_SEALED))
		reopen_sealed_locked(g);
	if (!expect_locked(g, pid))
		return false;
	g->changed = g->changed || emptied;
	return true;
}

void generation_miss_locked(struct generation *g, struct opener *o)
{
	list_del(&o->link);
	free(o);
	g->nr_handles--;
}

void generation_released(struct generation *g)
{
	LOCK_SCOPE(&g->units->lock);
	g->nr_handles--;
	generation_settle_locked(g);
}

static struct writer *writer_of(struct generation *g, uint64_t key, bool make)
{
	struct writer *w;
	struct list *l;

	list_for_each (l, &g->writers) {
		w = container_of(l, struct writer, link);
		if (w->key == key)
			return w;
	}
	w = make ? calloc(1, sizeof(*w)) : NULL;
	if (w) {
		w->key = key;
		list_push(&g->writers, &w->link);
	}
	return w;
}

/* Drops the lock while waiting. */
static int begin_change_locked(struct generation *g)
{
	int err = 0;

	while (!err && generation_is_held_locked(g))
		err = units_wait(g->units);
	if (err)
		return err;
	if (g->state == GENERATION_FAILED)
		return g->err;
	if (g->state == GENERATION_COMMITTED || g->state == GENERATION_DURABLE)
		return -EEXIST;
	g->changed = true;
	g->nr_changing++;
	return 0;
}

void generation_changed(struct generation *g)
{
	LOCK_SCOPE(&g->units->lock);
	g->touched_ns = clock_mono_ns();
	if (--g->nr_changing || g->state != GENERATION_SEALED)
		return;
	content_hurry(g->content); /* what has come since it was closed, too */
	waitq_wake(&g->units->work);
}

int generation_change(struct generation *g)
{
	LOCK_SCOPE(&g->units->lock);
	return begin_change_locked(g);
}

int generation_write(struct generation *g, uint64_t key)
{
	struct writer *w;
	int err;
	LOCK_SCOPE(&g->units->lock);

	err = begin_change_locked(g);
	if (err)
		return err;
	w = writer_of(g, key, true);
	if (!w) {
		g->nr_changing--;
		return -ENOMEM;
	}
	w->closed = false;
	if (g->state == GENERATION_SEALED)
		generation_settle_locked(g);
	return 0;
}

bool generation_is_open(struct generation *g)
{
	LOCK_SCOPE(&g->units->lock);
	return generation_rests_in(g, GENERATION_OPEN);
}

bool generation_is_durable(struct generation *g)
{
	LOCK_SCOPE(&g->units->lock);
	return g->durable_calls;
}

static bool has_died(struct writer_end end)
{
	return end.fate == WRITER_DIED || end.fate == WRITER_EXIT_UNKNOWN;
}

static void fail_by_end(struct generation *g, struct writer_end end)
{
	char text[MESSAGE_MAX], path[PATH_MAX];

	generation_path(g, path, sizeof(path));
	if (end.fate == WRITER_EXIT_UNKNOWN)
		MESSAGE(text, WRITER_VANISHED, path, path);
	else if (end.code < 0)
		MESSAGE(text, WRITER_KILLED, path, -end.code, strsignal(-end.code), path);
	else
		MESSAGE(text, WRITER_EXITED, path, end.code, path);
	generation_fail(g, -EIO, text);
}

/* @w has ended well. Another process may be known by its key soon, and end otherwise. */
static void retire_locked(struct generation *g, struct writer *w)
{
	struct writer *gone = writer_of(g, 0, false);

	if (gone) {
		list_del(&w->link);
		free(w);
	} else {
		w->key = 0;
	}
}

void generation_give_up(struct generation *g, int err, const char *why)
{
	char text[MESSAGE_MAX], path[PATH_MAX];

	generation_path(g, path, sizeof(path));
	MESSAGE(text, CAPTURE_FAILED, path, why);
	generation_fail(g, err, text);
}

void generation_cut_off(struct generation *g)
{
	bool others;
	{
		LOCK_SCOPE(&g->units->lock);
		others = g->flushed || !list_empty(&g->writers);
	}
	if (others) /* else nobody has saved anything: it is given up */
		fail_by_end(g, (struct writer_end){.fate = WRITER_EXIT_UNKNOWN});
}

void generation_closed(struct generation *g, uint64_t key, struct writer_end end)
{
	bool wrote;

	if (g->pointer)
		pointer_read(g);
	{
		LOCK_SCOPE(&g->units->lock);
		struct writer *w = writer_of(g, key, false);

		wrote = w != NULL;
		if (wrote && !has_died(end)) {
			w->closed = true;
			if (end.fate == WRITER_EXITED_OK)
				retire_locked(g, w);
			generation_settle_locked(g);
		}
	}
	if (wrote && has_died(end))
		fail_by_end(g, end);
}

void generation_flushed(struct generation *g, uint64_t key, struct writer_end end)
{
	bool wrote;

	if (g->pointer)
		pointer_read(g);
	{
		LOCK_SCOPE(&g->units->lock);
		struct writer *w = writer_of(g, key, false);

		/* Who dies before anything was written had made it, or cut it, at least. */
		wrote = w || (list_empty(&g->writers) && (g->changed || !g->inherited));
		if (!has_died(end))
			g->flushed = true;
		if (w && !has_died(end)) {
			w->closed = true;
			generation_settle_locked(g);
		}
	}
	if (wrote && has_died(end))
		fail_by_end(g, end);
}

void generation_ask_durable(struct generation *g, bool rankless)
{
	LOCK_SCOPE(&g->units->lock);
	/* A checkpoint is committed by its rule, which may take this very program. */
	g->durable_calls = !g->checkpoint;
	g->rankless = g->rankless || rankless;
}

bool generation_is_pending(struct generation *g)
{
	LOCK_SCOPE(&g->units->lock);
	return !state_is_over(g->checkpoint ? g->checkpoint->state : g->state);
}

/* With it those of its name that come before it. */
static void hurry_up_to_locked(struct generation *g)
{
	struct generation *o;

	for (o = live_has(g) ? g : NULL; o; o = live_older(&g->units->live, o))
		o->hurried = true;
}

bool generation_is_going_locked(const struct generation *g)
{
	if (g->state != GENERATION_SEALED && !generation_is_held_locked(g))
		return false;
	return !g->pointer || pointer_judge(g) != POINTER_WAIT;
}

int generation_wait(struct generation *g)
{
	struct units *us = g->units;
	int err = 0;
	LOCK_SCOPE(&us->lock);

	hurry_up_to_locked(g);
	waitq_wake(&us->work);
	while (!err && generation_is_going_locked(g))
		err = units_wait(us);
	return err ? err : g->state == GENERATION_FAILED ? g->err : 0;
}

/* --- names --- */

/* Waits out a publish that is under way. -EEXIST: it was published. */
static int hold_still_locked(struct generation *g)
{
	while (generation_is_held_locked(g)) {
		int err = units_wait(g->units);

		if (err)
			return err;
	}
	return g->state == GENERATION_COMMITTED || g->state == GENERATION_DURABLE ? -EEXIST : 0;
}

/* Has been ended as dropped, and is referenced. Who has it open goes on with it. */
static void clear_dropped(struct generation *g)
{
	content_orphan(g->content);
	generation_unstage(g, g->target.dir);
}

int generation_drop_one(struct generation *g)
{
	int err;
	{
		LOCK_SCOPE(&g->units->lock);
		err = hold_still_locked(g);
		if (err || (g->state != GENERATION_OPEN && g->state != GENERATION_SEALED))
			return err;
		generation_end_locked(g, GENERATION_DROPPED);
	}
	clear_dropped(g);
	return 0;
}

/* Another generation of the name that is not yet published, referenced. */
static struct generation *another_locked(struct units *us, const struct generation *g,
					 const struct inode_id *dir, const char *name)
{
	struct generation *o = live_oldest(&us->live, dir, name);

	if (o && o == g)
		o = live_newer(&us->live, o);
	if (o)
		o->refs++;
	return o;
}

/* Drops every generation of a name but @g. -EEXIST: one of them was published meanwhile. */
static int drop_others(struct units *us, const struct generation *g, const struct inode_id *dir,
		       const char *name)
{
	int published = 0;

	for (;;) {
		struct generation *o;
		int err;
		{
			LOCK_SCOPE(&us->lock);
			o = another_locked(us, g, dir, name);
		}
		if (!o)
			return published;
		err = generation_drop_one(o);
		generation_put(o);
		if (err && err != -EEXIST)
			return err;
		published = err ? err : published;
	}
}

int generation_drop_older(struct generation *g)
{
	struct inode_id dir;
	char name[NAME_MAX + 1];
	{
		LOCK_SCOPE(&g->units->lock);
		dir = g->target.dir_id;
		memcpy(name, g->target.name, sizeof(name));
	}
	return drop_others(g->units, g, &dir, name);
}

int generation_drop(struct generation *g)
{
	int older = generation_drop_older(g), err;

	if (older && older != -EEXIST)
		return older;
	err = generation_drop_one(g);
	return err ? err : older;
}

int generation_move(struct generation *g, int from, int dir, const char *name)
{
	struct backing *b = g->units->contents->backing;
	int err = AS_CALLER(&g->owner, backing_rename(b, from, g->staging, dir, name, 0));
	struct inode_id id;
	struct statx stx;

	creds_restore();
	if (err == -EACCES || err == -EPERM) /* its maker was allowed to; their groups are gone */
		err = backing_rename(b, from, g->staging, dir, name, 0);
	if (!err || backing_stat_at(b, dir, name, &stx))
		return err;
	id = inode_id_of(&stx); /* an answer may be lost, or come to a call that was made twice */
	return same_inode(&id, &g->id) ? 0 : err;
}

/*
 * The caller is busy @with one that is not published yet, until generation_let_go: publishers
 * keep away. *from: the directory that it leaves for that of @dir_id, -1: it stays.
 */
static int hold(struct generation *g, const struct inode_id *dir_id, enum busy with, int *from)
{
	int err;
	LOCK_SCOPE(&g->units->lock);

	err = hold_still_locked(g);
	if (err)
		return err;
	if (state_is_over(g->state))
		return g->state == GENERATION_FAILED ? g->err : -EEXIST;
	*from = same_inode(&g->target.dir_id, dir_id) ? -1 : g->target.dir;
	busy_begin(&g->busy, with);
	return 0;
}

int generation_unlink(struct generation *g, int (*remove)(void *arg), void *arg)
{
	int err = generation_drop_older(g), from;

	if (err && err != -EEXIST)
		return err;
	err = hold(g, &g->target.dir_id, BUSY_REMOVE, &from);
	if (err)
		return err == -EINTR ? err : -EEXIST;
	err = remove(arg);
	if (err) {
		generation_let_go(g, BUSY_REMOVE);
		return err;
	}
	{
		LOCK_SCOPE(&g->units->lock);
		busy_end(g->units, &g->busy, BUSY_REMOVE);
		generation_end_locked(g, GENERATION_DROPPED);
	}
	clear_dropped(g);
	return 0;
}

int generation_rename(struct generation *g, const struct place *at,
		      int (*make_way)(void *arg, bool *replaces, struct inode_id *replaced),
		      void *arg)
{
	int copy = backing_dup(g->units->contents->backing, at->dir), from = -1, err;
	struct inode_id replaced;
	bool replaces;

	if (copy < 0)
		return copy;
	err = hold(g, &at->id, BUSY_RENAME, &from);
	if (err) {
		close(copy);
		return err;
	}
	if (from >= 0) /* a staging file lies beside its target */
		err = generation_move(g, from, at->dir, g->staging);
	if (!err) {
		err = make_way(arg, &replaces, &replaced);
		if (err && from >= 0)
			generation_move(g, at->dir, from, g->staging);
	}
	if (!err) {
		LOCK_SCOPE(&g->units->lock);
		int old = g->target.dir;

		g->target.dir = copy;
		copy = old;
		live_rename(&g->units->live, g, &at->id, at->name);
		g->replaces = replaces;
		if (replaces)
			g->replaced = replaced;
		generation_show_locked(g);
	}
	close(copy);
	if (generation_let_go(g, BUSY_RENAME) && !err)
		err = generation_wait(g);
	return err;
}

/* Hurries those that are closed under a name, or @name NULL: that are to be durable. */
static struct generation *any_closed_locked(struct units *us, const struct inode_id *dir,
					    const char *name)
{
	struct generation *any = NULL;
	struct list *l;

	list_for_each (l, &us->live.all) {
		struct generation *g = container_of(l, struct generation, link);

		if (!generation_is_going_locked(g) || !same_inode(&g->target.dir_id, dir) ||
		    (name ? strcmp(g->target.name, name) : !g->durable_calls))
			continue;
		g->hurried = true;
		any = g;
	}
	if (any)
		waitq_wake(&us->work);
	return any;
}

int units_settle_name(struct units *us, const struct inode_id *dir, const char *name)
{
	int err = 0;
	LOCK_SCOPE(&us->lock);

	while (!err && any_closed_locked(us, dir, name))
		err = units_wait(us);
	return err;
}

int units_settle_dir(struct units *us, const struct inode_id *dir)
{
	struct generation *g;
	int first = 0, err;

	do {
		{
			LOCK_SCOPE(&us->lock);
			g = any_closed_locked(us, dir, NULL);
			if (g)
				g->refs++;
		}
		err = g ? generation_wait(g) : 0;
		generation_put(g);
		first = first ? first : err;
	} while (g && err != -EINTR);
	return first;
}

/* --- the whole mount --- */

void units_progress(struct units *us, struct units_progress *p)
{
	struct list *l;
	LOCK_SCOPE(&us->lock);

	*p = (struct units_progress){0};
	list_for_each (l, &us->live.all) {
		struct generation *g = container_of(l, struct generation, link);

		if (g->state == GENERATION_OPEN)
			p->open++;
		else
			p->closed++;
		p->dirty_bytes += content_dirty_bytes(g->content);
	}
}

void units_no_more_calls(struct units *us)
{
	struct list *l;
	LOCK_SCOPE(&us->lock);

	list_for_each (l, &us->live.all) {
		struct generation *g = container_of(l, struct generation, link);

		while (!list_empty(&g->expected))
			generation_miss_locked(g,
					       container_of(g->expected.next, struct opener, link));
		if (list_empty(&g->writers) && g->flushed)
			g->nr_handles = 0;
		generation_settle_locked(g);
	}
	us->no_more_calls = true;
}
