/* SPDX-License-Identifier: MIT */
/*
 * What other nodes save, as fs/ asks it. These functions belong to the accord of a checkpoint
 * (cluster.h); the files accord*.c define them. A checkpoint without an accord has no other nodes.
 * The caller holds no lock.
 */
#ifndef ENGINE_CLUSTER_OTHER_NODES_H
#define ENGINE_CLUSTER_OTHER_NODES_H

#include "engine/save/checkpoint.h"

struct backing;

/* --- a name, before a lookup or a listing: accord_join.c, accord_staged.c, accord_files.c --- */

/*
 * If another node saves a checkpoint as @at for the job of @c, this node joins it and shows it: 0,
 * *@out is referenced. 0 and NULL: there is none, or it is decided by now. -EAGAIN: not known yet,
 * only if @patient is false. -EINTR, -errno.
 *
 * A caller waits for the decision if the end was seen, and for commit_timeout_s if the records
 * cannot be read. With @patient false it waits for a moment only. @asks: the process of @c, which
 * may have ended since; NULL: it has not ended.
 */
int accord_find(struct units *us, const struct caller *c, struct process *asks,
		const struct place *at, bool patient, struct checkpoint **out);

/*
 * Before a lookup in @cp: if another node has made @cp an ordinary directory, waits until this node
 * has, too. 0. 1: none has, but one may in the next moment; or one has, and this node's client of
 * the backing is stale, which @sure rules out. -errno.
 */
int accord_await_name(struct checkpoint *cp, bool sure);

/*
 * Before a lookup of @name in @dir (a descriptor), a directory of @cp: the name then leads to what
 * other nodes have made of it. As backing_refresh_name.
 */
int accord_follow_name(struct checkpoint *cp, int dir, const char *name);

/*
 * The name that the staging directory is to get, as the directory itself says; @fd: some descriptor
 * of it. The name is a hint: only accord_find tells whether a checkpoint has that name. 0;
 * -EBADMSG: no name; -errno.
 */
int accord_staged_name(struct backing *b, int fd, char name[NAME_MAX + 1]);

/* True if the staging directory of @cp, which this node shows as @name, says another name: @now. */
bool accord_was_renamed(struct checkpoint *cp, const char *name, char now[NAME_MAX + 1]);

/*
 * Waits a few seconds until this node no longer shows what other nodes have removed: as @name in
 * @dir; with NULL, anything in @dir. 0 or -EINTR.
 */
int accord_await_removed(struct units *us, const struct inode_id *dir, const char *name);

/* --- a checkpoint, and a file in it: accord_death.c, accord_files.c --- */

/*
 * Lock not held. A process of @c of the job of @cp, which does not write to @cp, waits while a
 * writer has died and the verdict is not known, or has exited and it is not known how: at most
 * commit_timeout_s. Else a new start of the job would open a directory that is about to disappear.
 * 0, -ENOMEM or -EINTR.
 */
int accord_await_verdict(struct checkpoint *cp, const struct caller *c);

/*
 * True if other nodes can write to @cp. The root hears of another node's first write a moment
 * later.
 */
bool accord_may_have_company(const struct checkpoint *cp);

/* True if only another node has written the file of inode @id in @cp, as far as this node knows. */
bool accord_is_elsewhere(struct checkpoint *cp, const struct inode_id *id);

/*
 * Waits until such a file is whole: its node has closed it and written it back. So a reader
 * never gets a part of what was closed. @rel: its path in @cp; @fd: some descriptor of it.
 * 0, -EINTR, -errno. -ETIMEDOUT: nothing more of the file has come for commit_timeout_s;
 * failures.json says so.
 */
int accord_await_file(struct checkpoint *cp, const struct inode_id *id, const char *rel, int fd);

/* A process closes the file: from here on other nodes see its size. */
void accord_show_size(struct generation *g);

#endif
