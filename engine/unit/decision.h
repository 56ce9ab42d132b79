/* SPDX-License-Identifier: MIT */
/*
 * The write-once record that decides a checkpoint: it is committed, or never will be. Only after a
 * durable `commit` may the checkpoint get its name, and then any node may give it the name, any
 * number of times (recover.c). So the record says what the name is, what had it, and what follows
 * (journal_order.h):
 *
 * 	{"decision": "commit", "unit": PATH, "replaces": null | {"generation": HEX} | {"ino", "btime_ns"},
 * 	 "pointers": [{"name": "latest", "staged": HEX, "was": "file 6 HEX"}],
 * 	 "removals": [{"name": "step-1", "generation": HEX}]}
 *
 * Text that is not UTF-8 has another key, such as "unit_hex": json.h. The last two may be missing.
 * "ordinary": true is of a committed checkpoint that lost all its files: it becomes an ordinary
 * directory. Only this module writes and reads the text. Functions with a checkpoint are called
 * without the units' lock.
 */
#ifndef ENGINE_UNIT_DECISION_H
#define ENGINE_UNIT_DECISION_H

#include <jansson.h>

#include "engine/format/commit.h"
#include "engine/unit/checkpoint.h"
#include "engine/unit/journal_order.h"

struct decision {
	bool commit;
	char unit[PATH_MAX];	     /* below the backing */
	bool replaces;		     /* something had the name, namely ... */
	char generation[COMMIT_HEX]; /* ... this committed checkpoint; "" for */
	uint64_t ino, btime_ns;	     /* ... this inode of the same device */
	bool ordinary; /* what gets the name is no checkpoint, and has no commit file */
	struct order order;
};

/*
 * (O4) Records the decision to commit @cp, which is to be at @path below the backing, with what
 * follows: @order, or NULL. 0: publish it. -ECANCELED: an abort was recorded before. -EALREADY:
 * another node has decided to commit, and publishes it. Other -errno: unknown, to be retried.
 */
int decision_record(struct checkpoint *cp, const char *path, const struct order *order);

/*
 * For a @cp that this node alone decides, after decision_record failed and may have taken effect.
 * Records that @cp, at @path, is not committed. True: no record says that it is, nor ever will.
 */
bool decision_withdraw(struct checkpoint *cp, const char *path);

/* What decision_record would record. For a root that may be lost before that (accord_heir.c). */
void decision_propose(struct checkpoint *cp, const char *path, const struct order *order,
		      struct decision *d);

/* Drops the records, which are of no use any more. */
void decision_forget(struct checkpoint *cp);

/* The text of a decision record, for the caller to free; NULL: no memory. */
char *decision_write(const struct decision *d);
json_t *decision_to_json(const struct decision *d);

/* 0. -EBADMSG: it is something else, and *@d is empty. */
int decision_parse(const char *text, size_t len, struct decision *d);
int decision_from_json(const json_t *o, struct decision *d);

#endif
