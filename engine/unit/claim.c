/* SPDX-License-Identifier: MIT */
#include "engine/unit/claim.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/base/json.h"
#include "engine/base/lock.h"
#include "engine/content/hash.h"
#include "engine/coord/nodes.h"
#include "engine/unit/accord.h"
#include "engine/unit/internal.h"
#include "engine/unit/refusal.h"
#include "engine/unit/rules.h"

#define NAMES_MAX 1000000 /* generations of one name; more are a circle */

static void digest(char key[COORD_GEN_MAX], const char *text)
{
	XXH128_hash_t h = XXH3_128bits(text, strlen(text));

	snprintf(key, COORD_GEN_MAX, "%016" PRIx64 "%016" PRIx64, h.high64, h.low64);
}

/*
 * Under what the record of a name that follows @c is. One that is left when those before it were cleared up follows
 * nothing.
 */
static void key_after(char key[COORD_GEN_MAX], const struct inode_id *dir, const char *name,
		      const struct claim *c)
{
	char text[NAME_MAX + COORD_GEN_MAX + 64];

	/* Nodes number devices, and may see birth times, each in its own way. */
	snprintf(text, sizeof(text),
		 c->nr ? "name %" PRIu64 " %s/%u after %s" : "name %" PRIu64 " %s",
		 (uint64_t)dir->ino, name, c->nr, c->last);
	digest(key, text);
}

/* {"generation": HEX}, perhaps with "renamed": true. -EPERM: it is something else. */
static int parse_name(const char *text, size_t len, struct claim *c)
{
	json_t *o = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
	const char *id = json_get_text(o, "generation", "");
	int err = coord_gen_ok(id) ? 0 : -EPERM;

	if (!err)
		memcpy(c->last, id, COORD_GEN_MAX);
	c->renamed = json_is_true(json_object_get(o, "renamed"));
	json_decref(o);
	return err;
}

static int parse_open(const char *text, size_t len, struct claim *c)
{
	json_t *o = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
	const char *node = json_get_text(o, "node", ""), *job = json_get_text(o, "job", "");
	bool ok = coord_node_ok(node) && *job && strlen(job) < sizeof(c->job);

	if (ok) {
		memcpy(c->node, node, sizeof(c->node));
		snprintf(c->job, sizeof(c->job), "%s", job);
		snprintf(c->label, sizeof(c->label), "%s", json_get_text(o, "label", "?"));
		c->gid = (gid_t)json_get_int(o, "gid", 0);
		c->inherits = json_is_true(json_object_get(o, "inherits"));
		c->follows = json_is_true(json_object_get(o, "follows"));
	}
	json_decref(o);
	return ok ? 0 : -EPERM;
}

static void parse_decision(char *text, size_t len, struct claim *c)
{
	struct refusal r;
	const char *what;

	text[len] = '\0';
	what = accord_decision(text, &c->settled);
	if (!what || c->settled)
		return;
	refusal_read(&r, what);
	c->settled = r.ordinary;
	c->superseded = r.err == ESTALE;
	c->failed = r.err && !c->superseded && r.err != ECANCELED && !r.dropped && !r.ordinary;
	if (sscanf(text, "abort %32[0-9a-f]", c->decider) != 1)
		c->failed = false;
	refusal_finish(&r);
}

/* Is the last one still to be decided? */
static int look(struct units *us, uid_t uid, struct claim *c, char *text)
{
	ssize_t len = us->coord->read(us->coord_arg, uid, c->last, "open", text, COORD_TEXT_MAX);
	int err;

	if (len < 0)
		return len == -ENOENT ? 0 : (int)len;
	err = parse_open(text, (size_t)len, c);
	if (err)
		return err;
	len = us->coord->read(us->coord_arg, uid, c->last, "decision", text, COORD_TEXT_MAX);
	c->open = len == -ENOENT;
	if (len >= 0)
		parse_decision(text, (size_t)len, c);
	return len < 0 && len != -ENOENT ? (int)len : 0;
}

/* How far the name with the first key @name was followed before; or as far as @c, now. */
static void recall(struct units *us, uid_t uid, const char *name, struct claim *c, bool keep)
{
	unsigned slot = (unsigned)strtoul(name + COORD_GEN_MAX - 5, NULL, 16) % CLAIMS_KEPT;
	LOCK_SCOPE(&us->lock);

	if (keep) {
		us->claims[slot].uid = uid;
		us->claims[slot].nr = c->nr - c->renamed; /* that it was is read again */
		memcpy(us->claims[slot].name, name, COORD_GEN_MAX);
		memcpy(us->claims[slot].last, c->last, COORD_GEN_MAX);
	} else if (us->claims[slot].uid == uid && !strcmp(us->claims[slot].name, name)) {
		c->nr = us->claims[slot].nr;
		memcpy(c->last, us->claims[slot].last, COORD_GEN_MAX);
	}
}

