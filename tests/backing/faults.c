/* SPDX-License-Identifier: MIT */
#include "tests/backing/faults.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "tests/backing/faults_inside.h"
#include "tests/backing/util.h"

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* --- what happens to a call; with the lock --- */

static void count_call(struct faults *f, unsigned call)
{
	f->count[__builtin_ctz(call)]++;
	pthread_cond_broadcast(&f->changed);
}

static void wait_while_frozen(struct faults *f, unsigned call)
{
	uint64_t thaws = f->thaws;

	if (!(f->frozen_calls & call) || f->nr_frozen >= f->most_frozen)
		return;
	f->nr_frozen++;
	pthread_cond_broadcast(&f->changed);
	while (f->thaws == thaws)
		pthread_cond_wait(&f->changed, &f->lock);
	f->nr_frozen--;
}

static bool hits(struct rule *rule, unsigned call, const char *name, const char *name2)
{
	const struct fault *fault = &rule->fault;

	if (!(fault->calls & call))
		return false;
	if (fault->name && !(name && !strcmp(name, fault->name)) &&
	    !(name2 && !strcmp(name2, fault->name)))
		return false;
	if (rule->nr++ < fault->skip)
		return false;
	return !fault->times || rule->nr - fault->skip <= fault->times;
}

/* The first fault that hits decides. */
static struct verdict judge(struct faults *f, unsigned call, const char *name, const char *name2)
{
	struct verdict v = {0, false, false};
	size_t i;

	for (i = 0; i < f->nr_rules; i++) {
		struct rule *rule = &f->rules[i];

		if (!hits(rule, call, name, name2) || v.err || v.nothing)
			continue;
		rule->hits++;
		v = (struct verdict){-rule->fault.err, rule->fault.done, rule->fault.nothing};
	}
	return v;
}

static void wait_while_slow(struct faults *f, unsigned call, size_t bytes)
{
	uint64_t setting = f->slow_setting, until;
	struct timespec t;

	if (!(f->slow_calls & call))
		return;
	until = now_ns() + f->call_ns;
	if (bytes && f->byte_ns) {
		if (f->wire_free < until)
			f->wire_free = until;
		f->wire_free += bytes * f->byte_ns;
		until = f->wire_free;
	}
	t = (struct timespec){(time_t)(until / 1000000000u), (long)(until % 1000000000u)};
	while (f->slow_setting == setting)
		if (pthread_cond_timedwait(&f->changed, &f->lock, &t) == ETIMEDOUT)
			break;
}

static bool concerns(struct faults *f, int fd)
{
	struct statx stx;

	return !f->only || (fd >= 0 && !faults_stat(f, fd, &stx) && stx.stx_ino == f->only);
}

struct verdict faults_enter(struct faults *f, unsigned call, int fd, const char *name,
			    const char *name2, size_t bytes)
{
	struct verdict v = {0, false, false};

	MUTEX_SCOPE(&f->lock);
	count_call(f, call);
	if (!concerns(f, fd))
		return v;
	wait_while_frozen(f, call);
	v = judge(f, call, name, name2);
	if (!v.err || v.done)
		wait_while_slow(f, call, bytes);
	return v;
}

size_t faults_limit(struct faults *f, unsigned call, size_t size)
{
	MUTEX_SCOPE(&f->lock);
	return (f->short_calls & call) && size > f->short_bytes ? f->short_bytes : size;
}

ssize_t faults_reserve(struct faults *f, int fd, size_t *size, off_t off, bool append, bool whole)
{
	int flags = fcntl(fd, F_GETFL);
	struct statx stx;
	int64_t growth;

	MUTEX_SCOPE(&f->lock);
	if (f->room < 0 || faults_stat(f, fd, &stx))
		return 0;
	if (append || (flags & O_APPEND))
		off = (off_t)stx.stx_size;
	growth = off + (int64_t)*size - (int64_t)stx.stx_size;
	if (growth <= 0)
		return 0;
	if (growth > (int64_t)*size)
		growth = (int64_t)*size;
	if (growth > f->room) {
		size_t fits = *size - (size_t)(growth - f->room);

		if (flags & O_DIRECT) /* a part that is not of blocks would be refused */
			fits -= fits % 4096;
		if (whole || !fits)
			return -f->full_err;
		growth -= (int64_t)(*size - fits);
		*size = fits;
	}
	if (growth < 0)
		growth = 0;
	f->room -= growth;
	return growth;
}

void faults_give_back(struct faults *f, int64_t bytes)
{
	MUTEX_SCOPE(&f->lock);
	if (f->room >= 0 && bytes > 0)
		f->room += bytes;
}

