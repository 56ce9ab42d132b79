/* SPDX-License-Identifier: MIT */
/*
 * For the fuzz target ioctls: its input, what it knows of the world, and one request, which is
 * answered once.
 */
#ifndef TESTS_FUZZ_IOCTLS_ASK_H
#define TESTS_FUZZ_IOCTLS_ASK_H

#include <sys/uio.h>

#include "tests/fuzz/fuzz.h"

static ssize_t take_reply(int fd, const struct iovec *iov, int count);
#define writev take_reply
#include "fs/requests_loop.c"
#include "fs/requests_current.c"
#undef writev

#define slot lent_slot /* fs/ has another */
#include "engine/capture/session.h"
#undef slot
#include "engine/save/units.h"
#include "fs/control_dir.h"

#define SESSIONS     3
#define FILES	     3
#define MAX_STEPS    64
#define MAX_CAPTURES (4 * MAX_STEPS + 1)
#define MAX_SLOTS    64
#define CHUNK	     (64u << 10)
#define FILE_MAX     (4u << 20)
#define IDS	     6
#define NEAR	     (6 * CHUNK)	/* most offsets and lengths are below this */
#define PATIENCE_NS  (8 * NSEC_PER_SEC) /* less than a session waits for its process */

struct input {
	const uint8_t *at, *end;
};

struct written {
	uint64_t file_off, src_off, len;
	bool failed;
};

struct trainer {
	bool open, begun; /* the control file; HELLO was answered by a session */
	uint64_t fh, id;
	uint32_t uid;
	char *arena;
	size_t arena_bytes;
	unsigned nr_slots;
	uint64_t last_seq, last_grant;
	struct written written
		[MAX_CAPTURES]; /* by number, from 1 on; what does not fit is not looked at */
	struct {
		uint64_t nr, seq; /* of the grant that has the slot; 0: none */
	} slots[MAX_SLOTS];
};

static struct {
	char top[PATH_MAX]; /* holds "root", the backing, and "control" */
	struct engine engine;
	struct fs fs;
	int lowest_fd; /* what open returns when nothing is left open */
	/* of one input */
	struct trainer trainers[SESSIONS];
	struct {
		bool open, closed;
		uint64_t node, lookups, fh;
	} files[FILES];
	/* of one request */
	pthread_t asking;
	uint64_t unique;
	unsigned replies;
	int error;
	size_t len;
	char body[sizeof(struct fuse_ioctl_out) + 16384];
} w;

static const char *const file_names[FILES] = {"x.pt", "y.pt", "notes.txt"};

/* --- the input --- */

static uint8_t get8(struct input *in)
{
	return in->at < in->end ? *in->at++ : 0;
}

static uint64_t get_wild(struct input *in)
{
	static const uint64_t odd[] = {0,
				       1,
				       CHUNK - 1,
				       CHUNK,
				       CHUNK + 1,
				       INT32_MAX,
				       UINT32_MAX,
				       INT64_MAX,
				       INT64_MAX - CHUNK,
				       UINT64_MAX,
				       1ull << 62,
				       1ull << 63,
				       UINT64_MAX - CHUNK + 1};
	uint8_t kind = get8(in);
	uint64_t n = 0;

	if (kind < 128)
		return odd[kind % ARRAY_SIZE(odd)];
	for (kind = kind % 8 + 1; kind; kind--)
		n = n << 8 | get8(in);
	return n;
}

/* Mostly below @below. */
static uint64_t get_below(struct input *in, uint64_t below)
{
	uint8_t kind = get8(in);
	uint64_t n;

	if (kind >= 240)
		return get_wild(in);
	n = (uint64_t)kind << 16 | (uint64_t)get8(in) << 8 | get8(in);
	return kind & 1 ? n % below : n % below / 4096 * 4096;
}

struct step {
	struct input *in;
	uint8_t how;
	struct trainer *t;
	unsigned file;
	uint32_t uid;
	bool given_up;
};

/* --- what is in files --- */

static char byte_at(uint64_t off)
{
	return (char)(off * 0x9E3779B97F4A7C15ull >> 56 | 1);
}

