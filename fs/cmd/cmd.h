/* SPDX-License-Identifier: MIT */
/* The verbs of the command `ckptfs`. */
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
	EXIT_UNKNOWN = 3 /* latest: not all could be looked at */
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
	verb_drain, verb_completion;

/* Prints "ckptfs: TEXT" on stderr. */
void complain(const char *text);

/* Prints what is wrong with the command line and how to use @v. Returns EXIT_USAGE. */
int usage_error(const struct verb *v, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * What getopt_long has answered '?' to, for which `opterr` is 0: names the option and what is wrong
 * with it. Returns EXIT_USAGE.
 */
int option_error(const struct verb *v, char **argv);

/* The verb of that name, or alias, or NULL. */
const struct verb *verb_find(const char *name);

/* The @i-th verb, in the order of the overview; NULL behind the last. */
const struct verb *verb_at(size_t i);

/* Prints the help of @v on stdout. Returns EXIT_DONE. */
int verb_help(const struct verb *v);

/* Is @text whole seconds, as --timeout takes them? */
bool whole_seconds(const char *text, int *s);

/*
 * How far something is that takes a while: said on stderr after two seconds, and then each second;
 * on a terminal always on the same line. @quiet: never.
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
 * The mounts of this host, each asked for its state: a line each, or with @json an object.
 * Complains if there is none. Returns the exit status: EXIT_DONE if there is one and all their
 * daemons answer.
 */
int list_mounts(bool json);

/* True, and @m, if this host has exactly one mount. */
bool find_only_mount(struct mount_entry *m);

/* What ask_file answered, for people. */
void print_file(const json_t *file);

/* The ckptfs mount that @path lies in; complains if there is none. */
bool find_mount(const char *path, struct mount_entry *m);

/* A path that a verb was given, existing or not. */
struct given_path {
	struct mount_entry mount; /* that it lies in, or of the backing that it lies in */
	bool mounted;		  /* there is one */
	bool on_backing;	  /* @path is not below the mount point, but below the backing */
	char path[PATH_MAX];	  /* absolute */
	char below[2 * PATH_MAX]; /* below the backing, without slashes in front */
};

/* 0; or -EINVAL with @e filled: @path is neither in a mount nor in a backing. */
struct error;
int place_find(struct given_path *p, const char *path, struct error *e);

/*
 * What the daemon says of it, or, where there is none, its backing: see fs/control_file.h.
 * @generation: of that one, or NULL. 0 and the answer, or -errno with @e filled.
 */
int place_ask(const struct given_path *p, const char *generation, json_t **answer, struct error *e);

/*
 * Complains of @text, with @json also as {"ok": false, "error": {"code", "message"}} on stdout.
 * Returns EXIT_NO.
 */
int fail_verb(bool json, int err, const char *text);

/* That {"code", "message"}: the name of the errno, and @text. */
json_t *error_to_json(int err, const char *text);

#endif
