/* SPDX-License-Identifier: MIT */
/*
 * Memory that tensors lie in, and what copies out of it, as a table: one for each kind of device.
 *
 * A piece is what a grant asks for. The pump submits it; the device begins it (ckpt_piece_begin,
 * which says whether it is still wanted), copies, looks whether the source was still what it had
 * been when it was written, and ends it (ckpt_piece_end). No lock is held by who calls one of
 * these.
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
	struct ckpt_piece *next;      /* on whatever list it is */
	struct ckpt_capture *capture; /* NULL: to be reported, and that is all */
	uint64_t nr;		      /* of the grant */
	uint64_t src_off;	      /* in the tensor */
	uint32_t len;
	char *to;		   /* in the arena */
	uint64_t begin_ns, end_ns; /* the device's to fill in, monotonic */
};

struct ckpt_device {
	const char *name;
	/*
	 * Whether work that is enqueued behind a piece which has begun runs after its copy (see
	 * fence): then a barrier waits until all have begun. If not, it waits until all have
	 * landed.
	 */
	bool ordered;
	int (*open)(struct ckptfs_session *s, unsigned threads, void **state);
	/* When nothing is submitted any more. */
	void (*close)(void *state);
	/*
	 * In the thread that writes, before the capture is known to anybody: what it needs, its
	 * probes too.
	 */
	int (*bind)(void *state, struct ckpt_capture *c);
	/* The capture is gone. The session's lock is held: calls nobody. */
	void (*unbind)(void *state, struct ckpt_capture *c);
	/* Never waits. */
	void (*submit)(void *state, struct ckpt_piece *p);
	/*
	 * What is enqueued on @streams from now on runs behind all pieces that have begun. If that
	 * cannot be had it returns when these have ended, and says why.
	 */
	int (*fence)(void *state, const uint64_t *streams, size_t n);
	/* All of a capture, to its place in a file, before it returns. */
	int (*write)(void *state, struct ckpt_capture *c, int fd);
	/*
	 * The other way: bytes [off, off + len) of the tensor that lies at @to become those at
	 * @from, which is memory of the host, before it returns. From several threads at a time,
	 * each with bytes of its own.
	 */
	int (*put)(void *state, const struct ckpt_source *to, uint64_t off, size_t len,
		   const void *from);
};

/* Those that can fail say why by ckpt_error, where more is to be said than their -errno does. */
extern const struct ckpt_device ckpt_device_host, ckpt_device_cuda;

/* Copies bytes [off, off + len) of the tensor that lies at @s, in memory of the host. */
void ckpt_source_copy(const struct ckpt_source *s, uint64_t off, size_t len, void *to);
/* And into it. */
void ckpt_source_fill(const struct ckpt_source *s, uint64_t off, size_t len, const void *from);

/* False: it is not wanted any more, and gone. */
bool ckpt_piece_begin(struct ckptfs_session *s, struct ckpt_piece *p);

/* The source was changed before all was copied: so it ends. */
void ckpt_piece_end_changed(struct ckptfs_session *s, struct ckpt_piece *p);

/* @err and @text: as ckpt_capture_fail_locked has them, or 0. The piece is gone. */
void ckpt_piece_end(struct ckptfs_session *s, struct ckpt_piece *p, int err, const char *text);

#endif
