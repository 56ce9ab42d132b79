/* SPDX-License-Identifier: MIT */
/*
 * Have files the content that they had when they were saved? Of a directory with a commit file: by
 * that; of a file: by the record in its extended attribute; of any other directory: all of these
 * that are below it. For `verify` and `latest`.
 */
#ifndef FS_VERIFY_H
#define FS_VERIFY_H

#include "fs/listing.h"
#include "fs/record.h"
#include "fs/show.h"

/* What was found out about one file. */
struct verified {
	const char *path;
	enum verdict verdict;
	uint64_t size, mtime_ns;
	char hex[DIGEST_HEX]; /* "" where it was not read */
	struct record record;
	char message[MESSAGE_MAX]; /* "" where there is nothing to say */
};

struct verify {
	/* Each file but those of units that are ok: they are only counted. */
	void (*file)(void *arg, const struct verified *f);
	/* A directory that has a commit file, after its files. */
	void (*unit)(void *arg, const char *path, const struct listing *l, bool ok,
		     unsigned nr_unlisted);
	void (*complain)(const char *text);
	void *arg;
	bool structure_only; /* no content is read: files are there with their sizes */
	unsigned nr[NR_VERDICTS];
	/* private */
	unsigned threads;
	struct progress progress;
	const char *now; /* what is being read, */
	uint64_t now_bytes, now_started_ns;
	struct listing *listing; /* of the unit that the walk is in, or NULL */
	size_t below;		 /* from where on a path is one below it */
	bool is_part;		 /* the walk begins in it */
	bool unit_ok;
	unsigned nr_unlisted;
};

void verify_start(struct verify *v);

/* Links are followed only where @path is one. False: there is nothing in it to verify; told. */
bool verify_path(struct verify *v, char *path);

/* Is all that was looked at so far as it should be? */
bool verify_is_ok(const struct verify *v);

#endif
