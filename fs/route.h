/* SPDX-License-Identifier: MIT */
/*
 * Routes opens, and changes of names, sizes and attributes: decides which of them begin, join,
 * rename or end a generation (engine/calls), and which go to the backing.
 *
 * A file that replaces another is a new inode, but OPEN names an inode. So an OPEN that would
 * change a published file begins the generation and answers ESTALE. Then the kernel looks the path
 * up again, finds the new inode and opens that.
 *
 * Has no lock of its own. data.h moves the bytes.
 */
#ifndef FS_ROUTE_H
#define FS_ROUTE_H

#include "engine/save/generation.h"
#include "fs/fs.h"

/* A name on either side of a rename, or a name to be removed. */
struct entry_name {
	struct node *dir;
	int at; /* descriptor of the directory */
	const char *name;
};

static inline struct place place_of(const struct entry_name *n)
{
	return (struct place){n->at, node_inode(n->dir), n->name};
}

/*
 * Call before @n is opened with @flags. To write to a unit, the open joins the generation *@g,
 * referenced and counted as open until route_opened or route_not_opened; else *@g is NULL. 0;
 * -ESTALE: look the name up again; or -errno.
 */
int route_open(struct fs *fs, const struct caller *c, struct node *n, int flags,
	       struct generation **g);

/*
 * As route_open, before @name is created in @dir, which is open as @at. With a generation, the file
 * is made already. -EEXIST: by O_EXCL.
 */
int route_create(struct fs *fs, const struct caller *c, struct node *dir, int at, const char *name,
		 mode_t mode, int flags, struct generation **g);

/*
 * Call before the directory @n, in the checkpoint @in (NULL: in none), is made with @mode: begins a
 * checkpoint if it may be one. 0: done. -ENOTSUP: make it on the backing. Else -errno.
 */
int route_mkdir(struct fs *fs, const struct caller *c, const struct entry_name *n,
		struct checkpoint *in, mode_t mode);

/* Empties a generation for O_TRUNC. Other programs may have it open, too. */
int route_cut(struct fs *fs, struct generation *g);

/* As names_look_behind, with the daemon's rights. */
int route_look_behind(struct fs *fs, const struct caller *c, const struct entry_name *n,
		      struct statx *stx);

/* Has the data of the file at @n reach the backing before its new name does. */
int route_data_first(struct fs *fs, const struct caller *c, const struct entry_name *n);

/* Binds an open to its generation; the handle takes over the reference. @g may be NULL. */
void route_opened(struct handle *h, struct generation *g);

/*
 * True if the inode of @stx, which was just looked up and opened, is a unit that was removed or
 * failed meanwhile. Its bytes are gone; the caller looks the name up again.
 */
bool route_is_gone(struct fs *fs, const struct statx *stx);

/* Releases the generation of an open that failed. @g may be NULL. */
void route_not_opened(struct generation *g);

/* What the cache knows of the inode of @n, referenced, or NULL. */
struct content *route_content(struct fs *fs, const struct node *n);

/* Drops the digest record of the published file behind @fd, which is not true any more. */
void route_drop_record(struct fs *fs, const struct caller *c, int fd);

/* Removes a file's name, from the backing and from the view. */
int route_unlink(struct fs *fs, const struct caller *c, const struct entry_name *n);

/* Removes a directory, with what is hidden in it. */
int route_rmdir(struct fs *fs, const struct caller *c, const struct entry_name *n);

/* Renames, on the backing or in the view. 0 or -errno. */
int route_rename(struct fs *fs, const struct caller *c, const struct entry_name *from,
		 const struct entry_name *to, unsigned flags);

/*
 * Bracket a change of mode, owner or attributes of the file behind @fd. It changes an unpublished
 * unit as a write does. 0, -EINTR, or the error that the unit failed with; *@g may be NULL.
 */
int route_begin_change(struct fs *fs, const struct caller *c, int fd, struct generation **g);
void route_end_change(struct generation *g);

/*
 * Truncates the file @n by its path, if it is a file of a checkpoint. -ENOTSUP: it is none.
 * -ESTALE: its path leads to another file now.
 */
int route_truncate(struct fs *fs, const struct caller *c, struct node *n, uint64_t size);

/* Sets the times of @n, open as @fd. Its digest record, which contains one of them, stays valid. */
int route_set_times(struct fs *fs, const struct caller *c, struct node *n, int fd,
		    const struct timespec times[2]);

/*
 * Call before a hard link to @n in the checkpoint @to (NULL: in none): waits until @n is published.
 * 0; -EXDEV: @n is still being written, or is of another checkpoint; -EINTR; or the error it failed
 * with.
 */
int route_link(struct fs *fs, const struct caller *c, struct node *n, const struct checkpoint *to);

#endif
