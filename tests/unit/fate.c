/* SPDX-License-Identifier: MIT */
/* What becomes of a pointer, or of a removal, that waits for a commit: each case of gen/fate.h. */
#include "tests/unit/unit.h"

#include "engine/base/fault.h"
#include "engine/gen/fate.h"

#define OPEN	  GENERATION_OPEN
#define COMMITTED GENERATION_COMMITTED
#define FAILED	  GENERATION_FAILED
#define DROPPED	  GENERATION_DROPPED

struct row {
	const char *story;
	struct fate_facts facts;
	enum fate fate;
};

static void holds(const struct row *rows, size_t nr, bool pointer)
{
	size_t i;

	for (i = 0; i < nr; i++) {
		struct fate_facts f = rows[i].facts;

		f.pointer = pointer;
		if (fate_of(&f) != rows[i].fate)
			fail_msg("%s: fate %d, not %d", rows[i].story, fate_of(&f), rows[i].fate);
	}
}

static const struct row pointers[] = {
	{"what it names is still being saved", {.awaited = OPEN}, FATE_WAIT},
	{"what it names is getting its name", {.awaited = GENERATION_NAMING}, FATE_WAIT},
	{"what it names is committed", {.awaited = COMMITTED}, FATE_APPLY},
	{"... after a long time", {.awaited = COMMITTED, .late = true}, FATE_APPLY},
	{"what it names has failed", {.awaited = FAILED}, FATE_DROP},
	{"what it names was removed", {.awaited = DROPPED}, FATE_DROP},
	{"the commit does not come", {.awaited = OPEN, .late = true}, FATE_DROP},
	{"a later pointer has its name", {.awaited = OPEN, .overtaken = true}, FATE_DROP},
	{"... which was committed first", {.awaited = COMMITTED, .overtaken = true}, FATE_DROP},
	{"no node has said yet what it names", {.awaited = COMMITTED, .unknown = true}, FATE_LOOK},
	{"... nor will for long", {.awaited = COMMITTED, .unknown = true, .late = true}, FATE_LOOK},
	{"... and a later pointer has its name",
	 {.awaited = COMMITTED, .unknown = true, .overtaken = true},
	 FATE_DROP},
};

static const struct row removals[] = {
	{"its job is saving the next checkpoint", {.awaited = OPEN}, FATE_WAIT},

	{"the next one is committed: does a pointer name it?", {.awaited = COMMITTED}, FATE_LOOK},
	{"... none does", {.awaited = COMMITTED, .looked = true}, FATE_APPLY},
	{"... one does", {.awaited = COMMITTED, .looked = true, .named = true}, FATE_WAIT},
	{"... one does for too long",
	 {.awaited = COMMITTED, .looked = true, .named = true, .late = true},
	 FATE_APPLY},

	{"the remover ends: is there a newer one?", {.awaited = OPEN, .ended = true}, FATE_LOOK},
	{"... there is none yet", {.awaited = OPEN, .ended = true, .looked = true}, FATE_WAIT},
	{"... there is one",
	 {.awaited = OPEN, .ended = true, .looked = true, .newer = true},
	 FATE_APPLY},
	{"... there is one, but a pointer names the removed one",
	 {.awaited = OPEN, .ended = true, .looked = true, .newer = true, .named = true},
	 FATE_WAIT},

	{"no commit comes: is there a newer one?", {.awaited = OPEN, .late = true}, FATE_LOOK},
	{"... there is none", {.awaited = OPEN, .late = true, .looked = true}, FATE_DROP},
	{"... there is one",
	 {.awaited = OPEN, .late = true, .looked = true, .newer = true},
	 FATE_APPLY},
	{"... there is one, and time is over for pointers, too",
	 {.awaited = OPEN, .late = true, .looked = true, .newer = true, .named = true},
	 FATE_APPLY},

	{"its job has failed: is there a newer one?", {.awaited = FAILED}, FATE_LOOK},
	{"... there is none", {.awaited = FAILED, .looked = true}, FATE_DROP},
	{"... there is none that a pointer could name",
	 {.awaited = FAILED, .looked = true, .named = true},
	 FATE_DROP},
	{"... there is one", {.awaited = FAILED, .looked = true, .newer = true}, FATE_APPLY},
	{"... there is one, but a pointer names the removed one",
	 {.awaited = FAILED, .looked = true, .newer = true, .named = true},
	 FATE_WAIT},

	{"files go one by one", {.awaited = OPEN, .in_part = true}, FATE_WAIT},
	{"... and then no more", {.awaited = OPEN, .in_part = true, .quiet = true}, FATE_CHANGE},
	{"... when the next one is committed", {.awaited = COMMITTED, .in_part = true}, FATE_WAIT},
	{"... and a process of it dies",
	 {.awaited = OPEN, .in_part = true, .quiet = true, .cut_short = true},
	 FATE_DROP},
	{"all files have gone, and a process of that dies",
	 {.awaited = COMMITTED, .cut_short = true},
	 FATE_DROP},
};

static void of_a_pointer(void **state)
{
	(void)state;
	holds(pointers, sizeof(pointers) / sizeof(*pointers), true);
}

static void of_a_removal(void **state)
{
	(void)state;
	holds(removals, sizeof(removals) / sizeof(*removals), false);
}

/* Facts number @n, of 2^11 for each of four states. */
static struct fate_facts facts(unsigned n)
{
	static const enum generation_state awaited[] = {OPEN, COMMITTED, FAILED, DROPPED};

	return (struct fate_facts){
		.pointer = n & 1,
		.late = n & 2,
		.overtaken = n & 4,
		.unknown = n & 8,
		.in_part = n & 16,
		.cut_short = n & 32,
		.quiet = n & 64,
		.ended = n & 128,
		.looked = n & 256,
		.newer = n & 512,
		.named = n & 1024,
		.awaited = awaited[n >> 11],
	};
}

/* What is promised holds whatever else is known. */
static void whatever_else(void **state)
{
	unsigned n;

	(void)state;
	for (n = 0; n < 4u << 11; n++) {
		const struct fate_facts f = facts(n);
		enum fate fate = fate_of(&f);

		if (f.pointer && fate == FATE_APPLY) /* it never names what is not committed */
			assert_int_equal(f.awaited, COMMITTED);
		if (!f.pointer && fate == FATE_APPLY) /* a job keeps its last good checkpoint */
			assert_true(f.awaited == COMMITTED || f.newer);
		if (!f.pointer && fate == FATE_APPLY && f.named)
			assert_true(f.late);
		if (!f.pointer && f.looked) /* one look is enough */
			assert_int_not_equal(fate, FATE_LOOK);
		if (f.late && !f.unknown && !f.in_part && (f.pointer || f.looked)) /* all ends */
			assert_false(fate_waits(fate));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(of_a_pointer),
		cmocka_unit_test(of_a_removal),
		cmocka_unit_test(whatever_else),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
