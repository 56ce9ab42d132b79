/* SPDX-License-Identifier: MIT */
/* The verbs of the command `ckptfs`. */
#ifndef FS_CMD_CMD_H
#define FS_CMD_CMD_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "fs/mountinfo.h"

/* Exit statuses of every verb. */
enum { EXIT_DONE = 0, EXIT_NO = 1, EXIT_USAGE = 2 };

struct verb {
	const char *name;
	const char *args;    /* for the usage line */
	const char *summary; /* one line */
	const char *help;    /* what --help prints below the usage line */
	/* argv[0] is the verb. Returns the exit status. */
	int (*run)(const struct verb *v, int argc, char **argv);
};

extern const struct verb verb_mount, verb_umount, verb_init, verb_status, verb_version, verb_verify,
	verb_wait, verb_why, verb_top, verb_doctor, verb_fsck, verb_ls, verb_latest, verb_commit,
	verb_drain;

/* Prints "ckptfs: TEXT" on stderr. */
void complain(const char *text);

/* Prints what is wrong with the command line and how to use @v. Returns EXIT_USAGE. */
int usage_error(const struct verb *v, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Prints the help of @v on stdout. Returns EXIT_DONE. */
int verb_help(const struct verb *v);

/* Is @text whole seconds, as --timeout takes them? */
bool whole_seconds(const char *text, int *s);

/*
 * How far something is that takes a while: said on stderr after two seconds, and then each second; on a terminal always
 * on the same line. @quiet: never.
 */
struct progress_line {
	uint64_t start_ns, shown_ns;
	bool quiet, shown;
};
struct progress_line progress_line_start(bool quiet);
void progress_line_show(struct progress_line *l, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void progress_line_end(struct progress_line *l);

/* What ask_file answered, for people. */
void print_file(const json_t *file);

/* The ckptfs mount that @path lies in; complains if there is none. */
bool find_mount(const char *path, struct mount_entry *m);

/*
 * What the daemon of @m says of @path (any path in the mount, existing or not): see
 * fs/control_file.h. @generation: of that one, or NULL. 0 and the answer, or -errno with @e filled.
 */
struct error;
int ask_file(const struct mount_entry *m, const char *path, const char *generation, json_t **answer,
	     struct error *e);

#endif
