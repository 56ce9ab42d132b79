/* SPDX-License-Identifier: MIT */
#include "engine/record/namechain.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/base/json.h"
#include "engine/content/hash.h"

#define CHAIN_MAX 1000000 /* records of one name; more are a circle */

static void digest(char key[COORD_GEN_MAX], const char *text)
{
	XXH128_hash_t h = XXH3_128bits(text, strlen(text));

	snprintf(key, COORD_GEN_MAX, "%016" PRIx64 "%016" PRIx64, h.high64, h.low64);
}

void namechain_first(char first[COORD_GEN_MAX], uint64_t ino, const char *name)
{
	char text[NAME_MAX + 64];

	/* Each node numbers devices, and may see birth times, in its own way. */
	snprintf(text, sizeof(text), "name %" PRIu64 " %s", ino, name);
	digest(first, text);
}

/* The key of the record after @end. */
static void next_key(char key[COORD_GEN_MAX], const struct namechain_end *end)
{
	char text[2 * COORD_GEN_MAX + 64];

	if (!end->nr) {
		memcpy(key, end->first, COORD_GEN_MAX);
		return;
	}
	snprintf(text, sizeof(text), "name %s/%u after %s", end->first, end->nr, end->last);
	digest(key, text);
}

/* What one record says. */
struct link {
	char gen[COORD_GEN_MAX], first[COORD_GEN_MAX], closed[COORD_NODE_MAX];
	bool renamed;
};

static bool copy_id(char id[COORD_GEN_MAX], const json_t *o, const char *key)
{
	const char *text = json_get_text(o, key, "");

	snprintf(id, COORD_GEN_MAX, "%s", coord_gen_ok(text) ? text : "");
	return *id;
}

/*
 * Reads {"generation": HEX}, perhaps with "first": HEX, the key of the chain's first record; with
 * "renamed": true; or with "closed": NODE, if that node closed the chain after that generation.
 * -EPERM: it is something else.
 */
static int parse(const char *text, size_t len, struct link *l)
{
	json_t *o = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
	bool ok = copy_id(l->gen, o, "generation");

	copy_id(l->first, o, "first");
	copy_id(l->closed, o, "closed");
	l->renamed = json_is_true(json_object_get(o, "renamed"));
	json_decref(o);
	return ok ? 0 : -EPERM;
}

static int read_link(const struct namechain *ch, const char *key, struct link *l)
{
	__cleanup_free char *text = malloc(COORD_TEXT_MAX + 1);
	ssize_t len = text ? ch->coord->read(ch->arg, ch->owner->uid, key, COORD_NAME, text,
					     COORD_TEXT_MAX)
			   : -ENOMEM;

	return len < 0 ? (int)len : parse(text, (size_t)len, l);
}

static void take_link(struct namechain_end *end, const struct link *l, const char *sought)
{
	memcpy(end->last, l->gen, sizeof(end->last));
	memcpy(end->closed, l->closed, sizeof(end->closed));
	end->renamed = l->renamed;
	end->met = end->met || (sought && !strcmp(l->gen, sought));
	end->nr++;
}

int namechain_follow(const struct namechain *ch, const char *first, const char *sought,
		     struct namechain_end *end)
{
	char key[COORD_GEN_MAX];
	struct link l;
	int err = 0;

	memset(end, 0, sizeof(*end));
	snprintf(end->first, sizeof(end->first), "%s", first);
	while (!err && end->nr < CHAIN_MAX) {
		next_key(key, end);
		err = read_link(ch, key, &l);
		if (!err)
			take_link(end, &l, sought);
	}
	return err == -ENOENT ? 0 : err;
}

