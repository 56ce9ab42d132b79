/* SPDX-License-Identifier: MIT */
#include "fs/requests.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/ckptfs_abi.h"
#include "engine/base/cleanup.h"
#include "engine/base/wait.h"
#include "fs/fs.h"
#include "fs/data.h"
#include "fs/late.h"
#include "fs/receive.h"
#include "fs/wire.h"

#define PAGE		4096u
#define BUFFER_BYTES	(REQUEST_MAX_BYTES + 2 * PAGE)
#define READ_BYTES	(REQUEST_MAX_BYTES + PAGE)
#define WATCHDOG_PERIOD (250 * NSEC_PER_MSEC)

/* How long the device may be left alone while its one attendant serves a request. */
#define ATTEND_NS NSEC_PER_MSEC
/* The watchdog sleeps deeply again after this long without a request. */
#define CALM_NS (100 * NSEC_PER_MSEC)
/* So many requests in a row that found another one waiting call for another thread. */
#define BACKLOG 4
/* So many WRITEs of pages, of 1 MiB at most, are taken over from processes that end. */
#define MAX_EARLY 64
/* So many buffers are kept for the next requests. */
#define MAX_FREE    8
#define STACK_BYTES (512u << 10)

struct request {
	struct list link; /* lock: set; on active, queued or free */
	/* const while in flight */
	uint64_t unique, nodeid, started_ns;
	uint32_t opcode, uid, gid;
	int32_t pid;
	size_t len;
	uint64_t interrupted_ns;   /* lock: set; 0 = not */
	bool queued;		   /* lock: set */
	bool stuck_told;	   /* owner: watchdog */
	bool abandoned;		   /* lock: set; answered EINTR while it ran */
	bool behind;		   /* pages for a file with a late call: wait for that (late.h) */
	uint64_t late;		   /* lock: set; the node on which it counts as late, 0 = none */
	struct interruptible call; /* what its thread waits for ends when it is given up */
	struct handle *
		held; /* lock: set, before `answered`; which it needs though the kernel may release it */
	atomic_bool answered; /* whoever sets it first may reply */
	bool decided;	      /* owner: serving thread; who has set it itself, and will reply */
	int reply_error;      /* owner: serving thread */
	struct content_landing
		landing; /* owner: serving thread; has the data of a WRITE, not mem */
	char *mem;	 /* where the message starts, so that data of a WRITE is page-aligned */
};

struct requests {
	struct fs *fs;
	struct fuse_session *se;      /* const while serving */
	int fd;			      /* const while serving */
	struct negotiated negotiated; /* owner: the thread of INIT; const once ready */
	struct wire_init_out offered; /* owner: the thread of INIT; what the kernel offered */
	void (*ready)(struct fs *fs, int err);
	struct lock lock;
	struct waitq changed;		  /* a thread ended, or serving ends */
	struct list active, queued, free; /* lock */
	struct waitq called;		  /* a parked thread is wanted */
	/* lock; threads: in all, at the device or on the way, parked, of those called */
	unsigned nr_threads, idle, parked, calls;
	unsigned in_flight, backlog; /* lock */
	unsigned nr_free, nr_early;  /* lock; of `free`; WRITEs of pages answered in advance */
	uint64_t unattended_ns;	     /* lock; since when nobody is at the device, 0 = somebody is */
	uint64_t last_ns;	     /* lock; the newest request's */
	struct receiver receiver;
	bool watching_closely;	   /* lock; the watchdog looks every ATTEND_NS */
	pid_t dying;		   /* lock; whose FLUSH was given up last, 0 = none */
	bool exited, threads_told; /* lock */
};

static __thread struct request *current;
static __thread struct {
	bool set;
	uint32_t flags;
	int backing_id;
} open_extra;

