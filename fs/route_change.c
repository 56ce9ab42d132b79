/* SPDX-License-Identifier: MIT */
/*
 * Changes of a file other than writes: its size by its path, its times, its mode, owner and
 * attributes. A file that is being saved changes as by a write. A published file keeps its digest
 * record valid if only its times change. Has no lock of its own. route.c opens with O_TRUNC.
 */
#include <errno.h>
#include <fcntl.h>

#include "engine/backing/backing.h"
#include "engine/base/clock.h"
#include "engine/calls/file.h"
#include "engine/content/content.h"
#include "engine/content/recorded.h"
#include "engine/format/digest_record.h"
#include "engine/liveness/writer.h"
#include "fs/in_checkpoint.h"
#include "fs/route_inside.h"

/* True if the digest record of @fd is valid now; fills @hex. */
static bool valid_record(struct backing *b, int fd, char hex[DIGEST_HEX])
{
	struct statx stx;

	return !backing_stat(b, fd, &stx) && recorded_valid(b, fd, &stx, hex);
}

static void renew_record(struct backing *b, int fd, const char *hex)
{
	char record[DIGEST_RECORD_MAX];
	struct statx stx;

	if (backing_stat(b, fd, &stx))
		return;
	digest_record_format(record, sizeof(record), hex, stx.stx_size,
			     (uint64_t)stx.stx_mtime.tv_sec * NSEC_PER_SEC + stx.stx_mtime.tv_nsec);
	recorded_put(b, &(struct caller){.uid = stx.stx_uid, .gid = stx.stx_gid, .pid = NO_PROCESS},
		     fd, record, true);
}

int route_begin_change(struct fs *fs, const struct caller *c, int fd, struct generation **g)
{
	struct backing b = fs_for(fs, c);
	struct units *us = fs->engine->units;
	struct inode_id id;
	struct statx stx;
	int err;

	*g = NULL;
	if (!us || backing_stat(&b, fd, &stx) || !S_ISREG(stx.stx_mode))
		return 0;
	id = inode_id_of(&stx);
	*g = units_find_inode(us, &id);
	err = *g ? generation_change(*g) : 0;
	if (err) {
		generation_put(*g);
		*g = NULL;
	}
	return err == -EEXIST ? 0 : err;
}

void route_end_change(struct generation *g)
{
	if (g)
		generation_changed(g);
	generation_put(g);
}

/* Opens @n, if it is a file of a checkpoint, to truncate it. *@g NULL: it is none. */
static int begin_cut(struct fs *fs, const struct caller *c, struct node *n, bool empty,
		     struct generation **g)
{
	struct change change = {.opens = true, .empties = empty};
	char name[NAME_MAX + 1];
	struct in_checkpoint in;
	struct node *dir;
	int err = in_checkpoint_enter(fs, c, n, NULL, change, &in);

	*g = NULL;
	if (err > 0) {
		err = in_checkpoint_open(fs, c, &in, n, empty ? O_WRONLY | O_TRUNC : O_WRONLY, g);
		in_checkpoint_leave(&in);
	} else if (!err && tree_place(fs->tree, n, &dir, name)) {
		err = in_checkpoint_begin_change(fs, c, dir, name, change);
		node_put(fs->tree, dir);
	}
	return err;
}

int route_truncate(struct fs *fs, const struct caller *c, struct node *n, uint64_t size)
{
	struct backing b = fs_for(fs, c);
	struct generation *g;
	uint64_t key;
	int err;

	if (!fs->engine->units || !S_ISREG(n->type))
		return -ENOTSUP;
	err = begin_cut(fs, c, n, !size, &g);
	if (err || !g)
		return err ? err : -ENOTSUP;
	key = (uintptr_t)g; /* for a writer that has come and gone */
	err = generation_write(g, key);
	if (!err) {
		err = content_truncate(generation_content(g), &b, size);
		generation_changed(g);
		generation_flushed(g, key, (struct writer_end){.fate = WRITER_ALIVE});
	}
	generation_released(g);
	generation_put(g);
	return err;
}

int route_set_times(struct fs *fs, const struct caller *c, struct node *n, int fd,
		    const struct timespec times[2])
{
	struct inode_id id = node_inode(n);
	struct backing b = fs_as(fs, c);
	struct backing daemon = fs_for(fs, c); /* the record is the daemon's, not the caller's */
	struct generation *g = fs->engine->units ? units_find_inode(fs->engine->units, &id) : NULL;
	char hex[DIGEST_HEX];
	bool held, valid;
	int err = g ? generation_change(g) : -EEXIST; /* waits while it is being published */

	held = g && !err;
	if (err == -EEXIST)
		err = 0;
	valid = !err && !held && S_ISREG(n->type) && valid_record(&b, fd, hex);
	if (!err)
		err = backing_utimens(&b, fd, times);
	if (!err && valid)
		renew_record(&daemon, fd, hex);
	if (held)
		generation_changed(g);
	generation_put(g);
	return err;
}
