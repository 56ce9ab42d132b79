/* SPDX-License-Identifier: MIT */
#include "tests/sim/save.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/format/commit.h"

#define MAGIC "save"

static const struct shape shapes[] = {
	{"dcp", "step-%u", NULL, "__%u_0.distcp", ".metadata", true, true, NULL},
	{"accelerate", "checkpoint_%u", NULL, "random_states_%u.pkl", NULL, false, false, NULL},
	{"deepspeed", "global_step%u", NULL, "zero_pp_rank_%u_mp_rank_00_optim_states.pt", NULL,
	 false, false, "latest"},
	{"trainer", "checkpoint-%u", NULL, "rng_state_%u.pth", "trainer_state.json", false, false,
	 NULL},
	{"orbax", "%u", "%u.orbax-checkpoint-tmp", "d%u", "_CHECKPOINT_METADATA", true, false,
	 NULL},
};

const struct shape *shape_of(const char *name)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(shapes); i++)
		if (!strcmp(shapes[i].name, name))
			return &shapes[i];
	return NULL;
}

const char *unit_name(const char *unit)
{
	const char *slash = strrchr(unit, '/');

	return slash ? slash + 1 : unit;
}

const struct shape *shape_of_unit(const char *unit, unsigned *nr)
{
	char again[64];
	size_t i;

	unit = unit_name(unit);
	for (i = 0; i < ARRAY_SIZE(shapes); i++) {
		if (sscanf(unit, shapes[i].unit, nr) != 1)
			continue;
		snprintf(again, sizeof(again), shapes[i].unit, *nr);
		if (!strcmp(again, unit))
			return &shapes[i];
	}
	return NULL;
}

/* --- bytes --- */

struct head {
	char magic[4];
	char job;
	char pad[3];
	uint32_t incarnation, save, rank, world;
	uint64_t len;
};

static void pattern(char *buf, size_t from, size_t len, const struct made_by *by)
{
	size_t i;

	for (i = from; i < len; i++)
		buf[i] = (char)(i * 7 + by->save * 13 + by->rank * 31 + by->incarnation * 101);
}

void save_fill(char *buf, size_t len, const struct made_by *by)
{
	struct head h = {.job = by->job,
			 .incarnation = by->incarnation,
			 .save = by->save,
			 .rank = by->rank,
			 .world = by->world,
			 .len = len};

	memcpy(h.magic, MAGIC, sizeof(h.magic));
	memcpy(buf, &h, sizeof(h));
	pattern(buf, sizeof(h), len, by);
}

bool save_whole(const char *buf, size_t len, struct made_by *by)
{
	__cleanup_free char *want = NULL;
	struct head h;

	if (len < sizeof(h))
		return false;
	memcpy(&h, buf, sizeof(h));
	*by = (struct made_by){h.job, h.incarnation, h.save, h.rank, h.world, 0};
	if (memcmp(h.magic, MAGIC, sizeof(h.magic)) != 0 || h.len != len || h.world > SAVE_RANKS)
		return false;
	want = malloc(len);
	pattern(want, sizeof(h), len, by);
	return !memcmp(want + sizeof(h), buf + sizeof(h), len - sizeof(h));
}

static bool same_save(const struct made_by *a, const struct made_by *b)
{
	return a->job == b->job && a->incarnation == b->incarnation && a->save == b->save &&
	       a->world == b->world;
}

/* --- a unit --- */

struct look {
	ssize_t (*read)(void *arg, const char *file, char *buf);
	void *arg;
	char *buf, *why;
	size_t why_size;
	bool any;
	struct made_by by;
};

static bool look_file(struct look *l, const char *file)
{
	struct made_by by;
	ssize_t len = l->read(l->arg, file, l->buf);

	if (len < 0)
		snprintf(l->why, l->why_size, "%s: %s", file, strerror((int)-len));
	else if (!save_whole(l->buf, (size_t)len, &by))
		snprintf(l->why, l->why_size, "%s is cut short or damaged (%zd bytes)", file, len);
	else if (l->any && !same_save(&l->by, &by))
		snprintf(l->why, l->why_size,
			 "%s is of save %u of incarnation %u, another file of save %u of %u", file,
			 by.save, by.incarnation, l->by.save, l->by.incarnation);
	else {
		l->by = by;
		l->any = true;
		return true;
	}
	return false;
}

