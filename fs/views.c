/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/backing/backing.h"
#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/lock.h"
#include "engine/base/table.h"
#include "engine/format/commit.h"
#include "engine/save/checkpoint.h"
#include "engine/tensors/stored.h"
#include "engine/views/view.h"
#include "fs/indexer.h"
#include "fs/view_assets.h"
#include "fs/views_inside.h"

#define WHY	   "why"
#define INDEX	   "index.json"
#define SPEC_ALL   "part=all"
#define FILE_TIME  3600.0 /* a file of a view never changes */
#define SHORT_TIME 1.0
#define MAKING_MAX 8

void shown_put(struct views *vs, struct shown *s)
{
	if (!s)
		return;
	{
		LOCK_SCOPE(&vs->lock);
		if (--s->refs)
			return;
	}
	view_destroy(s->view);
	free(s);
}

struct views *views_create(struct fs *fs)
{
	struct views *vs = calloc(1, sizeof(*vs));

	if (!vs)
		return NULL;
	vs->fs = fs;
	vs->next_id = VIEWS_FIRST;
	lock_init(&vs->lock, LOCK_VIEWS);
	lock_init(&vs->making, LOCK_VIEWS_MAKING);
	if (!table_init(&vs->by_id) && !table_init(&vs->by_name))
		return vs;
	views_destroy(vs);
	return NULL;
}

void views_destroy(struct views *vs)
{
	if (!vs)
		return;
	for (size_t i = 0; i < VIEWS_KEPT; i++)
		shown_put(vs, vs->kept[i]);
	view_nodes_free(vs);
	table_finish(&vs->by_id);
	table_finish(&vs->by_name);
	lock_finish(&vs->lock);
	lock_finish(&vs->making);
	free(vs);
}

/* --- making --- */

int views_open_unit(struct views *vs, const struct caller *c, struct view_node *n,
		    struct statx *stx)
{
	struct backing b = fs_as(vs->fs, c);
	struct statx commit;
	struct node_fd nf;
	int fd, err = tree_fd(vs->fs->tree, &b, views_unit(n), &nf);

	if (err)
		return err;
	fd = backing_reopen(&b, nf.fd, O_RDONLY | O_DIRECTORY);
	tree_fd_put(vs->fs->tree, &nf);
	err = fd < 0 ? fd : backing_stat(&b, fd, stx);
	if (!err && !backing_stat_at(&b, fd, COMMIT_FILE, &commit))
		stx->stx_ctime = commit.stx_ctime;
	if (err && fd >= 0)
		close(fd);
	return err ? err : fd;
}

/* When the unit, whose attributes are @stx, changed last. */
static uint64_t changed_ns(const struct statx *stx)
{
	return (uint64_t)stx->stx_ctime.tv_sec * NSEC_PER_SEC + stx->stx_ctime.tv_nsec;
}

/* The one that is kept, referenced; NULL: none is. */
static struct shown *find_kept(struct views *vs, uint64_t unit, const char *spec, uint64_t state)
{
	LOCK_SCOPE(&vs->lock);

	for (size_t i = 0; i < VIEWS_KEPT; i++) {
		struct shown *s = vs->kept[i];

		if (!s || s->unit != unit || s->state != state || strcmp(s->spec, spec) != 0)
			continue;
		s->refs++;
		s->used = ++vs->uses;
		return s;
	}
	return NULL;
}

/* Takes out what was not used for longest, so that @bytes more fit. NULL: they do. */
static struct shown *make_room_locked(struct views *vs, size_t bytes)
{
	size_t sum = bytes, oldest = VIEWS_KEPT, nr = 0;
	struct shown *old;

	for (size_t i = 0; i < VIEWS_KEPT; i++) {
		if (!vs->kept[i])
			continue;
		nr++;
		sum += vs->kept[i]->bytes;
		if (oldest == VIEWS_KEPT || vs->kept[i]->used < vs->kept[oldest]->used)
			oldest = i;
	}
	if (!nr || (nr < VIEWS_KEPT && sum <= VIEWS_BYTES))
		return NULL;
	old = vs->kept[oldest];
	vs->kept[oldest] = NULL;
	return old;
}

