/* SPDX-License-Identifier: MIT */
/*
 * ckptfs drain: waits until what a job saves is committed, by asking the daemon again and again.
 * The mount stays.
 */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/json.h"
#include "engine/base/message.h"
#include "engine/liveness/job.h"
#include "fs/cmd/cmd.h"
#include "fs/control_socket.h"

#define ROUND_MS 500 /* the daemon's wait for each answer */
#define NAP_MS	 100 /* before the next question to a daemon that did not answer */

/* If one of these changes, something moves. */
struct progress {
	json_int_t nr_left, bytes, dirty, flushed;
};

static struct progress progress_of(const json_t *answer)
{
	json_int_t dirty = json_get_int(answer, "dirty_bytes", 0);

	return (struct progress){
		.nr_left = json_get_int(answer, "nr_left", 0),
		.bytes = json_get_int(answer, "bytes", 0),
		.dirty = dirty,
		/*
		 * Others' bytes may be flushed first; without dirty bytes here they are no reason
		 * to wait.
		 */
		.flushed = dirty ? json_get_int(answer, "flushed_bytes", 0) : 0,
	};
}

static int ask(const struct mount_entry *m, const char *job, const json_t *before, int limit_ms,
	       json_t **answer, struct error *e)
{
	json_t *request = json_pack("{s:s, s:i}", "verb", "drain", "limit_ms", limit_ms);

	if (job)
		json_object_set_new(request, "job", json_text(job));
	if (json_object_get(before, "since_ns"))
		json_object_set(request, "since_ns", json_object_get(before, "since_ns"));
	return control_request(m, request, limit_ms + CONTROL_ASK_MS, answer, NULL, NULL, e);
}

/*
 * Asks until nothing is left, or nothing has moved for @timeout_s. *@last: the last answer, or
 * NULL. 0 or -errno with @e filled.
 */
static int drain(const struct mount_entry *m, const char *job, int timeout_s, bool quiet,
		 json_t **last, struct error *e)
{
	uint64_t limit_ns = (uint64_t)timeout_s * NSEC_PER_SEC,
		 deadline = clock_mono_ns() + limit_ns;
	struct progress_line line = progress_line_start(quiet);
	struct progress was = {.nr_left = -1};
	int err;

	*last = NULL;
	for (;;) {
		bool late = clock_mono_ns() >= deadline;
		struct progress is;
		json_t *answer;

		err = ask(m, job, *last, late ? 0 : ROUND_MS, &answer, e);
		if (err == -ETIMEDOUT && !late) { /* perhaps a busy daemon */
			poll(NULL, 0, NAP_MS);
			continue;
		}
		if (err)
			break;
		json_decref(*last);
		*last = answer;
		is = progress_of(answer);
		if (!is.nr_left)
			break;
		if (timeout_s && memcmp(&is, &was, sizeof(is)))
			deadline = clock_mono_ns() + limit_ns;
		else if (late)
			break;
		was = is;
		progress_line_show(&line, "%s: %lld MiB and %lld checkpoints left to commit",
				   m->path, (long long)is.dirty >> 20, (long long)is.nr_left);
	}
	progress_line_end(&line);
	return err;
}

static void print_json(const json_t *last)
{
	json_t *o = json_pack(
		"{s:O, s:O, s:O, s:O}", "committed", json_object_get(last, "committed"), "failed",
		json_object_get(last, "failed"), "left", json_object_get(last, "left"), "nr_left",
		json_object_get(last, "nr_left"));

	put_json(o);
	json_decref(o);
}

/* Reports what was not committed, and why. */
static void complain_of(const struct mount_entry *m, const json_t *last, int timeout_s)
{
	const json_t *left = json_object_get(last, "left"), *one;
	json_int_t more = json_get_int(last, "nr_left", 0) - (json_int_t)json_array_size(left);
	char text[MESSAGE_MAX];
	size_t i;

	json_array_foreach (json_object_get(last, "failed"), i, one)
		complain(json_get_text(one, "failure", "?"));
	json_array_foreach (left, i, one) {
		MESSAGE(text, DRAIN_LEFT, json_get_text(one, "path", "?"),
			json_get_text(one, "job", "?"), timeout_s,
			json_get_text(one, "waits_for", "?"), m->path,
			json_get_text(one, "path", "?"));
		complain(text);
	}
	if (more > 0)
		fprintf(stderr, "ckptfs: and %lld more\n", (long long)more);
}

static int do_drain(const char *path, const char *job, int timeout_s, bool json)
{
	struct mount_entry m;
	struct error e;
	json_t *last;
	bool whole;
	int err;

	if (!find_mount(path, &m))
		return EXIT_NO;
	err = drain(&m, job, timeout_s, json, &last, &e);
	if (err) {
		complain(e.text);
		json_decref(last);
		return EXIT_NO;
	}
	whole = !json_get_int(last, "nr_left", 0) &&
		!json_array_size(json_object_get(last, "failed"));
	if (json)
		print_json(last);
	else
		complain_of(&m, last, timeout_s);
	if (!json && whole)
		printf("%s: nothing%s%s is left to commit; %lld checkpoints were committed "
		       "meanwhile\n",
		       m.path, job ? " of job " : "", job ? job : "",
		       (long long)json_get_int(last, "committed", 0));
	json_decref(last);
	return whole ? EXIT_DONE : EXIT_NO;
}

static const struct option longs[] = {{"help", no_argument, NULL, 'h'},
				      {"job", required_argument, NULL, 'j'},
				      {"timeout", required_argument, NULL, 't'},
				      {"json", no_argument, NULL, 'J'},
				      {NULL, 0, NULL, 0}};

static int run_drain(const struct verb *v, int argc, char **argv)
{
	const char *job = NULL;
	int timeout_s = 600, c;
	bool json = false;

	while ((c = getopt_long(argc, argv, "hj:t:", longs, NULL)) != -1) {
		if (c == 'h')
			return verb_help(v);
		else if (c == 'j')
			job = optarg;
		else if (c == 'J')
			json = true;
		else if (c != 't')
			return option_error(v, argv);
		else if (!whole_seconds(optarg, &timeout_s))
			return usage_error(v, "--timeout wants whole seconds");
	}
	if (job && !job_name_ok(job))
		return usage_error(
			v,
			"--job wants a key as `ckptfs status` shows it, or the number of "
			"a Slurm job, not '%s'",
			job);
	if (argc - optind != 1)
		return usage_error(v, "give one mount point");
	return do_drain(argv[optind], job, timeout_s, json);
}

const struct verb verb_drain = {
	.name = "drain",
	.args = "[--job KEY] [--timeout SECONDS] [--json] MOUNTPOINT",
	.summary = "wait until all saves are committed",
	.help = "Waits for the checkpoints that are being saved when the command starts, and "
		"leaves\n"
		"the mount as it is. A rule that waits for a quiet time is satisfied at once if\n"
		"every process that wrote has exited with status 0. Exit 0 when all are "
		"committed;\n"
		"1 if one is not, and stderr names it and what is missing.\n"
		"\n"
		"  --job KEY            only the checkpoints of this job: a key that `ckptfs "
		"status`\n"
		"                       shows (1000/slurm/8123.0/r0), the beginning of one up "
		"to\n"
		"                       a / (1000/slurm/8123.0), or the number of a Slurm job, "
		"with\n"
		"                       or without its step (8123, 8123.0). One that failed "
		"before\n"
		"                       is named, too, unless a later one was committed beside it\n"
		"  --timeout SECONDS    how long to wait while nothing moves (600)\n"
		"  --json               for machines\n",
	.longs = longs,
	.run = run_drain,
};
