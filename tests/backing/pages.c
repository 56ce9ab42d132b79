/* SPDX-License-Identifier: MIT */
#include "tests/backing/pages.h"

#include <stdlib.h>
#include <string.h>

#include "tests/backing/util.h"

struct page *page_of(const unsigned char *data, uint64_t id)
{
	struct page *p = must(malloc(sizeof(*p)));

	p->refs = 1;
	p->id = id;
	p->data = data;
	return p;
}

struct page *page_like(const struct page *old, uint64_t id, unsigned char **data)
{
	struct page *p = must(malloc(sizeof(*p) + PAGE_BYTES));

	p->refs = 1;
	p->id = mix(old ? old->id : 0, id);
	p->data = *data = p->own;
	if (old)
		memcpy(p->own, old->data, PAGE_BYTES);
	else
		memset(p->own, 0, PAGE_BYTES);
	return p;
}

struct page *page_get(struct page *p)
{
	if (p)
		p->refs++;
	return p;
}

void page_put(struct page *p)
{
	if (p && !--p->refs)
		free(p);
}

void page_set(struct page **at, struct page *p)
{
	page_put(*at);
	*at = p;
}
