/* SPDX-License-Identifier: MIT */
/*
 * Memory that tensors lie in, and what copies out of it, as a table: one for each kind of device.
 *
 * A piece is what a grant asks for. The pump submits it. The device begins it (ckpt_piece_begin
 * says whether it is still wanted), copies it, checks whether the source still is what it was when
 * it was written, and ends it (ckpt_piece_end). The caller of these functions holds no lock, except
 * for unbind.
 */
#ifndef CLIENT_DEVICE_H
#define CLIENT_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ckpt_capture;
struct ckptfs_session;

/*
 * Byte b of a tensor lies at addr + b / row_bytes * pitch + b % row_bytes; without rows, at addr +
 * b.
 */
struct ckpt_source {
	const char *addr;
	uint64_t stream;
	uint64_t rows, row_bytes, pitch;
};

struct ckpt_piece {
	struct ckpt_piece *next;      /* on the list that it is on */
	struct ckpt_capture *capture; /* NULL: it is only to be reported */
	uint64_t nr;		      /* number of the grant */
	uint64_t src_off;	      /* in the tensor */
	uint32_t len;
	char *to;		   /* in the arena */
	uint64_t begin_ns, end_ns; /* set by the device, monotonic */
};

struct ckpt_device {
	const char *name;
	/*
	 * True if work that is enqueued behind a piece which has begun runs after its copy (see
	 * fence): then a barrier waits until all have begun. Else it waits until all have landed.
	 */
	bool ordered;
	int (*open)(struct ckptfs_session *s, unsigned threads, void **state);
	/* Called when nothing is submitted any more. */
	void (*close)(void *state);
	/*
	 * Called by the thread that writes, before any other knows the capture: gets what it needs,
	 * its probes too.
	 */
	int (*bind)(void *state, struct ckpt_capture *c);
	/* The capture is gone. The session's lock is held: must not call back. */
	void (*unbind)(void *state, struct ckpt_capture *c);
	/* Never waits. */
	void (*submit)(void *state, struct ckpt_piece *p);
	/*
	 * From now on what is enqueued on @streams runs behind all pieces that have begun. If that
	 * cannot be had, it returns when these have ended, and says why.
	 */
	int (*fence)(void *state, const uint64_t *streams, size_t n);
	/* Writes all of a capture to its place in a file before it returns. */
	int (*write)(void *state, struct ckpt_capture *c, int fd);
	/*
	 * The other way: copies @from, in memory of the host, to bytes [off, off + len) of the
	 * tensor at @to before it returns. Called by several threads at a time, each with bytes of
	 * its own.
	 */
	int (*put)(void *state, const struct ckpt_source *to, uint64_t off, size_t len,
		   const void *from);
};

/* A function that can fail says why by ckpt_error, where its -errno says too little. */
extern const struct ckpt_device ckpt_device_host, ckpt_device_cuda;

/* Copies bytes [off, off + len) of the tensor at @s, in memory of the host, to @to. */
void ckpt_source_copy(const struct ckpt_source *s, uint64_t off, size_t len, void *to);
/* Copies @from to those bytes. */
void ckpt_source_fill(const struct ckpt_source *s, uint64_t off, size_t len, const void *from);

/* False: the piece is not wanted any more, and is freed. */
bool ckpt_piece_begin(struct ckptfs_session *s, struct ckpt_piece *p);

/* Ends the piece: its source was changed before all was copied. */
void ckpt_piece_end_changed(struct ckptfs_session *s, struct ckpt_piece *p);

/*
 * Ends the piece, which the device has no more. @err and @text: as for ckpt_capture_fail_locked, or
 * 0.
 */
void ckpt_piece_end(struct ckptfs_session *s, struct ckpt_piece *p, int err, const char *text);

#endif
