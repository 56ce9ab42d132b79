/* SPDX-License-Identifier: MIT */
/*
 * Which way nodes agree by, as option coord says: `dir` or `etcd:...`. Nodes of one backing by two
 * ways would make two decisions. So which one it is, if it is not dir, is written down there:
 * BACKING/.ckptfs/coord.json, {"coord": "etcd", "cluster": ID}. Whoever chooses another one is
 * refused.
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
	struct coord_etcd *etcd; /* NULL: it is dir */
};

struct coord_choice {
	const char *option;
	struct backing *backing;
	const struct format *format; /* of the backing */
	unsigned lease_s;
	bool writes; /* writes it down, if nobody has; else it only looks */
};

/* Is @option one that can be meant? 0, or -errno with @e filled. Reaches for nobody. */
int coord_check(const char *option, struct error *e);

/*
 * As the daemon, before any other thread. 0, or -errno with @e filled; undo with coord_close, in
 * any case.
 */
int coord_choose(struct coord *c, const struct coord_choice *o, struct error *e);
void coord_close(struct coord *c);

/*
 * For who agrees by dir on @b: has a mount chosen another way since? -EBUSY, with @e filled. As the
 * daemon.
 */
int coord_still_dir(struct backing *b, struct error *e);

/*
 * What a coord.json says: NULL, and it is in @way ("etcd cluster ID"), or what is wrong with it.
 * For the fuzzer too.
 */
const char *coord_parse_choice(const char *text, size_t len, char way[64]);

#endif
