/* SPDX-License-Identifier: MIT */
#include "engine/unit/removal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/unit/internal.h"
#include "engine/unit/rules.h"
#include "engine/unit/trash.h"

#define POINTER_MAX   4096
#define LOOK_AGAIN_NS (200 * NSEC_PER_MSEC)

struct hidden {
	struct inode_id dir;
	char *name;
};

struct removal {
	struct list link;
	struct caller owner;
	struct process *process; /* who removes it, referenced */
	int dir;		 /* of the unit's parent */
	struct inode_id dir_id, id;
	char name[NAME_MAX + 1];
	struct hidden *hidden;
	size_t nr_hidden, room;
	bool whole;    /* its own name was removed, too */
	bool due;      /* a newer one was committed */
	bool replaced; /* ... and has its name */
	bool taken;    /* a thread is at it */
	uint64_t since_ns, changed_ns, again_ns;
};

/* Lock held. One whose name is another's by now is no longer a removal of that name. */
static struct removal *find(struct units *us, const struct inode_id *dir, const char *name)
{
	struct list *l;

	list_for_each (l, &us->removals) {
		struct removal *r = container_of(l, struct removal, link);

		if (!r->replaced && same_inode(&r->dir_id, dir) && !strcmp(r->name, name))
			return r;
	}
	return NULL;
}

/* Off the list. */
static void destroy(struct removal *r)
{
	while (r->nr_hidden)
		free(r->hidden[--r->nr_hidden].name);
	free(r->hidden);
	process_put(r->process);
	if (r->dir >= 0)
		close(r->dir);
	free(r);
}

/* Lock held. */
static void unlist(struct units *us, struct removal *r)
{
	list_del(&r->link);
	atomic_fetch_sub(&us->nr_removals, 1);
}

bool removal_waits(struct units *us, const struct process *p, const struct inode_id *dir)
{
	struct list *l;
	unsigned i;

	if (p->world > 1)
		return true;
	LOCK_SCOPE(&us->lock);
	list_for_each (l, &us->checkpoints) {
		struct checkpoint *cp = container_of(l, struct checkpoint, link);

		if (cp->visible && same_inode(&cp->target.dir_id, dir) && job_same(p, cp->maker))
			return true;
	}
	for (i = 0; i < us->nr_savers && i < SAVERS_KEPT; i++)
		if (us->savers[i].process == p && same_inode(&us->savers[i].dir, dir))
			return true;
	return false;
}

static struct removal *make(const struct caller *c, struct process *p, const struct unit_place *u)
{
	struct removal *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->owner = *c;
	r->process = process_get(p);
	r->dir = fcntl(u->dir, F_DUPFD_CLOEXEC, 0);
	r->dir_id = u->dir_id;
	r->id = u->id;
	r->since_ns = clock_mono_ns();
	snprintf(r->name, sizeof(r->name), "%s", u->name);
	return r;
}

/* Lock held. */
static int hide(struct removal *r, const struct inode_id *dir, const char *name)
{
	char *copy = strdup(name);

	if (r->nr_hidden == r->room) {
		size_t room = r->room ? 2 * r->room : 16;
		struct hidden *more = realloc(r->hidden, room * sizeof(*more));

		if (!more) {
			free(copy);
			return -ENOMEM;
		}
		r->hidden = more;
		r->room = room;
	}
	if (!copy)
		return -ENOMEM;
	r->hidden[r->nr_hidden++] = (struct hidden){*dir, copy};
	r->changed_ns = clock_mono_ns();
	return 0;
}

int removal_note(struct units *us, const struct caller *c, struct process *p,
		 const struct unit_place *u, const struct inode_id *dir, const char *name)
{
	struct removal *new = make(c, p, u), *r;
	int err = -ENOMEM;

	if (!new)
		return err;
	{
		LOCK_SCOPE(&us->lock);
		r = find(us, &u->dir_id, u->name);
		if (!r) {
			r = new;
			new = NULL;
			list_append(&us->removals, &r->link);
			atomic_fetch_add(&us->nr_removals, 1);
		}
		err = hide(r, dir, name);
	}
	if (new)
		destroy(new);
	return err;
}