void faults_show_room(struct faults *f, struct statvfs *sv)
{
	fsblkcnt_t blocks;

	MUTEX_SCOPE(&f->lock);
	if (f->room < 0)
		return;
	blocks = (fsblkcnt_t)f->room / sv->f_frsize;
	if (sv->f_bavail > blocks)
		sv->f_bavail = blocks;
	if (sv->f_bfree > blocks)
		sv->f_bfree = blocks;
}

/* --- from outside --- */

struct faults *faults_attach(struct backing *b)
{
	struct faults *f = must(calloc(1, sizeof(*f)));
	pthread_condattr_t attr;

	pthread_mutex_init(&f->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&f->changed, &attr);
	pthread_condattr_destroy(&attr);
	f->room = -1;
	f->backing = b;
	f->next = b->ops;
	f->next_arg = b->ops_arg;
	b->ops = &faults_ops;
	b->ops_arg = f;
	return f;
}

void faults_detach(struct faults *f)
{
	assert(f->backing->ops_arg == f); /* what was attached last is detached first */
	f->backing->ops = f->next;
	f->backing->ops_arg = f->next_arg;
	pthread_cond_destroy(&f->changed);
	pthread_mutex_destroy(&f->lock);
	free(f->rules);
	free(f);
}

void faults_clear(struct faults *f)
{
	{
		MUTEX_SCOPE(&f->lock);
		f->nr_rules = 0;
		f->only = 0;
		f->short_calls = 0;
		f->room = -1;
	}
	faults_thaw(f);
	faults_slow(f, 0, 0, 0);
}

int faults_add(struct faults *f, const struct fault *fault)
{
	MUTEX_SCOPE(&f->lock);
	f->rules = grow(f->rules, &f->max_rules, f->nr_rules, sizeof(*f->rules));
	f->rules[f->nr_rules] = (struct rule){.fault = *fault};
	return (int)f->nr_rules++;
}

unsigned faults_hits(struct faults *f, int number)
{
	MUTEX_SCOPE(&f->lock);
	return f->rules[number].hits;
}

void faults_disk(struct faults *f, int64_t bytes, int err)
{
	MUTEX_SCOPE(&f->lock);
	f->room = bytes;
	f->full_err = err;
}

void faults_short(struct faults *f, unsigned calls, size_t bytes)
{
	MUTEX_SCOPE(&f->lock);
	f->short_calls = bytes ? calls : 0;
	f->short_bytes = bytes;
}

void faults_only(struct faults *f, ino_t ino)
{
	MUTEX_SCOPE(&f->lock);
	f->only = ino;
}

void faults_freeze_first(struct faults *f, unsigned calls, unsigned most)
{
	MUTEX_SCOPE(&f->lock);
	f->frozen_calls = calls;
	f->most_frozen = most;
}

void faults_freeze(struct faults *f, unsigned calls)
{
	faults_freeze_first(f, calls, UINT_MAX);
}

void faults_thaw(struct faults *f)
{
	MUTEX_SCOPE(&f->lock);
	f->frozen_calls = 0;
	f->thaws++;
	pthread_cond_broadcast(&f->changed);
}

void faults_wait_frozen(struct faults *f, unsigned nr)
{
	MUTEX_SCOPE(&f->lock);
	while (f->nr_frozen < nr)
		pthread_cond_wait(&f->changed, &f->lock);
}

unsigned faults_frozen(struct faults *f)
{
	MUTEX_SCOPE(&f->lock);
	return f->nr_frozen;
}

void faults_slow(struct faults *f, unsigned calls, uint64_t call_ns, uint64_t byte_ns)
{
	MUTEX_SCOPE(&f->lock);
	f->slow_calls = calls;
	f->call_ns = call_ns;
	f->byte_ns = byte_ns;
	f->wire_free = 0;
	f->slow_setting++;
	pthread_cond_broadcast(&f->changed);
}

static uint64_t count_of(const struct faults *f, unsigned calls)
{
	uint64_t nr = 0;
	unsigned i;

	for (i = 0; i < ARRAY_SIZE(f->count); i++)
		nr += calls & (1u << i) ? f->count[i] : 0;
	return nr;
}

uint64_t faults_count(struct faults *f, unsigned calls)
{
	MUTEX_SCOPE(&f->lock);
	return count_of(f, calls);
}

void faults_wait_count(struct faults *f, unsigned calls, uint64_t nr)
{
	MUTEX_SCOPE(&f->lock);
	while (count_of(f, calls) < nr)
		pthread_cond_wait(&f->changed, &f->lock);
}