static void fill(char *to, uint64_t off, size_t len)
{
	size_t i;

	for (i = 0; i < len; i++)
		to[i] = byte_at(off + i);
}

/* --- one request --- */

/* Also what other threads tell the kernel, which is nothing that was asked for. */
static ssize_t take_reply(int fd, const struct iovec *iov, int count)
{
	const struct fuse_out_header *out = iov[0].iov_base;
	size_t len = 0, at = 0;
	int i;

	(void)fd;
	for (i = 0; i < count; i++)
		len += iov[i].iov_len;
	REQUIRE(iov[0].iov_len == sizeof(*out) && out->len == len);
	if (!out->unique)
		return (ssize_t)len;
	REQUIRE(pthread_equal(w.asking, pthread_self()) && out->unique == w.unique);
	REQUIRE(out->error <= 0 && out->error > -1000);
	REQUIRE(!out->error || len == sizeof(*out));
	w.replies++;
	w.error = out->error;
	w.len = len - sizeof(*out);
	for (i = 1; i < count && at < sizeof(w.body); i++) {
		size_t n = sizeof(w.body) - at;

		n = iov[i].iov_len < n ? iov[i].iov_len : n;
		memcpy(w.body + at, iov[i].iov_base, n);
		at += n;
	}
	return (ssize_t)len;
}

/* True when it succeeded and was answered. The body follows @head. */
static bool ask(uint32_t opcode, uint64_t node, uint32_t uid, bool given_up, const void *head,
		size_t head_len, const void *body, size_t len)
{
	struct requests *rs = w.fs.requests;
	struct request *r = take_buffer_locked(rs);
	struct fuse_in_header *in;

	REQUIRE(r);
	in = (void *)r->mem;
	*in = (struct fuse_in_header){.len = (uint32_t)(sizeof(*in) + head_len + len),
				      .opcode = opcode,
				      .unique = ++w.unique * 2,
				      .nodeid = node,
				      .uid = uid,
				      .gid = uid};
	w.unique = in->unique;
	w.asking = pthread_self();
	memcpy(in + 1, head, head_len);
	if (len)
		memcpy((char *)(in + 1) + head_len, body, len);
	note_header(r, in->len);
	w.replies = 0;
	w.error = 0;
	rs->in_flight++;
	activate_locked(rs, r);
	if (given_up) {
		wait_interrupt(&r->call);
		r->abandoned = true;
		atomic_store(&r->answered, true);
	}
	serve(rs, r);
	REQUIRE(!request_current && list_empty(&rs->active) && !rs->in_flight);
	open_extra.set = false;
	REQUIRE(w.replies == (opcode == FUSE_FORGET || given_up ? 0 : 1));
	return w.replies && !w.error;
}

static bool ask_plainly(uint32_t opcode, uint64_t node, const void *head, size_t len)
{
	return ask(opcode, node, 0, false, head, len, NULL, 0);
}

/* Would a call that wants these bytes, of whichever file, wait for a capture? */
static bool is_promised_at(uint64_t off, uint64_t len)
{
	struct contents *all = w.engine.contents;
	LOCK_SCOPE(&w.engine.cache->lock);

	for (size_t i = 0; i < all->nr_buckets; i++)
		for (struct content *ct = all->hash[i]; ct; ct = ct->next_in_hash) {
			const struct list *l;

			list_for_each (l, &ct->promises) {
				const struct promise *p = container_of(l, struct promise, link);

				if (off < p->off + p->len &&
				    (len > UINT64_MAX - off || p->off < off + len))
					return true;
			}
		}
	return false;
}

static bool send_ioctl(uint64_t node, uint64_t fh, uint32_t uid, bool given_up, unsigned cmd,
		       const void *arg)
{
	struct fuse_ioctl_in in = {
		.fh = fh, .cmd = cmd, .in_size = _IOC_SIZE(cmd), .out_size = _IOC_SIZE(cmd)};

	return ask(FUSE_IOCTL, node, uid, given_up, &in, sizeof(in), arg, in.in_size);
}

static const void *ioctl_answer(size_t size)
{
	REQUIRE(w.len == sizeof(struct fuse_ioctl_out) + size);
	return w.body + sizeof(struct fuse_ioctl_out);
}

#endif