void removal_complete(struct units *us, const struct unit_place *u)
{
	LOCK_SCOPE(&us->lock);
	struct removal *r = find(us, &u->dir_id, u->name);

	if (r)
		r->whole = true;
}

bool removals_hide(struct units *us, const struct inode_id *dir, const char *name)
{
	struct list *l;
	size_t i;

	if (!atomic_load(&us->nr_removals))
		return false;
	LOCK_SCOPE(&us->lock);
	list_for_each (l, &us->removals) {
		struct removal *r = container_of(l, struct removal, link);

		if (r->replaced)
			continue; /* what it has hidden is gone, and its name another's */
		if (r->whole && same_inode(&r->dir_id, dir) && !strcmp(r->name, name))
			return true;
		for (i = 0; i < r->nr_hidden; i++)
			if (same_inode(&r->hidden[i].dir, dir) && !strcmp(r->hidden[i].name, name))
				return true;
	}
	return false;
}

void removal_of_replaced(struct checkpoint *cp)
{
	struct units *us = cp->units;
	const struct unit_place u = {.dir = cp->target.dir,
				     .dir_id = cp->target.dir_id,
				     .id = cp->replaced,
				     .name = cp->target.name};

	if (removal_note(us, &cp->owner, cp->maker, &u, &u.dir_id, u.name))
		return; /* without memory: it is seen again */
	removal_complete(us, &u);
	if (!removal_waits(us, cp->maker, &u.dir_id))
		removal_make_way(us, &u.dir_id, u.name);
}

/* --- when it is applied --- */

/* Does the pointer @pointer in the removal's directory name it? */
static bool is_named_by(struct units *us, struct removal *r, const char *pointer)
{
	struct backing *b = us->contents->backing;
	char content[POINTER_MAX], name[NAME_MAX + 1];
	int pin = backing_pin(b, r->dir, pointer), fd;
	ssize_t len;

	if (pin < 0)
		return false;
	fd = backing_reopen(b, pin, O_RDONLY);
	close(pin);
	if (fd < 0)
		return false;
	len = backing_read(b, fd, content, sizeof(content), 0);
	close(fd);
	return len > 0 && rules_pointer_names(us->rules, pointer, content, (size_t)len, name) &&
	       !strcmp(name, r->name);
}

static bool is_named(struct units *us, struct removal *r)
{
	int fd = backing_reopen(us->contents->backing, r->dir, O_RDONLY | O_DIRECTORY);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	bool named = false;

	if (!d) {
		if (fd >= 0)
			close(fd);
		return false;
	}
	while (!named && (entry = readdir(d)))
		named = rules_is_pointer(us->rules, entry->d_name) &&
			is_named_by(us, r, entry->d_name);
	closedir(d);
	return named;
}

/* (O7) Leaves the backing: to trash, unless the name is another's by now. */
static int apply(struct units *us, struct removal *r)
{
	struct backing *b = us->contents->backing;
	char id[STAGING_MAX], trash[STAGING_MAX + 8];
	struct inode_id there;
	struct statx stx;
	int fd, err = backing_stat_at(b, r->dir, r->name, &stx);

	if (err)
		return err == -ENOENT ? 0 : err;
	there = inode_id_of(&stx);
	if (!same_inode(&there, &r->id))
		return 0;
	err = units_new_id(id);
	if (err)
		return err;
	snprintf(trash, sizeof(trash), "%s%s", TRASH_PREFIX, id + strlen(STAGING_PREFIX));
	err = AS_CALLER(&r->owner, backing_rename(b, r->dir, r->name, r->dir, trash, 0));
	creds_restore();
	if (err)
		return err;
	fd = backing_reopen(b, r->dir, O_RDONLY | O_DIRECTORY);
	if (fd >= 0) {
		backing_sync(b, fd, false);
		close(fd);
	}
	trash_empty_later(us, &r->owner, r->dir, id + strlen(STAGING_PREFIX));
	return 0;
}

