/* SPDX-License-Identifier: MIT */
/*
 * The write-once record of what becomes of a checkpoint (K3): it is committed, or never will be.
 * Only after a durable `commit` may it get its name, and then anybody may give it that, any number
 * of times (recover.c). So it says which name that is, what had it, and what follows (order.h):
 *
 * 	{"decision": "commit", "unit": PATH, "replaces": null | {"generation": HEX} | {"ino", "btime_ns"},
 * 	 "pointers": [{"name": "latest", "staged": HEX, "was": "file 6 HEX"}],
 * 	 "removals": [{"name": "step-1", "generation": HEX}]}
 *
 * What is not UTF-8 has another key, as "unit_hex"; json.h. The last two may be missing.
 * "ordinary": true is of a committed checkpoint of which all files were removed: it becomes an
 * ordinary directory.
 */
#ifndef ENGINE_UNIT_DECISION_H
#define ENGINE_UNIT_DECISION_H

#include <jansson.h>

#include "engine/format/commit.h"
#include "engine/unit/checkpoint.h"
#include "engine/unit/order.h"

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
 * (O4) Prepares and decides for @cp, which is to be at @path below the backing, and what follows:
 * @order, or NULL. 0: it is to be published. -ECANCELED: it was decided otherwise. -EALREADY:
 * another node has decided so, which publishes it. -errno: unknown, and to be tried again.
 */
int decision_record(struct checkpoint *cp, const char *path, const struct order *order);

/*
 * The commit of @cp, which is to be at @path, could not be recorded, or perhaps was. Records that
 * it is not committed. True: nothing says that it is, nor will. For a @cp that this node alone
 * decides.
 */
bool decision_withdraw(struct checkpoint *cp, const char *path);

/* What it would say, as an object. For a root that may be lost before (accord_heir.c). */
json_t *decision_proposed(struct checkpoint *cp, const char *path, const struct order *order);

/* The records are of no use any more. */
void decision_forget(struct checkpoint *cp);

/* Parses the text of a decision record: 0, or -EBADMSG. For recovery, and the fuzzer. */
int decision_parse(const char *text, size_t len, struct decision *d);

#endif
