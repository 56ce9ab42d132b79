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

struct view_files_ops {
	/* Opens the path, relative to the checkpoint, for reading. A descriptor or -errno. */
	int (*open)(void *arg, const char *path);
	/*
	 * What has bytes of the file @fd in memory, or NULL: then it is read by pread. May be NULL,
	 * as the others then are. @read may return fewer bytes, or -errno.
	 */
	void *(*find)(void *arg, int fd);
	ssize_t (*read)(void *found, int fd, void *buf, size_t len, uint64_t off);
	void (*put)(void *found);
};

struct view_files {
	const struct view *view;
	const struct view_files_ops *ops;
	void *arg;
	/* private */
	pthread_mutex_t lock;
	struct view_fd *fds; /* lock; for each path of the view */
	size_t nr_open, hand;
};

/* 0 or -ENOMEM. */
int view_files_init(struct view_files *f, const struct view *v, const struct view_files_ops *ops,
		    void *arg);
void view_files_finish(struct view_files *f);

/* Opens those that have bytes of one of its files, as long as there is room. 0 or -errno. */
int view_files_open(struct view_files *f, size_t file);

/* By which the view reads: view_read(..., &src). */
struct view_source view_files_source(struct view_files *f);

#endif
