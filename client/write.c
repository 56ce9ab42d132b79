/* SPDX-License-Identifier: MIT */
/*
 * Writing tensors by handle: the queue entries; and plain writes, of eager tensors and to files
 * that ckptfs does not stage. Takes writes_order, then the session's lock, which is not held over
 * an ioctl.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/session.h"

struct captures {
	struct ckpt_capture **all;
	size_t nr;
};

static void captures_put(struct ckptfs_session *s, struct captures *cs)
{
	pthread_mutex_lock(&s->lock);
	for (size_t i = 0; i < cs->nr; i++)
		ckpt_capture_put_locked(cs->all[i]);
	pthread_mutex_unlock(&s->lock);
	free(cs->all);
}

/* The path of @fd, for messages; "": unknown. */
static void path_of(int fd, char path[PATH_MAX])
{
	char link[32];
	ssize_t len;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	len = readlink(link, path, PATH_MAX - 1);
	path[len > 0 && *path == '/' ? len : 0] = '\0';
}

static int captures_create(struct ckptfs_session *s, const struct ckptfs_write_op *ops, size_t n,
			   int fd, struct captures *cs)
{
	char file[PATH_MAX];

	path_of(fd, file);
	cs->nr = 0;
	cs->all = calloc(n, sizeof(struct ckpt_capture *));
	if (!cs->all)
		return ckpt_error(s, -ENOMEM, "no memory for %zu captures", n);
	for (size_t i = 0; i < n; i++) {
		int err = ckpt_capture_create(s, &ops[i], file, &cs->all[cs->nr]);

		if (err)
			return err;
		if (cs->all[cs->nr])
			cs->nr++;
	}
	return 0;
}

/* Reports an error of a device, unless the device has said more. */
static int refused(struct ckptfs_session *s, const struct ckpt_capture *c, int err)
{
	return *ckptfs_error(s) ? err
				: ckpt_error(s, err, "%s: %s", c->tensor->name, strerror(-err));
}

static int write_plainly(struct ckptfs_session *s, struct ckpt_capture *c, int fd)
{
	int err = c->device->ops->write(c->device->state, c, fd);

	return err ? refused(s, c, err) : 0;
}

/* Waits until the daemon may hold so many more. */
static int append(struct ckptfs_session *s, struct ckpt_capture **all, size_t n, int failed)
{
	int err;

	pthread_mutex_lock(&s->lock);
	while (!s->dead && s->nr_held + n > CKPTFS_CAPTURES_MAX)
		pthread_cond_wait(&s->ended, &s->lock);
	err = s->dead ? s->dead : ckpt_captures_append_locked(s, all, n);
	for (size_t i = 0; i < n && !err && failed; i++)
		ckpt_capture_fail_locked(s, all[i], failed, ckptfs_error(s));
	pthread_mutex_unlock(&s->lock);
	return err;
}

/*
 * Queues as many as one ioctl takes. They are in the window before, since grants may come before it
 * returns. @failed: 0, or why they have failed already, as ckptfs_error tells.
 */
static int queue_batch(struct ckptfs_session *s, struct ckpt_capture **all, size_t n, int fd,
		       struct ckptfs_write *w, int failed)
{
	int err = append(s, all, n, failed);

	if (err)
		return err;
	w->session = s->id;
	w->nr = n;
	w->reserved = 0;
	for (size_t i = 0; i < n; i++)
		w->captures[i] = (struct ckptfs_capture){.seq = all[i]->seq,
							 .id = all[i]->tensor->info.id,
							 .file_off = all[i]->file_off,
							 .src_off = all[i]->src_off,
							 .len = all[i]->len};
	err = ckpt_session_ioctl(fd, CKPTFS_IOC_WRITE, w);
	pthread_mutex_lock(&s->lock);
	if (err)
		ckpt_captures_take_back_locked(s, all, n);
	else
		ckpt_captures_taken_locked(s, all, n);
	pthread_mutex_unlock(&s->lock);
	return err;
}

/*
 * The device could not give a tensor, so its file is not what it should be, whatever the trainer
 * does then. So the daemon takes the capture and hears at once that it failed. A mistaken request
 * is not reported: it can be repeated.
 */
static void tell_failed(struct ckptfs_session *s, struct ckpt_capture *c, int fd, int err)
{
	struct ckptfs_write w;

	if (err != -EIO && err != -ENOMEM && err != -ENODEV)
		return;
	pthread_mutex_lock(&s->writes_order);
	queue_batch(s, &c, 1, fd, &w, err);
	pthread_mutex_unlock(&s->writes_order);
}

/* Writes the eager ones, and moves them to the front; *nr is their number. */
static int write_eager(struct ckptfs_session *s, struct captures *cs, int fd, size_t *nr)
{
	*nr = 0;
	for (size_t i = 0; i < cs->nr; i++) {
		struct ckpt_capture *c = cs->all[i];
		int err;

		if (!c->tensor->info.eager)
			continue;
		err = write_plainly(s, c, fd);
		if (err) {
			tell_failed(s, c, fd, err);
			return err;
		}
		memmove(&cs->all[*nr + 1], &cs->all[*nr], (i - *nr) * sizeof(c));
		cs->all[(*nr)++] = c;
	}
	return 0;
}

