/* SPDX-License-Identifier: MIT */
/*
 * The listings of coord_dir.c, and `forget`. Each owner's directory is read as that owner. Has no
 * lock. A listing only finds what to clear up: what is not in it may still exist.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/backing/dirwalk.h"
#include "engine/base/cleanup.h"
#include "engine/coord/dir_inside.h"

int dir_each_name(struct backing *b, int dir, int (*seen)(void *arg, const char *name), void *arg)
{
	__cleanup_dirwalk struct dirwalk w = DIRWALK_CLOSED;
	int err = dirwalk_begin_fd(&w, b, backing_dup(b, dir));

	while (!err && dirwalk_next(&w))
		err = seen(arg, w.name);
	return err ? err : w.err;
}

size_t dir_before_random(const char *name)
{
	const char *dot = strrchr(name, '.');

	return dot && strlen(dot) == DIR_TMP_DIGITS + 1 &&
			       strspn(dot + 1, "0123456789abcdef") == DIR_TMP_DIGITS
		       ? (size_t)(dot - name)
		       : 0;
}

/* GEN.KIND, or GEN.KIND.RANDOM, which is a left-over. */
struct parsed {
	char gen[COORD_GEN_MAX], kind[COORD_KIND_MAX];
	bool left_over;
};

static bool parse_name(const char *name, struct parsed *p)
{
	const char *kind = coord_parse_record(name, p->gen);
	size_t before = dir_before_random(name), len;

	if (!kind)
		return false;
	p->left_over = before > COORD_GEN_MAX; /* no number of a kind has so many digits */
	len = p->left_over ? before - COORD_GEN_MAX : strlen(kind);
	if (len >= sizeof(p->kind))
		return false;
	memcpy(p->kind, kind, len);
	p->kind[len] = '\0';
	return coord_kind_ok(p->kind);
}

/* A growing list of names. */
struct names {
	char (*v)[DIR_TMP_NAME_SIZE];
	size_t nr, max;
};

static int add_name(struct names *all, const char *name)
{
	if (all->nr == all->max) {
		size_t max = all->max ? 2 * all->max : 64;
		void *more = realloc(all->v, max * sizeof(*all->v));

		if (!more)
			return -ENOMEM;
		all->v = more;
		all->max = max;
	}
	snprintf(all->v[all->nr++], DIR_TMP_NAME_SIZE, "%s", name);
	return 0;
}

static int add_gen(void *arg, const char *name)
{
	struct parsed p;

	return parse_name(name, &p) ? add_name(arg, p.gen) : 0;
}

/* The names of a generation: @first, then its decision, then @last, the file that this links to. */
struct to_remove {
	const char *gen;
	struct names first, last;
};

static int add_to_remove(void *arg, const char *name)
{
	struct to_remove *all = arg;
	struct parsed p;

	if (!parse_name(name, &p) || strcmp(p.gen, all->gen))
		return 0;
	if (strcmp(p.kind, COORD_DECISION))
		return add_name(&all->first, name);
	return p.left_over ? add_name(&all->last, name) : 0;
}

static int remove_name(struct backing *b, int dir, const char *name)
{
	int err = backing_unlink(b, dir, name, false);

	return err == -ENOENT ? 0 : err;
}

static int remove_kind(struct backing *b, int dir, const char *gen, const char *kind)
{
	char name[COORD_NAME_MAX];

	coord_record_name(name, gen, kind);
	return remove_name(b, dir, name);
}

/*
 * A crash half-way must leave no generation that looks undecided or open: so the order is made
 * durable. A record without numbers is removed by name, whatever the listing says.
 */
static int remove_all(struct backing *b, int dir, const struct to_remove *listed)
{
	static const char *const named[] = {COORD_OPEN, COORD_NAME, COORD_PREPARE, COORD_NEXT};
	int err = 0;
	size_t i;

	for (i = 0; !err && i < ARRAY_SIZE(named); i++) {
		err = remove_kind(b, dir, listed->gen, named[i]);
		if (!err && !i && listed->first.nr) /* most generations have only a decision */
			err = backing_sync(b, dir, false);
	}
	for (i = 0; !err && i < listed->first.nr; i++)
		err = remove_name(b, dir, listed->first.v[i]);
	if (!err)
		err = backing_sync(b, dir, false);
	if (!err)
		err = remove_kind(b, dir, listed->gen, COORD_DECISION);
	for (i = 0; !err && i < listed->last.nr; i++) {
		if (!i)
			err = backing_sync(b, dir, false);
		if (!err)
			err = remove_name(b, dir, listed->last.v[i]);
	}
	return err ? err : backing_sync(b, dir, false);
}

static int forget_as_owner(struct backing *b, uid_t owner, const char *gen)
{
	__cleanup_fd int dir = dir_open_owner(b, owner, false);
	struct to_remove listed = {.gen = gen};
	int err = dir < 0 ? dir : dir_each_name(b, dir, add_to_remove, &listed);

	if (!err)
		err = remove_all(b, dir, &listed);
	free(listed.first.v);
	free(listed.last.v);
	return dir == -ENOENT ? 0 : err;
}

int dir_forget(void *arg, const struct caller *owner, const char *gen)
{
	struct backing b = backing_as(arg, owner);

	if (!coord_gen_ok(gen))
		return -EINVAL;
	return forget_as_owner(&b, owner->uid, gen);
}

static int list_as_owner(struct backing *b, int txn, uid_t owner, struct names *all)
{
	__cleanup_fd int dir = dir_open_owner_in(b, txn, owner, false);

	return dir < 0 ? dir : dir_each_name(b, dir, add_gen, all);
}

static int compare_gens(const void *a, const void *b)
{
	return strcmp(a, b);
}

struct listing {
	struct backing *b;
	int txn;
	int (*found)(void *arg, uid_t owner, const char *gen);
	void *found_arg;
	int err;  /* the first error */
	int stop; /* what @found returned */
};

static int list_owner(void *arg, const char *name)
{
	struct listing *l = arg;
	struct caller as = {.gid = DIR_NOGROUP};
	size_t len = coord_parse_uid(name, &as.uid), i;
	struct backing b = backing_as(l->b, &as);
	struct names all = {0};
	int err;

	if (!len || name[len])
		return 0;
	err = list_as_owner(&b, l->txn, as.uid, &all);
	if (err && err != -ENOENT && !l->err)
		l->err = err;
	if (all.nr)
		qsort(all.v, all.nr, sizeof(*all.v), compare_gens);
	for (i = 0; !l->stop && i < all.nr; i++)
		if (!i || strcmp(all.v[i], all.v[i - 1]))
			l->stop = l->found(l->found_arg, as.uid, all.v[i]);
	free(all.v);
	return l->stop;
}

int dir_list(void *arg, int (*found)(void *arg, uid_t owner, const char *gen), void *found_arg)
{
	struct listing l = {.b = arg, .found = found, .found_arg = found_arg};
	__cleanup_fd int txn = -1;
	int err;

	txn = l.txn = dir_open(l.b, FORMAT_TXN);
	if (txn < 0)
		return txn == -ENOENT ? 0 : txn;
	err = dir_each_name(l.b, txn, list_owner, &l);
	return err ? err : l.err;
}
