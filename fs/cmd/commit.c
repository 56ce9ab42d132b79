/* SPDX-License-Identifier: MIT */
/* ckptfs commit: says that a checkpoint is whole, or that it never will be. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/engine.h"
#include "fs/cmd/cmd.h"
#include "fs/control_socket.h"

static int do_commit(const char *path, bool abandon)
{
	char resolved[PATH_MAX], below[2 * PATH_MAX], text[MESSAGE_MAX];
	struct mount_entry m;
	struct error e;
	json_t *answer;

	if (!find_mount(path, &m))
		return EXIT_NO;
	if (mountinfo_resolve(path, resolved)) {
		MESSAGE(text, NOT_A_MOUNT, path);
		complain(text);
		return EXIT_NO;
	}
	/* A bind mount may show only a part of the filesystem. */
	snprintf(below, sizeof(below), "%s%s", m.root, resolved + strlen(m.path));
	if (control_request(&m,
			    json_pack("{s:s, s:o, s:b}", "verb", "commit", "path",
				      json_text(below + strspn(below, "/")), "abandon", abandon),
			    CONTROL_DO_MS, &answer, NULL, NULL, &e)) {
		complain(e.text);
		return EXIT_NO;
	}
	json_decref(answer);
	return EXIT_DONE;
}

static int run_commit(const struct verb *v, int argc, char **argv)
{
	static const struct option longs[] = {{"help", no_argument, NULL, 'h'},
					      {"abandon", no_argument, NULL, 'a'},
					      {NULL, 0, NULL, 0}};
	bool abandon = false;
	int c;

	while ((c = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
		if (c == 'h')
			return verb_help(v);
		if (c != 'a')
			return usage_error(v, "cannot use these options");
		abandon = true;
	}
	if (argc - optind != 1)
		return usage_error(v, "give one path in a mount");
	return do_commit(argv[optind], abandon);
}

const struct verb verb_commit = {
	.name = "commit",
	.args = "[--abandon] PATH",
	.summary = "commit the checkpoint PATH now, whatever its rule still waits for",
	.help = "For a checkpoint of many files whose end its rule does not see. It is committed "
		"as soon\n"
		"as every file of it is closed and on the backing; `ckptfs wait` waits for that.\n"
		"\n"
		"  --abandon            give it up instead: it is hidden, and never committed\n",
	.run = run_commit,
};
