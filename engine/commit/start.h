/* SPDX-License-Identifier: MIT */
/* All saves of a mount: their begin and end, with the threads that publish and commit. */
#ifndef ENGINE_COMMIT_START_H
#define ENGINE_COMMIT_START_H

#include "engine/base/message.h"
#include "engine/save/generation.h"

struct coord_ops;
struct failures;
struct nodes;
struct rules;

/* All of these outlive the units. */
struct unit_options {
	struct contents *contents;
	struct failures *failures; /* gets failed saves */
	struct failures *notices;  /* gets what is accepted and not protected */
	const struct rules *rules;
	const struct coord_ops *coord;
	void *coord_arg;
	const char *node;    /* label of this mount */
	struct nodes *nodes; /* NULL: this mount is alone */
	unsigned lease_s;
	unsigned retry_s, quiet_s, order_timeout_s, commit_timeout_s, open_max_s;
	bool delete_last; /* on_full */
	unsigned full_wait_s;
};

/* 0 or -errno with @e filled. */
int units_create(struct units **out, const struct unit_options *o, struct error *e);

/*
 * Before any other call: publishes what was decided before a crash. What cannot be published is
 * listed in failures.json; what may succeed later is tried again.
 */
void units_recover(struct units *us);

/* After the last call: what was closed counts as closed even if a handle's release was lost. */
void units_no_more_calls(struct units *us);

/* Ends the threads. Generations that are not published stay in staging. */
void units_stop(struct units *us);

/* After units_stop, and after the contents are gone. */
void units_destroy(struct units *us);

/* The events of the contents (content.h), which may come from units_create to units_destroy. */
void units_content_failed(struct units *us, const struct inode_id *id, int err);
bool units_content_full(struct units *us, const struct inode_id *id, struct shortage *s);
void units_content_rested(struct units *us);

/* Sets the function that says whether a program may have the directory @id, without locks. */
void units_set_knower(struct units *us, bool (*knows)(void *arg, const struct inode_id *id),
		      void *arg);

struct units_progress {
	unsigned open, closed; /* generations: still written; waiting to be published */
	uint64_t dirty_bytes;
};

void units_progress(struct units *us, struct units_progress *p);

#endif
