/* SPDX-License-Identifier: MIT */
/* ckptfs why: tells what one file or checkpoint waits for, or why it failed. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/base/json.h"
#include "engine/base/message.h"
#include "fs/cmd/cmd.h"
#include "fs/nearest.h"
#include "fs/show.h"

/* --- a state in words: one function prints each --- */

static void print_times(const json_t *file)
{
	char age[SHOW_MAX];

	printf("begun %s ago by uid %lld",
	       show_age(age, json_real_value(json_object_get(file, "age_s"))),
	       (long long)json_get_int(file, "uid", 0));
	if (json_object_get(file, "job"))
		printf(", of job %s", json_get_text(file, "job", ""));
	putchar('\n');
}

static void print_shared(const json_t *file)
{
	char shared[1024];

	if (json_object_get(file, "shared"))
		printf("  %s\n",
		       show_shared(shared, sizeof(shared), json_object_get(file, "shared")));
	if (json_object_get(file, "note"))
		printf("  %s\n", json_get_text(file, "note", ""));
}

/* open, sealed, durable */
static void print_saving(const json_t *file)
{
	json_int_t size = json_get_int(file, "size", 0),
		   dirty = json_get_int(file, "dirty_bytes", 0);
	const char *waits_for = json_get_text(file, "waits_for", "its commit");
	bool part = !strcmp(json_get_text(file, "kind", ""), "part");
	char stored[SHOW_MAX], all[SHOW_MAX];

	printf("  %s%s\n", json_is_true(json_object_get(file, "directory")) ? "it waits for: " : "",
	       waits_for);
	printf("  %s of %s stored", show_size(stored, (double)(size > dirty ? size - dirty : 0)),
	       show_size(all, (double)size));
	if (json_object_get(file, "age_s")) {
		fputs("; ", stdout);
		print_times(file);
	} else {
		putchar('\n');
	}
	if (part)
		printf("  it is a part of a checkpoint, and is committed with that\n");
	else if (json_is_true(json_object_get(file, "replaces")))
		printf("  until it is committed the backing has what had this name before\n");
	else
		printf("  until it is committed the backing has nothing of this name\n");
	print_shared(file);
}

static void print_committed(const json_t *file)
{
	bool modified = json_is_true(json_object_get(file, "modified"));

	if (!strcmp(json_get_text(file, "kind", ""), "part"))
		printf("  it is a part of a committed checkpoint; `ckptfs verify` checks its "
		       "bytes\n");
	else if (!strcmp(json_get_text(file, "kind", ""), "pointer"))
		printf("  it names another file or directory, and is on the backing; `ckptfs why` "
		       "tells of that\n");
	else if (modified)
		printf("  it was changed since it was saved, so nothing vouches for its bytes; "
		       "`ckptfs verify` tells more\n");
	else
		printf("  it is on the backing, whole when it was saved, and waits for nothing; "
		       "`ckptfs verify` checks its bytes\n");
}

static void print_failed(const json_t *file)
{
	printf("  %s\n", json_get_text(file, "failure", "another user's: its reason is not shown"));
}

static void print_dropped(const json_t *file)
{
	(void)file;
	printf("  a program removed or replaced it before it was committed\n");
}

static void print_removed(const json_t *file)
{
	printf("  it waits for %s\n  it was removed; the backing has it until then; ",
	       json_get_text(file, "waits_for", ""));
	print_times(file);
}

static void print_foreign(const json_t *file)
{
	if (json_object_get(file, "rule"))
		printf("  the rule %s claims it; ", json_get_text(file, "rule", ""));
	else
		printf("  ");
	printf("it has no digest: no mount saved it as a checkpoint, and nothing vouches that it "
	       "is\n"
	       "  whole. `ckptfs fsck --adopt` records digests of what can be shown to be whole\n");
}

