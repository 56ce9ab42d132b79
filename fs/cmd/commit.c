/* SPDX-License-Identifier: MIT */
/* ckptfs commit: declares a checkpoint whole, or gives it up. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/base/json.h"
#include "engine/base/message.h"
#include "fs/cmd/cmd.h"
#include "fs/control_socket.h"

static int do_commit(const char *path, bool abandon, bool json)
{
	json_t *request, *answer;
	struct given_path p;
	struct error e;
	int err = place_find(&p, path, &e);

	if (!err && !p.mounted)
		err = FAIL(&e, EINVAL, NOT_A_MOUNT, path);
	if (err)
		return fail_verb(json, e.err, e.text);
	request = json_pack("{s:s, s:o, s:b}", "verb", "commit", "path", json_text(p.below),
			    "abandon", abandon);
	if (control_request(&p.mount, request, CONTROL_DO_MS, &answer, NULL, NULL, &e))
		return fail_verb(json, e.err, e.text);
	json_decref(answer);
	if (json) {
		answer = json_pack("{s:b, s:o}", "ok", 1, "path", json_text(path));
		put_json(answer);
		json_decref(answer);
	}
	return EXIT_DONE;
}

static const struct option longs[] = {{"help", no_argument, NULL, 'h'},
				      {"json", no_argument, NULL, 'j'},
				      {"abandon", no_argument, NULL, 'a'},
				      {NULL, 0, NULL, 0}};

static int run_commit(const struct verb *v, int argc, char **argv)
{
	bool abandon = false, json = false;
	int c;

	while ((c = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
		if (c == 'h')
			return verb_help(v);
		if (c == '?')
			return option_error(v, argv);
		if (c == 'j')
			json = true;
		else
			abandon = true;
	}
	if (argc - optind != 1)
		return usage_error(v, "give one path in a mount");
	return do_commit(argv[optind], abandon, json);
}

const struct verb verb_commit = {
	.name = "commit",
	.args = "[--abandon] [--json] PATH",
	.summary = "finish, or give up, what no rule finishes",
	.help = "For a checkpoint of many files whose end its rule does not see. It is committed "
		"as soon\n"
		"as every file of it is closed and on the backing; `ckptfs wait` waits for that.\n"
		"\n"
		"  --abandon            give it up instead: it is hidden, and never committed\n"
		"  --json               for machines\n",
	.longs = longs,
	.run = run_commit,
};
