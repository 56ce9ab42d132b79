/* SPDX-License-Identifier: MIT */
/*
 * Simulates clusters: --help tells how. Each seed runs in a process of its own, so that none leaves
 * anything behind and a crash of the engine is a finding like any other.
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/fault.h"
#include "tests/sim/gen.h"
#include "tests/sim/play.h"
#include "tests/sim/sched.h"
#include "tests/sim/story.h"

#define SECONDS_MAX 20 /* of CPU time, for one run */
#define TEXT_MAX    (PLAN_LINES * LINE_LEN)

static const char help[] =
	"usage: sim [--seed S] [--count N] [--story]    plays N random schedules from S on\n"
	"       sim --plan FILE [--seed S] [--count N]  plays a scenario\n"
	"\n"
	"Each schedule is several engines in one process, under a clock, threads, a backing and a\n"
	"coordination service that are the simulator's. A seed that fails is shrunk and told as a "
	"story.\n"
	"\n"
	"  --seed S     the first seed (1)\n"
	"  --count N    how many (1)\n"
	"  --plan FILE  the plan instead of a random one; the seeds are of schedules alone\n"
	"  --story      tells what happens also where nothing is wrong\n"
	"  --print      prints the plan of the seed, and plays nothing\n"
	"  --no-shrink  prints a failing plan as it is\n"
	"  --fault NAME builds a fault into the engine, which the simulator must find\n"
	"  --faults     lists them\n"
	"  --survey     a line for each seed that fails, and goes on\n"
	"  --expect-wrong  succeeds at the first seed that fails, and fails if none does\n";

static struct plan given;
static bool is_given, no_shrink, survey, expect_wrong;

static void plan_of(struct plan *p, unsigned long long seed)
{
	if (is_given)
		*p = given;
	else
		generate(p, seed);
}

/* --- one run --- */

struct result {
	bool wrong, crashed, listed;
	char what[2048];
};

static void play_in_child(const struct plan *p, unsigned long long seed, FILE *out, int report)
{
	const char *what;

	setrlimit(RLIMIT_CPU, &(struct rlimit){SECONDS_MAX, SECONDS_MAX});
	setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
	story_to(out);
	if (!out && !freopen("/dev/null", "w", stderr))
		abort();
	play(p, seed);
	what = what_is_wrong();
	if (what && write(report, what, strlen(what)) < 0)
		abort();
	fflush(NULL);
	_exit(0);
}

static void run(const struct plan *p, unsigned long long seed, FILE *out, struct result *r)
{
	int fds[2], status;
	ssize_t n;
	pid_t pid;

	memset(r, 0, sizeof(*r));
	fflush(NULL);
	if (pipe(fds) || (pid = fork()) < 0) {
		perror("sim");
		exit(2);
	}
	if (!pid)
		play_in_child(p, seed, out, fds[1]);
	close(fds[1]);
	n = read(fds[0], r->what, sizeof(r->what) - 1);
	close(fds[0]);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	r->listed = WIFEXITED(status) && WEXITSTATUS(status) == STORY_LISTED;
	if (r->listed && is_given && !survey)
		snprintf(r->what, sizeof(r->what), "a defect that is listed ends the scenario");
	else if (r->listed)
		return;
	r->crashed = status;
	r->wrong = n > 0 || status;
	if (status && n <= 0 && !r->listed)
		snprintf(r->what, sizeof(r->what), "the engine is ended by signal %d (%s)",
			 WTERMSIG(status), strsignal(WTERMSIG(status)));
}

/* --- shrinking --- */

/* Is the same thing wrong, in one of some schedules? */
static bool still_wrong(const struct plan *p, unsigned long long *seed, const char *what)
{
	unsigned long long tries, first = *seed;
	struct result r;

	for (tries = 0; tries < 12; tries++) {
		run(p, first + tries * 1000003, NULL, &r);
		if (r.wrong && !strncmp(r.what, what, 3)) {
			*seed = first + tries * 1000003;
			return true;
		}
	}
	return false;
}

static void without(const struct plan *p, unsigned at, unsigned nr, struct plan *out)
{
	unsigned i;

	out->nr = 0;
	for (i = 0; i < p->nr; i++)
		if (i < at || i >= at + nr)
			memcpy(out->lines[out->nr++], p->lines[i], LINE_LEN);
}

/* Leaves out lines, first many and then single ones, as long as the same goes wrong. */
static void shrink(struct plan *p, unsigned long long *seed, const char *what)
{
	static struct plan less;
	unsigned nr, at;
	bool shorter;

	for (nr = p->nr / 2; nr; nr = nr > 1 ? nr / 2 : 0)
		do {
			shorter = false;
			for (at = 0; at + nr <= p->nr; at += shorter ? 0 : nr) {
				without(p, at, nr, &less);
				shorter = still_wrong(&less, seed, what);
				if (shorter)
					*p = less;
			}
		} while (nr == 1 && shorter);
}

