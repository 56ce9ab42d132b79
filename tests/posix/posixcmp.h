/* SPDX-License-Identifier: MIT */
/*
 * posixcmp - run a table of system calls against two directories, compare.
 *
 * A case is a small script (README.md teaches the language). Every line of a
 * script is done by a process that has the credentials of one user, in a fresh
 * directory, and gives a line of text: what the call returned and what can be
 * seen of it. A case is passed when the text is the same in both directories.
 *
 * main.c    command line                  run.c      one case on both sides
 * actor.c   the processes of the users    step.c     the script language
 * verbs_*.c the words of the language     cases_*.c  the tables
 * known.c   differences that are intended
 */
#ifndef POSIXCMP_H
#define POSIXCMP_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>

#define NR_SLOTS  10
#define REPLY_MAX 16384
#define STEP_MAX  4096

#define ARRAY_SIZE(a)	  (sizeof(a) / sizeof((a)[0]))
#define PRINTF_LIKE(f, a) __attribute__((format(printf, f, a)))

/* ---- tables ---- */

/*
 * @who: the users the case is run as, each a case of its own: r root,
 *	 1 user1, 2 user2, g user1 with the supplementary group 1003
 */
struct posix_case {
	const char *name;
	const char *who;
	const char *script;
};

/* A case for one user, ready to run. Both strings belong to it. */
struct job {
	char *name;
	char *script;
	char who;
};

struct job_list {
	struct job *jobs;
	size_t nr, cap;
};

extern const struct posix_case name_cases[], file_cases[], attr_cases[];
extern const struct posix_case time_cases[], proc_cases[], perm_cases[];

/* Adds @name for every user of @who. */
void jobs_add(struct job_list *l, const char *name, const char *who, const char *script);
/* Adds the combinations that are made by program, not written by hand. */
void jobs_add_matrices(struct job_list *l);

/* Why this difference is intended, or NULL. @a: what directory A gave; @without: run_options. */
const char *known_reason(const char *name, const char *step, const char *a, const char *without);

/* ---- the script language, inside an actor ---- */

struct mapping {
	char *addr;
	size_t len;
};

struct ctx {
	int fd[NR_SLOTS];
	DIR *dir[NR_SLOTS];
	struct mapping map[NR_SLOTS];
	struct statx mark; /* what "changed" compares with */
	bool failed;	   /* the step's call gave an error */
	bool bad;	   /* the step itself is written wrongly */
	char out[REPLY_MAX];
	size_t len;
};

/*
 * @args: names of the arguments, the optional ones in brackets; gives the
 *	  permitted number of them too
 * @run:  does the step with its arguments @w (NULL after the last) and says
 *	  what came of it
 */
struct verb {
	const char *name;
	const char *args;
	const char *help;
	void (*run)(struct ctx *c, char **w);
};

extern const struct verb name_verbs[], file_verbs[], attr_verbs[];
extern const struct verb dir_verbs[], proc_verbs[];

void ctx_init(struct ctx *c);
/* Does one step without its "+" and user. The answer is in c->out. */
void step_run(struct ctx *c, const char *step);
void verbs_print_help(void);

void say(struct ctx *c, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* -1 is said as the name of errno, anything else as the number. */
void say_ret(struct ctx *c, long ret);
/* Bytes as they are, others escaped; long ones as length and checksum. */
void say_bytes(struct ctx *c, const void *p, size_t len);
void say_stat(struct ctx *c, const struct stat *st);
const char *errno_name(int err);

struct flag {
	const char *name;
	unsigned long value;
};

/* "A|B|0x10" by a table that ends with a NULL name. NULL text is 0. */
unsigned long arg_flags(struct ctx *c, const struct flag *t, const char *w);
long long arg_num(struct ctx *c, const char *w); /* 5, -1, 4k, 3G */
mode_t arg_mode(struct ctx *c, const char *w);	 /* octal */
int arg_slot(struct ctx *c, const char *w);	 /* 0..9 */
int arg_fd(struct ctx *c, const char *w);	 /* slot's fd or -1 */
void slot_set(struct ctx *c, int slot, int fd);	 /* closes the old */

extern const struct flag open_flags[], at_flags[];

/* ---- actors ---- */

struct cred {
	char key; /* as in posix_case.who */
	const char *name;
	uid_t uid;
	gid_t gid;
	int nr_groups;
	gid_t groups[1];
	bool keep; /* stay who we are */
};

struct actor {
	pid_t pid; /* 0: not started */
	int sock;
};

enum reply {
	REPLY_OK,     /* the call succeeded */
	REPLY_FAILED, /* it gave an error */
	REPLY_BAD,    /* the step is written wrongly */
	REPLY_DIED,   /* the process was killed by it */
	REPLY_HUNG,   /* no answer; the process has been killed */
};

/* Starts a process with these credentials in @dir. 0 or -errno. */
int actor_start(struct actor *a, const struct cred *cr, const char *dir);
/* Has it do @step; @text gets what it said, REPLY_MAX bytes. */
enum reply actor_ask(struct actor *a, const char *step, char *text);
void actor_stop(struct actor *a);

/* ---- running ---- */

struct run_options {
	const char *dir_a, *dir_b;
	const char *without; /* what A was told to do without, separated by commas */
	bool verbose;	     /* print every step of every case */
	bool own_user;	     /* not root: only what one user can do */
};

struct run_counts {
	unsigned int same, different, known, hung, broken, not_applicable;
};

/* 0 or -errno with a message: no working directory could be made. */
int run_begin(const struct run_options *o);
void run_job(const struct job *j, struct run_counts *n);
void run_end(void);

#endif
