/* SPDX-License-Identifier: MIT */
#include "fs/verify.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <time.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/message.h"
#include "engine/base/source.h"
#include "engine/content/digest.h"
#include "engine/format/commit.h"
#include "engine/format/digest_record.h"
#include "engine/format/format.h"
#include "engine/format/names.h"
#include "fs/leftovers.h"

/* Storage needs several readers, even where there are few processors. */
#define MIN_THREADS 4
#define MAX_THREADS 16

/* --- progress --- */

static void begin(struct verify *v, const char *path, uint64_t bytes)
{
	v->now = path;
	v->now_bytes = bytes;
	v->now_started_ns = clock_mono_ns();
}

/* Shows only the end of a long path. */
static void show_progress(void *arg, uint64_t bytes)
{
	struct verify *v = arg;
	uint64_t ms = (clock_mono_ns() - v->now_started_ns) / NSEC_PER_MSEC + 1;
	size_t len = strlen(v->now), shown = len < 40 ? len : 40;

	if (!v->now_bytes)
		return;
	progress_show(&v->progress, "%s%s: %.0f %% of %" PRIu64 " MB, %" PRIu64 " MB/s",
		      shown < len ? "..." : "", v->now + len - shown,
		      (double)bytes * 100 / (double)v->now_bytes, v->now_bytes / 1000000,
		      bytes / 1000 / ms);
}

static void report(struct verify *v, const struct verified *f)
{
	progress_hide(&v->progress);
	v->nr[f->verdict]++;
	v->file(v->arg, f);
}

/* --- one file, by its record --- */

static void print_time(char buf[64], uint64_t ns)
{
	time_t s = (time_t)(ns / NSEC_PER_SEC);
	struct tm tm;
	size_t len = localtime_r(&s, &tm) ? strftime(buf, 40, "%F %T", &tm) : 0;

	snprintf(buf + len, 64 - len, ".%09u", (unsigned)(ns % NSEC_PER_SEC));
}

static enum verdict changed(struct verified *f, const char *how)
{
	MESSAGE(f->message, VERIFY_CHANGED, f->path, how, f->path);
	return FILE_CHANGED;
}

static enum verdict unreadable(struct verified *f, const char *why)
{
	MESSAGE(f->message, VERIFY_UNREADABLE, f->path, why);
	return FILE_UNREADABLE;
}

/* Reads the record of @f. FILE_OK: it is of the file as it is now. */
static enum verdict check_record(struct verified *f, int fd)
{
	char how[256], then[64], now[64];
	struct record *r = &f->record;
	int err = record_read(fd, r);

	if (err == -ENODATA) {
		if (record_is_awaited(fd))
			MESSAGE(f->message, VERIFY_UNPUBLISHED, f->path, f->path);
		else
			MESSAGE(f->message, VERIFY_NO_RECORD, f->path);
		return FILE_NO_RECORD;
	}
	if (err == -EINVAL) {
		MESSAGE(f->message, VERIFY_BAD_RECORD, f->path, f->path);
		return FILE_NO_RECORD;
	}
	if (err)
		return unreadable(f, strerror(-err));
	if (f->size != r->size) {
		snprintf(how, sizeof(how), "it has %" PRIu64 " bytes now and had %" PRIu64, f->size,
			 r->size);
		return changed(f, how);
	}
	if (f->mtime_ns != r->mtime_ns) {
		print_time(then, r->mtime_ns);
		print_time(now, f->mtime_ns);
		snprintf(how, sizeof(how), "it was last written at %s, the record is of %s", now,
			 then);
		return changed(f, how);
	}
	return FILE_OK;
}

static enum verdict check_content(struct verify *v, struct verified *f, int fd)
{
	struct source src = source_of_fd(&fd);
	struct stat st;
	int err;

	/* What the storage has counts, not what this host remembers of it. */
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	begin(v, f->path, f->size);
	err = digest_of_source(&src, f->size, v->threads, show_progress, v, f->hex);
	if (!fstat(fd, &st) &&
	    ((uint64_t)st.st_size != f->size || stat_mtime_ns(&st) != f->mtime_ns))
		return changed(f, "it was written to while it was read");
	if (err)
		return unreadable(f, strerror(-err));
	if (!strcmp(f->hex, f->record.hex))
		return FILE_OK;
	MESSAGE(f->message, VERIFY_DAMAGED, f->path, f->hex, f->record.hex);
	return FILE_DAMAGED;
}

/* Opens the file as @path; f->path is how the user knows it. */
static enum verdict check_file(struct verify *v, struct verified *f, const char *path)
{
	__cleanup_fd int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	enum verdict verdict;
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		return unreadable(f, strerror(errno));
	f->size = (uint64_t)st.st_size;
	f->mtime_ns = stat_mtime_ns(&st);
	verdict = check_record(f, fd);
	return verdict == FILE_OK && !v->structure_only ? check_content(v, f, fd) : verdict;
}

