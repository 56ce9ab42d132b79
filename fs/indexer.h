/* SPDX-License-Identifier: MIT */
/*
 * Keeps the index of tensors (engine/tensors/stored.h) in each directory checkpoint that commits,
 * and tells people of tensors that are not whole. One thread of the daemon takes the checkpoints,
 * and runs a process of its own for each. That process has the rights of the owner, little memory
 * and INDEX_DEADLINE_S: what a strange file does to its reader does nothing to the daemon, and no
 * commit waits for it.
 */
#ifndef FS_INDEXER_H
#define FS_INDEXER_H

#include "engine/base/worker.h"
#include "engine/engine.h"

#define INDEX_DEADLINE_S 60
#define INDEX_MEMORY	 ((rlim_t)2 << 30)
#define INDEX_PROCESS	 "ckptfs-index" /* its argv[0] */
#define INDEX_DIR_FD	 3		/* in it: the checkpoint's directory */

struct indexer {
	struct engine *engine;
	struct worker worker;
	struct lock lock;
	pid_t child; /* lock; 0: none runs */
	bool ending; /* lock */
};

/* Starts the thread. No effect in a read-only mount. 0 or -errno. */
int indexer_start(struct indexer *x, struct engine *en);

/* Ends it, and what it runs. What has not been read yet is left out. Before engine_stop. */
void indexer_stop(struct indexer *x);

/* The process: argv are its name, a uid and a gid. Prints what it has found, as a JSON object. */
int indexer_child(int argc, char **argv);

#endif
