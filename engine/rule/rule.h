/* SPDX-License-Identifier: MIT */
/*
 * Which paths are units, and what evidence shows that a unit is done.
 *
 * A rule is data: built-in rules (presets.c) and those of the config file have one form, described
 * in ckptfs-rules(5). The caller knows the facts about a unit. This module only says which facts a
 * rule asks for, whether an operation is one of them, and how to describe missing ones. No I/O, no
 * locks; rules are constant once created, so any thread may use them.
 *
 * Rules are tried in order, the config file's first. The outermost directory wins because the
 * caller asks from the top down.
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
#define RULE_EVIDENCE_MAX     64 /* in one rule, without duplicates */
#define RULE_WORDS_MAX	      2048

enum rule_kind { RULE_DIR, RULE_FILE };

enum evidence_kind {
	EVIDENCE_CLOSE, /* the first three: an operation on a name; a rename by its new name */
	EVIDENCE_RENAME,
	EVIDENCE_UNLINK,
	/*
	 * A closed file of every rank. {rank} in the pattern gives the rank of a file; without
	 * {rank} it is the writer's.
	 */
	EVIDENCE_EVERY_RANK,
	EVIDENCE_FILE, /* a file that matches the pattern exists */
	EVIDENCE_ALL_CLOSED,
	EVIDENCE_NEXT_SIBLING,
	EVIDENCE_EXITED_0,
	EVIDENCE_QUIET,
	EVIDENCE_LONE, /* all writers have no rank, or are a world of one */
	EVIDENCE_ASKED,
	NR_EVIDENCE_KINDS
};

/*
 * @pattern, as of fnmatch(3) with FNM_PATHNAME, is relative to the unit: "." is the unit itself,
 * "../x" lies beside it, {name} is its name. NULL: the kind has no pattern. The close of a pointer
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
	uint64_t alternatives[RULE_ALTERNATIVES_MAX]; /* bit i: requires evidence[i] */
	/*
	 * Bit i: the framework reaches alternatives[i] only after all ranks are done with the
	 * checkpoint. It belongs to an alternative, since a framework may end some saves behind a
	 * barrier and others not. The evidence does not show it; the rule's author knows the
	 * framework.
	 */
	unsigned after_all;
};

struct rules;

/*
 * Makes the rules in @own (a list, or NULL), followed by the built-in ones. A rule in @own replaces
 * a built-in one of the same name. @where, the config file, is for messages. Returns 0 or -errno
 * with @e filled.
 */
int rules_create(struct rules **out, const json_t *own, const char *where, struct error *e);
void rules_destroy(struct rules *rs);

/*
 * The first rule of the config file behind @before (NULL: of all) by which the death of a rank
 * before the end always fails a directory: no alternative is after_all or asks for a file of every
 * rank. NULL: no more.
 */
const struct rule *rules_next_bare(const struct rules *rs, const struct rule *before);

/* A digest of the whole set of rules: 32 hexadecimal digits. */
void rules_digest(const struct rules *rs, char hex[33]);

/* The rule of this name, or NULL. */
const struct rule *rules_find(const struct rules *rs, const char *name);

/* --- which paths are units; each @path is relative to the backing, without a leading slash --- */

/* A rule for directories named like @path (or temp names), or NULL. Its files may not match. */
const struct rule *rules_suggest(const struct rules *rs, const char *path);

/*
 * The rule that claims the directory @path, whose first file is @file (relative to @path, at any
 * depth); NULL: an ordinary directory. @beside is called last, and is true if a name exists beside
 * it.
 */
const struct rule *rules_claim(const struct rules *rs, const char *path, const char *file,
			       bool (*beside)(void *arg, const char *name), void *arg);

/* The rule by which the file @path is a unit by itself, or a temp name of one; or NULL. */
const struct rule *rules_single(const struct rules *rs, const char *path);

/* True if @temp is the temporary name of a copy of @name, as of rsync: ".NAME.XXXXXX" (one dot). */
bool rules_is_copy(const char *temp, const char *name);

/* True if @file is a file of the unit that every save writes, and little else does. */
bool rule_is_data(const struct rule *r, const char *file);

/* True if the rule's units never commit under @name, a last component. */
bool rule_is_temp(const struct rule *r, const char *name);

/* --- pointers --- */

/* True if a file of this name may be a pointer. rules_pointer_names checks its content. */
bool rules_is_pointer(const struct rules *rs, const char *name);

/* The unit beside the pointer file @name that the file's content names. False: it names none. */
bool rules_pointer_names(const struct rules *rs, const char *name, const char *content, size_t len,
			 char out[NAME_MAX + 1]);

/* The same for a symbolic link; any link may be a pointer. */
bool rules_link_names(const char *target, char out[NAME_MAX + 1]);

/* --- when they are done --- */

/*
 * True if @path (relative to the unit @unit_name: "a/b", ".", "../x") matches the pattern of @ev.
 * @rank, if not NULL, gets the rank that {rank} stands for, or -1.
 */
bool evidence_matches(const struct evidence *ev, const char *unit_name, const char *path,
		      int *rank);

/* The pieces of r->evidence that a close, rename or unlink matches; bit i: evidence[i]. */
uint64_t rule_seen(const struct rule *r, enum evidence_kind operation, const char *unit_name,
		   const char *path);

/*
 * True if a piece of r->evidence holds. For EVERY_RANK only: whether the files exist. The functions
 * below add that they prove nothing in a world of one before all is closed and quiet.
 */
typedef bool (*evidence_holds)(void *arg, const struct evidence *ev);

/* The first alternative whose evidence holds in full, or -1. */
int rule_ended(const struct rule *r, evidence_holds holds, void *arg);

/* True if @rank has closed a file of @ev, which is EVIDENCE_EVERY_RANK. */
typedef bool (*rank_has_file)(void *arg, const struct evidence *ev, int rank);

/*
 * True if @rank, which died, had done its part of a checkpoint that ended by @alternative: that is
 * after_all, or asks for files of every rank, and @has finds those of @rank. A @rank of -1, of a
 * process whose rank is unknown, has no file of its own.
 */
bool rule_covers(const struct rule *r, int alternative, int rank, rank_has_file has, void *arg);

/*
 * What a unit whose end was not seen waits for. An alternative begins with the first of its
 * operations; one without operations begins with the first of its files. @begun: as @holds, but for
 * EVERY_RANK true if the file of any rank exists.
 */
enum rule_wait {
	RULE_WAITS,	     /* no alternative has begun: the end may be far */
	RULE_WAITS_FOR_TIME, /* an alternative lacks nothing but quiet */
	/* one lacks only what the job does as it goes on or ends, which may take long */
	RULE_WAITS_FOR_JOB,
	RULE_WAITS_FOR_PARTS, /* each lacks a part of this save */
};
enum rule_wait rule_waits(const struct rule *r, evidence_holds holds, evidence_holds begun,
			  void *arg);

/* For the commit file, such as "close ../latest + next sibling". */
void rule_evidence(const struct rule *r, int alternative, char *buf, size_t size);

/* The missing evidence, for people; the alternative nearest to its end comes first. "": none. */
void rule_missing(const struct rule *r, evidence_holds holds, void *arg, char *buf, size_t size);

#endif
