/* SPDX-License-Identifier: MIT */
/* The texts of the records of an agreement; agreement.h has examples. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/coord/agreement.h"

static const char *const entries[] = {
	[AGREE_JOIN] = "join",	   [AGREE_REPORT] = "report", [AGREE_VOTE] = "vote",
	[AGREE_CLOSED] = "closed", [AGREE_HEIR] = "heir",
};

char *agreement_text(const char *head, const char *payload)
{
	size_t size = strlen(head) + strlen(payload) + 2;
	char *text = malloc(size);

	if (text)
		snprintf(text, size, "%s%s%s", head, *payload ? " " : "", payload);
	return text;
}

void agreement_write_entry(char head[AGREE_HEAD_MAX], enum agree_entry what, uint32_t slot,
			   const char *node)
{
	snprintf(head, AGREE_HEAD_MAX, "%s %u %s", entries[what], slot, node);
}

bool agreement_read_entry(const char *text, enum agree_entry *what, uint32_t *slot,
			  char node[COORD_NODE_MAX], const char **payload)
{
	char word[8];
	unsigned i;
	int at = 0;

	if (sscanf(text, "%7[a-z] %10u %32[0-9a-f]%n", word, slot, node, &at) != 3 || !at ||
	    (text[at] && text[at] != ' '))
		return false;
	*payload = text + at + (text[at] == ' ');
	for (i = 0; i < ARRAY_SIZE(entries); i++) {
		if (!strcmp(word, entries[i])) {
			*what = (enum agree_entry)i;
			return true;
		}
	}
	return false;
}

void agreement_write_decision(char head[AGREE_HEAD_MAX], bool commit, const char *node)
{
	snprintf(head, AGREE_HEAD_MAX, "%s %s", commit ? "commit" : "abort", node);
}

bool agreement_read_decision(const char *text, struct agree_decision *d)
{
	memset(d, 0, sizeof(*d));
	d->commit = !strncmp(text, "commit ", 7);
	if (!d->commit && strncmp(text, "abort ", 6))
		return false;
	text = strchr(text, ' ') + 1;
	if (sscanf(text, "%32[0-9a-f]", d->node) != 1)
		d->node[0] = '\0';
	text += strcspn(text, " ");
	d->payload = *text ? text + 1 : text;
	return true;
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
