/* SPDX-License-Identifier: MIT */
/* Between the files of nodes.h. */
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
#define OTHERS_MAX 1024 /* that are looked at, at most, because somebody wants to see all */

/* What a lease says. */
struct lease_facts {
	long long protocol; /* 0: it cannot be read */
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
	bool ever;	   /* its lease was there */
	bool gone;	   /* and is so no more, or is not believed */
	bool changed;	   /* it was renewed before our eyes ... */
	uint64_t lived_ns; /* ... at last then */
	uint64_t found_ns; /* its lease was first seen; 0: not yet */
	bool dead;
	bool removed;	       /* we have taken its lease away, dead for long */
	bool curious;	       /* nobody asked; only until it is known whether it lives */
	uint64_t looked_ns;    /* when it was last looked at; 0: never, or in vain */
	uint64_t unchanged_ns; /* of the time that counts */
	unsigned long outages; /* ns->outages at that look */
	uint64_t until_ns;     /* somebody asked, and is thought to ask again until then */
};

#define BEFORE_MAX 8

struct nodes {
	struct nodes_options options; /* const, as are all that have no lock named */
	char id[COORD_NODE_MAX];
	struct lease_facts self;
	char *backing;
	uint64_t lease_ns;
	char alone[256]; /* why; "": it is not */
	char before[BEFORE_MAX]
		   [COORD_NODE_MAX]; /* who had our label; set before there is a watcher */
	unsigned nr_before;
	unsigned nr_ended; /* of their leases; owner: who calls nodes_end_before */

	struct lock lock; /* not held while anything is read or written */
	struct waitq wake_renewer, wake_watcher;
	bool stop;			/* lock: lock */
	unsigned long long renewals;	/* owner: who renews */
	uint64_t renewed_ns;		/* lock: lock; when the last that succeeded was begun */
	int renew_err;			/* lock: lock; of the last: 0 or -errno */
	unsigned long outages;		/* lock: lock; renewals that failed ... */
	uint64_t failed_ns;		/* lock: lock; ... at last then; 0: none did */
	struct list seen;		/* lock: lock; of these only the watcher takes any off */
	uint64_t interest_ns;		/* lock: lock; somebody wants to see all until then */
	uint64_t listed_ns;		/* owner: watcher */
	atomic_uint_fast64_t seemed_ns; /* when it was last looked whether any other has a lease */
	atomic_bool seems_alone;
	struct worker renewer, watcher;
};

/* How long until something may have changed. */
static inline uint64_t nodes_look_every(const struct nodes *ns)
{
	return ns->lease_ns / 10;
}

void lease_facts_read(struct lease_facts *f, const char *text, size_t len);

/* nodes.c: one renewal. 0 or -errno. */
int nodes_renew(struct nodes *ns);

/*
 * nodes_watch.c: the one of that id, made if it is not there, or NULL. lock: lock, or there is no
 * watcher yet.
 */
struct seen *nodes_seen(struct nodes *ns, const char *id);
/* How long this one may be silent. */
uint64_t nodes_patience(const struct nodes *ns, const struct seen *s);
/* Looks at the lease of @s, and judges. */
void nodes_look_at(struct nodes *ns, struct seen *s);
/* Looks at all that are to be looked at, once. By the watcher only. */
void nodes_look(struct nodes *ns);
/* Nothing to look at: it may sleep until it is woken. lock: lock. */
bool nodes_idle_locked(struct nodes *ns);
void nodes_forget_all(struct nodes *ns);

/* nodes_meet.c: may this node mount? */
int nodes_meet(struct nodes *ns, struct error *e);

#endif
