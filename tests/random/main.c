/* SPDX-License-Identifier: MIT */
/* Command line of randops. */
#include "randops.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char usage_text[] =
	"usage: randops [options] A B\n"
	"       randops --replay FILE A B\n"
	"       randops --compare A B\n"
	"       randops --mode shared [options] A B\n"
	"\n"
	"Runs the same random operations on directory A (a mount under test) and on\n"
	"directory B (a plain one, best on the filesystem behind A) and compares every\n"
	"answer, all data, attributes, listings. The first difference fails the run: it\n"
	"is printed, the sequence is made as short as possible in fresh subdirectories,\n"
	"printed and written to a file that --replay runs again. Works in A/randops.pN\n"
	"and B/randops.pN, which are removed first if they exist.\n"
	"\n"
	"  --seed N          the sequence to run (default: from the clock, printed)\n"
	"  --ops N           how many operations (default 5000)\n"
	"  --procs N         N processes, each with its own sequence (seed + i);\n"
	"                    default 1, with --mode shared 3\n"
	"  --max-size BYTES  about the largest file (default 8 MiB)\n"
	"  --without LIST    leave out operations or features, comma separated (below)\n"
	"  --strict          fail if A lacks a feature that B has\n"
	"  --no-shrink       report the first difference as it is\n"
	"  --attempts N      runs that shrinking may take (default 500)\n"
	"  --out FILE        where a failing trace goes (default\n"
	"                    $TMPDIR/randops-SEED.trace)\n"
	"  --keep            leave the directories, to compare what lies behind A\n"
	"  --op-timeout S    an operation that takes longer is a failure (default 120)\n"
	"  --verbose         print every operation before it runs\n"
	"  --stats           how often each operation ran, failed, had nothing to do\n"
	"  --replay FILE     run the operations in FILE\n"
	"  --compare         only compare two trees: names, attributes, contents\n"
	"  --mode shared     many writers on one file below A: disjoint stamped regions,\n"
	"                    readers, mmap readers, renames, appenders; B gets what must\n"
	"                    be in A at the end. With --procs, --threads, --seconds\n"
	"\n"
	"$RANDOPS_SELFTEST makes side A do one thing wrong, to see it found: drop-write,\n"
	"short-truncate, lost-rename, flip-read, lost-xattr, extra-mtime, bad-errno,\n"
	"lost-append (--mode shared; drop-write as well).\n"
	"\n"
	"Exit status: 0 all the same, 1 a difference, 2 trouble outside A, 3 stuck.\n"
	"A trace has one operation a line; an operation on a slot that is not open does\n"
	"nothing, so any lines may be deleted and what is left still runs.\n\n";

static void usage(FILE *f)
{
	fputs(usage_text, f);
	op_list(f);
}

static void out_name(const struct config *cfg, const char *tag, char *out, size_t size)
{
	const char *tmp = getenv("TMPDIR");

	if (cfg->out)
		snprintf(out, size, "%s%s", cfg->out, tag);
	else
		snprintf(out, size, "%s/randops-%llu.trace%s", tmp && *tmp ? tmp : "/tmp",
			 (unsigned long long)cfg->seed, tag);
}

static void save_trace(const struct config *cfg, const struct trace *t, const char *tag,
		       const char *comment)
{
	char file[4096];
	int err;

	out_name(cfg, tag, file, sizeof(file));
	err = trace_write(t, cfg, file, comment);
	if (err)
		say("cannot write %s: %s", file, strerror(-err));
	else
		say("%s: randops --replay %s A B", comment, file);
}

static int fail(const struct config *cfg, struct trace *t, const char *sub, struct diff *d)
{
	char text[OP_TEXT_MAX];
	size_t i;

	diff_report(d, t);
	if (d->environment)
		return 2;
	t->nr = d->op + 1;
	save_trace(cfg, t, ".full", "the whole sequence");
	if (!cfg->shrink)
		return 1;
	shrink(cfg, t, sub, d);
	save_trace(cfg, t, "", "the shrunk sequence");
	say("seed %llu, %zu operation(s):", (unsigned long long)cfg->seed, t->nr);
	for (i = 0; i < t->nr && i < 200; i++) {
		op_print(&t->ops[i], text);
		say("  %s", text);
	}
	diff_report(d, t);
	return 1;
}

