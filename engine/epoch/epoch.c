/* SPDX-License-Identifier: MIT */
#include "engine/epoch/epoch.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum epoch_order epoch_order(const struct epoch *a, const struct epoch *b)
{
	if (a->local != b->local || strcmp(a->job, b->job))
		return EPOCH_OTHER_JOB;
	if (a->nr == b->nr)
		return EPOCH_SAME;
	return a->nr > b->nr ? EPOCH_NEWER : EPOCH_OLDER;
}

void epoch_split(const char *key, char job[JOB_KEY_MAX], char count[EPOCH_COUNT_MAX])
{
	const char *at = job_count(key);
	size_t len = at ? (size_t)(at - key) - strlen("/r") : strlen(key);

	snprintf(job, JOB_KEY_MAX, "%.*s", (int)len, key);
	snprintf(count, EPOCH_COUNT_MAX, "%s", at ? at : "");
}

void chain_learn(struct chain *c, const struct epoch_link *link, uint64_t asked)
{
	if (link->nr < c->newest.nr)
		return; /* a stale view, or an answer that was overtaken */
	if (link->nr > c->newest.nr) {
		if (strcmp(link->count, c->newest.count))
			c->began = 0;
		c->before = c->newest.nr ? c->looked : 0;
		c->failed = 0;
		c->looked = 0;
		c->newest = *link;
	}
	if (asked > c->looked)
		c->looked = asked;
}

/* True if the newest link was made on the host of @f. */
static bool is_here(const struct chain *c, const struct epoch_facts *f)
{
	return !strcmp(c->newest.host, f->host);
}

/* E4e to E4g. */
static enum epoch_place place_after_failure(const struct chain *c, const struct epoch_facts *f)
{
	bool here = is_here(c, f);

	if ((here && f->start >= c->newest.at) || (c->failed && f->start >= c->failed))
		return EPOCH_NEWEST;
	if (here || c->failed || f->start < c->before)
		return EPOCH_BEHIND;
	return *f->count ? EPOCH_BEHIND : EPOCH_NEWEST;
}

enum epoch_place chain_place(const struct chain *c, const struct epoch_facts *f)
{
	int later = strverscmp(f->count, c->newest.count);

	if (!c->newest.nr || later > 0)
		return EPOCH_BEGINS;
	if (later < 0) {
		bool former = f->newest_lives || (c->began && f->start < c->began) ||
			      (is_here(c, f) && f->start < c->newest.at);

		return former ? EPOCH_FORMER : EPOCH_BEGINS;
	}
	return c->newest.nr == c->newest.first ? EPOCH_NEWEST : place_after_failure(c, f);
}

void chain_begin(const struct chain *c, const struct epoch_facts *f, struct epoch_link *link)
{
	memset(link, 0, sizeof(*link));
	link->nr = link->first = c->newest.nr + 1;
	snprintf(link->count, sizeof(link->count), "%s", f->count);
	snprintf(link->host, sizeof(link->host), "%s", f->host);
	link->at = f->start;
}

uint64_t chain_bind(struct chain *c, const struct epoch_facts *f, enum epoch_place place)
{
	if (place == EPOCH_FORMER)
		return 0;
	if (!c->began || f->start < c->began)
		c->began = f->start;
	return place == EPOCH_NEWEST ? c->newest.nr : c->newest.nr - 1;
}

bool chain_fails(struct chain *c, uint64_t nr, uint64_t at)
{
	if (nr + 1 == c->newest.nr && c->newest.nr > c->newest.first &&
	    (!c->failed || at < c->failed))
		c->failed = at;
	return nr == c->newest.nr;
}

void chain_follow(const struct chain *c, const char *host, uint64_t at, int err, const char *why,
		  struct epoch_link *link)
{
	memset(link, 0, sizeof(*link));
	link->nr = c->newest.nr + 1;
	link->first = c->newest.first;
	snprintf(link->count, sizeof(link->count), "%s", c->newest.count);
	snprintf(link->host, sizeof(link->host), "%s", host);
	link->at = at;
	link->err = err;
	snprintf(link->why, sizeof(link->why), "%s", why);
}

int chain_tell(const struct chain *c, uint64_t *nr)
{
	if (*nr == c->newest.nr)
		return 0;
	if (*nr < c->newest.first)
		return -ESTALE;
	*nr = c->newest.nr;
	return -c->newest.err;
}
