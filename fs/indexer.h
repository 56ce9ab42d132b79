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

#include "engine/base/lock.h"
#include "engine/base/worker.h"
#include "engine/tensors/read.h"

#define INDEX_DEADLINE_S 60
#define INDEX_MEMORY	 ((rlim_t)2 << 30)
#define INDEX_TEXT_MAX	 ((off_t)256 << 20) /* what the daemon takes into its memory */
#define INDEX_PROCESS	 "ckptfs-index"	    /* its argv[0] */
#define INDEX_DIR_FD	 3		    /* in it: the checkpoint's directory */
#define INDEX_OUT_FD	 4 /* in it, if it is not to keep the index: where it goes */

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

/*
 * Reads the index of the directory @dir by such a process, which has the rights of that user. 0 and
 * the index, whose text has @bytes; or -errno, of the process or of its reading. Any thread.
 */
int indexer_read(int dir, uid_t uid, gid_t gid, struct index **out, size_t *bytes);

/*
 * The process: argv are its name, a uid and a gid, and "show" if it is to print the index and not to
 * keep it. Prints what it has found on standard output, as a JSON object.
 */
int indexer_child(int argc, char **argv);

#endif
