/* SPDX-License-Identifier: MIT */
/*
 * The write-once record that decides a checkpoint: it is committed, or never will be. Only after a
 * durable `commit` may the checkpoint get its name, and then any node may give it the name, any
 * number of times. So the record says what the name is, what had it, and what follows:
 *
 * 	{"decision": "commit", "unit": PATH, "replaces": null | {"generation": HEX} | {"ino", "btime_ns"},
 * 	 "pointers": [{"name": "latest", "staged": HEX, "was": "file 6 HEX"}],
 * 	 "removals": [{"name": "step-1", "generation": HEX}]}
 *
 * Text that is not UTF-8 has another key, such as "unit_hex": json.h. The last two may be missing.
 * "ordinary": true is of a committed checkpoint that lost all its files: it becomes an ordinary
 * directory. Only this module writes and reads the text. No state and no lock.
 */
#ifndef ENGINE_RECORD_DECISION_H
#define ENGINE_RECORD_DECISION_H

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/format/commit.h"
#include "engine/format/names.h"

#define ORDER_MAX     32 /* of each kind in one record; a crash loses the others */
#define ORDER_WAS_MAX 64

/* What follows a commit. */
struct order_pointer {
	char name[NAME_MAX + 1];
	char staging[STAGING_MAX];
	char was[ORDER_WAS_MAX]; /* what its name showed at the decision: order_look */
};

struct order_removal {
	char name[NAME_MAX + 1];
	char generation[COMMIT_HEX];
};

struct order {
	size_t nr_pointers, nr_removals;
	struct order_pointer pointers[ORDER_MAX]; /* each name once */
	struct order_removal removals[ORDER_MAX];
};

struct decision {
	bool commit;
	char unit[PATH_MAX];	     /* below the backing */
	bool replaces;		     /* something had the name, namely ... */
	char generation[COMMIT_HEX]; /* ... this committed checkpoint; "" for */
	uint64_t ino, btime_ns;	     /* ... this inode of the same device */
	bool ordinary; /* what gets the name is no checkpoint, and has no commit file */
	struct order order;
};

/* True if @was has the form of struct order_pointer.was. */
bool order_was_ok(const char *was);

/* The text of a decision record, for the caller to free; NULL: no memory. */
char *decision_write(const struct decision *d);
json_t *decision_to_json(const struct decision *d);

/* 0. -EBADMSG: it is something else, and *@d is empty. */
int decision_parse(const char *text, size_t len, struct decision *d);
int decision_from_json(const json_t *o, struct decision *d);

#endif
