/* SPDX-License-Identifier: MIT */
/* What an image is made of: for image.c, which changes it, and for those that read it. */
#ifndef TESTS_BACKING_IMAGE_INSIDE_H
#define TESTS_BACKING_IMAGE_INSIDE_H

#include "tests/backing/image.h"
#include "tests/backing/pages.h"

struct entry {
	const char *name;
	int inode;   /* -1: there is none of that name */
	bool missed; /* something was not done to this name, so nothing later is */
};

struct xattr {
	const char *name;
	const struct record_op *op; /* that set it; NULL: removed */
};

struct inode {
	struct record_attr attr;
	bool timed; /* its times were set on purpose */
	const char *target;
	/* of a file */
	off_t size;
	struct page **pages; /* as many as the log knows blocks; NULL: zeros */
	bool *missed;	     /* one for each page, as for names */
	/* of a directory */
	struct entry *entries;
	size_t nr_entries, max_entries;
	struct xattr *xattrs;
	size_t nr_xattrs, max_xattrs;
};

struct image {
	const struct record *log;
	struct inode *inodes; /* as many as the log has */
	bool new_name_came;   /* of the rename in two steps that is under way */
};

#endif
