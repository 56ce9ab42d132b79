// SPDX-License-Identifier: MIT
/* posixcmp: command line and choice of the cases. */
#include "posixcmp.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_HUNG 3

static const char help_text[] =
	"usage: posixcmp [OPTIONS] A B\n"
	"\n"
	"Runs a table of POSIX and Linux calls in directory A, a mount under test, and\n"
	"in B, a plain directory on a local filesystem, and compares what every call\n"
	"returned and what it left. Prints the differences only; exit status 1 if there\n"
	"is one that is not intended, 2 if it could not run.\n"
	"\n"
	"  --as root|users|all  as whom (all): root, or the users with uid 1001 and\n"
	"                       1002. Needs root; others run the cases of one user.\n"
	"  --case SUBSTRING     only cases whose name has it, e.g. rename/ or /user2\n"
	"  --part K/N           only each N-th of the cases, from the K-th on\n"
	"  --without LIST       features that the mount was told to do without, separated by\n"
	"                       commas: where it refuses what needs xattr or rename_flags,\n"
	"                       as it should then, that is intended\n"
	"  --list               print the names of the cases\n"
	"  --show               print the script of the cases\n"
	"  --big                also cases that read gigabytes (of zeros)\n"
	"  -v, --verbose        print every step and its answer\n"
	"  --verbs              explain the words of the scripts\n"
	"\n"
	"Both directories should be of the same kind of filesystem: best, the directory\n"
	"that the mount shows and a sibling of it. All users must be able to reach both.\n"
	"\n"
	"  posixcmp --case sticky -v /mnt/ckpt /data/plain\n";

static const struct posix_case *const tables[] = {
	name_cases, file_cases, attr_cases, time_cases, proc_cases, perm_cases,
};

static const char *user_suffix(char who)
{
	switch (who) {
	case 'r':
		return "root";
	case '1':
		return "user1";
	case '2':
		return "user2";
	case 'g':
		return "user1-in-group3";
	default:
		abort();
	}
}

void jobs_add(struct job_list *l, const char *name, const char *who, const char *script)
{
	for (; *who; who++) {
		struct job *j;

		if (l->nr == l->cap) {
			l->cap = l->cap ? 2 * l->cap : 1024;
			l->jobs = realloc(l->jobs, l->cap * sizeof(*j));
			if (!l->jobs)
				abort();
		}
		j = &l->jobs[l->nr++];
		j->who = *who;
		j->script = strdup(script);
		if (asprintf(&j->name, "%s/%s", name, user_suffix(*who)) < 0)
			abort();
	}
}

struct choice {
	const char *as;
	const char *name;
	unsigned part, parts; /* 0: all */
	bool big;
	bool list, show;
};

static bool chosen(const struct choice *ch, const struct job *j)
{
	if (!strncmp(j->name, "big/", 4) && !ch->big)
		return false;
	if (!strcmp(ch->as, "root") && j->who != 'r')
		return false;
	if (!strcmp(ch->as, "users") && j->who == 'r')
		return false;
	return !ch->name || strstr(j->name, ch->name);
}

/* @nr: that many cases were chosen before it. */
static bool in_part(const struct choice *ch, size_t nr)
{
	return !ch->parts || nr % ch->parts == ch->part % ch->parts;
}

/* Keeps the chosen ones. */
static void jobs_choose(struct job_list *l, const struct choice *ch)
{
	size_t i, n = 0, nr_chosen = 0;

	for (i = 0; i < l->nr; i++) {
		if (chosen(ch, &l->jobs[i]) && in_part(ch, nr_chosen++)) {
			l->jobs[n++] = l->jobs[i];
		} else {
			free(l->jobs[i].name);
			free(l->jobs[i].script);
		}
	}
	l->nr = n;
}

static void jobs_build(struct job_list *l)
{
	const struct posix_case *k;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(tables); i++)
		for (k = tables[i]; k->name; k++)
			jobs_add(l, k->name, k->who, k->script);
	jobs_add_matrices(l);
}

static void jobs_print(const struct job_list *l, bool script)
{
	size_t i;

	for (i = 0; i < l->nr; i++) {
		printf("%s\n", l->jobs[i].name);
		if (script)
			printf("    %s\n", l->jobs[i].script);
	}
}

static volatile sig_atomic_t interrupted;

static void on_signal(int sig)
{
	interrupted = sig;
}