static int follow(struct units *us, uid_t uid, const struct inode_id *dir, const char *name,
		  struct claim *c, char *text)
{
	char key[COORD_GEN_MAX], first[COORD_GEN_MAX];
	unsigned known;
	int err = 0;

	memset(c, 0, sizeof(*c));
	key_after(first, dir, name, c);
	recall(us, uid, first, c, false);
	for (known = c->nr; c->nr < NAMES_MAX; c->nr++) {
		ssize_t len;

		key_after(key, dir, name, c);
		len = us->coord->read(us->coord_arg, uid, key, "name", text, COORD_TEXT_MAX);
		if (len == -ENOENT)
			break;
		err = len < 0 ? (int)len : parse_name(text, (size_t)len, c);
		if (err)
			return err;
	}
	if (c->nr > known)
		recall(us, uid, first, c, true);
	return 0;
}

int claim_follow(struct units *us, uid_t uid, const struct inode_id *dir, const char *name,
		 struct claim *c)
{
	__cleanup_free char *text = malloc(COORD_TEXT_MAX + 1);

	return text ? follow(us, uid, dir, name, c, text) : -ENOMEM;
}

int claim_find(struct units *us, uid_t uid, const struct inode_id *dir, const char *name,
	       struct claim *c)
{
	__cleanup_free char *text = malloc(COORD_TEXT_MAX + 1);
	int err = text ? follow(us, uid, dir, name, c, text) : -ENOMEM;

	return err || !*c->last || c->renamed ? err : look(us, uid, c, text);
}

bool claim_is_old(const struct coord_ops *coord, void *coord_arg, uid_t uid, const char *key)
{
	__cleanup_free char *text = malloc(COORD_TEXT_MAX + 1);
	ssize_t len =
		text ? coord->read(coord_arg, uid, key, "name", text, COORD_TEXT_MAX) : -ENOMEM;
	struct claim c;

	return len >= 0 && !parse_name(text, (size_t)len, &c) &&
	       coord->read(coord_arg, uid, c.last, "open", text, COORD_TEXT_MAX) == -ENOENT &&
	       coord->read(coord_arg, uid, c.last, "decision", text, COORD_TEXT_MAX) == -ENOENT;
}

int claim_look(struct units *us, uid_t uid, const char *gen, struct claim *c)
{
	__cleanup_free char *text = malloc(COORD_TEXT_MAX + 1);

	memset(c, 0, sizeof(*c));
	snprintf(c->last, sizeof(c->last), "%s", gen);
	return text ? look(us, uid, c, text) : -ENOMEM;
}

static int record(struct checkpoint *cp, const char *key, const char *kind, json_t *o, char *first,
		  size_t *len)
{
	struct units *us = cp->units;
	__cleanup_free char *text = json_dumps(o, JSON_COMPACT | JSON_SORT_KEYS);
	int r = text ? us->coord->record(us->coord_arg, &cp->owner, key, kind, text, strlen(text),
					 first, len)
		     : -ENOMEM;

	json_decref(o);
	return r;
}

int claim_open(struct checkpoint *cp)
{
	struct units *us = cp->units;
	__cleanup_free char *first = malloc(COORD_TEXT_MAX);
	size_t len;
	json_t *o = json_pack("{s:s, s:s, s:I}", "node", nodes_id(us->nodes), "job", cp->maker->key,
			      "gid", (json_int_t)cp->owner.gid);
	int r;

	json_object_set_new(o, "label", json_text(us->node));
	if (cp->inherits)
		json_object_set_new(o, "inherits", json_true());
	if (cp->follows)
		json_object_set_new(o, "follows", json_true());
	if (!first) {
		json_decref(o);
		return -ENOMEM;
	}
	r = record(cp, cp->staging + strlen(STAGING_PREFIX), "open", o, first, &len);
	return r == 1 ? 0 : r ? r : -EEXIST;
}

static int add(struct checkpoint *cp, const struct inode_id *dir, const char *name,
	       const struct claim *c, json_t *more)
{
	__cleanup_free char *first = malloc(COORD_TEXT_MAX);
	char key[COORD_GEN_MAX];
	size_t len;

	key_after(key, dir, name, c);
	json_object_set_new(more, "generation", json_string(cp->staging + strlen(STAGING_PREFIX)));
	if (!first) {
		json_decref(more);
		return -ENOMEM;
	}
	return record(cp, key, "name", more, first, &len);
}

int claim_make(struct checkpoint *cp, const struct claim *c)
{
	return add(cp, &cp->target.dir_id, cp->target.name, c, json_object());
}

int claim_leave(struct checkpoint *cp, const struct inode_id *dir, const char *name,
		const struct claim *c)
{
	return add(cp, dir, name, c, json_pack("{s:b}", "renamed", 1));
}
