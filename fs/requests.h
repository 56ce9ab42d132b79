/* SPDX-License-Identifier: MIT */
/*
 * The receive loop, and every request in flight.
 *
 * Threads read requests and serve them themselves, blocking in the backing if need be; one thread
 * always stays at the device. When all others are busy that one only queues what arrives, for the
 * first thread that gets free. So an INTERRUPT is always read, however many requests a frozen
 * backing holds.
 *
 * Interruption: a signal to a waiting program arrives as INTERRUPT. A local filesystem does not
 * return EINTR for a moment's work, so a request gets INTERRUPT_GRACE_NS to end by itself; then a
 * watchdog answers EINTR in its place. The thread that serves it goes on, unseen: its own reply
 * comes second and is told -ENOENT, as libfuse defines for replies nobody received, upon which the
 * handler takes back what it made. A handler therefore needs no code for interruption, except that
 * what it uses must outlive it: it holds references on its node and handle (tree.h).
 */
#ifndef FS_REQUESTS_H
#define FS_REQUESTS_H

#define FUSE_USE_VERSION 314
#include <fuse_lowlevel.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define INTERRUPT_GRACE_NS (500 * NSEC_PER_MSEC)
#define STUCK_AFTER_NS	   (10 * NSEC_PER_SEC)
#define REQUEST_MAX_BYTES  (1u << 20) /* of data in one WRITE or READ */
/* one for each call that waits: of many ranks, for a commit; beyond, for what wakes captures */
#define MAX_THREADS 128

struct fs;
struct requests;

/* What the kernel offered and accepted at INIT. */
struct negotiated {
	bool passthrough;
	bool direct_mmap;
};

/* @fs must outlive it. NULL without memory. */
struct requests *requests_create(struct fs *fs);
void requests_destroy(struct requests *rs);

/*
 * Serves the session's device until the filesystem is unmounted or the connection aborted. @ready
 * is called once, from a serving thread, when INIT was answered (@err: refused). Returns 0 or
 * -errno (no thread could be started). Afterwards waits at most @drain_s for requests that the
 * backing still holds; returns -EBUSY if some are left, in which case only _exit is safe.
 */
int requests_serve(struct requests *rs, struct fuse_session *se,
		   void (*ready)(struct fs *fs, int err), int drain_s);

/* The custom_io for the session: replies pass through it. */
extern const struct fuse_custom_io requests_io;

/* Known once INIT was answered. */
struct negotiated requests_negotiated(struct requests *rs);

/*
 * For the handler of an OPEN or CREATE, just before it replies: adds to the open flags and sets
 * the backing id, for which the libfuse of the oldest supported distribution has no field.
 */
void requests_open_extra(uint32_t flags, int backing_id);

/*
 * The data of a WRITE may lie in the cache already, where it was expected to go (receive.h), and
 * what the handler was given is void. request_take_landed: it goes to @ct; true: done, as by
 * content_write; false: it is where the handler expects it. request_copy_out: the same as the
 * latter. Before anything is waited for.
 */
struct content;
bool request_take_landed(const struct content *ct);
void request_copy_out(void);

/* The next WRITE of this file may be one of @off, in @ct. */
void requests_expect(struct requests *rs, struct content *ct, uint64_t off);

/* A page-aligned buffer of REQUEST_MAX_BYTES, this thread's until its handler returns. */
void *requests_data_buffer(void);

/* Is it a WRITE of pages that came while a call on its file was late? */
bool request_is_behind(void);

/*
 * The request takes effect from here on: the watchdog leaves the answer to who serves it. False: it
 * has been given up, and must not.
 */
bool request_decide(void);

/* Name of a FUSE opcode in capitals, NULL if it is none that ckptfs serves. */
const char *request_op_name(unsigned opcode);

/* {"in_flight": N, "queued": N, "threads": N, "oldest_s": x, "waiting": [...]} for status. */
json_t *requests_to_json(struct requests *rs);

#endif
