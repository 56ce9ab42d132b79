/* SPDX-License-Identifier: MIT */
/* ckptfs doctor: checks host and backing, and tells what a save will cost. */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "fs/cmd/cmd.h"
#include "fs/doctor.h"

static int do_doctor(const char *backing, bool json)
{
	struct doctor d = {.checks = json ? json_array() : NULL};
	int sig = 0;

	doctor_host(&d);
	if (backing)
		sig = doctor_backing(&d, backing);
	if (sig) {
		signal(sig, SIG_DFL);
		raise(sig);
	}
	if (json) {
		json_t *answer = json_pack("{s:b, s:o, s:o?}", "ok", !d.failed, "checks", d.checks,
					   "save", d.save);

		put_json(answer);
		json_decref(answer);
	} else {
		json_decref(d.save);
	}
	return d.failed ? EXIT_NO : EXIT_DONE;
}

static int run_doctor(const struct verb *v, int argc, char **argv)
{
	bool json;
	int status;

	if (!take_help_or_json(v, argc, argv, &json, &status))
		return status;
	if (argc - optind > 1)
		return usage_error(v, "give one backing, or none");
	return do_doctor(argv[optind], json);
}

const struct verb verb_doctor = {
	.name = "doctor",
	.args = "[--json] [BACKING]",
	.summary = "check that host and directory are fit",
	.help = "One line for each thing looked at: ok, warn (works, but less well or for fewer) "
		"or\n"
		"fail, with a remedy below it. With BACKING, a directory that is or will be\n"
		"mounted, also what its filesystem can do, and what a save costs there: plain, by\n"
		"an unmodified program on a mount, and lazily. Six times 128 MiB and some small\n"
		"files are written, hidden, and removed again. Run it as the user who will mount.\n"
		"\n"
		"Exit 0 if nothing fails, else 1.\n"
		"\n"
		"  --json               for machines\n",
	.longs = help_or_json,
	.run = run_doctor,
};
