/* SPDX-License-Identifier: MIT */
/* ckptfs fsck: reports, removes or adopts what saves left in a backing that is not mounted. */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "engine/backing/backing.h"
#include "engine/base/clock.h"
#include "engine/base/json.h"
#include "engine/base/message.h"
#include "engine/config/config.h"
#include "engine/coord/choice.h"
#include "engine/rule/rule.h"
#include "fs/cmd/fsck_inside.h"
#include "fs/show.h"

static volatile sig_atomic_t ended_by;

/* --- one find --- */

/* Handles staged files, and trash. */
static void found_leftover(struct fsck *f, const struct leftover *l)
{
	char text[MESSAGE_MAX], path[PATH_MAX];
	const char *message = NULL;

	if (f->mode == DISCARD) {
		fsck_discard(f, l);
		return;
	}
	if (l->kind == LEFT_UNPUBLISHED) {
		show_name(path, sizeof(path), l->path);
		MESSAGE(text, FSCK_UNPUBLISHED, path);
		message = text;
	}
	f->nr_left++;
	f->bytes_left += l->size;
	fsck_tell(f, l, f->mode == ADOPT ? "left" : "would remove", NULL, message);
}

static void found(void *arg, const struct leftover *l)
{
	char text[MESSAGE_MAX], path[PATH_MAX];
	struct fsck *f = arg;

	f->nr[l->kind]++;
	show_name(path, sizeof(path), l->path);
	switch (l->kind) {
	case LEFT_UNFINISHED:
	case LEFT_UNPUBLISHED:
		if (l->is_dir) {
			struct leftover staged = *l;

			fsck_found_staged(f, &staged);
			break;
		}
		found_leftover(f, l);
		break;
	case LEFT_TRASH:
		found_leftover(f, l);
		break;
	case LEFT_FOREIGN:
		fsck_found_foreign(f, l);
		break;
	case LEFT_FOREIGN_UNIT:
		fsck_found_foreign_unit(f, l);
		break;
	case LEFT_UNKNOWN:
		f->nr_left++;
		MESSAGE(text, FSCK_UNKNOWN, path);
		fsck_tell(f, l, "left", NULL, text);
		break;
	case LEFT_UNREADABLE:
		f->nr_left++;
		MESSAGE(text, FSCK_UNREADABLE, path, strerror(-l->err));
		fsck_tell(f, l, "left", NULL, text);
		break;
	default:
		fsck_tell(f, l, "left", NULL, NULL);
	}
}

/* --- the verb --- */

static void looking(void *arg, const char *path)
{
	struct fsck *f = arg;
	char shown[64];
	size_t len = strlen(path);

	progress_show(&f->progress, "%llu names: %s", (unsigned long long)f->walk.nr_looked,
		      show_name(shown, sizeof(shown), len > 60 ? path + len - 60 : path));
}

static bool stop(void *arg)
{
	(void)arg;
	return ended_by;
}

static void note_signal(int sig)
{
	ended_by = sig;
}

/* A signal ends the walk between two files, nothing half done. A second one acts at once. */
static void catch_signals(void)
{
	struct sigaction sa = {.sa_handler = note_signal, .sa_flags = SA_RESETHAND | SA_RESTART};

	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGHUP, &sa, NULL);
}

/* Each level of directories takes a descriptor. */
static void raise_fd_limit(void)
{
	struct rlimit rl;

	if (!getrlimit(RLIMIT_NOFILE, &rl)) {
		rl.rlim_cur = rl.rlim_max;
		setrlimit(RLIMIT_NOFILE, &rl);
	}
}