static void report_file(struct verify *v, const char *name, const char *path)
{
	struct verified f = {.path = name};

	f.verdict = check_file(v, &f, path);
	report(v, &f);
}

static void report_unreadable(struct verify *v, const char *name, const char *why)
{
	struct verified f = {.path = name};

	f.verdict = unreadable(&f, why);
	v->unit_ok = false;
	report(v, &f);
}

/* --- a directory with a commit file --- */

static void report_listed(struct verify *v, const char *path, const struct listed *l)
{
	struct verified f = {.verdict = l->verdict, .size = l->size};
	char *name;

	if (asprintf(&name, "%s/%s", path, l->path) < 0)
		return;
	f.path = name;
	snprintf(f.message, sizeof(f.message), "%s", l->message ? l->message : "");
	report(v, &f);
	free(name);
}

static void check_listing(struct verify *v, const char *path, struct listing *l, int dir)
{
	char text[MESSAGE_MAX];
	size_t i;

	if (l->torn) {
		MESSAGE(text, VERIFY_UNIT_TORN, path);
		v->complain(text);
	}
	begin(v, path, l->bytes);
	l->structure_only = v->structure_only;
	v->unit_ok = true;
	if (listing_verify(l, dir, path, v->threads, show_progress, v))
		report_unreadable(v, path, strerror(ENOMEM));
	for (i = 0; i < l->nr; i++) {
		if (l->list[i].verdict == FILE_OK) {
			v->nr[FILE_OK]++;
			continue;
		}
		report_listed(v, path, &l->list[i]);
		v->unit_ok = false;
	}
	progress_hide(&v->progress);
}

/* The commit file is no good: its files are not looked at, since nothing vouches for them. */
static void report_commit(struct verify *v, const char *path, const struct error *e)
{
	struct verified f = {.verdict = e->err == EBADMSG ? FILE_DAMAGED : FILE_UNREADABLE};
	char *name;

	if (asprintf(&name, "%s/%s", path, COMMIT_FILE) < 0)
		return;
	f.path = name;
	snprintf(f.message, sizeof(f.message), "%s", e->text);
	report(v, &f);
	free(name);
}

/* Sets v->listing. 0; -ENOENT: there is none; else -errno, after report_commit. */
static int read_listing(struct verify *v, const char *path, int dir)
{
	struct listing *l = calloc(1, sizeof(*l));
	struct error e = {0};
	int err = l ? listing_read(l, dir, path, &e)
		    : FAIL(&e, ENOMEM, COMMIT_UNREADABLE, path, strerror(ENOMEM));

	if (!err) {
		v->listing = l;
		return 0;
	}
	if (err != -ENOENT)
		report_commit(v, path, &e);
	if (l)
		listing_finish(l);
	free(l);
	return err;
}

/* Enters the directory @path, at @at. 0: no commit file. 1: it has one. -errno: a bad one. */
static int enter(struct verify *v, const char *path, const char *at)
{
	__cleanup_fd int dir = open(at, O_PATH | O_DIRECTORY | O_CLOEXEC);
	__cleanup_free char *trimmed = NULL;
	size_t len = strlen(path);
	int err;

	if (dir < 0 || !leftovers_is_unit(dir))
		return 0;
	while (len && path[len - 1] == '/')
		len--;
	trimmed = strndup(path, len);
	err = trimmed ? read_listing(v, trimmed, dir) : -ENOENT;
	if (err)
		return err == -ENOENT ? 0 : err;
	v->below = len + 1;
	v->nr_unlisted = 0;
	check_listing(v, trimmed, v->listing, dir);
	return 1;
}

static void drop_listing(struct verify *v)
{
	listing_finish(v->listing);
	free(v->listing);
	v->listing = NULL;
}

static void leave(struct verify *v, const char *path)
{
	v->unit(v->arg, path, v->listing, v->unit_ok, v->nr_unlisted);
	drop_listing(v);
}

static bool is_unit(const char *path)
{
	__cleanup_fd int dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);

	return dir >= 0 && leftovers_is_unit(dir);
}

/* The length of the path of the outermost directory above @path with a commit file; 0: none. */
static size_t unit_above(char *path)
{
	size_t len, found = 0;

	for (len = 1; path[len] && !found; len++) {
		if (path[len] != '/')
			continue;
		path[len] = '\0';
		found = is_unit(path) ? len : 0;
		path[len] = '/';
	}
	return found;
}

/*
 * As enter, for a part of such a directory: @path, without links and dots in it. 0 also if the
 * commit file lists nothing of it.
 */
