/* SPDX-License-Identifier: MIT */
/* What calls of programs do to the save of a file (save/generation.h). Callers hold no lock. */
#ifndef ENGINE_CALLS_FILE_H
#define ENGINE_CALLS_FILE_H

#include <sys/types.h>

#include "engine/liveness/writer.h"
#include "engine/save/generation.h"

struct backing;

/* --- begin: generation_begin.c --- */

/*
 * Begins a generation of @at, as @c. The generation keeps a duplicate of the descriptor.
 * @old: descriptor of the file that it replaces; it takes over the mode, owner, ACL and attributes,
 * and with @copy the bytes. -1: nothing has the name.
 * @opener: the thread that will open it next; 0: none.
 * Returns 0 and a reference, or -errno. -ESTALE: another thread was quicker and has an open
 * generation of the name, which now expects @opener.
 */
int generation_begin(struct units *us, const struct caller *c, const struct place *at, mode_t mode,
		     int old, bool copy, pid_t opener, struct generation **out);

/*
 * Begins a generation of a file of the checkpoint @cp that has its name in staging already, at the
 * path @rel. Takes over @fd, open for reading and writing. @inherits: the file was there before. If
 * the file has a generation already, *@out is that one.
 */
int generation_begin_in(struct checkpoint *cp, const struct caller *c, int rank,
			const struct inode_id *dir, const char *name, const char *rel, int fd,
			bool inherits, struct generation **out);

/* --- writers: generation_writers.c, generation_settle.c --- */

/*
 * Adds a handle for writing, by thread @pid, to a generation that is OPEN, which stays so until the
 * handle is released or flushed. False: too late, the generation is not OPEN any more.
 */
bool generation_open(struct generation *g, pid_t pid);
void generation_released(struct generation *g);

/* Announces an open that thread @pid will send in a moment, and that generation_open takes over. */
bool generation_expect(struct generation *g, pid_t pid);

/* Fails @g: a program was killed when it had begun to change it. */
void generation_cut_off(struct generation *g);

/*
 * Before a change to @g by the process that @key stands for; or, if the process is unknown, by the
 * handle that @key stands for. 0: go on, and call generation_changed afterwards. -EINTR. -EEXIST:
 * @g is committed, and the change goes to a plain file. Else the error that @g failed with.
 */
int generation_write(struct generation *g, uint64_t key);

/* As generation_write, for a change that no process is charged with: a truncation. */
int generation_change(struct generation *g);

void generation_changed(struct generation *g);

bool generation_is_open(struct generation *g);

/* The process @key closed a descriptor of @g, or exits. */
void generation_closed(struct generation *g, uint64_t key, struct writer_end end);

/* The same for some process that closes the handle @key, and may have made unattributed changes. */
void generation_flushed(struct generation *g, uint64_t key, struct writer_end end);

/* --- waits: generation_wait.c --- */

/* A program asked for durability of its writes to @g. @rankless: because its rank is not known. */
void generation_ask_durable(struct generation *g, bool rankless);

/* True if a program has asked for that. */
bool generation_asked_durable(struct generation *g);

/* True if @g, or the checkpoint that it belongs to, is still to be committed. */
bool generation_is_pending(struct generation *g);

/*
 * Waits until @g is published, or will certainly not be. 0: committed, dropped or still being
 * written; also a pointer to a unit that is not committed yet. Else the error that @g failed with,
 * or -EINTR.
 */
int generation_wait(struct generation *g);

/* Waits until every closed generation of the name @name in @dir is published. 0 or -EINTR. */
int units_settle_name(struct units *us, const struct inode_id *dir, const char *name);

/* Waits until all closed generations in @dir that must be durable are published. First error. */
int units_settle_dir(struct units *us, const struct inode_id *dir);

/* --- names: generation_name.c, clear_dir.c --- */

/*
 * For a program that removes or replaces the name: calls @remove once, which does that on the
 * backing and may refuse. Meanwhile nothing is published under the name. Older generations of the
 * name are dropped first.
 * 0; the error with which @remove refused; -EINTR: nothing was done; -EEXIST: @g has ended
 * meanwhile, and the caller removes the name on the backing.
 */
int generation_unlink(struct generation *g, int (*remove)(void *arg), void *arg);

/* Drops the older generations of the name of @g, but not @g: before its name changes. */
int generation_drop_older(struct generation *g);

/*
 * Renames an unpublished generation. Whatever has the new name is replaced, other generations
 * included. Calls @make_way once, which says what will be replaced, and may refuse; meanwhile
 * nothing is published under the old name. 0; the error with which @make_way refused; -EEXIST: @g
 * has ended meanwhile, and the caller renames on the backing; or -errno.
 */
int generation_rename(struct generation *g, const struct place *at,
		      int (*make_way)(void *arg, bool *replaces, struct inode_id *replaced),
		      void *arg);

/* A file of a checkpoint was renamed inside the checkpoint. */
void generation_moved_in(struct generation *g, const struct inode_id *dir, const char *name,
			 const char *rel);

/*
 * Removes the hidden entries of the directory @name in @dir, which has no others (clear_dir.c). 0;
 * -ENOTEMPTY: there is another entry, or a process still saves to it.
 */
int units_clear_dir(struct units *us, struct backing *b, int dir, const char *name);

#endif
