/* SPDX-License-Identifier: MIT */
/* ckptfs verify: have files the content that they had when their digest was recorded? */
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <time.h>

#include "engine/base/cleanup.h"
#include "engine/content/digest.h"
#include "engine/engine.h"
#include "fs/cmd/cmd.h"

/* Storage wants several readers also where there are few processors. */
#define MIN_THREADS	 4
#define MAX_THREADS	 16
#define PROGRESS_FROM_NS (2 * NSEC_PER_SEC)
#define PROGRESS_EACH_NS (200 * NSEC_PER_MSEC)

enum outcome { FILE_OK, FILE_DAMAGED, FILE_CHANGED, NO_RECORD, UNREADABLE, NR_OUTCOMES };

static const struct {
	const char *word, *json;
} outcomes[NR_OUTCOMES] = {
	[FILE_OK] = {"ok", "ok"},
	[FILE_DAMAGED] = {"DAMAGED", "damaged"},
	[FILE_CHANGED] = {"changed since", "changed"},
	[NO_RECORD] = {"no record", "no_record"},
	[UNREADABLE] = {"unreadable", "unreadable"},
};

struct record {
	char hex[DIGEST_HEX]; /* "" for none */
	uint64_t size, mtime_ns;
};

/* What is found out about one file. */
struct file {
	const char *path;
	uint64_t size, mtime_ns;
	char hex[DIGEST_HEX]; /* "" where it was not read */
	struct record record;
	char message[MESSAGE_MAX]; /* "" where it is ok */
};

struct verify {
	json_t *list; /* of the files, for --json; or NULL */
	unsigned nr[NR_OUTCOMES];
	unsigned threads;
	bool nothing; /* a directory had no file for us */
	bool tty;     /* stderr is read by a person who waits */
	uint64_t started_ns;
	/* Progress; during the digest of a file it is the digest that serializes this. */
	const struct file *file;
	uint64_t file_started_ns, shown_ns; /* shown: 0 for not */
};

/* --- progress --- */

static void hide_progress(struct verify *v)
{
	if (v->shown_ns)
		fputs("\r\033[K", stderr);
	v->shown_ns = 0;
}

/* One line that is written over; of a long path its end. */
static void show_progress(void *arg, uint64_t bytes)
{
	struct verify *v = arg;
	uint64_t now = clock_mono_ns(), ms = (now - v->file_started_ns) / NSEC_PER_MSEC + 1;
	size_t len = strlen(v->file->path), shown = len < 40 ? len : 40;

	if (!v->tty || now - v->started_ns < PROGRESS_FROM_NS ||
	    now - v->shown_ns < PROGRESS_EACH_NS)
		return;
	v->shown_ns = now;
	fprintf(stderr, "\r\033[K%s%s: %" PRIu64 " %% of %" PRIu64 " MB, %" PRIu64 " MB/s",
		shown < len ? "..." : "", v->file->path + len - shown,
		(uint64_t)((double)bytes * 100 / (double)v->file->size), v->file->size / 1000000,
		bytes / 1000 / ms);
	fflush(stderr);
}

/* --- one file --- */

