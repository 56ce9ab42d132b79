/* SPDX-License-Identifier: MIT */
/* What `ckptfs fsck` says of each find, and how it removes one. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/json.h"
#include "engine/base/message.h"
#include "fs/cmd/fsck_inside.h"
#include "fs/show.h"

static const char *const kinds[NR_LEFTOVER_KINDS] = {
	[LEFT_UNFINISHED] = "unfinished", [LEFT_UNPUBLISHED] = "unpublished",
	[LEFT_TRASH] = "trash",		  [LEFT_FOREIGN] = "foreign",
	[LEFT_UNKNOWN] = "unknown",	  [LEFT_MOUNT] = "mount",
	[LEFT_UNREADABLE] = "unreadable", [LEFT_DECIDED] = "decided",
	[LEFT_FOREIGN_UNIT] = "foreign",
}; /* of leftovers */

void fsck_tell(struct fsck *f, const struct leftover *l, const char *action, const char *hex,
	       const char *message)
{
	double age_s = ((double)f->now_ns - (double)l->mtime_ns) / NSEC_PER_SEC;
	bool has_age = l->mtime_ns;
	char size[SHOW_MAX] = "", age[SHOW_MAX] = "", path[PATH_MAX];

	progress_hide(&f->progress);
	if (f->list) {
		json_t *o = json_pack("{s:s, s:I, s:f, s:s, s:s?, s:o?}", "kind", kinds[l->kind],
				      "size", (json_int_t)l->size, "age_s", has_age ? age_s : 0.0,
				      "action", action, "xxh3", hex, "message",
				      message ? json_text(message) : NULL);

		show_path_json(o, l->path);
		json_array_append_new(f->list, o);
	} else {
		if (has_age) {
			show_size(size, (double)l->size);
			show_age(age, age_s);
		}
		printf("%-11s %10s %8s  %-12s  %s\n", kinds[l->kind], size, age, action,
		       show_name(path, sizeof(path), l->path));
	}
	fflush(stdout);
	if (message)
		complain(message);
}

void fsck_discard(struct fsck *f, const struct leftover *l)
{
	char text[MESSAGE_MAX], path[PATH_MAX];
	int err;

	progress_show(&f->progress, "removing %s", show_name(path, sizeof(path), l->path));
	err = leftover_remove(l);
	if (!err || err == -ENOENT) {
		f->nr_removed++;
		f->bytes_removed += l->size;
		fsck_tell(f, l, "removed", NULL, NULL);
		return;
	}
	f->nr_left++;
	f->bytes_left += l->size;
	MESSAGE(text, FSCK_REMOVE, show_name(path, sizeof(path), l->path), strerror(-err));
	fsck_tell(f, l, "failed", NULL, text);
}
