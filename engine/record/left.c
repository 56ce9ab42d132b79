/* SPDX-License-Identifier: MIT */
#include "engine/record/left.h"

#include <string.h>

#include "engine/backing/backing.h"
#include "engine/base/json.h"
#include "engine/rule/reserved_names.h"

void left_add_pointer(struct left *l, const struct left_pointer *p)
{
	size_t i = 0;

	while (i < l->nr_pointers && strcmp(l->pointers[i].name, p->name))
		i++;
	if (i == LEFT_MAX || (i < l->nr_pointers && l->pointers[i].written_ns > p->written_ns))
		return;
	l->pointers[i] = *p;
	l->nr_pointers += i == l->nr_pointers;
}

void left_add_removal(struct left *l, const struct left_removal *r)
{
	size_t i = 0;

	while (i < l->nr_removals && strcmp(l->removals[i].what.name, r->what.name))
		i++;
	if (i == l->nr_removals && i < LEFT_MAX)
		l->removals[l->nr_removals++] = *r;
}

json_t *left_line_of_pointer(const struct left_pointer *p)
{
	json_t *o = json_pack("{s:b, s:i, s:I, s:s}", "link", p->link, "mode", (int)p->mode,
			      "written_ns", (json_int_t)p->written_ns, "by", p->node);

	json_set_path(o, "pointer", "pointer_hex", p->name);
	json_set_path(o, "text", "text_hex", p->text);
	return o;
}

json_t *left_line_of_removal(const struct left_removal *r)
{
	json_t *o = json_pack("{s:s, s:s}", "generation", r->what.generation, "by", r->node);

	json_set_path(o, "removal", "removal_hex", r->what.name);
	return o;
}

static bool is_pointer(const json_t *line)
{
	return json_object_get(line, "pointer") || json_object_get(line, "pointer_hex");
}

static bool is_removal(const json_t *line)
{
	return json_object_get(line, "removal") || json_object_get(line, "removal_hex");
}

bool left_has_line(const json_t *line)
{
	return is_pointer(line) || is_removal(line);
}

static bool is_name(const char *name)
{
	return backing_name_ok(name) && !name_is_reserved(name);
}

static bool take_node(const json_t *line, char node[COORD_NODE_MAX])
{
	const char *by = json_get_text(line, "by", "");

	if (!coord_node_ok(by))
		return false;
	memcpy(node, by, COORD_NODE_MAX);
	return true;
}

static bool take_pointer(struct left *l, const json_t *line)
{
	struct left_pointer p = {.link = json_is_true(json_object_get(line, "link")),
				 .mode = (mode_t)json_get_int(line, "mode", 0600) & 0777,
				 .written_ns = (uint64_t)json_get_int(line, "written_ns", 0)};

	if (!json_get_path(line, "pointer", "pointer_hex", p.name, sizeof(p.name)) ||
	    !json_get_path(line, "text", "text_hex", p.text, sizeof(p.text)) || !is_name(p.name) ||
	    !take_node(line, p.node))
		return false;
	left_add_pointer(l, &p);
	return true;
}

static bool take_removal(struct left *l, const json_t *line)
{
	const char *generation = json_get_text(line, "generation", "");
	struct left_removal r = {.done = false};

	if (!json_get_path(line, "removal", "removal_hex", r.what.name, sizeof(r.what.name)) ||
	    !is_name(r.what.name) || !commit_is_hex(generation) || !take_node(line, r.node))
		return false;
	memcpy(r.what.generation, generation, sizeof(r.what.generation));
	left_add_removal(l, &r);
	return true;
}

bool left_take_line(struct left *l, const json_t *line)
{
	return is_pointer(line) ? take_pointer(l, line) : is_removal(line) && take_removal(l, line);
}
