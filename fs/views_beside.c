/* SPDX-License-Identifier: MIT */
/*
 * What a view needs that is no part of the checkpoint's tensors: maps, layouts, config.json and the
 * like. It is found with the rights of the program that looks the view up.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/backing/backing.h"
#include "engine/base/cleanup.h"
#include "engine/base/table.h"
#include "engine/format/names.h"
#include "fs/view_assets.h"
#include "fs/views_inside.h"

/* Pins @name in the directory of @n. A descriptor or -errno. */
static int pin_in(struct views *vs, struct backing *b, struct node *n, const char *name)
{
	struct node_fd nf;
	int fd = tree_fd(vs->fs->tree, b, n, &nf);

	if (fd)
		return fd;
	fd = backing_pin(b, nf.fd, name);
	tree_fd_put(vs->fs->tree, &nf);
	return fd;
}

/*
 * Pins the nearest @name: in the checkpoint, or in a directory above it. *@up: how many steps up.
 * A descriptor or -errno.
 */
static int pin_beside(struct views *vs, struct backing *b, struct node *unit, const char *name,
		      unsigned *up)
{
	struct node *dir = node_get(vs->fs->tree, unit->id), *above;
	char ignored[NAME_MAX + 1];
	int fd = dir ? -ENOENT : -ESTALE;

	for (*up = 0; dir; ++*up) {
		fd = name_is_reserved(name) ? -ENOENT : pin_in(vs, b, dir, name);
		if (fd != -ENOENT || *up == VIEW_BESIDE_LEVELS ||
		    !tree_place(vs->fs->tree, dir, &above, ignored))
			break;
		node_put(vs->fs->tree, dir);
		dir = above;
	}
	if (dir)
		node_put(vs->fs->tree, dir);
	return fd;
}

/*
 * Pins a file that loaders look for: in the checkpoint, or in the directory that the spec names.
 * *@up as above, of that directory.
 */
static int pin_asset(struct views *vs, struct backing *b, struct node *unit,
		     const struct view_spec *spec, const char *name, unsigned *up)
{
	int dir, fd;

	*up = 0;
	if (!*spec->assets)
		return pin_in(vs, b, unit, name);
	dir = pin_beside(vs, b, unit, spec->assets, up);
	if (dir < 0)
		return dir;
	fd = backing_pin(b, dir, name);
	close(dir);
	return fd;
}

static int pin_for(struct views *vs, struct backing *b, struct node *unit,
		   const struct view_spec *spec, const char *name)
{
	unsigned ignored;

	return view_asset_is(name) ? pin_asset(vs, b, unit, spec, name, &ignored)
				   : pin_beside(vs, b, unit, name, &ignored);
}

/* --- texts --- */

static int read_text(struct backing *b, int pin, char **text)
{
	int fd = backing_reopen(b, pin, O_RDONLY | O_NONBLOCK), err;
	struct statx stx;
	ssize_t n = 0;

	if (fd < 0)
		return fd;
	err = backing_stat(b, fd, &stx);
	*text = NULL;
	if (!err && (!S_ISREG(stx.stx_mode) || stx.stx_size > VIEW_BESIDE_MAX))
		err = S_ISREG(stx.stx_mode) ? -EFBIG : -EINVAL;
	if (!err)
		*text = calloc(1, stx.stx_size + 1);
	if (*text)
		n = backing_read(b, fd, *text, stx.stx_size, 0);
	else if (!err)
		err = -ENOMEM;
	close(fd);
	return n < 0 ? (int)n : err;
}

static int read_named(struct views *vs, struct backing *b, struct node *unit,
		      const struct view_spec *spec, const char *name, char **text)
{
	int pin = pin_for(vs, b, unit, spec, name), err;

	if (pin < 0)
		return pin;
	err = read_text(b, pin, text);
	close(pin);
	if (err) {
		free(*text);
		*text = NULL;
	}
	return err;
}

static void read_one(struct views *vs, struct backing *b, struct node *unit,
		     const struct view_spec *spec, const char *name, struct view_text *t)
{
	snprintf(t->name, sizeof(t->name), "%s", name);
	t->err = read_named(vs, b, unit, spec, name, &t->text);
}

int views_read_beside(struct views *vs, const struct caller *c, struct node *unit,
		      const struct view_spec *spec, struct view_texts *t, char why[SPEC_WHY_MAX])
{
	struct backing b = fs_as(vs->fs, c);
	char name[SPEC_TEXT_MAX + sizeof(".json")];
	unsigned ignored;
	int fd;

	*t = (struct view_texts){0};
	if (*spec->assets) {
		fd = pin_beside(vs, &b, unit, spec->assets, &ignored);
		if (fd < 0) {
			snprintf(why, SPEC_WHY_MAX,
				 "there is no directory %s in the checkpoint, nor above it",
				 spec->assets);
			return -EINVAL;
		}
		close(fd);
	}
	if (*spec->map) {
		snprintf(name, sizeof(name), "%s.json", spec->map);
		read_one(vs, &b, unit, spec, name, &t->list[t->nr++]);
	}
	if (*spec->layout) {
		snprintf(name, sizeof(name), "%s.json", spec->layout);
		read_one(vs, &b, unit, spec, name, &t->list[t->nr++]);
	}
	if (t->nr)
		read_one(vs, &b, unit, spec, "config.json", &t->list[t->nr++]);
	return 0;
}

void views_free_texts(struct view_texts *t)
{
	for (unsigned i = 0; i < t->nr; i++)
		free(t->list[i].text);
	t->nr = 0;
}

uint64_t views_texts_state(const struct view_texts *t)
{
	uint64_t state = 0;

	for (unsigned i = 0; i < t->nr; i++)
		state = hash_text(state * 31 + 1, t->list[i].text ? t->list[i].text : "");
	return state;
}

int views_give_text(void *texts, const char *name, char **text)
{
	const struct view_texts *t = texts;

	*text = NULL;
	for (unsigned i = 0; i < t->nr; i++) {
		if (strcmp(t->list[i].name, name) != 0)
			continue;
		*text = t->list[i].text ? strdup(t->list[i].text) : NULL;
		return t->list[i].err ? t->list[i].err : *text ? 0 : -ENOMEM;
	}
	return -ENOENT;
}

/* --- links --- */

bool views_asset(struct views *vs, const struct caller *c, struct view_node *n, const char *name,
		 char target[VIEWS_LINK_MAX])
{
	struct backing b = fs_as(vs->fs, c);
	char why[SPEC_WHY_MAX];
	struct view_spec spec;
	size_t len;
	unsigned up;
	int pin;

	if (!view_asset_is(name) || view_spec_parse(&spec, n->name, why))
		return false;
	pin = pin_asset(vs, &b, views_unit(n), &spec, name, &up);
	if (pin < 0)
		return false;
	close(pin);
	len = (size_t)snprintf(target, VIEWS_LINK_MAX, VIEWS_LINK_TO);
	while (up--)
		len += (size_t)snprintf(target + len, VIEWS_LINK_MAX - len, "../");
	snprintf(target + len, VIEWS_LINK_MAX - len, "%s%s%s", spec.assets, *spec.assets ? "/" : "",
		 name);
	return true;
}
