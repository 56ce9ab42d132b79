/* SPDX-License-Identifier: MIT */
#include "tests/sim/eye.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/format/commit.h"
#include "tests/sim/world.h"

#define STAGED ".ckptfs-"

int eye_pin(const char *path)
{
	struct backing *b = world_eye();
	int at = backing_reopen(b, b->root_fd, O_RDONLY | O_DIRECTORY), below;
	char name[NAME_MAX + 1];

	while (at >= 0 && *path) {
		size_t len = strcspn(path, "/");

		snprintf(name, sizeof(name), "%.*s", (int)len, path);
		path += len + (path[len] == '/');
		below = backing_pin(b, at, name);
		close(at);
		at = below;
	}
	return at;
}

int eye_pin_parent(const char *path, const char **name)
{
	char dir[256];
	const char *slash = strrchr(path, '/');

	*name = slash ? slash + 1 : path;
	snprintf(dir, sizeof(dir), "%.*s", slash ? (int)(slash - path) : 0, path);
	return eye_pin(dir);
}

uint64_t eye_ino(const char *path)
{
	const char *name;
	__cleanup_fd int dir = eye_pin_parent(path, &name);
	struct statx stx;

	return dir < 0 || backing_stat_at(world_eye(), dir, name, &stx) ? 0 : stx.stx_ino;
}

ssize_t eye_read(const char *path, char *buf, size_t size)
{
	struct backing *b = world_eye();
	const char *name;
	__cleanup_fd int dir = eye_pin_parent(path, &name);
	__cleanup_fd int pin = dir < 0 ? dir : backing_pin(b, dir, name);
	__cleanup_fd int fd = -1;
	struct statx stx;
	ssize_t n;

	*buf = '\0';
	if (pin < 0 || backing_stat_at(b, dir, name, &stx))
		return pin < 0 ? pin : -ENOENT;
	if (S_ISLNK(stx.stx_mode)) {
		n = backing_readlink(b, pin, buf, size);
	} else {
		fd = backing_reopen(b, pin, O_RDONLY);
		n = fd < 0 ? fd : backing_read(b, fd, buf, size - 1, 0);
	}
	buf[n > 0 ? n : 0] = '\0';
	return n;
}

/* An entry as getdents64 has it. */
struct entry {
	uint64_t ino;
	int64_t off;
	uint16_t len;
	uint8_t type;
	char name[];
};

void eye_list(const char *path, void (*each)(void *arg, const char *path, bool directory),
	      void *arg)
{
	char buf[4096] __attribute__((aligned(8))), below[512];
	struct backing *b = world_eye();
	__cleanup_fd int pin = eye_pin(path);
	__cleanup_fd int fd = pin < 0 ? pin : backing_reopen(b, pin, O_RDONLY | O_DIRECTORY);
	ssize_t len, at;

	while (fd >= 0 && (len = backing_getdents(b, fd, buf, sizeof(buf))) > 0)
		for (at = 0; at < len; at += ((struct entry *)(buf + at))->len) {
			const struct entry *e = (struct entry *)(buf + at);

			if (!strcmp(e->name, ".") || !strcmp(e->name, ".."))
				continue;
			snprintf(below, sizeof(below), "%s%s%s", path, *path ? "/" : "", e->name);
			each(arg, below, e->type == DT_DIR);
		}
}

static void find_staged(void *found, const char *path, bool directory)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

	if (!strncmp(name, STAGED, strlen(STAGED)) && strcmp(name, COMMIT_FILE) != 0)
		*(bool *)found = true;
	if (directory)
		eye_list(path, find_staged, found);
}

bool eye_any_staged(void)
{
	bool found = false;

	eye_list("", find_staged, &found);
	return found;
}
