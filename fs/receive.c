/* SPDX-License-Identifier: MIT */
#include "fs/receive.h"

#include <errno.h>
#include <poll.h>
#include <sys/uio.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/lock.h"
#include "fs/requests.h"
#include "fs/wire.h"

/* Polling this long before sleeping costs less than a wake-up. */
#define SPIN_NS 50000
/* Polling in vain keeps a busy CPU from the program that would send the next request. */
#define SLEEPS_AFTER_VAIN 32

/* Programs that save in turn make bad luck; an expectation must then prove right again first. */
#define LUCK_MAX   8
#define LUCK_WORST (-4)
#define BAD_LUCK   3

void receiver_init(struct receiver *rc, size_t write_max)
{
	*rc = (struct receiver){
		.fd = -1, .write_max = write_max, .may_spin = sysconf(_SC_NPROCESSORS_ONLN) > 1};
	lock_init(&rc->lock, LOCK_RECEIVER);
}

void receiver_finish(struct receiver *rc)
{
	content_put(rc->content);
	lock_finish(&rc->lock);
}

bool receive_more(struct receiver *rc)
{
	struct pollfd p = {.fd = rc->fd, .events = POLLIN};

	return poll(&p, 1, 0) > 0 && p.revents & POLLIN;
}

static bool poll_for_one(struct receiver *rc, struct pollfd *p)
{
	uint64_t until = clock_mono_ns() + SPIN_NS;

	do {
		if (poll(p, 1, 0) > 0)
			return true;
	} while (clock_mono_ns() < until);
	atomic_store(&rc->sleeps, SLEEPS_AFTER_VAIN);
	return false;
}

static void wait_for_one(struct receiver *rc, bool look)
{
	struct pollfd p = {.fd = rc->fd, .events = POLLIN};
	int sleeps = atomic_load(&rc->sleeps);

	if (look && rc->may_spin) {
		if (sleeps > 0)
			atomic_store(&rc->sleeps, sleeps - 1);
		else if (poll_for_one(rc, &p))
			return;
	}
	poll(&p, 1, -1);
}

void receive_expect(struct receiver *rc, struct content *content, uint64_t nodeid, uint64_t off)
{
	struct content *before;

	content_get(content);
	{
		LOCK_SCOPE(&rc->lock);
		before = rc->content;
		rc->content = content;
		rc->nodeid = nodeid;
		rc->off = off;
	}
	content_put(before);
}

/* Takes the expectation, and a place for it into @l if there is one. False: nothing is expected. */
static bool prepare(struct receiver *rc, struct content_landing *l, uint64_t *nodeid, uint64_t *off)
{
	struct content *ct;
	bool lucky;
	{
		LOCK_SCOPE(&rc->lock);
		ct = take_ptr(rc->content);
		*nodeid = rc->nodeid;
		*off = rc->off;
		lucky = rc->luck >= 0;
	}
	if (!ct)
		return false;
	if (!lucky || !content_land(ct, *off, rc->write_max, l))
		content_put(ct);
	return true;
}

static bool is_write(const char *mem, size_t len)
{
	return len >= WIRE_WRITE_HEADER &&
	       ((const struct fuse_in_header *)(const void *)mem)->opcode == FUSE_WRITE;
}

/* True for the WRITE that was expected. */
static bool is_expected(const char *mem, size_t len, uint64_t nodeid, uint64_t off)
{
	const struct fuse_in_header *in = (const void *)mem;
	const struct fuse_write_in *w = (const void *)(in + 1);

	return is_write(mem, len) && in->nodeid == nodeid && w->offset == off &&
	       w->size == len - WIRE_WRITE_HEADER && !(w->write_flags & FUSE_WRITE_CACHE);
}

static void learn(struct receiver *rc, bool good)
{
	LOCK_SCOPE(&rc->lock);
	rc->luck += good ? 1 : -BAD_LUCK;
	rc->luck = rc->luck > LUCK_MAX ? LUCK_MAX : rc->luck < LUCK_WORST ? LUCK_WORST : rc->luck;
}

/* Reads a request. What follows the header of a WRITE goes to @l, if that is a place. */
static ssize_t read_one(struct receiver *rc, char *mem, size_t size,
			const struct content_landing *l)
{
	struct iovec v[2 + LANDING_PIECES] = {{mem, WIRE_WRITE_HEADER}};
	unsigned i, nr = 1;
	ssize_t n;

	if (!l->content) {
		n = read(rc->fd, mem, size);
		return n < 0 ? -errno : n;
	}
	for (i = 0; i < l->nr; i++)
		v[nr++] = l->bytes[i];
	/* The kernel demands room for more than the largest WRITE. */
	v[nr++] = (struct iovec){mem + WIRE_WRITE_HEADER + rc->write_max,
				 size - WIRE_WRITE_HEADER - rc->write_max};
	n = readv(rc->fd, v, (int)nr);
	return n < 0 ? -errno : n;
}

ssize_t receive(struct receiver *rc, char *mem, size_t size, bool look, struct content_landing *l)
{
	l->content = NULL;
	for (;;) {
		uint64_t nodeid, off;
		bool expects, right;
		ssize_t n;

		wait_for_one(rc, look);
		expects = prepare(rc, l, &nodeid, &off);
		n = read_one(rc, mem, size, l);
		right = n > 0 && expects && is_expected(mem, (size_t)n, nodeid, off);
		if (expects && n > 0 && is_write(mem, (size_t)n))
			learn(rc, right);
		if (l->content && !right) {
			if (n > WIRE_WRITE_HEADER)
				content_copy_landed(l, mem + WIRE_WRITE_HEADER,
						    (size_t)n - WIRE_WRITE_HEADER);
			content_leave(l);
		}
		if (n >= (ssize_t)sizeof(struct fuse_in_header))
			return n;
		if (n >= 0 || (n != -EINTR && n != -EAGAIN && n != -ENOENT))
			return n < 0 ? n : -EIO;
	}
}
