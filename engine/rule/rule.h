/* SPDX-License-Identifier: MIT */
/*
 * Which paths are units, and what shows that one is done (DESIGN 3).
 *
 * A rule is data: the built-in ones (presets.c) and those of the config file have one form, which
 * ckptfs-rules(5) describes. What is true of a unit the caller knows; this only says which facts
 * a rule asks for, whether an operation is one of them, and how to call what is missing. No I/O,
 * no locks; constant once created, so any thread may ask.
 *
 * Rules are tried in their order, own ones first. The outermost directory wins because the caller
 * asks from the top down.
 */
#ifndef ENGINE_RULE_RULE_H
#define ENGINE_RULE_RULE_H

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/message.h"

#define RULES_MAX	      64 /* in the config file */
#define RULE_ALTERNATIVES_MAX 16
#define RULE_EVIDENCE_MAX     64 /* in one rule, each piece once */
#define RULE_WORDS_MAX	      2048

enum rule_kind { RULE_DIR, RULE_FILE };

enum evidence_kind {
	EVIDENCE_CLOSE, /* these three: an operation on a name; a rename by its new name */
	EVIDENCE_RENAME,
	EVIDENCE_UNLINK,
	/*
	 * A file of every rank, closed. With {rank} in the pattern the name tells whose it is, else
	 * the rank that wrote it.
	 */
	EVIDENCE_EVERY_RANK,
	EVIDENCE_FILE, /* a file matching the pattern is there */
	EVIDENCE_ALL_CLOSED,
	EVIDENCE_NEXT_SIBLING,
	EVIDENCE_EXITED_0,
	EVIDENCE_QUIET,
	EVIDENCE_LONE, /* written by processes without a rank, or in a world of one */
	EVIDENCE_ASKED,
	NR_EVIDENCE_KINDS
};

/*
 * @pattern, as of fnmatch(3) with FNM_PATHNAME, is relative to the unit: "." is the unit itself,
 * "../x" lies beside it, {name} is its name; NULL where the kind has none. The close of a pointer
 * file is evidence only for the unit that its content names: rules_pointer_names.
 */
struct evidence {
	enum evidence_kind kind;
	const char *pattern;
};

struct rule {
	const char *name;
	enum rule_kind kind;
	const json_t *match, *files, *data, *beside, *temp, *pointers; /* checked lists, or NULL */
	unsigned nr_evidence, nr_alternatives;
	struct evidence evidence[RULE_EVIDENCE_MAX];
	uint64_t alternatives[RULE_ALTERNATIVES_MAX]; /* bit i: wants evidence[i] */
	/*
	 * Bit i: the framework brings about alternatives[i] only after all ranks are done with the
	 * checkpoint. It belongs to an alternative, since one framework ends some saves behind a
	 * barrier and others not. The evidence does not show it: the rule's author knows it of the
	 * framework.
	 */
	unsigned after_all;
};

struct rules;

/*
 * The rules in @own (a list, or NULL), then the built-in ones; one in @own that has the name of a
 * built-in one takes its place. @where, the config file, is for messages. Returns 0 or -errno with
 * @e filled.
 */
int rules_create(struct rules **out, const json_t *own, const char *where, struct error *e);
void rules_destroy(struct rules *rs);

/*
 * The next rule of the config file behind @before (NULL: the first) by which a rank that dies
 * before the end of a directory is seen always fails it: no alternative is after_all or asks for a
 * file of every rank. NULL: no more.
 */
const struct rule *rules_next_bare(const struct rules *rs, const struct rule *before);

/* What tells one set of rules from another: 32 hexadecimal digits. */
void rules_digest(const struct rules *rs, char hex[33]);

/* The rule of this name, or NULL. */
const struct rule *rules_find(const struct rules *rs, const char *name);

/* --- which paths are units; all @path are below the backing, without a leading slash --- */

/* A rule that names directories like @path, or NULL; also of a temp name. Its files may say no. */
const struct rule *rules_suggest(const struct rules *rs, const char *path);