static bool run_live(const struct config *cfg, struct world *w, struct trace *t, struct diff *d)
{
	struct op op, check = {.kind = OP_CHECK};
	char text[OP_TEXT_MAX];
	unsigned long i;
	struct gen g;

	gen_init(&g, cfg->seed);
	for (i = 0; i <= cfg->nr_ops; i++) {
		if (i < cfg->nr_ops)
			gen_next(&g, w, &op);
		else
			op = check;
		trace_push(t, &op);
		watchdog_tick(&op, i);
		if (cfg->verbose) {
			op_print(&op, text);
			say("%lu: %s", i + 1, text);
		}
		d->op = i;
		if (!world_step(w, &op, d))
			return false;
	}
	return true;
}

/* One sequence: random, or the replayed one if it is not empty. */
static int run_one(const struct config *cfg, struct trace *t, unsigned int nr)
{
	double start = seconds_now();
	struct diff d = {0};
	struct world w;
	char sub[32];
	bool same;

	snprintf(sub, sizeof(sub), "randops.p%u", nr);
	watchdog_start(cfg->op_timeout);
	if (world_start(&w, cfg, sub))
		return 2;
	if (t->nr)
		same = world_run(&w, t, &d);
	else
		same = run_live(cfg, &w, t, &d);
	if (cfg->stats)
		world_stats(&w);
	world_end(&w, same && !cfg->keep);
	if (!same)
		return fail(cfg, t, sub, &d);
	say("ok: seed %llu, %zu ops, %.1f s", (unsigned long long)cfg->seed, t->nr,
	    seconds_now() - start);
	return 0;
}

static int run_child(const struct config *cfg, unsigned int nr)
{
	struct config mine = *cfg;
	struct trace t = {0};
	char out[4096];
	int ret;

	mine.seed += nr;
	if (cfg->out) {
		snprintf(out, sizeof(out), "%s.p%u", cfg->out, nr);
		mine.out = out;
	}
	snprintf(say_prefix, sizeof(say_prefix), "[p%u] ", nr);
	ret = run_one(&mine, &t, nr);
	trace_finish(&t);
	return ret;
}

static int run_procs(const struct config *cfg)
{
	unsigned int i;
	int status, worst = 0, code;
	pid_t pid;

	for (i = 0; i < cfg->procs; i++) {
		pid = fork();
		if (pid < 0)
			die("fork: %s", strerror(errno));
		if (!pid)
			exit(run_child(cfg, i));
	}
	while ((pid = wait(&status)) > 0) {
		code = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
		if (!WIFEXITED(status))
			say("process %d died of signal %d", (int)pid, WTERMSIG(status));
		if (code && (!worst || code == 1))
			worst = code;
	}
	return worst;
}

static int compare_main(const struct config *cfg)
{
	struct diff d = {0};

	tree_compare(cfg->dir[0], cfg->dir[1], cfg, &d);
	if (!d.found)
		return 0;
	say("DIFFERENCE between %s and %s", cfg->dir[0], cfg->dir[1]);
	say("  what:         %s", d.what);
	say("  expected (B): %s", d.expected);
	say("  got (A):      %s", d.got);
	return 1;
}

static int replay_main(struct config *cfg, const char *file)
{
	struct trace t = {0};
	int err = trace_read(&t, cfg, file);

	if (err)
		die("%s: %s", file, strerror(-err));
	if (!t.nr)
		die("%s: no operations", file);
	err = run_one(cfg, &t, 0);
	trace_finish(&t);
	return err;
}

enum {
	OPT_SEED = 256,
	OPT_OPS,
	OPT_PROCS,
	OPT_THREADS,
	OPT_SECONDS,
	OPT_REPLAY,
	OPT_NO_SHRINK,
	OPT_WITHOUT,
	OPT_MAX,
	OPT_MODE,
	OPT_COMPARE,
	OPT_KEEP,
	OPT_STRICT,
	OPT_ATTEMPTS,
	OPT_OUT,
	OPT_OP_TIMEOUT,
	OPT_VERBOSE,
	OPT_STATS,
	OPT_HELP
};

static const struct option options[] = {
	{"seed", 1, NULL, OPT_SEED},
	{"ops", 1, NULL, OPT_OPS},
	{"procs", 1, NULL, OPT_PROCS},
	{"threads", 1, NULL, OPT_THREADS},
	{"seconds", 1, NULL, OPT_SECONDS},
	{"replay", 1, NULL, OPT_REPLAY},
	{"no-shrink", 0, NULL, OPT_NO_SHRINK},
	{"without", 1, NULL, OPT_WITHOUT},
	{"max-size", 1, NULL, OPT_MAX},
	{"mode", 1, NULL, OPT_MODE},
	{"compare", 0, NULL, OPT_COMPARE},
	{"keep", 0, NULL, OPT_KEEP},
	{"strict", 0, NULL, OPT_STRICT},
	{"attempts", 1, NULL, OPT_ATTEMPTS},
	{"out", 1, NULL, OPT_OUT},
	{"op-timeout", 1, NULL, OPT_OP_TIMEOUT},
	{"verbose", 0, NULL, OPT_VERBOSE},
	{"stats", 0, NULL, OPT_STATS},
	{"help", 0, NULL, OPT_HELP},
	{NULL, 0, NULL, 0},
};

