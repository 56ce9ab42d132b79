/* SPDX-License-Identifier: MIT */
/* The command: finds and runs the verb; and what all verbs share (cmd/cmd.h). One thread. */
#include <fcntl.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/ckptfs_abi.h"
#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/message.h"
#include "engine/base/spelling.h"
#include "fs/cmd/cmd.h"
#include "fs/indexer.h"

/* In the order in which a newcomer needs them. Only shells call `completion`. */
static const struct {
	const char *group;
	const struct verb *verb;
	const char *args; /* shorter than in the usage line */
} verbs[] = {
	{"Start", &verb_doctor, "[BACKING]"},
	{"", &verb_mount, "BACKING MOUNTPOINT"},
	{"", &verb_umount, "MOUNTPOINT"},
	{"", &verb_status, "[PATH]"},
	{"Look", &verb_ls, "PATH"},
	{"", &verb_latest, "DIR"},
	{"", &verb_why, "PATH"},
	{"", &verb_top, "[MOUNTPOINT]"},
	{"", &verb_verify, "PATH"},
	{"", &verb_tensors, "PATH"},
	{"", &verb_export, "UNIT DST"},
	{"Act", &verb_wait, "PATH"},
	{"", &verb_commit, "PATH"},
	{"", &verb_drain, "MOUNTPOINT"},
	{"Repair", &verb_fsck, "BACKING"},
	{"", &verb_init, "BACKING"},
	{"", &verb_version, ""},
};

/* Other words that people type for a verb. */
static const char *const aliases[][2] = {
	{"unmount", "umount"},
	{"list", "ls"},
	{"stat", "status"},
	{"check", "doctor"},
};

const struct verb *verb_at(size_t i)
{
	return i < ARRAY_SIZE(verbs) ? verbs[i].verb : NULL;
}

const struct verb *verb_find(const char *name)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(aliases); i++)
		if (!strcmp(aliases[i][0], name))
			name = aliases[i][1];
	for (i = 0; i < ARRAY_SIZE(verbs); i++)
		if (!strcmp(verbs[i].verb->name, name))
			return verbs[i].verb;
	return strcmp(verb_completion.name, name) ? NULL : &verb_completion;
}

/* @word if it is nearer to @name than *@least, which it then sets; else @nearest. */
static const char *nearer(const char *name, const char *word, const char *nearest, size_t *least)
{
	size_t d = spelling_distance(name, word);

	if (d >= *least)
		return nearest;
	*least = d;
	return word;
}

static int unknown_verb(const char *name)
{
	size_t least = spelling_limit(name) + 1, i;
	const char *nearest = NULL;

	for (i = 0; i < ARRAY_SIZE(verbs); i++)
		nearest = nearer(name, verbs[i].verb->name, nearest, &least);
	for (i = 0; i < ARRAY_SIZE(aliases); i++)
		nearest = nearer(name, aliases[i][0], nearest, &least);
	fprintf(stderr, "ckptfs: there is no verb '%s'", name);
	if (nearest)
		fprintf(stderr, "; did you mean '%s'?", verb_find(nearest)->name);
	fprintf(stderr, "%s `ckptfs --help` lists all verbs\n", nearest ? "" : ";");
	return EXIT_USAGE;
}

void complain(const char *text)
{
	fprintf(stderr, "ckptfs: %s\n", text);
}

static void print_usage(FILE *f, const struct verb *v)
{
	fprintf(f, "usage: ckptfs %s%s%s\n", v->name, *v->args ? " " : "", v->args);
}

int verb_help(const struct verb *v)
{
	print_usage(stdout, v);
	printf("\n%s.\n\n%s", v->summary, v->help);
	if (v->more)
		v->more();
	return EXIT_DONE;
}

int usage_error(const struct verb *v, const char *format, ...)
{
	va_list ap;

	fprintf(stderr, "ckptfs %s: ", v->name);
	va_start(ap, format);
	vfprintf(stderr, format, ap);
	va_end(ap);
	fputc('\n', stderr);
	print_usage(stderr, v);
	fprintf(stderr, "`ckptfs %s --help` tells more\n", v->name);
	return EXIT_USAGE;
}

/* The option of @v that is nearest to the unknown "--NAME", or NULL. */
static const char *nearest_option(const struct verb *v, const char *name)
{
	size_t least = spelling_limit(name) + 1;
	const char *nearest = NULL;
	const struct option *o;

	for (o = v->longs; o && o->name; o++)
		nearest = nearer(name, o->name, nearest, &least);
	return nearest;
}

int option_error(const struct verb *v, char **argv)
{
	const char *given = argv[optind - 1], *nearest;
	const struct option *o;
	char name[64];

	for (o = v->longs; o && o->name; o++)
		if (optopt && o->val == optopt)
			return usage_error(
				v, o->has_arg ? "--%s needs a value" : "--%s takes no value",
				o->name);
	if (optopt)
		return usage_error(v, "there is no option '-%c'", optopt);
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(given, "="), given);
	nearest = strlen(name) > 2 ? nearest_option(v, name + 2) : NULL;
	return usage_error(v, "there is no option '%s'%s%s%s", name,
			   nearest ? "; did you mean '--" : "", nearest ? nearest : "",
			   nearest ? "'?" : "");
}

