/* SPDX-License-Identifier: MIT */
/*
 * The write-once record of what becomes of a checkpoint (K3): it is committed, or never will be. Only
 * after a durable `commit` may it get its name, and then anybody may give it that, any number of times
 * (recover.c). So it says which name that is, and what had it.
 */
#ifndef ENGINE_UNIT_DECISION_H
#define ENGINE_UNIT_DECISION_H

#include "engine/format/commit.h"
#include "engine/unit/checkpoint.h"

struct decision {
	bool commit;
	char unit[PATH_MAX];	     /* below the backing */
	bool replaces;		     /* something had the name, namely ... */
	char generation[COMMIT_HEX]; /* ... this committed checkpoint; "" for */
	uint64_t ino, btime_ns;	     /* ... this inode of the same device */
};

/*
 * (O4) Prepares and decides for @cp, which is to be at @path. 0: it is to be published. -ECANCELED: it was
 * decided otherwise. -errno: unknown, and to be tried again.
 */
int decision_record(struct checkpoint *cp, const char *path);

/* The records are of no use any more. */
void decision_forget(struct checkpoint *cp);

/* Parses the text of a decision record: 0, or -EBADMSG. For recovery, and the fuzzer. */
int decision_parse(const char *text, size_t len, struct decision *d);

#endif
