/* SPDX-License-Identifier: MIT */
/* Matches evidence, decides on the end, and describes both for people. */
#include <stdio.h>
#include <string.h>

#include "engine/base/text.h"
#include "engine/rule/internal.h"

const char *const evidence_words[NR_EVIDENCE_KINDS] = {
	[EVIDENCE_CLOSE] = "close",
	[EVIDENCE_RENAME] = "rename",
	[EVIDENCE_UNLINK] = "unlink",
	[EVIDENCE_EVERY_RANK] = "every_rank",
	[EVIDENCE_FILE] = "file",
	[EVIDENCE_ALL_CLOSED] = "all_closed",
	[EVIDENCE_NEXT_SIBLING] = "next_sibling",
	[EVIDENCE_EXITED_0] = "exited_0",
	[EVIDENCE_QUIET] = "quiet",
	[EVIDENCE_LONE] = "lone",
	[EVIDENCE_ASKED] = "asked",
};

uint64_t rule_seen(const struct rule *r, enum evidence_kind operation, const char *unit_name,
		   const char *path)
{
	uint64_t seen = 0;
	unsigned i;

	for (i = 0; i < r->nr_evidence; i++)
		if (r->evidence[i].kind == operation &&
		    evidence_matches(&r->evidence[i], unit_name, path, NULL))
			seen |= 1ull << i;
	return seen;
}

static uint64_t bits_of(const struct rule *r, enum evidence_kind kind)
{
	uint64_t bits = 0;
	unsigned i;

	for (i = 0; i < r->nr_evidence; i++)
		if (r->evidence[i].kind == kind)
			bits |= 1ull << i;
	return bits;
}

static uint64_t bits_held(const struct rule *r, evidence_holds holds, void *arg)
{
	uint64_t held = 0;
	unsigned i;

	for (i = 0; i < r->nr_evidence; i++)
		if (holds(arg, &r->evidence[i]))
			held |= 1ull << i;
	return held;
}

/* In a world of one the files "of every rank" show no end: the process may write more of them. */
static uint64_t bits_missing(const struct rule *r, unsigned alternative, uint64_t held)
{
	uint64_t wanted = r->alternatives[alternative];

	if (wanted & bits_of(r, EVIDENCE_EVERY_RANK) && held & bits_of(r, EVIDENCE_LONE))
		wanted |= bits_of(r, EVIDENCE_ALL_CLOSED) | bits_of(r, EVIDENCE_QUIET);
	return wanted & ~held;
}

int rule_ended(const struct rule *r, evidence_holds holds, void *arg)
{
	uint64_t held = bits_held(r, holds, arg);
	unsigned i;

	for (i = 0; i < r->nr_alternatives; i++)
		if (!bits_missing(r, i, held))
			return (int)i;
	return -1;
}

bool rule_has_cover(const struct rule *r)
{
	return r->after_all || bits_of(r, EVIDENCE_EVERY_RANK);
}

bool rule_covers(const struct rule *r, int alternative, int rank, rank_has_file has, void *arg)
{
	uint64_t files = r->alternatives[alternative] & bits_of(r, EVIDENCE_EVERY_RANK);
	unsigned i;

	if (r->after_all >> alternative & 1)
		return true;
	if (!files || rank < 0)
		return false;
	for (i = 0; i < r->nr_evidence; i++)
		if (files >> i & 1 && !has(arg, &r->evidence[i], rank))
			return false;
	return true;
}

/* What has to bring the missing pieces of one alternative. */
static enum rule_wait waits_for(const struct rule *r, uint64_t missing)
{
	uint64_t job = bits_of(r, EVIDENCE_NEXT_SIBLING) | bits_of(r, EVIDENCE_EXITED_0);
	uint64_t quiet = bits_of(r, EVIDENCE_QUIET), closed = bits_of(r, EVIDENCE_ALL_CLOSED);

	if (!(missing & ~quiet))
		return RULE_WAITS_FOR_TIME;
	if (missing & job && !(missing & ~(job | quiet | closed)))
		return RULE_WAITS_FOR_JOB;
	return RULE_WAITS_FOR_PARTS;
}

static bool has_begun(const struct rule *r, unsigned alternative, uint64_t held, uint64_t begun)
{
	uint64_t operations = bits_of(r, EVIDENCE_CLOSE) | bits_of(r, EVIDENCE_RENAME) |
			      bits_of(r, EVIDENCE_UNLINK);
	uint64_t files = bits_of(r, EVIDENCE_EVERY_RANK) | bits_of(r, EVIDENCE_FILE);
	uint64_t wanted = r->alternatives[alternative];

	return wanted & operations ? wanted & operations & held : wanted & files & begun;
}

enum rule_wait rule_waits(const struct rule *r, evidence_holds holds, evidence_holds begun,
			  void *arg)
{
	uint64_t held = bits_held(r, holds, arg), parts = bits_held(r, begun, arg);
	uint64_t never = bits_of(r, EVIDENCE_ASKED) | (bits_of(r, EVIDENCE_LONE) & ~held);
	enum rule_wait least = RULE_WAITS_FOR_PARTS;
	bool any = false;
	unsigned i;

	for (i = 0; i < r->nr_alternatives; i++) {
		enum rule_wait wait = waits_for(r, bits_missing(r, i, held));

		if (r->alternatives[i] & never)
			continue;
		least = wait < least ? wait : least;
		any = any || has_begun(r, i, held, parts);
	}
	return any ? least : RULE_WAITS;
}

