/* SPDX-License-Identifier: MIT */
/*
 * Captures: what was written by handle, from then until it has landed.
 *
 * A capture is over when it has landed (the daemon knows that all its bytes are in the arena), or
 * has failed and no device copies any of it. Only then is the daemon told of the failure, since it
 * gives the places in the arena to others at once.
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
	char *file; /* the path that it is written to, for messages; NULL: unknown */
	const struct ckpt_bound_device *device;
	struct ckpt_probes probes;
	void *bound; /* the device's, set when it is bound */

	/* lock */
	unsigned refs;	  /* the writer's, the window's, of each piece, of the failures */
	unsigned running; /* pieces that are being copied */
	bool taken;	  /* by the daemon */
	bool held;	  /* counts among those that the daemon may hold */
	bool over, failed;
	uint64_t total; /* len, or what was granted when the daemon gave the rest up */
	uint64_t granted, begun, landed;
	int gave_up; /* -errno: why the daemon did */
	int err;     /* -errno: why it failed, and the text */
	char *text;
	struct ckpt_capture *next; /* of the failures */
};

/*
 * Checks @op; NULL and 0 for one without bytes. @file: the path, or "". The caller has a reference.
 */
int ckpt_capture_create(struct ckptfs_session *s, const struct ckptfs_write_op *op,
			const char *file, struct ckpt_capture **capture);
/*
 * Gives numbers to captures, and puts them into the window; takes those back, which are the last.
 */
int ckpt_captures_append_locked(struct ckptfs_session *s, struct ckpt_capture *const *c, size_t n);
void ckpt_captures_take_back_locked(struct ckptfs_session *s, struct ckpt_capture *const *c,
				    size_t n);
/* The daemon has them. */
void ckpt_captures_taken_locked(struct ckptfs_session *s, struct ckpt_capture *const *c, size_t n);

/* The one that is not over with this number, or NULL. */
struct ckpt_capture *ckpt_capture_find_locked(struct ckptfs_session *s, uint64_t seq);

/* Nothing more of it is begun. @text, which may be NULL, says why, for people. */
void ckpt_capture_fail_locked(struct ckptfs_session *s, struct ckpt_capture *c, int err,
			      const char *text);

/* Bytes of it are granted; the copy of a piece has ended, with an error or 0. */
void ckpt_capture_granted_locked(struct ckptfs_session *s, struct ckpt_capture *c, uint64_t bytes);
void ckpt_capture_stopped_locked(struct ckptfs_session *s, struct ckpt_capture *c, int err,
				 const char *text);

/* Bytes of it are in the arena, and the daemon knows. */
void ckpt_capture_landed_locked(struct ckptfs_session *s, struct ckpt_capture *c, uint64_t bytes);

/* The daemon grants no more of it: its file failed, or is gone. */
void ckpt_capture_given_up_locked(struct ckptfs_session *s, struct ckpt_capture *c, int err);

/*
 * Whether all up to @seq are over, or (not @landed) will not see what changes behind the device's
 * fence.
 */
bool ckpt_captures_passed_locked(struct ckptfs_session *s, uint64_t seq, bool landed);

/*
 * Takes a failure that the daemon may be told of off the list, NULL: there is none; and it was
 * told.
 */
struct ckpt_capture *ckpt_failure_next_locked(struct ckptfs_session *s);
void ckpt_failure_told_locked(struct ckptfs_session *s, struct ckpt_capture *c);

void ckpt_capture_put_locked(struct ckpt_capture *c);

/* The session is of no use: everything fails, and the daemon is told nothing. */
void ckpt_captures_die_locked(struct ckptfs_session *s, int err);

#endif
