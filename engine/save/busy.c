/* SPDX-License-Identifier: MIT */
#include "engine/save/units.h"

#include <assert.h>

int busy_wait(struct units *us, unsigned *busy, enum busy with)
{
	int err = 0;

	while (!err && *busy & with)
		err = units_wait(us);
	if (!err)
		busy_begin(busy, with);
	return err;
}

void busy_begin(unsigned *busy, enum busy with)
{
	assert(!(*busy & with));
	*busy |= with;
}

void busy_end(struct units *us, unsigned *busy, enum busy with)
{
	assert(*busy & with);
	*busy &= ~(unsigned)with;
	waitq_wake_all(&us->changed);
}
