/* SPDX-License-Identifier: MIT */
#include "engine/commit/decide.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/cluster/cluster.h"
#include "engine/coord/coord.h"
#include "engine/save/commit_describe.h"
#include "engine/save/units.h"

/* *@stands: the record that exists now, @text or an earlier one. */
static int record(struct checkpoint *cp, const char *text, struct decision *stands)
{
	struct units *us = cp->units;
	__cleanup_free char *first = malloc(COORD_TEXT_MAX);
	size_t len = 0;
	int ours = -ENOMEM;

	if (first)
		ours = us->coord->record(us->coord_arg, &cp->owner, staging_id(cp->staging),
					 COORD_DECISION, text, strlen(text), first, &len);
	if (ours < 0)
		return ours;
	return ours ? decision_parse(text, strlen(text), stands)
		    : decision_parse(first, len, stands);
}

int decision_record(struct checkpoint *cp, const char *path, const struct order *order)
{
	__cleanup_free struct decision *d = malloc(sizeof(*d));
	__cleanup_free char *text = NULL;
	int err;

	if (!d)
		return -ENOMEM;
	decision_propose(cp, path, order, d);
	d->ordinary = cp->ordinary;
	text = decision_write(d);
	if (!text)
		return -ENOMEM;
	if (cp->accord)
		return accord_decide(cp, text);
	err = record(cp, text, d);
	return err ? err : d->commit ? 0 : -ECANCELED;
}

/* True if the answer is that there is no decision. Without an answer there may be one. */
static bool is_absent(struct checkpoint *cp)
{
	struct units *us = cp->units;
	__cleanup_free char *text = malloc(COORD_TEXT_MAX);

	return text && us->coord->read(us->coord_arg, cp->owner.uid, staging_id(cp->staging),
				       COORD_DECISION, text, COORD_TEXT_MAX) == -ENOENT;
}

bool decision_withdraw(struct checkpoint *cp, const char *path)
{
	__cleanup_free struct decision *d = malloc(sizeof(*d));
	__cleanup_free char *text = NULL;
	bool withdrawn;

	if (!d)
		return false;
	decision_propose(cp, path, NULL, d);
	d->commit = false;
	text = decision_write(d);
	if (!text)
		return false;
	withdrawn = record(cp, text, d) ? is_absent(cp) : !d->commit;
	cp->decided = !withdrawn;
	return withdrawn;
}

void decision_forget(struct checkpoint *cp)
{
	struct units *us = cp->units;

	if (cp->accord) { /* after all nodes have seen it */
		accord_followed(cp, true);
		return;
	}
	us->coord->forget(us->coord_arg, &cp->owner, staging_id(cp->staging));
}