const struct option help_or_json[] = {
	{"help", no_argument, NULL, 'h'}, {"json", no_argument, NULL, 'j'}, {NULL, 0, NULL, 0}};

bool take_help_or_json(const struct verb *v, int argc, char **argv, bool *json, int *status)
{
	int c;

	*json = false;
	while ((c = getopt_long(argc, argv, "h", help_or_json, NULL)) != -1) {
		if (c != 'j') {
			*status = c == 'h' ? verb_help(v) : option_error(v, argv);
			return false;
		}
		*json = true;
	}
	return true;
}

void put_json(const json_t *o)
{
	json_dumpf(o, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
	putchar('\n');
}

bool whole_seconds(const char *text, int *s)
{
	char *end;
	long n = strtol(text, &end, 10);

	if (!*text || *end || n < 0 || n > 1000000)
		return false;
	*s = (int)n;
	return true;
}

#define PATIENCE_NS (2 * NSEC_PER_SEC)

struct progress_line progress_line_start(bool quiet)
{
	uint64_t now = clock_mono_ns();

	return (struct progress_line){.start_ns = now, .shown_ns = now, .quiet = quiet};
}

void progress_line_show(struct progress_line *l, const char *format, ...)
{
	uint64_t now = clock_mono_ns();
	va_list ap;

	if (l->quiet || now - l->start_ns < PATIENCE_NS || now - l->shown_ns < NSEC_PER_SEC)
		return;
	if (l->shown && isatty(2))
		fputs("\r\033[K", stderr);
	va_start(ap, format);
	vfprintf(stderr, format, ap);
	va_end(ap);
	if (!isatty(2))
		fputc('\n', stderr);
	l->shown_ns = now;
	l->shown = true;
}

void progress_line_end(struct progress_line *l)
{
	if (l->shown && isatty(2))
		fputc('\n', stderr);
}

bool find_mount(const char *path, struct mount_entry *m)
{
	char resolved[PATH_MAX], text[MESSAGE_MAX];
	int err = mountinfo_resolve(path, resolved);

	if (!err && mountinfo_find_ckptfs(resolved, m))
		return true;
	if (!err && mountinfo_find_backing(resolved, m))
		MESSAGE(text, ON_BACKING, path, m->path);
	else
		MESSAGE(text, NOT_A_MOUNT, path);
	complain(text);
	return false;
}

static int print_overview(FILE *f)
{
	size_t i;

	fprintf(f, "ckptfs: atomic, non-blocking checkpoints on a parallel filesystem\n"
		   "usage: ckptfs VERB [OPTIONS] [ARGUMENTS]     more: ckptfs help VERB\n");
	for (i = 0; i < ARRAY_SIZE(verbs); i++) {
		char line[64];

		snprintf(line, sizeof(line), "%s %s", verbs[i].verb->name, verbs[i].args);
		fprintf(f, "  %-7s%-26s%s\n", verbs[i].group, line, verbs[i].verb->summary);
	}
	fprintf(f, "Examples: ckptfs doctor /pfs/ckpt && ckptfs mount /pfs/ckpt /ckpt\n"
		   "          ckptfs wait /ckpt/run/step-100.pt && echo safe\n"
		   "Exit status: 0 yes or done, 1 no or failed (stderr says why), 2 wrong usage\n");
	return EXIT_DONE;
}

static int help(const char *name)
{
	const struct verb *v = name ? verb_find(name) : NULL;

	if (v)
		return verb_help(v);
	if (!name)
		return print_overview(stdout);
	unknown_verb(name);
	print_overview(stderr);
	return EXIT_USAGE;
}

/*
 * Opens standard descriptors that the caller has closed, so that no file gets their numbers later.
 */
static void open_standard_fds(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

int main(int argc, char **argv)
{
	const struct verb *v;

	open_standard_fds();
	if (!strcmp(argv[0], INDEX_PROCESS))
		return indexer_child(argc, argv);
	opterr = 0; /* option_error reports it */
	if (argc < 2) {
		print_overview(stderr);
		return EXIT_USAGE;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help"))
		return help(argv[2]);
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
		puts("ckptfs " CKPTFS_VERSION);
		return EXIT_DONE;
	}
	if (argv[1][0] == '-') {
		fprintf(stderr,
			"ckptfs: the verb comes first: ckptfs VERB %s; `ckptfs --help` lists "
			"them\n",
			argv[1]);
		return EXIT_USAGE;
	}
	v = verb_find(argv[1]);
	return v ? v->run(v, argc - 1, argv + 1) : unknown_verb(argv[1]);
}
