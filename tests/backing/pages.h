/* SPDX-License-Identifier: MIT */
/*
 * Pages of file data, shared by images (image.h) and by the filesystem in memory (memory.h). A page
 * that two owners share is not changed. The count of owners is no atomic: the owners of one page
 * run one at a time.
 */
#ifndef TESTS_BACKING_PAGES_H
#define TESTS_BACKING_PAGES_H

#include <stdint.h>

#define PAGE_BYTES 4096

struct page {
	unsigned refs;
	uint64_t id; /* where its bytes come from: equal for pages with the same history */
	const unsigned char *data; /* own, or memory that outlives the page */
	unsigned char own[];
};

/* A page that shows @data, which it does not copy. */
struct page *page_of(const unsigned char *data, uint64_t id);

/* A page to be filled through *data. Until then it holds the bytes of @old, or zeros. */
struct page *page_like(const struct page *old, uint64_t id, unsigned char **data);

struct page *page_get(struct page *p);
void page_put(struct page *p); /* NULL is fine */

/* Puts @p, which may be NULL, in the place of what *at holds. */
void page_set(struct page **at, struct page *p);

#endif
