/* SPDX-License-Identifier: MIT */
#include "engine/journal/newer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "engine/backing/dirwalk.h"
#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/journal/journal.h"
#include "engine/save/units.h"

struct commit_source {
	struct backing *b;
	int fd;
};

static ssize_t read_file(void *file, void *buf, size_t len, uint64_t off)
{
	const struct commit_source *f = file;

	return backing_read(f->b, f->fd, buf, len, (off_t)off);
}

/* What the commit file of a checkpoint says. */
struct commit_said {
	const struct rules *rules;
	struct commit_header header;
	const struct rule *rule; /* NULL: no current rule claims it */
};

static bool nothing_beside(void *arg, const char *name)
{
	(void)arg;
	(void)name;
	return false;
}

/* For each entry, until one tells the rule. */
static int find_rule(void *committed, const struct commit_entry *e)
{
	struct commit_said *c = committed;

	c->rule = rules_claim(c->rules, c->header.unit, e->path, nothing_beside, NULL);
	return c->rule != NULL;
}

/* Reads the commit file of the checkpoint @name. 0 or -errno. */
static int read_committed(struct units *us, struct backing *b, int dir, const char *name,
			  struct commit_said *c)
{
	__cleanup_fd int unit = backing_pin(b, dir, name);
	__cleanup_fd int pin = unit < 0 ? unit : backing_pin(b, unit, COMMIT_FILE);
	__cleanup_fd int fd = pin < 0 ? pin : backing_reopen(b, pin, O_RDONLY | O_NONBLOCK);
	struct commit_source f = {b, fd};
	struct source src = {.read = read_file, .arg = &f};
	struct error e;
	int err;

	*c = (struct commit_said){.rules = us->rules};
	err = fd < 0 ? fd : commit_read_header(&src, COMMIT_FILE, &c->header, &e);
	if (!err)
		err = commit_read(&src, COMMIT_FILE, NULL, find_rule, c, &e);
	return err < 0 ? err : 0;
}

/* True if @err says that there is no valid commit file. Any other error may be transient. */
static bool is_uncommitted(int err)
{
	return err == -ENOENT || err == -EBADMSG || err == -EPROTO || err == -ELOOP;
}

/*
 * True if @name is a committed checkpoint newer than @mine, which is to be removed. One of another
 * rule does not count: another job may have saved it.
 */
static bool is_newer_directory(struct units *us, struct backing *b, int dir, const char *name,
			       const struct commit_said *mine)
{
	__cleanup_free struct commit_said *c = malloc(sizeof(*c));

	return c && !read_committed(us, b, dir, name, c) &&
	       c->header.sequence > mine->header.sequence && (!mine->rule || c->rule == mine->rule);
}

/* The time of the last write to the single file @name; 0: none. */
static uint64_t written_at(struct backing *b, int dir, const char *name)
{
	struct statx stx;

	if (backing_stat_at(b, dir, name, &stx) || !S_ISREG(stx.stx_mode))
		return 0;
	return (uint64_t)stx.stx_mtime.tv_sec * NSEC_PER_SEC + stx.stx_mtime.tv_nsec;
}

/* True if @name was published, or the backing has no xattrs to tell. */
static bool is_published(struct backing *b, int dir, const char *name)
{
	__cleanup_fd int pin = backing_pin(b, dir, name);
	__cleanup_fd int fd = pin < 0 ? pin : backing_reopen(b, pin, O_RDONLY);
	ssize_t len = fd < 0 ? fd : backing_getxattr(b, fd, DIGEST_XATTR, NULL, 0);

	return len > 0 || !feature(b->features, FEATURE_XATTR);
}

/* True if @name is a committed file newer than @u, written at @mine, and not removed itself. */
static bool is_newer_file(struct units *us, struct backing *b, const struct unit_place *u,
			  uint64_t mine, int dir, const char *name)
{
	const struct rule *rule = rules_single(us->rules, name);

	return rule && !rule_is_temp(rule, name) && rule == rules_single(us->rules, u->name) &&
	       !removals_hide(us, &u->dir_id, name) && written_at(b, dir, name) > mine &&
	       is_published(b, dir, name);
}

bool unit_has_newer(struct units *us, const struct caller *owner, const struct unit_place *u)
{
	struct backing b = backing_for(us->contents->backing, owner);
	__cleanup_free struct commit_said *mine = calloc(1, sizeof(*mine));
	uint64_t written = u->file ? written_at(&b, u->dir, u->name) : 0;
	const unsigned char type = u->file ? DT_REG : DT_DIR;
	__cleanup_dirwalk struct dirwalk w = DIRWALK_CLOSED;
	bool has = false;
	int err = 0;

	if (!mine)
		return false;
	if (!u->file)
		err = read_committed(us, &b, u->dir, u->name, mine);
	if ((err && !is_uncommitted(err)) || (u->file && !written))
		return false; /* every other would be newer */
	dirwalk_begin(&w, &b, u->dir);
	while (!has && dirwalk_next_visible(&w))
		has = (w.type == type || w.type == DT_UNKNOWN) &&
		      (u->file ? is_newer_file(us, &b, u, written, w.fd, w.name)
			       : is_newer_directory(us, &b, w.fd, w.name, mine));
	return has;
}
