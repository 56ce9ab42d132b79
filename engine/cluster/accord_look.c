/* SPDX-License-Identifier: MIT */
/*
 * Reads the records of other nodes that an accord awaits, and takes what they say.
 *
 * Called with the units' lock, which is dropped for every call for records. What a report says is
 * taken elsewhere (accord_report.c).
 */
#include "engine/cluster/accord_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"

bool accord_keep_decision(struct accord *a, const char *text)
{
	struct agree_decision d;

	if (!agreement_read_decision(text, &d))
		return false;
	free(a->payloads[AGREE_OF_ABORT]);
	a->payloads[AGREE_OF_ABORT] = strdup(d.payload);
	return true;
}

bool accord_look_at(struct accord *a, const char *kind, char *text)
{
	struct units *us = a->cp->units;
	uint64_t begun_ns = clock_mono_ns();
	struct agree_news news;
	ssize_t len;

	lock_drop(&us->lock);
	len = us->coord->read(us->coord_arg, a->cp->owner.uid, accord_generation(a->cp), kind, text,
			      COORD_TEXT_MAX);
	lock_take(&us->lock);
	if (len == -ENOENT && !strcmp(kind, COORD_DECISION))
		a->undecided_ns = begun_ns;
	if (len < 0 || (!strcmp(kind, COORD_PREPARE) && accord_awaits_end_of_writer(a->cp)))
		return false;
	text[len] = '\0';
	if (!strcmp(kind, COORD_DECISION) && !accord_keep_decision(a, text))
		return false;
	agreement_saw(&a->a, kind, text, &news);
	accord_take_news(a, &news);
	a->heard_ns = a->stirred_ns = clock_mono_ns();
	return true;
}

void accord_look(struct accord *a)
{
	char kinds[AGREE_AWAITS][COORD_KIND_MAX];
	unsigned nr = agreement_awaits(&a->a, kinds), i;
	char *text = malloc(COORD_TEXT_MAX + 1);
	bool seen = false;

	/* If one is there the others mostly are not; and if not, the next wait returns at once. */
	for (i = 0; text && i < nr && !seen; i++)
		while (accord_look_at(a, kinds[i], text)) {
			seen = true;
			if (!coord_is_log(kinds[i]))
				break;
			coord_log_kind(kinds[i], a->a.slot, a->a.next);
		}
	free(text);
}

void accord_look_behind(struct accord *a)
{
	struct units *us = a->cp->units;
	struct agree_news news;
	char *text = malloc(COORD_TEXT_MAX + 1), kind[COORD_KIND_MAX];
	uint32_t at = a->a.next + 1, end = a->a.next + AGREE_BEHIND;

	for (; text && at <= end && agreement_is_root(&a->a) && a->a.state == AGREE_PREPARED;
	     at++) {
		ssize_t len;

		coord_log_kind(kind, a->a.slot, at);
		lock_drop(&us->lock);
		len = us->coord->read(us->coord_arg, a->cp->owner.uid, accord_generation(a->cp),
				      kind, text, COORD_TEXT_MAX);
		lock_take(&us->lock);
		if (len < 0)
			continue;
		text[len] = '\0';
		agreement_saw_behind(&a->a, text, &news);
		accord_take_news(a, &news);
	}
	a->looked_behind_ns = clock_mono_ns();
	free(text);
}
