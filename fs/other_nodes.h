/* SPDX-License-Identifier: MIT */
/*
 * What processes on other nodes save, as this mount shows it to processes of the same job: a name
 * at once, a file once it is closed and written back. All but other_nodes_may_change may wait for
 * other nodes; no lock is held meanwhile.
 */
#ifndef FS_OTHER_NODES_H
#define FS_OTHER_NODES_H

#include "fs/fs.h"

/*
 * Call before @c looks up @name in @dir: if another node saves that name, this node takes part in
 * the save from here on, and shows it. May wait for a commit under way. 0: done, also if no node
 * saves it. 1: no node saves it, but the name may be about to change; if the lookup finds nothing,
 * the caller tries both once more, with @sure. -EINTR or -errno. Afterwards the thread acts as the
 * daemon.
 */
int other_nodes_join(struct fs *fs, const struct caller *c, struct node *dir, const char *name,
		     bool sure);

/*
 * As other_nodes_join, before @dir, whose descriptor is @fd, is listed. @staging is a staging
 * directory in it, perhaps of another node, that says which name it will get.
 */
int other_nodes_join_staged(struct fs *fs, const struct caller *c, struct node *dir, int fd,
			    const char *staging);

/* True if other nodes may remove or replace directories at any time. */
bool other_nodes_may_change(struct fs *fs);

/*
 * Then, in a checkpoint that other nodes write to as well: makes @name lead to what they made it
 * lead to. 0; -ENOENT: to nothing any more; -EINTR or -errno. Afterwards the thread acts as the
 * daemon.
 */
int other_nodes_follow(struct fs *fs, const struct caller *c, struct node *dir, const char *name);

/*
 * Call before @n is read: if another node writes it, waits until that node has closed it and all of
 * it is on the backing. 0, -EINTR, -ETIMEDOUT or -errno.
 */
int other_nodes_await(struct fs *fs, const struct caller *c, struct node *n);

#endif
