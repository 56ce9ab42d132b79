/* SPDX-License-Identifier: MIT */
/*
 * The files of a checkpoint from which a view is read: opened when they are first needed, and at
 * most VIEW_FILES_OPEN at a time, however many there are. As long as there are no more than that,
 * what was opened once can be read on after its checkpoint was removed. Any threads.
 */
#ifndef FS_VIEW_FILES_H
#define FS_VIEW_FILES_H

#include <pthread.h>

#include "engine/views/view.h"

#define VIEW_FILES_OPEN 256

struct view_files {
	const struct view *view;
	/* Opens the path, relative to the checkpoint, for reading. A descriptor or -errno. */
	int (*open)(void *arg, const char *path);
	void *arg;
	/* private */
	pthread_mutex_t lock;
	struct view_fd *fds; /* lock; for each path of the view */
	size_t nr_open, hand;
};

/* 0 or -ENOMEM. */
int view_files_init(struct view_files *f, const struct view *v,
		    int (*open)(void *arg, const char *path), void *arg);
void view_files_finish(struct view_files *f);

/* Opens those that have bytes of one of its files, as long as there is room. 0 or -errno. */
int view_files_open(struct view_files *f, size_t file);

/* By which the view reads: view_read(..., &src). */
struct view_source view_files_source(struct view_files *f);

#endif
