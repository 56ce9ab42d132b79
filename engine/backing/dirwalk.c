/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/backing/dirwalk.h"

#include "engine/format/names.h"

#define DENTS_BYTES 32768

int dirwalk_begin(struct dirwalk *w, struct backing *b, int dir)
{
	return dirwalk_begin_fd(w, b, backing_reopen(b, dir, O_RDONLY | O_DIRECTORY));
}

int dirwalk_begin_fd(struct dirwalk *w, struct backing *b, int fd)
{
	*w = (struct dirwalk){.backing = b, .fd = fd < 0 ? -1 : fd, .err = fd < 0 ? fd : 0};
	w->buf = fd < 0 ? NULL : malloc(DENTS_BYTES);
	if (!w->err && !w->buf) {
		dirwalk_end(w);
		w->err = -ENOMEM;
	}
	return w->err;
}

/* Fills the buffer if it is used up. Returns true if it has an entry. */
static bool fill(struct dirwalk *w)
{
	ssize_t n;

	if (w->pos < w->len)
		return true;
	if (w->fd < 0 || w->err)
		return false;
	do {
		n = backing_getdents(w->backing, w->fd, w->buf, DENTS_BYTES);
	} while (n == -EINTR);
	w->pos = 0;
	w->len = n > 0 ? (size_t)n : 0;
	/* -ENOENT: another process removed the directory, so it has no entries. */
	w->err = n < 0 && n != -ENOENT ? (int)n : 0;
	return w->len;
}

bool dirwalk_next(struct dirwalk *w)
{
	while (fill(w)) {
		const struct dirent64 *d = (const void *)(w->buf + w->pos);

		w->pos += d->d_reclen;
		w->name = d->d_name;
		w->ino = d->d_ino;
		w->type = d->d_type;
		if (backing_name_ok(w->name))
			return true;
	}
	return false;
}

bool dirwalk_next_visible(struct dirwalk *w)
{
	while (dirwalk_next(w))
		if (!name_is_reserved(w->name))
			return true;
	return false;
}

void dirwalk_rewind(struct dirwalk *w)
{
	off_t at = w->fd < 0 ? 0 : backing_seek(w->backing, w->fd, 0, SEEK_SET);

	w->pos = w->len = 0;
	if (at < 0)
		w->err = (int)at;
}

void dirwalk_end(struct dirwalk *w)
{
	if (w->fd >= 0)
		close(w->fd);
	free(w->buf);
	w->buf = NULL;
	w->fd = -1;
	w->pos = w->len = 0;
}