const char *request_op_name(unsigned opcode)
{
	static const char *const names[METRIC_OPS] = {
		[FUSE_LOOKUP] = "LOOKUP",
		[FUSE_FORGET] = "FORGET",
		[FUSE_GETATTR] = "GETATTR",
		[FUSE_SETATTR] = "SETATTR",
		[FUSE_READLINK] = "READLINK",
		[FUSE_SYMLINK] = "SYMLINK",
		[FUSE_MKNOD] = "MKNOD",
		[FUSE_MKDIR] = "MKDIR",
		[FUSE_UNLINK] = "UNLINK",
		[FUSE_RMDIR] = "RMDIR",
		[FUSE_RENAME] = "RENAME",
		[FUSE_LINK] = "LINK",
		[FUSE_OPEN] = "OPEN",
		[FUSE_READ] = "READ",
		[FUSE_WRITE] = "WRITE",
		[FUSE_STATFS] = "STATFS",
		[FUSE_RELEASE] = "RELEASE",
		[FUSE_FSYNC] = "FSYNC",
		[FUSE_SETXATTR] = "SETXATTR",
		[FUSE_GETXATTR] = "GETXATTR",
		[FUSE_LISTXATTR] = "LISTXATTR",
		[FUSE_REMOVEXATTR] = "REMOVEXATTR",
		[FUSE_FLUSH] = "FLUSH",
		[FUSE_INIT] = "INIT",
		[FUSE_OPENDIR] = "OPENDIR",
		[FUSE_READDIR] = "READDIR",
		[FUSE_RELEASEDIR] = "RELEASEDIR",
		[FUSE_FSYNCDIR] = "FSYNCDIR",
		[FUSE_ACCESS] = "ACCESS",
		[FUSE_CREATE] = "CREATE",
		[FUSE_IOCTL] = "IOCTL",
		[FUSE_FALLOCATE] = "FALLOCATE",
		[FUSE_RENAME2] = "RENAME2",
		[FUSE_LSEEK] = "LSEEK",
		[FUSE_COPY_FILE_RANGE] = "COPY_FILE_RANGE",
	};

	return opcode < METRIC_OPS ? names[opcode] : NULL;
}

static const char *op_name(unsigned opcode)
{
	const char *name = request_op_name(opcode);

	return name ? name : "request";
}

/* --- request buffers --- */

static struct request *request_alloc(void)
{
	struct request *r = calloc(1, sizeof(*r));
	char *base;

	if (!r)
		return NULL;
	base = mmap(NULL, BUFFER_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (base == MAP_FAILED) {
		free(r);
		return NULL;
	}
	r->mem = base + PAGE - WIRE_WRITE_HEADER;
	list_init(&r->link);
	return r;
}

static void request_free(struct request *r)
{
	munmap(r->mem - (PAGE - WIRE_WRITE_HEADER), BUFFER_BYTES);
	free(r);
}

bool request_is_behind(void)
{
	return current && current->behind;
}

bool request_decide(void)
{
	struct request *r = current;

	if (r && !r->decided)
		r->decided = !atomic_exchange(&r->answered, true);
	return !r || r->decided;
}

/* From here on the data of the WRITE is in the request's buffer, as usual. */
static void copy_out(struct request *r)
{
	if (!r->landing.content)
		return;
	content_copy_landed(&r->landing, r->mem + WIRE_WRITE_HEADER, r->len - WIRE_WRITE_HEADER);
	content_leave(&r->landing);
}

bool request_take_landed(const struct content *ct)
{
	struct request *r = current;
	bool taken;

	if (!r || !r->landing.content)
		return false;
	taken = r->landing.content == ct &&
		content_take_landed(&r->landing, r->len - WIRE_WRITE_HEADER);
	if (taken)
		content_leave(&r->landing);
	else
		copy_out(r);
	return taken;
}

void request_copy_out(void)
{
	if (current)
		copy_out(current);
}

void requests_expect(struct requests *rs, struct content *ct, uint64_t off)
{
	if (current)
		receive_expect(&rs->receiver, ct, current->nodeid, off);
}

void *requests_data_buffer(void)
{
	return current->mem + WIRE_WRITE_HEADER;
}

static struct request *take_buffer_locked(struct requests *rs)
{
	struct list *l = rs->free.next;

