/* SPDX-License-Identifier: MIT */
/* ckptfs wait: waits until the fate of one save is known, by asking the daemon. */
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
#include "engine/base/text.h"
#include "fs/cmd/cmd.h"
#include "fs/control_file.h"
#include "fs/nearest.h"

#define FIRST_POLL_MS 5
#define MOST_POLL_MS  100
#define PATIENCE_MS   2000 /* until a message says what it waits for */

static const struct {
	const char *word;
	enum ckptfs_state state;
} states[] = {{"captured", CKPTFS_CAPTURED},
	      {"durable", CKPTFS_DURABLE},
	      {"committed", CKPTFS_COMMITTED}};

/* CKPTFS_ABSENT: no such word. */
static enum ckptfs_state state_of(const char *word)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(states); i++)
		if (!strcmp(states[i].word, word))
			return states[i].state;
	return CKPTFS_ABSENT;
}

struct wait {
	const char *path;
	enum ckptfs_state wanted;
	double timeout_s; /* below 0: no limit */
	bool json;
	bool said, silent; /* said: what it waits for; silent: that the daemon is */
};

/* What is missing; for a path that does not exist also the name that may be meant. */
static const char *missing(const struct wait *w, const json_t *file, char buf[MESSAGE_MAX])
{
	char near[PATH_MAX];

	struct text t = {buf, MESSAGE_MAX, 0};

	text_say(&t, "%s", control_reason(file));
	if (!strcmp(json_get_text(file, "kind", ""), "absent") && nearest_path(w->path, near))
		text_say(&t, "; the nearest name there: %s", near);
	return buf;
}

static void show_waiting(struct wait *w, const json_t *file)
{
	char text[MESSAGE_MAX];

	if (!w->said)
		fprintf(stderr, "ckptfs: waiting for %s: %s\n", w->path, missing(w, file, text));
	w->said = true;
}

static void show_silence(struct wait *w, const char *text)
{
	if (!w->silent)
		complain(text);
	w->silent = true;
}

static int timed_out(const struct wait *w, const json_t *file)
{
	char text[MESSAGE_MAX], what[MESSAGE_MAX];

	MESSAGE(text, WAIT_TIMEOUT, w->path, w->timeout_s, missing(w, file, what));
	return fail_verb(w->json, ETIMEDOUT, text);
}

static int ended_badly(const struct wait *w, const struct given_path *p, const json_t *file)
{
	const char *kind = json_get_text(file, "kind", ""),
		   *state = json_get_text(file, "state", "?");
	int err = (int)json_get_int(file, "errno", ECANCELED);
	char text[MESSAGE_MAX];

	if (!strcmp(kind, "unreadable")) {
		err = EACCES;
		MESSAGE(text, FILE_UNREADABLE, w->path, json_get_text(file, "reason", "?"));
	} else if (!strcmp(kind, "directory")) {
		err = EISDIR;
		MESSAGE(text, WAIT_DIRECTORY, w->path, p->mounted ? p->mount.path : "MOUNTPOINT");
	} else if (!strcmp(kind, "file")) {
		err = ENOTSUP;
		MESSAGE(text, WAIT_ORDINARY, w->path);
	} else if (!strcmp(state, "foreign")) {
		err = ENODATA;
		MESSAGE(text, WAIT_FOREIGN, w->path);
	} else if (json_object_get(file, "failure")) {
		snprintf(text, sizeof(text), "%s", json_get_text(file, "failure", ""));
	} else {
		MESSAGE(text, WAIT_DROPPED, w->path, state);
	}
	return fail_verb(w->json, err, text);
}

static int arrived(const struct wait *w, const json_t *file)
{
	json_t *o;

	if (!w->json)
		return EXIT_DONE;
	o = json_pack("{s:b, s:s, s:o}", "ok", 1, "state", json_get_text(file, "state", "?"),
		      "path", json_text(w->path));
	put_json(o);
	json_decref(o);
	return EXIT_DONE;
}

