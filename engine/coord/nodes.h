/* SPDX-License-Identifier: MIT */
/*
 * This mount as a node among others, and which of those live (DESIGN 4, point 5).
 *
 * - A node is a mount incarnation, with a random id. The label is for people.
 * - It shows that it lives by a lease, which it renews every third of lease_s with another text
 *   each time. What differs is all that counts: no clock but each observer's own monotonic one, and
 *   of that only differences.
 * - Another node is dead when its lease was ended, or when its text was seen to stay the same for
 *   lease_s (the longer of both nodes'). Time counts while the observer's own renewals and reads
 *   succeed and while it looks: an outage of what is behind the leases, or a pause of the observer,
 *   makes nobody dead.
 * - A lease that was never seen says little when it is missing, since caches remember what was not
 *   there. So it has to stay missing for NODES_UNSEEN_S longer. A service has no caches: there it
 *   is over. Nor is one who comes back, after his lease was removed, seen sooner than those caches
 *   end.
 * - Dead is a judgement, not a fact: who was paused may come back, and is alive again. What was
 *   decided meanwhile stands by write-once records.
 * - A node by itself costs its renewals and nothing else: others are looked at while somebody asks
 *   for them.
 *
 * Which nodes work together: those of one protocol, and of one set of rules. Who mounts looks at
 * the leases that are there, at NODES_MEET of them by chance if there are more, all of them if its
 * label was given. If one that differs, or has the given label on another host, is alive, the mount
 * is refused; it waits as long as that takes to be seen.
 */
#ifndef ENGINE_COORD_NODES_H
#define ENGINE_COORD_NODES_H

#include <jansson.h>

#include "engine/base/message.h"
#include "engine/coord/coord.h"

/*
 * 2: votes carry short lists, reports the files of all ranks as one line; 3: ages, and deaths; 4: a
 * death ends a generation; 5: what is recorded of names goes; 6: the key of a job is without what
 * torchrun counts
 */
#define NODES_PROTOCOL 6
#define NODES_UNSEEN_S 60
#define NODES_MEET     32
#define NODES_LOOK_NS  (500 * NSEC_PER_MSEC)
#define NODES_JOIN_NS \
	(NODES_LOOK_NS + \
	 100 * NSEC_PER_MSEC) /* and what such a node goes by has been looked at anew */

#define NODES_LABEL_MAX 65

/*
 * NODES_PROTOCOL, but for a test that plays a node of another version: it sets it before
 * nodes_create.
 */
extern int nodes_protocol;

struct nodes;

struct nodes_options {
	const struct coord_ops *coord;
	void *coord_arg;
	const char *backing; /* these five are copied; for messages */
	const char *label;
	bool label_given;
	/*
	 * Where on this host the label is held by a lock (the run directory, "" if nowhere). A
	 * lease of this boot and place with our label is of one that held it before, and is dead.
	 */
	const char *place;
	const char *rules; /* their digest */
	unsigned lease_s;
	/*
	 * NULL: nobody wants to know. Called, often, while it takes long to see whether another one
	 * lives.
	 */
	void (*waits)(void *arg);
	void *arg;
	bool by_hand; /* for tests: no threads (nodes_inside.h) */
};

/*
 * Makes the lease and looks at who is there. Where no lease can ever be made, since this node may
 * not write there, it is alone, which is no error. 0 or -errno, @e filled: it may not mount.
 */
int nodes_create(struct nodes **out, const struct nodes_options *o, struct error *e);
/* Ends the lease. NULL is fine. */
void nodes_destroy(struct nodes *ns);

const char *nodes_id(const struct nodes *ns);
const char *nodes_rules(const struct nodes *ns);

/* Other nodes know nothing of this one. */
bool nodes_alone(const struct nodes *ns);

/*
 * True if no other node had a lease when this was last looked at, at most NODES_LOOK_NS ago. Looks
 * at the list of leases itself, now and then; a node whose leases lie in a service is never sure. A
 * node that mounts while others have a lease waits for NODES_JOIN_NS, so that none of these still
 * believes to be alone. Any thread.
 */
bool nodes_seem_alone(struct nodes *ns);

/* Is nobody entitled to take this node for dead: was its lease renewed less than lease_s ago? */
bool nodes_hold(struct nodes *ns);

/*
 * Is the node @id, another one's, not known to be dead? It is looked at from here on, until nobody
 * has asked for some lease_s. Does not block.
 */
bool nodes_alive(struct nodes *ns, const char *id);

/*
 * The same, but it looks first at one that nobody has looked at, or that it takes for dead and that
 * may be back. Blocks.
 */
bool nodes_alive_now(struct nodes *ns, const char *id);

/*
 * The node @id has done something else that shows life, which is news: as if its lease had been
 * renewed. Whoever was cut off and is back may be heard of before caches show his lease as it is.
 * Does not block.
 */
void nodes_heard(struct nodes *ns, const char *id);

/*
 * Has the node @id been seen to live: was its lease renewed while it was looked at? Does not block.
 */
bool nodes_shows_life(struct nodes *ns, const char *id);

/*
 * When the node @id last showed life before our eyes, monotonic; 0: it never did. Does not block.
 */
uint64_t nodes_lived_ns(struct nodes *ns, const char *id);

/*
 * Until when the lease lasts that was seen last, monotonic; of one that was not renewed before our
 * eyes, when it was found. 0: none was, or it is forgotten. Does not block.
 */
uint64_t nodes_served_ns(struct nodes *ns, const char *id);

/* Was @id the mount that had this one's label on this host before? That is dead. */
bool nodes_is_before(const struct nodes *ns, const char *id);

/*
 * Ends the leases of these, so that others need not wait until they lapse. Not before this mount
 * has aborted what these left undecided: others that have never seen such a lease cannot tell
 * whether its node is dead. True if there were any. Blocks.
 */
bool nodes_end_before(struct nodes *ns);

/* For people: the label of @id and its host, or @id itself where no lease of it was seen. */
void nodes_name(struct nodes *ns, const char *id, char *name, size_t size);

/*
 * What people call the node @id: the label in its lease; @id if that was not seen of late. Returns
 * @buf.
 */
const char *nodes_label(struct nodes *ns, const char *id, char buf[NODES_LABEL_MAX]);

/*
 * {"node", "lease": "held"|"alone"|"failing", "why", "others": [{"node", "label", "host", "state":
 * "live"|"dead"| "unknown", "silent_s"}]}: what was seen of others, who are looked at from here on
 * for a while. Does not block.
 */
json_t *nodes_to_json(struct nodes *ns);

#endif
