/* SPDX-License-Identifier: MIT */
/*
 * Captures: what was written by handle, from the write until it has landed. The session's lock
 * guards them. Nothing here calls the daemon.
 *
 * A capture is over when it has landed (the daemon knows that all its bytes are in the arena), or
 * when it has failed and no device copies any of it. Only then is the daemon told of the failure,
 * since it gives the places in the arena to others at once.
 */
#ifndef CLIENT_CAPTURE_H
#define CLIENT_CAPTURE_H

#include "client/ckptfs.h"
#include "client/device.h"
#include "client/probe.h"
#include "client/tensor.h"

struct ckpt_capture {
	/* const once it is in the window */
	uint64_t seq, file_off, src_off, len;
	struct ckpt_tensor *tensor;
	struct ckpt_source source;
	char *file; /* the path of the file, for messages; NULL: unknown */
	const struct ckpt_bound_device *device;
	struct ckpt_probes probes;
	void *bound; /* owned by the device, which sets it when it binds */

	/* lock: the session's */
	unsigned refs;	  /* of the writer, the window, each piece, the failures */
	unsigned running; /* pieces that are being copied */
	bool taken;	  /* the daemon has taken it */
	bool held;	  /* counts in session->nr_held */
	bool over, failed;
	uint64_t total; /* len, or what was granted when the daemon gave up the rest */
	uint64_t granted, begun, landed;
	int gave_up; /* -errno: why the daemon gave up the rest */
	int err;     /* -errno: why it failed; @text says more */
	char *text;
	struct ckpt_capture *next; /* on the list of failures */
};

/*
 * Checks @op and makes its capture, with a reference for the caller. 0 with a NULL capture: @op has
 * no bytes. @file: the path, or "".
 */
int ckpt_capture_create(struct ckptfs_session *s, const struct ckptfs_write_op *op,
			const char *file, struct ckpt_capture **capture);
/*
 * ckpt_captures_append numbers captures and puts them into the window. ckpt_captures_take_back
 * removes them, while they are the last ones.
 */
int ckpt_captures_append_locked(struct ckptfs_session *s, struct ckpt_capture *const *c, size_t n);
void ckpt_captures_take_back_locked(struct ckptfs_session *s, struct ckpt_capture *const *c,
				    size_t n);
/* The daemon has taken them. */
void ckpt_captures_taken_locked(struct ckptfs_session *s, struct ckpt_capture *const *c, size_t n);

/* The capture of this number that is not over, or NULL. */
struct ckpt_capture *ckpt_capture_find_locked(struct ckptfs_session *s, uint64_t seq);

/* Begins no more pieces of @c. @text, which may be NULL, says why, for people. */
void ckpt_capture_fail_locked(struct ckptfs_session *s, struct ckpt_capture *c, int err,
			      const char *text);

/* Bytes of @c are granted; the copy of a piece has ended, with an error or 0. */
void ckpt_capture_granted_locked(struct ckptfs_session *s, struct ckpt_capture *c, uint64_t bytes);
void ckpt_capture_stopped_locked(struct ckptfs_session *s, struct ckpt_capture *c, int err,
				 const char *text);

/* @bytes of @c are in the arena, and the daemon knows. */
void ckpt_capture_landed_locked(struct ckptfs_session *s, struct ckpt_capture *c, uint64_t bytes);

/* The daemon grants no more of @c: its file failed, or is gone. */
void ckpt_capture_given_up_locked(struct ckptfs_session *s, struct ckpt_capture *c, int err);

/*
 * True if all captures up to @seq are over, or (not @landed) will not see what changes behind the
 * device's fence.
 */
bool ckpt_captures_passed_locked(struct ckptfs_session *s, uint64_t seq, bool landed);

/*
 * ckpt_failure_next takes off the list a failure that the daemon may be told of now; NULL: there is
 * none. ckpt_failure_told: the daemon was told of it.
 */
struct ckpt_capture *ckpt_failure_next_locked(struct ckptfs_session *s);
void ckpt_failure_told_locked(struct ckptfs_session *s, struct ckpt_capture *c);

void ckpt_capture_put_locked(struct ckpt_capture *c);

/* The session is of no use: all captures fail, and the daemon is told nothing. */
void ckpt_captures_die_locked(struct ckptfs_session *s, int err);

#endif
