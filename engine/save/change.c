/* SPDX-License-Identifier: MIT */
/*
 * A change to a committed checkpoint is a new generation, which inherits what is not changed. The
 * kind of the change decides what ends it. A generation that makes several changes has the greatest
 * of their kinds:
 *
 *   SOME  late files, rewrites, changes in place: ends with the last close, and some silence
 *   ANEW  the same name is being saved once more: ends by the rule, which needs all its evidence
 *         again. Files that are not written again stay as they were
 *
 * A data file (rule_is_data) that is created, truncated, or renamed to its name, begins a full
 * save (ANEW) in three cases: the committed checkpoint has a file of that name; the writer has a
 * rank, and its job or number of ranks is not that of the committed save; all files were removed
 * before. Every other change is SOME.
 */
#include "engine/save/units.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/base/lock.h"
#include "engine/redo/unit_header.h"

/* Pins the committed checkpoint that @cp changes. A descriptor, or -errno. */
static int pin_changed(struct checkpoint *cp)
{
	struct backing b = backing_owner(cp->units->contents->backing, &cp->owner);
	char name[NAME_MAX + 1];
	__cleanup_fd int dir = -1;
	{
		LOCK_SCOPE(&cp->units->lock);
		dir = backing_dup(&b, cp->target.dir);
		memcpy(name, cp->target.name, sizeof(name));
	}
	return dir < 0 ? -EMFILE : backing_pin(&b, dir, name);
}

/* 1: the checkpoint @unit has the file @rel. 0: not. -errno. */
static int has_file(struct checkpoint *cp, int unit, const char *rel)
{
	struct backing b = backing_owner(cp->units->contents->backing, &cp->owner);
	int dir = backing_dup(&b, unit), fd;

	while (dir >= 0) {
		size_t len = strcspn(rel, "/");
		char name[NAME_MAX + 1];

		memcpy(name, rel, len);
		name[len] = '\0';
		fd = backing_pin(&b, dir, name);
		close(dir);
		if (fd < 0)
			return fd == -ENOENT || fd == -ENOTDIR ? 0 : fd;
		if (!rel[len]) {
			close(fd);
			return 1;
		}
		dir = fd;
		rel += len + 1;
	}
	return -EMFILE;
}

/* 1: @p has a rank, and the save of @unit was of another job or world. 0: not. -errno. */
static int is_of_another_save(struct checkpoint *cp, int unit, const struct process *p)
{
	struct backing b = backing_owner(cp->units->contents->backing, &cp->owner);
	__cleanup_free struct commit_header *h = malloc(sizeof(*h));
	int err;

	if (p->rank < 0)
		return 0;
	err = h ? unit_header(&b, unit, h) : -ENOMEM;
	if (err)
		return err;
	return strcmp(h->job, p->key) || (int)h->ranks != p->world;
}

int change_from_nothing(struct checkpoint *cp, struct process *p, const char *rel)
{
	int anew;
	{
		LOCK_SCOPE(&cp->units->lock);
		if (!cp->follows || cp->anew || !cp->rule || !rule_is_data(cp->rule, rel))
			return 0;
		cp->anew = !cp->nr_shared;
		if (cp->anew)
			return 0;
	}
	__cleanup_fd int unit = pin_changed(cp);

	anew = unit < 0 ? unit : has_file(cp, unit, rel);
	if (!anew)
		anew = is_of_another_save(cp, unit, p);
	if (anew < 0)
		return anew;
	LOCK_SCOPE(&cp->units->lock);
	cp->anew = cp->anew || anew;
	return 0;
}