/* There is room for @s, which gets a reference more. */
static void add_kept_locked(struct views *vs, struct shown *s)
{
	size_t i = 0;

	while (vs->kept[i])
		i++;
	vs->kept[i] = s;
	s->used = ++vs->uses;
	s->refs++;
}

static void keep(struct views *vs, struct shown *s)
{
	struct shown *old;

	do {
		{
			LOCK_SCOPE(&vs->lock);
			old = make_room_locked(vs, s->bytes);
			if (!old)
				add_kept_locked(vs, s);
		}
		shown_put(vs, old);
	} while (old);
}

/* Reads the index with the rights of the owner, and makes the view. */
static int make_shown(int dir, const struct statx *stx, const char *spec, struct view_texts *texts,
		      struct shown **out, char why[SPEC_WHY_MAX])
{
	const struct view_beside beside = {.read = views_give_text, .arg = texts};
	struct shown *s = calloc(1, sizeof(*s));
	struct index *ix = NULL;
	int err = s ? indexer_read(dir, stx->stx_uid, stx->stx_gid, &ix, &s->bytes) : -ENOMEM;

	if (!err)
		err = view_create(&s->view, ix, spec, &beside, why);
	if (err) {
		free(s);
		return err;
	}
	s->bytes += s->view->bytes;
	snprintf(s->spec, sizeof(s->spec), "%s", spec);
	s->refs = 1;
	*out = s;
	return 0;
}

/* The view of that state; made if it is not kept. One thread makes one at a time. */
static int find_or_make(struct views *vs, struct shown *wanted, int fd, const struct statx *stx,
			struct view_texts *texts, struct shown **out, char why[SPEC_WHY_MAX])
{
	int err = 0;

	*out = find_kept(vs, wanted->unit, wanted->spec, wanted->state);
	if (*out)
		return 0;
	if (atomic_fetch_add(&vs->nr_making, 1) >= MAKING_MAX) {
		err = -EBUSY; /* a thread that waits serves nobody */
	} else {
		LOCK_SCOPE(&vs->making);
		*out = find_kept(vs, wanted->unit, wanted->spec, wanted->state);
		if (!*out)
			err = make_shown(fd, stx, wanted->spec, texts, out, why);
		if (!err && !(*out)->unit) {
			(*out)->unit = wanted->unit;
			(*out)->state = wanted->state;
			keep(vs, *out);
		}
	}
	atomic_fetch_sub(&vs->nr_making, 1);
	return err;
}

/*
 * The view @spec of the unit of @n, as it is now; made if it is not kept. @c must have the right to
 * read the unit. 0 and a reference; -EINVAL with @why; -EBUSY: too many wait for views to be made;
 * or -errno.
 */
static int show_spec(struct views *vs, const struct caller *c, struct view_node *n,
		     const char *spec, struct shown **out, char why[SPEC_WHY_MAX])
{
	struct shown wanted = {.unit = views_unit(n)->id};
	struct view_spec parsed; /* a wrong word needs no index */
	struct view_texts texts;
	struct statx stx;
	int err = view_spec_parse(&parsed, spec, why), fd;

	fd = err ? err : views_open_unit(vs, c, n, &stx);
	if (fd < 0)
		return fd;
	err = views_read_beside(vs, c, views_unit(n), &parsed, &texts, why);
	snprintf(wanted.spec, sizeof(wanted.spec), "%s", spec);
	wanted.state = changed_ns(&stx) ^ views_texts_state(&texts);
	if (!err)
		err = find_or_make(vs, &wanted, fd, &stx, &texts, out, why);
	views_free_texts(&texts);
	close(fd);
	return err;
}

