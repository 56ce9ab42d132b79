/* SPDX-License-Identifier: MIT */
#include "fs/listing.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/lock.h"
#include "engine/base/source.h"
#include "engine/content/digest.h"
#include "fs/record.h"
#include "fs/show.h"

/* All threads together read a larger file, one file at a time. A smaller one gets one thread. */
#define LARGE_BYTES (8 * DIGEST_PIECE)
#define MAX_THREADS 64

/* --- what is listed --- */

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct listed *)a)->path, ((const struct listed *)b)->path);
}

static struct listed *find(const struct listing *l, size_t nr, const char *path)
{
	struct listed key = {.path = (char *)path};

	return nr ? bsearch(&key, l->list, nr, sizeof(key), by_path) : NULL;
}

bool listing_has(const struct listing *l, const char *path)
{
	return find(l, l->nr, path);
}

static struct listed *append(struct listing *l, const char *path)
{
	struct listed *f;

	if (l->nr == l->room) {
		size_t room = l->room ? 2 * l->room : 64;
		struct listed *list = reallocarray(l->list, room, sizeof(*list));

		if (!list)
			return NULL;
		l->list = list;
		l->room = room;
	}
	f = &l->list[l->nr];
	*f = (struct listed){.path = strdup(path)};
	if (!f->path)
		return NULL;
	l->nr++;
	return f;
}

struct taking {
	struct listing *l;
	size_t nr_old; /* entries of the commit file; those that only the pending one has follow */
	int which;
};

static int take(void *arg, const struct commit_entry *entry)
{
	struct taking *t = arg;
	struct listed *f = t->which ? find(t->l, t->nr_old, entry->path) : NULL;
	struct wanted *w;

	if (!f)
		f = append(t->l, entry->path);
	if (!f)
		return -ENOMEM;
	w = &f->by[t->which];
	w->listed = true;
	w->kind = entry->kind;
	w->size = entry->size;
	memcpy(w->xxh3, entry->xxh3, sizeof(w->xxh3));
	if (entry->kind != COMMIT_IS_SYMLINK)
		return 0;
	w->target = strdup(entry->target);
	return w->target ? 0 : -ENOMEM;
}

/* Takes a file's entries only if it is valid to its end. -ENOENT: there is none. */
static int read_one(struct taking *t, int dir, const char *path, const char *name,
		    struct commit_header *header, struct error *e)
{
	__cleanup_fd int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct source src = source_of_fd(&fd);
	__cleanup_free char *full = NULL;
	int err;

	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
		return -ENOENT;
	if (asprintf(&full, "%s/%s", path, name) < 0) {
		full = NULL;
		return FAIL(e, ENOMEM, COMMIT_UNREADABLE, path, strerror(ENOMEM));
	}
	if (fd < 0)
		return FAIL(e, errno, COMMIT_UNREADABLE, full, strerror(errno));
	err = commit_read(&src, full, header, NULL, NULL, e);
	if (err)
		return err;
	e->err = 0;
	err = commit_read(&src, full, header, take, t, e);
	if (err == -ENOMEM && !e->err)
		FAIL(e, ENOMEM, COMMIT_UNREADABLE, full, strerror(ENOMEM));
	return err;
}

static void add_up(struct listing *l)
{
	size_t i;

	l->bytes = 0;
	for (i = 0; i < l->nr; i++) {
		const struct wanted *w = &l->list[i].by[0];

		if (w->listed && w->kind == COMMIT_IS_FILE)
			l->bytes += w->size;
	}
}

int listing_read(struct listing *l, int dir, const char *path, struct error *e)
{
	struct taking t = {.l = l};
	struct commit_header next;
	struct error torn;
	int err;

	memset(l, 0, sizeof(*l));
	err = read_one(&t, dir, path, COMMIT_FILE, &l->header, e);
	if (err)
		return err;
	l->newest_ns = l->header.committed_ns;
	t.nr_old = l->nr;
	t.which = 1;
	err = read_one(&t, dir, path, COMMIT_PENDING, &next, &torn);
	if (err == -EBADMSG) {
		l->torn = true;
	} else if (err && err != -ENOENT) {
		*e = torn;
		return err;
	} else if (!err) {
		l->pending = true;
		if (next.committed_ns > l->newest_ns)
			l->newest_ns = next.committed_ns;
		qsort(l->list, l->nr, sizeof(*l->list), by_path);
	}
	add_up(l);
	return 0;
}

static void forget(struct listed *f)
{
	free(f->path);
	free(f->by[0].target);
	free(f->by[1].target);
	free(f->message);
}