/* EXIT_DONE, EXIT_NO, or -1: go on. */
static int look(struct wait *w, const struct given_path *p, char **generation, double waited)
{
	enum ckptfs_state state;
	int status = -1;
	struct error e;
	json_t *file;

	if (place_ask(p, *generation, &file, &e)) {
		/* Perhaps the daemon, or its backing, is busy: goes on as long as there is time. */
		if (e.err != ETIMEDOUT || (w->timeout_s >= 0 && waited > w->timeout_s))
			return fail_verb(w->json, e.err, e.text);
		show_silence(w, e.text);
		return -1;
	}
	state = control_state(file);
	if (!*generation && json_object_get(file, "generation"))
		*generation = strdup(json_get_text(file, "generation", ""));
	if (state >= w->wanted && state <= CKPTFS_COMMITTED)
		status = arrived(w, file);
	else if (state >= CKPTFS_FAILED)
		status = ended_badly(w, p, file);
	else if (w->timeout_s >= 0 && waited > w->timeout_s)
		status = timed_out(w, file);
	else if (waited * 1000 > PATIENCE_MS)
		show_waiting(w, file);
	json_decref(file);
	return status;
}

static int do_wait(struct wait *w)
{
	uint64_t start = clock_mono_ns();
	__cleanup_free char *generation = NULL;
	int poll_ms = FIRST_POLL_MS, status;
	struct given_path p;
	struct error e;

	if (place_find(&p, w->path, &e))
		return fail_verb(w->json, e.err, e.text);
	for (;; poll(NULL, 0, poll_ms)) {
		status = look(w, &p, &generation, (double)(clock_mono_ns() - start) / NSEC_PER_SEC);
		if (status >= 0)
			return status;
		if (poll_ms < MOST_POLL_MS)
			poll_ms *= 2;
	}
}

/* "90", "1.5", "90s", "2m", "1h" */
static bool take_seconds(const char *text, double *s)
{
	char *end;

	*s = strtod(text, &end);
	if (end == text || !(*s >= 0))
		return false;
	if (*end && strchr("smh", *end)) {
		*s *= *end == 'h' ? 3600 : *end == 'm' ? 60 : 1;
		end++;
	}
	return !*end;
}

static const struct option longs[] = {{"help", no_argument, NULL, 'h'},
				      {"json", no_argument, NULL, 'j'},
				      {"state", required_argument, NULL, 's'},
				      {"timeout", required_argument, NULL, 't'},
				      {NULL, 0, NULL, 0}};

static int run_wait(const struct verb *v, int argc, char **argv)
{
	struct wait w = {.timeout_s = -1};
	const char *state = "committed";
	int c;

	while ((c = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
		if (c == 'h')
			return verb_help(v);
		if (c == 'j') {
			w.json = true;
		} else if (c == 's') {
			state = optarg;
		} else if (c == 't') {
			if (!take_seconds(optarg, &w.timeout_s))
				return usage_error(v, "--timeout takes 30, 30s, 5m or 1h, not '%s'",
						   optarg);
		} else {
			return option_error(v, argv);
		}
	}
	w.wanted = state_of(state);
	if (w.wanted == CKPTFS_ABSENT)
		return usage_error(v, "--state is captured, durable or committed, not '%s'", state);
	if (argc - optind != 1)
		return usage_error(v, "give one path in a mount, or of a backing");
	w.path = argv[optind];
	return do_wait(&w);
}

const struct verb verb_wait = {
	.name = "wait",
	.args = "[--state STATE] [--timeout TIME] [--json] PATH",
	.summary = "wait until the checkpoint is committed",
	.help = "Waits for the save that is the newest when the command starts; for a path that "
		"does not\n"
		"exist yet, for the next. Exit 0 when it is there; 1 if it failed, was removed, or "
		"the time\n"
		"is up: then what is missing is said. Exit 1 at once for what is never committed: "
		"an\n"
		"ordinary file or directory, or what no mount has saved.\n"
		"\n"
		"  --state STATE        captured, durable or committed (committed)\n"
		"  --timeout TIME       how long at most: 30 or 30s, 5m, 1h (without limit)\n"
		"  --json               for machines\n",
	.longs = longs,
	.run = run_wait,
};
