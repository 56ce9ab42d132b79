/* SPDX-License-Identifier: MIT */
/*
 * The generations that have not ended, found by their name, their inode or their staging name. A
 * lookup costs the same however many there are: a checkpoint may have 10^5 files. Guarded by the
 * units' lock. This module counts no references: its callers do.
 */
#ifndef ENGINE_SAVE_LIVE_H
#define ENGINE_SAVE_LIVE_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/base/table.h"

struct generation;
struct inode_id;

enum live_key { LIVE_BY_NAME, LIVE_BY_INODE, LIVE_BY_STAGING, LIVE_KEYS };

struct live {
	struct list all;    /* generation.link, oldest first */
	struct list sealed; /* generation.sealed: those in GENERATION_SEALED, in that order */
	struct table found_by[LIVE_KEYS]; /* generation.found_by */
};

/* 0 or -ENOMEM. */
int live_init(struct live *lv);

/* @lv is empty, or was never initialised. */
void live_finish(struct live *lv);

/* Their number. */
size_t live_nr(const struct live *lv);

/* Adds @g as the newest. Its name, inode and staging name are set. */
void live_add(struct live *lv, struct generation *g);

/* Takes @g off as it ends. */
void live_remove(struct live *lv, struct generation *g);

bool live_has(const struct generation *g);

/* Gives @g another name. It keeps its age, but among those of that name it is the newest. */
void live_rename(struct live *lv, struct generation *g, const struct inode_id *dir,
		 const char *name);

/* @g becomes the newest of all. */
void live_renew(struct live *lv, struct generation *g);

/* The generations of a name; NULL: there is none, or no other. They stay on the table meanwhile. */
struct generation *live_oldest(const struct live *lv, const struct inode_id *dir, const char *name);
struct generation *live_newest(const struct live *lv, const struct inode_id *dir, const char *name);
struct generation *live_newer(const struct live *lv, const struct generation *g);
struct generation *live_older(const struct live *lv, const struct generation *g);

#define live_for_each_of(g, lv, dir, name) \
	for (g = live_oldest(lv, dir, name); g; g = live_newer(lv, g))

/* The oldest, or NULL. */
struct generation *live_find_inode(const struct live *lv, const struct inode_id *id);
struct generation *live_find_staging(const struct live *lv, const char *staging);

#endif
