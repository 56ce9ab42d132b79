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
#include "engine/record/shards.h"
#include "engine/unit/internal.h"

/* --- lists that are files --- */

static FILE *open_list(struct checkpoint *cp, uint32_t slot)
{
	struct backing b = backing_owner(cp->units->contents->backing, &cp->owner);
	char name[STAGING_MAX];
	int pin, fd;
	FILE *f;

	vote_name(name, slot);
	pin = backing_pin(&b, cp->fd, name);
	fd = pin < 0 ? pin : backing_reopen(&b, pin, O_RDONLY | O_NONBLOCK);
	if (pin >= 0)
		close(pin);
	f = fd < 0 ? NULL : fdopen(fd, "r");
	if (!f && fd >= 0)
		close(fd);
	errno = fd < 0 ? -fd : f ? 0 : ENOMEM;
	return f;
}

/* Removes also what the owner may have put there instead. */
void vote_remove(struct checkpoint *cp, const struct vote_list *lists, unsigned nr)
{
	struct backing b = backing_owner(cp->units->contents->backing, &cp->owner);
	char name[STAGING_MAX];

	while (nr--) {
		vote_name(name, lists[nr].slot);
		backing_unlink(&b, cp->fd, name, false);
	}
}

/* --- a list that is made --- */

/* A list that goes with the vote until it gets too long for that. */
struct list_writer {
	struct checkpoint *cp;
	uint32_t slot;
	json_t *lines; /* NULL: they are in the file */
	size_t len;    /* of the lines as text */
	FILE *file;    /* NULL: none yet */
};

static int write_text(struct list_writer *to, json_t *o)
{
	__cleanup_free char *line = json_dumps(o, JSON_COMPACT);

	return !line ? -ENOMEM : fprintf(to->file, "%s\n", line) < 0 ? -EIO : 0;
}

/* Makes the list a file. */
static int spill(struct list_writer *to)
{
	struct backing b = backing_owner(to->cp->units->contents->backing, &to->cp->owner);
	char name[STAGING_MAX];
	json_t *line;
	bool created;
	size_t i;
	int fd, err = 0;

	vote_name(name, to->slot);
	fd = backing_create(&b, to->cp->fd, name, O_RDWR | O_TRUNC, 0600, &created);
	if (fd < 0)
		return fd;
	to->file = fdopen(fd, "w");
	if (!to->file) {
		close(fd);
		return -ENOMEM;
	}
	json_array_foreach (to->lines, i, line)
		err = err ? err : write_text(to, line);
	json_decref(to->lines);
	to->lines = NULL;
	return err;
}

/* Takes over @o; NULL: no memory. */
static int write_line(struct list_writer *to, json_t *o)
{
	int err = o ? 0 : -ENOMEM;

	if (!err && to->lines) {
		to->len += json_dumpb(o, NULL, 0, JSON_COMPACT) + 1;
		if (to->len <= VOTE_SHORT)
			return json_array_append_new(to->lines, o) ? -ENOMEM : 0;
		err = spill(to);
	}
	if (!err)
		err = write_text(to, o);
	json_decref(o);
	return err;
}

/* Makes a list that is a file durable; *@lines goes with the vote. */
static int finish_list(struct list_writer *to, int err, json_t **lines)
{
	struct backing b = backing_owner(to->cp->units->contents->backing, &to->cp->owner);

	if (to->file) {
		if (!err && fflush(to->file))
			err = -errno;
		if (!err)
			err = backing_sync(&b, fileno(to->file), false);
		fclose(to->file);
		if (!err)
			err = backing_sync_dir(&b, to->cp->fd);
	}
	*lines = to->lines;
	if (err) {
		json_decref(to->lines);
		*lines = NULL;
	}
	return err;
}

/* --- lines --- */

static json_t *line_of(const struct checkpoint *cp, const struct filed *f)
{
	json_t *o = json_pack("{s:I, s:I, s:I, s:I, s:i, s:s, s:b}", "ino", (json_int_t)f->id.ino,
			      "btime_ns", (json_int_t)f->id.btime_ns, "size", (json_int_t)f->size,
			      "mtime_ns", (json_int_t)f->mtime_ns, "rank", f->rank, "xxh3", f->xxh3,
			      "by_handle", f->by_handle);

	json_object_set_new(o, "node", json_text(f->node ? f->node : cp->units->node));
	return o;
}

/* Fills @f; its label lies in @label. */
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

/* True for the line of a tensor, of the file whose line is the last before it. */
static bool is_of_tensor(const json_t *o)
{
	return json_object_get(o, "at");
}

/* True for a line that only says whose name a file has taken. */
static bool is_of_overwrite(const json_t *o)
{
	return json_object_get(o, "over");
}

static json_t *line_of_overwrite(const struct overwrite *r)
{
	return json_pack("{s:I, s:I, s:[I, I]}", "ino", (json_int_t)r->own.ino, "btime_ns",
			 (json_int_t)r->own.btime_ns, "over", (json_int_t)r->old.ino,
			 (json_int_t)r->old.btime_ns);
}

static void take_overwrite(struct checkpoint *cp, const json_t *o)
{
	const json_t *over = json_object_get(o, "over");
	const struct inode_id own = {.dev = cp->id.dev,
				     .ino = (uint64_t)json_get_int(o, "ino", 0),
				     .btime_ns = (uint64_t)json_get_int(o, "btime_ns", 0)};
	const struct inode_id old = {.dev = cp->id.dev,
				     .ino = (uint64_t)json_integer_value(json_array_get(over, 0)),
				     .btime_ns =
					     (uint64_t)json_integer_value(json_array_get(over, 1))};

	checkpoint_add_overwrite(cp, &own, &old);
}

