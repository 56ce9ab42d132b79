/* SPDX-License-Identifier: MIT */
/*
 * Checkpoints without a digest or a commit file, for `ckptfs fsck --adopt`: those that are provably
 * whole, or that a person vouches for by naming them, get one. Their own bytes stay as they are.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/message.h"
#include "engine/base/source.h"
#include "engine/content/digest.h"
#include "engine/content/structure.h"
#include "engine/format/digest_record.h"
#include "fs/cmd/fsck_inside.h"
#include "fs/foreign.h"
#include "fs/record.h"

/* A younger file may still be written. Too short: a torn file is adopted. */
#define QUIET_S 60

static void show_digest(void *arg, uint64_t bytes)
{
	struct fsck *f = arg;
	char path[PATH_MAX];

	if (f->digest_size)
		progress_show(&f->progress, "%s: %.0f %% of %.0f MB",
			      show_name(path, sizeof(path), f->digesting),
			      (double)bytes * 100 / (double)f->digest_size,
			      (double)f->digest_size / 1e6);
}

static bool same_content(const struct stat *a, const struct stat *b)
{
	return a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
	       a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static int cannot_adopt(const char *path, int err, const char *why, struct error *e)
{
	return FAIL(e, err, FSCK_ADOPT, path, why ? why : strerror(err));
}

/* Refuses, before all bytes are read, what would be refused afterwards. */
static int may_adopt(const struct fsck *f, const struct leftover *l, const struct stat *st,
		     const char *path, struct error *e)
{
	int64_t age_s = (int64_t)(f->now_ns / NSEC_PER_SEC) - st->st_mtim.tv_sec;

	if (!S_ISREG(st->st_mode))
		return cannot_adopt(path, EINVAL, "it is no file any more", e);
	if (age_s > -QUIET_S && age_s < QUIET_S)
		return cannot_adopt(path, EBUSY,
				    "it was written to within the last minute, and may not be "
				    "complete; try again later",
				    e);
	if (faccessat(l->dir, l->name, W_OK, AT_EACCESS))
		return cannot_adopt(path, errno, NULL, e);
	return 0;
}

/* Digests the file and records the digest, if the file is whole and does not change meanwhile. */
static int adopt(struct fsck *f, const struct leftover *l, const char *path, char hex[DIGEST_HEX],
		 struct error *e)
{
	__cleanup_fd int fd =
		openat(l->dir, l->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct source src = source_of_fd(&fd);
	char record[DIGEST_RECORD_MAX];
	struct stat st, after;
	int err;

	if (fd < 0 || fstat(fd, &st))
		return cannot_adopt(path, errno, NULL, e);
	err = may_adopt(f, l, &st, path, e);
	if (!err)
		err = structure_check(&src, path, (uint64_t)st.st_size, e);
	if (err)
		return err;
	f->digesting = path;
	f->digest_size = (uint64_t)st.st_size;
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED); /* what the storage has counts */
	err = digest_of_source(&src, f->digest_size, THREADS, show_digest, f, hex);
	if (!fstat(fd, &after) && !same_content(&st, &after))
		return cannot_adopt(path, EBUSY, "it was written to while it was read", e);
	if (err)
		return cannot_adopt(path, -err, NULL, e);
	digest_record_format(record, sizeof(record), hex, (uint64_t)st.st_size, stat_mtime_ns(&st));
	if (fsetxattr(fd, DIGEST_XATTR, record, strlen(record), XATTR_CREATE) || fsync(fd))
		return cannot_adopt(path, errno, NULL, e);
	return 0;
}

void fsck_found_foreign(struct fsck *f, const struct leftover *l)
{
	char hex[DIGEST_HEX] = "", path[PATH_MAX];
	struct error e;

	if (f->mode != ADOPT) {
		fsck_tell(f, l, "would adopt", NULL, NULL);
	} else if (adopt(f, l, show_name(path, sizeof(path), l->path), hex, &e)) {
		f->nr_left++;
		fsck_tell(f, l, "left", NULL, e.text);
	} else {
		f->nr_adopted++;
		fsck_tell(f, l, "adopted", hex, NULL);
	}
}

static void show_adopting(void *arg, const char *path, uint64_t bytes)
{
	struct fsck *f = arg;
	char shown[PATH_MAX];

	progress_show(&f->progress, "%s: %.0f MB", show_name(shown, sizeof(shown), path),
		      (double)bytes / 1e6);
}

/* True if the directory @dir was named on the command line. */
static bool is_named(struct fsck *f, int dir)
{
	struct stat st, named;
	bool is = false;
	int i;

	for (i = 0; i < f->nr_named; i++)
		if (!fstat(dir, &st) && !stat(f->named[i], &named) && st.st_ino == named.st_ino &&
		    st.st_dev == named.st_dev)
			is = f->met[i] = true;
	return is;
}

void fsck_found_foreign_unit(struct fsck *f, const struct leftover *l)
{
	char path[PATH_MAX];
	struct error e = {.err = 0};
	struct foreign unit = {
		.rule = foreign_rule(f->rules, l->path, l->dir),
		.path = l->path,
		.shown = show_name(path, sizeof(path), l->path),
		.dir = l->dir,
		.named = is_named(f, l->dir),
		.only_look = f->mode != ADOPT,
		.now_ns = f->now_ns,
		.digesting = show_adopting,
		.arg = f,
	};
	int err = unit.rule ? foreign_adopt(&unit, &e) : -ENOENT;

	if (!err && f->mode == ADOPT)
		f->nr_adopted++;
	f->nr_left += err && (err != -ENODATA || unit.named);
	fsck_tell(f, l,
		  err		     ? "left"
		  : f->mode == ADOPT ? "adopted"
				     : "would adopt",
		  NULL, err ? e.text : NULL);
}
