/* SPDX-License-Identifier: MIT */
/*
 * How nodes agree on the generations of a unit: by write-once records. The first node that makes a
 * record decides its text, and all nodes read it. ckptfs-format(5) lists the records. One table
 * hides where they are kept: `dir` has them as files on the backing (coord_dir.c), `etcd` as keys
 * (coord_etcd.c).
 *
 * - A record that a call reports as standing, to its maker or to a reader, survives a crash.
 * - Every function blocks as long as the storage behind it does, and may be called from any thread.
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
#define COORD_TEXT_MAX	65536 /* bytes of a record; no NUL */
#define COORD_LEASE_MAX 1024  /* bytes of a lease; no NUL, no space at its end */

/* The name of a record. */
struct coord_key {
	uid_t owner;
	char gen[COORD_GEN_MAX];
	char kind[COORD_KIND_MAX];
	/*
	 * For wait, where a service is polled: since when nothing has come (clock_mono_ns; 0: long
	 * ago), and how many nodes wait in this way (0: unknown).
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
	 * Makes the record @kind of generation @gen, unless it exists. 1: the record that stands is
	 * @text, byte for byte; so @text should name its writer. 0: another text stands, and is
	 * copied to @first, which has room for COORD_TEXT_MAX bytes; *first_len are used.
	 *
	 * -errno: unknown; a second call with the same text settles it. -EBUSY: another node is
	 * making the record, or crashed while it did (only where the backing has no hard links).
	 * -EPERM: what is there is not @owner's, or is no record; it was logged. -EINVAL: a bad
	 * @gen, @kind or @text.
	 */
	int (*record)(void *arg, const struct caller *owner, const char *gen, const char *kind,
		      const char *text, size_t len, char *first, size_t *first_len);
	/*
	 * NULL: not supported. As record, on the condition that the record `open` of the generation
	 * stands at that moment; else -ESTALE. Where this is supported, forget removes all records
	 * of a generation at once.
	 *
	 * @also (or NULL) is made together with the first record: both or none. -EAGAIN: another
	 * record of that kind stands; the first one may be made alone.
	 */
	int (*record_open)(void *arg, const struct caller *owner, const char *gen, const char *kind,
			   const char *text, size_t len, const struct coord_record *also,
			   char *first, size_t *first_len);
	/*
	 * The number of bytes, or -ERANGE if there are more than @size. -ENOENT: the record does
	 * not exist, or this node does not see it yet. -EPERM, -EINVAL: as above. No other user can
	 * make a record that counts as @owner's.
	 */
	ssize_t (*read)(void *arg, uid_t owner, const char *gen, const char *kind, char *buf,
			size_t size);
	/*
	 * Removes all records of a generation that is over, and the left-overs of attempts to make
	 * some. `open` goes first, durably: a node that joins checks afterwards that it still
	 * stands. The decision goes last. 0, also if there are none; -errno: some may be left.
	 */
	int (*forget)(void *arg, const struct caller *owner, const char *gen);
	/*
	 * Removes one record, if it exists; the removal may not be durable. 0, or -errno: unknown.
	 * The caller makes sure that the record may go.
	 */
	int (*remove)(void *arg, const struct caller *owner, const char *gen, const char *kind);
	/*
	 * For recovery: calls @found for every generation that has records, or left-overs of some.
	 * A generation that was made just now may be missing. Stops when @found returns anything
	 * but 0, and returns that. Else 0, or -errno after everything that could be listed.
	 */
	int (*list)(void *arg, int (*found)(void *arg, uid_t owner, const char *gen),
		    void *found_arg);
	/*
	 * Waits until one of @keys may be there. 1: one may be; key.there marks some of those, but
	 * a read may still find none. 0: the deadline (clock_mono_ns) has passed, or @wake (an
	 * eventfd, -1: none) is readable. -errno: the storage fails right now. The call pauses
	 * before it returns -errno, and the log says so once per outage.
	 *
	 * One thread waits at a time. State that makes the next wait for the same logs cheap is
	 * kept until a wait for nothing (@nr 0), which only lets the time pass.
	 */
	int (*wait)(void *arg, struct coord_key *keys, size_t nr, int wake, uint64_t deadline_ns);

	/*
	 * The lease of a node, that is, of a mount incarnation: a text, which each renewal replaces
	 * by a different one. One thread of that node renews it (nodes.h); any thread reads it.
	 * lease_end removes it at once, and returns 0 also if it was gone.
	 */
	int (*lease)(void *arg, const char *node, const char *text, size_t len);
	/*
	 * As read; what a torn renewal left counts as a text, too. -ENOENT: the lease has ended, or
	 * this node does not see it yet, or the service says that it ran out. -EPERM: this node
	 * does not believe it.
	 */
	ssize_t (*lease_read)(void *arg, const char *node, char *buf, size_t size);
	bool lease_is_sure; /* there is no cache: a lease that lease_read does not find is over */
	int (*lease_end)(void *arg, const char *node);
	/* As list. */
	int (*lease_list)(void *arg, int (*found)(void *arg, const char *node), void *found_arg);
};

/* BACKING/.ckptfs/txn/UID/GEN.KIND; @arg is the struct backing. */
extern const struct coord_ops coord_dir_ops;

#define COORD_WHY_MAX 256
/*
 * Tries in the directory @dir of the backing (-1: where leases are) what the records and leases of
 * coord_dir_ops rest on. 0: it holds on this node, though the filesystem may still lie to others.
 * 1: it does not, and @why says what. -errno: the test cannot run. Needs no other node.
 */
int coord_dir_test(struct backing *b, int dir, char why[COORD_WHY_MAX]);

/* --- names --- */

/* The kinds of records, but for the entries of logs: "log.SLOT.NR". */
#define COORD_NAME     "name"
#define COORD_OPEN     "open"
#define COORD_PREPARE  "prepare"
#define COORD_NEXT     "next" /* an earlier version made it */
#define COORD_DECISION "decision"

void coord_log_kind(char kind[COORD_KIND_MAX], uint32_t slot, uint32_t nr);
bool coord_is_log(const char *kind);

/*
 * True if there is such a kind of record. Numbers are decimal, of at most ten digits, without
 * leading zeros.
 */
bool coord_kind_ok(const char *kind);

bool coord_gen_ok(const char *gen);
/* True if @node has the form of a node's id. */
bool coord_node_ok(const char *node);

/*
 * The name of a record, "UID/GEN.KIND", is a path for coord_dir.c and part of a key for
 * coord_etcd.c: "0/9bc4c03b35e5828fe4b49aa7cefefdb2.log.17.3".
 */
#define COORD_UID_MAX  16
#define COORD_NAME_MAX 80 /* of GEN.KIND */

void coord_uid_name(char name[COORD_UID_MAX], uid_t owner);
void coord_record_name(char name[COORD_NAME_MAX], const char *gen, const char *kind);

/* The length of the UID that @name begins with; 0: it begins with none. */
size_t coord_parse_uid(const char *name, uid_t *owner);

/* The KIND in GEN.KIND, which is not checked; NULL: @name is something else. */
const char *coord_parse_record(const char *name, char gen[COORD_GEN_MAX]);

#endif
