/* SPDX-License-Identifier: MIT */
#include "engine/cluster/accord_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/base/fault.h"
#include "engine/base/json.h"
#include "engine/base/lock.h"
#include "engine/record/left.h"
#include "engine/record/shards.h"
#include "engine/record/vote.h"

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
void vote_list_remove(struct checkpoint *cp, const struct vote_list *lists, unsigned nr)
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

static bool left_is_ok(const json_t *o)
{
	__cleanup_free struct left *l = calloc(1, sizeof(*l));

	return l && left_take_line(l, o);
}

static int copy_line(struct checkpoint *cp, json_t *o, void *to)
{
	struct commit_tensor_room room;
	struct commit_tensor t;
	char label[NAME_MAX + 1];
	struct filed f;
	bool ok = vote_line_is_overwrite(o) ||
		  (left_has_line(o)	    ? left_is_ok(o)
		   : vote_line_is_tensor(o) ? vote_parse_tensor(o, &t, &room)
					    : vote_parse_file(o, cp->id.dev, &f, label));

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

	if (!t->file.node || !vote_parse_tensor(o, &line, &room))
		return -EBADMSG;
	place = shard_place(&line);
	place.tensor = shard_tensor(&line);
	if (!place.tensor)
		return -ENOMEM;
	places_add(&t->places, &place);
	tensor_put(place.tensor);
	return 0;
}

static int take_left(struct checkpoint *cp, const json_t *o)
{
	LOCK_SCOPE(&cp->units->lock);
	if (!cp->left)
		cp->left = calloc(1, sizeof(*cp->left));
	return !cp->left ? -ENOMEM : left_take_line(cp->left, o) ? 0 : -EBADMSG;
}

static int take_line(struct checkpoint *cp, json_t *o, void *telling)
{
	struct telling *t = telling;

	if (vote_line_is_tensor(o))
		return take_tensor(o, t);
	end_file(cp, t);
	if (left_has_line(o))
		return take_left(cp, o);
	if (vote_line_is_overwrite(o)) {
		const struct overwrite r = vote_parse_overwrite(o, cp->id.dev);

		checkpoint_add_overwrite(cp, &r.own, &r.old);
		return 0;
	}
	return vote_parse_file(o, cp->id.dev, &t->file, t->label) ? 0 : -EBADMSG;
}

static int write_file(struct checkpoint *cp, struct list_writer *to, const struct filed *f)
{
	int err = write_line(to, vote_line_of_file(f, cp->units->node));
	size_t i;

	for (i = 0; !err && f->tensors && i < f->tensors->nr; i++)
		err = write_line(to, vote_line_of_tensor(&f->tensors->list[i]));
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
		err = write_line(to, vote_line_of_overwrite(&overwrites.list[i]));
	overwrites_finish(&overwrites);
	return err;
}

static int write_left(const struct left *l, struct list_writer *to)
{
	size_t i;
	int err = 0;

	for (i = 0; !err && i < l->nr_pointers; i++)
		err = write_line(to, left_line_of_pointer(&l->pointers[i]));
	for (i = 0; !err && i < l->nr_removals; i++)
		err = write_line(to, left_line_of_removal(&l->removals[i]));
	return err;
}

int vote_list_write(struct checkpoint *cp, uint32_t slot, const struct left *left,
		    const struct vote_list *lists, unsigned nr, json_t **own)
{
	struct list_writer to = {.cp = cp, .slot = slot, .lines = json_array()};
	int err = to.lines ? write_lines(cp, &to) : -ENOMEM;
	unsigned i;

	if (!err)
		err = write_overwrites(cp, &to);
	if (!err && left)
		err = write_left(left, &to);
	for (i = 0; !err && i < nr; i++)
		err = each_line(cp, &lists[i], copy_line, &to);
	err = finish_list(&to, err, own);
	if (!err)
		vote_list_remove(cp, lists, nr);
	return err;
}

int vote_list_gather(struct checkpoint *cp, const struct vote_list *lists, unsigned nr)
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

unsigned accord_lists(const struct accord *a, struct vote_list lists[AGREE_FANOUT + 1])
{
	unsigned i, nr = 0;

	for (i = 0; i < a->a.nr_children; i++) {
		if (FAULT(VOTE_TWICE) && !a->a.children[i].voted)
			continue;
		lists[nr].slot = a->a.slot * a->a.fanout + 1 + i;
		lists[nr++].lines = a->children[i].list;
	}
	if (a->a.heir)
		lists[nr++] = (struct vote_list){0, a->children[AGREE_ROOT].list};
	return nr;
}
