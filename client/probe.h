/* SPDX-License-Identifier: MIT */
/*
 * What a tensor held when it was written, so that it shows if it is another when it is
 * captured: digests of a few of its blocks, or (CKPTFS_CHECK_ALL) of all.
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
#define CKPT_PROBES_ALL_BYTES 4096 /* of each block, where all are looked at */

struct ckpt_probe {
	uint64_t off, digest; /* counted in the tensor */
};

struct ckpt_probes {
	uint32_t nr,
		/* of which bytes, each; what is over the end of the capture does not count */
		bytes;
	struct ckpt_probe few[CKPT_PROBES];
	uint64_t *all; /* digests, one block behind the other */
};

/* By the thread that writes. */
int ckpt_probes_take(struct ckptfs_session *s, struct ckpt_capture *c);
void ckpt_probes_free(struct ckpt_probes *ps);

/* For a device whose memory cannot be read just so: only where to look; digests are not set. */
void ckpt_probes_choose(struct ckpt_capture *c);
/* The length of the block at @off of the tensor: the last may be shorter. */
size_t ckpt_probe_len(const struct ckpt_capture *c, uint64_t off);
/* What of the block at @off lies in @p: [*from, *to) of the tensor; false: nothing. */
bool ckpt_probe_part(const struct ckpt_capture *c, const struct ckpt_piece *p, uint64_t off,
		     uint64_t *from, uint64_t *to);

/*
 * Of CKPTFS_CHECK_ALL: for the digests of all blocks; those of what begins with block @nr and has
 * @len bytes.
 */
int ckpt_probes_all_create(struct ckpt_capture *c);
void ckpt_probes_all_set(struct ckpt_capture *c, uint64_t nr, const char *bytes, size_t len);
/* The bytes of the tensor, whole blocks, of which a piece has something. */
void ckpt_probes_all_part(const struct ckpt_capture *c, const struct ckpt_piece *p, uint64_t *from,
			  uint64_t *to);
/* Whether these, as they are in @now, are what they were, and the copy is the same. */
bool ckpt_probes_all_hold(const struct ckpt_capture *c, const struct ckpt_piece *p,
			  const char *now);

/*
 * Of memory of the host: whether all probed blocks that a piece touches still are what they were,
 * and the copy is the same. To be asked when the copy was made: so what was changed before or
 * during it is seen.
 */
bool ckpt_probes_hold(const struct ckpt_capture *c, const struct ckpt_piece *p);

#endif
