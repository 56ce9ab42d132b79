/* SPDX-License-Identifier: MIT */
#include "tests/sim/story.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "tests/sim/sched.h"

static FILE *out;
static char first_wrong[2048];

void story_to(FILE *file)
{
	out = file;
}

static void tell(const char *text)
{
	static uint64_t begin;
	uint64_t ms;

	if (!begin)
		begin = sched_now();
	ms = (sched_now() - begin) / NSEC_PER_MSEC;
	if (out)
		fprintf(out, "%5u.%03u s  %s\n", (unsigned)(ms / 1000), (unsigned)(ms % 1000),
			text);
}

void story(const char *fmt, ...)
{
	char text[2048];
	va_list ap;

	if (!out)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	tell(text);
}

/* --- what daemons say --- */

struct said {
	struct said *next;
	unsigned node;
	char text[];
};

static struct said *all_said;

void story_of_daemon(unsigned node, const char *text)
{
	size_t len = strlen(text) + 1;
	struct said *s = malloc(sizeof(*s) + len);

	if (!s)
		abort();
	s->node = node;
	memcpy(s->text, text, len);
	s->next = all_said;
	all_said = s;
	story("[node %u] %s", node, text);
}

bool daemon_has_told(unsigned node, const char *text)
{
	const struct said *s;

	for (s = all_said; s; s = s->next)
		if (s->node == node && strstr(s->text, text))
			return true;
	return false;
}

void wrong(const char *fmt, ...)
{
	char text[2048 + 16];
	va_list ap;

	if (*first_wrong)
		return; /* the first tells most */
	va_start(ap, fmt);
	vsnprintf(first_wrong, sizeof(first_wrong), fmt, ap);
	va_end(ap);
	snprintf(text, sizeof(text), "WRONG: %s", first_wrong);
	tell(text);
}

void listed(const char *why)
{
	story("what is known happens, and all that follows is no news: %s", why);
	fflush(NULL);
	_exit(STORY_LISTED);
}

const char *what_is_wrong(void)
{
	return *first_wrong ? first_wrong : NULL;
}
