/* SPDX-License-Identifier: MIT */
/*
 * Checkpoint directories in staging, for `ckptfs fsck`: with --adopt a whole one gets its name if
 * that is free, with --discard it is removed. One that a daemon holds, or whose commit is decided,
 * is left.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/backing/backing.h"
#include "engine/base/cleanup.h"
#include "engine/base/message.h"
#include "engine/format/names.h"
#include "fs/cmd/fsck_inside.h"
#include "fs/listing.h"

static void show_verified(void *arg, uint64_t bytes)
{
	struct fsck *f = arg;
	char path[PATH_MAX];

	progress_show(&f->progress, "%s: %.0f MB verified",
		      show_name(path, sizeof(path), f->digesting), (double)bytes / 1e6);
}

/* 0: all that its commit file lists is there. Else -errno, and @e says what is wrong. */
static int staged_is_whole(struct fsck *f, const struct leftover *l, int dir, struct listing *list,
			   struct error *e)
{
	const char *wrong = NULL;
	char path[PATH_MAX];
	size_t i;
	int err;

	show_name(path, sizeof(path), l->path);
	f->digesting = l->path;
	err = listing_read(list, dir, path, e);
	if (err)
		return err;
	err = listing_verify(list, dir, path, THREADS, show_verified, f);
	for (i = 0; !err && !wrong && i < list->nr; i++)
		if (list->list[i].verdict != FILE_OK)
			wrong = list->list[i].message ? list->list[i].message : list->list[i].path;
	if (!err && !wrong && strcmp(list->header.generation, staging_id(l->name)))
		wrong = "it is a copy of another";
	if (!err && !wrong)
		return 0;
	return FAIL(e, err ? -err : EBADMSG, FSCK_STAGED_DAMAGED, path, list->header.unit,
		    wrong ? wrong : strerror(-err));
}

/* Gives @l its name, which was free. -EEXIST: it is not free any more. */
static int give_name(const struct leftover *l, const char *name)
{
	struct stat st;
	int err = renameat2(l->dir, l->name, l->dir, name, RENAME_NOREPLACE) ? -errno : 0;

	if (err == -EINVAL) { /* the filesystem has no such rename */
		if (!fstatat(l->dir, name, &st, AT_SYMLINK_NOFOLLOW))
			return -EEXIST;
		err = renameat(l->dir, l->name, l->dir, name) ? -errno : 0;
	}
	/* l->dir may be a descriptor for paths, which cannot be synced. */
	if (!err) {
		__cleanup_fd int dir = openat(l->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		err = dir < 0 || fsync(dir) ? -errno : 0;
	}
	return err;
}

/* Returns the word for what was done; @e explains it, unless the word says all. */
static const char *adopt_staged(struct fsck *f, const struct leftover *l,
				const struct listing *list, struct error *e)
{
	const char *unit = list->header.unit, *slash = strrchr(unit, '/');
	const char *name = slash ? slash + 1 : unit;
	char path[PATH_MAX], shown[PATH_MAX];
	struct stat st;
	bool is_free = !name_is_reserved(name) && fstatat(l->dir, name, &st, AT_SYMLINK_NOFOLLOW) &&
		       errno == ENOENT;
	int err;

	show_name(path, sizeof(path), l->path);
	show_name(shown, sizeof(shown), unit);
	err = is_free && f->mode == ADOPT ? give_name(l, name) : 0;
	if (!is_free || err == -EEXIST) {
		FAIL(e, EEXIST, FSCK_NAME_TAKEN, path, shown);
		return "left";
	}
	if (f->mode != ADOPT) {
		FAIL(e, ENOENT, FSCK_UNPUBLISHED_UNIT, path, shown);
		return "would adopt";
	}
	if (err) {
		FAIL(e, -err, FSCK_NOT_GIVEN, path, shown, strerror(-err));
		return "left";
	}
	f->nr_given++;
	return "adopted";
}

/* True if its commit is decided, so that it must not be removed. */
static bool is_waiting(const struct fsck *f, const char *name)
{
	size_t i;

	for (i = 0; i < f->nr_waiting; i++)
		if (!strcmp(f->waiting[i], name))
			return true;
	return false;
}

void fsck_found_staged(struct fsck *f, struct leftover *l)
{
	__cleanup_fd int dir =
		openat(l->dir, l->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct listing list = {.nr = 0};
	char path[PATH_MAX];
	const char *action = "left";
	struct error e = {.err = 0};
	bool held = dir >= 0 && backing_lock(&f->backing, dir, true) &&
		    backing_has_locks(&f->backing, dir);

	if (held) {
		FAIL(&e, EBUSY, FSCK_HELD, show_name(path, sizeof(path), l->path));
	} else if (f->mode == DISCARD && !is_waiting(f, l->name)) {
		fsck_discard(f, l);
		return;
	} else if (l->kind == LEFT_UNPUBLISHED &&
		   (dir < 0 || staged_is_whole(f, l, dir, &list, &e))) {
		l->kind = LEFT_UNFINISHED;
		f->nr[LEFT_UNPUBLISHED]--;
		f->nr[LEFT_UNFINISHED]++;
		action = f->mode == ADOPT ? "left" : "would remove";
	} else if (l->kind == LEFT_UNPUBLISHED) {
		action = adopt_staged(f, l, &list, &e);
	} else if (f->mode != ADOPT) {
		action = "would remove";
	}
	if (strcmp(action, "adopted")) {
		f->nr_left++;
		f->bytes_left += l->size;
	}
	fsck_tell(f, l, action, NULL, *e.text ? e.text : NULL);
	listing_finish(&list);
}
