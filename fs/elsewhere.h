/* SPDX-License-Identifier: MIT */
/*
 * What processes on other nodes are saving, as this mount shows it to those of the same job (rule V
 * of DESIGN 2).
 */
#ifndef FS_ELSEWHERE_H
#define FS_ELSEWHERE_H

#include "fs/fs.h"

/*
 * Before @name is looked up in @dir by @c: if another node is saving that, this one takes part in
 * it from here on, and shows it. May wait, for what is being committed. 0, also if there is none;
 * -EINTR, -errno. 1: there is none, but what is there may be about to change: if the lookup finds
 * nothing it has to be tried once more, @sure. Afterwards the thread acts as the daemon.
 */
int elsewhere_meet(struct fs *fs, const struct caller *c, struct node *dir, const char *name,
		   bool sure);

/*
 * The same before @dir, whose descriptor is @fd, is listed: @staging is a staging directory in it,
 * perhaps of another node, which tells the name that it is to get.
 */
int elsewhere_meet_staged(struct fs *fs, const struct caller *c, struct node *dir, int fd,
			  const char *staging);

/* May other nodes remove or replace directories at any time? */
bool elsewhere_may_change(struct fs *fs);

/*
 * Then, in a checkpoint that other nodes write to, too: @name leads to what they have made it lead
 * to. 0; -ENOENT: to nothing any more; -EINTR, -errno. Afterwards the thread acts as the daemon.
 */
int elsewhere_follow(struct fs *fs, const struct caller *c, struct node *dir, const char *name);

/*
 * Before @n is read: if another node writes it, waits until that has closed it and it is on the
 * backing, whole. 0, -EINTR, -ETIMEDOUT, -errno.
 */
int elsewhere_await(struct fs *fs, const struct caller *c, struct node *n);

#endif
