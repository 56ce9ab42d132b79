/* SPDX-License-Identifier: MIT */
/*
 * What a tensor in memory of the host held when it was written, so that it shows if it is another when it is
 * captured: digests of a few of its blocks, or (CKPTFS_CHECK_ALL) of all.
 */
#ifndef CLIENT_PROBE_H
#define CLIENT_PROBE_H

#include <stdint.h>

#include "client/device.h"

#define CKPT_PROBES 4 /* first, last, and two anywhere */

struct ckpt_probe {
	uint64_t off, digest; /* counted in the tensor */
};

struct ckpt_probes {
	uint32_t nr,
		bytes; /* of which bytes, each; what is over the end of the capture does not count */
	struct ckpt_probe few[CKPT_PROBES];
	uint64_t *all; /* digests, one block behind the other */
};

/* By the thread that writes. */
int ckpt_probes_take(struct ckptfs_session *s, struct ckpt_capture *c);
void ckpt_probes_free(struct ckpt_probes *ps);

/*
 * Whether all probed blocks that a piece touches still are what they were, and the copy is the same. To be
 * asked when the copy was made: so what was changed before or during it is seen.
 */
bool ckpt_probes_hold(const struct ckpt_capture *c, const struct ckpt_piece *p);

#endif
