/* SPDX-License-Identifier: MIT */
/*
 * Shared by the files of pickle.h: pickle.c has the machine, the memo and plain values,
 * pickle_stack.c nodes and the stack, pickle_build.c what opcodes build of them, pickle_ask.c the
 * questions about a tree.
 */
#ifndef ENGINE_TENSORS_PICKLE_INSIDE_H
#define ENGINE_TENSORS_PICKLE_INSIDE_H

#include "engine/tensors/pickle.h"

struct node {
	uint8_t kind;
	uint32_t nr; /* bytes of a text, or references in a container: 2 for each pair */
	union {
		int64_t i;
		struct {
			/*
			 * TEXT, BYTES: the place in the pickle. A container: its first slot, and
			 * how many it has. GLOBAL: the texts of module and name. CALL: the callee,
			 * and the number of the call. ID: the id.
			 */
			uint32_t a, b;
		};
	};
};

struct call {
	pickle_ref args, state;
	pickle_ref pairs, list; /* what was added to the result */
};

struct pickle {
	const unsigned char *data;
	struct node *nodes;
	pickle_ref *slots;
	struct call *calls;
	size_t nr_nodes, nodes_room, nr_slots, slots_room, nr_calls, calls_room;
	pickle_ref root;
};

#define SHARED_INTS 1024

struct machine {
	struct pickle *p;
	const unsigned char *data;
	size_t len, pos;
	size_t taken, limit; /* bytes */
	pickle_ref *stack, *memo;
	uint32_t *marks; /* where on the stack */
	size_t nr_stack, stack_room, nr_memo, memo_room, nr_marks, marks_room;
	pickle_ref
		shared[3 + SHARED_INTS]; /* None, False, True, and small numbers; 0: not made yet */
	pickle_ref empty;		 /* the tuple without elements */
	const char *why;
};

/* --- pickle_stack.c --- */

extern const char pickle_too_large[], pickle_cut_off[], pickle_bad_stack[]; /* for pickle_fail */
int pickle_fail(struct machine *m, const char *why);			    /* returns -EBADMSG */
/* Makes room for one more element of @size bytes in *@list, which has @nr of *@room. */
int pickle_grow(struct machine *m, void *list, size_t nr, size_t *room, size_t size);
int pickle_grow_calls(struct machine *m);
int pickle_node(struct machine *m, struct node n, pickle_ref *r);
int pickle_push(struct machine *m, pickle_ref r);
int pickle_push_node(struct machine *m, struct node n);
/* The same for a node that never changes, of which one is enough: *@shared. */
int pickle_push_shared(struct machine *m, struct node n, pickle_ref *shared);
/* The node on top, which goes. 0: there is none above the last mark. */
pickle_ref pickle_pop(struct machine *m);
pickle_ref pickle_top(const struct machine *m);
/* Adds the @nr references @add to the container @r. */
int pickle_extend(struct machine *m, pickle_ref r, const pickle_ref *add, size_t nr);
/* Makes a container of what is on the stack from @from on, and puts it there instead. */
int pickle_collect(struct machine *m, enum pickle_kind kind, size_t from);
/* A line as a text node. */
int pickle_line(struct machine *m, pickle_ref *r);
/* Takes the last mark: what is on the stack above it begins at *@from. */
int pickle_mark(struct machine *m, size_t *from);

/* --- pickle_build.c --- */

/* Run an opcode. 1: it is none of theirs. */
int pickle_op_container(struct machine *m, unsigned char op);
int pickle_op_object(struct machine *m, unsigned char op);

#endif
