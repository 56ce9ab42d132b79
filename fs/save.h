/* SPDX-License-Identifier: MIT */
/*
 * Where opens, names and writes meet the units: which of them begin, join, rename or end a
 * generation (engine/unit), and which go to the backing.
 *
 * A file that replaces another is a new inode, but OPEN names an inode. So an OPEN that would
 * change a published file begins the generation and answers ESTALE, upon which the kernel looks the
 * path up again, finds the new inode and opens that.
 */
#ifndef FS_SAVE_H
#define FS_SAVE_H

#include "fs/fs.h"

/* A name on either side of a rename, or one to be removed. */
struct save_name {
	struct node *dir;
	int at; /* descriptor of the directory */
	const char *name;
};

/*
 * Before @n is opened with @flags: for writing to a unit, *@g is the generation that it joins,
 * referenced and counted as open, until save_opened or save_not_opened; else NULL. -ESTALE: look
 * the name up again. Otherwise 0 or -errno.
 */
int save_open(struct fs *fs, const struct caller *c, struct node *n, int flags,
	      struct generation **g);

/*
 * Before @name is created in @dir, which is open as @at. The same; with a generation, the file
 * is made already. -EEXIST where O_EXCL says so.
 */
int save_create(struct fs *fs, const struct caller *c, struct node *dir, int at, const char *name,
		mode_t mode, int flags, struct generation **g);

/*
 * Before the directory @n, in the checkpoint @in (NULL: in none), is made with @mode: one that may
 * be a checkpoint is begun. 0: done; -ENOTSUP: it is to be made on the backing.
 */
int save_mkdir(struct fs *fs, const struct caller *c, const struct save_name *n,
	       struct checkpoint *in, mode_t mode);

/* O_TRUNC of a generation that others may have open, too. */
int save_cut(struct fs *fs, struct generation *g);

/* Has the data of the file at @n reach the backing before its new name does. */
int save_data_first(struct fs *fs, const struct caller *c, const struct save_name *n);

/* Binds an open to its generation; the handle takes over the reference. @g may be NULL. */
void save_opened(struct handle *h, struct generation *g);

/*
 * Was the inode that @stx is of, and that was just looked up and opened, a unit that has been
 * removed or has failed meanwhile? Its bytes are gone then; the name, looked up again, says what is
 * there.
 */
bool save_is_gone(struct fs *fs, const struct statx *stx);

/* The open came to nothing. @g may be NULL. */
void save_not_opened(struct generation *g);

/* What the cache knows of the inode of @n, referenced, or NULL. */
struct content *save_content(struct fs *fs, const struct node *n);

/* From here on the file behind @fd, which has its name, is not what its digest says. */
void save_unvouched(struct fs *fs, const struct caller *c, int fd);

/* Does a generation have this name, though nothing on the backing may? */
bool save_has_name(struct fs *fs, const struct node *dir, const char *name);

/* Removes a file's name, from the backing and from the view. */
int save_unlink(struct fs *fs, const struct caller *c, const struct save_name *n);

/* Removes a directory, with what is hidden in it. */
int save_rmdir(struct fs *fs, const struct caller *c, const struct save_name *n);

/* A rename, on the backing or in the view. 0 or -errno. */
int save_rename(struct fs *fs, const struct caller *c, const struct save_name *from,
		const struct save_name *to, unsigned flags);

/*
 * Around a change of mode, owner or attributes of the file behind @fd: a unit that is not published
 * yet is changed by it, as by a write. 0, -EINTR, or what the unit failed with; *@g may be NULL.
 */
int save_begin_change(struct fs *fs, const struct caller *c, int fd, struct generation **g);
void save_end_change(struct generation *g);

/*
 * Cuts the file @n, by its path, if it is one of a checkpoint. -ENOTSUP: it is none. -ESTALE: its
 * path leads to another now.
 */
int save_truncate(struct fs *fs, const struct caller *c, struct node *n, uint64_t size);

/* Sets the times of @n, open as @fd; its digest record, which names one of them, stays valid. */
int save_set_times(struct fs *fs, const struct caller *c, struct node *n, int fd,
		   const struct timespec times[2]);

/*
 * Before a hard link to @n, in the checkpoint @to (NULL: in none): waits until it is published. 0;
 * -EXDEV: still being written, or of another checkpoint; -EINTR.
 */
int save_link(struct fs *fs, struct node *n, const struct checkpoint *to);

#endif
