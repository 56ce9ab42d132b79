/* SPDX-License-Identifier: MIT */
/* What views.c (nodes and lookups) and views_open.c (what is open) share. */
#ifndef FS_VIEWS_INSIDE_H
#define FS_VIEWS_INSIDE_H

#include "engine/base/table.h"
#include "engine/views/view.h"
#include "fs/views.h"

/* A view of one state of a unit. Its text and view are const. */
struct shown {
	unsigned refs; /* lock of the table */
	struct view *view;
	uint64_t changed_ns; /* the ctime of the unit when it was made */
};

enum view_kind { VIEW_TOP, VIEW_TOP_WHY, VIEW_SPEC, VIEW_FILE, VIEW_WHY, VIEW_LINK };

struct view_node {
	struct table_node by_id, by_name;
	uint64_t id, nlookup;
	struct view_node *parent; /* referenced: it has one child more; NULL: of a top */
	unsigned children;
	enum view_kind kind;
	char *name;
	struct node *unit;   /* of a top: referenced */
	struct shown *shown; /* of what is in a view: referenced */
	size_t file;
	char *why; /* of a top: of the last spec that was refused; or NULL */
	struct stat st;
	bool named; /* it is in by_name */
};

struct views {
	struct fs *fs;
	struct lock lock;   /* all below */
	struct lock making; /* one view is made at a time */
	struct table by_id, by_name;
	uint64_t next_id;
};

/* The node with this id, counted as one child more, so that it stays. NULL: it was forgotten. */
struct view_node *views_get(struct views *vs, uint64_t id);
void views_put(struct views *vs, struct view_node *n);

/* The unit of @n, which the caller holds. */
struct node *views_unit(struct view_node *n);

struct shown *shown_get(struct views *vs, struct shown *s);
void shown_put(struct views *vs, struct shown *s); /* accepts NULL */

/* The text of the node `why` @n. Malloced, or NULL. */
char *views_why(struct views *vs, struct view_node *n);

/* When the directory of @stx changed last. */
static inline uint64_t changed_ns(const struct statx *stx)
{
	return (uint64_t)stx->stx_ctime.tv_sec * NSEC_PER_SEC + stx->stx_ctime.tv_nsec;
}

#endif
