/* SPDX-License-Identifier: MIT */
/*
 * For the fuzz target requests: its input, one request, which is answered once, and what the kernel
 * would remember.
 */
#ifndef TESTS_FUZZ_REQUESTS_ASK_H
#define TESTS_FUZZ_REQUESTS_ASK_H

#include <sys/uio.h>

#include "tests/fuzz/fuzz.h"

static ssize_t take_reply(int fd, const struct iovec *iov, int count);
#define writev take_reply
#include "fs/requests_loop.c"
#include "fs/requests_current.c"
#undef writev

#include "fs/control_dir.h"

#define MAX_STEPS   200
#define MAX_HANDLES 32
#define MAX_NODES   64

enum handle_kind { FILE_HANDLE, DIR_HANDLE, CONTROL_HANDLE, CONTROL_DIR_HANDLE };

struct input {
	const uint8_t *at, *end;
};

static struct {
	char top[PATH_MAX]; /* holds "root", the backing, and "canary" */
	struct engine engine;
	struct fs fs;
	/* of one input */
	int lowest_fd; /* what open returns when nothing is left open */
	struct {
		uint64_t id, lookups;
	} nodes[MAX_NODES];
	unsigned nr_nodes;
	struct {
		uint64_t fh, id;
		enum handle_kind kind;
	} handles[MAX_HANDLES];
	unsigned nr_handles;
	/* of one request */
	uint64_t unique;
	unsigned replies;
	int error;
	size_t len;
	char body[256]; /* the reply's first bytes */
} w;

/* --- the input --- */

static uint8_t get8(struct input *in)
{
	return in->at < in->end ? *in->at++ : 0;
}

static uint64_t get_number(struct input *in)
{
	static const uint64_t odd[] = {0,	   1,	      4095,	  4096,	     65536,
				       1 << 20,	   INT32_MAX, UINT32_MAX, INT64_MAX, UINT64_MAX,
				       1ull << 62, 0777,      1ull << 63};
	uint8_t kind = get8(in);
	uint64_t n = 0;

	if (kind < 64)
		return kind;
	if (kind < 128)
		return odd[kind % ARRAY_SIZE(odd)];
	for (kind = kind % 8 + 1; kind; kind--)
		n = n << 8 | get8(in);
	return n;
}

static uint64_t get_node(struct input *in)
{
	static const uint64_t odd[] = {0,
				       2,
				       1ull << 32,
				       1ull << 32 | 3,
				       UINT32_MAX,
				       UINT64_MAX,
				       CONTROL_DIR_ID - 1,
				       CONTROL_DIR_ID,
				       CONTROL_DIR_ID + 1,
				       CONTROL_DIR_ID + 2,
				       CONTROL_DIR_ID + 4,
				       CONTROL_DIR_ID + 5};
	uint8_t kind = get8(in);

	if (kind < 96)
		return NODE_ROOT;
	if (kind < 224 && w.nr_nodes)
		return w.nodes[kind % w.nr_nodes].id;
	if (kind < 250)
		return odd[kind % ARRAY_SIZE(odd)];
	return get_number(in);
}

/* At most 300 bytes with the terminator. */
static size_t get_name(struct input *in, char *to)
{
	static const char *const names[] = {
		"a",   "b",	 "c", "d",	     ".ckptfs", ".",	"..",  "",
		"a/b", "../out", "/", "status.json", "metrics", "\xff", "-\n", "version.json"};
	uint8_t kind = get8(in);
	size_t len = 0;

	if (kind < 128)
		return (size_t)sprintf(to, "%s", names[kind % 4]) + 1;
	if (kind < 200)
		return (size_t)sprintf(to, "%s", names[kind % ARRAY_SIZE(names)]) + 1;
	if (kind < 210) {
		len = kind % 2 ? 255 : 256;
		memset(to, 'x', len);
	} else {
		for (kind %= 16; kind; kind--)
			if ((to[len] = (char)get8(in)))
				len++;
	}
	to[len] = '\0';
	return len + 1;
}

static size_t get_xattr_name(struct input *in, char *to)
{
	static const char *const names[] = {
		"user.a", "user.b", "trusted.a", "security.x", "system.posix_acl_access",
		"",	  "user.",  "x"};

	return (size_t)sprintf(to, "%s", names[get8(in) % ARRAY_SIZE(names)]) + 1;
}

