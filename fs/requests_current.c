/* SPDX-License-Identifier: MIT */
/*
 * The request that a thread serves: what its handler asks of it, and its reply on the way to the
 * kernel. The reply is held back if the watchdog has answered. A thread serves one request at a
 * time, so all but `answered` belongs to the thread and needs no lock.
 */
#include <errno.h>
#include <sys/uio.h>
#include <unistd.h>

#include "engine/backing/backing.h"
#include "engine/base/wait.h"
#include "engine/content/content.h"
#include "fs/fs.h"
#include "fs/requests_inside.h"

__thread struct request *request_current;
static __thread struct {
	bool set;
	uint32_t flags;
	int backing_id;
} open_extra;

bool request_is_behind(void)
{
	return request_current && request_current->behind;
}

bool request_decide(void)
{
	struct request *r = request_current;

	if (r && !r->decided)
		r->decided = !atomic_exchange(&r->answered, true);
	return !r || r->decided;
}

void request_copy_landed_out(struct request *r)
{
	if (!r->landing.content)
		return;
	content_copy_landed(&r->landing, r->mem + WIRE_WRITE_HEADER, r->len - WIRE_WRITE_HEADER);
	content_leave(&r->landing);
}

bool request_take_landed(const struct content *ct)
{
	struct request *r = request_current;
	bool taken;

	if (!r || !r->landing.content)
		return false;
	taken = r->landing.content == ct &&
		content_take_landed(&r->landing, r->len - WIRE_WRITE_HEADER);
	if (taken)
		content_leave(&r->landing);
	else
		request_copy_landed_out(r);
	return taken;
}

void request_copy_out(void)
{
	if (request_current)
		request_copy_landed_out(request_current);
}

void requests_expect(struct requests *rs, struct content *ct, uint64_t off)
{
	if (request_current)
		receive_expect(&rs->receiver, ct, request_current->nodeid, off);
}

void *requests_data_buffer(void)
{
	return request_current->mem + WIRE_WRITE_HEADER;
}

/* --- replies --- */

void requests_open_extra(uint32_t flags, int backing_id)
{
	open_extra.set = true;
	open_extra.flags = flags;
	open_extra.backing_id = backing_id;
}

/* The open_out ends the reply's last piece: alone (OPEN), or behind an entry (CREATE). */
static void patch_open(struct iovec *iov)
{
	struct wire_open_out *out;

	open_extra.set = false;
	if (iov->iov_len < sizeof(*out))
		return;
	out = (void *)((char *)iov->iov_base + iov->iov_len - sizeof(*out));
	out->open_flags |= open_extra.flags;
	out->backing_id = open_extra.backing_id;
}

/* Asks for what the kernel offered and libfuse does not know. */
static void patch_init(struct requests *rs, struct iovec *iov)
{
	struct features *f = rs->fs->engine->backing.features;
	struct wire_init_out *out = iov->iov_base;
	uint32_t flags2 = 0;

	features_set(f, FEATURE_DIRECT_MMAP, rs->offered.flags2 & WIRE2_DIRECT_IO_ALLOW_MMAP);
	if (!(rs->offered.flags2 & WIRE2_PASSTHROUGH) || geteuid() != 0)
		features_set(f, FEATURE_PASSTHROUGH, false);
	if (iov->iov_len < sizeof(*out) || out->major != 7)
		return;
	/* libfuse asks for REQUEST_MAX_BYTES at most. */
	if (rs->offered.flags & FUSE_MAX_PAGES) {
		out->max_write = (uint32_t)rs->receiver.write_max;
		out->max_pages = (uint16_t)(rs->receiver.write_max / 4096);
	}
	/* libfuse 3.14 does not pass it on: a lookup that waits would hold up all others there. */
	out->flags |= rs->offered.flags & FUSE_PARALLEL_DIROPS;
	if (!(rs->offered.flags & WIRE_INIT_EXT))
		return;
	if (feature(f, FEATURE_DIRECT_MMAP))
		flags2 |= WIRE2_DIRECT_IO_ALLOW_MMAP;
	if (feature_untried(f, FEATURE_PASSTHROUGH)) {
		flags2 |= WIRE2_PASSTHROUGH;
		out->max_stack_depth = 1;
		if (out->minor < WIRE_PASSTHROUGH_MINOR)
			out->minor = WIRE_PASSTHROUGH_MINOR;
	}
	out->flags |= WIRE_INIT_EXT;
	out->flags2 |= flags2;
	rs->negotiated.direct_mmap = flags2 & WIRE2_DIRECT_IO_ALLOW_MMAP;
	rs->negotiated.passthrough = flags2 & WIRE2_PASSTHROUGH;
}

struct negotiated requests_negotiated(struct requests *rs)
{
	return rs->negotiated;
}

static ssize_t io_writev(int fd, struct iovec *iov, int count, void *userdata)
{
	struct fs *fs = userdata;
	struct fuse_out_header *out = iov[0].iov_base;
	struct request *r = request_current;

	if (r && out->unique == r->unique) {
		r->reply_error = out->error;
		if (!r->decided && atomic_exchange(&r->answered, true)) {
			open_extra.set = false;
			errno = ENOENT;
			return -1;
		}
		if (!r->decided)
			wait_interrupt(&r->call); /* the rest of the call waits for nothing */
		if (r->opcode == FUSE_INIT && count > 1 && !out->error)
			patch_init(fs->requests, &iov[count - 1]);
		else if (open_extra.set && count > 1)
			patch_open(&iov[count - 1]);
	}
	return writev(fd, iov, count);
}

static ssize_t io_read(int fd, void *buf, size_t len, void *userdata)
{
	(void)userdata;
	return read(fd, buf, len);
}

const struct fuse_custom_io requests_io = {.writev = io_writev, .read = io_read};