	if (l == &rs->free)
		return request_alloc();
	list_del(l);
	rs->nr_free--;
	return container_of(l, struct request, link);
}

static void give_buffer_locked(struct requests *rs, struct request *r)
{
	if (rs->nr_free == MAX_FREE) {
		request_free(r);
		return;
	}
	rs->nr_free++;
	list_push(&rs->free, &r->link);
}

/* Ends a request's stay; its buffer serves the next one. */
static void retire_locked(struct requests *rs, struct request *r)
{
	list_del(&r->link);
	rs->in_flight--;
	give_buffer_locked(rs, r);
}

/* --- replies --- */

/* A reply of a header alone, bypassing libfuse. The kernel may know the request no more. */
static void reply_raw(struct requests *rs, uint64_t unique, int error)
{
	struct fuse_out_header out = {.len = sizeof(out), .error = error, .unique = unique};

	if (write(rs->fd, &out, sizeof(out)) < 0 && errno != ENOENT && errno != ENODEV)
		log_debug("reply %d to request %llu: %m", error, (unsigned long long)unique);
}

void requests_open_extra(uint32_t flags, int backing_id)
{
	open_extra.set = true;
	open_extra.flags = flags;
	open_extra.backing_id = backing_id;
}

/* The open_out is the end of the reply's last piece, alone (OPEN) or behind an entry (CREATE). */
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

/* Asks for what the kernel offered and libfuse does not know of. */
static void patch_init(struct requests *rs, struct iovec *iov)
{
	struct features *f = &rs->fs->engine->backing.features;
	struct wire_init_out *out = iov->iov_base;
	uint32_t flags2 = 0;

	features_set(f, FEATURE_DIRECT_MMAP, rs->offered.flags2 & WIRE2_DIRECT_IO_ALLOW_MMAP);
	if (!(rs->offered.flags2 & WIRE2_PASSTHROUGH) || geteuid() != 0)
		features_set(f, FEATURE_PASSTHROUGH, false);
	if (iov->iov_len < sizeof(*out) || out->major != 7 || !(rs->offered.flags & WIRE_INIT_EXT))
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
	struct request *r = current;

	if (r && out->unique == r->unique) {
		r->reply_error = out->error;
		if (!r->decided && atomic_exchange(&r->answered, true)) {
			open_extra.set = false;
			errno = ENOENT;
			return -1;
		}
		if (!r->decided)
			wait_interrupt(&r->call); /* what follows waits for nothing */
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

/* --- interruption --- */

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
 * A request that another thread has read but not yet listed is unknown here: EAGAIN has the kernel
 * send the INTERRUPT again, and is ignored for a request that was answered meanwhile.
 */
static void serve_interrupt(struct requests *rs, const struct request *interrupt)
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

/* Is the process on its way out? All of its memory is gone then; statm blocks on nothing. */
static bool is_exiting(pid_t pid)
{
	char path[64], text[128];
	ssize_t n;
	__cleanup_fd int fd = -1;

	snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return kill(pid, 0) && errno == ESRCH; /* or /proc does not show it to us */
	n = read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return true;
	text[n] = '\0';
	return !strncmp(text, "0 0 0 ", 6);
}

struct request_facts {
	uint64_t nodeid;
	unsigned opcode;
	pid_t pid;
	uid_t uid;
	double waited;
};

static void tell_waiting(struct requests *rs, const struct request_facts *w, bool abandoned)
{
	char path[PATH_MAX], text[MESSAGE_MAX];
	const char *op = op_name(w->opcode);

	tree_path(rs->fs->tree, w->nodeid, NULL, path, sizeof(path));
	if (abandoned)
		MESSAGE(text, OP_ABANDONED, op, path, w->pid, w->waited);
	else
		MESSAGE(text, OP_STUCK, op, path, w->pid, w->waited, rs->fs->engine->backing.path);
	failures_add(rs->fs->engine->failures, w->uid, op, path, abandoned ? EINTR : ETIMEDOUT,
		     text);
}

/* A WRITE of dirty pages of a mapping, in nobody's name. */
static bool is_page_write(const struct request *r)
{
	const struct fuse_write_in *in = (const void *)(r->mem + sizeof(struct fuse_in_header));

	return r->opcode == FUSE_WRITE && r->len >= WIRE_WRITE_HEADER &&
	       in->write_flags & FUSE_WRITE_CACHE;
}

static bool due(struct request *r, uint64_t now, uint64_t *waited)
{
	*waited = now - r->started_ns;
	if (r->interrupted_ns)
		return now - r->interrupted_ns >= INTERRUPT_GRACE_NS;
	/* A killed process closes its files without a signal to send INTERRUPT for. */
	return r->opcode == FUSE_FLUSH && *waited >= INTERRUPT_GRACE_NS && r->pid &&
	       is_exiting(r->pid);
}

/* The node whose data @r changes, 0 if it changes none. */
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

/* Before the kernel is told that @r ended. */
static void mark_late_locked(struct requests *rs, struct request *r)
{
	r->late = changes_data_of(r);
	if (r->late)
		late_began(rs->fs->tree, r->late);
}

/*
 * A WRITE of pages that takes too long counts as done: see late.h. While one is late, the next ones
 * count so at once: a process that ends writes the pages of its files in turn.
 */
static void answer_page_write_locked(struct requests *rs, struct request *r)
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
		return; /* its server will say so */
	rs->nr_early++;
	if (atomic_exchange(&r->answered, true))
		return; /* it ended just now, and gives the handle back */
	mark_late_locked(rs, r);
	if (write(rs->fd, &out, sizeof(out)) < 0)
		log_debug("reply to a write of pages: %m");
}

/* Answers @r before it is served, unless it was answered. */
static bool give_up_locked(struct requests *rs, struct request *r)
{
	const struct fuse_flush_in *flush = (const void *)(r->mem + sizeof(struct fuse_in_header));

	if (atomic_exchange(&r->answered, true))
		return false;
	r->abandoned = true;
	/* A WRITE of pages that was answered in advance goes on: nobody else has them. */
	wait_interrupt(&r->call);
	if (r->opcode == FUSE_FLUSH) {
		rs->dying = r->pid;
		data_judge(rs->fs, flush->fh, flush->lock_owner, r->pid);
	}
	atomic_fetch_add(&rs->fs->engine->metrics.interrupted, 1);
	if (!r->queued)
		mark_late_locked(rs, r);
	reply_raw(rs, r->unique, -EINTR);
	return true;
}

/* Looks after one request; returns true when there is something to tell about it. */
static bool watch_one_locked(struct requests *rs, struct request *r, uint64_t now, bool *abandoned)
{
	uint64_t waited;

	*abandoned = false;
	if (atomic_load(&r->answered))
		return false;
	if (is_page_write(r))
		answer_page_write_locked(rs, r);
	if (due(r, now, &waited) && give_up_locked(rs, r)) {
		*abandoned = true;
		if (r->queued) {
			r->queued = false;
			atomic_fetch_sub(&rs->fs->engine->metrics.queued, 1);
			retire_locked(rs, r);
		}
		return true;
	}
	if (waited >= STUCK_AFTER_NS && !r->stuck_told) {
		r->stuck_told = true;
		return true;
	}
	return false;
}

/* One round over everything in flight. Returns false when there is nothing left to tell. */
static bool watch_round(struct requests *rs, struct request_facts *w, bool *abandoned)
{
	struct list *heads[] = {&rs->active, &rs->queued}, *l, *tmp;
	uint64_t now;
	size_t i;
	LOCK_SCOPE(&rs->lock);

	now = clock_mono_ns(); /* not before the lock: no request may be younger than it */
	for (i = 0; i < ARRAY_SIZE(heads); i++) {
		list_for_each_safe (l, tmp, heads[i]) {
			struct request *r = container_of(l, struct request, link);
			struct request_facts facts = {
				.nodeid = r->nodeid,
				.opcode = r->opcode,
				.pid = r->pid,
				.uid = r->uid,
				.waited = (double)(now - r->started_ns) / NSEC_PER_SEC,
			};

			if (watch_one_locked(rs, r, now, abandoned)) {
				*w = facts;
				return true;
			}
		}
	}
	return false;
}

/* --- the loop --- */

static void *server_main(void *arg);
static bool start_server_locked(struct requests *rs, unsigned most);

/* Sends one more thread to the device; it counts as there at once. */
static bool call_attendant_locked(struct requests *rs)
{
	if (rs->parked == rs->calls)
		return start_server_locked(rs, MAX_THREADS);
	rs->calls++;
	rs->idle++;
	rs->unattended_ns = 0;
	waitq_wake(&rs->called);
	return true;
}

/* The new thread counts as idle at once: it goes to the device first. */
static bool start_server_locked(struct requests *rs, unsigned most)
{
	int err;

	if (rs->nr_threads >= most)
		return false;
	err = worker_start_detached("ckptfs-serve", STACK_BYTES, server_main, rs);
	if (err) {
		char text[MESSAGE_MAX];

		if (!rs->threads_told) {
			MESSAGE(text, THREADS, strerror(-err));
			log_warn("%s", text);
		}
		rs->threads_told = true;
		return false;
	}
	rs->nr_threads++;
	rs->idle++;
	rs->unattended_ns = 0;
	rs->fs->engine->metrics.threads = rs->nr_threads;
	return true;
}

static void note_init(struct requests *rs, const struct request *r)
{
	const struct fuse_init_in *in = (const void *)(r->mem + sizeof(struct fuse_in_header));

	rs->offered.flags = in->flags;
	/* Before 7.36 the message ends behind `flags`. */
	if (r->len >= sizeof(struct fuse_in_header) + offsetof(struct fuse_init_in, flags2) + 4)
		rs->offered.flags2 = in->flags2;
}

static void note_header(struct request *r, size_t len)
{
	const struct fuse_in_header *in = (const void *)r->mem;

	r->unique = in->unique;
	r->opcode = in->opcode;
	r->nodeid = in->nodeid;
	r->pid = (int32_t)in->pid;
	r->uid = in->uid;
	r->gid = in->gid;
	r->len = len;
	r->started_ns = clock_mono_ns();
	r->interrupted_ns = 0;
	r->queued = r->stuck_told = r->abandoned = r->behind = false;
	r->late = 0;
	interruptible_init(&r->call);
	r->held = NULL;
	r->decided = false;
	r->reply_error = 0;
	atomic_store(&r->answered, false);
}

/* Reads one message. Returns false at the end of the filesystem. */
static bool receive_request(struct requests *rs, struct request *r, bool look)
{
	ssize_t n = receive(&rs->receiver, r->mem, READ_BYTES, look, &r->landing);

	if (n > 0) {
		note_header(r, (size_t)n);
		return true;
	}
	if (n != -ENODEV && n != -ECONNABORTED)
		log_error("reading requests: %s", strerror((int)-n));
	return false;
}

enum next { NEXT_SERVE, NEXT_AGAIN, NEXT_END };

/* This thread serves @r from here on, and is woken if that is given up. */
static void activate_locked(struct requests *rs, struct request *r)
{
	wait_serve(&r->call);
	list_append(&rs->active, &r->link);
}

/* A queued request for a thread that is free. */
static struct request *take_queued_locked(struct requests *rs)
{
	struct list *l = rs->queued.next;
	struct request *r;

	if (l == &rs->queued)
		return NULL;
	r = container_of(l, struct request, link);
	list_del(l);
	activate_locked(rs, r);
	r->queued = false;
	atomic_fetch_sub(&rs->fs->engine->metrics.queued, 1);
	return r;
}

/* One attendant is enough: others wait here until called, or for a queued request. */
static void park_locked(struct requests *rs, bool *at_device)
{
	rs->parked++;
	while (!rs->exited && !rs->calls && list_empty(&rs->queued))
		wait_out(&rs->called, CLOCK_NEVER);
	rs->parked--;
	if (rs->exited || !rs->calls)
		return;
	rs->calls--;
	if (rs->idle > 1 && !list_empty(&rs->queued))
		rs->idle--; /* somebody is there already: serve what is queued */
	else
		*at_device = true; /* and counted, by who called */
}

/* The way of a free thread: its end, a queued request, parking, or the device. */
static enum next find_work_locked(struct requests *rs, struct request **out, bool *at_device)
{
	while (!*at_device) {
		/* One more than that serves what wakes others, and nothing that may wait. */
		bool surplus = rs->nr_threads > MAX_THREADS;

		if (surplus && rs->idle)
			return NEXT_END;
		*out = surplus ? NULL : take_queued_locked(rs);
		if (*out)
			return NEXT_SERVE;
		if (rs->exited)
			return NEXT_END;
		if (rs->idle) {
			park_locked(rs, at_device);
			continue;
		}
		rs->idle++;
		rs->unattended_ns = 0;
		*at_device = true;
	}
	return NEXT_AGAIN;
}

/*
 * What a trainer tells of its captures, or asks for, wakes those who wait for their bytes: were it to wait behind
 * as many of these as there are threads, they would wait for each other.
 */
static unsigned most_threads(const struct request *r)
{
	const struct fuse_ioctl_in *in = (const void *)(r->mem + sizeof(struct fuse_in_header));

	if (r->opcode != FUSE_IOCTL || r->len < sizeof(struct fuse_in_header) + sizeof(*in))
		return MAX_THREADS;
	switch (in->cmd) {
	case CKPTFS_IOC_REGISTER:
	case CKPTFS_IOC_UNREGISTER:
	case CKPTFS_IOC_NEXT:
	case CKPTFS_IOC_FAIL:
	case CKPTFS_IOC_BARRIER:
	case CKPTFS_IOC_STATS:
		return MAX_THREADS + SESSIONS_MAX;
	}
	return MAX_THREADS;
}

/*
 * The attendant has read @r: may it serve it? Mostly it goes without a successor, which is cheaper
 * than waking one: it is back in microseconds, and if not, the watchdog sends one.
 */
static bool leave_device_locked(struct requests *rs, struct request *r, bool more)
{
	rs->last_ns = r->started_ns;
	/* Only a parked thread can be had for certain when it is needed; with none, start one now. */
	if (rs->idle == 1 && rs->parked == rs->calls && !start_server_locked(rs, most_threads(r)))
		return false;
	if (--rs->idle)
		return true;
	rs->unattended_ns = r->started_ns;
	rs->backlog = more ? rs->backlog + 1 : 0;
	if (rs->backlog >= BACKLOG) {
		rs->backlog = 0;
		call_attendant_locked(rs);
	} else if (!rs->watching_closely) {
		waitq_wake_all(&rs->changed);
	}
	return true;
}

/*
 * Fetches this thread's next request: a queued one, else from the device. NEXT_AGAIN: this thread
 * has to stay at the device and has queued what it read.
 */
static enum next next_request(struct requests *rs, struct request **out, bool *at_device)
{
	struct request *r;
	enum next next;
	bool more, stays = *at_device;
	{
		LOCK_SCOPE(&rs->lock);
		next = find_work_locked(rs, out, at_device);
		if (next != NEXT_AGAIN)
			return next;
		r = take_buffer_locked(rs);
	}
	if (!r) { /* no memory now */
		wait_ns(10 * NSEC_PER_MSEC);
		return NEXT_AGAIN;
	}
	if (!receive_request(rs, r, !stays)) {
		LOCK_SCOPE(&rs->lock);
		rs->exited = true;
		give_buffer_locked(rs, r);
		waitq_wake_all(&rs->changed);
		waitq_wake_all(&rs->called);
		return NEXT_END;
	}
	if (r->opcode == FUSE_INTERRUPT) {
		serve_interrupt(rs, r);
		LOCK_SCOPE(&rs->lock);
		give_buffer_locked(rs, r);
		return NEXT_AGAIN;
	}
	more = receive_more(&rs->receiver);
	LOCK_SCOPE(&rs->lock);
	rs->in_flight++;
	/* The second of many files that it had open: do not make it wait for each in turn. */
	if (r->opcode == FUSE_FLUSH && r->pid && r->pid == rs->dying && is_exiting(r->pid) &&
	    give_up_locked(rs, r)) {
		retire_locked(rs, r);
		return NEXT_AGAIN;
	}
	r->behind = is_page_write(r) && late_any(rs->fs->tree, r->nodeid);
	if (is_page_write(r) && rs->nr_early)
		answer_page_write_locked(rs, r);
	if (!leave_device_locked(rs, r, more)) {
		/* It may wait for long. Nobody knows of @r yet, and this thread still is at the device. */
		lock_drop(&rs->lock);
		copy_out(r);
		lock_take(&rs->lock);
		r->queued = true;
		list_append(&rs->queued, &r->link);
		atomic_fetch_add(&rs->fs->engine->metrics.queued, 1);
		return NEXT_AGAIN;
	}
	*at_device = false;
	activate_locked(rs, r);
	*out = r;
	return NEXT_SERVE;
}

static void tell_late(struct requests *rs, const struct request_facts *w, int reply_error)
{
	char path[PATH_MAX], text[MESSAGE_MAX];

	tree_path(rs->fs->tree, w->nodeid, NULL, path, sizeof(path));
	MESSAGE(text, OP_LATE, op_name(w->opcode), path, w->waited,
		reply_error ? strerror(-reply_error) : "it took effect");
	log_warn("%s", text);
}

static void serve(struct requests *rs, struct request *r)
{
	struct fuse_buf buf = {.mem = r->mem, .size = r->len};
	struct request_facts facts = {.nodeid = r->nodeid, .opcode = r->opcode, .pid = r->pid};
	struct caller caller = {.uid = r->uid, .gid = r->gid, .pid = r->pid};
	bool init = r->opcode == FUSE_INIT, abandoned;
	struct handle *held;
	int reply_error;
	uint64_t took, late;

	if (init)
		note_init(rs, r);
	current = r;
	failures_begin();
	creds_on_behalf(&caller);
	creds_become(&caller);
	fuse_session_process_buf(rs->se, &buf);
	current = NULL;
	wait_serve(NULL);
	content_leave(&r->landing);
	took = clock_mono_ns() - r->started_ns;
	metrics_request(&rs->fs->engine->metrics, r->opcode, took, r->reply_error != 0);
	reply_error = r->reply_error;
	{
		LOCK_SCOPE(&rs->lock);
		abandoned = r->abandoned;
		late = r->late;
		held = r->held;
		if (held)
			rs->nr_early--;
		retire_locked(rs, r);
	}
	if (late)
		late_ended(rs->fs->tree, late);
	if (held)
		finish_handle(rs->fs, held);
	creds_on_behalf(NULL);
	if (init && rs->ready)
		rs->ready(rs->fs, reply_error);
	facts.waited = (double)took / NSEC_PER_SEC;
	if (abandoned)
		tell_late(rs, &facts, reply_error);
}

static void *server_main(void *arg)
{
	struct requests *rs = arg;
	struct request *r;
	bool at_device = true; /* counted as idle by who started it */
	enum next next;

	while ((next = next_request(rs, &r, &at_device)) != NEXT_END)
		if (next == NEXT_SERVE)
			serve(rs, r);
	LOCK_SCOPE(&rs->lock);
	if (at_device)
		rs->idle--;
	rs->nr_threads--;
	waitq_wake_all(&rs->changed);
	return NULL;
}

/*
 * Waits until it is time to look again: often while requests come, so that a device left alone by
 * an attendant that the backing holds gets another one.
 */
static void watchdog_sleep_locked(struct requests *rs)
{
	uint64_t now = clock_mono_ns(), period;

	rs->watching_closely = now - rs->last_ns < CALM_NS;
	period = rs->watching_closely ? ATTEND_NS : WATCHDOG_PERIOD;
	if (!rs->exited || rs->nr_threads)
		wait_out(&rs->changed, now + period);
	if (rs->unattended_ns && !rs->exited && clock_mono_ns() - rs->unattended_ns >= ATTEND_NS)
		call_attendant_locked(rs);
}

static void *watchdog_main(void *arg)
{
	struct requests *rs = arg;
	struct request_facts w;
	uint64_t next_round = 0;
	bool abandoned, exited = false;

	while (!exited) {
		if (clock_mono_ns() >= next_round) {
			while (watch_round(rs, &w, &abandoned))
				tell_waiting(rs, &w, abandoned);
			next_round = clock_mono_ns() + WATCHDOG_PERIOD / 2;
		}
		LOCK_SCOPE(&rs->lock);
		watchdog_sleep_locked(rs);
		exited = rs->exited && !rs->nr_threads;
	}
	return NULL;
}

struct requests *requests_create(struct fs *fs)
{
	struct requests *rs = calloc(1, sizeof(*rs));

	if (!rs)
		return NULL;
	rs->fs = fs;
	lock_init(&rs->lock, LOCK_REQUESTS);
	waitq_init(&rs->changed, &rs->lock);
	waitq_init(&rs->called, &rs->lock);
	receiver_init(&rs->receiver);
	list_init(&rs->active);
	list_init(&rs->queued);
	list_init(&rs->free);
	return rs;
}

void requests_destroy(struct requests *rs)
{
	struct list *l, *tmp;

	if (!rs)
		return;
	list_for_each_safe (l, tmp, &rs->queued)
		request_free(container_of(l, struct request, link));
	list_for_each_safe (l, tmp, &rs->free)
		request_free(container_of(l, struct request, link));
	receiver_finish(&rs->receiver);
	lock_finish(&rs->lock);
	free(rs);
}

/* Waits until no thread is left, at most @drain_s after the end was seen. */
static int wait_for_end(struct requests *rs, int drain_s)
{
	uint64_t until;
	int err = 0;
	LOCK_SCOPE(&rs->lock);

	while (!rs->exited)
		wait_out(&rs->changed, CLOCK_NEVER);
	until = clock_mono_ns() + (uint64_t)drain_s * NSEC_PER_SEC;
	while (rs->nr_threads && !err)
		err = wait_out(&rs->changed, until);
	return rs->nr_threads ? -EBUSY : 0;
}

int requests_serve(struct requests *rs, struct fuse_session *se,
		   void (*ready)(struct fs *fs, int err), int drain_s)
{
	struct worker watchdog;
	bool started;
	int err;

	rs->se = se;
	rs->fd = rs->receiver.fd = fuse_session_fd(se);
	fcntl(rs->fd, F_SETFL, fcntl(rs->fd, F_GETFL) | O_NONBLOCK);
	rs->ready = ready;
	err = worker_start(&watchdog, "ckptfs-watchdog", watchdog_main, rs);
	if (err)
		return err;
	{
		LOCK_SCOPE(&rs->lock);
		started = start_server_locked(rs, MAX_THREADS) &&
			  start_server_locked(rs, MAX_THREADS); /* one serves, one is called */
		rs->exited = !rs->nr_threads;
	}
	if (!started)
		ready(rs->fs, -EAGAIN); /* which unmounts, and so ends the one there may be */
	err = wait_for_end(rs, drain_s);
	if (err)
		return err; /* the watchdog still looks after those that are left */
	worker_join(&watchdog);
	return started ? 0 : -EAGAIN;
}

/* --- for status --- */

json_t *requests_to_json(struct requests *rs)
{
	struct request_facts facts[16];
	uint64_t now, oldest;
	struct list *heads[] = {&rs->active, &rs->queued}, *l;
	json_t *waiting = json_array();
	unsigned in_flight, threads, nr = 0;
	size_t i;
	{
		LOCK_SCOPE(&rs->lock);
		oldest = now = clock_mono_ns();
		in_flight = rs->in_flight;
		threads = rs->nr_threads;
		for (i = 0; i < ARRAY_SIZE(heads); i++) {
			list_for_each (l, heads[i]) {
				struct request *r = container_of(l, struct request, link);

				if (r->started_ns < oldest)
					oldest = r->started_ns;
				if (nr < ARRAY_SIZE(facts) && now - r->started_ns > NSEC_PER_SEC)
					facts[nr++] = (struct request_facts){
						r->nodeid, r->opcode, r->pid, r->uid,
						(double)(now - r->started_ns) / NSEC_PER_SEC};
			}
		}
	}
	for (i = 0; i < nr; i++) {
		char path[PATH_MAX];

		tree_path(rs->fs->tree, facts[i].nodeid, NULL, path, sizeof(path));
		json_array_append_new(waiting,
				      json_pack("{s:s, s:o, s:i, s:f}", "op",
						op_name(facts[i].opcode), "path", json_text(path),
						"pid", facts[i].pid, "age_s", facts[i].waited));
	}
	return json_pack("{s:i, s:I, s:i, s:f, s:o}", "in_flight", in_flight, "queued",
			 (json_int_t)rs->fs->engine->metrics.queued, "threads", threads, "oldest_s",
			 (double)(now - oldest) / NSEC_PER_SEC, "waiting", waiting);
}
