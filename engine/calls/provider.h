/* SPDX-License-Identifier: MIT */
/*
 * State providers: where the bytes of a saved file come from (DataStates-LLM, "State Providers",
 * section V). A provider promises bytes of a file, and gives them later, in any order, from any
 * thread. Until all have come the file is not published, and a call that reads these bytes waits.
 *
 *   provided_begin - provided_certain - content_keep, content_adopt - provided_end
 *                                     - provided_fail --------------- provided_end
 *
 * - A plain write promises nothing, and gives its bytes at once: content_write, or
 *   content_take_landed if they were received in the cache.
 * - A capture (engine/capture) gives the bytes of a tensor, or of an object that the trainer has
 *   serialised. They come through lent memory, which content_adopt takes over.
 * - tests/unit/provider.c has one that makes its bytes itself.
 *
 * One file may have bytes of any number of providers. None knows of another.
 */
#ifndef ENGINE_CALLS_PROVIDER_H
#define ENGINE_CALLS_PROVIDER_H

#include "engine/save/generation.h"

/* Bytes that a provider owes to a file. Stays in place from provided_begin to provided_end. */
struct provided {
	struct generation *generation; /* referenced, and open for changes */
	struct promise promise;
};

/*
 * Promises the bytes [off, off + len) of @g for a process that has it open; @key as for
 * generation_write. Waits for other promises of these bytes. 0; -EOPNOTSUPP: the file is published
 * already; or -errno. Nothing is promised then.
 */
int provided_begin(struct provided *p, struct generation *g, uint64_t key, uint64_t off,
		   uint64_t len);

/*
 * The bytes will come, as far as is known: the file gets its size. @at: the tensor that they are
 * of, for the commit file; NULL: none. A provider may omit this, and then the file grows as bytes
 * come.
 */
void provided_certain(struct provided *p, const struct tensor_place *at);

/* The bytes will not come, for the reason @why: the file fails, and its checkpoint with it. */
void provided_fail(struct provided *p, int err, const char *why);

/* All bytes have come, or the file has failed. */
void provided_end(struct provided *p);

#endif
