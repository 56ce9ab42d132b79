/* SPDX-License-Identifier: MIT */
/* The verbs of the command `ckptfs`, and what they share. A verb runs once, in its own process. */
#ifndef FS_CMD_CMD_H
#define FS_CMD_CMD_H

#include <getopt.h>
#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "fs/mountinfo.h"

/* Exit statuses of every verb. */
enum {
	EXIT_DONE = 0,
	EXIT_NO = 1,
	EXIT_USAGE = 2,
	EXIT_UNKNOWN = 3 /* latest: not everything could be looked at */
};

struct verb {
	const char *name;
	const char *args;	    /* for the usage line */
	const char *summary;	    /* one line */
	const char *help;	    /* what --help prints below the usage line */
	void (*more)(void);	    /* NULL, or prints what --help has below that */
	const struct option *longs; /* its options, each with a long name, for getopt_long */
	/* argv[0] is the verb. Returns the exit status. */
	int (*run)(const struct verb *v, int argc, char **argv);
};

extern const struct verb verb_mount, verb_umount, verb_init, verb_status, verb_version, verb_verify,
	verb_wait, verb_why, verb_top, verb_doctor, verb_fsck, verb_ls, verb_latest, verb_commit,
	verb_drain, verb_completion, verb_tensors, verb_export;

/* Prints "ckptfs: TEXT" on stderr. */
void complain(const char *text);

/* Says what is wrong with the command line, and how to use @v. Returns EXIT_USAGE. */
int usage_error(const struct verb *v, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * Names the option that getopt_long answered with '?', and what is wrong with it. The verb keeps
 * `opterr` at 0. Returns EXIT_USAGE.
 */
int option_error(const struct verb *v, char **argv);

/*
 * For verbs with --help and --json alone: their options, and what reads them. False: the verb ends
 * now, with *@status.
 */
extern const struct option help_or_json[];
bool take_help_or_json(const struct verb *v, int argc, char **argv, bool *json, int *status);

/* Prints @o on stdout, for machines. */
void put_json(const json_t *o);

/* The verb of that name or alias; NULL: none. */
const struct verb *verb_find(const char *name);

/* The @i-th verb, in the order of the overview; NULL behind the last. */
const struct verb *verb_at(size_t i);

/* Prints the help of @v on stdout. Returns EXIT_DONE. */
int verb_help(const struct verb *v);

/* True if @text is whole seconds, as --timeout takes them; sets @s. */
bool whole_seconds(const char *text, int *s);

/*
 * Progress of something slow: on stderr after two seconds, and then each second; on a terminal
 * always on the same line. @quiet: never.
 */
struct progress_line {
	uint64_t start_ns, shown_ns;
	bool quiet, shown;
};
struct progress_line progress_line_start(bool quiet);
void progress_line_show(struct progress_line *l, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void progress_line_end(struct progress_line *l);

/*
 * Lists the mounts of this host, with the state of each: a line each, or with @json an object.
 * Complains if there is none. Returns the exit status: EXIT_DONE if there is one and all daemons
 * answer.
 */
int list_mounts(bool json);

/* True if this host has exactly one mount, which @m becomes. */
bool find_only_mount(struct mount_entry *m);

/* Prints an answer of place_ask for people. */
void print_file(const json_t *file);

/* The ckptfs mount that contains @path. False: there is none, which it complains of. */
bool find_mount(const char *path, struct mount_entry *m);

/* A path that a verb was given. It need not exist. */
struct given_path {
	struct mount_entry mount; /* that contains it, or whose backing contains it */
	bool mounted;		  /* @mount is set */
	bool on_backing;	  /* it is below the backing, not below the mount point */
	char path[PATH_MAX];	  /* absolute */
	char below[2 * PATH_MAX]; /* below the backing, without slashes in front */
};

/* 0, or -EINVAL with @e filled: @path is neither in a mount nor in a backing. */
struct error;
int place_find(struct given_path *p, const char *path, struct error *e);

/*
 * Asks the daemon about @p, or looks at the backing if there is no daemon: see fs/control_file.h.
 * @generation: about that one; may be NULL. 0 and the answer, or -errno with @e filled.
 */
int place_ask(const struct given_path *p, const char *generation, json_t **answer, struct error *e);

/*
 * Complains of @text; with @json also prints {"ok": false, "error": {"code", "message"}} on stdout.
 * Returns EXIT_NO.
 */
int fail_verb(bool json, int err, const char *text);

/* {"code", "message"}: the name of the errno, and @text. */
json_t *error_to_json(int err, const char *text);

#endif