static uint64_t number(const char *text, uint64_t min, uint64_t max)
{
	char *end;
	unsigned long long value;

	errno = 0;
	value = strtoull(text, &end, 0);
	if (errno || *end || end == text || value < min || value > max)
		die("%s: not a number from %llu to %llu", text, (unsigned long long)min,
		    (unsigned long long)max);
	return value;
}

struct command {
	struct config cfg;
	const char *replay;
	bool compare, shared;
};

static void option(struct command *cmd, int opt, const char *arg)
{
	struct config *cfg = &cmd->cfg;

	switch (opt) {
	case OPT_SEED:
		cfg->seed = number(arg, 0, UINT64_MAX - 1000);
		break;
	case OPT_OPS:
		cfg->nr_ops = number(arg, 1, 1000000000);
		break;
	case OPT_PROCS:
		cfg->procs = number(arg, 1, 100);
		break;
	case OPT_THREADS:
		cfg->threads = number(arg, 1, 32);
		break;
	case OPT_SECONDS:
		cfg->seconds = number(arg, 1, 1000000);
		break;
	case OPT_MAX:
		cfg->max_size = number(arg, 64 * 1024, 1ULL << 40);
		break;
	case OPT_ATTEMPTS:
		cfg->attempts = number(arg, 1, 1000000);
		break;
	case OPT_OP_TIMEOUT:
		cfg->op_timeout = number(arg, 0, 100000);
		break;
	case OPT_REPLAY:
		cmd->replay = arg;
		break;
	case OPT_OUT:
		cfg->out = arg;
		break;
	case OPT_NO_SHRINK:
		cfg->shrink = false;
		break;
	case OPT_KEEP:
		cfg->keep = true;
		break;
	case OPT_STRICT:
		cfg->strict = true;
		break;
	case OPT_VERBOSE:
		cfg->verbose = true;
		break;
	case OPT_STATS:
		cfg->stats = true;
		break;
	case OPT_COMPARE:
		cmd->compare = true;
		break;
	case OPT_WITHOUT:
		if (!without_set(cfg, arg))
			die("--without %s: no such operation or feature; see --help", arg);
		break;
	case OPT_MODE:
		if (strcmp(arg, "shared") && strcmp(arg, "random"))
			die("--mode %s: random or shared", arg);
		cmd->shared = !strcmp(arg, "shared");
		break;
	case OPT_HELP:
		usage(stdout);
		exit(0);
	default:
		fprintf(stderr, "randops: see randops --help\n");
		exit(2);
	}
}

static int random_main(struct config *cfg)
{
	struct trace t = {0};
	int ret;

	say("seed %llu, %lu ops, %u process%s", (unsigned long long)cfg->seed, cfg->nr_ops,
	    cfg->procs, cfg->procs == 1 ? "" : "es");
	if (probe(cfg)) {
		say("--strict: A lacks something that B has");
		return 1;
	}
	if (cfg->procs > 1)
		return run_procs(cfg);
	ret = run_one(cfg, &t, 0);
	trace_finish(&t);
	return ret;
}

int main(int argc, char **argv)
{
	struct command cmd = {.cfg = {
				      .seed = (uint64_t)time(NULL) ^ (uint64_t)getpid() << 32,
				      .nr_ops = 5000,
				      .threads = 2,
				      .seconds = 10,
				      .max_size = 8 << 20,
				      .shrink = true,
				      .attempts = 500,
				      .op_timeout = 120,
			      }};
	int opt;

	while ((opt = getopt_long(argc, argv, "h", options, NULL)) != -1)
		option(&cmd, opt == 'h' ? OPT_HELP : opt, optarg);
	if (argc - optind != 2)
		option(&cmd, '?', NULL);
	cmd.cfg.dir[0] = argv[optind];
	cmd.cfg.dir[1] = argv[optind + 1];
	if (!cmd.cfg.procs)
		cmd.cfg.procs = cmd.shared ? 3 : 1;
	umask(022);
	catch_sigbus();
	fault_init();
	if (cmd.compare)
		return compare_main(&cmd.cfg);
	if (cmd.shared)
		return shared_main(&cmd.cfg);
	if (cmd.replay)
		return replay_main(&cmd.cfg, cmd.replay);
	return random_main(&cmd.cfg);
}
