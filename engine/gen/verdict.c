/* SPDX-License-Identifier: MIT */
#include "engine/gen/verdict.h"

#include "engine/base/fault.h"

static bool every_rank(const struct gen_facts *f, const struct evidence *ev)
{
	int rank;

	if (f->world <= 1)
		return tally_files(f->tally, ev, -1);
	for (rank = 0; rank < f->world - FAULT(RANK_FORGOTTEN); rank++)
		if (!tally_files(f->tally, ev, rank))
			return false;
	return true;
}

bool gen_holds(void *facts, const struct evidence *ev)
{
	const struct gen_facts *f = facts;

	switch (ev->kind) {
	case EVIDENCE_CLOSE:
	case EVIDENCE_RENAME:
	case EVIDENCE_UNLINK:
		return tally_nr(f->tally, ev, ev->kind);
	case EVIDENCE_FILE:
		return tally_files(f->tally, ev, -1);
	case EVIDENCE_EVERY_RANK:
		return every_rank(f, ev);
	case EVIDENCE_ALL_CLOSED:
		return f->closed;
	case EVIDENCE_NEXT_SIBLING:
		return f->sibling;
	case EVIDENCE_EXITED_0:
		return f->exited_0 && !f->died;
	case EVIDENCE_QUIET:
		return f->quiet && !f->died && !f->unseen;
	case EVIDENCE_LONE:
		return f->world <= 1;
	case EVIDENCE_ASKED:
		return f->asked && !f->died;
	case NR_EVIDENCE_KINDS:
		break;
	}
	return false;
}

/*
 * True if processes without a rank may be copying the generation, in any order and several at once.
 * Then neither an existing file nor the exit of one process shows that the others are done. Only
 * silence does, or a framework's own last step, which no copy takes, or the only writer going on to
 * the next sibling.
 */
static bool may_be_copied(const struct gen_facts *f, int alternative)
{
	const struct rule *r = f->rule;
	bool copied = false;
	unsigned i;

	if (f->world || f->asked)
		return false;
	for (i = 0; i < r->nr_evidence; i++) {
		enum evidence_kind kind = r->evidence[i].kind;

		if (!(r->alternatives[alternative] >> i & 1))
			continue;
		if (kind == EVIDENCE_NEXT_SIBLING && f->goes_on)
			return false;
		copied = copied || (kind != EVIDENCE_RENAME && kind != EVIDENCE_UNLINK);
	}
	return copied;
}

/* The alternative of the rule by which the generation has ended. */
static int end_by_rule(const struct gen_facts *f)
{
	struct gen_facts facts = *f;
	int by = f->rule ? rule_ended(f->rule, gen_holds, &facts) : -1;

	if (by < 0 || (may_be_copied(f, by) && !(f->quiet && !f->died)))
		return GEN_NO_END;
	return by;
}

int gen_end(const struct gen_facts *f)
{
	bool quiet = f->quiet && !f->died, asked = f->asked && !f->died;
	int by;

	if (!f->closed || !(f->rule || f->follows))
		return GEN_NO_END;
	if (f->rule && rule_is_temp(f->rule, f->name))
		return GEN_NO_END;
	/* Files that remain while a program removes the others one by one are no checkpoint. */
	if (f->removing && !quiet)
		return GEN_NO_END;
	by = end_by_rule(f);
	if (by != GEN_NO_END)
		return by;
	return f->follows && (asked || (f->keeps && quiet)) ? GEN_NO_RULE : GEN_NO_END;
}

bool gen_stands(const struct gen_facts *f, int alternative)
{
	const struct rule *r = f->rule;
	struct gen_facts facts = *f;
	unsigned i;

	if (!r || alternative < 0)
		return true;
	for (i = 0; i < r->nr_evidence; i++)
		if (r->alternatives[alternative] >> i & 1 && r->evidence[i].pattern &&
		    !gen_holds(&facts, &r->evidence[i]))
			return false;
	return true;
}

static bool has_file(void *facts, const struct evidence *ev, int rank)
{
	const struct gen_facts *f = facts;

	return tally_files(f->tally, ev, rank);
}

/*
 * True if the work of each dead writer is in what ended by @alternative (V3). Where the rule asks
 * for the files of every rank, all of them are there.
 */
static bool covers_dead(const struct gen_facts *f, int alternative)
{
	struct gen_facts facts = *f;

	if (f->world == 1)
		return true;
	return alternative >= 0 &&
	       rule_covers(f->rule, alternative, f->died_unranked ? -1 : 0, has_file, &facts);
}

int gen_verdict(const struct gen_facts *f)
{
	int by = gen_end(f);

	return by != GEN_NO_END && f->died && !covers_dead(f, by) ? GEN_NO_END : by;
}
