/* SPDX-License-Identifier: MIT */
#include "engine/tensors/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/cleanup.h"

bool path_ends(const char *path, const char *suffix)
{
	size_t len = strlen(path), n = strlen(suffix);

	return len >= n && !strcmp(path + len - n, suffix);
}

const char *path_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* --- the list --- */

static int add(struct tree *t, const char *path, uint64_t size)
{
	char *copy;

	if (t->nr == t->room) {
		size_t room = t->room ? 2 * t->room : 64;
		struct tree_file *more = reallocarray(t->list, room, sizeof(*more));

		if (!more)
			return -ENOMEM;
		t->list = more;
		t->room = room;
	}
	if (t->nr == TREE_FILES_MAX)
		return -E2BIG;
	copy = strdup(path);
	if (!copy)
		return -ENOMEM;
	t->list[t->nr++] = (struct tree_file){.path = copy, .size = size};
	return 0;
}

static int list_below(struct tree *t, int fd, const char *path, unsigned depth);

/* Adds the entry @name of the directory @dir, which has the path @at. */
static int list_entry(struct tree *t, int dir, const char *at, const char *name, unsigned depth)
{
	char path[PATH_MAX];
	struct stat st;
	int fd;

	if (!strncmp(name, ".ckptfs", 7) || fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW))
		return 0; /* gone meanwhile */
	if ((size_t)snprintf(path, sizeof(path), "%s%s%s", at, *at ? "/" : "", name) >=
	    sizeof(path))
		return -ENAMETOOLONG;
	if (S_ISREG(st.st_mode))
		return add(t, path, (uint64_t)st.st_size);
	if (!S_ISDIR(st.st_mode))
		return 0;
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	return list_below(t, fd, path, depth + 1);
}

/* Takes over @fd. */
static int list_below(struct tree *t, int fd, const char *path, unsigned depth)
{
	DIR *d = fdopendir(fd);
	struct dirent *e;
	int err = 0;

	if (!d) {
		close(fd);
		return -errno;
	}
	if (depth > TREE_DEPTH_MAX)
		err = -E2BIG;
	while (!err && (errno = 0, e = readdir(d))) {
		if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
			err = list_entry(t, fd, path, e->d_name, depth);
	}
	err = err ? err : -errno;
	closedir(d);
	return err;
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct tree_file *)a)->path, ((const struct tree_file *)b)->path);
}

struct tree_file *tree_find(const struct tree *t, const char *path)
{
	struct tree_file key = {.path = (char *)path};

	return t->nr ? bsearch(&key, t->list, t->nr, sizeof(key), by_path) : NULL;
}

/* A single file: its directory is opened, and it is the only entry. */
static int open_file(struct tree *t, const char *path, uint64_t size)
{
	const char *name = path_name(path);
	char dir[PATH_MAX];

	if (name == path)
		strcpy(dir, ".");
	else
		snprintf(dir, sizeof(dir), "%.*s", (int)(name - path), path);
	t->single = true;
	t->dir = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return t->dir < 0 ? -errno : add(t, name, size);
}

int tree_open_dir(struct tree *t, int dir)
{
	int fd, err;

	*t = (struct tree)TREE_CLOSED;
	t->dir = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (t->dir < 0)
		return -errno;
	fd = openat(t->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	err = fd < 0 ? -errno : list_below(t, fd, "", 0);
	if (!err && t->nr)
		qsort(t->list, t->nr, sizeof(*t->list), by_path);
	return err;
}

int tree_open(struct tree *t, const char *path)
{
	__cleanup_fd int fd = -1;
	struct stat st;

	*t = (struct tree)TREE_CLOSED;
	if (stat(path, &st))
		return -errno;
	if (S_ISREG(st.st_mode))
		return open_file(t, path, (uint64_t)st.st_size);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : tree_open_dir(t, fd);
}

void tree_close(struct tree *t)
{
	for (size_t i = 0; i < t->nr; i++)
		free(t->list[i].path);
	free(t->list);
	if (t->fd >= 0)
		close(t->fd);
	if (t->dir >= 0)
		close(t->dir);
	*t = (struct tree)TREE_CLOSED;
}

/* --- the bytes --- */

static int fd_of(struct tree *t, const struct tree_file *f)
{
	size_t nr = (size_t)(f - t->list);

	if (t->fd >= 0 && t->open == nr)
		return t->fd;
	if (t->fd >= 0)
		close(t->fd);
	t->fd = openat(t->dir, f->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	t->open = nr;
	return t->fd < 0 ? -errno : t->fd;
}

static ssize_t read_part(void *arg, void *buf, size_t len, uint64_t off)
{
	const struct tree_part *p = arg;
	int fd = fd_of(p->tree, p->file);
	size_t done = 0;

	if (fd < 0)
		return fd;
	if (off >= p->size)
		return 0;
	if (len > p->size - off)
		len = (size_t)(p->size - off);
	while (done < len) {
		ssize_t n = pread(fd, (char *)buf + done, len - done, (off_t)(p->at + off + done));

		if (n < 0 && errno != EINTR)
			return -errno;
		if (!n)
			break;
		done += n > 0 ? (size_t)n : 0;
	}
	return (ssize_t)done;
}

void tree_part(struct tree_part *p, struct tree *t, const struct tree_file *f, uint64_t at,
	       uint64_t size)
{
	*p = (struct tree_part){.tree = t, .file = f, .at = at, .size = size};
	p->source = (struct source){.read = read_part, .arg = p};
}

int tree_read(const struct tree_part *p, void *buf, size_t len, uint64_t off)
{
	ssize_t n = read_part((void *)p, buf, len, off);

	return n < 0 ? (int)n : (size_t)n < len ? -EBADMSG : 0;
}

int tree_load(const struct tree_part *p, uint64_t off, uint64_t len, size_t max, char **out)
{
	__cleanup_free char *buf = NULL;
	int err;

	if (off > p->size || len > p->size - off)
		return -EBADMSG;
	if (len > max)
		return -EFBIG;
	buf = malloc((size_t)len + 1);
	err = buf ? tree_read(p, buf, (size_t)len, off) : -ENOMEM;
	if (err)
		return err;
	p->tree->loaded += len;
	buf[len] = '\0';
	*out = take_ptr(buf);
	return 0;
}
