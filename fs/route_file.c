/* SPDX-License-Identifier: MIT */
/*
 * The file at a name, and what the cache knows of it: for opens, removals and renames, inside and
 * outside of checkpoints. Has no lock of its own.
 */
#include <errno.h>

#include "engine/backing/backing.h"
#include "engine/base/wait.h"
#include "engine/calls/file.h"
#include "engine/content/content.h"
#include "engine/content/recorded.h"
#include "engine/names/names.h"
#include "engine/rule/rule.h"
#include "fs/route_inside.h"

bool route_is_staged(struct fs *fs, const char *name)
{
	return rules_single(fs->engine->rules, name) || rules_is_pointer(fs->engine->rules, name);
}

struct content *route_content(struct fs *fs, const struct node *n)
{
	struct inode_id id = node_inode(n);

	return fs->engine->contents ? content_find(fs->engine->contents, &id) : NULL;
}

void route_drop_record(struct fs *fs, const struct caller *c, int fd)
{
	struct backing b = fs_for(fs, c);

	recorded_drop(&b, fd);
}

int route_look_behind(struct fs *fs, const struct caller *c, const struct entry_name *n,
		      struct statx *stx)
{
	struct backing b = fs_for(fs, c);
	struct place at = place_of(n);

	return names_look_behind(fs->engine->units, &b, &at, stx);
}

int route_data_first(struct fs *fs, const struct caller *c, const struct entry_name *n)
{
	struct content *ct;
	struct inode_id id;
	struct statx stx;
	int err = route_look_behind(fs, c, n, &stx);

	if (err)
		return err == -ENOENT ? 0 : err; /* the rename will say so */
	id = inode_id_of(&stx);
	ct = content_find(fs->engine->contents, &id);
	if (ct)
		err = content_write_back(ct);
	content_put(ct);
	return err;
}

int route_cut(struct fs *fs, struct generation *g)
{
	struct backing b = fs_for(fs, generation_owner(g));
	int err = generation_change(g);

	if (err)
		return err;
	err = content_truncate(generation_content(g), &b, 0);
	if (wait_interrupted())
		generation_cut_off(g); /* what the program would have written is unknown */
	generation_changed(g);
	return err;
}