static void print_sum(const struct fsck *f)
{
	unsigned staged = f->nr[LEFT_UNFINISHED] + f->nr[LEFT_UNPUBLISHED];
	char size[SHOW_MAX];

	printf("%llu names looked at:", (unsigned long long)f->walk.nr_looked);
	if (f->mode == DISCARD)
		printf(" %u removed (%s)", f->nr_removed,
		       show_size(size, (double)f->bytes_removed));
	else
		printf(" %u left by saves that did not end, %u trash (%s)", staged,
		       f->nr[LEFT_TRASH], show_size(size, (double)f->bytes_left));
	if (f->mode != DISCARD)
		printf(", %u without a digest", f->nr[LEFT_FOREIGN] + f->nr[LEFT_FOREIGN_UNIT]);
	if (f->mode == ADOPT)
		printf(", %u of them adopted", f->nr_adopted);
	if (f->nr_given)
		printf(", %u checkpoints given their names", f->nr_given);
	if (f->nr_redone)
		printf(", %u redone", f->nr_redone);
	else if (f->mode == REPORT || f->mode == DRY_RUN)
		printf(". Nothing was changed");
	putchar('\n');
}

static int finish(struct fsck *f, int err)
{
	unsigned staged = f->nr[LEFT_UNFINISHED] + f->nr[LEFT_UNPUBLISHED];
	static const char *const modes[] = {"report", "adopt", "discard", "dry-run"};
	char text[MESSAGE_MAX], path[PATH_MAX];
	bool ok;
	int i;

	progress_hide(&f->progress);
	for (i = 0; i < f->nr_named; i++) {
		if (f->met[i])
			continue;
		f->nr_left++;
		MESSAGE(text, FSCK_NOT_FOREIGN, show_name(path, sizeof(path), f->named[i]));
		complain(text);
	}
	ok = !err && !f->nr_left;
	if (err) {
		MESSAGE(text, FSCK_UNREADABLE, f->backing.path, strerror(-err));
		complain(text);
	}
	if (f->mode == ADOPT && staged > f->nr_given) {
		MESSAGE(text, FSCK_NOT_ADOPTED, staged - f->nr_given, f->backing.path);
		complain(text);
	}
	if (f->list) {
		json_t *answer = json_pack("{s:b, s:o, s:s, s:I, s:I, s:I, s:O}", "ok", ok,
					   "backing", json_text(f->backing.path), "mode",
					   modes[f->mode], "names", (json_int_t)f->walk.nr_looked,
					   "bytes_left", (json_int_t)f->bytes_left, "bytes_removed",
					   (json_int_t)f->bytes_removed, "found", f->list);

		put_json(answer);
		json_decref(answer);
	} else {
		print_sum(f);
	}
	return ok ? EXIT_DONE : EXIT_NO;
}

static int refuse(const struct fsck *f, const char *path, const struct error *e)
{
	complain(e->text);
	if (f->list) {
		json_t *answer = json_pack("{s:b, s:o, s:o}", "ok", 0, "backing", json_text(path),
					   "message", json_text(e->text));

		put_json(answer);
		json_decref(answer);
	}
	return EXIT_NO;
}

static int do_fsck(struct fsck *f, const char *path)
{
	struct error e;
	int err, first;

	f->backing.root_fd = f->backing.proc_fd = -1;
	progress_start(&f->progress);
	if (rules_create(&f->rules, NULL, "", &e) || fsck_open_backing(f, path, &e))
		return refuse(f, path, &e);
	raise_fd_limit();
	catch_signals();
	f->now_ns = clock_wall_ns();
	f->walk = (struct leftovers){.root_fd = f->backing.root_fd,
				     .foreign = f->mode != DISCARD,
				     .rules = f->rules,
				     .stop = stop,
				     .looking = looking,
				     .found = found,
				     .arg = f};
	first = fsck_redo_decided(f);
	err = leftovers_walk(&f->walk);
	err = err ? err : first;
	if (ended_by) {
		progress_hide(&f->progress);
		signal(ended_by, SIG_DFL);
		raise(ended_by);
	}
	return finish(f, err);
}

static const struct option longs[] = {{"help", no_argument, NULL, 'h'},
				      {"json", no_argument, NULL, 'j'},
				      {"adopt", no_argument, NULL, 'a'},
				      {"discard", no_argument, NULL, 'd'},
				      {"dry-run", no_argument, NULL, 'n'},
				      {"options", required_argument, NULL, 'o'},
				      {NULL, 0, NULL, 0}};

