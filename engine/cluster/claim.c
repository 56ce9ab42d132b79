/* SPDX-License-Identifier: MIT */
#include "engine/cluster/claim.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/base/lock.h"
#include "engine/cluster/accord_impl.h"
#include "engine/coord/nodes.h"
#include "engine/record/refusal.h"

#define CHAIN_LONG 16 /* records of a name that is saved to all the time */

static struct namechain chain_of_user(struct units *us, const struct caller *owner)
{
	return (struct namechain){us->coord, us->coord_arg, owner, nodes_id(us->nodes)};
}

static void read_decision(char *text, size_t len, struct claim *c)
{
	struct agree_decision d;
	struct refusal r;

	text[len] = '\0';
	if (!agreement_read_decision(text, &d))
		return;
	c->settled = d.commit;
	if (d.commit)
		return;
	refusal_read(&r, d.payload);
	c->settled = r.ordinary;
	c->superseded = r.err == ESTALE;
	c->failed = *d.node && r.err && !c->superseded && r.err != ECANCELED && !r.dropped &&
		    !r.ordinary;
	memcpy(c->decider, d.node, sizeof(c->decider));
	refusal_finish(&r);
}

/* Finds out whether the last generation is still to be decided. 0 or -errno. */
static int look(struct units *us, uid_t uid, struct claim *c, char *text)
{
	ssize_t len =
		us->coord->read(us->coord_arg, uid, c->end.last, COORD_OPEN, text, COORD_TEXT_MAX);
	int err;

	c->over = len == -ENOENT;
	if (len < 0)
		return c->over ? 0 : (int)len;
	err = open_record_read(text, (size_t)len, &c->opened);
	if (err)
		return err;
	len = us->coord->read(us->coord_arg, uid, c->end.last, COORD_DECISION, text,
			      COORD_TEXT_MAX);
	c->open = len == -ENOENT;
	if (len >= 0)
		read_decision(text, (size_t)len, c);
	return len < 0 && len != -ENOENT ? (int)len : 0;
}

int claim_follow(struct units *us, uid_t uid, const struct inode_id *dir, const char *name,
		 struct claim *c)
{
	const struct caller owner = {.uid = uid};
	const struct namechain ch = chain_of_user(us, &owner);
	char first[COORD_GEN_MAX];

	memset(c, 0, sizeof(*c));
	namechain_first(first, dir->ino, name);
	return namechain_follow(&ch, first, NULL, &c->end);
}

int claim_find(struct units *us, uid_t uid, const struct inode_id *dir, const char *name,
	       struct claim *c)
{
	__cleanup_free char *text = malloc(COORD_TEXT_MAX + 1);
	int err = text ? claim_follow(us, uid, dir, name, c) : -ENOMEM;

	return err || !c->end.nr || c->end.renamed || *c->end.closed ? err : look(us, uid, c, text);
}

int claim_look(struct units *us, uid_t uid, const char *gen, struct claim *c)
{
	__cleanup_free char *text = malloc(COORD_TEXT_MAX + 1);

	memset(c, 0, sizeof(*c));
	snprintf(c->end.last, sizeof(c->end.last), "%s", gen);
	return text ? look(us, uid, c, text) : -ENOMEM;
}

int claim_open(struct checkpoint *cp)
{
	struct units *us = cp->units;
	__cleanup_free char *first = malloc(COORD_TEXT_MAX), *text = NULL;
	struct open_record o = {
		.gid = cp->owner.gid, .inherits = cp->inherits, .follows = cp->follows};
	size_t len;
	int r;

	snprintf(o.node, sizeof(o.node), "%s", nodes_id(us->nodes));
	snprintf(o.label, sizeof(o.label), "%s", us->node);
	snprintf(o.job, sizeof(o.job), "%s", cp->maker->key);
	text = open_record_write(&o);
	if (!text || !first)
		return -ENOMEM;
	r = us->coord->record(us->coord_arg, &cp->owner, accord_generation(cp), COORD_OPEN, text,
			      strlen(text), first, &len);
	return r == 1 ? 0 : r ? r : -EEXIST;
}