static bool parse_tensor(const json_t *o, struct commit_tensor *t, struct commit_tensor_room *room)
{
	*t = (struct commit_tensor){.path = "-"}; /* the path of its file */
	return !commit_tensor_from_json(o, t, room);
}

typedef int take_fn(struct checkpoint *cp, json_t *o, void *arg);

static int each_in_file(struct checkpoint *cp, uint32_t slot, take_fn *take, void *arg)
{
	__cleanup_file FILE *f = open_list(cp, slot);
	int err = f ? 0 : -errno;
	__cleanup_free char *line = malloc(COMMIT_LINE_MAX);

	if (!line)
		err = -ENOMEM;
	/*
	 * The owner of the checkpoint can write anything there: what is longer than any line comes
	 * in parts, which are no lines.
	 */
	while (!err && fgets(line, COMMIT_LINE_MAX, f)) {
		json_t *o = json_loads(line, JSON_REJECT_DUPLICATES, NULL);

		err = take(cp, o, arg);
		json_decref(o);
	}
	if (!err && ferror(f))
		err = -EIO;
	return err;
}

/* Calls @take with each line of @list; NULL: no line. */
static int each_line(struct checkpoint *cp, const struct vote_list *list, take_fn *take, void *arg)
{
	json_t *o;
	size_t i;
	int err = 0;

	if (!list->lines)
		return each_in_file(cp, list->slot, take, arg);
	json_array_foreach (list->lines, i, o)
		err = err ? err : take(cp, o, arg);
	return json_is_array(list->lines) ? err : -EBADMSG;
}

static int copy_line(struct checkpoint *cp, json_t *o, void *to)
{
	struct commit_tensor_room room;
	struct commit_tensor t;
	char label[NAME_MAX + 1];
	struct filed f;
	bool ok = is_of_overwrite(o) ||
		  (is_of_tensor(o) ? parse_tensor(o, &t, &room) : parse_file(cp, o, &f, label));

	return ok ? write_line(to, json_incref(o)) : -EBADMSG;
}

/* The file whose tensors are being read. */
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

static int take_tensor(const json_t *o, struct telling *t)
{
	struct commit_tensor_room room;
	struct tensor_place place;
	struct commit_tensor line;

	if (!t->file.node || !parse_tensor(o, &line, &room))
		return -EBADMSG;
	place = shard_place(&line);
	place.tensor = shard_tensor(&line);
	if (!place.tensor)
		return -ENOMEM;
	places_add(&t->places, &place);
	tensor_put(place.tensor);
	return 0;
}

static int take_line(struct checkpoint *cp, json_t *o, void *telling)
{
	struct telling *t = telling;

	if (is_of_tensor(o))
		return take_tensor(o, t);
	end_file(cp, t);
	if (is_of_overwrite(o)) {
		take_overwrite(cp, o);
		return 0;
	}
	return parse_file(cp, o, &t->file, t->label) ? 0 : -EBADMSG;
}

static int write_file(struct checkpoint *cp, struct list_writer *to, const struct filed *f)
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

static int write_lines(struct checkpoint *cp, struct list_writer *to)
{
	struct filed *filed;
	size_t nr, i;
	int err = checkpoint_take_filed(cp, &filed, &nr);

	for (i = 0; !err && i < nr; i++)
		err = write_file(cp, to, &filed[i]);
	filed_free(filed, nr);
	return err;
}

static int write_overwrites(struct checkpoint *cp, struct list_writer *to)
{
	struct overwrites overwrites;
	int err = checkpoint_take_overwrites(cp, &overwrites);
	size_t i;

	for (i = 0; !err && i < overwrites.nr; i++)
		err = write_line(to, line_of_overwrite(&overwrites.list[i]));
	overwrites_finish(&overwrites);
	return err;
}

int vote_write(struct checkpoint *cp, uint32_t slot, const struct vote_list *lists, unsigned nr,
	       json_t **own)
{
	struct list_writer to = {.cp = cp, .slot = slot, .lines = json_array()};
	int err = to.lines ? write_lines(cp, &to) : -ENOMEM;
	unsigned i;

	if (!err)
		err = write_overwrites(cp, &to);
	for (i = 0; !err && i < nr; i++)
		err = each_line(cp, &lists[i], copy_line, &to);
	err = finish_list(&to, err, own);
	if (!err)
		vote_remove(cp, lists, nr);
	return err;
}

char *vote_compose(unsigned nodes, json_t *list, const struct for_heir *for_heir)
{
	json_t *o = json_pack("{s:i, s:O*}", "nodes", (int)nodes, "list", list);
	char *text = o && (!for_heir || !for_heir_write(for_heir, o)) ? json_dumps(o, JSON_COMPACT)
								      : NULL;

	json_decref(o);
	return text;
}

unsigned vote_parse(const char *payload, json_t **list, const struct rules *rules,
		    struct for_heir **for_heir)
{
	json_t *o = json_loads(payload, JSON_REJECT_DUPLICATES, NULL);
	json_int_t nodes = json_get_int(o, "nodes", 1);

	*list = json_incref(json_object_get(o, "list"));
	if (for_heir)
		*for_heir = for_heir_read(o, rules);
	json_decref(o);
	return nodes > 0 && nodes < INT_MAX ? (unsigned)nodes : 1;
}

int vote_gather(struct checkpoint *cp, const struct vote_list *lists, unsigned nr)
{
	unsigned i;
	int err = 0;

	for (i = 0; !err && i < nr; i++) {
		struct telling t = {0};

		err = each_line(cp, &lists[i], take_line, &t);
		end_file(cp, &t);
	}
	return err;
}