/* --- one request --- */

static ssize_t take_reply(int fd, const struct iovec *iov, int count)
{
	const struct fuse_out_header *out = iov[0].iov_base;
	size_t len = 0, at = 0;
	int i;

	(void)fd;
	for (i = 0; i < count; i++)
		len += iov[i].iov_len;
	REQUIRE(iov[0].iov_len == sizeof(*out) && out->len == len);
	REQUIRE(out->unique == w.unique);
	REQUIRE(out->error <= 0 && out->error > -1000);
	REQUIRE(!out->error || len == sizeof(*out));
	REQUIRE(len <= sizeof(*out) + REQUEST_MAX_BYTES);
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

/* Sends @opcode with what @body points to. Returns true when it succeeded and was
 * answered. */
static bool ask_as(uint32_t opcode, uint64_t node, const void *body, size_t len, uint32_t uid,
		   bool given_up)
{
	struct requests *rs = w.fs.requests;
	struct request *r = take_buffer_locked(rs);
	struct fuse_in_header *in;

	REQUIRE(r);
	in = (void *)r->mem;
	*in = (struct fuse_in_header){.len = (uint32_t)(sizeof(*in) + len),
				      .opcode = opcode,
				      .unique = ++w.unique * 2,
				      .nodeid = node,
				      .uid = uid,
				      .gid = uid,
				      .pid = 0};
	w.unique = in->unique;
	memcpy(in + 1, body, len);
	note_header(r, sizeof(*in) + len);
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
	REQUIRE(!request_current && !open_extra.set && list_empty(&rs->active) && !rs->in_flight);
	if (opcode == FUSE_FORGET || opcode == FUSE_BATCH_FORGET)
		REQUIRE(w.replies == 0);
	else
		REQUIRE(w.replies == (given_up ? 0 : 1));
	return w.replies && !w.error;
}

static bool ask(uint32_t opcode, uint64_t node, const void *body, size_t len)
{
	return ask_as(opcode, node, body, len, 0, false);
}

/* --- what the kernel would remember --- */

static void learn_entry(void)
{
	const struct fuse_entry_out *e = (const void *)w.body;
	unsigned i;

	if (e->nodeid == 0 || e->nodeid >= CONTROL_DIR_ID)
		return;
	for (i = 0; i < w.nr_nodes && w.nodes[i].id != e->nodeid; i++)
		;
	if (i == MAX_NODES) {
		struct fuse_forget_in f = {.nlookup = 1};

		ask(FUSE_FORGET, e->nodeid, &f, sizeof(f));
		return;
	}
	if (i == w.nr_nodes) {
		w.nodes[i].id = e->nodeid;
		w.nodes[i].lookups = 0;
		w.nr_nodes++;
	}
	w.nodes[i].lookups++;
}

static void forget_node(unsigned i)
{
	struct fuse_forget_in f = {.nlookup = w.nodes[i].lookups};
	uint64_t id = w.nodes[i].id;

	w.nodes[i] = w.nodes[--w.nr_nodes];
	ask(FUSE_FORGET, id, &f, sizeof(f));
}

static void learn_open(uint64_t id, const struct fuse_open_out *out, bool dir)
{
	REQUIRE(w.nr_handles < MAX_HANDLES);
	w.handles[w.nr_handles].fh = out->fh;
	w.handles[w.nr_handles].id = id;
	w.handles[w.nr_handles].kind = control_is(id) ? dir ? CONTROL_DIR_HANDLE : CONTROL_HANDLE
				       : dir	      ? DIR_HANDLE
						      : FILE_HANDLE;
	w.nr_handles++;
}

static void release(unsigned i)
{
	struct fuse_release_in r = {.fh = w.handles[i].fh};
	uint64_t id = w.handles[i].id;
	bool dir = w.handles[i].kind == DIR_HANDLE || w.handles[i].kind == CONTROL_DIR_HANDLE;

	w.handles[i] = w.handles[--w.nr_handles];
	REQUIRE(ask(dir ? FUSE_RELEASEDIR : FUSE_RELEASE, id, &r, sizeof(r)));
}

#endif