/* --- words --- */

/* The pieces in @bits by kind, operations first. */
static unsigned in_order(const struct rule *r, uint64_t bits,
			 const struct evidence *out[RULE_EVIDENCE_MAX])
{
	enum evidence_kind kind;
	unsigned i, nr = 0;

	for (kind = 0; kind < NR_EVIDENCE_KINDS; kind++)
		for (i = 0; i < r->nr_evidence; i++)
			if (bits >> i & 1 && r->evidence[i].kind == kind)
				out[nr++] = &r->evidence[i];
	return nr;
}

void rule_evidence(const struct rule *r, int alternative, char *buf, size_t size)
{
	const struct evidence *pieces[RULE_EVIDENCE_MAX];
	unsigned i, nr = in_order(r, r->alternatives[alternative], pieces);
	struct text t = {buf, size, 0};
	const char *c;

	for (i = 0; i < nr; i++) {
		text_say(&t, "%s", i ? " + " : "");
		for (c = evidence_words[pieces[i]->kind]; *c; c++)
			text_say(&t, "%c", *c == '_' ? ' ' : *c);
		if (pieces[i]->pattern)
			text_say(&t, " %s", pieces[i]->pattern);
	}
}

static void say_missing(struct text *t, const struct evidence *ev)
{
	static const char *const phrases[NR_EVIDENCE_KINDS][2] = {
		[EVIDENCE_CLOSE] = {"the close of ", ""},
		[EVIDENCE_RENAME] = {"the rename to ", ""},
		[EVIDENCE_UNLINK] = {"the removal of ", ""},
		[EVIDENCE_EVERY_RANK] = {"", " of every rank"},
		[EVIDENCE_FILE] = {"a file ", ""},
		[EVIDENCE_ALL_CLOSED] = {"the close of every file", ""},
		[EVIDENCE_NEXT_SIBLING] = {"the next checkpoint beside it", ""},
		[EVIDENCE_EXITED_0] = {"the exit of every writer with status 0", ""},
		[EVIDENCE_QUIET] = {"a while without writes (quiet_s)", ""},
		[EVIDENCE_LONE] = {"", ""}, /* a fact that does not change, see rule_missing */
		[EVIDENCE_ASKED] = {"`ckptfs commit`", ""},
	};
	const char *pattern = ev->pattern ? ev->pattern : "", *where = "", *rank;

	if (!strcmp(pattern, "."))
		pattern = "its final name";
	if (!strncmp(pattern, "../", 3)) {
		pattern += 3;
		where = " beside it";
	}
	text_say(t, "%s", phrases[ev->kind][0]);
	/* People see the name with rank N, not the template. */
	for (rank = strstr(pattern, "{rank}"); rank; rank = strstr(pattern, "{rank}")) {
		text_say(t, "%.*sN", (int)(rank - pattern), pattern);
		pattern = rank + strlen("{rank}");
	}
	text_say(t, "%s%s%s", pattern, where, phrases[ev->kind][1]);
}

static void say_all_missing(struct text *t, const struct rule *r, uint64_t missing)
{
	const struct evidence *pieces[RULE_EVIDENCE_MAX];
	unsigned i, nr = in_order(r, missing, pieces);

	for (i = 0; i < nr; i++) {
		text_say(t, "%s", i ? " and " : "");
		say_missing(t, pieces[i]);
	}
}

/* True if another alternative lacks only a part of what this one lacks. */
static bool is_surpassed(const uint64_t *missing, unsigned nr, unsigned alternative)
{
	uint64_t mine = missing[alternative];
	unsigned i;

	for (i = 0; i < nr; i++)
		if ((missing[i] & mine) == missing[i] && (missing[i] != mine || i < alternative))
			return true;
	return false;
}

void rule_missing(const struct rule *r, evidence_holds holds, void *arg, char *buf, size_t size)
{
	uint64_t missing[RULE_ALTERNATIVES_MAX], held = bits_held(r, holds, arg);
	uint64_t asked = bits_of(r, EVIDENCE_ASKED), lone = bits_of(r, EVIDENCE_LONE);
	struct text t = {buf, size, 0};
	unsigned i, nr = 0;
	int count;

	*buf = '\0';
	for (i = 0; i < r->nr_alternatives; i++) {
		uint64_t m = bits_missing(r, i, held);

		if (!m)
			return;
		if (!(m & lone)) /* a larger world never becomes a world of one */
			missing[nr++] = m;
	}
	for (count = 1; count <= RULE_EVIDENCE_MAX + 1; count++) {
		for (i = 0; i < nr; i++) {
			/* A person may ask at any time, so this comes last. */
			int far = missing[i] & asked ? RULE_EVIDENCE_MAX + 1
						     : __builtin_popcountll(missing[i]);

			if (far != count || is_surpassed(missing, nr, i))
				continue;
			text_say(&t, "%s", t.len ? "; or " : "");
			say_all_missing(&t, r, missing[i]);
		}
	}
}
