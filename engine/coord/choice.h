/* SPDX-License-Identifier: MIT */
/*
 * The way in which nodes coordinate: option coord, `dir` or `etcd:...`. Nodes that share a backing
 * but use two ways would make two decisions. So a way other than dir is recorded in
 * BACKING/.ckptfs/coord.json, {"coord": "etcd", "cluster": ID}, and a mount with another way is
 * refused. No lock: the choice is made before other threads start.
 */
#ifndef ENGINE_COORD_CHOICE_H
#define ENGINE_COORD_CHOICE_H

#include "engine/backing/backing.h"
#include "engine/coord/coord_etcd.h"
#include "engine/format/format.h"

#define CHOICE_FILE "coord.json"

struct coord {
	const struct coord_ops *ops;
	void *arg;
	struct coord_etcd *etcd; /* NULL: the way is dir */
};

struct coord_choice {
	const char *option;
	struct backing *backing;
	const struct format *format; /* of the backing */
	unsigned lease_s;
	bool writes; /* record the way if none is recorded; else only compare */
};

/* 0 if @option is valid, or -errno with @e filled. Contacts no server. */
int coord_check(const char *option, struct error *e);

/*
 * Called as the daemon, before any other thread starts. 0, or -errno with @e filled; undo with
 * coord_close, in any case.
 */
int coord_choose(struct coord *c, const struct coord_choice *o, struct error *e);
void coord_close(struct coord *c);

/*
 * For a daemon that coordinates by dir on @b. -EBUSY, with @e filled: a mount has recorded another
 * way since. Called as the daemon.
 */
int coord_still_dir(struct backing *b, struct error *e);

/*
 * Parses a coord.json. NULL: @way is set ("etcd cluster ID"); else what is wrong with the text. The
 * fuzzer uses it, too.
 */
const char *coord_parse_choice(const char *text, size_t len, char way[64]);

#endif
