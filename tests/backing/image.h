/* SPDX-License-Identifier: MIT */
/*
 * A filesystem in memory, on which ops of a log (record.h) are done again, wholly, partly or not.
 * Copies share what they have in common; an image lives no longer than its log.
 *
 * What is left out of the log is left out in order: after a change to a name that was not done,
 * later ones to that name are not done either, and the same holds for each block of 4 KiB of a
 * file, since there is one directory entry and one page of the page cache. (Until something does
 * not depend on the past: the whole block is written, the file truncated below it, or what is done
 * is known to be durable.)
 */
#ifndef TESTS_BACKING_IMAGE_H
#define TESTS_BACKING_IMAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/backing/pages.h"
#include "tests/backing/record.h"

#define IMAGE_BLOCK PAGE_BYTES

/* How much of a change is done. The last three are of writes; the blocks count from its first. */
enum take { TAKE_ALL, TAKE_NONE, TAKE_FIRST, TAKE_SOME, TAKE_ZEROS };

struct taken {
	enum take how;
	size_t blocks; /* FIRST: so many */
	uint64_t seed; /* SOME: which */
};

/* A rename of a file from one directory to another is two changes; the new name comes first. */
enum image_part { IMAGE_WHOLE, IMAGE_NEW_NAME, IMAGE_OLD_NAME };

struct image_step {
	const struct record_op *op;
	enum image_part part;
	bool durable;	    /* names and data: a sync has covered it */
	bool times_durable; /* and the times that it set */
};

struct image;

/* The empty top directory. */
struct image *image_create(const struct record *log);
struct image *image_copy(const struct image *im);
void image_destroy(struct image *im);

/*
 * Does @step, as far as @taken says. Without @times the times of files stay what they were.
 * False: it was not done, at least not whole.
 */
bool image_apply(struct image *im, const struct image_step *step, struct taken taken, bool times);

/* Equal for equal ones. */
uint64_t image_hash(const struct image *im);

#endif
