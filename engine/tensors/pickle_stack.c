/* SPDX-License-Identifier: MIT */
/* The memory of the machine: nodes, and its stack. */
#include "engine/tensors/pickle_inside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const char pickle_too_large[] = "its pickle builds more than ckptfs takes into memory";
const char pickle_cut_off[] = "its pickle is cut off";
const char pickle_bad_stack[] = "its pickle takes from an empty stack";

int pickle_fail(struct machine *m, const char *why)
{
	m->why = why;
	return -EBADMSG;
}

int pickle_grow(struct machine *m, void *list, size_t nr, size_t *room, size_t size)
{
	size_t more = *room ? *room + *room / (*room < 65536 ? 1 : 8) : 64;
	void *grown;

	if (nr < *room)
		return 0;
	if (more > UINT32_MAX || (more - *room) * size > m->limit - m->taken)
		return pickle_fail(m, pickle_too_large);
	grown = reallocarray(*(void **)list, more, size);
	if (!grown)
		return -ENOMEM;
	m->taken += (more - *room) * size;
	*(void **)list = grown;
	*room = more;
	return 0;
}

int pickle_push(struct machine *m, pickle_ref r)
{
	int err = pickle_grow(m, &m->stack, m->nr_stack, &m->stack_room, sizeof(*m->stack));

	if (!err)
		m->stack[m->nr_stack++] = r;
	return err;
}

int pickle_node(struct machine *m, struct node n, pickle_ref *r)
{
	struct pickle *p = m->p;
	int err = pickle_grow(m, &p->nodes, p->nr_nodes, &p->nodes_room, sizeof(*p->nodes));

	if (err)
		return err;
	p->nodes[p->nr_nodes] = n;
	*r = (pickle_ref)p->nr_nodes++;
	return 0;
}

int pickle_push_node(struct machine *m, struct node n)
{
	pickle_ref r;
	int err = pickle_node(m, n, &r);

	return err ? err : pickle_push(m, r);
}

int pickle_grow_calls(struct machine *m)
{
	struct pickle *p = m->p;

	return pickle_grow(m, &p->calls, p->nr_calls, &p->calls_room, sizeof(*p->calls));
}

int pickle_push_shared(struct machine *m, struct node n, pickle_ref *shared)
{
	int err = *shared ? 0 : pickle_node(m, n, shared);

	return err ? err : pickle_push(m, *shared);
}

pickle_ref pickle_pop(struct machine *m)
{
	size_t floor = m->nr_marks ? m->marks[m->nr_marks - 1] : 0;

	return m->nr_stack > floor ? m->stack[--m->nr_stack] : 0;
}

pickle_ref pickle_top(const struct machine *m)
{
	return m->nr_stack ? m->stack[m->nr_stack - 1] : 0;
}

int pickle_extend(struct machine *m, pickle_ref r, const pickle_ref *add, size_t nr)
{
	struct pickle *p = m->p;
	struct node *n = &p->nodes[r];
	size_t room = n->b, want = n->nr + nr, at;
	int err = 0;

	if (!nr)
		return 0;
	if (want > room) {
		room = want > 2 * room ? want : 2 * room;
		at = p->nr_slots;
		while (!err && p->slots_room - p->nr_slots < room)
			err = pickle_grow(m, &p->slots, p->slots_room, &p->slots_room,
					  sizeof(*p->slots));
		if (err)
			return err;
		if (n->nr)
			memcpy(p->slots + at, p->slots + n->a, n->nr * sizeof(*p->slots));
		p->nr_slots += room;
		n->a = (uint32_t)at;
		n->b = (uint32_t)room;
	}
	memcpy(p->slots + n->a + n->nr, add, nr * sizeof(*add));
	n->nr = (uint32_t)want;
	return 0;
}

int pickle_collect(struct machine *m, enum pickle_kind kind, size_t from)
{
	pickle_ref r;
	int err = pickle_node(m, (struct node){.kind = kind}, &r);

	if (!err && m->nr_stack > from)
		err = pickle_extend(m, r, m->stack + from, m->nr_stack - from);
	m->nr_stack = from;
	return err ? err : pickle_push(m, r);
}

int pickle_mark(struct machine *m, size_t *from)
{
	if (!m->nr_marks)
		return pickle_fail(m, "its pickle asks for a mark that it has not set");
	*from = m->marks[--m->nr_marks];
	return 0;
}

int pickle_line(struct machine *m, pickle_ref *r)
{
	const unsigned char *at = m->data + m->pos;
	const unsigned char *end = memchr(at, '\n', m->len - m->pos);

	if (!end)
		return pickle_fail(m, pickle_cut_off);
	m->pos += (size_t)(end - at) + 1;
	return pickle_node(m,
			   (struct node){.kind = PICKLE_TEXT,
					 .nr = (uint32_t)(end - at),
					 .a = (uint32_t)(at - m->data)},
			   r);
}
