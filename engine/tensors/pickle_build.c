/* SPDX-License-Identifier: MIT */
/* Opcodes that build containers, and what stands for objects. */
#include "engine/tensors/pickle_inside.h"

#include <stdlib.h>

static const char bad_target[] = "its pickle adds to what is no container";
static const char bad_name[] = "its pickle names a class by what is no text";

static bool has_kind(const struct machine *m, pickle_ref r, enum pickle_kind kind)
{
	return r && m->p->nodes[r].kind == kind;
}

/*
 * The container of kind @kind that @r is or, if it stands for an object, that collects what is
 * added to the object. 0: none, and the error is in *@err.
 */
static pickle_ref container_of_kind(struct machine *m, pickle_ref r, enum pickle_kind kind,
				    int *err)
{
	pickle_ref *in, made;

	if (has_kind(m, r, kind) || (kind == PICKLE_LIST && has_kind(m, r, PICKLE_SET)))
		return r;
	if (!has_kind(m, r, PICKLE_CALL)) {
		*err = pickle_fail(m, bad_target);
		return 0;
	}
	in = kind == PICKLE_DICT ? &m->p->calls[m->p->nodes[r].b].pairs
				 : &m->p->calls[m->p->nodes[r].b].list;
	if (!*in) {
		*err = pickle_node(m, (struct node){.kind = kind}, &made);
		if (*err)
			return 0;
		*in = made;
	}
	return *in;
}

/* Adds what is on the stack from @from on to what is below it. */
static int add_from(struct machine *m, enum pickle_kind kind, size_t from)
{
	pickle_ref target = from && from <= m->nr_stack ? m->stack[from - 1] : 0;
	size_t nr = m->nr_stack - from;
	int err = 0;

	if (!target)
		return pickle_fail(m, pickle_bad_stack);
	if (kind == PICKLE_DICT && nr % 2)
		return pickle_fail(m, "its pickle has a key without a value");
	target = container_of_kind(m, target, kind, &err);
	if (!err)
		err = pickle_extend(m, target, m->stack + from, nr);
	m->nr_stack = from;
	return err;
}

/* The same for the @nr on top. */
static int add_top(struct machine *m, enum pickle_kind kind, size_t nr)
{
	size_t floor = m->nr_marks ? m->marks[m->nr_marks - 1] : 0;

	if (m->nr_stack - floor <= nr)
		return pickle_fail(m, pickle_bad_stack);
	return add_from(m, kind, m->nr_stack - nr);
}

static int collect_top(struct machine *m, size_t nr)
{
	size_t floor = m->nr_marks ? m->marks[m->nr_marks - 1] : 0;

	if (m->nr_stack - floor < nr)
		return pickle_fail(m, pickle_bad_stack);
	return pickle_collect(m, PICKLE_TUPLE, m->nr_stack - nr);
}

static int collect_marked(struct machine *m, enum pickle_kind kind)
{
	size_t from;
	int err = pickle_mark(m, &from);

	if (!err && kind == PICKLE_DICT && (m->nr_stack - from) % 2)
		err = pickle_fail(m, "its pickle has a key without a value");
	return err ? err : pickle_collect(m, kind, from);
}

static int add_marked(struct machine *m, enum pickle_kind kind)
{
	size_t from;
	int err = pickle_mark(m, &from);

	return err ? err : add_from(m, kind, from);
}

int pickle_op_container(struct machine *m, unsigned char op)
{
	switch (op) {
	case ')':
		return pickle_push_shared(m, (struct node){.kind = PICKLE_TUPLE}, &m->empty);
	case 0x85:
	case 0x86:
	case 0x87:
		return collect_top(m, op - 0x84U);
	case 't':
		return collect_marked(m, PICKLE_TUPLE);
	case 'l':
		return collect_marked(m, PICKLE_LIST);
	case 'd':
		return collect_marked(m, PICKLE_DICT);
	case 0x91: /* FROZENSET */
		return collect_marked(m, PICKLE_SET);
	case ']':
		return pickle_push_node(m, (struct node){.kind = PICKLE_LIST});
	case '}':
		return pickle_push_node(m, (struct node){.kind = PICKLE_DICT});
	case 0x8f: /* EMPTY_SET */
		return pickle_push_node(m, (struct node){.kind = PICKLE_SET});
	case 'a':
		return add_top(m, PICKLE_LIST, 1);
	case 's':
		return add_top(m, PICKLE_DICT, 2);
	case 'e':
	case 0x90: /* ADDITEMS */
		return add_marked(m, PICKLE_LIST);
	case 'u':
		return add_marked(m, PICKLE_DICT);
	default:
		return 1;
	}
}

