/* SPDX-License-Identifier: MIT */
#include "engine/unit/vote.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/base/json.h"
#include "engine/unit/internal.h"
#include "engine/unit/rules.h"

#define VOTE_NAME STAGING_PREFIX "vote-%u"

static FILE *open_list(struct checkpoint *cp, uint32_t slot)
{
	struct backing *b = cp->units->contents->backing;
	char name[STAGING_MAX];
	int pin, fd;
	FILE *f;

	snprintf(name, sizeof(name), VOTE_NAME, slot);
	pin = AS_OWNER_FIRST(&cp->owner, backing_pin(b, cp->fd, name));
	fd = pin < 0 ? pin
		     : AS_OWNER_FIRST(&cp->owner, backing_reopen(b, pin, O_RDONLY | O_NONBLOCK));
	if (pin >= 0)
		close(pin);
	f = fd < 0 ? NULL : fdopen(fd, "r");
	if (!f && fd >= 0)
		close(fd);
	errno = fd < 0 ? -fd : f ? 0 : ENOMEM;
	return f;
}

static void remove_list(struct checkpoint *cp, uint32_t slot)
{
	char name[STAGING_MAX];

	snprintf(name, sizeof(name), VOTE_NAME, slot);
	AS_OWNER_FIRST(&cp->owner,
		       backing_unlink(cp->units->contents->backing, cp->fd, name, false));
}

static json_t *line_of(const struct checkpoint *cp, const struct filed *f)
{
	json_t *o = json_pack("{s:I, s:I, s:I, s:I, s:i, s:s, s:b}", "ino", (json_int_t)f->id.ino,
			      "btime_ns", (json_int_t)f->id.btime_ns, "size", (json_int_t)f->size,
			      "mtime_ns", (json_int_t)f->mtime_ns, "rank", f->rank, "xxh3", f->xxh3,
			      "by_handle", f->by_handle);

	json_object_set_new(o, "node", json_text(f->node ? f->node : cp->units->node));
	return o;
}

/* Its label is put into @label. */
static bool parse_line(struct checkpoint *cp, const char *line, struct filed *f,
		       char label[NAME_MAX + 1])
{
	json_t *o = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
	const char *xxh3 = json_get_text(o, "xxh3", ""), *node = json_get_text(o, "node", "");
	json_int_t rank = json_get_int(o, "rank", -1);
	bool ok = commit_is_hex(xxh3) && *node && strlen(node) <= NAME_MAX && rank >= -1 &&
		  rank < INT_MAX;

	memset(f, 0, sizeof(*f));
	if (ok) {
		f->id = (struct inode_id){.dev = cp->id.dev,
					  .ino = (uint64_t)json_get_int(o, "ino", 0),
					  .btime_ns = (uint64_t)json_get_int(o, "btime_ns", 0)};
		f->size = (uint64_t)json_get_int(o, "size", 0);
		f->mtime_ns = (uint64_t)json_get_int(o, "mtime_ns", 0);
		f->rank = (int)rank;
		f->by_handle = json_is_true(json_object_get(o, "by_handle"));
		memcpy(f->xxh3, xxh3, sizeof(f->xxh3));
		f->node = strcpy(label, node);
	}
	json_decref(o);
	return ok;
}

/* Calls @take with each line of what the node in @slot has listed. */
static int each_line(struct checkpoint *cp, uint32_t slot,
		     int (*take)(struct checkpoint *cp, const char *line, void *arg), void *arg)
{
	__cleanup_file FILE *f = open_list(cp, slot);
	char *line = NULL;
	size_t room = 0;
	int err = f ? 0 : -errno;

	while (!err && getline(&line, &room, f) > 0)
		err = take(cp, line, arg);
	if (!err && ferror(f))
		err = -EIO;
	free(line);
	return err;
}

static int copy_line(struct checkpoint *cp, const char *line, void *to)
{
	char label[NAME_MAX + 1];
	struct filed f;

	return !parse_line(cp, line, &f, label) ? -EBADMSG : fputs(line, to) < 0 ? -EIO : 0;
}

static int take_line(struct checkpoint *cp, const char *line, void *arg)
{
	char label[NAME_MAX + 1];
	struct filed f;

	(void)arg;
	if (!parse_line(cp, line, &f, label))
		return -EBADMSG;
	checkpoint_add_filed(cp, &f);
	return 0;
}

static int write_lines(struct checkpoint *cp, FILE *to)
{
	struct filed *filed;
	size_t nr, i;
	int err = checkpoint_take_filed(cp, &filed, &nr);

	for (i = 0; !err && i < nr; i++) {
		json_t *o = line_of(cp, &filed[i]);
		__cleanup_free char *line = json_dumps(o, JSON_COMPACT);

		json_decref(o);
		err = !line ? -ENOMEM : fprintf(to, "%s\n", line) < 0 ? -EIO : 0;
	}
	filed_free(filed, nr);
	return err;
}

int vote_write(struct checkpoint *cp, uint32_t slot, const uint32_t *slots, unsigned nr)
{
	struct backing *b = cp->units->contents->backing;
	char name[STAGING_MAX];
	bool created;
	unsigned i;
	FILE *to;
	int fd, err;

	snprintf(name, sizeof(name), VOTE_NAME, slot);
	fd = AS_OWNER_FIRST(&cp->owner,
			    backing_create(b, cp->fd, name, O_RDWR | O_TRUNC, 0600, &created));
	if (fd < 0)
		return fd;
	to = fdopen(fd, "w");
	if (!to) {
		close(fd);
		return -ENOMEM;
	}
	err = write_lines(cp, to);
	for (i = 0; !err && i < nr; i++)
		err = each_line(cp, slots[i], copy_line, to);
	if (!err && fflush(to))
		err = -errno;
	if (!err)
		err = backing_sync(b, fd, false);
	fclose(to);
	if (!err)
		err = AS_OWNER_FIRST(&cp->owner, backing_sync_dir(b, cp->fd));
	for (i = 0; !err && i < nr; i++)
		remove_list(cp, slots[i]);
	return err;
}

int vote_gather(struct checkpoint *cp, const uint32_t *slots, unsigned nr)
{
	unsigned i;
	int err = 0;

	for (i = 0; !err && i < nr; i++)
		err = each_line(cp, slots[i], take_line, NULL);
	for (i = 0; !err && i < nr; i++)
		remove_list(cp, slots[i]);
	return err;
}
