/* SPDX-License-Identifier: MIT */
/* ckptfs version: shows what this binary is, and what it found on this host. */
#include <errno.h>
#define FUSE_USE_VERSION 314
#include <fuse_lowlevel.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "client/ckptfs_abi.h"
#include "engine/backing/backing.h"
#include "engine/backing/creds.h"
#include "engine/base/message.h"
#include "engine/format/format.h"
#include "fs/cmd/cmd.h"

static const char *device_state(void)
{
	FILE *f = fopen("/dev/fuse", "r+e");

	if (!f)
		return strerror(errno);
	fclose(f);
	return "usable";
}

static json_t *describe(void)
{
	struct utsname u;

	uname(&u);
	return json_pack("{s:s, s:i, s:i, s:s, s:s, s:s}", "version", CKPTFS_VERSION, "abi",
			 CKPTFS_ABI_VERSION, "format", FORMAT_VERSION, "libfuse", fuse_pkgversion(),
			 "kernel", u.release, "/dev/fuse", device_state());
}

static void print_features(const struct features *f)
{
	static const char *const words[] = {"known once mounted", "no", "yes", "turned off"};
	size_t i;

	printf("\nfeatures of this kernel and %s:\n", "the current directory");
	for (i = 0; i < NR_FEATURES; i++)
		printf("  %-14s %-19s without it: %s\n", feature_names[i], words[f->state[i]],
		       feature_fallbacks[i]);
}

static int run_version(const struct verb *v, int argc, char **argv)
{
	struct backing b;
	struct error e;
	json_t *d;
	const char *key;
	json_t *value;
	bool json;
	int status;

	if (!take_help_or_json(v, argc, argv, &json, &status))
		return status;
	if (argc > optind)
		return usage_error(v, "takes no argument but --json");
	d = describe();
	if (!backing_open(&b, ".", &e)) {
		features_probe(b.features, b.root_fd, true);
		features_set(b.features, FEATURE_ACT_AS_CALLER, creds_init(true));
		json_object_set_new(d, "features", features_to_json(b.features));
	}
	if (json) {
		put_json(d);
	} else {
		puts("ckptfs " CKPTFS_VERSION);
		json_object_del(d, "version");
		json_object_foreach (d, key, value) {
			if (json_is_string(value))
				printf("%-10s %s\n", key, json_string_value(value));
			else if (json_is_integer(value))
				printf("%-10s %lld\n", key, (long long)json_integer_value(value));
		}
		print_features(b.features);
	}
	backing_close(&b);
	json_decref(d);
	return EXIT_DONE;
}

const struct verb verb_version = {
	.name = "version",
	.args = "[--json]",
	.summary = "show versions, and what this host can do",
	.help = "Features are those of the kernel and of the current directory's filesystem;\n"
		"`ckptfs status PATH` tells them for a mount. Some are known only once something\n"
		"is mounted. `ckptfs --version` prints the version alone.\n"
		"\n"
		"  --json               for machines\n",
	.longs = help_or_json,
	.run = run_version,
};