/* Keeps the reason for .view/why. */
static void note_refused(struct views *vs, struct view_node *top, const char *spec, const char *why)
{
	char *text = NULL, *old;

	if (asprintf(&text, "%s: %s\n", spec, why) < 0)
		return;
	{
		LOCK_SCOPE(&vs->lock);
		old = top->why;
		top->why = text;
	}
	free(old);
}

int views_shown_of(struct views *vs, const struct caller *c, struct view_node *n,
		   struct shown **out)
{
	char why[SPEC_WHY_MAX] = "";
	const struct view_node *spec = n->kind == VIEW_SPEC ? n : n->parent;
	int err = show_spec(vs, c, n, spec->name, out, why);

	if (*why) /* its map was good when it was looked up */
		note_refused(vs, spec->parent, spec->name, why);
	/* What is in a view is of one state; a view itself shows the newest. */
	if (!err && n->kind != VIEW_SPEC && (*out)->state != n->state) {
		shown_put(vs, *out);
		*out = NULL;
		err = -ESTALE; /* the kernel looks the path up again */
	}
	return err;
}

/* --- lookups --- */

static void reply(fuse_req_t req, struct view_node *n)
{
	struct fuse_entry_param e = {.ino = n->id, .attr = n->st};
	bool fixed = n->kind == VIEW_FILE || n->kind == VIEW_LINK;

	e.entry_timeout = e.attr_timeout = fixed ? FILE_TIME : SHORT_TIME;
	if (n->kind <= VIEW_TOP_INDEX)
		e.entry_timeout = e.attr_timeout = 0;
	if (fuse_reply_entry(req, &e))
		views_forget(req_fs(req), e.ino, 1);
}

bool views_lookup_top(fuse_req_t req, struct node *dir)
{
	struct fs *fs = req_fs(req);
	struct caller c = req_caller(req);
	struct checkpoint *cp;
	char rel[COMMIT_PATH_MAX];
	struct view_node *n = NULL, probe = {.unit = dir};
	struct statx stx;
	int fd;

	cp = S_ISDIR(dir->type) && fs->views
		     ? tree_checkpoint(fs->tree, dir, NULL, rel, sizeof(rel))
		     : NULL;
	if (cp || !S_ISDIR(dir->type) || !fs->views) {
		checkpoint_put(cp);
		return false; /* it is being saved: there is no view of half of it */
	}
	fd = views_open_unit(fs->views, &c, &probe, &stx);
	n = fd < 0 ? NULL : view_node_make(VIEW_TOP, VIEWS_NAME, &stx);
	if (fd >= 0)
		close(fd);
	if (!n) {
		fuse_reply_err(req, fd < 0 ? -fd : ENOMEM);
		return true;
	}
	n->unit = node_get(fs->tree, dir->id);
	if (!n->unit) {
		view_node_free(fs->views, n);
		fuse_reply_err(req, ESTALE);
		return true;
	}
	reply(req, view_node_add(fs->views, NULL, n));
	return true;
}

static int look_up_spec(struct views *vs, const struct caller *c, struct view_node *top,
			const char *spec, struct view_node **out)
{
	char why[SPEC_WHY_MAX] = "";
	struct shown *s = NULL;
	struct statx stx;
	int fd, err = show_spec(vs, c, top, spec, &s, why);

	if (*why)
		note_refused(vs, top, spec, why);
	if (err)
		return err;
	fd = views_open_unit(vs, c, top, &stx);
	*out = fd < 0 ? NULL : view_node_make(VIEW_SPEC, spec, &stx);
	if (fd >= 0)
		close(fd);
	if (*out) {
		(*out)->state = s->state;
		*out = view_node_add(vs, top, *out);
	}
	shown_put(vs, s);
	return *out ? 0 : fd < 0 ? fd : -ENOMEM;
}