static ssize_t read_fd(void *arg, void *buf, size_t len, uint64_t off)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = pread(*(int *)arg, (char *)buf + done, len - done, (off_t)(off + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

static uint64_t mtime_ns(const struct stat *st)
{
	return (uint64_t)st->st_mtim.tv_sec * NSEC_PER_SEC + (uint64_t)st->st_mtim.tv_nsec;
}

static void print_time(char buf[64], uint64_t ns)
{
	time_t s = (time_t)(ns / NSEC_PER_SEC);
	struct tm tm;
	size_t len = localtime_r(&s, &tm) ? strftime(buf, 40, "%F %T", &tm) : 0;

	snprintf(buf + len, 64 - len, ".%09u", (unsigned)(ns % NSEC_PER_SEC));
}

static enum outcome changed(struct file *f, const char *how)
{
	MESSAGE(f->message, VERIFY_CHANGED, f->path, how, f->path);
	return FILE_CHANGED;
}

static enum outcome unreadable(struct file *f, const char *why)
{
	MESSAGE(f->message, VERIFY_UNREADABLE, f->path, why);
	return UNREADABLE;
}

/* In a mount: is it a save that has not got its name yet? */
static bool is_unpublished(int fd)
{
	char state[32];
	ssize_t len = fgetxattr(fd, "user.ckptfs.state", state, sizeof(state) - 1);

	if (len <= 0)
		return false;
	state[len] = '\0';
	return strcmp(state, "committed") != 0;
}

/* Reads the record of @f; FILE_OK: it is of the file as it is now. */
static enum outcome check_record(struct file *f, int fd)
{
	char text[DIGEST_RECORD_MAX], how[256], then[64], now[64];
	struct record *r = &f->record;
	ssize_t len = fgetxattr(fd, DIGEST_XATTR, text, sizeof(text));

	if (len < 0 && (errno == ENODATA || errno == EOPNOTSUPP)) {
		if (is_unpublished(fd))
			MESSAGE(f->message, VERIFY_UNPUBLISHED, f->path, f->path);
		else
			MESSAGE(f->message, VERIFY_NO_RECORD, f->path);
		return NO_RECORD;
	}
	if (len < 0 && errno != ERANGE)
		return unreadable(f, strerror(errno));
	if (len < 0 || digest_record_parse(text, (size_t)len, r->hex, &r->size, &r->mtime_ns)) {
		MESSAGE(f->message, VERIFY_BAD_RECORD, f->path, f->path);
		return NO_RECORD;
	}
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

static enum outcome check_content(struct verify *v, struct file *f, int fd)
{
	struct source src = {read_fd, &fd};
	struct stat st;
	int err;

	/* What counts is what the storage has, not what this host remembers of it. */
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	v->file = f;
	v->file_started_ns = clock_mono_ns();
	err = digest_of_source(&src, f->size, v->threads, show_progress, v, f->hex);
	if (!fstat(fd, &st) && ((uint64_t)st.st_size != f->size || mtime_ns(&st) != f->mtime_ns))
		return changed(f, "it was written to while it was read");
	if (err)
		return unreadable(f, strerror(-err));
	if (!strcmp(f->hex, f->record.hex))
		return FILE_OK;
	MESSAGE(f->message, VERIFY_DAMAGED, f->path, f->hex, f->record.hex);
	return FILE_DAMAGED;
}

/* @path is how it is reached from where we are, f->path how the user knows it. */
static enum outcome check_file(struct verify *v, struct file *f, const char *path)
{
	__cleanup_fd int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	enum outcome outcome;
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		return unreadable(f, strerror(errno));
	f->size = (uint64_t)st.st_size;
	f->mtime_ns = mtime_ns(&st);
	outcome = check_record(f, fd);
	return outcome == FILE_OK ? check_content(v, f, fd) : outcome;
}

static json_t *file_to_json(const struct file *f, enum outcome outcome)
{
	const struct record *r = &f->record;
	json_t *record = NULL;

	if (r->hex[0])
		record = json_pack("{s:s, s:I, s:I}", "xxh3", r->hex, "size", (json_int_t)r->size,
				   "mtime_ns", (json_int_t)r->mtime_ns);
	return json_pack("{s:o, s:s, s:I, s:I, s:s?, s:o?, s:o?}", "path", json_text(f->path),
			 "state", outcomes[outcome].json, "size", (json_int_t)f->size, "mtime_ns",
			 (json_int_t)f->mtime_ns, "xxh3", f->hex[0] ? f->hex : NULL, "record",
			 record, "message", f->message[0] ? json_text(f->message) : NULL);
}

static void report(struct verify *v, const struct file *f, enum outcome outcome)
{
	hide_progress(v);
	v->nr[outcome]++;
	if (v->list)
		json_array_append_new(v->list, file_to_json(f, outcome));
	else
		printf("%-13s %15" PRIu64 "  %s\n", outcomes[outcome].word, f->size, f->path);
	fflush(stdout);
	if (f->message[0])
		complain(f->message);
}

/* --- directories --- */

static bool is_ours(const char *name)
{
	return !strcmp(name, FORMAT_DIR) || !strncmp(name, FORMAT_DIR "-", strlen(FORMAT_DIR "-"));
}

static bool is_single_file(const char *name)
{
	static const char *const suffixes[] = {".pt", ".pth", ".ckpt", ".safetensors", ".keras"};
	const char *dot = strrchr(name, '.');
	size_t i;

	for (i = 0; dot && i < ARRAY_SIZE(suffixes); i++)
		if (!strcmp(dot, suffixes[i]))
			return true;
	return false;
}

static bool has_record(const char *path)
{
	return lgetxattr(path, DIGEST_XATTR, NULL, 0) >= 0;
}

/* One step of the walk. Returns whether it was about a file, or something in the way. */
static bool visit(struct verify *v, FTS *walk, FTSENT *at)
{
	struct file f = {.path = at->fts_path};
	bool top = at->fts_level == FTS_ROOTLEVEL;

	if (!top && is_ours(at->fts_name)) {
		fts_set(walk, at, FTS_SKIP);
		return false;
	}
	switch (at->fts_info) {
	case FTS_F:
		if (!top && !is_single_file(at->fts_name) && !has_record(at->fts_accpath))
			return false;
		report(v, &f, check_file(v, &f, at->fts_accpath));
		return true;
	case FTS_DNR:
	case FTS_ERR:
	case FTS_NS:
		report(v, &f, unreadable(&f, strerror(at->fts_errno)));
		return true;
	case FTS_SLNONE:
		report(v, &f, unreadable(&f, strerror(ENOENT)));
		return true;
	case FTS_DEFAULT:
		if (top)
			report(v, &f, unreadable(&f, "it is neither a file nor a directory"));
		return top;
	default:
		return false;
	}
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
	return strcmp((*a)->fts_name, (*b)->fts_name);
}

/* Links are followed only where the user named them. */
static void verify_path(struct verify *v, char *path)
{
	char *paths[] = {path, NULL}, text[MESSAGE_MAX];
	FTS *walk = fts_open(paths, FTS_PHYSICAL | FTS_COMFOLLOW, by_name);
	struct file f = {.path = path};
	bool any = false;
	FTSENT *at;

	while (walk && (at = fts_read(walk)))
		if (visit(v, walk, at))
			any = true;
	if (!walk || errno) { /* a walk that came to its end leaves 0 */
		report(v, &f, unreadable(&f, strerror(errno)));
		any = true;
	}
	if (walk)
		fts_close(walk);
	if (any)
		return;
	MESSAGE(text, VERIFY_NOTHING, path);
	complain(text);
	v->nothing = true;
}

/* --- the verb --- */

static void print_sum(const struct verify *v, unsigned nr)
{
	enum outcome o;

	printf("%u files:", nr);
	for (o = 0; o < NR_OUTCOMES; o++)
		if (v->nr[o] || o == FILE_OK)
			printf("%s %u %s", o == FILE_OK ? "" : ",", v->nr[o], outcomes[o].word);
	putchar('\n');
}

static int do_verify(struct verify *v, char **paths, int nr_paths)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	unsigned nr = 0;
	enum outcome o;
	bool ok;
	int i;

	v->threads = cpus < MIN_THREADS	  ? MIN_THREADS
		     : cpus > MAX_THREADS ? MAX_THREADS
					  : (unsigned)cpus;
	v->tty = isatty(STDERR_FILENO);
	v->started_ns = clock_mono_ns();
	for (i = 0; i < nr_paths; i++)
		verify_path(v, paths[i]);
	for (o = 0; o < NR_OUTCOMES; o++)
		nr += v->nr[o];
	ok = v->nr[FILE_OK] == nr && !v->nothing;
	if (v->list) {
		json_t *answer = json_pack("{s:b, s:O}", "ok", ok, "files", v->list);

		json_dumpf(answer, stdout, JSON_INDENT(2));
		putchar('\n');
		json_decref(answer);
	} else if (nr > 1) {
		print_sum(v, nr);
	}
	return ok ? EXIT_DONE : EXIT_NO;
}

static int run_verify(const struct verb *v, int argc, char **argv)
{
	static const struct option longs[] = {{"help", no_argument, NULL, 'h'},
					      {"json", no_argument, NULL, 'j'},
					      {NULL, 0, NULL, 0}};
	struct verify verify = {0};
	bool json = false;
	int c, status;

	while ((c = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
		if (c == 'h')
			return verb_help(v);
		if (c != 'j')
			return usage_error(v, "cannot use these options");
		json = true;
	}
	if (optind == argc)
		return usage_error(v, "give files or directories");
	verify.list = json ? json_array() : NULL;
	status = do_verify(&verify, argv + optind, argc - optind);
	json_decref(verify.list);
	return status;
}

const struct verb verb_verify = {
	.name = "verify",
	.args = "[--json] PATH...",
	.summary = "whether files still have the content that was saved",
	.help = "Reads each file and compares its digest with the one recorded when it was saved, "
		"in the\n"
		"extended attribute " DIGEST_XATTR ". PATH is a file, or a directory: then of all "
		"below\n"
		"it that have a record or the name of a checkpoint file (*.pt *.pth *.ckpt\n"
		"*.safetensors *.keras). It may lie in a mount, or anywhere; in a mount,\n"
		"what is still cached is read from memory: to check the storage, give the path on "
		"the\n"
		"backing. Each is one of\n"
		"\n"
		"  ok                   the content that was saved\n"
		"  DAMAGED              another, although nobody wrote to it since\n"
		"  changed since        its size or time of change is another: nothing is known\n"
		"  no record            nothing is known\n"
		"  unreadable           it could not be read\n"
		"\n"
		"Exit 0 if all are ok, else 1.\n"
		"\n"
		"  --json               for machines\n",
	.run = run_verify,
};
