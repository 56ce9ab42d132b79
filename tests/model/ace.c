/* SPDX-License-Identifier: MIT */
/*
 * All sequences of up to three operations on a unit, each from a few states that a job may be in.
 * Few operations are enough to find what a crash breaks, if all are tried (CrashMonkey and ACE,
 * OSDI '18).
 */
#include "tests/model/model.h"

#include <string.h>

#define LENGTH	 3
#define BASE_MAX 24
#define SPREAD	 1000003 /* a prime: sequences with numbers in a row differ much */

enum letter {
	CREATE_DATA,
	CREATE_META,
	CREATE_TEMP,
	CREATE_SINGLE,
	WRITE,
	FSYNC,
	CLOSE,
	RENAME_META,
	RENAME_SINGLE,
	RENAME_UNIT,
	UNLINK_DATA,
	UNLINK_META,
	MKDIR,
	MKDIR_SUB,
	LINK,
	POINTER,
	RMTREE,
	RMTREE_OTHER,
	NR_LETTERS
};

#define OPEN(p) \
	{ \
		.kind = OP_OPEN, .path = (p), .flag = true \
	}
#define BYTES(c) \
	{ \
		.kind = OP_WRITE, .len = 20, .byte = (c) \
	}
#define SHUT \
	{ \
		.kind = OP_CLOSE \
	}
#define SAVED(p, c) OPEN(p), BYTES(c), SHUT
#define MADE(p) \
	{ \
		.kind = OP_MKDIR, .path = (p) \
	}
#define MOVED(a, b) \
	{ \
		.kind = OP_RENAME, .path = (a), .to = (b) \
	}
#define POINTED(p) \
	{ \
		.kind = OP_POINT, .path = (p) \
	}
#define BEGUN(u, c) MADE(u), SAVED((u) + IN_DATA0, c), SAVED((u) + IN_META_TEMP, 'm')
#define ENDED(u)    MOVED((u) + IN_META_TEMP, (u) + IN_META)
#define STEP_1	    NAME_UNIT(0)
#define STEP_2	    NAME_UNIT(1)
#define LAST \
	{ \
		.kind = NR_OP_KINDS \
	}

/* Letters are about @current; @other is a unit beside it. */
static const struct base {
	uint8_t current, other;
	struct op ops[BASE_MAX];
} bases[] = {
	/* nothing is there */
	{STEP_1, STEP_2, {LAST}},
	/* all is committed */
	{STEP_1,
	 STEP_2,
	 {BEGUN(STEP_1, '1'), ENDED(STEP_1), POINTED(STEP_1), SAVED(NAME_SINGLE, 'x'), LAST}},
	/* a first save lacks its end */
	{STEP_1, STEP_2, {BEGUN(STEP_1, '1'), SAVED(NAME_SINGLE_TEMP, 'y'), LAST}},
	/* so does a second one, after one that is committed */
	{STEP_2,
	 STEP_1,
	 {BEGUN(STEP_1, '1'), ENDED(STEP_1), POINTED(STEP_1), BEGUN(STEP_2, '2'), POINTED(STEP_2),
	  SAVED(NAME_SINGLE, 'x'), SAVED(NAME_SINGLE_TEMP, 'y'), LAST}},
	/* a committed one is being written anew, and a file of it is open */
	{STEP_1,
	 STEP_2,
	 {BEGUN(STEP_1, '1'), ENDED(STEP_1), SAVED(NAME_SINGLE, 'x'),
	  SAVED(STEP_1 + IN_META_TEMP, 'n'), OPEN(STEP_1 + IN_DATA0), BYTES('3'), LAST}},
};

#define NR_BASES (sizeof(bases) / sizeof(*bases))

/*
 * What has been added so far: descriptors count up, and the last one that is open is what a letter
 * is about.
 */
struct ace {
	struct sequence *s;
	unsigned nr_opens, open[NR_OPENS], nr_open;
	bool void_; /* a letter had nothing to be about */
};

static void add(struct ace *a, struct op op)
{
	if (op.kind == OP_OPEN) {
		if (a->nr_open == NR_OPENS) {
			a->void_ = true;
			return;
		}
		op.slot = (uint8_t)(a->nr_opens++ % NR_OPENS);
		a->open[a->nr_open++] = op.slot;
	}
	if (op.kind == OP_WRITE || op.kind == OP_FSYNC || op.kind == OP_CLOSE) {
		if (!a->nr_open) {
			a->void_ = true;
			return;
		}
		op.slot = (uint8_t)a->open[a->nr_open - 1];
		a->nr_open -= op.kind == OP_CLOSE;
	}
	a->s->ops[a->s->nr++] = op;
}

static struct op op_of(enum letter letter, const struct base *b, unsigned place)
{
	const unsigned u = b->current;

	switch (letter) {
	case CREATE_DATA:
		return (struct op)OPEN(u + IN_DATA0);
	case CREATE_META:
		return (struct op)OPEN(u + IN_META_TEMP);
	case CREATE_TEMP:
		return (struct op)OPEN(NAME_SINGLE_TEMP);
	case CREATE_SINGLE:
		return (struct op)OPEN(NAME_SINGLE);
	case WRITE:
		return (struct op){.kind = OP_WRITE, .len = 30, .off = place, .byte = 'A' + place};
	case FSYNC:
		return (struct op){.kind = OP_FSYNC};
	case CLOSE:
		return (struct op)SHUT;
	case RENAME_META:
		return (struct op)ENDED(u);
	case RENAME_SINGLE:
		return (struct op)MOVED(NAME_SINGLE_TEMP, NAME_SINGLE);
	case RENAME_UNIT:
		return (struct op)MOVED(u, b->other);
	case UNLINK_DATA:
		return (struct op){.kind = OP_UNLINK, .path = u + IN_DATA0};
	case UNLINK_META:
		return (struct op){.kind = OP_UNLINK, .path = u + IN_META};
	case MKDIR:
		return (struct op)MADE(u);
	case MKDIR_SUB:
		return (struct op)MADE(u + IN_SUB);
	case LINK:
		return (struct op){.kind = OP_LINK, .path = u};
	case POINTER:
		return (struct op)POINTED(u);
	case RMTREE:
		return (struct op){.kind = OP_RMTREE, .path = u};
	default:
		return (struct op){.kind = OP_RMTREE, .path = b->other};
	}
}

uint64_t ace_count(void)
{
	uint64_t nr = 1, of_length = 1;
	unsigned i;

	for (i = 0; i < LENGTH; i++) {
		of_length *= NR_LETTERS;
		nr += of_length;
	}
	return nr * NR_BASES;
}

bool ace_sequence(struct sequence *s, uint64_t number)
{
	uint64_t at = number * SPREAD % ace_count(), of_length = 1;
	const struct base *b = &bases[at % NR_BASES];
	struct ace a = {.s = s};
	unsigned length, i;

	memset(s, 0, sizeof(*s));
	s->seed = number;
	add(&a, (struct op){.kind = OP_START, .job = 1, .world = 1});
	for (i = 0; b->ops[i].kind != NR_OP_KINDS; i++)
		add(&a, b->ops[i]);
	at /= NR_BASES;
	for (length = 0; at >= of_length; length++) {
		at -= of_length;
		of_length *= NR_LETTERS;
	}
	for (i = 0; i < length; i++) {
		add(&a, op_of(at % NR_LETTERS, b, i));
		at /= NR_LETTERS;
	}
	return !a.void_;
}
