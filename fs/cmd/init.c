/* SPDX-License-Identifier: MIT */
/* ckptfs init: makes BACKING/.ckptfs. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/backing/backing.h"
#include "engine/base/message.h"
#include "engine/format/format.h"
#include "fs/cmd/cmd.h"

static int do_init(const char *path)
{
	struct backing b;
	struct format f = {0};
	struct error e;
	char resolved[PATH_MAX];
	struct mount_entry m;
	int err;

	umask(0); /* modes are given in full */
	if (!mountinfo_resolve(path, resolved) && mountinfo_find_ckptfs(resolved, &m)) {
		FAIL(&e, EBUSY, BACKING_IS_MOUNT, path, m.path);
		complain(e.text);
		return EXIT_NO;
	}
	err = backing_open(&b, path, &e);
	if (!err)
		err = format_check_nested(b.root_fd, b.path, &e);
	if (!err)
		err = format_init(b.root_fd, b.path, &e);
	if (!err)
		err = format_read(b.root_fd, b.path, &f, &e);
	if (err)
		complain(e.text);
	else
		printf("%s is ready, uuid %s\n", b.path, f.uuid);
	backing_close(&b);
	return err ? EXIT_NO : EXIT_DONE;
}

static const struct option longs[] = {{"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};

static int run_init(const struct verb *v, int argc, char **argv)
{
	int c = getopt_long(argc, argv, "h", longs, NULL);

	if (c == 'h')
		return verb_help(v);
	if (c != -1)
		return option_error(v, argv);
	if (argc - optind != 1)
		return usage_error(v, "give one directory");
	return do_init(argv[optind]);
}

const struct verb verb_init = {
	.name = "init",
	.args = "BACKING",
	.summary = "make a directory ready for ckptfs",
	.help = "Makes BACKING/.ckptfs with the format version and a uuid. The first mount does "
		"the\n"
		"same if it may. Where jobs may not write to BACKING itself, its owner runs this\n"
		"once. Running it again changes nothing, and your files are not touched.\n",
	.longs = longs,
	.run = run_init,
};
