/* SPDX-License-Identifier: MIT */
#include "engine/redo/order.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/backing/dirwalk.h"
#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/content/digest.h"
#include "engine/redo/trash.h"
#include "engine/redo/unit_header.h"

/* A longer file names nothing. */
#define POINTER_MAX 4096

/* --- what a name shows --- */

struct text {
	const char *bytes;
	size_t len;
};

static ssize_t read_text(void *text, void *buf, size_t len, uint64_t off)
{
	const struct text *t = text;

	if (off >= t->len)
		return 0;
	len = len < t->len - off ? len : t->len - (size_t)off;
	memcpy(buf, t->bytes + off, len);
	return (ssize_t)len;
}

/* Reads the first bytes of @pin. Returns their number, or -errno. */
static ssize_t read_pointer(struct backing *b, int pin, bool link, char buf[POINTER_MAX])
{
	ssize_t len;
	int fd;

	if (link)
		return backing_readlink(b, pin, buf, POINTER_MAX - 1);
	fd = backing_reopen(b, pin, O_RDONLY | O_NONBLOCK);
	if (fd < 0)
		return fd;
	len = backing_read(b, fd, buf, POINTER_MAX, 0);
	close(fd);
	return len;
}

int order_look(struct backing *b, int dir, const char *name, char was[ORDER_WAS_MAX])
{
	char bytes[POINTER_MAX], hex[DIGEST_HEX];
	__cleanup_fd int pin = backing_pin(b, dir, name);
	struct text t = {.bytes = bytes};
	struct source src = {.read = read_text, .arg = &t};
	struct statx stx;
	ssize_t len;
	int err;

	snprintf(was, ORDER_WAS_MAX, "%s", pin < 0 ? "nothing" : "another");
	err = pin < 0 ? pin : backing_stat(b, pin, &stx);
	if (err)
		return err == -ENOENT ? 0 : err;
	if (!S_ISREG(stx.stx_mode) && !S_ISLNK(stx.stx_mode))
		return 0;
	len = read_pointer(b, pin, S_ISLNK(stx.stx_mode), bytes);
	if (len < 0)
		return (int)len;
	t.len = (size_t)len;
	err = digest_of_source(&src, t.len, 1, NULL, NULL, hex);
	if (!err)
		snprintf(was, ORDER_WAS_MAX, "%s %llu %s", S_ISLNK(stx.stx_mode) ? "link" : "file",
			 (unsigned long long)stx.stx_size, hex);
	return err;
}

bool order_is_newer(struct backing *b, int dir, const char *name, uint64_t ns)
{
	struct statx stx;

	return !backing_stat_at(b, dir, name, &stx) &&
	       (uint64_t)stx.stx_mtime.tv_sec * NSEC_PER_SEC + stx.stx_mtime.tv_nsec > ns;
}

static bool names(struct backing *b, const struct rules *rules, int dir, const char *pointer,
		  const char *name)
{
	char content[POINTER_MAX], named[NAME_MAX + 1];
	__cleanup_fd int pin = backing_pin(b, dir, pointer);
	struct statx stx;
	ssize_t len;
	bool link;

	if (pin < 0 || backing_stat(b, pin, &stx))
		return false;
	link = S_ISLNK(stx.stx_mode);
	if (!link && (!S_ISREG(stx.stx_mode) || !rules_is_pointer(rules, pointer)))
		return false;
	len = read_pointer(b, pin, link, content);
	if (len <= 0)
		return false;
	if (link)
		content[len] = '\0';
	return (link ? rules_link_names(content, named)
		     : rules_pointer_names(rules, pointer, content, (size_t)len, named)) &&
	       !strcmp(named, name);
}

static bool has_pointer(const struct order *o, const char *name)
{
	size_t i;

	for (i = 0; o && i < o->nr_pointers; i++)
		if (!strcmp(o->pointers[i].name, name))
			return true;
	return false;
}

bool order_is_named(struct backing *b, const struct rules *rules, int dir, const char *name,
		    const struct order *but)
{
	__cleanup_dirwalk struct dirwalk w = DIRWALK_CLOSED;
	bool named = false;

	dirwalk_begin(&w, b, dir);
	while (!named && dirwalk_next_visible(&w))
		named = (w.type == DT_LNK || w.type == DT_UNKNOWN ||
			 rules_is_pointer(rules, w.name)) &&
			!has_pointer(but, w.name) && names(b, rules, dir, w.name, name);
	return named;
}

/* --- O6 --- */

/* 0 if @staging is a pointer that the owner of the record could have made. */
static int check_staged(const struct order_place *p, const char *staging)
{
	struct statx stx;
	int err = backing_stat_at(p->backing, p->dir, staging, &stx);

	if (err)
		return err;
	if (stx.stx_uid != p->owner->uid || (!S_ISREG(stx.stx_mode) && !S_ISLNK(stx.stx_mode)))
		return -ENOENT;
	return 0;
}

/* True if the owner has the name, or nothing does: then the daemon may use its own rights. */
static bool is_owners(const struct order_place *p, const char *name)
{
	struct statx stx;
	int err = backing_stat_at(p->backing, p->dir, name, &stx);

	return err == -ENOENT || (!err && stx.stx_uid == p->owner->uid);
}

int order_point(const struct order_place *p, const struct order_pointer *pointer)
{
	struct backing as = backing_as(p->backing, p->owner);
	char now[ORDER_WAS_MAX];
	int err = check_staged(p, pointer->staging);

	if (err)
		return err == -ENOENT ? 0 : err; /* another daemon was first */
	err = order_look(p->backing, p->dir, pointer->name, now);
	if (err)
		return err;
	if (strcmp(now, pointer->was))
		return 0;
	if (p->only_look)
		return 1;
	err = backing_rename(&as, p->dir, pointer->staging, p->dir, pointer->name, 0);
	if ((err == -EACCES || err == -EPERM) && is_owners(p, pointer->name))
		err = backing_rename(p->backing, p->dir, pointer->staging, p->dir, pointer->name,
				     0);
	if (!err)
		return 1;
	/* The rename may have succeeded whatever the answer says, or another daemon was first. */
	return check_staged(p, pointer->staging) == -ENOENT ? 0 : err;
}

/* --- O7 --- */

struct sought {
	struct backing *backing;
	const char *generation;
	uid_t owner;
};

static bool is_sought(void *sought, int pin, const struct statx *stx)
{
	const struct sought *s = sought;
	char generation[COMMIT_HEX];

	if (!S_ISDIR(stx->stx_mode) || stx->stx_uid != s->owner)
		return false;
	unit_generation(s->backing, pin, generation);
	return !strcmp(generation, s->generation);
}

int order_remove(const struct order_place *p, const struct order_removal *removal,
		 char trash[STAGING_MAX])
{
	struct sought sought = {p->backing, removal->generation, p->owner->uid};
	__cleanup_fd int pin = backing_pin(p->backing, p->dir, removal->name);
	struct statx stx;
	int err = pin < 0 ? pin : backing_stat(p->backing, pin, &stx);

	if (err)
		return err == -ENOENT ? 0 : err;
	if (!strcmp(removal->generation, p->id) || !strcmp(removal->name, p->unit) ||
	    !is_sought(&sought, pin, &stx) ||
	    order_is_named(p->backing, p->rules, p->dir, removal->name, p->to_come))
		return 0;
	if (p->only_look)
		return 1;
	return trash_put(p->backing, p->owner, p->dir, removal->name, is_sought, &sought, trash);
}
