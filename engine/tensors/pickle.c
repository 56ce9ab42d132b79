/* SPDX-License-Identifier: MIT */
/*
 * The stack machine. The opcodes are those of CPython's pickletools.py. Nodes are numbers, so that
 * a tree of 10^7 nodes takes 16 bytes a node.
 */
#include "engine/tensors/pickle_inside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* --- reading --- */

/* The next @len bytes, or NULL. */
static const unsigned char *take(struct machine *m, size_t len)
{
	const unsigned char *at = m->data + m->pos;

	if (len > m->len - m->pos)
		return NULL;
	m->pos += len;
	return at;
}

static uint64_t number(const unsigned char *at, size_t len)
{
	uint64_t n = 0;

	while (len-- > 0)
		n = n << 8 | at[len];
	return n;
}

/* Reads a number of @len bytes, little-endian. */
static int take_number(struct machine *m, size_t len, uint64_t *n)
{
	const unsigned char *at = take(m, len);

	if (!at)
		return pickle_fail(m, pickle_cut_off);
	*n = number(at, len);
	return 0;
}

/* Pushes a text or bytes, whose length stands before it in @width bytes. */
static int push_bytes(struct machine *m, enum pickle_kind kind, size_t width)
{
	uint64_t len;
	const unsigned char *at;
	int err = take_number(m, width, &len);

	if (err)
		return err;
	at = len <= m->len ? take(m, (size_t)len) : NULL;
	if (!at)
		return pickle_fail(m, pickle_cut_off);
	return pickle_push_node(
		m, (struct node){.kind = kind, .nr = (uint32_t)len, .a = (uint32_t)(at - m->data)});
}

static int push_int(struct machine *m, int64_t i)
{
	if (i >= 0 && i < SHARED_INTS)
		return pickle_push_shared(m, (struct node){.kind = PICKLE_INT, .i = i},
					  &m->shared[3 + i]);
	return pickle_push_node(m, (struct node){.kind = PICKLE_INT, .i = i});
}

/* LONG1, LONG4: two's complement of any length. */
static int push_long(struct machine *m, size_t width)
{
	uint64_t len, n;
	const unsigned char *at;
	int err = take_number(m, width, &len);

	if (err)
		return err;
	at = len <= m->len ? take(m, (size_t)len) : NULL;
	if (!at)
		return pickle_fail(m, pickle_cut_off);
	if (len > 8)
		return pickle_push_node(m, (struct node){.kind = PICKLE_OTHER});
	n = number(at, (size_t)len);
	if (len && len < 8 && at[len - 1] & 0x80)
		n |= ~(uint64_t)0 << 8 * len;
	return push_int(m, (int64_t)n);
}

static int push_fixed(struct machine *m, size_t width)
{
	uint64_t n;
	int err = take_number(m, width, &n);

	return err ? err : push_int(m, width == 4 ? (int64_t)(int32_t)n : (int64_t)n);
}

/* INT, LONG, FLOAT, STRING, UNICODE: of protocol 0, a line each. */
static int push_line(struct machine *m, unsigned char op)
{
	pickle_ref r;
	int err = pickle_line(m, &r);
	struct node *n;
	char text[24], *end;

	if (err)
		return err;
	n = &m->p->nodes[r];
	if (op == 'F')
		n->kind = PICKLE_FLOAT;
	if (op == 'I' || op == 'L') {
		size_t len = n->nr < sizeof(text) - 1 ? n->nr : sizeof(text) - 1;

		memcpy(text, m->data + n->a, len);
		text[len] = '\0';
		errno = 0;
		n->i = strtoll(text, &end, 10);
		n->kind = errno || end == text ? PICKLE_OTHER : PICKLE_INT;
	}
	return pickle_push(m, r);
}

/* Opcodes that push one value. 1: none of these. */
static int op_value(struct machine *m, unsigned char op)
{
	switch (op) {
	case 'N':
		return pickle_push_shared(m, (struct node){.kind = PICKLE_NONE}, &m->shared[0]);
	case 0x88:
	case 0x89:
		return pickle_push_shared(m, (struct node){.kind = PICKLE_BOOL, .i = op == 0x88},
					  &m->shared[op == 0x88 ? 2 : 1]);
	case 'J':
		return push_fixed(m, 4);
	case 'K':
		return push_fixed(m, 1);
	case 'M':
		return push_fixed(m, 2);
	case 0x8a:
		return push_long(m, 1);
	case 0x8b:
		return push_long(m, 4);
	case 'G':
		return take(m, 8) ? pickle_push_node(m, (struct node){.kind = PICKLE_FLOAT})
				  : pickle_fail(m, pickle_cut_off);
	case 0x8c:
		return push_bytes(m, PICKLE_TEXT, 1);
	case 'X':
		return push_bytes(m, PICKLE_TEXT, 4);
	case 0x8d:
		return push_bytes(m, PICKLE_TEXT, 8);
	case 'U':
		return push_bytes(m, PICKLE_TEXT, 1);
	case 'T':
		return push_bytes(m, PICKLE_TEXT, 4);
	case 'C':
		return push_bytes(m, PICKLE_BYTES, 1);
	case 'B':
		return push_bytes(m, PICKLE_BYTES, 4);
	case 0x8e:
	case 0x96:
		return push_bytes(m, PICKLE_BYTES, 8);
	case 'F':
	case 'I':
	case 'L':
	case 'S':
	case 'V':
		return push_line(m, op);
	default:
		return 1;
	}
}