/* So that what was made in A and B is removed on the way out. */
static void signals_catch(void)
{
	struct sigaction sa = {.sa_handler = on_signal, .sa_flags = SA_RESTART};

	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGHUP, &sa, NULL);
	signal(SIGPIPE, SIG_IGN);
}

static void counts_print(const struct run_counts *p)
{
	struct run_counts n = *p;

	printf("%u cases the same, %u different, %u intended differences, "
	       "%u hung",
	       n.same, n.different, n.known, n.hung);
	if (n.not_applicable)
		printf(", %u not compared", n.not_applicable);
	if (n.broken)
		printf(", %u broken", n.broken);
	printf("\n");
}

static int jobs_run(const struct job_list *l, const struct run_options *o)
{
	struct run_counts n = {0};
	size_t i;

	if (run_begin(o)) {
		run_end();
		return 2;
	}
	for (i = 0; i < l->nr && n.hung < MAX_HUNG && !interrupted && !ferror(stdout); i++)
		run_job(&l->jobs[i], &n);
	run_end();
	if (i < l->nr)
		printf("%s, the other %zu were not run\n",
		       interrupted ? "interrupted" : "too many cases hung", l->nr - i);
	counts_print(&n);
	if (interrupted || ferror(stdout))
		return 2;
	if (!n.same && !n.known && !n.different && !n.hung) {
		printf("nothing was compared\n");
		return 2;
	}
	return n.different || n.hung || n.broken;
}

static void options_parse(int argc, char **argv, struct choice *ch, struct run_options *o)
{
	static const struct option longs[] = {
		{"as", required_argument, NULL, 'a'},
		{"case", required_argument, NULL, 'c'},
		{"without", required_argument, NULL, 'w'},
		{"list", no_argument, NULL, 'l'},
		{"show", no_argument, NULL, 's'},
		{"big", no_argument, NULL, 'b'},
		{"verbose", no_argument, NULL, 'v'},
		{"verbs", no_argument, NULL, 'V'},
		{"part", required_argument, NULL, 'p'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	int opt;

	while ((opt = getopt_long(argc, argv, "vh", longs, NULL)) != -1) {
		switch (opt) {
		case 'a':
			ch->as = optarg;
			break;
		case 'c':
			ch->name = optarg;
			break;
		case 'p':
			if (sscanf(optarg, "%u/%u", &ch->part, &ch->parts) != 2 || !ch->parts) {
				fprintf(stderr, "posixcmp: --part %s: K/N, as 1/8\n", optarg);
				exit(2);
			}
			break;
		case 'w':
			o->without = optarg;
			break;
		case 'l':
			ch->list = true;
			break;
		case 's':
			ch->list = ch->show = true;
			break;
		case 'b':
			ch->big = true;
			break;
		case 'v':
			o->verbose = true;
			break;
		case 'V':
			verbs_print_help();
			exit(0);
		case 'h':
			fputs(help_text, stdout);
			exit(0);
		default:
			exit(2);
		}
	}
	if (strcmp(ch->as, "root") && strcmp(ch->as, "users") && strcmp(ch->as, "all")) {
		fprintf(stderr, "posixcmp: --as %s: root, users or all\n", ch->as);
		exit(2);
	}
}

/* What a copy of this program does when a case executes it. */
static void be_a_test_program(int argc, char **argv)
{
	if (argc != 2)
		return;
	if (!strcmp(argv[1], "--exit-7"))
		_exit(7);
	if (!strcmp(argv[1], "--wait")) {
		alarm(30);
		pause();
		_exit(0);
	}
}

int main(int argc, char **argv)
{
	struct choice ch = {.as = "all"};
	struct run_options o = {.without = ""};
	static struct job_list l; /* to the end of the program */

	be_a_test_program(argc, argv);
	options_parse(argc, argv, &ch, &o);
	jobs_build(&l);
	jobs_choose(&l, &ch);
	if (ch.list) {
		jobs_print(&l, ch.show);
		return 0;
	}
	if (argc - optind != 2) {
		fprintf(stderr, "posixcmp: two directories are needed, the "
				"mount and a plain one; see --help\n");
		return 2;
	}
	o.dir_a = argv[optind];
	o.dir_b = argv[optind + 1];
	o.own_user = geteuid() != 0;
	if (o.own_user) {
		if (!strcmp(ch.as, "root")) {
			fprintf(stderr, "posixcmp: --as root needs root\n");
			return 2;
		}
		printf("not root: only the cases of one user are run, as uid "
		       "%u\n",
		       (unsigned int)geteuid());
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	signals_catch();
	return jobs_run(&l, &o);
}
