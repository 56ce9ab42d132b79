/* SPDX-License-Identifier: MIT */
/*
 * What the files of views.h share. views_node.c: nodes. views_beside.c: what lies beside the
 * tensors. views.c: views are made, and lookups. views_open.c: what is open.
 */
#ifndef FS_VIEWS_INSIDE_H
#define FS_VIEWS_INSIDE_H

#include "engine/base/lock.h"
#include "engine/base/table.h"
#include "engine/views/view.h"
#include "fs/views.h"

/*
 * A view of one state of a unit; const but for refs and used. The last VIEWS_KEPT are kept, and
 * what is open holds its own: so names that the kernel remembers take little memory. One that is
 * not kept any more is made again.
 */
#define VIEWS_KEPT 16
#define VIEWS_BYTES \
	((size_t)256 << 20) /* of the texts of their indexes; if there is more than one */

#define VIEWS_LINK_TO  "../../" /* from a view to its unit */
#define VIEWS_LINK_MAX 1024

struct shown {
	unsigned refs; /* lock of the table, as the next */
	uint64_t used; /* number of the last look-up that found it */
	uint64_t unit; /* the id of its node */
	size_t bytes;  /* of the text of its index */
	char spec[SPEC_TEXT_MAX + 1];
	/*
	 * The state that it is of: the ctime of the commit file, as that of the directory changes
	 * when its index is kept, or of a directory that has none; and what is beside it.
	 */
	uint64_t state;
	struct view *view;
};

enum view_kind {
	VIEW_TOP,
	VIEW_TOP_WHY,
	VIEW_TOP_INDEX,
	VIEW_SPEC,
	VIEW_FILE,
	VIEW_WHY,
	VIEW_LINK
};

struct view_node {
	struct table_node by_id, by_name;
	uint64_t id, nlookup;
	struct view_node *parent; /* referenced: it has one child more; NULL: of a top */
	unsigned children;
	enum view_kind kind;
	char *name;
	struct node *unit; /* of a top: referenced */
	uint64_t state;	   /* of a view and what is in it: as in struct shown */
	size_t file;
	char *why;    /* of a top: of the last spec that was refused; or NULL */
	char *target; /* of a link */
	struct stat st;
	bool named; /* it is in by_name */
};

struct views {
	struct fs *fs;
	struct lock lock; /* all below */
	struct table by_id, by_name;
	uint64_t next_id, uses;
	struct shown *kept[VIEWS_KEPT]; /* referenced; NULL: free */
	struct lock making;		/* one view is made at a time */
	atomic_uint nr_making;		/* threads that make one, or wait for that */
};

/* --- views_node.c --- */

/* A node with the owner and the times of @stx, not added yet. NULL: no memory. */
struct view_node *view_node_make(enum view_kind kind, const char *name, const struct statx *stx);
/*
 * Adds @n below @parent, or below its unit if that is NULL, and counts a lookup of it. If another
 * thread has added one of that name, and @n is no newer, that one is looked up, and @n freed.
 */
struct view_node *view_node_add(struct views *vs, struct view_node *parent, struct view_node *n);
/* Frees a node that was not added. */
void view_node_free(struct views *vs, struct view_node *n);
/* At the end of a mount, where the kernel forgets nodes without saying so. */
void view_nodes_free(struct views *vs);

/* The node with this id, counted as one child more, so that it stays. NULL: it was forgotten. */
struct view_node *views_get(struct views *vs, uint64_t id);
void views_put(struct views *vs, struct view_node *n);

/* The unit of @n, which the caller holds. */
struct node *views_unit(struct view_node *n);

/* The same of @n, a view or a node in one. -ESTALE: the unit has changed since its look-up. */
int views_shown_of(struct views *vs, const struct caller *c, struct view_node *n,
		   struct shown **out);

void shown_put(struct views *vs, struct shown *s); /* accepts NULL */

/*
 * A descriptor of the unit of @n, as @c may read it; and its attributes, where the ctime is that of
 * its state (struct shown). -errno.
 */
int views_open_unit(struct views *vs, const struct caller *c, struct view_node *n,
		    struct statx *stx);

/* The texts that a view needs: its map, its layout, config.json. */
struct view_text {
	char name[SPEC_TEXT_MAX + sizeof(".json")];
	char *text; /* NULL, and err: it cannot be read */
	int err;
};

struct view_texts {
	struct view_text list[3];
	unsigned nr;
};

/*
 * Reads them, as @c finds them from @unit. What cannot be read is noted. 0; or -EINVAL with @why:
 * the directory of assets is not there.
 */
int views_read_beside(struct views *vs, const struct caller *c, struct node *unit,
		      const struct view_spec *spec, struct view_texts *t, char why[SPEC_WHY_MAX]);
void views_free_texts(struct view_texts *t);

/* What tells them from others. */
uint64_t views_texts_state(const struct view_texts *t);

/* For struct view_beside, with a struct view_texts. */
int views_give_text(void *texts, const char *name, char **text);

/* True if loaders look for @name and the view @n, a VIEW_SPEC, has a link of that name. */
bool views_asset(struct views *vs, const struct caller *c, struct view_node *n, const char *name,
		 char target[VIEWS_LINK_MAX]);

/* The text of the node @n, a `why` or index.json. Malloced; or NULL, and *@err. */
char *views_text(struct views *vs, const struct caller *c, struct view_node *n, int *err);

#endif
