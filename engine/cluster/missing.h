/* SPDX-License-Identifier: MIT */
/*
 * Checkpoints that stay incomplete (commit_timeout_s): their end has begun, and nothing more comes.
 * Such a checkpoint fails, and says what is missing, of which ranks and nodes.
 *
 * What counts as late:
 * - Something must show that the end has begun: the framework's own last operation (`latest` was
 *   closed) while a rank's file is not there; where a rule knows no such operation, the file of
 *   some rank while that of another is not there; or all evidence, while a file is still open, or
 *   the name is a temporary one. A checkpoint that shows nothing of its end may be written as
 *   slowly as it likes.
 * - A missing rank alone is not late where its rule has another way to the end: the next checkpoint
 *   of the job, or its exit, may show an hour later that the rank had nothing to write. That hope
 *   ends with the last of its writers; then its time runs out, too.
 * - What only waits for silence (quiet_s) is not late: the silence comes by itself.
 * - What is whole, and only waits for the backing, is not late either: to fail it would lose what
 *   may still become durable, and free nothing, since a write that hangs keeps its memory. For
 *   writes that fail there is io_retry_s.
 *
 * Any change in it, a write to one of its files, and the end of one of its writers is progress. All
 * with the units' lock held, but for checkpoint_missing, which takes it. Votes that
 * do not come are accord_end.c's.
 */
#ifndef ENGINE_CLUSTER_MISSING_H
#define ENGINE_CLUSTER_MISSING_H

#include "engine/save/checkpoint.h"

/* Drops the lock meanwhile. Fails a checkpoint that is late. False: there is none. */
bool missing_work_locked(struct units *us);

/* What is missing for its end to be seen, for people. */
void checkpoint_missing(struct checkpoint *cp, char *buf, size_t size);

#endif
