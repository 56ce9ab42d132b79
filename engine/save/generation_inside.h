/* SPDX-License-Identifier: MIT */
/* What a generation is made of, for the rooms of saves alone. Others ask generation.h. */
#ifndef ENGINE_SAVE_GENERATION_INSIDE_H
#define ENGINE_SAVE_GENERATION_INSIDE_H

#include <limits.h>

#include "engine/base/list.h"
#include "engine/base/message.h"
#include "engine/format/names.h"
#include "engine/gen/state.h"
#include "engine/save/busy.h"
#include "engine/save/generation.h"
#include "engine/save/live.h"

/* A name in a directory of the backing. */
struct target {
	int dir; /* descriptor of the directory, owned by the generation */
	struct inode_id dir_id;
	char name[NAME_MAX + 1];
};

/* What a pointer's content said at the last read. */
struct pointer_said {
	uint64_t turn;		  /* a later read has a higher one */
	char names[NAME_MAX + 1]; /* the name of a unit; "": of nothing that could be one */
	char unit[STAGING_MAX];	  /* ... its staging name, if pending or failed; else "" */
	bool unknown;		  /* ... it is unknown whether another node saves it */
};

struct generation {
	struct units *units;	   /* const */
	char staging[STAGING_MAX]; /* const: ".ckptfs-" and 32 hex digits of a random id */
	/* const, referenced: the checkpoint that has this file; NULL: a unit by itself */
	struct checkpoint *checkpoint;
	struct caller owner; /* const: the user that began it */
	/* const, referenced: of a single-file unit, the process that began it; else NULL */
	struct process *maker;
	struct inode_id id;	 /* const: its inode */
	struct content *content; /* const, referenced */
	/* units lock */
	unsigned refs;
	struct list link; /* units->live.all; FAILED: units->litter; else alone */
	struct table_node found_by[LIVE_KEYS]; /* live.h */
	struct list sealed;		       /* units->live.sealed */
	struct list beside;		       /* checkpoint->files */
	enum generation_state state;	       /* generation_set_state */
	unsigned busy;			       /* of enum busy */
	struct target target;
	char *rel;    /* of a file of a checkpoint: its path in the checkpoint */
	int rank;     /* of a file of a checkpoint: the rank that began it; -1: unknown */
	bool pointer; /* const: journal_written.h */
	/* Of a pointer: the unit that it waits for, staging name and name; "": none. */
	char waits_for[STAGING_MAX], names[NAME_MAX + 1];
	struct pointer_said said;
	uint64_t reads;
	bool asks; /* of a pointer: its target is not resolved yet (see said.unknown) */
	struct process *writer;	  /* ... the process for which that is asked; referenced, or NULL */
	bool visible;		  /* the newest of its name */
	bool replaces;		  /* something had the name when this was opened ... */
	struct inode_id replaced; /* ... namely this inode */
	bool inherited, changed;  /* began as a copy; was written since */
	bool abandoned;		  /* never opened */
	bool ordinary;		  /* gets its name without digest and stamp: ordinary.h */
	struct list expected;	  /* opens to come (struct opener), counted in nr_handles */
	bool overtaken;		  /* a newer generation of its name was published */
	bool hurried;		  /* a caller waits: handles left open get no grace period */
	/* a program asked for durability: its next close waits for the publish */
	bool durable_calls;
	bool rankless;	      /* ... and the program's rank is not known */
	unsigned nr_handles;  /* handles open for writing */
	unsigned nr_changing; /* calls that change it right now; no publish begins meanwhile */
	/* Publishing fails since; is to be retried when; the pause. */
	uint64_t failing_ns, again_ns, pause_ns;
	bool flushed; /* a process that did not die has closed a descriptor of it */
	struct list writers;
	uint64_t touched_ns;	  /* monotonic, as the next ones: the last change */
	uint64_t short_ns;	  /* the last time that there was no room for it; 0: never */
	struct shortage shortage; /* of its publish */
	uint64_t opened_ns, closed_ns, flushed_ns, ended_ns; /* 0: not yet */
	char *path;					     /* when it ended, for people */
	uint64_t size;					     /* when it ended */
	int err;					     /* FAILED: -errno */
	char reason[MESSAGE_MAX];
};

#endif