/* 1: the record is there; 0: another one is; -errno. */
static int make(const struct namechain *ch, const struct namechain_end *end, json_t *o)
{
	__cleanup_free char *first = malloc(COORD_TEXT_MAX), *text = NULL;
	char key[COORD_GEN_MAX];
	size_t len;

	next_key(key, end);
	if (end->nr)
		json_object_set_new(o, "first", json_string(end->first));
	text = json_dumps(o, JSON_COMPACT | JSON_SORT_KEYS);
	json_decref(o);
	if (!text || !first)
		return -ENOMEM;
	return ch->coord->record(ch->arg, ch->owner, key, COORD_NAME, text, strlen(text), first,
				 &len);
}

int namechain_drop(const struct namechain *ch, const char *key)
{
	return ch->coord->remove(ch->arg, ch->owner, key, COORD_NAME);
}

int namechain_add(const struct namechain *ch, const struct namechain_end *end, const char *gen,
		  bool renamed)
{
	json_t *o = json_pack("{s:s}", "generation", gen);
	char key[COORD_GEN_MAX];
	struct namechain_end now;
	int r;

	if (renamed)
		json_object_set_new(o, "renamed", json_true());
	r = make(ch, end, o);
	if (r != 1 || !end->nr)
		return r;
	r = namechain_follow(ch, end->first, gen, &now);
	if (r || now.met)
		return r ? r : 1;
	next_key(key, end);
	r = namechain_drop(ch, key);
	return r;
}

int namechain_close(const struct namechain *ch, const struct namechain_end *end)
{
	if (!strcmp(end->closed, ch->node))
		return 1;
	return make(ch, end, json_pack("{s:s, s:s}", "generation", end->last, "closed", ch->node));
}

int namechain_remove(const struct namechain *ch, const char *first)
{
	struct namechain_end end = {0};
	char key[COORD_GEN_MAX];
	struct link l;
	int err = 0, gone;

	snprintf(end.first, sizeof(end.first), "%s", first);
	while (!err && end.nr < CHAIN_MAX) {
		next_key(key, &end);
		err = read_link(ch, key, &l);
		gone = err ? err : namechain_drop(ch, key);
		if (!err)
			take_link(&end, &l, NULL);
		err = gone;
	}
	return err == -ENOENT ? 0 : err;
}

int namechain_of(const struct namechain *ch, const char *key, char first[COORD_GEN_MAX],
		 bool *leads)
{
	struct namechain_end end = {0};
	char next[COORD_GEN_MAX] = "";
	struct link l;
	int err = read_link(ch, key, &l);

	if (err)
		return err;
	snprintf(first, COORD_GEN_MAX, "%s", *l.first ? l.first : key);
	snprintf(end.first, sizeof(end.first), "%s", first);
	while (!err && strcmp(next, key) && end.nr < CHAIN_MAX) {
		next_key(next, &end);
		err = read_link(ch, next, &l);
		if (!err)
			take_link(&end, &l, NULL);
	}
	*leads = !err && !strcmp(next, key);
	return err == -ENOENT ? 0 : err;
}

static bool is_absent(const struct namechain *ch, const char *gen, const char *kind)
{
	char text[1];

	return ch->coord->read(ch->arg, ch->owner->uid, gen, kind, text, sizeof(text)) == -ENOENT;
}

int namechain_rests(const struct namechain *ch, const char *first, const char *but)
{
	struct namechain_end end = {0};
	char key[COORD_GEN_MAX];
	struct link l;
	int err = 0;

	snprintf(end.first, sizeof(end.first), "%s", first);
	while (!err && end.nr < CHAIN_MAX) {
		next_key(key, &end);
		err = read_link(ch, key, &l);
		if (!err && strcmp(l.gen, but) && strcmp(l.gen, end.last) &&
		    !is_absent(ch, l.gen, COORD_OPEN) && is_absent(ch, l.gen, COORD_DECISION))
			return 0;
		if (!err)
			take_link(&end, &l, NULL);
	}
	return err == -ENOENT ? 1 : err;
}

bool namechain_is_over(const struct namechain *ch, const char *key)
{
	struct link l;

	return !read_link(ch, key, &l) && is_absent(ch, l.gen, COORD_OPEN) &&
	       is_absent(ch, l.gen, COORD_DECISION);
}
