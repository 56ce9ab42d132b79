/* SPDX-License-Identifier: MIT */
/*
 * What a power cut may leave of what a recorder (record.h) has logged. Each state becomes a
 * filesystem in memory (memory.h), which a check gets:
 *
 *	static int check(void *arg, const struct crash_state *s)
 *	{
 *		... recover over s->backing, look; may change all in it ...
 *		return s->mark >= 1 && !new_is_there ? 1 : 0;
 *	}
 *
 *	struct crash_report report;
 *	struct crash_options options = {.seed = 1};
 *
 *	if (crash_explore(r, &options, check, arg, &report))
 *		fail_msg("%s", report.what);
 *
 * A recovery can itself be recorded and explored in the check. record_print shows the log.
 *
 * The model is a filesystem that is careful, but orders nothing:
 * - fsync of a file makes its data, size, times, mode, owner and xattrs durable; fdatasync its
 *   data and size; fsync of a directory the names in it, and its own attributes; syncfs all. Each
 *   covers what had returned when it was called.
 * - A file's fsync may or may not make its name durable. A name that is durable leads to a whole
 *   inode (type, mode and owner as it was made, target of a symlink), but maybe to no data.
 * - Of what is not durable any part may be there, in any order, except that changes to one name
 *   come in order, and so do those to one block of 4 KiB, to one xattr, one mode. A write may be
 *   there for some of its blocks, or as size without data (zeros).
 * - A rename within a directory, an exchange, and every rename of a directory is there or not. A
 *   file renamed to another directory may have both names, never none.
 *
 * Explored just before each sync and mark, and at the end; a cut in between leaves nothing that
 * one there may not leave as well. The most telling come first:
 *	1. all that was done, up to each op; only what is durable; no data; sizes without data; no
 *	   names; no attributes; times from before
 *	2. all but one op; of the names only one, of the rest only one
 *	3. tears: one write in part, of one file no data or zeros
 *	4. random choices
 * Equal states with the same mark are checked once.
 */
#ifndef TESTS_BACKING_CRASH_H
#define TESTS_BACKING_CRASH_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/backing/memory.h"
#include "tests/backing/record.h"

struct crash_state {
	struct backing *backing; /* the tree after the crash, which the check may use as it likes */
	struct memory *memory;	 /* the same, for memory_open */
	int mark;		 /* the last that the program passed before the crash */
	const char *what;	 /* which crash this is, and what it took */
};

/* 0: as promised. Anything else ends the exploration; so it should return, not fail the test. */
typedef int (*crash_check)(void *arg, const struct crash_state *s);

struct crash_options {
	uint64_t seed;	   /* of random choices */
	unsigned random;   /* choices at each point; 0: 10 */
	size_t max_states; /* then it ends, with report->cut_short; 0: no limit */
};

struct crash_report {
	size_t considered, checked; /* states; the first with those that were seen before */
	double seconds, check_seconds;
	bool cut_short;
	char what[4000]; /* the state that did not pass, or why there is an error */
};

/* 0: all states passed. 1: one did not, report->what. -errno: no result, report->what says why. */
int crash_explore(struct record *r, const struct crash_options *options, crash_check check,
		  void *arg, struct crash_report *report);

/* Does all of the log again in @m, which then is as what was recorded. The log must outlive it. */
int crash_replay(struct record *r, struct memory *m);

#endif
