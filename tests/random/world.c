/* SPDX-License-Identifier: MIT */
/* Both sides together: run an op on each, compare all that came back. */
#include "randops.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int side_start(struct side *s, const struct config *cfg, const char *sub, int index)
{
	int err, i;

	s->index = index;
	if ((size_t)snprintf(s->root, sizeof(s->root), "%s/%s", cfg->dir[index], sub) >=
	    sizeof(s->root))
		return -ENAMETOOLONG;
	for (i = 0; i < NR_SLOTS; i++)
		s->slots[i].fd = -1;
	s->rootfd = -1;
	s->sticky_mtime = has_feat(cfg, FEAT_STICKY_MTIME);
	s->dir_nlink = has_feat(cfg, FEAT_DIR_NLINK);
	if (!s->buf) {
		s->buf = mmap(NULL, MAX_IO + 4 * PAGE, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (s->buf == MAP_FAILED)
			die("out of memory (I/O buffer)");
	}
	err = remove_tree(AT_FDCWD, s->root);
	if (err)
		return err;
	if (mkdir(s->root, 0755))
		return -errno;
	s->rootfd = open(s->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return s->rootfd < 0 ? -errno : 0;
}

int world_start(struct world *w, const struct config *cfg, const char *sub)
{
	int err = 0, i;

	memset(w, 0, sizeof(*w));
	w->cfg = cfg;
	snprintf(w->sub, sizeof(w->sub), "%s", sub);
	for (i = 0; i < 2 && !err; i++)
		err = side_start(&w->side[i], cfg, sub, i);
	if (err)
		say("cannot set up %s: %s", w->side[i - 1].root, strerror(-err));
	return err;
}

static void side_end(struct side *s, bool remove)
{
	int err, i;

	for (i = 0; i < NR_SLOTS; i++) {
		if (s->slots[i].fd >= 0)
			close(s->slots[i].fd);
		s->slots[i].fd = -1;
	}
	if (s->rootfd >= 0)
		close(s->rootfd);
	err = remove ? remove_tree(AT_FDCWD, s->root) : 0;
	if (err)
		say("note: cannot remove %s: %s", s->root, strerror(-err));
	munmap(s->buf, MAX_IO + 4 * PAGE);
	s->buf = NULL;
}

void world_end(struct world *w, bool remove)
{
	side_end(&w->side[0], remove);
	side_end(&w->side[1], remove);
}

/* Is what this path names open in a slot of B? */
static bool path_open(const struct world *w, const struct path *p)
{
	const struct side *b = &w->side[1];
	char name[NAME_TEXT_MAX];
	struct stat st, open_st;
	int i;

	path_real(p, name);
	if (fstatat(b->rootfd, name, &st, AT_SYMLINK_NOFOLLOW))
		return false;
	for (i = 0; i < NR_SLOTS; i++) {
		if (b->slots[i].fd >= 0 && !fstat(b->slots[i].fd, &open_st) &&
		    open_st.st_ino == st.st_ino && open_st.st_dev == st.st_dev)
			return true;
	}
	return false;
}

static int64_t write_end(const struct side *b, const struct op *op)
{
	const struct slot *slot = &b->slots[op->slot];
	struct stat st;

	if (slot->fd < 0 || slot->dir)
		return 0;
	if (slot->flags & O_APPEND)
		return fstat(slot->fd, &st) ? 0 : st.st_size + op->len + PAGE;
	if (op->kind == OP_PWRITE || slot->flags & O_DIRECT)
		return op->off + op->len;
	return lseek(slot->fd, 0, SEEK_CUR) + op->len;
}

/*
 * Ops that a rule of the run forbids now. Asked of B alone and before either
 * side has run the op, so that both sides skip alike, replayed or not.
 */
static bool op_forbidden(const struct world *w, const struct op *op)
{
	bool open_ok = has_feat(w->cfg, FEAT_UNLINK_OPEN);

	switch (op->kind) {
	case OP_WRITE:
	case OP_PWRITE:
	case OP_WRITEV:
		return write_end(&w->side[1], op) > w->cfg->max_size + PAGE;
	case OP_UNLINK:
	case OP_RMDIR:
		return !open_ok && path_open(w, &op->path);
	case OP_RENAME:
		return !open_ok && path_open(w, &op->path2);
	default:
		return false;
	}
}

static void diff_number(struct diff *d, const char *what, int64_t expected, int64_t got)
{
	char e[64], g[64];

	snprintf(e, sizeof(e), "%lld", (long long)expected);
	snprintf(g, sizeof(g), "%lld", (long long)got);
	diff_set(d, what, e, g);
}

static void diff_answer(struct diff *d, const struct result *b, const struct result *a)
{
	char text[2][128];
	const struct result *r[2] = {b, a};
	int i;

	for (i = 0; i < 2; i++) {
		if (r[i]->err)
			snprintf(text[i], sizeof(text[i]), "%s (errno %d)", strerror(r[i]->err),
				 r[i]->err);
		else
			snprintf(text[i], sizeof(text[i]), "success, %lld", (long long)r[i]->ret);
	}
	diff_set(d, "answer", text[0], text[1]);
}

static void diff_data(struct diff *d, const struct op *op, const struct result *b,
		      const struct result *a)
{
	char what[128];
	size_t i, at = 0, bad = 0;

	for (i = 0; i < b->len; i++) {
		if (a->data[i] == b->data[i])
			continue;
		at = bad++ ? at : i;
	}
	snprintf(what, sizeof(what),
		 "data: %zu of %zu bytes differ, the first at %zu of the "
		 "answer (offset given + that: %lld)",
		 bad, b->len, at, (long long)op->off + (long long)at);
	diff_number(d, what, b->data[at], a->data[at]);
}

static void result_compare(const struct op *op, const struct result *b, const struct result *a,
			   struct diff *d)
{
	char e[1024], g[1024];
	int i;

	if (a->ret != b->ret || a->err != b->err) {
		diff_answer(d, b, a);
		return;
	}
	if (b->text && (a->len != b->len || (b->len && memcmp(a->data, b->data, b->len)))) {
		snprintf(e, sizeof(e), "%.*s", (int)b->len, b->data);
		snprintf(g, sizeof(g), "%.*s", (int)a->len, a->data);
		diff_set(d, "names listed", e, g);
		return;
	}
	if (a->len != b->len) {
		diff_number(d, "bytes of data", b->len, a->len);
		return;
	}
	if (b->len && memcmp(a->data, b->data, b->len)) {
		diff_data(d, op, b, a);
		return;
	}
	for (i = 0; i < b->nr_fields && i < a->nr_fields; i++) {
		if (a->fields[i].value != b->fields[i].value) {
			diff_number(d, b->fields[i].name, b->fields[i].value, a->fields[i].value);
			return;
		}
	}
	if (a->nr_fields != b->nr_fields)
		diff_number(d, "number of things to compare", b->nr_fields, a->nr_fields);
}

bool world_step(struct world *w, const struct op *op, struct diff *d)
{
	struct result r[2];

	w->stats[op->kind].tried++;
	if (op->kind == OP_CHECK) {
		tree_compare(w->side[0].root, w->side[1].root, w->cfg, d);
		return !d->found;
	}
	if (op_forbidden(w, op))
		return true;
	side_exec(&w->side[1], op, &r[1]);
	side_exec(&w->side[0], op, &r[0]);
	if (r[1].err == ENOSPC || r[1].err == EDQUOT || r[1].err == EIO) {
		diff_set(d, "the reference directory fails", strerror(r[1].err), "");
		d->environment = true;
		return false;
	}
	w->stats[op->kind].failed += r[1].ret < 0;
	w->stats[op->kind].idle += !r[1].nr_fields;
	result_compare(op, &r[1], &r[0], d);
	return !d->found;
}

bool world_run(struct world *w, const struct trace *t, struct diff *d)
{
	size_t i;

	for (i = 0; i < t->nr; i++) {
		d->op = i;
		watchdog_tick(&t->ops[i], i);
		if (!world_step(w, &t->ops[i], d))
			return false;
	}
	return true;
}

void world_stats(const struct world *w)
{
	int i;

	say("%-14s %8s %8s %8s", "operation", "tried", "error", "idle");
	for (i = 0; i < NR_KINDS; i++)
		say("%-14s %8lu %8lu %8lu", op_name(i), w->stats[i].tried, w->stats[i].failed,
		    w->stats[i].idle);
}

void diff_report(const struct diff *d, const struct trace *t)
{
	char text[OP_TEXT_MAX];

	op_print(&t->ops[d->op], text);
	say("DIFFERENCE at op %zu: %s", d->op + 1, text);
	say("  what:         %s", d->what);
	say("  expected (B): %s", d->expected);
	say("  got (A):      %s", d->got);
}

/* The watchdog: an operation that never returns must still be named. */

static _Atomic size_t watch_nr;
static char watch_text[OP_TEXT_MAX];
static pthread_mutex_t watch_lock = PTHREAD_MUTEX_INITIALIZER;

static void *watchdog(void *arg)
{
	unsigned int limit = *(unsigned int *)arg, quiet = 0;
	size_t last = 0;

	for (;;) {
		sleep(1);
		quiet = watch_nr == last ? quiet + 1 : 0;
		last = watch_nr;
		if (quiet < limit)
			continue;
		pthread_mutex_lock(&watch_lock);
		say("STUCK: no answer for %u s: %s", limit, watch_text);
		_exit(3);
	}
	return NULL;
}

void watchdog_start(unsigned int seconds)
{
	static unsigned int limit;
	pthread_t thread;

	limit = seconds;
	if (limit && !pthread_create(&thread, NULL, watchdog, &limit))
		pthread_detach(thread);
}

void watchdog_tick(const struct op *op, size_t nr)
{
	char text[OP_TEXT_MAX], *line = watch_text;

	op_print(op, text);
	pthread_mutex_lock(&watch_lock);
	snprintf(line, sizeof(watch_text), "op %zu: %.*s", nr + 1, (int)sizeof(watch_text) - 32,
		 text);
	pthread_mutex_unlock(&watch_lock);
	watch_nr++;
}
