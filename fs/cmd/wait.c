/* SPDX-License-Identifier: MIT */
/* ckptfs wait: until what becomes of one file is known, asked of the daemon. */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/engine.h"
#include "fs/cmd/cmd.h"
#include "fs/control_file.h"
#include "fs/control_socket.h"

#define FIRST_POLL_MS 5
#define MOST_POLL_MS  100
#define PATIENCE_MS   2000 /* before it is said what is waited for */

int ask_file(const struct mount_entry *m, const char *path, const char *generation, json_t **answer,
	     struct error *e)
{
	char resolved[PATH_MAX], below[2 * PATH_MAX];
	json_t *request;

	*answer = NULL;
	if (mountinfo_resolve(path, resolved))
		return FAIL(e, EINVAL, NOT_A_MOUNT, path);
	/* A bind mount may show only a part of the filesystem. */
	snprintf(below, sizeof(below), "%s%s", m->root, resolved + strlen(m->path));
	request = json_pack("{s:s, s:o}", "verb", "file", "path", json_text(below));
	if (generation)
		json_object_set_new(request, "generation", json_string(generation));
	return control_request(m, request, CONTROL_ASK_MS, answer, NULL, NULL, e);
}

static const struct {
	const char *word;
	enum ckptfs_state state;
} states[] = {{"captured", CKPTFS_CAPTURED},
	      {"durable", CKPTFS_DURABLE},
	      {"committed", CKPTFS_COMMITTED}};

/* CKPTFS_ABSENT: none of them. */
static enum ckptfs_state state_of(const char *word)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(states); i++)
		if (!strcmp(states[i].word, word))
			return states[i].state;
	return CKPTFS_ABSENT;
}

static void show_waiting(const char *path, const json_t *file, bool *shown)
{
	if (!*shown)
		fprintf(stderr, "ckptfs: waiting for %s: %s\n", path, control_reason(file));
	*shown = true;
}

static void show_silence(const char *text, bool *shown)
{
	if (!*shown)
		complain(text);
	*shown = true;
}

static int timed_out(const char *path, const json_t *file, double timeout_s)
{
	char text[MESSAGE_MAX];

	MESSAGE(text, WAIT_TIMEOUT, path, timeout_s, control_reason(file));
	complain(text);
	return EXIT_NO;
}

static int ended_badly(const char *path, const json_t *file)
{
	char text[MESSAGE_MAX];

	if (!strcmp(json_get_text(file, "kind", ""), "unreadable"))
		MESSAGE(text, FILE_UNREADABLE, path, json_get_text(file, "reason", "?")),
			complain(text);
	else if (!strcmp(json_get_text(file, "kind", ""), "directory"))
		MESSAGE(text, WAIT_DIRECTORY, path), complain(text);
	else if (json_object_get(file, "failure"))
		complain(json_get_text(file, "failure", ""));
	else
		MESSAGE(text, WAIT_DROPPED, path, json_get_text(file, "state", "?")),
			complain(text);
	return EXIT_NO;
}

static int do_wait(const char *path, enum ckptfs_state wanted, double timeout_s)
{
	uint64_t start = clock_mono_ns();
	__cleanup_free char *generation = NULL;
	int poll_ms = FIRST_POLL_MS;
	struct mount_entry m;
	bool shown = false, silent = false;
	struct error e;

	if (!find_mount(path, &m))
		return EXIT_NO;
	for (;; poll(NULL, 0, poll_ms)) {
		double waited = (double)(clock_mono_ns() - start) / NSEC_PER_SEC;
		enum ckptfs_state state;
		json_t *file;
		int status = -1;

		if (ask_file(&m, path, generation, &file, &e)) {
			/* A busy daemon, perhaps, or its backing: as long as there is time. */
			if (e.err == ETIMEDOUT && (timeout_s < 0 || waited <= timeout_s)) {
				show_silence(e.text, &silent);
				continue;
			}
			complain(e.text);
			return EXIT_NO;
		}
		state = control_state(file);
		if (!generation && json_object_get(file, "generation"))
			generation = strdup(json_get_text(file, "generation", ""));
		if (state >= wanted && state <= CKPTFS_COMMITTED)
			status = EXIT_DONE;
		else if (state >= CKPTFS_FAILED)
			status = ended_badly(path, file);
		else if (timeout_s >= 0 && waited > timeout_s)
			status = timed_out(path, file, timeout_s);
		else if (waited * 1000 > PATIENCE_MS)
			show_waiting(path, file, &shown);
		json_decref(file);
		if (status >= 0)
			return status;
		if (poll_ms < MOST_POLL_MS)
			poll_ms *= 2;
	}
}

static int run_wait(const struct verb *v, int argc, char **argv)
{
	static const struct option longs[] = {{"help", no_argument, NULL, 'h'},
					      {"state", required_argument, NULL, 's'},
					      {"timeout", required_argument, NULL, 't'},
					      {NULL, 0, NULL, 0}};
	double timeout_s = -1;
	const char *state = "committed";
	char *end;
	int c;

	while ((c = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
		if (c == 'h')
			return verb_help(v);
		if (c == 's') {
			state = optarg;
		} else if (c == 't') {
			timeout_s = strtod(optarg, &end);
			if (end == optarg || *end || timeout_s < 0)
				return usage_error(v, "--timeout wants seconds");
		} else {
			return usage_error(v, "cannot use these options");
		}
	}
	if (state_of(state) == CKPTFS_ABSENT)
		return usage_error(v, "--state is captured, durable or committed, not '%s'", state);
	if (argc - optind != 1)
		return usage_error(v, "give one path in a mount");
	return do_wait(argv[optind], state_of(state), timeout_s);
}

const struct verb verb_wait = {
	.name = "wait",
	.args = "[--state STATE] [--timeout SECONDS] PATH",
	.summary = "wait until what is being saved as PATH is committed",
	.help = "Waits for the save that is the newest when the command starts; for a path that "
		"does not\n"
		"exist yet, for the next. Exit 0 when it is there; 1 if it failed, was removed, or "
		"the time\n"
		"is up: then what is missing is said.\n"
		"\n"
		"  --state STATE        captured, durable or committed (committed)\n"
		"  --timeout SECONDS    how long at most (without limit)\n",
	.run = run_wait,
};
