/* SPDX-License-Identifier: MIT */
/*
 * Verifies that files have the content that they had when they were saved: a directory with a
 * commit file by that, a file by its digest record, and any other directory by all of these below
 * it. For `verify` and `latest`. One thread walks; threads that help to read end before a function
 * returns. No lock.
 */
#ifndef FS_VERIFY_H
#define FS_VERIFY_H

#include "engine/base/message.h"
#include "engine/format/digest_record.h"
#include "fs/listing.h"
#include "fs/record.h"
#include "fs/show.h"

/* What was found out about one file. */
struct verified {
	const char *path;
	enum verdict verdict;
	uint64_t size, mtime_ns;
	char hex[DIGEST_HEX]; /* "": not read */
	struct record record;
	char message[MESSAGE_MAX]; /* "": nothing to say */
};

struct verify {
	/* Called for each file, but not for those of units that are ok, which are only counted. */
	void (*file)(void *arg, const struct verified *f);
	/* Called for a directory with a commit file, after its files. */
	void (*unit)(void *arg, const char *path, const struct listing *l, bool ok,
		     unsigned nr_unlisted);
	void (*complain)(const char *text);
	void *arg;
	bool structure_only; /* reads no content: files exist, with their sizes */
	unsigned nr[NR_VERDICTS];
	/* private */
	unsigned threads;
	struct progress progress;
	const char *now; /* path of what is being read */
	uint64_t now_bytes, now_started_ns;
	struct listing *listing; /* of the unit that contains the walk, or NULL */
	size_t below;		 /* where in a path the part below that unit begins */
	bool is_part;		 /* the walk begins inside that unit */
	bool unit_ok;
	unsigned nr_unlisted;
};

void verify_start(struct verify *v);

/* Follows a link only if @path is one. False: nothing to verify; @complain got a message. */
bool verify_path(struct verify *v, char *path);

/* True if all that was looked at so far is as it should be. */
bool verify_is_ok(const struct verify *v);

#endif
