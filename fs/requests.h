/* SPDX-License-Identifier: MIT */
/*
 * The receive loop, and every request in flight.
 *
 * Threads read requests and serve them themselves, and block in the backing if need be. One thread,
 * the attendant, always stays at the device. When all others are busy, the attendant only queues
 * what arrives, for the first thread that is free. So an INTERRUPT is always read, however many
 * requests a frozen backing holds.
 *
 * Interruption: a signal to a waiting program arrives as INTERRUPT. A local filesystem does not
 * return EINTR for a moment's work, so a request gets INTERRUPT_GRACE_NS to end by itself; then a
 * watchdog answers EINTR in its place. The thread that serves the request goes on, unseen. Its own
 * reply comes second and fails with -ENOENT, by which libfuse reports a reply that no process
 * received; then the handler takes back what it made. So a handler needs no code for interruption,
 * but what it uses must outlive it: it holds references on its node and handle (tree.h).
 *
 * A lock (requests_inside.h) guards the table; it is not held while a request is served.
 */
#ifndef FS_REQUESTS_H
#define FS_REQUESTS_H

#define FUSE_USE_VERSION 314
#include <fuse_lowlevel.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/clock.h"

#define INTERRUPT_GRACE_NS (500 * NSEC_PER_MSEC)
#define STUCK_AFTER_NS	   (10 * NSEC_PER_SEC)
#define REQUEST_MAX_BYTES  (1u << 20) /* of data in one READ, and in one WRITE by default */
#define WRITE_MAX_BYTES	   (4u << 20) /* of data in one WRITE, where the kernel allows it */
/* one for each call that waits, as many ranks do for a commit; more only for what wakes captures */
#define MAX_THREADS 128

/* The most pages in a request, for all mounts; 256 unless the administrator sets it. */
#define REQUEST_PAGES_LIMIT "/proc/sys/fs/fuse/max_pages_limit"

struct fs;
struct requests;

/* What was agreed with the kernel at INIT. */
struct negotiated {
	bool passthrough;
	bool direct_mmap;
};

/* @fs must outlive it. NULL: no memory. */
struct requests *requests_create(struct fs *fs);
void requests_destroy(struct requests *rs);

/*
 * Serves the session's device until the filesystem is unmounted or the connection aborted. A
 * serving thread calls @ready once, when INIT was answered (@err: refused). Then waits at most
 * @drain_s for requests that the backing still holds. 0; -errno: no thread could be started;
 * -EBUSY: requests are left, and only _exit is safe.
 */
int requests_serve(struct requests *rs, struct fuse_session *se,
		   void (*ready)(struct fs *fs, int err), int drain_s);

/* The session's custom_io, which replies pass through. */
extern const struct fuse_custom_io requests_io;

/* Known once INIT was answered. */
struct negotiated requests_negotiated(struct requests *rs);

/*
 * For the handler of an OPEN or CREATE, just before it replies: adds to the open flags and sets the
 * backing id, for which the libfuse of the oldest supported distribution has no field.
 */
void requests_open_extra(uint32_t flags, int backing_id);

/*
 * The data of a WRITE may lie in the cache already, where it was expected to go (receive.h); then
 * what the handler was given is void. request_take_landed: true if the data is in @ct now, as by
 * content_write; false if it is where the handler expects it. request_copy_out puts it there. A
 * handler calls one of them before it waits for anything.
 */
struct content;
bool request_take_landed(const struct content *ct);
void request_copy_out(void);

/* The next WRITE of this file may be at @off, in @ct. */
void requests_expect(struct requests *rs, struct content *ct, uint64_t off);

/* A page-aligned buffer of REQUEST_MAX_BYTES, which this thread owns until its handler returns. */
void *requests_data_buffer(void);

/* True for a WRITE of pages that came while a call on its file was late. */
bool request_is_behind(void);

/*
 * The request takes effect from here on: the watchdog leaves the answer to the thread that serves
 * it. False: the request was given up, and must not take effect.
 */
bool request_decide(void);

/* The name of a FUSE opcode, in capitals; NULL: ckptfs does not serve it. */
const char *request_op_name(unsigned opcode);

/* {"in_flight": N, "queued": N, "threads": N, "oldest_s": x, "waiting": [...]} for status. */
json_t *requests_to_json(struct requests *rs);

#endif
