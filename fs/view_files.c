/* SPDX-License-Identifier: MIT */
#include "fs/view_files.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

struct view_fd {
	int fd;		/* -1: not open */
	unsigned users; /* threads that read by it right now */
	void *found;	/* of ops->find */
};

int view_files_init(struct view_files *f, const struct view *v, const struct view_files_ops *ops,
		    void *arg)
{
	*f = (struct view_files){.view = v, .ops = ops, .arg = arg};
	pthread_mutex_init(&f->lock, NULL);
	f->fds = calloc(v->nr_paths + 1, sizeof(*f->fds));
	for (size_t i = 0; f->fds && i < v->nr_paths; i++)
		f->fds[i].fd = -1;
	return f->fds ? 0 : -ENOMEM;
}

static void close_fd(struct view_files *f, struct view_fd *one)
{
	if (one->found)
		f->ops->put(one->found);
	close(one->fd);
	*one = (struct view_fd){.fd = -1};
}

void view_files_finish(struct view_files *f)
{
	for (size_t i = 0; f->fds && i < f->view->nr_paths; i++)
		if (f->fds[i].fd >= 0)
			close_fd(f, &f->fds[i]);
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
		close_fd(f, one);
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
		one->fd = f->ops->open(f->arg, f->view->paths[path]);
		f->nr_open += one->fd >= 0;
		one->found = one->fd >= 0 && f->ops->find ? f->ops->find(f->arg, one->fd) : NULL;
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
	void *found = fd >= 0 ? f->fds[path].found : NULL; /* stays as long as that is open */
	char *to = buf;

	if (fd < 0)
		return fd;
	while (len && !err) {
		ssize_t n = found ? f->ops->read(found, fd, to, len, off)
				  : pread(fd, to, len, (off_t)off);

		if (!found && n < 0 && errno == EINTR)
			continue;
		err = n > 0 ? 0 : !n ? -EIO /* it was longer */ : found ? (int)n : -errno;
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
