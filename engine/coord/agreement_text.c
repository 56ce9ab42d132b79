/* SPDX-License-Identifier: MIT */
/* The text of the records of an agreement that are not entries of a log. */
#include <stdio.h>
#include <string.h>

#include "engine/coord/agreement.h"

const char *agreement_decision(const char *text, bool *commit)
{
	*commit = !strncmp(text, "commit ", 7);
	if (!*commit && strncmp(text, "abort ", 6))
		return NULL;
	text = strchr(text, ' ') + 1;
	return text[strcspn(text, " ")] ? text + strcspn(text, " ") + 1 : "";
}

void agreement_write_decision(char *text, size_t size, bool commit, const char *node)
{
	snprintf(text, size, "%s %s", commit ? "commit" : "abort", node);
}

void agreement_write_prepare(char head[AGREE_HEAD_MAX], const struct agree_prepare *p)
{
	snprintf(head, AGREE_HEAD_MAX, "prepare %s %u %x %s", p->node, p->length, p->voted,
		 p->died ? "died" : "ended");
}

bool agreement_read_prepare(const char *text, struct agree_prepare *p)
{
	char why[8];

	memset(p, 0, sizeof(*p));
	if (sscanf(text, "prepare %32[0-9a-f] %10u %4x %7s", p->node, &p->length, &p->voted, why) !=
	    4)
		return false;
	p->died = !strcmp(why, "died");
	return p->length < AGREE_SLOT_MAX && (p->died || !strcmp(why, "ended"));
}
