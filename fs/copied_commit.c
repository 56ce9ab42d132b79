/* SPDX-License-Identifier: MIT */
#include "fs/copied_commit.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "engine/backing/backing.h"
#include "engine/base/cleanup.h"
#include "engine/base/lock.h"
#include "engine/content/content.h"
#include "engine/format/names.h"
#include "engine/rule/reserved_names.h"
#include "engine/save/generation.h"
#include "fs/in_checkpoint.h"

bool copied_commit_is(const char *name)
{
	return name_is_kept_or_copied(name);
}

/* --- the table --- */

static bool has(const struct copied_commit *p, const struct inode_id *dir, const char *name)
{
	return p->name[0] && same_inode(&p->dir, dir) && !strcmp(p->name, name);
}

/* NULL: none. */
static struct copied_commit *find_locked(struct fs *fs, const struct inode_id *dir,
					 const char *name)
{
	size_t i;

	for (i = 0; i < COPIED_COMMITS_KEPT; i++)
		if (has(&fs->copied_commits[i], dir, name))
			return &fs->copied_commits[i];
	return NULL;
}

/* Frees the entry. The caller has to close the descriptor. */
static int take_locked(struct copied_commit *p)
{
	p->name[0] = '\0';
	return p->fd;
}

void copied_commit_keep(struct fs *fs, const struct inode_id *dir, const char *name, int fd)
{
	int old = -1;
	{
		LOCK_SCOPE(&fs->copied_commit_lock);
		struct copied_commit *p = find_locked(fs, dir, name);

		if (!p)
			p = &fs->copied_commits[fs->nr_copied_commits++ % COPIED_COMMITS_KEPT];
		if (p->name[0])
			old = take_locked(p);
		p->dir = *dir;
		snprintf(p->name, sizeof(p->name), "%s", name);
		p->fd = fd;
	}
	if (old >= 0)
		close(old);
}

void copied_commit_finish(struct fs *fs)
{
	size_t i;

	for (i = 0; i < COPIED_COMMITS_KEPT; i++)
		if (fs->copied_commits[i].name[0])
			close(take_locked(&fs->copied_commits[i]));
}

/* --- calls --- */

int copied_commit_create(struct fs *fs, const struct caller *c, struct node *dir, int at,
			 const char *name, mode_t mode)
{
	struct backing b = fs_as(fs, c);
	struct backing maker = backing_maker(&b, c);
	struct inode_id dir_id = node_inode(dir);
	char hidden[STAGING_MAX];
	bool created;
	int fd, copy, err = fs->engine->units ? staging_new(hidden) : -EROFS;

	if (err)
		return err;
	fd = backing_create(&maker, at, hidden, O_RDWR | O_EXCL, mode, &created);
	if (fd < 0)
		return fd;
	backing_unlink(&b, at, hidden, false);
	copy = backing_dup(&b, fd);
	if (copy >= 0)
		copied_commit_keep(fs, &dir_id, name, copy);
	return fd;
}

int copied_commit_lookup(struct fs *fs, const struct caller *c, struct node *dir, const char *name,
			 struct node **out, struct statx *stx)
{
	struct backing b = fs_for(fs, c);
	struct inode_id id = node_inode(dir);
	int fd = -1, err;
	{
		LOCK_SCOPE(&fs->copied_commit_lock);
		struct copied_commit *p = find_locked(fs, &id, name);

		if (p)
			fd = backing_dup(&b, p->fd);
	}
	if (fd < 0)
		return -ENOENT;
	err = tree_lookup_fd(fs->tree, &b, dir, name, fd, out, stx);
	close(fd);
	return err;
}

int copied_commit_unlink(struct fs *fs, const struct caller *c, struct node *dir, const char *name)
{
	struct inode_id id = node_inode(dir);
	int fd = -1, err;
	{
		LOCK_SCOPE(&fs->copied_commit_lock);
		struct copied_commit *p = find_locked(fs, &id, name);

		if (p)
			fd = take_locked(p);
	}
	if (fd >= 0) {
		close(fd);
		return 0;
	}
	err = in_checkpoint_begin_change(fs, c, dir, name, (struct change){0});
	if (err == -ESTALE)
		return 0; /* the generation that was begun has none */
	return err ? err : -ENOENT;
}

int copied_commit_move(struct fs *fs, const struct entry_name *from, const struct entry_name *to)
{
	struct inode_id from_dir = node_inode(from->dir), to_dir = node_inode(to->dir);
	int fd;
	{
		LOCK_SCOPE(&fs->copied_commit_lock);
		struct copied_commit *p = find_locked(fs, &from_dir, from->name);

		if (!p || !copied_commit_is(to->name))
			return p ? -EXDEV : -ENOENT;
		fd = take_locked(p);
	}
	copied_commit_keep(fs, &to_dir, to->name, fd);
	return 0;
}