static void print_ordinary(const json_t *file)
{
	char size[SHOW_MAX];

	if (json_get_int(file, "dirty_bytes", 0))
		printf("  %s are in the cache only: closing it gives them to the backing, fsync "
		       "makes them durable\n",
		       show_size(size, (double)json_get_int(file, "dirty_bytes", 0)));
	printf("  no rule claims this name: it is not atomic, and has no digest. Call it *.pt or\n"
	       "  *.safetensors, or add a rule (ckptfs-rules(5))\n");
}

static void print_directory(const json_t *file)
{
	(void)file;
	printf("  no rule claims it: the checkpoints in it are saved one by one, not together.\n"
	       "  `ckptfs ls` lists them; ckptfs-rules(5) tells how to save it as one\n");
}

static void print_absent(const json_t *file)
{
	printf("  there is nothing of this name\n");
	if (json_object_get(file, "nearest"))
		printf("  the nearest name there: %s\n", json_get_text(file, "nearest", ""));
}

static const struct {
	const char *state, *title;
	void (*print)(const json_t *file);
} states[] = {
	{"open", "open (being written)", print_saving},
	{"sealed", "sealed (closed, being stored)", print_saving},
	{"durable", "durable (stored, not yet committed)", print_saving},
	{"committed", "committed", print_committed},
	{"failed", "failed (not committed)", print_failed},
	{"dropped", "dropped", print_dropped},
	{"removed", "removed (kept until the next commit)", print_removed},
	{"removing", "removed (kept until the next commit)", print_removed},
	{"foreign", "foreign (not saved as a checkpoint)", print_foreign},
	{"ordinary", "ordinary file, NOT protected", print_ordinary},
	{"directory", "directory", print_directory},
	{"absent", "absent", print_absent},
};

void print_file(const json_t *file)
{
	const char *path = json_get_text(file, "path", "?");
	const char *state = json_get_text(file, "state", json_get_text(file, "kind", "?"));
	char shown[PATH_MAX];
	size_t i;

	show_name(shown, sizeof(shown), *path ? path : "/");
	for (i = 0; i < ARRAY_SIZE(states); i++) {
		if (strcmp(states[i].state, state))
			continue;
		printf("%s: %s\n", shown, states[i].title);
		states[i].print(file);
		return;
	}
	printf("%s: %s\n", shown, state); /* a newer daemon's */
}

static int do_why(const char *path, bool json)
{
	char text[MESSAGE_MAX], near[PATH_MAX];
	struct given_path p;
	struct error e;
	json_t *file;

	if (place_find(&p, path, &e) || place_ask(&p, NULL, &file, &e))
		return fail_verb(json, e.err, e.text);
	if (!strcmp(json_get_text(file, "kind", ""), "unreadable")) {
		MESSAGE(text, FILE_UNREADABLE, path, json_get_text(file, "reason", "?"));
		json_decref(file);
		return fail_verb(json, EACCES, text);
	}
	if (!strcmp(json_get_text(file, "kind", ""), "absent") && nearest_path(path, near))
		json_object_set_new(file, "nearest", json_text(near));
	if (json) {
		put_json(file);
	} else {
		print_file(file);
	}
	json_decref(file);
	return EXIT_DONE;
}

static int run_why(const struct verb *v, int argc, char **argv)
{
	bool json;
	int status;

	if (!take_help_or_json(v, argc, argv, &json, &status))
		return status;
	if (argc - optind != 1)
		return usage_error(v, "give one path in a mount, or of a backing");
	return do_why(argv[optind], json);
}

const struct verb verb_why = {
	.name = "why",
	.args = "[--json] PATH",
	.summary = "tell what a save waits for, or why it failed",
	.help = "For a file that is being saved: who still writes it and what is left to do. For "
		"one that\n"
		"failed: the reason. PATH may also lie in a backing: then the mount of it on this "
		"host\n"
		"answers, or, where there is none, what is recorded there.\n"
		"\n"
		"  --json               for machines\n",
	.longs = help_or_json,
	.run = run_why,
};
