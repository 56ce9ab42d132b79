/* SPDX-License-Identifier: MIT */
/*
 * How nodes agree on the generations of a unit (DESIGN 4): by records, each written once by whoever is
 * first, and read by all. Where they are kept is behind one table: `dir` has them as files on the
 * backing (coord_dir.c).
 *
 * - What is returned as standing, to whoever made it and to whoever reads it, survives a crash.
 * - All functions block as long as what is behind them does, may be called from any thread, and return
 *   with the thread acting as the daemon (creds.h).
 */
#ifndef ENGINE_COORD_COORD_H
#define ENGINE_COORD_COORD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "engine/backing/creds.h"

#define COORD_GEN_MAX  33    /* 32 hexadecimal digits, lower case, and the terminator */
#define COORD_TEXT_MAX 65536 /* bytes of a record, none of them NUL */

struct coord_ops {
	/*
	 * Makes the record @kind of generation @gen, unless there is one. 1: what stands is @text, byte for
	 * byte: so it should tell who wrote it. 0: another stands, copied to @first, which has room for
	 * COORD_TEXT_MAX bytes; *first_len are used.
	 *
	 * -errno: unknown; calling it again with the same text settles it. -EBUSY: somebody is making it, or
	 * was when his node crashed (only where the backing has no hard links). -EPERM: what is there is not
	 * @owner's, or no record; it was logged. -EINVAL: a bad @gen, @kind or @text.
	 */
	int (*record)(void *arg, const struct caller *owner, const char *gen, const char *kind,
		      const char *text, size_t len, char *first, size_t *first_len);
	/*
	 * How many bytes it has, -ERANGE if that is more than @size. -ENOENT: there is none, or this node
	 * does not see it yet. -EPERM, -EINVAL: as above. Others can make no record that counts as @owner's.
	 */
	ssize_t (*read)(void *arg, uid_t owner, const char *gen, const char *kind, char *buf,
			size_t size);
	/*
	 * Removes all records of a generation that is over, and what is left of attempts to make some. Its
	 * decision goes last. 0, also if there are none, or -errno: some may be left.
	 */
	int (*forget)(void *arg, const struct caller *owner, const char *gen);
	/*
	 * Calls @found for every generation that has records, or left-overs of some, for recovery: one that
	 * was made just now may be missing. Stops when that returns anything but 0, and returns it; else 0,
	 * or -errno after all that could be listed.
	 */
	int (*list)(void *arg, int (*found)(void *arg, uid_t owner, const char *gen),
		    void *found_arg);
};

/* BACKING/.ckptfs/txn/UID/GEN.KIND; @arg is the struct backing. */
extern const struct coord_ops coord_dir_ops;

bool coord_gen_ok(const char *gen);
/* Is there such a record: open, prepare, decision, next? */
bool coord_kind_ok(const char *kind);

#endif
