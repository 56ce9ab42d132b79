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
#include "engine/unit/rivals.h"
#include "engine/unit/rules.h"
#include "engine/unit/shards.h"

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
static bool parse_file(struct checkpoint *cp, const json_t *o, struct filed *f,
		       char label[NAME_MAX + 1])
{
	const char *xxh3 = json_get_text(o, "xxh3", ""), *node = json_get_text(o, "node", "");
	json_int_t rank = json_get_int(o, "rank", -1);

	memset(f, 0, sizeof(*f));
	if (!commit_is_hex(xxh3) || !*node || strlen(node) > NAME_MAX || rank < -1 ||
	    rank >= INT_MAX)
		return false;
	f->id = (struct inode_id){.dev = cp->id.dev,
				  .ino = (uint64_t)json_get_int(o, "ino", 0),
				  .btime_ns = (uint64_t)json_get_int(o, "btime_ns", 0)};
	f->size = (uint64_t)json_get_int(o, "size", 0);
	f->mtime_ns = (uint64_t)json_get_int(o, "mtime_ns", 0);
	f->rank = (int)rank;
	f->by_handle = json_is_true(json_object_get(o, "by_handle"));
	memcpy(f->xxh3, xxh3, sizeof(f->xxh3));
	f->node = strcpy(label, node);
	return true;
}

/* Lines of tensors, which are of the file of the last line before them that is none. */
static bool is_of_tensor(const json_t *o)
{
	return json_object_get(o, "at");
}

/* Lines of files that have taken the name of another, of which nothing else is said there. */
static bool is_of_rival(const json_t *o)
{
	return json_object_get(o, "over");
}

static json_t *line_of_rival(const struct rival *r)
{
	return json_pack("{s:I, s:I, s:[I, I]}", "ino", (json_int_t)r->own.ino, "btime_ns",
			 (json_int_t)r->own.btime_ns, "over", (json_int_t)r->old.ino,
			 (json_int_t)r->old.btime_ns);
}

static void take_rival(struct checkpoint *cp, const json_t *o)
{
	const json_t *over = json_object_get(o, "over");
	const struct inode_id own = {.dev = cp->id.dev,
				     .ino = (uint64_t)json_get_int(o, "ino", 0),
				     .btime_ns = (uint64_t)json_get_int(o, "btime_ns", 0)};
	const struct inode_id old = {.dev = cp->id.dev,
				     .ino = (uint64_t)json_integer_value(json_array_get(over, 0)),
				     .btime_ns =
					     (uint64_t)json_integer_value(json_array_get(over, 1))};

	rivals_add(cp, &own, &old);
}

static bool parse_tensor(const json_t *o, struct commit_tensor *t, struct commit_tensor_room *room)
{
	*t = (struct commit_tensor){.path = "-"}; /* that of its file */
	return !commit_tensor_from_json(o, t, room);
}

/* Calls @take with each line of what the node in @slot has listed. */
static int each_line(struct checkpoint *cp, uint32_t slot,
		     int (*take)(struct checkpoint *cp, const char *line, const json_t *o,
				 void *arg),
		     void *arg)
{
	__cleanup_file FILE *f = open_list(cp, slot);
	int err = f ? 0 : -errno;
	__cleanup_free char *line = malloc(COMMIT_LINE_MAX);

	if (!line)
		err = -ENOMEM;
	/* Who owns the checkpoint can write anything there: what is longer than any line comes in parts, which are none. */
	while (!err && fgets(line, COMMIT_LINE_MAX, f)) {
		json_t *o = json_loads(line, JSON_REJECT_DUPLICATES, NULL);

		err = take(cp, line, o, arg);
		json_decref(o);
	}
	if (!err && ferror(f))
		err = -EIO;
	return err;
}

static int copy_line(struct checkpoint *cp, const char *line, const json_t *o, void *to)
{
	struct commit_tensor_room room;
	struct commit_tensor t;
	char label[NAME_MAX + 1];
	struct filed f;
	bool ok = is_of_rival(o) ||
		  (is_of_tensor(o) ? parse_tensor(o, &t, &room) : parse_file(cp, o, &f, label));

	return !ok ? -EBADMSG : fputs(line, to) < 0 ? -EIO : 0;
}

/* The file whose tensors are being told. */
struct telling {
	struct filed file;	  /* node NULL: none yet */
	char label[NAME_MAX + 1]; /* its node's */
	struct tensor_places places;
};

static void end_file(struct checkpoint *cp, struct telling *t)
{
	if (t->file.node) {
		t->file.tensors = places_map(&t->places);
		checkpoint_add_filed(cp, &t->file);
	}
	places_free(&t->places);
	t->file.node = NULL;
}

static int take_tensor(struct checkpoint *cp, const json_t *o, struct telling *t)
{
	struct commit_tensor_room room;
	struct tensor_place place;
	struct commit_tensor line;

	if (!t->file.node || !parse_tensor(o, &line, &room))
		return -EBADMSG;
	if (cp->nr_told++ >= SHARDS_MAX)
		return 0;
	place = (struct tensor_place){.at = line.at, .from = line.from, .bytes = line.bytes};
	place.tensor = shard_tensor(&line);
	if (!place.tensor)
		return -ENOMEM;
	places_add(&t->places, &place);
	tensor_put(place.tensor);
	return 0;
}

static int take_line(struct checkpoint *cp, const char *line, const json_t *o, void *telling)
{
	struct telling *t = telling;

	(void)line;
	if (is_of_tensor(o))
		return take_tensor(cp, o, t);
	end_file(cp, t);
	if (is_of_rival(o)) {
		take_rival(cp, o);
		return 0;
	}
	return parse_file(cp, o, &t->file, t->label) ? 0 : -EBADMSG;
}

static int write_line(FILE *to, json_t *o)
{
	__cleanup_free char *line = o ? json_dumps(o, JSON_COMPACT) : NULL;

	json_decref(o);
	return !line ? -ENOMEM : fprintf(to, "%s\n", line) < 0 ? -EIO : 0;
}

static int write_file(struct checkpoint *cp, FILE *to, const struct filed *f)
{
	int err = write_line(to, line_of(cp, f));
	size_t i;

	for (i = 0; !err && f->tensors && i < f->tensors->nr; i++) {
		const struct shard s = {.place = f->tensors->list[i]};
		struct commit_tensor t = shard_line(&s);

		err = write_line(to, commit_tensor_to_json(&t));
	}
	return err;
}

static int write_lines(struct checkpoint *cp, FILE *to)
{
	struct filed *filed;
	size_t nr, i;
	int err = checkpoint_take_filed(cp, &filed, &nr);

	for (i = 0; !err && i < nr; i++)
		err = write_file(cp, to, &filed[i]);
	filed_free(filed, nr);
	return err;
}

static int write_rivals(struct checkpoint *cp, FILE *to)
{
	struct rival *rivals;
	size_t nr, i;
	int err = rivals_take(cp, &rivals, &nr);

	for (i = 0; !err && i < nr; i++)
		err = write_line(to, line_of_rival(&rivals[i]));
	free(rivals);
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
	if (!err)
		err = write_rivals(cp, to);
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

	cp->nr_told = 0;
	for (i = 0; !err && i < nr; i++) {
		struct telling t = {0};

		err = each_line(cp, slots[i], take_line, &t);
		end_file(cp, &t);
	}
	for (i = 0; !err && i < nr; i++)
		remove_list(cp, slots[i]);
	return err;
}
