/* SPDX-License-Identifier: MIT */
/* ckptfs why: what one file waits for, or why it failed. */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "engine/engine.h"
#include "fs/cmd/cmd.h"
#include "fs/show.h"

void print_file(const json_t *file)
{
	char shared[1024];
	const char *kind = json_get_text(file, "kind", "?");
	const char *state = json_get_text(file, "state", kind);

	printf("%s: %s\n",
	       *json_get_text(file, "path", "?") ? json_get_text(file, "path", "?") : "/", state);
	if (json_object_get(file, "failure"))
		printf("  %s\n", json_get_text(file, "failure", ""));
	else if (!strcmp(state, "removed"))
		printf("  it waits for %s\n  removed %.1f s ago by uid %lld, of job '%s'; the "
		       "backing has it until then\n",
		       json_get_text(file, "waits_for", ""),
		       json_real_value(json_object_get(file, "age_s")),
		       (long long)json_get_int(file, "uid", 0), json_get_text(file, "job", ""));
	else if (json_object_get(file, "waits_for"))
		printf("  %s\n  begun %.1f s ago by uid %lld; %lld bytes, of which %lld are in the "
		       "cache only\n"
		       "  it is published when every process that wrote it has closed it and its "
		       "bytes are on\n"
		       "  the backing; until then the backing shows what had the name before\n",
		       json_get_text(file, "waits_for", ""),
		       json_real_value(json_object_get(file, "age_s")),
		       (long long)json_get_int(file, "uid", 0),
		       (long long)json_get_int(file, "size", 0),
		       (long long)json_get_int(file, "dirty_bytes", 0));
	if (json_object_get(file, "shared"))
		printf("  %s\n",
		       show_shared(shared, sizeof(shared), json_object_get(file, "shared")));
	else if (json_is_true(json_object_get(file, "foreign")))
		printf("  whole as far as is known, but not written by ckptfs: it has no digest to "
		       "verify\n");
	else if (!strcmp(state, "dropped"))
		printf("  a program removed or replaced it before it was published\n");
	else if (!strcmp(kind, "directory"))
		printf("  it waits for nothing; ask for the files in it\n");
	else if (!strcmp(kind, "unit"))
		printf("  it waits for nothing; `ckptfs verify` checks its bytes\n");
	else if (!strcmp(kind, "file"))
		printf("  an ordinary file: closing it gives it to the backing, fsync makes it "
		       "durable\n");
	else
		printf("  %s\n", json_get_text(file, "reason", "there is no such file"));
}

static int run_why(const struct verb *v, int argc, char **argv)
{
	static const struct option longs[] = {{"help", no_argument, NULL, 'h'},
					      {"json", no_argument, NULL, 'j'},
					      {NULL, 0, NULL, 0}};
	struct mount_entry m;
	bool json = false;
	struct error e;
	json_t *file;
	int c;

	while ((c = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
		if (c == 'h')
			return verb_help(v);
		if (c != 'j')
			return usage_error(v, "cannot use these options");
		json = true;
	}
	if (argc - optind != 1)
		return usage_error(v, "give one path in a mount");
	if (!find_mount(argv[optind], &m))
		return EXIT_NO;
	if (ask_file(&m, argv[optind], NULL, &file, &e)) {
		complain(e.text);
		return EXIT_NO;
	}
	if (!json && !strcmp(json_get_text(file, "kind", ""), "unreadable")) {
		char text[MESSAGE_MAX];

		MESSAGE(text, FILE_UNREADABLE, argv[optind], json_get_text(file, "reason", "?"));
		complain(text);
		json_decref(file);
		return EXIT_NO;
	}
	if (json) {
		json_dumpf(file, stdout, JSON_INDENT(2));
		putchar('\n');
	} else {
		print_file(file);
	}
	json_decref(file);
	return EXIT_DONE;
}

const struct verb verb_why = {
	.name = "why",
	.args = "[--json] PATH",
	.summary = "what PATH waits for, what ends that, or why it failed",
	.help = "For a file that is being saved: who still writes it and what is left to do. For "
		"one that\n"
		"failed: the reason.\n"
		"\n"
		"  --json               for machines\n",
	.run = run_why,
};