int claim_make(struct checkpoint *cp, const struct claim *c)
{
	const struct namechain ch = chain_of_user(cp->units, &cp->owner);

	return namechain_add(&ch, &c->end, accord_generation(cp), false);
}

int claim_leave(struct checkpoint *cp, const struct claim *c)
{
	const struct namechain ch = chain_of_user(cp->units, &cp->owner);

	return namechain_add(&ch, &c->end, accord_generation(cp), true);
}

int claim_holds(struct checkpoint *cp, const char *first)
{
	const struct namechain ch = chain_of_user(cp->units, &cp->owner);
	struct namechain_end end;
	int err = namechain_follow(&ch, first, accord_generation(cp), &end);

	return err ? err : end.met;
}

/* --- clearing up --- */

static bool take_turn(struct units *us)
{
	LOCK_SCOPE(&us->lock);
	if (us->clearing.busy)
		return false;
	us->clearing.busy = true;
	return true;
}

/* *@mine: this node has closed the chain. */
static int clear(struct units *us, const struct namechain *ch, const char *first, const char *gen,
		 bool *mine)
{
	struct namechain_end end;
	int r = namechain_follow(ch, first, NULL, &end);

	*mine = false;
	if (r || !end.nr)
		return r;
	if (!*end.closed && strcmp(end.last, gen))
		return 0; /* it goes with the last one */
	if (*end.closed && strcmp(end.closed, ch->node) && nodes_alive_now(us->nodes, end.closed))
		return -EAGAIN;
	r = *end.closed ? 1 : namechain_rests(ch, first, gen);
	if (r != 1)
		return r ? r : -EAGAIN;
	r = namechain_close(ch, &end);
	if (r != 1)
		return r ? r : -EAGAIN;
	*mine = true;
	return nodes_hold(us->nodes) && !namechain_remove(ch, first) ? 0 : -EAGAIN;
}

int claim_clear(struct units *us, const struct caller *owner, const char *first, const char *gen)
{
	const struct namechain ch = chain_of_user(us, owner);
	bool mine;
	int err;

	if (!take_turn(us))
		return -EAGAIN;
	err = clear(us, &ch, first, gen, &mine);
	LOCK_SCOPE(&us->lock);
	us->clearing.busy = false;
	if (err && mine) {
		us->clearing.owner = *owner;
		memcpy(us->clearing.first, first, COORD_GEN_MAX);
	}
	return err;
}

void claim_go_on(struct units *us)
{
	char first[COORD_GEN_MAX];
	struct caller owner;
	{
		LOCK_SCOPE(&us->lock);
		if (!*us->clearing.first)
			return;
		owner = us->clearing.owner;
		memcpy(first, us->clearing.first, COORD_GEN_MAX);
		us->clearing.first[0] = '\0';
	}
	claim_clear(us, &owner, first, "");
}

int claim_make_way(struct units *us, const struct caller *owner, const struct claim *c)
{
	int r;

	if (!*c->end.closed && c->end.nr < CHAIN_LONG)
		return 1;
	/* A chain that is only long may grow further. */
	r = claim_clear(us, owner, c->end.first, c->end.last);
	return r == -EAGAIN && !*c->end.closed ? 1 : r;
}

void claim_recover(struct units *us, const struct caller *owner, const char *key)
{
	const struct namechain ch = chain_of_user(us, owner);
	struct namechain_end end;
	char first[COORD_GEN_MAX];
	struct claim last;
	bool leads;

	if (namechain_of(&ch, key, first, &leads))
		return;
	if (!leads)
		namechain_drop(&ch, key);
	else if (!namechain_follow(&ch, first, NULL, &end) &&
		 (*end.closed || (!claim_look(us, owner->uid, end.last, &last) && last.over)))
		claim_clear(us, owner, first, end.last);
}
