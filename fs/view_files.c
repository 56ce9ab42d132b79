/* SPDX-License-Identifier: MIT */
#include "fs/view_files.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

struct view_fd {
	int fd;		/* -1: not open */
	unsigned users; /* threads that read by it right now */
};

int view_files_init(struct view_files *f, const struct view *v,
		    int (*open)(void *arg, const char *path), void *arg)
{
	*f = (struct view_files){.view = v, .open = open, .arg = arg};
	pthread_mutex_init(&f->lock, NULL);
	f->fds = calloc(v->nr_paths + 1, sizeof(*f->fds));
	for (size_t i = 0; f->fds && i < v->nr_paths; i++)
		f->fds[i].fd = -1;
	return f->fds ? 0 : -ENOMEM;
}

void view_files_finish(struct view_files *f)
{
	for (size_t i = 0; f->fds && i < f->view->nr_paths; i++)
		if (f->fds[i].fd >= 0)
			close(f->fds[i].fd);
	free(f->fds);
	f->fds = NULL;
	pthread_mutex_destroy(&f->lock);
}

/* Closes one that no thread uses; in turn. */
static void close_one_locked(struct view_files *f)
{
	for (size_t n = 0; n < f->view->nr_paths; n++) {
		struct view_fd *one = &f->fds[f->hand];

		f->hand = (f->hand + 1) % f->view->nr_paths;
		if (one->fd < 0 || one->users)
			continue;
		close(one->fd);
		one->fd = -1;
		f->nr_open--;
		return;
	}
}

/* A descriptor that stays open until put. */
static int get(struct view_files *f, size_t path)
{
	struct view_fd *one = &f->fds[path];
	int fd;

	pthread_mutex_lock(&f->lock);
	if (one->fd < 0) {
		if (f->nr_open >= VIEW_FILES_OPEN)
			close_one_locked(f);
		one->fd = f->open(f->arg, f->view->paths[path]);
		f->nr_open += one->fd >= 0;
	}
	fd = one->fd;
	if (fd >= 0)
		one->users++;
	else
		one->fd = -1;
	pthread_mutex_unlock(&f->lock);
	return fd;
}

static void put(struct view_files *f, size_t path)
{
	pthread_mutex_lock(&f->lock);
	f->fds[path].users--;
	pthread_mutex_unlock(&f->lock);
}

static int open_one(void *files, size_t path)
{
	struct view_files *f = files;
	int fd = f->nr_open < VIEW_FILES_OPEN ? get(f, path) : 0;

	if (fd > 0)
		put(f, path);
	return fd < 0 ? fd : 0;
}

int view_files_open(struct view_files *f, size_t file)
{
	return view_each_path(f->view, file, open_one, f);
}

static int read_path(void *files, size_t path, void *buf, size_t len, uint64_t off)
{
	struct view_files *f = files;
	int fd = get(f, path), err = 0;
	char *to = buf;

	if (fd < 0)
		return fd;
	while (len && !err) {
		ssize_t n = pread(fd, to, len, (off_t)off);

		if (n < 0 && errno == EINTR)
			continue;
		err = n < 0 ? -errno : n ? 0 : -EIO; /* it was longer when the index was made */
		if (n > 0) {
			to += n;
			off += (uint64_t)n;
			len -= (size_t)n;
		}
	}
	put(f, path);
	return err;
}

struct view_source view_files_source(struct view_files *f)
{
	return (struct view_source){.read = read_path, .arg = f};
}
