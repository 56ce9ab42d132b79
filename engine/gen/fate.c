/* SPDX-License-Identifier: MIT */
#include "engine/gen/fate.h"

#include "engine/base/fault.h"

static enum fate of_removal(const struct fate_facts *f, bool committed, bool hopeless)
{
	if (f->cut_short)
		return FATE_DROP;
	if (f->in_part)
		return f->quiet ? FATE_CHANGE : FATE_WAIT;
	if (!committed && !hopeless && !f->ended)
		return FATE_WAIT;
	if (!f->looked)
		return FATE_LOOK;
	if (!committed && !f->newer)
		return hopeless ? FATE_DROP : FATE_WAIT;
	return f->named && !f->late ? FATE_WAIT : FATE_APPLY;
}

enum fate fate_of(const struct fate_facts *f)
{
	bool lost = f->awaited == GENERATION_FAILED || f->awaited == GENERATION_DROPPED;
	bool early = f->pointer ? FAULT(POINTER_EARLY) : FAULT(REMOVAL_EARLY);
	bool committed = f->awaited == GENERATION_COMMITTED || (early && !lost);
	bool hopeless = lost || f->late;

	if (!f->pointer)
		return of_removal(f, committed, hopeless);
	if (f->overtaken)
		return FATE_DROP;
	if (f->unknown)
		return FATE_LOOK;
	return committed ? FATE_APPLY : hopeless ? FATE_DROP : FATE_WAIT;
}
