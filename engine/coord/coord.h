/* SPDX-License-Identifier: MIT */
/*
 * How nodes agree on the generations of a unit (DESIGN 4): by records, each written once by whoever
 * is first, and read by all. Where they are kept is behind one table: `dir` has them as files on
 * the backing (coord_dir.c).
 *
 * - What is returned as standing, to whoever made it and to whoever reads it, survives a crash.
 * - All functions block as long as what is behind them does, and may be called from any thread.
 */
#ifndef ENGINE_COORD_COORD_H
#define ENGINE_COORD_COORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine/backing/backing.h"

#define COORD_GEN_MAX	33    /* 32 hexadecimal digits, lower case, and the terminator */
#define COORD_KIND_MAX	32    /* with the terminator */
#define COORD_NODE_MAX	33    /* as COORD_GEN_MAX */
#define COORD_TEXT_MAX	65536 /* bytes of a record, none of them NUL */
#define COORD_LEASE_MAX 1024  /* bytes of a lease, none of them NUL, and none a space at its end */

/* A record by its name. */
struct coord_key {
	uid_t owner;
	char gen[COORD_GEN_MAX];
	char kind[COORD_KIND_MAX];
	/*
	 * For wait, where a service has to be asked over and over: since when nothing has come
	 * (clock_mono_ns; 0: long ago), and how many nodes wait so (0: unknown).
	 */
	uint64_t since_ns;
	unsigned nodes;
	bool there; /* wait has found it */
};

struct coord_record {
	const char *kind, *text;
};

struct coord_ops {
	/*
	 * Makes the record @kind of generation @gen, unless there is one. 1: what stands is @text,
	 * byte for byte: so it should tell who wrote it. 0: another stands, copied to @first, which
	 * has room for COORD_TEXT_MAX bytes; *first_len are used.
	 *
	 * -errno: unknown; calling it again with the same text settles it. -EBUSY: somebody is
	 * making it, or was when his node crashed (only where the backing has no hard links).
	 * -EPERM: what is there is not @owner's, or no record; it was logged. -EINVAL: a bad @gen,
	 * @kind or @text.
	 */
	int (*record)(void *arg, const struct caller *owner, const char *gen, const char *kind,
		      const char *text, size_t len, char *first, size_t *first_len);
	/*
	 * NULL: it cannot be done. The same, of a generation whose record `open` stands at that
	 * moment: else -ESTALE. forget then removes all of its records at once.
	 *
	 * And with it @also, or NULL: both or none. -EAGAIN: there is another one of that kind; the
	 * first may be made alone.
	 */
	int (*record_open)(void *arg, const struct caller *owner, const char *gen, const char *kind,
			   const char *text, size_t len, const struct coord_record *also,
			   char *first, size_t *first_len);
	/*
	 * How many bytes it has, -ERANGE if that is more than @size. -ENOENT: there is none, or
	 * this node does not see it yet. -EPERM, -EINVAL: as above. Others can make no record that
	 * counts as @owner's.
	 */
	ssize_t (*read)(void *arg, uid_t owner, const char *gen, const char *kind, char *buf,
			size_t size);
	/*
	 * Removes all records of a generation that is over, and what is left of attempts to make
	 * some. `open` goes first, durably: who joins looks afterwards whether it still stands. The
	 * decision goes last. 0, also if there are none, or -errno: some may be left.
	 */
	int (*forget)(void *arg, const struct caller *owner, const char *gen);
	/*
	 * Removes one record, if it is there; whether that is durable is not known. 0 or -errno:
	 * unknown. Who is entitled to that is the caller's to know.
	 */
	int (*remove)(void *arg, const struct caller *owner, const char *gen, const char *kind);
	/*
	 * Calls @found for every generation that has records, or left-overs of some, for recovery:
	 * one that was made just now may be missing. Stops when that returns anything but 0, and
	 * returns it; else 0, or -errno after all that could be listed.
	 */
	int (*list)(void *arg, int (*found)(void *arg, uid_t owner, const char *gen),
		    void *found_arg);
	/*
	 * Waits until one of @keys may be there: 1, and of some of them it is said which
	 * (key.there); when read it may turn out to be none. 0: the deadline (clock_mono_ns) has
	 * come, or @wake (an eventfd, -1: none) can be read. -errno: what is behind this fails
	 * right now, which it took a moment to find; that is told in the log once per outage.
	 *
	 * By one thread at a time. What makes the next wait for the same logs cheap is kept until a
	 * wait for none (@nr 0), which only lets the time pass.
	 */
	int (*wait)(void *arg, struct coord_key *keys, size_t nr, int wake, uint64_t deadline_ns);

	/*
	 * The lease of a node, a mount incarnation: a text that is replaced at each renewal, and is
	 * different then. Renewed by one thread of that node (nodes.h); read by any. End: gone at
	 * once; 0 also if it was.
	 */
	int (*lease)(void *arg, const char *node, const char *text, size_t len);
	/*
	 * As read, and what a torn renewal left is a text, too. -ENOENT: it has ended, or this node
	 * does not see it yet, or the service says that it ran out. -EPERM: it is none that this
	 * node believes.
	 */
	ssize_t (*lease_read)(void *arg, const char *node, char *buf, size_t size);
	bool lease_is_sure; /* no cache is between: what lease_read does not find is over */
	int (*lease_end)(void *arg, const char *node);
	/* As list. */
	int (*lease_list)(void *arg, int (*found)(void *arg, const char *node), void *found_arg);
};

/* BACKING/.ckptfs/txn/UID/GEN.KIND; @arg is the struct backing. */
extern const struct coord_ops coord_dir_ops;

#define COORD_WHY_MAX 256
/*
 * Tries in the directory @dir of the backing (-1: where leases are) what the records and leases of
 * coord_dir_ops rest on, by itself, without another node. 0: it holds. 1: it does not, @why; which
 * can also be said of it where the filesystem is fine on this node and lies to others. -errno: it
 * cannot be tried.
 */
int coord_dir_test(struct backing *b, int dir, char why[COORD_WHY_MAX]);

bool coord_gen_ok(const char *gen);
/* Is it the id of a node? */
bool coord_node_ok(const char *node);
/*
 * Is there such a record: name, open, prepare, next, decision; log.N.N and, of a job, epoch.N, with
 * decimal numbers of at most ten digits, without leading zeros?
 */
bool coord_kind_ok(const char *kind);

#endif
