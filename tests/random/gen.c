/* SPDX-License-Identifier: MIT */
/*
 * Picks the next op. It looks at side B to make ops that mostly hit
 * something (an open slot, the middle of a file), but whatever it picks is
 * written down in the op: nothing is decided when the op is run again.
 */
#include "randops.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <string.h>
#include <sys/file.h>
#include <sys/xattr.h>
#include <unistd.h>

void gen_init(struct gen *g, uint64_t seed)
{
	memset(g, 0, sizeof(*g));
	g->rng.state = seed * 0x2545f4914f6cdd1dULL + 1;
}

static uint64_t below(struct gen *g, uint64_t limit)
{
	return rng_below(&g->rng, limit);
}

static bool chance(struct gen *g, unsigned int percent)
{
	return rng_chance(&g->rng, percent);
}

static struct path dir_path(struct gen *g)
{
	struct path p = {0};

	while (p.n < PATH_DEPTH - 1 && chance(g, 45))
		p.c[p.n++] = below(g, NR_DIR_NAMES);
	return p;
}

static struct path new_path(struct gen *g, const struct config *cfg)
{
	struct path p = dir_path(g);

	p.c[p.n++] = name_pick(&g->rng, has_feat(cfg, FEAT_LONG_NAME),
			       has_feat(cfg, FEAT_ODD_NAMES), has_feat(cfg, FEAT_TOOLONG_NAME));
	return p;
}

static void remember(struct gen *g, const struct path *p)
{
	unsigned int max = sizeof(g->recent) / sizeof(g->recent[0]);
	unsigned int at = g->nr_recent < max ? g->nr_recent++ : below(g, max);

	g->recent[at] = *p;
}

enum want { ANYTHING, A_DIR, A_FILE };

static bool path_is(const struct world *w, const struct path *p, enum want want)
{
	char name[NAME_TEXT_MAX];
	struct stat st;

	path_real(p, name);
	return !fstatat(w->side[1].rootfd, name, &st, 0) &&
	       (want != A_DIR || S_ISDIR(st.st_mode)) && (want != A_FILE || S_ISREG(st.st_mode));
}

/* Mostly one that exists: that was made before, and is still there. */
static struct path a_path(struct gen *g, const struct world *w, enum want want)
{
	struct path p = new_path(g, w->cfg);
	int tries;

	for (tries = 0; tries < 12; tries++) {
		if (path_is(w, &p, want))
			break;
		p = g->nr_recent && chance(g, 80) ? g->recent[below(g, g->nr_recent)]
						  : new_path(g, w->cfg);
	}
	return p;
}

/* Mostly one with a directory to make it in. */
static struct path fresh_path(struct gen *g, const struct world *w)
{
	struct path p = new_path(g, w->cfg), parent;
	int tries;

	for (tries = 0; tries < 4; tries++) {
		parent = p;
		parent.n--;
		if (path_is(w, &parent, A_DIR))
			break;
		p = new_path(g, w->cfg);
	}
	return p;
}

static struct path any_dir(struct gen *g, const struct world *w)
{
	struct path p = dir_path(g);
	int tries;

	for (tries = 0; tries < 4 && !path_is(w, &p, A_DIR); tries++)
		p = chance(g, 80) ? dir_path(g) : a_path(g, w, ANYTHING);
	return p;
}

/* An open slot if there is one, preferring files. */
static int any_slot(struct gen *g, const struct side *b)
{
	int tries, slot = 0;

	for (tries = 0; tries < 12; tries++) {
		slot = below(g, NR_SLOTS);
		if (b->slots[slot].fd >= 0 && (!b->slots[slot].dir || chance(g, 10)))
			break;
	}
	return slot;
}

static int64_t slot_size(const struct side *b, int slot)
{
	struct stat st;

	if (b->slots[slot].fd < 0 || fstat(b->slots[slot].fd, &st))
		return 0;
	return st.st_size;
}

/* Small ones most of the time, round ones often, big ones now and then. */
static int64_t any_len(struct gen *g, int64_t max)
{
	static const int64_t round[] = {512, 4096, 8192, 65536, 131072, 262144};
	unsigned int roll = below(g, 100);
	int64_t len;

	if (roll < 15)
		len = 1 + below(g, 64);
	else if (roll < 55)
		len = 1 + below(g, 20000);
	else if (roll < 75)
		len = round[below(g, 6)] + (chance(g, 30) ? (int64_t)below(g, 3) - 1 : 0);
	else if (roll < 97)
		len = 1 + below(g, 200000);
	else
		len = 1 + below(g, MAX_IO);
	return len > max ? 1 + len % max : len;
}