/* --- memo --- */

static int memo_put(struct machine *m, uint64_t at)
{
	pickle_ref top = pickle_top(m);
	int err = 0;

	if (!top)
		return pickle_fail(m, pickle_bad_stack);
	if (at >= m->len) /* each number takes an opcode */
		return pickle_fail(m, "its pickle numbers more values than it can have");
	while (!err && m->nr_memo <= at) {
		err = pickle_grow(m, &m->memo, m->nr_memo, &m->memo_room, sizeof(*m->memo));
		if (!err)
			m->memo[m->nr_memo++] = 0;
	}
	if (!err)
		m->memo[at] = top;
	return err;
}

static int memo_get(struct machine *m, uint64_t at)
{
	if (at >= m->nr_memo || !m->memo[at])
		return pickle_fail(m, "its pickle asks for a value that it has not numbered");
	return pickle_push(m, m->memo[at]);
}

/* A number that stands in a line. */
static int line_number(struct machine *m, uint64_t *n)
{
	int err = push_line(m, 'I');
	pickle_ref r = err ? 0 : pickle_pop(m);
	int64_t i;

	if (err)
		return err;
	if (!pickle_int(m->p, r, &i) || i < 0)
		return pickle_fail(m, "its pickle has a number that is none");
	*n = (uint64_t)i;
	return 0;
}

/* Opcodes that number a value, or ask for one. 1: none of these. */
static int op_memo(struct machine *m, unsigned char op)
{
	bool put = op == 'q' || op == 'r' || op == 'p';
	uint64_t n = 0;
	int err = 0;

	switch (op) {
	case 0x94:
		return memo_put(m, m->nr_memo);
	case 'q':
	case 'h':
		err = take_number(m, 1, &n);
		break;
	case 'r':
	case 'j':
		err = take_number(m, 4, &n);
		break;
	case 'p':
	case 'g':
		err = line_number(m, &n);
		break;
	default:
		return 1;
	}
	return err ? err : put ? memo_put(m, n) : memo_get(m, n);
}

/* --- the machine --- */

static int set_mark(struct machine *m)
{
	int err = pickle_grow(m, &m->marks, m->nr_marks, &m->marks_room, sizeof(*m->marks));

	if (!err)
		m->marks[m->nr_marks++] = (uint32_t)m->nr_stack;
	return err;
}

/* Opcodes that move what is on the stack. 1: none of these. */
static int op_stack(struct machine *m, unsigned char op)
{
	size_t from;

	switch (op) {
	case '(':
		return set_mark(m);
	case '0':
		return pickle_pop(m) || !pickle_mark(m, &from) ? 0
							       : pickle_fail(m, pickle_bad_stack);
	case '1':
		if (pickle_mark(m, &from))
			return -EBADMSG;
		m->nr_stack = from;
		return 0;
	case '2':
		return pickle_top(m) ? pickle_push(m, pickle_top(m))
				     : pickle_fail(m, pickle_bad_stack);
	default:
		return 1;
	}
}

/* Runs one opcode. 1: it was STOP. */
static int step(struct machine *m)
{
	const unsigned char *op = take(m, 1);
	int err;

	if (!op)
		return pickle_fail(m, pickle_cut_off);
	if (*op == '.')
		return 1;
	if (*op == 0x80) /* PROTO */
		return take(m, 1) ? 0 : pickle_fail(m, pickle_cut_off);
	if (*op == 0x95) /* FRAME */
		return take(m, 8) ? 0 : pickle_fail(m, pickle_cut_off);
	err = op_value(m, *op);
	if (err == 1)
		err = op_memo(m, *op);
	if (err == 1)
		err = op_stack(m, *op);
	if (err == 1)
		err = pickle_op_container(m, *op);
	if (err == 1)
		err = pickle_op_object(m, *op);
	return err == 1 ? pickle_fail(m, "its pickle has an opcode that ckptfs does not know")
			: err;
}

int pickle_read(const void *data, size_t len, struct pickle **out, size_t *used, const char **why)
{
	struct machine m = {.data = data, .len = len, .p = calloc(1, sizeof(*m.p))};
	int err = m.p ? 0 : -ENOMEM;
	pickle_ref none;

	m.limit = PICKLE_BYTES_MIN + PICKLE_BYTES_PER * len;
	if (!err && len > UINT32_MAX - 1)
		err = pickle_fail(&m, pickle_too_large);
	if (!err)
		err = pickle_node(&m, (struct node){0}, &none);
	if (!err)
		m.p->data = data;
	while (!err)
		err = step(&m);
	if (err == 1) {
		err = 0;
		m.p->root = pickle_top(&m);
		if (!m.p->root)
			err = pickle_fail(&m, pickle_bad_stack);
	}
	free(m.stack);
	free(m.marks);
	free(m.memo);
	if (used)
		*used = m.pos;
	if (err) {
		*why = m.why;
		pickle_free(m.p);
		return err;
	}
	*out = m.p;
	return 0;
}

void pickle_free(struct pickle *p)
{
	if (!p)
		return;
	free(p->nodes);
	free(p->slots);
	free(p->calls);
	free(p);
}