static int bind_all(struct ckptfs_session *s, struct ckpt_capture **all, size_t n, int fd)
{
	for (size_t i = 0; i < n; i++) {
		struct ckpt_capture *c = all[i];
		int err = c->device->ops->bind(c->device->state, c);

		if (err) {
			refused(s, c, err);
			tell_failed(s, c, fd, err);
			return err;
		}
	}
	return 0;
}

/* All or none: what the daemon took of a call that it then refused fails, and so does its file. */
static void withdraw(struct ckptfs_session *s, struct ckpt_capture **all, size_t n, int err)
{
	char text[CKPTFS_TEXT_MAX];

	pthread_mutex_lock(&s->lock);
	for (size_t i = 0; i < n; i++) {
		snprintf(text, sizeof(text),
			 "%.300s: was written with others that were refused: %s",
			 all[i]->tensor->name, strerror(-err));
		ckpt_capture_fail_locked(s, all[i], err, text);
	}
	pthread_mutex_unlock(&s->lock);
}

/* Another filesystem does not know such ioctls at all. */
static bool not_staged(int err)
{
	return err == -EOPNOTSUPP || err == -ENOTTY || err == -ENOSYS;
}

static int by_offset(const void *a, const void *b)
{
	const struct ckpt_capture *x = *(struct ckpt_capture *const *)a;
	const struct ckpt_capture *y = *(struct ckpt_capture *const *)b;

	return x->file_off < y->file_off ? -1 : x->file_off > y->file_off;
}

/*
 * Puts @all in the order of the file, so that the daemon finds neighbours together. If two overlap,
 * the later one counts, and all keep their order.
 */
static void sort(struct ckpt_capture **all, size_t n)
{
	struct ckpt_capture **sorted = malloc(n * sizeof(struct ckpt_capture *));
	bool overlap = false;

	if (!sorted)
		return;
	memcpy(sorted, all, n * sizeof(struct ckpt_capture *));
	qsort(sorted, n, sizeof(struct ckpt_capture *), by_offset);
	for (size_t i = 1; i < n && !overlap; i++)
		overlap = sorted[i]->file_off - sorted[i - 1]->file_off < sorted[i - 1]->len;
	if (!overlap)
		memcpy(all, sorted, n * sizeof(struct ckpt_capture *));
	free(sorted);
}

static int queue_all(struct ckptfs_session *s, struct ckpt_capture **all, size_t n, int fd,
		     size_t *queued)
{
	struct ckptfs_write w;
	int err = 0;

	*queued = 0;
	pthread_mutex_lock(&s->writes_order);
	while (!err && *queued < n) {
		size_t batch = n - *queued < CKPTFS_WRITES_MAX ? n - *queued : CKPTFS_WRITES_MAX;

		err = queue_batch(s, all + *queued, batch, fd, &w, 0);
		if (!err)
			*queued += batch;
	}
	pthread_mutex_unlock(&s->writes_order);
	return err;
}

static int write_all(struct ckptfs_session *s, struct captures *cs, int fd)
{
	size_t nr_eager, nr, queued;
	int err = write_eager(s, cs, fd, &nr_eager);
	struct ckpt_capture **all = cs->all + nr_eager;

	nr = cs->nr - nr_eager;
	if (!err)
		err = bind_all(s, all, nr, fd);
	if (err)
		return err;
	sort(all, nr);
	err = queue_all(s, all, nr, fd, &queued);
	if (not_staged(err)) {
		err = 0;
		for (size_t i = queued; i < nr && !err; i++)
			err = write_plainly(s, all[i], fd);
		return err;
	}
	if (!err)
		return 0;
	withdraw(s, all, queued, err);
	if (err == -EAGAIN)
		return ckpt_error(s, err, "%s: too many captures wait; a barrier lets them land",
				  all[queued]->tensor->name);
	return ckpt_error(s, err, "%s: the daemon does not take it, or one of those behind it: %s",
			  all[queued]->tensor->name, strerror(-err));
}

int ckptfs_write(struct ckptfs_session *s, int fd, const struct ckptfs_write_op *ops, size_t n)
{
	struct captures cs;
	int err = ckpt_session_enter(s);

	if (err || !n)
		return err;
	err = captures_create(s, ops, n, fd, &cs);
	if (!err)
		err = write_all(s, &cs, fd);
	captures_put(s, &cs);
	return err;
}

int ckptfs_is_staged(int fd)
{
	/*
	 * A batch of none, of no session: an ordinary file refuses every batch before it looks at
	 * one.
	 */
	struct ckptfs_write w = {.nr = 0};
	int err = ckpt_session_ioctl(fd, CKPTFS_IOC_WRITE, &w);

	ckpt_error(NULL, 0, "%s", "");
	if (not_staged(err))
		return 0;
	if (err == -EBADF || err == -ENOTCONN || err == -ECONNABORTED)
		return ckpt_error(NULL, err, "the file cannot be asked about: %s", strerror(-err));
	return 1;
}