static int enter_part(struct verify *v, char *path)
{
	size_t len = unit_above(path);
	int err;

	if (!len)
		return 0;
	path[len] = '\0';
	{
		__cleanup_fd int dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);

		err = dir < 0 ? -ENOENT : read_listing(v, path, dir);
		if (!err)
			listing_keep(v->listing, path + len + 1);
		if (!err && v->listing->nr) {
			v->below = len + 1;
			v->nr_unlisted = 0;
			check_listing(v, path, v->listing, dir);
		}
	}
	path[len] = '/';
	if (err)
		return err == -ENOENT ? 0 : err;
	if (v->listing->nr)
		return 1;
	drop_listing(v);
	return 0;
}

static void look_for_unlisted(struct verify *v, const FTSENT *at)
{
	struct verified f = {.path = at->fts_path, .verdict = FILE_UNLISTED};

	if (listing_has(v->listing, at->fts_path + v->below))
		return;
	f.size = S_ISREG(at->fts_statp->st_mode) ? (uint64_t)at->fts_statp->st_size : 0;
	f.mtime_ns = stat_mtime_ns(at->fts_statp);
	v->nr_unlisted++;
	report(v, &f);
}

/* --- directories --- */

static bool is_ours(const char *name)
{
	return !strcmp(name, FORMAT_DIR) || name_is_reserved(name);
}

static bool has_record(const char *path)
{
	return lgetxattr(path, DIGEST_XATTR, NULL, 0) >= 0;
}

static bool visit_dir(struct verify *v, FTS *walk, FTSENT *at)
{
	int entered = v->listing ? 0 : enter(v, at->fts_path, at->fts_accpath);

	if (entered < 0)
		fts_set(walk, at, FTS_SKIP);
	if (entered > 0)
		at->fts_number = 1;
	return entered;
}

/* One step of the walk. True if it met something to verify, or something in the way. */
static bool visit(struct verify *v, FTS *walk, FTSENT *at)
{
	bool top = at->fts_level == FTS_ROOTLEVEL;

	if (!top && is_ours(at->fts_name)) {
		fts_set(walk, at, FTS_SKIP);
		return false;
	}
	switch (at->fts_info) {
	case FTS_D:
		return visit_dir(v, walk, at);
	case FTS_DP:
		if (at->fts_number)
			leave(v, at->fts_path);
		return false;
	case FTS_F:
		if (v->listing)
			look_for_unlisted(v, at);
		else if (top || leftovers_is_checkpoint(at->fts_name) ||
			 has_record(at->fts_accpath))
			report_file(v, at->fts_path, at->fts_accpath);
		else
			return false;
		return true;
	case FTS_DNR:
	case FTS_ERR:
	case FTS_NS:
		report_unreadable(v, at->fts_path, strerror(at->fts_errno));
		if (at->fts_number) /* FTS_DP does not come */
			leave(v, at->fts_path);
		return true;
	case FTS_SL:
		if (v->listing)
			look_for_unlisted(v, at);
		return false;
	case FTS_SLNONE:
		report_unreadable(v, at->fts_path, strerror(ENOENT));
		return true;
	case FTS_DEFAULT:
		if (v->listing)
			look_for_unlisted(v, at);
		else if (top)
			report_unreadable(v, at->fts_path, "it is neither a file nor a directory");
		return top;
	default:
		return false;
	}
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
	return strcmp((*a)->fts_name, (*b)->fts_name);
}

static bool walk_path(struct verify *v, char *path)
{
	char *paths[] = {path, NULL};
	FTS *walk = fts_open(paths, FTS_PHYSICAL | FTS_COMFOLLOW, by_name);
	bool any = false;
	FTSENT *at;

	while (walk && (at = fts_read(walk)))
		if (visit(v, walk, at))
			any = true;
	if (!walk || errno) { /* at its end a walk leaves 0 */
		report_unreadable(v, path, strerror(errno));
		any = true;
	}
	if (walk)
		fts_close(walk);
	if (v->listing && !v->is_part) /* the walk was cut off */
		leave(v, path);
	return any;
}

bool verify_path(struct verify *v, char *path)
{
	__cleanup_free char *real = realpath(path, NULL);
	int part = real ? enter_part(v, real) : 0;
	char text[MESSAGE_MAX];

	if (part > 0) {
		v->is_part = true;
		walk_path(v, real);
		v->is_part = false;
		leave(v, real);
	}
	if (part || walk_path(v, path))
		return true;
	MESSAGE(text, VERIFY_NOTHING, path);
	v->complain(text);
	return false;
}

void verify_start(struct verify *v)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	v->threads = cpus < MIN_THREADS	  ? MIN_THREADS
		     : cpus > MAX_THREADS ? MAX_THREADS
					  : (unsigned)cpus;
	progress_start(&v->progress);
}

bool verify_is_ok(const struct verify *v)
{
	unsigned bad = 0, i;

	for (i = 0; i < NR_VERDICTS; i++)
		if (i != FILE_OK && i != FILE_UNLISTED)
			bad += v->nr[i];
	return !bad;
}