/*
 * The rule that claims the directory @path, whose first file is @file (relative to it, also deep in
 * it); NULL: an ordinary directory. @beside says whether a name exists beside it; it is asked last.
 */
const struct rule *rules_claim(const struct rules *rs, const char *path, const char *file,
			       bool (*beside)(void *arg, const char *name), void *arg);

/* The rule by which the file @path is a unit by itself, or a temp name of one; or NULL. */
const struct rule *rules_single(const struct rules *rs, const char *path);

/*
 * Is @temp what a copy called @name is called until it is whole, as rsync does: ".NAME.XXXXXX", one
 * dot in front?
 */
bool rules_is_copy(const char *temp, const char *name);

/* Is the file @file of the unit one of those that every save writes, and little else does? */
bool rule_is_data(const struct rule *r, const char *file);

/* Is @name, a last component, one under which the rule's units never commit? */
bool rule_is_temp(const struct rule *r, const char *name);

/* --- pointers --- */

/*
 * May a file of this name be a pointer? rules_pointer_names says whether its content makes it one.
 */
bool rules_is_pointer(const struct rules *rs, const char *name);

/*
 * The unit beside it that a pointer file of this name and content names. False: none can be said.
 */
bool rules_pointer_names(const struct rules *rs, const char *name, const char *content, size_t len,
			 char out[NAME_MAX + 1]);

/* The same for a symbolic link; any may be a pointer. */
bool rules_link_names(const char *target, char out[NAME_MAX + 1]);

/* --- when they are done --- */

/*
 * Does @path (relative to the unit @unit_name: "a/b", ".", "../x") fit the pattern of @ev? @rank,
 * where not NULL, gets the rank that {rank} stands for, or -1.
 */
bool evidence_matches(const struct evidence *ev, const char *unit_name, const char *path,
		      int *rank);

/* For operations (close, rename, unlink): which of r->evidence this one is; bit i: evidence[i]. */
uint64_t rule_seen(const struct rule *r, enum evidence_kind operation, const char *unit_name,
		   const char *path);

/*
 * Judges one piece of r->evidence. Of EVERY_RANK only whether the files are there: that this proves
 * nothing in a world of one before all is closed and quiet is added here.
 */
typedef bool (*evidence_holds)(void *arg, const struct evidence *ev);

/* The first alternative all of whose evidence holds, or -1. */
int rule_ended(const struct rule *r, evidence_holds holds, void *arg);

/* True if @rank has closed a file of @ev, which is EVIDENCE_EVERY_RANK. */
typedef bool (*rank_has_file)(void *arg, const struct evidence *ev, int rank);

/*
 * True if @rank had done its part of a checkpoint that has ended by @alternative, though it died:
 * the alternative is after_all, or asks for files of every rank, and @has says that those of @rank
 * are there. A @rank of -1 is a process whose rank is not known: it has no file of its own.
 */
bool rule_covers(const struct rule *r, int alternative, int rank, rank_has_file has, void *arg);

/*
 * What does a unit wait for whose end was not seen? An alternative begins with the first of its
 * operations; one that wants none with the first of its files. @begun: as @holds, but of
 * EVERY_RANK: is the file of any rank there?
 */
enum rule_wait {
	RULE_WAITS,	     /* none has begun: nothing says that the end is near */
	RULE_WAITS_FOR_TIME, /* of one nothing is missing but quiet */
	/* ... but what the job brings as it goes on or ends: it may take long */
	RULE_WAITS_FOR_JOB,
	RULE_WAITS_FOR_PARTS, /* of each a part of this save is missing */
};
enum rule_wait rule_waits(const struct rule *r, evidence_holds holds, evidence_holds begun,
			  void *arg);

/* "close ../latest + next sibling": for the commit file. */
void rule_evidence(const struct rule *r, int alternative, char *buf, size_t size);

/*
 * What is still missing, for people; the alternative that is nearest to its end first. "": nothing.
 */
void rule_missing(const struct rule *r, evidence_holds holds, void *arg, char *buf, size_t size);

#endif
