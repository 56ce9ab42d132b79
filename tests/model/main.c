/* SPDX-License-Identifier: MIT */
/*
 * model [--count N] [--seed S] [--show] [--no-shrink]: plays N sequences, from seed S on. Exit 1:
 * one failed. --ace: instead of random sequences the N short ones from number S on, in memory.
 * model --lacks: names what the backing cannot do.
 */
#include "tests/model/model.h"

#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tests/model/world.h"

#define HANGS_S 120

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void print(const struct sequence *s)
{
	unsigned i;

	printf("seed %" PRIu64 "%s, %u operations:\n", s->seed, s->racing ? " (racing)" : "",
	       s->nr);
	for (i = 0; i < s->nr; i++) {
		char text[200];

		op_describe(&s->ops[i], text, sizeof(text));
		printf("    %s\n", text);
	}
}

static int lacks(void)
{
	enum feature f;

	world_begin(false);
	for (f = 0; f < NR_FEATURES; f++)
		if (!feature(world.m.en.backing.features, f))
			printf("%s\n", feature_names[f]);
	world_end();
	return 0;
}

static int usage(void)
{
	fprintf(stderr, "usage: model [--count N] [--seed S] [--show] [--no-shrink] [--keep-going] "
			"[--racing 0|1] [--cuts N] [--ace] | --lacks\n");
	return 2;
}

/* What the command line asks for. */
struct wanted {
	uint64_t seed, count;
	struct play_options options;
	bool shrinks, goes_on, ace, lacks;
	int racing; /* -1: as each seed says */
};

/* False: it is not understood. */
static bool parse(int argc, char **argv, struct wanted *w)
{
	static const struct option longs[] = {
		{"count", required_argument, NULL, 'c'}, {"seed", required_argument, NULL, 's'},
		{"show", no_argument, NULL, 'v'},	 {"no-shrink", no_argument, NULL, 'n'},
		{"keep-going", no_argument, NULL, 'k'},	 {"racing", required_argument, NULL, 'r'},
		{"cuts", required_argument, NULL, 'C'},	 {"ace", no_argument, NULL, 'a'},
		{"lacks", no_argument, NULL, 'l'},	 {NULL, 0, NULL, 0}};
	int c;

	while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		switch (c) {
		case 'c':
			w->count = strtoull(optarg, NULL, 10);
			break;
		case 's':
			w->seed = strtoull(optarg, NULL, 10);
			break;
		case 'v':
			w->options.show = true;
			break;
		case 'n':
			w->shrinks = false;
			break;
		case 'k':
			w->goes_on = true;
			break;
		case 'C':
			w->options.cuts = (unsigned)atoi(optarg);
			break;
		case 'a':
			w->ace = world_in_memory = true;
			break;
		case 'l':
			w->lacks = true;
			return true;
		case 'r':
			w->racing = atoi(optarg);
			break;
		default:
			return false;
		}
	}
	if (w->ace && w->seed + w->count > ace_count())
		w->count = w->seed < ace_count() ? ace_count() - w->seed : 0;
	return true;
}

/* True if sequence @seed is as the reference allows, or there is none. */
static bool play_seed(struct wanted *w, uint64_t seed)
{
	static struct sequence s;
	unsigned at;

	alarm(HANGS_S);
	if (w->ace && !ace_sequence(&s, seed))
		return true;
	if (!w->ace)
		generate(&s, seed);
	if (w->racing >= 0)
		s.racing = w->racing;
	if (play(&s, &w->options, &at))
		return true;
	printf("seed %" PRIu64 "%s fails at operation %u of %u: %s\n", s.seed,
	       s.racing ? " (racing)" : "", at, s.nr, model_wrong);
	if (!w->shrinks)
		return false;
	alarm(10 * HANGS_S);
	w->options.show = false;
	shrink(&s, &w->options);
	play(&s, &w->options, &at);
	print(&s);
	printf("  %s\n", *model_wrong ? model_wrong : "(not each time)");
	return false;
}

int main(int argc, char **argv)
{
	struct wanted w = {.seed = 1, .count = 1, .shrinks = true, .racing = -1};
	double began = now();
	uint64_t i, failed = 0;

	if (!parse(argc, argv, &w))
		return usage();
	if (w.lacks)
		return lacks();
	umask(0);
	if (!w.options.show && !freopen("/dev/null", "w", stderr))
		return 2; /* what the engine says of each kill */
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (i = 0; i < w.count && (!failed || w.goes_on); i++)
		failed += !play_seed(&w, w.seed + i);
	printf("%" PRIu64 " sequences, %" PRIu64 " failed, %.1f ms each; %" PRIu64
	       " operations, %" PRIu64 " left out, %" PRIu64 " refused; %" PRIu64
	       " commits, %" PRIu64 " kills, %" PRIu64 " views adopted, %" PRIu64 " crashes\n",
	       i, failed, (now() - began) * 1e3 / (double)(i ? i : 1), counts.ops, counts.skipped,
	       counts.refused, counts.commits, counts.kills, counts.adopted, counts.cuts);
	return failed ? 1 : 0;
}
