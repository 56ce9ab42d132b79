/* SPDX-License-Identifier: MIT */
/* Leaves out of a failing sequence what it can do without. */
#include "tests/model/model.h"

#include <string.h>

#define RACES 4 /* what depends on timing may need several tries */

static bool fails(const struct sequence *s, const struct play_options *o)
{
	unsigned at, i, tries = s->racing ? RACES : 1;

	for (i = 0; i < tries; i++)
		if (!play(s, o, &at))
			return true;
	return false;
}

void shrink(struct sequence *s, const struct play_options *o)
{
	struct sequence less;
	unsigned len, i;

	less = *s;
	less.racing = false;
	if (s->racing && fails(&less, o))
		*s = less;
	for (len = s->nr / 2; len; len = len == 1 ? 0 : len / 2) {
		for (i = 0; i + len <= s->nr;) {
			less = *s;
			memmove(less.ops + i, less.ops + i + len,
				(less.nr - i - len) * sizeof(*less.ops));
			less.nr -= len;
			if (fails(&less, o))
				*s = less;
			else
				i += len;
		}
	}
	for (i = 0; i < s->nr;) { /* once more, one by one: what was needed may not be, any more */
		less = *s;
		memmove(less.ops + i, less.ops + i + 1, (less.nr - i - 1) * sizeof(*less.ops));
		less.nr--;
		if (fails(&less, o))
			*s = less;
		else
			i++;
	}
}