static void tell(const struct plan *plan, unsigned long long seed, const char *what)
{
	static struct plan p;
	unsigned long long first = seed;
	struct result r;
	unsigned i;

	p = *plan;
	/* What is expected is expected of the whole plan. */
	if (!no_shrink && strncmp(what, "expected", 8) != 0)
		shrink(&p, &seed, what);
	printf("\nseed %llu: %s\n", first, what);
	printf("\nThe plan%s, schedule %llu:\n\n", no_shrink ? "" : ", shrunk", seed);
	for (i = 0; i < p.nr; i++)
		printf("    %s\n", p.lines[i]);
	printf("\nWhat happens:\n\n");
	run(&p, seed, stdout, &r);
}

/* --- many --- */

static void print_plan(unsigned long long seed)
{
	static struct plan p;
	unsigned i;

	plan_of(&p, seed);
	for (i = 0; i < p.nr; i++)
		printf("%s\n", p.lines[i]);
}

/*
 * True if the seed shows a defect of today's engine: then it says nothing of the fault that was
 * built in.
 */
static bool is_wrong_without_fault(const struct plan *p, unsigned long long seed)
{
	enum fault chosen = fault_chosen;
	struct result r;

	fault_chosen = FAULT_NONE;
	run(p, seed, NULL, &r);
	fault_chosen = chosen;
	return r.wrong;
}

static int play_all(unsigned long long first, unsigned long long count, bool show)
{
	static struct plan p;
	struct result r;
	unsigned long long i, nr_wrong = 0, nr_listed = 0;
	time_t begun = time(NULL);

	for (i = 0; i < count; i++) {
		plan_of(&p, first + i);
		run(&p, first + i, show ? stdout : NULL, &r);
		nr_listed += r.listed;
		if (r.wrong && fault_chosen && is_wrong_without_fault(&p, first + i))
			continue;
		if (r.wrong && expect_wrong) {
			printf("seed %llu: %s\n", first + i, r.what);
			return 0;
		}
		if (r.wrong && survey) {
			printf("seed %llu: %s\n", first + i, r.what);
			nr_wrong++;
		} else if (r.wrong) {
			tell(&p, first + i, r.what);
			return 1;
		}
	}
	if (expect_wrong) {
		printf("%llu seeds from %llu on: nothing wrong any more\n", count, first);
		return 1;
	}
	if (count > 1)
		printf("%llu seeds from %llu on: %llu wrong, %llu ended by what is listed; %.0f "
		       "seeds an hour\n",
		       count, first, nr_wrong, nr_listed,
		       (double)count * 3600 / (double)(time(NULL) - begun + 1));
	return 0;
}

static int read_plan(const char *path)
{
	static char text[TEXT_MAX + 1];
	FILE *f = fopen(path, "r");
	const char *problem;
	unsigned line;

	if (!f) {
		fprintf(stderr, "sim: %s: %s\n", path, strerror(errno));
		return 2;
	}
	text[fread(text, 1, TEXT_MAX, f)] = '\0';
	fclose(f);
	problem = plan_read(&given, text, &line);
	if (problem) {
		fprintf(stderr, "sim: %s:%u: %s\n", path, line, problem);
		return 2;
	}
	is_given = true;
	return 0;
}

static int list_faults(void)
{
	const char *name, *what;
	unsigned i;

	for (i = 0; (name = fault_name(i, &what)); i++)
		printf("%-22s %s\n", name, what);
	return 0;
}

/* Addresses that differ from run to run could order something. */
static void fix_addresses(char **argv)
{
	int old = personality(0xffffffff);

	if (old < 0 || old & ADDR_NO_RANDOMIZE ||
	    personality((unsigned)old | ADDR_NO_RANDOMIZE) < 0)
		return;
	execv("/proc/self/exe", argv);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"seed", required_argument, NULL, 's'},	 {"count", required_argument, NULL, 'n'},
		{"plan", required_argument, NULL, 'p'},	 {"story", no_argument, NULL, 't'},
		{"print", no_argument, NULL, 'P'},	 {"no-shrink", no_argument, NULL, 'S'},
		{"fault", required_argument, NULL, 'f'}, {"faults", no_argument, NULL, 'F'},
		{"survey", no_argument, NULL, 'v'},	 {"expect-wrong", no_argument, NULL, 'w'},
		{"help", no_argument, NULL, 'h'},	 {NULL, 0, NULL, 0}};
	unsigned long long seed = 1, count = 1;
	bool show = false, print = false;
	int c;

	fix_addresses(argv);
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 's')
			seed = strtoull(optarg, NULL, 0);
		else if (c == 'n')
			count = strtoull(optarg, NULL, 0);
		else if (c == 'p' && read_plan(optarg))
			return 2;
		else if (c == 't')
			show = true;
		else if (c == 'P')
			print = true;
		else if (c == 'S')
			no_shrink = true;
		else if (c == 'f' && !fault_choose(optarg)) {
			fprintf(stderr, "sim: there is no fault '%s'; --faults lists them\n",
				optarg);
			return 2;
		} else if (c == 'F')
			return list_faults();
		else if (c == 'v')
			survey = true;
		else if (c == 'w')
			expect_wrong = true;
		else if (c == 'h' || c == '?') {
			fputs(help, c == 'h' ? stdout : stderr);
			return c == 'h' ? 0 : 2;
		}
	}
	if (print) {
		print_plan(seed);
		return 0;
	}
	return play_all(seed, count, show);
}