static void path_of(struct units *us, const struct removal *r, char *buf, size_t size)
{
	if (us->name)
		us->name(us->name_arg, &r->dir_id, r->name, buf, size);
	else
		snprintf(buf, size, "%s", r->name);
}

int removal_make_way(struct units *us, const struct inode_id *dir, const char *name)
{
	struct removal *r;
	int err;

	{
		LOCK_SCOPE(&us->lock);
		r = find(us, dir, name);
		if (!r || r->taken)
			return 0;
		r->taken = true;
	}
	err = apply(us, r);
	{
		LOCK_SCOPE(&us->lock);
		r->taken = false;
		if (err)
			return err;
		unlist(us, r);
	}
	destroy(r);
	return 0;
}

void removals_committed(struct units *us, const struct checkpoint *cp)
{
	struct list *l;

	if (cp->follows)
		return;
	list_for_each (l, &us->removals) {
		struct removal *r = container_of(l, struct removal, link);

		if (same_inode(&r->dir_id, &cp->target.dir_id) && job_same(r->process, cp->maker))
			r->due = true;
		if (same_inode(&r->dir_id, &cp->target.dir_id) && !strcmp(r->name, cp->target.name))
			r->replaced = r->due = r->whole = true;
	}
}

enum fate { WAIT, APPLY, KEEP, CHANGE };

/* Lock held. */
static enum fate judge(struct units *us, const struct removal *r, uint64_t now)
{
	if (r->taken || r->again_ns > now)
		return WAIT;
	if (!r->whole) /* it wanted to remove but some of it */
		return now - r->changed_ns > us->quiet_ns ? CHANGE : WAIT;
	if (r->due)
		return APPLY;
	return now - r->since_ns > us->order_ns ? KEEP : WAIT;
}

/* Kept: it is seen again. */
static void tell_kept(struct units *us, struct removal *r)
{
	char text[MESSAGE_MAX], path[PATH_MAX];

	path_of(us, r, path, sizeof(path));
	MESSAGE(text, REMOVAL_KEPT, path);
	failures_add(us->failures, r->owner.uid, "removal", path, ECANCELED, text);
}

bool removals_work(struct units *us)
{
	uint64_t now = clock_mono_ns();
	struct removal *r = NULL;
	struct checkpoint *change = NULL;
	enum fate fate = WAIT;
	struct list *l;
	int err = 0;

	list_for_each (l, &us->removals) {
		r = container_of(l, struct removal, link);
		fate = judge(us, r, now);
		if (fate != WAIT)
			break;
	}
	if (fate == WAIT)
		return false;
	r->taken = true;
	pthread_mutex_unlock(&us->lock);
	if (fate == APPLY)
		err = !r->replaced && is_named(us, r) ? -EAGAIN : apply(us, r);
	else if (fate == CHANGE)
		err = checkpoint_inherit(us, &r->owner, r->process, r->dir, &r->dir_id, r->name,
					 true, &change);
	pthread_mutex_lock(&us->lock);
	r->taken = false;
	r->again_ns = now + LOOK_AGAIN_NS;
	if (err)
		return true;
	unlist(us, r);
	pthread_mutex_unlock(&us->lock);
	if (fate == KEEP)
		tell_kept(us, r);
	checkpoint_put(change);
	destroy(r);
	pthread_mutex_lock(&us->lock);
	return true;
}

void removals_finish(struct units *us)
{
	while (!list_empty(&us->removals)) {
		struct removal *r = container_of(us->removals.next, struct removal, link);

		if (!r->whole || r->due)
			log_info("'%s' was removed in the mount, and is kept on the backing: no "
				 "newer "
				 "checkpoint of its job was committed",
				 r->name);
		list_del(&r->link);
		destroy(r);
	}
}