void listing_keep(struct listing *l, const char *path)
{
	size_t len = strlen(path), i, nr = 0;

	for (i = 0; i < l->nr; i++) {
		const char *name = l->list[i].path;

		if (!strncmp(name, path, len) && (!name[len] || name[len] == '/'))
			l->list[nr++] = l->list[i];
		else
			forget(&l->list[i]);
	}
	l->nr = nr;
	add_up(l);
}

void listing_finish(struct listing *l)
{
	while (l->nr)
		forget(&l->list[--l->nr]);
	free(l->list);
}

/* --- one name --- */

struct check {
	struct listing *l;
	int dir;
	const char *path; /* of the directory */
	unsigned threads;
	void (*progress)(void *arg, uint64_t bytes);
	void *arg;
	struct lock lock; /* all below */
	size_t next;
	uint64_t done;
	bool no_memory;
};

/* Opens the parent of @path's last component; *@name points to that component. Or -errno. */
static int open_parent(int dir, const char *path, const char **name)
{
	int fd = fcntl(dir, F_DUPFD_CLOEXEC, 0);

	for (;;) {
		size_t len = strcspn(path, "/");
		char part[NAME_MAX + 1];
		int next;

		*name = path;
		if (fd < 0 || !path[len])
			return fd < 0 ? -errno : fd;
		memcpy(part, path, len); /* commit_path_problem has checked its length */
		part[len] = '\0';
		next = openat(fd, part, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		close(fd);
		fd = next;
		path += len + 1;
	}
}

static enum verdict changed(struct error *e, const char *path, const char *how)
{
	FAIL(e, EILSEQ, VERIFY_UNIT_CHANGED, path, how);
	return FILE_CHANGED;
}

static enum verdict unreadable(struct error *e, const char *path, int err)
{
	FAIL(e, err, VERIFY_UNREADABLE, path, strerror(err));
	return FILE_UNREADABLE;
}

static enum verdict check_link(const struct listed *f, int parent, const char *name,
			       const char *path, struct error *e)
{
	char target[PATH_MAX];
	ssize_t len = readlinkat(parent, name, target, sizeof(target) - 1);
	int i;

	if (len < 0)
		return unreadable(e, path, errno);
	target[len] = '\0';
	for (i = 0; i < 2; i++)
		if (f->by[i].listed && !strcmp(f->by[i].target, target))
			return FILE_OK;
	return changed(e, path, "it is a symbolic link to another place");
}

/* Judges other content of the right size. */
static enum verdict judge_content(const struct check *c, const char *path, const char *hex,
				  const char *wanted, const struct stat *st, struct error *e)
{
	char how[256], when[SHOW_MAX];

	if (stat_mtime_ns(st) <= c->l->newest_ns) {
		FAIL(e, EILSEQ, VERIFY_DAMAGED, path, hex, wanted);
		return FILE_DAMAGED;
	}
	show_age(when, (double)(stat_mtime_ns(st) - c->l->newest_ns) / NSEC_PER_SEC);
	snprintf(how, sizeof(how),
		 "it was last written %s after the commit, its content has the digest %s and had "
		 "%s",
		 when, hex, wanted);
	return changed(e, path, how);
}

static enum verdict check_file(const struct check *c, const struct listed *f, int parent,
			       const char *name, const char *path, unsigned threads,
			       void (*progress)(void *arg, uint64_t bytes), void *arg,
			       struct error *e)
{
	__cleanup_fd int fd = openat(parent, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct source src = source_of_fd(&fd);
	const char *wanted = NULL;
	char hex[COMMIT_HEX], how[128];
	struct stat st, after;
	int err, i;

	if (fd < 0 || fstat(fd, &st))
		return unreadable(e, path, errno);
	for (i = 0; i < 2; i++)
		if (f->by[i].listed && f->by[i].kind == COMMIT_IS_FILE &&
		    f->by[i].size == (uint64_t)st.st_size)
			wanted = f->by[i].xxh3;
	if (!wanted) {
		snprintf(how, sizeof(how), "it has %" PRIu64 " bytes now and had %" PRIu64,
			 (uint64_t)st.st_size, f->by[f->by[0].listed ? 0 : 1].size);
		return changed(e, path, how);
	}
	if (c->l->structure_only)
		return FILE_OK;
	/* What the storage has counts, not what this host remembers of it. */
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	err = digest_of_source(&src, (uint64_t)st.st_size, threads, progress, arg, hex);
	if (!fstat(fd, &after) &&
	    (after.st_size != st.st_size || stat_mtime_ns(&after) != stat_mtime_ns(&st)))
		return changed(e, path, "it was written to while it was read");
	if (err)
		return unreadable(e, path, -err);
	for (i = 0; i < 2; i++)
		if (f->by[i].listed && f->by[i].kind == COMMIT_IS_FILE &&
		    f->by[i].size == (uint64_t)st.st_size && !strcmp(f->by[i].xxh3, hex))
			return FILE_OK;
	return judge_content(c, path, hex, wanted, &st, e);
}

static bool may_be(const struct listed *f, enum commit_kind kind)
{
	return (f->by[0].listed && f->by[0].kind == kind) ||
	       (f->by[1].listed && f->by[1].kind == kind);
}

static enum verdict check_name(const struct check *c, struct listed *f, const char *path,
			       unsigned threads, void (*progress)(void *arg, uint64_t bytes),
			       void *arg, struct error *e)
{
	const char *name;
	__cleanup_fd int parent = open_parent(c->dir, f->path, &name);
	struct stat st;
	int err = 0;

	if (parent < 0)
		err = -parent;
	else if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW))
		err = errno;
	if (err == ENOENT || err == ENOTDIR || err == ELOOP) {
		if (c->l->pending && !(f->by[0].listed && f->by[1].listed))
			return FILE_OK; /* not made yet, or removed already */
		FAIL(e, EILSEQ, VERIFY_UNIT_MISSING, path, c->path);
		return FILE_MISSING;
	}
	if (err)
		return unreadable(e, path, err);
	f->size = S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
	if (S_ISLNK(st.st_mode) && may_be(f, COMMIT_IS_SYMLINK))
		return check_link(f, parent, name, path, e);
	if (S_ISREG(st.st_mode) && may_be(f, COMMIT_IS_FILE))
		return check_file(c, f, parent, name, path, threads, progress, arg, e);
	if (S_ISDIR(st.st_mode) && may_be(f, COMMIT_IS_DIRECTORY))
		return FILE_OK;
	return changed(e, path, "it is another kind of file now");
}

