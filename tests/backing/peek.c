/* SPDX-License-Identifier: MIT */
#include "tests/backing/peek.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/backing/dirwalk.h"
#include "engine/base/cleanup.h"

#define SMALL 300

static int pin(struct backing *b, const char *path)
{
	return backing_pin(b, b->root_fd, *path ? path : ".");
}

int peek_open(struct backing *b, const char *path)
{
	__cleanup_fd int at = pin(b, path);

	return at < 0 ? at : backing_reopen(b, at, O_RDONLY | O_NONBLOCK);
}

int peek_stat(struct backing *b, const char *path, struct statx *stx)
{
	__cleanup_fd int at = pin(b, path);

	return at < 0 ? at : backing_stat(b, at, stx);
}

bool peek_exists(struct backing *b, const char *path)
{
	__cleanup_fd int at = pin(b, path);

	return at >= 0;
}

ssize_t peek_read(struct backing *b, const char *path, void *buf, size_t size)
{
	__cleanup_fd int at = pin(b, path), fd = -1;
	struct statx stx;
	int err = at < 0 ? at : backing_stat(b, at, &stx);

	if (err)
		return err;
	if (S_ISLNK(stx.stx_mode))
		return backing_readlink(b, at, buf, size);
	fd = backing_reopen(b, at, O_RDONLY | O_NONBLOCK);
	return fd < 0 ? fd : backing_read(b, fd, buf, size, 0);
}

size_t peek_names(struct backing *b, const char *path, bool hidden)
{
	__cleanup_dirwalk struct dirwalk w = DIRWALK_CLOSED;
	size_t nr = 0;

	dirwalk_begin_fd(&w, b, peek_open(b, path));
	while (dirwalk_next(&w))
		nr += hidden || *w.name != '.';
	return nr;
}

static ssize_t read_file(void *arg, void *buf, size_t len, uint64_t off)
{
	struct peek_file *f = arg;

	return backing_read(f->b, f->fd, buf, len, (off_t)off);
}

int peek_source(struct backing *b, const char *path, struct peek_file *f, struct source *s)
{
	*f = (struct peek_file){.b = b, .fd = peek_open(b, path)};
	*s = (struct source){.read = read_file, .arg = f};
	return f->fd < 0 ? f->fd : 0;
}

void peek_close(struct peek_file *f)
{
	if (f->fd >= 0)
		close(f->fd);
	f->fd = -1;
}

static void must_do(const char *path, ssize_t err)
{
	if (err >= 0)
		return;
	fprintf(stderr, "tests/backing: %s: %s\n", path, strerror((int)-err));
	abort();
}

/* Its directory, to be closed; *name: the last component. */
static int parent(struct backing *b, const char *path, const char **name)
{
	const char *slash = strrchr(path, '/');
	char dir[PATH_MAX];
	int at;

	snprintf(dir, sizeof(dir), "%.*s", slash ? (int)(slash - path) : 0, path);
	*name = slash ? slash + 1 : path;
	at = pin(b, dir);
	must_do(path, at);
	return at;
}

void peek_mkdir(struct backing *b, const char *path)
{
	const char *name;
	__cleanup_fd int dir = parent(b, path, &name);

	must_do(path, backing_mkdir(b, dir, name, 0755));
}

void peek_make(struct backing *b, const char *path, const void *data, size_t size)
{
	const char *name;
	bool created;
	__cleanup_fd int dir = parent(b, path, &name);
	__cleanup_fd int fd = backing_create(b, dir, name, O_WRONLY | O_TRUNC, 0644, &created);

	must_do(path, fd);
	must_do(path, backing_write(b, fd, data, size, 0, 0));
}

static void print_below(struct backing *b, const char *path, FILE *out)
{
	__cleanup_dirwalk struct dirwalk w = DIRWALK_CLOSED;

	dirwalk_begin_fd(&w, b, peek_open(b, path));
	while (dirwalk_next(&w)) {
		char below[PATH_MAX], text[SMALL + 1] = "";
		struct statx stx = {0};
		size_t i;

		snprintf(below, sizeof(below), "%s%s%s", path, *path ? "/" : "", w.name);
		peek_stat(b, below, &stx);
		if (stx.stx_size <= SMALL && !S_ISDIR(stx.stx_mode))
			peek_read(b, below, text, SMALL);
		for (i = 0; text[i]; i++)
			text[i] = text[i] < ' ' || text[i] > '~' ? ' ' : text[i];
		fprintf(out, "    %s %o %llu %s\n", below, stx.stx_mode,
			(unsigned long long)stx.stx_size, text);
		if (S_ISDIR(stx.stx_mode))
			print_below(b, below, out);
	}
}

void peek_print(struct backing *b, FILE *out)
{
	print_below(b, "", out);
}
