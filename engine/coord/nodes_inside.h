/* SPDX-License-Identifier: MIT */
/* Shared by the files behind nodes.h. */
#ifndef ENGINE_COORD_NODES_INSIDE_H
#define ENGINE_COORD_NODES_INSIDE_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine/base/clock.h"
#include "engine/base/list.h"
#include "engine/base/wait.h"
#include "engine/base/worker.h"
#include "engine/coord/nodes.h"

#define HOST_MAX   65
#define BOOT_MAX   37
#define PLACE_MAX  48
#define OTHERS_MAX 1024 /* nodes that are looked at because somebody wants to see all */

/* What a lease says. */
struct lease_facts {
	long long protocol; /* 0: unreadable */
	char label[NODES_LABEL_MAX], host[HOST_MAX], boot[BOOT_MAX], place[PLACE_MAX];
	char rules[COORD_GEN_MAX];
	uint64_t lease_ns;
};

/* Another node, and what was seen of its lease. */
struct seen {
	struct list link;
	char id[COORD_NODE_MAX];
	char text[COORD_LEASE_MAX];
	size_t len;
	struct lease_facts facts;
	bool ever;	   /* its lease was seen */
	bool gone;	   /* its lease is missing, or not believed */
	bool changed;	   /* a renewal was seen ... */
	uint64_t lived_ns; /* ... last at this time */
	uint64_t found_ns; /* when its lease was first seen; 0: never */
	bool dead;
	bool removed;	       /* dead for long: we have removed its lease */
	bool curious;	       /* nobody asked; looked at until it is known whether it lives */
	bool told;	       /* the log says that this mount waits for it */
	uint64_t looked_ns;    /* when it was last looked at; 0: never, or in vain */
	uint64_t unchanged_ns; /* how long its lease stays the same, of the time that counts */
	unsigned long outages; /* ns->outages at that look */
	uint64_t until_ns;     /* somebody asked, and may ask again until then */
};

#define BEFORE_MAX 8

struct nodes {
	struct nodes_options options; /* const, as are all members without a note */
	char id[COORD_NODE_MAX];
	struct lease_facts self;
	char *backing;
	uint64_t lease_ns;
	char alone[256]; /* the reason; "": it is not */
	char before[BEFORE_MAX]
		   /* Earlier mounts with our label; set before the watcher starts. */
		   [COORD_NODE_MAX];
	unsigned nr_before;
	unsigned nr_ended; /* of their leases; owner: the caller of nodes_end_before */

	struct lock lock; /* not held during I/O */
	struct waitq wake_renewer, wake_watcher;
	bool stop;			/* lock: lock */
	unsigned long long renewals;	/* owner: the thread that renews */
	uint64_t renewed_ns;		/* lock: lock; when the last successful one began */
	int renew_err;			/* lock: lock; of the last one: 0 or -errno */
	unsigned long outages;		/* lock: lock; failed renewals ... */
	uint64_t failed_ns;		/* lock: lock; ... the last at this time; 0: none */
	struct list seen;		/* lock: lock; only the watcher removes any */
	uint64_t interest_ns;		/* lock: lock; somebody wants to see all until then */
	uint64_t listed_ns;		/* owner: watcher */
	atomic_uint_fast64_t seemed_ns; /* when the leases were last listed (nodes_seem_alone) */
	atomic_bool seems_alone;
	struct worker renewer, watcher;
};

/* The time between two looks at a lease. */
static inline uint64_t nodes_look_every(const struct nodes *ns)
{
	return ns->lease_ns / 10;
}

/* nodes_lease.c */
void lease_facts_read(struct lease_facts *f, const char *text, size_t len);
/* One renewal. 0 or -errno. */
int nodes_renew(struct nodes *ns);

/*
 * nodes_watch.c: the entry of that id, made if it is missing; NULL: no memory. lock: lock, unless
 * the watcher has not started yet.
 */
struct seen *nodes_seen(struct nodes *ns, const char *id);
/* How long the lease of @s may stay the same before @s is dead. */
uint64_t nodes_patience(const struct nodes *ns, const struct seen *s);
/* Reads the lease of @s, and judges. */
void nodes_look_at(struct nodes *ns, struct seen *s);
/*
 * Looks once at all nodes that are wanted. Watcher only. The lock is dropped during I/O, but not
 * after the last look: a node that is asked about then wakes the watcher from its sleep.
 */
void nodes_look_locked(struct nodes *ns);
/* True if no node is to be looked at: the watcher sleeps until it is woken. lock: lock. */
bool nodes_idle_locked(struct nodes *ns);
void nodes_forget_all(struct nodes *ns);

/* nodes_meet.c: 0 if this node may mount, or -errno with @e filled. */
int nodes_meet(struct nodes *ns, struct error *e);

#endif