/* A file of the view @spec, its `why`, or a link to a file of the unit. */
static int look_up_in(struct views *vs, const struct caller *c, struct view_node *spec,
		      const char *name, struct view_node **out)
{
	struct shown *s = NULL;
	bool is_why = !strcmp(name, WHY);
	char target[VIEWS_LINK_MAX] = "";
	struct statx stx;
	int err = views_shown_of(vs, c, spec, &s), nr = err ? -1 : view_find(s->view, name);
	int fd = err ? err : views_open_unit(vs, c, spec, &stx);

	err = fd < 0 ? fd : 0;
	if (!err && nr < 0 && !is_why && !views_asset(vs, c, spec, name, target))
		err = -ENOENT;
	if (!err) {
		*out = view_node_make(nr >= 0  ? VIEW_FILE
				      : is_why ? VIEW_WHY
					       : VIEW_LINK,
				      name, &stx);
		err = *out ? 0 : -ENOMEM;
	}
	if (!err) {
		struct stat *st = &(*out)->st;

		(*out)->state = s->state;
		(*out)->file = nr >= 0 ? (size_t)nr : 0;
		st->st_size = nr >= 0  ? (off_t)s->view->files[nr].size
			      : is_why ? (off_t)s->view->why_size
				       : (off_t)strlen(target);
		(*out)->target = *target ? strdup(target) : NULL;
		st->st_blocks = (st->st_size + 511) / 512;
		*out = view_node_add(vs, spec, *out);
	}
	if (fd >= 0)
		close(fd);
	shown_put(vs, s);
	return err;
}

void views_lookup(fuse_req_t req, uint64_t parent, const char *name)
{
	struct views *vs = req_fs(req)->views;
	struct caller c = req_caller(req);
	struct view_node *dir = views_get(vs, parent), *n = NULL;
	int err = dir ? -ENOENT : -ESTALE;

	if (dir && dir->kind == VIEW_SPEC) {
		err = look_up_in(vs, &c, dir, name, &n);
	} else if (dir && dir->kind == VIEW_TOP && (!strcmp(name, WHY) || !strcmp(name, INDEX))) {
		n = view_node_make(strcmp(name, WHY) ? VIEW_TOP_INDEX : VIEW_TOP_WHY, name,
				   &(struct statx){.stx_mode = 0444});
		err = n ? 0 : -ENOMEM;
		if (n) {
			n->st.st_uid = dir->st.st_uid;
			n->st.st_gid = dir->st.st_gid;
			n = view_node_add(vs, dir, n);
		}
	} else if (dir && dir->kind == VIEW_TOP) {
		err = look_up_spec(vs, &c, dir, name, &n);
	}
	if (err)
		fuse_reply_err(req, -err);
	else
		reply(req, n);
	if (dir)
		views_put(vs, dir);
}

/* What stands in .view/why: of the last spec that was refused, and of all tensors. */
static char *top_why(struct views *vs, struct view_node *n, const struct view *v)
{
	char *text = NULL;
	LOCK_SCOPE(&vs->lock);

	if (asprintf(&text, "%s%s", n->parent->why ? n->parent->why : "", v->why) < 0)
		return NULL;
	return text;
}

/* The index itself, as `ckptfs tensors --json` has it. */
static char *index_text_of(const struct view *v)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	if (out)
		index_print(v->ix, "", out);
	if (!out || !fclose(out))
		return text;
	free(text);
	return NULL;
}

char *views_text(struct views *vs, const struct caller *c, struct view_node *n, int *err)
{
	char why[SPEC_WHY_MAX] = "", *text;
	struct shown *s = NULL;

	*err = n->kind == VIEW_WHY ? views_shown_of(vs, c, n, &s)
				   : show_spec(vs, c, n, SPEC_ALL, &s, why);
	if (*err)
		return NULL;
	text = n->kind == VIEW_WHY	 ? strdup(s->view->why)
	       : n->kind == VIEW_TOP_WHY ? top_why(vs, n, s->view)
					 : index_text_of(s->view);
	shown_put(vs, s);
	*err = text ? 0 : -ENOMEM;
	return text;
}
