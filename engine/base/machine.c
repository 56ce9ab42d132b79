/* SPDX-License-Identifier: MIT */
#include "engine/base/machine.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/base/log.h"

bool machine_allows(const struct machine *m, unsigned from, unsigned to)
{
	return from < m->nr_states && to < m->nr_states && m->next[from] & MACHINE_TO(to);
}

static const char *name_of(const struct machine *m, unsigned state)
{
	return state < m->nr_states ? m->names[state] : "unknown";
}

void machine_abort(const struct machine *m, unsigned from, unsigned to, const char *who,
		   const char *fmt, ...)
{
	char object[1024];
	va_list args;

	va_start(args, fmt);
	vsnprintf(object, sizeof(object), fmt, args);
	va_end(args);
	log_error(
		"%s %s is %s, and %s() makes it %s, which is no legal transition. This is a bug "
		"in ckptfs: the daemon ends here, before it does harm. What is committed is safe, "
		"and what was decided is redone by the next mount; please report this line",
		m->what, object, name_of(m, from), who, name_of(m, to));
	abort();
}