static int fsck_as(const struct verb *v, struct fsck *f, int argc, char **argv)
{
	struct error e;
	bool json = false;
	int c, nr_modes = 0, status;

	while ((c = getopt_long(argc, argv, "ho:", longs, NULL)) != -1) {
		if (c == 'h')
			return verb_help(v);
		if (c == '?')
			return option_error(v, argv);
		if (c == 'j') {
			json = true;
			continue;
		}
		if (c == 'o') {
			if (config_apply_options(&f->config, optarg, &e)) {
				complain(e.text);
				return EXIT_USAGE;
			}
			continue;
		}
		nr_modes++;
		f->mode = c == 'a' ? ADOPT : c == 'd' ? DISCARD : DRY_RUN;
	}
	if (nr_modes > 1)
		return usage_error(v, "give one of --adopt, --discard and --dry-run");
	if (argc - optind < 1 || (argc - optind > 1 && f->mode != ADOPT && f->mode != DRY_RUN))
		return usage_error(v, "give one backing");
	f->named = argv + optind + 1;
	f->nr_named = argc - optind - 1;
	f->met = calloc((size_t)f->nr_named + 1, sizeof(*f->met));
	if (!f->met)
		f->nr_named = 0;
	f->list = json ? json_array() : NULL;
	status = do_fsck(f, argv[optind]);
	free(f->met);
	rules_destroy(f->rules);
	json_decref(f->list);
	while (f->nr_waiting)
		free(f->waiting[--f->nr_waiting]);
	free(f->waiting);
	coord_close(&f->coord);
	backing_close(&f->backing);
	return status;
}

static int run_fsck(const struct verb *v, int argc, char **argv)
{
	struct fsck f = {.mode = REPORT};
	int status;

	config_init(&f.config);
	status = fsck_as(v, &f, argc, argv);
	config_finish(&f.config);
	return status;
}

const struct verb verb_fsck = {
	.name = "fsck",
	.args = "[--adopt|--discard|--dry-run] [-o OPTS] [--json] BACKING [CHECKPOINT...]",
	.summary = "list, or clear away, what crashes left",
	.help = "For a backing that no node has mounted; refused where this host has it mounted.\n"
		"First finishes what was decided before a crash: a committed checkpoint gets its\n"
		"name. Then reads every name below BACKING, and reports with size, age and "
		"action:\n"
		"\n"
		"  decided      a committed checkpoint that had no name yet, or what follows a "
		"commit:\n"
		"               a pointer to it, the removal of an older one\n"
		"  unfinished   .ckptfs-ID, a save that was cut off\n"
		"  unpublished  the same, but whole: only its name is missing\n"
		"  trash        .ckptfs-trash-*\n"
		"  foreign      a checkpoint file (*.pt *.pth *.ckpt *.safetensors *.keras) "
		"without a\n"
		"               digest, so that `ckptfs verify` cannot check it; or a checkpoint\n"
		"               directory without a commit file\n"
		"  unknown      begins with .ckptfs- and is none of these: left alone\n"
		"  mount        another filesystem, not read\n"
		"\n"
		"Exit 0 if nothing of the first four, unknown or unreadable is left, else 1.\n"
		"\n"
		"  --dry-run            report only, change nothing\n"
		"  --discard            remove what is unfinished, unpublished or trash\n"
		"  --adopt              record a digest of each foreign file that is whole; write "
		"a\n"
		"                       commit file into each foreign directory that is provably\n"
		"                       whole, or is named as CHECKPOINT; give unpublished\n"
		"                       directories their names where these are free; keep what "
		"is\n"
		"                       unfinished\n"
		"  -o, --options LIST   the options of its mounts, of which coord matters\n"
		"  --json               for machines\n",
	.longs = longs,
	.run = run_fsck,
};