/* --- objects --- */

static int push_global(struct machine *m, pickle_ref module, pickle_ref name)
{
	if (!has_kind(m, module, PICKLE_TEXT) || !has_kind(m, name, PICKLE_TEXT))
		return pickle_fail(m, bad_name);
	return pickle_push_node(m, (struct node){.kind = PICKLE_GLOBAL, .a = module, .b = name});
}

/* GLOBAL, and with @args INST: module and name are the next two lines. */
static int global_of_lines(struct machine *m)
{
	pickle_ref module, name;
	int err = pickle_line(m, &module);

	if (!err)
		err = pickle_line(m, &name);
	return err ? err : push_global(m, module, name);
}

static int push_call(struct machine *m, pickle_ref callee, pickle_ref args)
{
	int err = callee && args ? pickle_grow_calls(m) : pickle_fail(m, pickle_bad_stack);

	if (err)
		return err;
	m->p->calls[m->p->nr_calls] = (struct call){.args = args};
	return pickle_push_node(
		m,
		(struct node){.kind = PICKLE_CALL, .a = callee, .b = (uint32_t)m->p->nr_calls++});
}

/* INST and OBJ: the arguments are above the mark. */
static int call_marked(struct machine *m, bool class_is_line)
{
	pickle_ref callee = 0, args;
	size_t from;
	int err = pickle_mark(m, &from);

	if (err)
		return err;
	if (!class_is_line) {
		if (m->nr_stack <= from)
			return pickle_fail(m, pickle_bad_stack);
		callee = m->stack[from++];
	}
	err = pickle_collect(m, PICKLE_TUPLE, from);
	if (err)
		return err;
	args = pickle_pop(m);
	if (!class_is_line) {
		m->nr_stack--;
		return push_call(m, callee, args);
	}
	err = global_of_lines(m);
	return err ? err : push_call(m, pickle_pop(m), args);
}

static int build(struct machine *m)
{
	pickle_ref state = pickle_pop(m), object = pickle_top(m);

	if (!state || !object)
		return pickle_fail(m, pickle_bad_stack);
	if (has_kind(m, object, PICKLE_CALL))
		m->p->calls[m->p->nodes[object].b].state = state;
	return 0;
}

int pickle_op_object(struct machine *m, unsigned char op)
{
	pickle_ref args, callee;
	int err;

	switch (op) {
	case 'c':
		return global_of_lines(m);
	case 0x93: /* STACK_GLOBAL */
		args = pickle_pop(m);
		return push_global(m, pickle_pop(m), args);
	case 'R':
	case 0x81: /* NEWOBJ */
		args = pickle_pop(m);
		callee = pickle_pop(m);
		return push_call(m, callee, args);
	case 0x92: /* NEWOBJ_EX: the named arguments are dropped */
		pickle_pop(m);
		args = pickle_pop(m);
		callee = pickle_pop(m);
		return push_call(m, callee, args);
	case 'i':
		return call_marked(m, true);
	case 'o':
		return call_marked(m, false);
	case 'b':
		return build(m);
	case 'Q': /* BINPERSID */
		args = pickle_pop(m);
		return args ? pickle_push_node(m, (struct node){.kind = PICKLE_ID, .a = args})
			    : pickle_fail(m, pickle_bad_stack);
	case 'P': /* PERSID */
		err = pickle_line(m, &args);
		return err ? err : pickle_push_node(m, (struct node){.kind = PICKLE_ID, .a = args});
	default:
		return 1;
	}
}
