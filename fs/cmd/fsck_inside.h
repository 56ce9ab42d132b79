/* SPDX-License-Identifier: MIT */
/*
 * What the files of `ckptfs fsck` share. fsck.c: the verb. fsck_tell.c: its report.
 * fsck_backing.c: opens a backing that is not mounted. fsck_redo.c: what was decided before a
 * crash. fsck_staged.c: checkpoint directories in staging. fsck_adopt.c: what has no digest. One
 * thread runs all of it.
 */
#ifndef FS_CMD_FSCK_INSIDE_H
#define FS_CMD_FSCK_INSIDE_H

#include "engine/backing/backing.h"
#include "engine/config/config.h"
#include "engine/coord/choice.h"
#include "engine/format/format.h"
#include "fs/cmd/cmd.h"
#include "fs/leftovers.h"
#include "fs/show.h"

#define THREADS 8

enum mode { REPORT, ADOPT, DISCARD, DRY_RUN };

struct fsck {
	enum mode mode;
	json_t *list; /* --json: what was found; else NULL */
	struct backing backing;
	struct format format;
	struct config config;
	struct coord coord;
	struct leftovers walk;
	struct progress progress;
	uint64_t now_ns;
	unsigned nr[NR_LEFTOVER_KINDS];
	unsigned nr_removed, nr_adopted, nr_left; /* left: not as it should be */
	unsigned nr_redone;			  /* of what was decided before a crash */
	unsigned nr_given;			  /* whole checkpoints that got their names */
	struct rules *rules;
	char *const *named; /* foreign directories that a person vouches for, as given */
	int nr_named;
	bool *met;	/* for each: the walk met it */
	char **waiting; /* staging names of decided commits that could not be redone */
	size_t nr_waiting;
	uint64_t bytes_removed, bytes_left; /* of staging and trash */
	const char *digesting;
	uint64_t digest_size;
};

/* Reports @l, and the action on it. @hex, @message: may be NULL. fsck_tell.c */
void fsck_tell(struct fsck *f, const struct leftover *l, const char *action, const char *hex,
	       const char *message);

/* Removes @l and reports that. fsck_tell.c */
void fsck_discard(struct fsck *f, const struct leftover *l);

/*
 * Opens, locks and reads the backing @path; refuses one that is in use. 0, or -errno with @e
 * filled. fsck_backing.c
 */
int fsck_open_backing(struct fsck *f, const char *path, struct error *e);
/* True if its locks do not tell whether another node uses it. fsck_backing.c */
bool fsck_is_nfs(const struct backing *b);

/* Redoes, or with --dry-run reports, what was decided before a crash. 0 or -errno. fsck_redo.c */
int fsck_redo_decided(struct fsck *f);

/* Handles @l, a directory .ckptfs-ID. fsck_staged.c */
void fsck_found_staged(struct fsck *f, struct leftover *l);

/* Handle a checkpoint without a digest, or without a commit file. fsck_adopt.c */
void fsck_found_foreign(struct fsck *f, const struct leftover *l);
void fsck_found_foreign_unit(struct fsck *f, const struct leftover *l);

#endif