/* Near what the file has, page boundaries included; up to max. */
static int64_t any_off(struct gen *g, int64_t size, int64_t max)
{
	unsigned int roll = below(g, 100);
	int64_t off;

	if (roll < 10)
		off = 0;
	else if (roll < 30)
		off = size;
	else if (roll < 70)
		off = below(g, size + 1);
	else if (roll < 85)
		off = below(g, size / PAGE + 2) * PAGE;
	else
		off = size + below(g, roll < 97 ? 100000 : max);
	return off > max ? off % max : off;
}

static int any_align(struct gen *g)
{
	return chance(g, 40) ? 0 : below(g, PAGE);
}

static void gen_open(struct gen *g, const struct world *w, struct op *op)
{
	static const int acc[] = {O_RDONLY, O_WRONLY, O_RDWR, O_RDWR, O_RDWR};
	static const int modes[] = {0644, 0644, 0644, 0600, 0666, 0755, 0444, 0};
	const struct config *cfg = w->cfg;

	op->path = chance(g, 50) ? a_path(g, w, A_FILE) : fresh_path(g, w);
	op->slot = below(g, NR_SLOTS);
	op->mode = modes[below(g, 8)];
	op->flags = acc[below(g, 5)];
	if (op->flags == O_WRONLY && !has_feat(cfg, FEAT_WRITE_ONLY))
		op->flags = O_RDWR;
	if (chance(g, 60))
		op->flags |= O_CREAT | (chance(g, 10) ? O_EXCL : 0);
	if (op->flags & O_ACCMODE && chance(g, 15))
		op->flags |= O_TRUNC;
	if (op->flags & O_ACCMODE && has_feat(cfg, FEAT_APPEND) && chance(g, 15))
		op->flags |= O_APPEND;
	else if (has_feat(cfg, FEAT_DIRECT) && chance(g, 12))
		op->flags |= O_DIRECT;
	if (has_feat(cfg, FEAT_SYNC_FLAGS) && chance(g, 5))
		op->flags |= chance(g, 50) ? O_SYNC : O_DSYNC;
	if (chance(g, 5))
		op->flags |= O_NOFOLLOW;
	if (op->flags & O_CREAT)
		remember(g, &op->path);
	else if (chance(g, 5))
		op->flags = O_RDONLY | O_DIRECTORY;
}

static void gen_falloc(struct gen *g, const struct config *cfg, struct op *op)
{
	int modes[4] = {0}, nr = 1;

	if (has_feat(cfg, FEAT_FALLOC_KEEP))
		modes[nr++] = FALLOC_FL_KEEP_SIZE;
	if (has_feat(cfg, FEAT_FALLOC_PUNCH))
		modes[nr++] = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
	if (has_feat(cfg, FEAT_FALLOC_ZERO))
		modes[nr++] = FALLOC_FL_ZERO_RANGE | (chance(g, 50) ? FALLOC_FL_KEEP_SIZE : 0);
	op->flags = modes[below(g, nr)];
}

static void gen_slot_op(struct gen *g, const struct world *w, struct op *op)
{
	static const int whence[] = {SEEK_SET, SEEK_SET, SEEK_CUR, SEEK_END};
	static const int locks[] = {LOCK_SH, LOCK_EX, LOCK_UN};
	const struct side *b = &w->side[1];
	int64_t max = w->cfg->max_size, size;

	op->slot = any_slot(g, b);
	op->slot2 = any_slot(g, b);
	size = slot_size(b, op->slot);
	op->len = any_len(g, max / 2 < MAX_IO ? max / 2 : MAX_IO);
	op->off = any_off(g, size, max - op->len);
	op->off2 = any_off(g, slot_size(b, op->slot2), max - op->len);
	op->align = any_align(g);
	op->seed = below(g, 1000000);
	op->n = 1 + below(g, 8);
	op->mode = chance(g, 80) ? 0600 | below(g, 0200) : 0;
	switch (op->kind) {
	case OP_LSEEK:
		op->flags = whence[below(g, 4)];
		if (op->flags != SEEK_SET)
			op->off = (int64_t)below(g, 20000) - 10000;
		break;
	case OP_HOLE:
		op->flags = chance(g, 50) ? SEEK_HOLE : SEEK_DATA;
		break;
	case OP_FTRUNCATE:
		op->len = any_off(g, size, max);
		break;
	case OP_FALLOCATE:
		gen_falloc(g, w->cfg, op);
		break;
	case OP_MMAP_PRIVATE:
		op->n = below(g, 2);
		break;
	case OP_MMAP_SHARED:
		op->flags = below(g, 3); /* nothing, MM_SYNC, MM_ASYNC */
		break;
	case OP_FSYNC:
		op->flags = below(g, 2);
		break;
	case OP_FLOCK:
		op->flags = locks[below(g, 3)];
		break;
	default:
		break;
	}
}

