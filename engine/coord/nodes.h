/* SPDX-License-Identifier: MIT */
/*
 * This mount as a node among others, and which of the others live (ckptfs-coordination(7)).
 *
 * - A node is a mount incarnation, with a random id. The label is for people.
 * - A node shows that it lives by a lease, which it renews every third of lease_s, with another
 *   text each time. An observer only sees whether the text differs. It uses no clock but its own
 *   monotonic one, and of that only differences.
 * - Another node is dead when its lease was ended, or when its text was seen to stay the same for
 *   lease_s (the longer of both nodes'). Time counts only while the observer looks, and while its
 *   own renewals and reads succeed. So an outage of the storage of the leases, or a pause of the
 *   observer, makes no node dead.
 * - A missing lease that was never seen proves little, since caches remember what was not there. It
 *   has to stay missing for NODES_UNSEEN_S longer. A service has no caches: there such a node is
 *   dead. A node that comes back after its lease was removed is not seen before those caches end,
 *   either.
 * - Dead is a judgement, not a fact: a node that was paused may come back, and is alive again. What
 *   was decided meanwhile stands by write-once records.
 * - A node by itself costs its renewals and nothing else: others are looked at only while somebody
 *   asks for them.
 *
 * Nodes of one protocol and one set of rules work together. A node that mounts looks at the leases
 * that exist: at NODES_MEET of them by chance if there are more, at all of them if its label was
 * given. If a node that differs, or has the given label on another host, is alive, the mount is
 * refused. The mount waits as long as it takes to see that.
 *
 * Any thread may call. The lock (LOCK_NODES) is not held while a lease is read or written.
 */
#ifndef ENGINE_COORD_NODES_H
#define ENGINE_COORD_NODES_H

#include <jansson.h>

#include "engine/base/message.h"
#include "engine/coord/coord.h"

/*
 * What each version changed. 2: votes carry short lists, reports the files of all ranks as one
 * line; 3: ages, and deaths; 4: a death ends a generation; 5: the records of a name are removed; 6:
 * the key of a job is without what torchrun counts
 */
#define NODES_PROTOCOL 7
#define NODES_UNSEEN_S 60
#define NODES_MEET     32
#define NODES_LOOK_NS  (500 * NSEC_PER_MSEC)
#define NODES_JOIN_NS \
	(NODES_LOOK_NS + 100 * NSEC_PER_MSEC) /* longer than a result of nodes_seem_alone is used */

#define NODES_LABEL_MAX 65

/* NODES_PROTOCOL. A test that plays a node of another version sets it before nodes_create. */
extern int nodes_protocol;

struct nodes;

struct nodes_options {
	const struct coord_ops *coord;
	void *coord_arg;
	const char *backing; /* for messages; the texts are copied */
	const char *label;
	bool label_given;
	/*
	 * Where on this host a lock guards the label (the run directory; "": nowhere). A lease of
	 * this boot and place with our label is of an earlier holder of the lock, and that is dead.
	 */
	const char *place;
	const char *rules; /* digest of the rules */
	unsigned lease_s;
	/* May be NULL. Called often while it takes long to see whether another node lives. */
	void (*waits)(void *arg);
	void *arg;
	bool by_hand; /* for tests: no threads (nodes_inside.h) */
};

/*
 * Makes the lease and looks at the other nodes. Where this node can never make a lease, since it
 * may not write there, it is alone, which is no error. 0; or -errno with @e filled: it may not
 * mount.
 */
int nodes_create(struct nodes **out, const struct nodes_options *o, struct error *e);
/* Ends the lease. NULL is fine. */
void nodes_destroy(struct nodes *ns);

const char *nodes_id(const struct nodes *ns);

/* True if this node has no lease: other nodes know nothing of it. */
bool nodes_alone(const struct nodes *ns);

/*
 * True if no other node had a lease when the leases were last listed, at most NODES_LOOK_NS ago.
 * Lists them itself, now and then; where leases lie in a service, it is false. A node that mounts
 * while others have a lease waits for NODES_JOIN_NS, so that none of these still believes to be
 * alone. Any thread.
 */
bool nodes_seem_alone(struct nodes *ns);

/* True if this node renewed its lease less than lease_s ago: no other node may take it for dead. */
bool nodes_hold(struct nodes *ns);

/*
 * True unless the other node @id is known to be dead. From here on the watcher looks at it, until
 * nobody has asked for some lease_s. Does not block.
 */
bool nodes_alive(struct nodes *ns, const char *id);

/*
 * The same, but first looks at a node that nobody has looked at, or that counts as dead and may be
 * back. Blocks.
 */
bool nodes_alive_now(struct nodes *ns, const char *id);

/*
 * The node @id has just shown life in another way: it counts as a renewal. A node that was cut off
 * and is back may be heard of before caches show its new lease. Does not block.
 */
void nodes_heard(struct nodes *ns, const char *id);

/*
 * True if the node @id was seen to live: it renewed its lease while it was looked at. Does not
 * block.
 */
bool nodes_shows_life(struct nodes *ns, const char *id);

/*
 * When the node @id last showed life while this node looked, monotonic; 0: never. Does not block.
 */
uint64_t nodes_lived_ns(struct nodes *ns, const char *id);

/*
 * Until when the lease of @id that was seen last lasts, monotonic. If no renewal was seen: when the
 * lease was found. 0: none was found, or it is forgotten. Does not block.
 */
uint64_t nodes_served_ns(struct nodes *ns, const char *id);

/* True if @id is an earlier mount of this host that had this one's label. That mount is dead. */
bool nodes_is_before(const struct nodes *ns, const char *id);

/*
 * Ends the leases of those mounts, so that other nodes need not wait until they lapse. The caller
 * has first aborted what those mounts left undecided: a node that has never seen such a lease
 * cannot tell whether its node is dead. True if there were any. Blocks.
 */
bool nodes_end_before(struct nodes *ns);

/* For people: the label of @id and its host, or @id itself where no lease of it was seen. */
void nodes_name(struct nodes *ns, const char *id, char *name, size_t size);

/*
 * What people call the node @id: the label in its lease; @id if no lease was seen lately. Returns
 * @buf.
 */
const char *nodes_label(struct nodes *ns, const char *id, char buf[NODES_LABEL_MAX]);

/*
 * {"node", "lease": "held"|"alone"|"failing", "why", "others": [{"node", "label", "host", "state":
 * "live"|"dead"|"unknown", "silent_s"}]}: what was seen of the others. The watcher looks at them
 * from here on for a while. Does not block.
 */
json_t *nodes_to_json(struct nodes *ns);

#endif
