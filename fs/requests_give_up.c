/* SPDX-License-Identifier: MIT */
/*
 * Requests that are answered in place of the serving thread: those that a signal ends, that take
 * too long, or whose process ends (requests.h says how those go on). Functions ..._locked run under
 * the lock of struct requests, which is held across a reply without data.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/list.h"
#include "engine/base/lock.h"
#include "engine/base/log.h"
#include "engine/base/wait.h"
#include "fs/data.h"
#include "fs/fs.h"
#include "fs/late_call.h"
#include "fs/requests_inside.h"

/* At most so many WRITEs of pages, each in its buffer, are taken over from processes that end. */
#define MAX_EARLY 64

/* Replies a header alone, bypassing libfuse. The kernel may have forgotten the request. */
static void reply_raw(struct requests *rs, uint64_t unique, int error)
{
	struct fuse_out_header out = {.len = sizeof(out), .error = error, .unique = unique};

	if (write(rs->fd, &out, sizeof(out)) < 0 && errno != ENOENT && errno != ENODEV)
		log_debug("reply %d to request %llu: %m", error, (unsigned long long)unique);
}

static struct request *find_request_locked(struct requests *rs, uint64_t unique)
{
	struct list *l;

	list_for_each (l, &rs->active) {
		struct request *r = container_of(l, struct request, link);

		if (r->unique == unique)
			return r;
	}
	list_for_each (l, &rs->queued) {
		struct request *r = container_of(l, struct request, link);

		if (r->unique == unique)
			return r;
	}
	return NULL;
}

/*
 * A request that another thread has read but not yet listed is unknown here. EAGAIN has the kernel
 * send the INTERRUPT again; the kernel ignores it for a request that was answered meanwhile.
 */
void requests_serve_interrupt(struct requests *rs, const struct request *interrupt)
{
	const struct fuse_interrupt_in *in =
		(const void *)(interrupt->mem + sizeof(struct fuse_in_header));
	bool known = false;
	{
		LOCK_SCOPE(&rs->lock);
		struct request *r = find_request_locked(rs, in->unique);

		if (r && !r->interrupted_ns)
			r->interrupted_ns = clock_mono_ns();
		known = r;
	}
	if (!known)
		reply_raw(rs, interrupt->unique, -EAGAIN);
}

/* An exiting process has no memory any more. Reading statm blocks on nothing. */
bool requests_is_exiting(pid_t pid)
{
	char path[64], text[128];
	ssize_t n;
	__cleanup_fd int fd = -1;

	snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return kill(pid, 0) && errno == ESRCH; /* else /proc hides it */
	n = read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return true;
	text[n] = '\0';
	return !strncmp(text, "0 0 0 ", 6);
}

bool request_is_page_write(const struct request *r)
{
	const struct fuse_write_in *in = (const void *)(r->mem + sizeof(struct fuse_in_header));

	return r->opcode == FUSE_WRITE && r->len >= WIRE_WRITE_HEADER &&
	       in->write_flags & FUSE_WRITE_CACHE;
}

/* The node whose data @r changes; 0: none. */
static uint64_t changes_data_of(const struct request *r)
{
	const struct fuse_copy_file_range_in *copy =
		(const void *)(r->mem + sizeof(struct fuse_in_header));
	const struct fuse_open_in *open = (const void *)copy;

	switch (r->opcode) {
	case FUSE_WRITE:
	case FUSE_SETATTR:
	case FUSE_FALLOCATE:
		return r->nodeid;
	case FUSE_OPEN:
		return open->flags & O_TRUNC ? r->nodeid : 0;
	case FUSE_COPY_FILE_RANGE:
		return copy->nodeid_out;
	default:
		return 0;
	}
}

/* Call before the kernel is told that @r ended. */
static void mark_late_locked(struct requests *rs, struct request *r)
{
	r->late = changes_data_of(r);
	if (r->late)
		late_call_began(rs->fs->tree, r->late);
}

/*
 * Answers a WRITE of pages that takes too long as if it were done: see late_call.h. While one is
 * late, answers the next ones at once: a process that ends writes the pages of its files in turn.
 */
void request_answer_page_write_locked(struct requests *rs, struct request *r)
{
	const struct fuse_write_in *in = (const void *)(r->mem + sizeof(struct fuse_in_header));
	uint64_t waited = clock_mono_ns() - r->started_ns;
	struct {
		struct fuse_out_header header;
		struct fuse_write_out write;
	} out = {{sizeof(out), 0, r->unique}, {.size = in->size}};

	if (r->behind || rs->nr_early == MAX_EARLY ||
	    (!rs->nr_early && waited < INTERRUPT_GRACE_NS))
		return;
	r->held = handle_get(rs->fs->tree, in->fh);
	if (!r->held)
		return; /* the serving thread will say so */
	rs->nr_early++;
	if (atomic_exchange(&r->answered, true))
		return; /* it ended just now; its thread gives the handle back */
	mark_late_locked(rs, r);
	if (write(rs->fd, &out, sizeof(out)) < 0)
		log_debug("reply to a write of pages: %m");
}

bool request_give_up_locked(struct requests *rs, struct request *r)
{
	const struct fuse_flush_in *flush = (const void *)(r->mem + sizeof(struct fuse_in_header));

	if (atomic_exchange(&r->answered, true))
		return false;
	r->abandoned = true;
	/* Pages that were answered in advance go on: only their WRITE has them. */
	wait_interrupt(&r->call);
	if (r->opcode == FUSE_FLUSH) {
		rs->dying = r->pid;
		data_note_exit(rs->fs, flush->fh, flush->lock_owner, r->pid);
	}
	atomic_fetch_add(&rs->fs->engine->metrics.interrupted, 1);
	if (!r->queued)
		mark_late_locked(rs, r);
	reply_raw(rs, r->unique, -EINTR);
	return true;
}
