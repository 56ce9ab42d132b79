/* SPDX-License-Identifier: MIT */
/*
 * How far a checkpoint has come: asked of the daemon by its name in its directory, so it works in
 * bind mounts, too. Needs no session and has no lock; the wait is a poll.
 */
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/session.h"
#include "client/wire.h"

#define FIRST_PAUSE_MS 5
#define MOST_PAUSE_MS  100
#define NSEC_PER_MSEC  1000000ull

/* @path without slashes at its end, and where its last component begins. */
struct place {
	char path[PATH_MAX];
	const char *name;
};

static int split(const char *path, struct place *p)
{
	size_t len = strlen(path);
	char *slash;

	while (len > 1 && path[len - 1] == '/')
		len--;
	if (!len || len >= sizeof(p->path))
		return ckpt_error(NULL, len ? -ENAMETOOLONG : -ENOENT, "%s: %s", path,
				  strerror(len ? ENAMETOOLONG : ENOENT));
	memcpy(p->path, path, len);
	p->path[len] = '\0';
	slash = strrchr(p->path, '/');
	p->name = slash ? slash + 1 : p->path;
	if (!*p->name || !strcmp(p->name, ".") || !strcmp(p->name, "..")) {
		if (!realpath(path, p->path))
			return ckpt_error(NULL, -errno, "%s: %s", path, strerror(errno));
		p->name = strrchr(p->path, '/') + 1;
	}
	if (strlen(p->name) > NAME_MAX)
		return ckpt_error(NULL, -ENAMETOOLONG, "%s: %s", path, strerror(ENAMETOOLONG));
	return *p->name ? 0 : ckpt_error(NULL, -EINVAL, "%s: is no checkpoint", path);
}

/* Opens its directory; or -errno. */
static int open_parent(const struct place *p)
{
	char dir[PATH_MAX];
	size_t len = (size_t)(p->name - p->path);
	int fd;

	memcpy(dir, p->path, len);
	snprintf(dir + len, sizeof(dir) - len, "%s", len ? "" : ".");
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int explain(const struct place *p, int err)
{
	if (err == -ENOTTY || err == -ENOSYS)
		return ckpt_error(NULL, -ENOTTY,
				  "%s: lies in no mount of ckptfs, so nothing is known of it",
				  p->path);
	if (err == -ENOTCONN || err == -ECONNABORTED)
		return ckpt_error(NULL, err,
				  "%s: the daemon of its mount is not running; what was committed "
				  "is safe. Clear the mount with `ckptfs umount`, and mount again",
				  p->path);
	return ckpt_error(NULL, err, "%s: %s", p->path, strerror(-err));
}

/* --- waiting --- */

/* Asks for its state now. A directory that does not exist yet may still come: CKPTFS_ABSENT. */
static int look(const struct place *p, struct ckptfs_query *q)
{
	char generation[CKPTFS_GENERATION_MAX];
	int dir = open_parent(p), err;

	memcpy(generation, q->generation, sizeof(generation));
	*q = (struct ckptfs_query){.state = CKPTFS_ABSENT};
	snprintf(q->text, sizeof(q->text), "its directory does not exist yet");
	if (dir == -ENOENT)
		return 0;
	if (dir < 0)
		return explain(p, dir);
	snprintf(q->name, sizeof(q->name), "%s", p->name);
	memcpy(q->generation, generation, sizeof(generation));
	err = ckpt_wire->ioctl(dir, CKPTFS_IOC_QUERY, q);
	close(dir);
	if (!*q->generation) /* not known any more, or not yet */
		memcpy(q->generation, generation, sizeof(generation));
	q->text[sizeof(q->text) - 1] = '\0';
	return err && err != -EINTR ? explain(p, err) : err;
}

static int failed(const struct place *p, const struct ckptfs_query *q)
{
	int err = q->err > 0 && q->err < 4096 ? -q->err : -EIO;

	if (q->state == CKPTFS_NEVER && err == -EIO)
		err = -EOPNOTSUPP;
	/*
	 * These say that nothing is known of the path. A save that has failed is known, whatever
	 * the backing said of it.
	 */
	if (q->state == CKPTFS_FAILED &&
	    (err == -ENOENT || err == -EACCES || err == -EINVAL || err == -ENAMETOOLONG ||
	     err == -ENOTTY || err == -EOPNOTSUPP))
		err = -EIO;
	return ckpt_error(NULL, err, "%s: %s", p->path, q->text);
}

int ckptfs_wait(const char *path, enum ckptfs_state state, uint64_t timeout_ns)
{
	uint64_t start = ckpt_now_ns();
	int pause_ms = FIRST_PAUSE_MS, err;
	struct ckptfs_query q = {.name = ""};
	struct place p;

	ckpt_error(NULL, 0, "%s", "");
	if (state < CKPTFS_CAPTURED || state > CKPTFS_COMMITTED)
		return ckpt_error(NULL, -EINVAL, "nobody can wait for state %d", (int)state);
	err = split(path, &p);
	while (!err) {
		uint64_t waited;

		err = look(&p, &q);
		if (err)
			break;
		if (q.state >= CKPTFS_FAILED)
			return failed(&p, &q);
		if (q.state >= (uint32_t)state)
			return 0;
		waited = ckpt_now_ns() - start;
		if (waited >= timeout_ns)
			return ckpt_error(NULL, -ETIMEDOUT, "%s: not %s within %.3g s: %s", p.path,
					  state == CKPTFS_COMMITTED ? "committed"
					  : state == CKPTFS_DURABLE ? "durable"
								    : "captured",
					  (double)timeout_ns / CKPT_NSEC_PER_SEC, q.text);
		if (timeout_ns - waited < (uint64_t)pause_ms * NSEC_PER_MSEC)
			pause_ms = (int)((timeout_ns - waited) / NSEC_PER_MSEC) + 1;
		else if (pause_ms < MOST_PAUSE_MS)
			pause_ms *= 2;
		if (poll(NULL, 0, pause_ms) < 0)
			err = -EINTR;
	}
	if (err == -EINTR)
		ckpt_error(NULL, err, "%s: a signal came before it was clear: %s", path, q.text);
	return err;
}

/* --- commit and abandon --- */

static int say(const char *path, bool abandon)
{
	struct ckptfs_commit c = {.abandon = abandon};
	struct place p;
	int err = split(path, &p), dir;

	if (err)
		return err;
	dir = open_parent(&p);
	if (dir < 0)
		return explain(&p, dir);
	snprintf(c.name, sizeof(c.name), "%s", p.name);
	err = ckpt_session_ioctl(dir, CKPTFS_IOC_COMMIT, &c);
	close(dir);
	if (err)
		return explain(&p, err);
	c.text[sizeof(c.text) - 1] = '\0';
	return c.err ? ckpt_error(NULL, c.err < 4096 ? -(int)c.err : -EIO, "%s", c.text)
		     : ckpt_error(NULL, 0, "%s", "");
}

int ckptfs_commit(const char *path)
{
	return say(path, false);
}

int ckptfs_abandon(const char *path)
{
	return say(path, true);
}
