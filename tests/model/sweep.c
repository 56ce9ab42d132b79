/* SPDX-License-Identifier: MIT */
#include "tests/model/sweep.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/backing/dirwalk.h"
#include "engine/format/commit.h"
#include "engine/format/names.h"
#include "engine/redo/trash.h"
#include "tests/backing/peek.h"
#include "tests/model/model.h"

static bool fsck_knows(const char *name)
{
	return name_is_staging(name) || name_is_trash(name);
}

static void sweep_below(struct backing *b, const char *path)
{
	__cleanup_dirwalk struct dirwalk w = DIRWALK_CLOSED;

	dirwalk_begin_fd(&w, b, peek_open(b, path));
	while (!is_wrong() && dirwalk_next(&w)) {
		char below[PATH_MAX];

		snprintf(below, sizeof(below), "%s/%s", path, w.name);
		if (fsck_knows(w.name)) {
			int err = trash_remove(b, NULL, w.fd, w.name);

			if (err)
				wrong("fsck cannot remove %s: %s", below, strerror(-err));
		} else if (name_is_reserved(w.name) && strcmp(w.name, COMMIT_FILE)) {
			wrong("%s is hidden, and fsck does not know it", below);
		} else if (w.type == DT_DIR) {
			sweep_below(b, below);
		}
	}
}

void sweep(struct backing *b)
{
	char path[64];

	sweep_below(b, "run");
	snprintf(path, sizeof(path), ".ckptfs/txn/%u", (unsigned)getuid());
	if (!is_wrong() && peek_names(b, path, false))
		wrong("after the recovery %zu records are left", peek_names(b, path, false));
}