static void gen_utimens(struct gen *g, struct op *op)
{
	op->off = 1 + below(g, 999999999);
	op->len = 1 + below(g, 999999999);
	op->n = below(g, 1000000000);
	if (chance(g, 15))
		op->flags |= chance(g, 50) ? UT_ATIME_NOW : UT_ATIME_OMIT;
	if (chance(g, 15))
		op->flags |= chance(g, 50) ? UT_MTIME_NOW : UT_MTIME_OMIT;
	if (chance(g, 15))
		op->flags |= UT_NOFOLLOW;
}

static void gen_rename(struct gen *g, const struct config *cfg, struct op *op)
{
	if (has_feat(cfg, FEAT_NOREPLACE) && chance(g, 12))
		op->flags = RENAME_NOREPLACE;
	else if (has_feat(cfg, FEAT_EXCHANGE) && chance(g, 15))
		op->flags = RENAME_EXCHANGE;
}

static void gen_path_op(struct gen *g, const struct world *w, struct op *op)
{
	const struct config *cfg = w->cfg;

	op->path = a_path(g, w, chance(g, 65) ? A_FILE : ANYTHING);
	op->path2 = a_path(g, w, ANYTHING);
	op->n = below(g, NR_XATTR_NAMES);
	op->mode = chance(g, 80) ? 0700 | below(g, 0100) : 0600;
	op->seed = below(g, 1000000);
	op->len = below(g, 300);
	switch (op->kind) {
	case OP_MKDIR:
		op->path = chance(g, 80) ? dir_path(g) : fresh_path(g, w);
		remember(g, &op->path);
		break;
	case OP_LINK:
	case OP_RENAME:
		op->path2 = chance(g, 75) ? fresh_path(g, w) : a_path(g, w, ANYTHING);
		if (op->kind == OP_RENAME)
			gen_rename(g, cfg, op);
		remember(g, &op->path2);
		break;
	case OP_SYMLINK:
		op->path = fresh_path(g, w);
		remember(g, &op->path);
		break;
	case OP_READLINK:
		op->len = chance(g, 80) ? 4096 : 1 + below(g, 10);
		break;
	case OP_TRUNCATE:
		op->len = any_off(g, below(g, 100000), cfg->max_size);
		break;
	case OP_READDIR:
	case OP_CHURN:
	case OP_FSYNC_DIR:
		op->path = any_dir(g, w);
		op->n = below(g, 12);
		break;
	case OP_UTIMENS:
		gen_utimens(g, op);
		break;
	case OP_SETXATTR:
		op->flags = chance(g, 70) ? 0 : chance(g, 50) ? XATTR_CREATE : XATTR_REPLACE;
		break;
	case OP_GETXATTR:
		op->len = chance(g, 70) ? 4096 : below(g, 2) * 10;
		break;
	case OP_ACCESS:
		op->mode = below(g, 8);
		break;
	default:
		break;
	}
}

static enum op_kind pick_kind(struct gen *g, const struct config *cfg)
{
	unsigned int total = 0, roll;
	int i;

	for (i = 0; i < NR_KINDS; i++)
		total += has_kind(cfg, i) ? op_weight(i) : 0;
	if (!total)
		die("--without leaves no operation");
	roll = below(g, total);
	for (i = 0; i < NR_KINDS; i++) {
		if (!has_kind(cfg, i))
			continue;
		if (roll < op_weight(i))
			break;
		roll -= op_weight(i);
	}
	return i;
}

void gen_next(struct gen *g, const struct world *w, struct op *op)
{
	memset(op, 0, sizeof(*op));
	op->kind = pick_kind(g, w->cfg);
	switch (op->kind) {
	case OP_OPEN:
		gen_open(g, w, op);
		break;
	case OP_CLOSE:
	case OP_DUP:
	case OP_READ:
	case OP_PREAD:
	case OP_READV:
	case OP_WRITE:
	case OP_PWRITE:
	case OP_WRITEV:
	case OP_LSEEK:
	case OP_HOLE:
	case OP_FTRUNCATE:
	case OP_FALLOCATE:
	case OP_MMAP_PRIVATE:
	case OP_MMAP_SHARED:
	case OP_FSYNC:
	case OP_FSTAT:
	case OP_FCHMOD:
	case OP_COPY_RANGE:
	case OP_FLOCK:
		gen_slot_op(g, w, op);
		break;
	case OP_CHECK:
		break;
	default:
		gen_path_op(g, w, op);
	}
}