static void no_memory(struct check *c)
{
	LOCK_SCOPE(&c->lock);

	c->no_memory = true;
}

static void check_one(struct check *c, struct listed *f, unsigned threads,
		      void (*progress)(void *arg, uint64_t bytes), void *arg)
{
	struct error e = {0};
	char *path;

	if (asprintf(&path, "%s/%s", c->path, f->path) < 0) {
		no_memory(c);
		return;
	}
	f->verdict = check_name(c, f, path, threads, progress, arg, &e);
	free(path);
	if (e.err)
		f->message = strdup(e.text);
	if (e.err && !f->message)
		no_memory(c);
}

/* --- all names --- */

static bool is_large(const struct listed *f)
{
	return (f->by[0].listed && f->by[0].size > LARGE_BYTES) ||
	       (f->by[1].listed && f->by[1].size > LARGE_BYTES);
}

/* While all threads read one large file; no other call runs then. */
static void large_progress(void *arg, uint64_t bytes)
{
	struct check *c = arg;

	c->progress(c->arg, c->done + bytes);
}

static void check_large(struct check *c)
{
	size_t i;

	for (i = 0; i < c->l->nr; i++) {
		if (!is_large(&c->l->list[i]))
			continue;
		check_one(c, &c->l->list[i], c->threads, large_progress, c);
		c->done += c->l->list[i].size;
	}
}

static struct listed *next_small(struct check *c)
{
	LOCK_SCOPE(&c->lock);

	while (c->next < c->l->nr && is_large(&c->l->list[c->next]))
		c->next++;
	return c->next < c->l->nr ? &c->l->list[c->next++] : NULL;
}

static void *check_small(void *arg)
{
	struct check *c = arg;
	struct listed *f;

	while ((f = next_small(c))) {
		check_one(c, f, 1, NULL, NULL);
		LOCK_SCOPE(&c->lock);
		c->done += f->size;
		c->progress(c->arg, c->done);
	}
	return NULL;
}

int listing_verify(struct listing *l, int dir, const char *path, unsigned threads,
		   void (*progress)(void *arg, uint64_t bytes), void *arg)
{
	struct check c = {.l = l,
			  .dir = dir,
			  .path = path,
			  .threads = threads,
			  .progress = progress,
			  .arg = arg,
			  .lock = LOCK_INIT(LOCK_DIGEST)};
	pthread_t ids[MAX_THREADS];
	unsigned nr = 0;

	check_large(&c);
	/* The calling thread is one of them. */
	while (nr + 1 < threads && nr < MAX_THREADS && nr < l->nr &&
	       !pthread_create(&ids[nr], NULL, check_small, &c))
		nr++;
	check_small(&c);
	while (nr)
		pthread_join(ids[--nr], NULL);
	return c.no_memory ? -ENOMEM : 0;
}