bool save_is_whole(const char *unit, ssize_t (*read)(void *arg, const char *file, char *buf),
		   void *arg, struct made_by *by, char *why, size_t why_size)
{
	__cleanup_free char *buf = malloc(SAVE_FILE_MAX);
	struct look l = {.read = read, .arg = arg, .buf = buf, .why = why, .why_size = why_size};
	unsigned nr, rank;
	const struct shape *s = shape_of_unit(unit, &nr);
	char file[64];

	for (rank = 0; !rank || rank < l.by.world; rank++) {
		snprintf(file, sizeof(file), s->part, rank);
		if (!look_file(&l, file))
			return false;
	}
	if (s->end && !look_file(&l, s->end))
		return false;
	*by = l.by;
	return true;
}

/* --- on the backing --- */

struct on_backing {
	struct backing *b;
	int dir;
};

static int open_file(const struct on_backing *at, const char *file)
{
	__cleanup_fd int pin = backing_pin(at->b, at->dir, file);

	return pin < 0 ? pin : backing_reopen(at->b, pin, O_RDONLY);
}

static ssize_t read_file(void *arg, const char *file, char *buf)
{
	const struct on_backing *at = arg;
	__cleanup_fd int fd = open_file(at, file);

	return fd < 0 ? fd : backing_read(at->b, fd, buf, SAVE_FILE_MAX, 0);
}

struct commit_bytes {
	char text[SAVE_FILE_MAX];
	ssize_t len;
};

static ssize_t read_commit(void *arg, void *buf, size_t len, uint64_t off)
{
	const struct commit_bytes *c = arg;
	size_t have = (uint64_t)c->len > off ? (size_t)c->len - off : 0;

	len = len < have ? len : have;
	memcpy(buf, c->text + off, len);
	return (ssize_t)len;
}

struct listed {
	const struct on_backing *at;
	char *why;
	size_t why_size;
};

/* What the commit file lists must be there. */
static int look_listed(void *arg, const struct commit_entry *e)
{
	const struct listed *l = arg;
	__cleanup_fd int fd = -1;
	struct statx stx;

	if (e->kind != COMMIT_IS_FILE)
		return 0;
	fd = open_file(l->at, e->path);
	if (fd >= 0 && !backing_stat(l->at->b, fd, &stx) && stx.stx_size == e->size)
		return 0;
	snprintf(l->why, l->why_size, "%s is in the commit file with %llu bytes, and is not so",
		 e->path, (unsigned long long)e->size);
	return 1;
}

enum save_found save_look(struct backing *b, int dir, const char *name, struct made_by *by,
			  char generation[33], char *why, size_t why_size)
{
	__cleanup_fd int pin = backing_pin(b, dir, name), fd = -1;
	__cleanup_free struct commit_bytes *bytes = calloc(1, sizeof(*bytes));
	struct on_backing at = {.b = b};
	struct listed listed = {&at, why, why_size};
	struct source src = {.read = read_commit, .arg = bytes};
	struct commit_header header;
	struct error e;

	*generation = '\0';
	fd = pin < 0 ? pin : backing_reopen(b, pin, O_RDONLY | O_DIRECTORY);
	if (fd < 0)
		return SAVE_NONE;
	at.dir = fd;
	bytes->len = read_file(&at, COMMIT_FILE, bytes->text);
	if (bytes->len == -ENOENT)
		return SAVE_PLAIN;
	if (bytes->len < 0 || commit_read(&src, name, &header, look_listed, &listed, &e)) {
		if (!*why)
			snprintf(why, why_size, "its commit file: %s",
				 bytes->len < 0 ? strerror((int)-bytes->len) : e.text);
		return SAVE_TORN;
	}
	memcpy(generation, header.generation, 33);
	if (!save_is_whole(name, read_file, &at, by, why, why_size))
		return SAVE_TORN;
	by->sequence = header.sequence;
	return SAVE_WHOLE;
}
