/* SPDX-License-Identifier: MIT */
#include "engine/record/vote.h"

#include <limits.h>
#include <string.h>

#include "engine/base/json.h"
#include "engine/record/shards.h"

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

/* --- lines --- */

json_t *vote_line_of_file(const struct filed *f, const char *own)
{
	json_t *o = json_pack("{s:I, s:I, s:I, s:I, s:i, s:s, s:b}", "ino", (json_int_t)f->id.ino,
			      "btime_ns", (json_int_t)f->id.btime_ns, "size", (json_int_t)f->size,
			      "mtime_ns", (json_int_t)f->mtime_ns, "rank", f->rank, "xxh3", f->xxh3,
			      "by_handle", f->by_handle);

	json_object_set_new(o, "node", json_text(f->node ? f->node : own));
	return o;
}

json_t *vote_line_of_tensor(const struct tensor_place *place)
{
	const struct shard s = {.place = *place};
	struct commit_tensor t = shard_line(&s);

	return commit_tensor_to_json(&t);
}

json_t *vote_line_of_overwrite(const struct overwrite *r)
{
	return json_pack("{s:I, s:I, s:[I, I]}", "ino", (json_int_t)r->own.ino, "btime_ns",
			 (json_int_t)r->own.btime_ns, "over", (json_int_t)r->old.ino,
			 (json_int_t)r->old.btime_ns);
}

bool vote_line_is_tensor(const json_t *line)
{
	return json_object_get(line, "at");
}

bool vote_line_is_overwrite(const json_t *line)
{
	return json_object_get(line, "over");
}

static struct inode_id parse_inode(const json_t *line, dev_t dev)
{
	return (struct inode_id){.dev = dev,
				 .ino = (uint64_t)json_get_int(line, "ino", 0),
				 .btime_ns = (uint64_t)json_get_int(line, "btime_ns", 0)};
}

bool vote_parse_file(const json_t *line, dev_t dev, struct filed *f, char label[NAME_MAX + 1])
{
	const char *xxh3 = json_get_text(line, "xxh3", ""), *node = json_get_text(line, "node", "");
	json_int_t rank = json_get_int(line, "rank", -1);

	memset(f, 0, sizeof(*f));
	if (!commit_is_hex(xxh3) || !*node || strlen(node) > NAME_MAX || rank < -1 ||
	    rank >= INT_MAX)
		return false;
	f->id = parse_inode(line, dev);
	f->size = (uint64_t)json_get_int(line, "size", 0);
	f->mtime_ns = (uint64_t)json_get_int(line, "mtime_ns", 0);
	f->rank = (int)rank;
	f->by_handle = json_is_true(json_object_get(line, "by_handle"));
	memcpy(f->xxh3, xxh3, sizeof(f->xxh3));
	f->node = strcpy(label, node);
	return true;
}

bool vote_parse_tensor(const json_t *line, struct commit_tensor *t, struct commit_tensor_room *room)
{
	*t = (struct commit_tensor){.path = "-"}; /* the path of its file */
	return !commit_tensor_from_json(line, t, room);
}

struct overwrite vote_parse_overwrite(const json_t *line, dev_t dev)
{
	const json_t *over = json_object_get(line, "over");

	return (struct overwrite){
		.own = parse_inode(line, dev),
		.old = {.dev = dev,
			.ino = (uint64_t)json_integer_value(json_array_get(over, 0)),
			.btime_ns = (uint64_t)json_integer_value(json_array_get(over, 1))}};
}
