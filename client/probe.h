/* SPDX-License-Identifier: MIT */
/*
 * What a tensor held when it was written, so that it shows if it changed before it was captured:
 * digests of a few of its blocks, or (CKPTFS_CHECK_ALL) of all. No lock: the writing thread takes
 * the digests before any other knows the capture.
 */
#ifndef CLIENT_PROBE_H
#define CLIENT_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/device.h"

#define CKPT_PROBES	      4	  /* first, last, and two anywhere */
#define CKPT_PROBE_BYTES      512 /* of each */
#define CKPT_PROBES_BYTES     (CKPT_PROBES * CKPT_PROBE_BYTES)
#define CKPT_PROBES_ALL_BYTES 4096 /* of each block, for CKPTFS_CHECK_ALL */

struct ckpt_probe {
	uint64_t off, digest; /* @off counts in the tensor */
};

struct ckpt_probes {
	uint32_t nr,
		/* of each block; what is behind the end of the capture does not count */
		bytes;
	struct ckpt_probe few[CKPT_PROBES];
	uint64_t *all; /* the digests of all blocks, in order; or NULL */
};

/* Called by the thread that writes. */
int ckpt_probes_take(struct ckptfs_session *s, struct ckpt_capture *c);
void ckpt_probes_free(struct ckpt_probes *ps);

/* For a device whose memory the CPU cannot read: chooses the blocks, and sets no digests. */
void ckpt_probes_choose(struct ckpt_capture *c);
/* The length of the block at @off of the tensor; the last may be shorter. */
size_t ckpt_probe_len(const struct ckpt_capture *c, uint64_t off);
/* The part of the block at @off that lies in @p: [*from, *to) of the tensor; false: none. */
bool ckpt_probe_part(const struct ckpt_capture *c, const struct ckpt_piece *p, uint64_t off,
		     uint64_t *from, uint64_t *to);

/*
 * For CKPTFS_CHECK_ALL. ckpt_probes_all_create makes room for the digests of all blocks.
 * ckpt_probes_all_set sets those of @bytes, which begin with block @nr.
 */
int ckpt_probes_all_create(struct ckpt_capture *c);
void ckpt_probes_all_set(struct ckpt_capture *c, uint64_t nr, const char *bytes, size_t len);
/* The whole blocks that the piece touches: [*from, *to) of the tensor. */
void ckpt_probes_all_part(const struct ckpt_capture *c, const struct ckpt_piece *p, uint64_t *from,
			  uint64_t *to);
/* True if those blocks, as @now has them, are unchanged, and the copy is the same. */
bool ckpt_probes_all_hold(const struct ckpt_capture *c, const struct ckpt_piece *p,
			  const char *now);

/*
 * For memory of the host: true if all probed blocks that the piece touches are unchanged, and the
 * copy is the same. Called after the copy, so that a change before or during it is seen.
 */
bool ckpt_probes_hold(const struct ckpt_capture *c, const struct ckpt_piece *p);

#endif
