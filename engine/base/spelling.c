/* SPDX-License-Identifier: MIT */
#include "engine/base/spelling.h"

#include <stdint.h>
#include <string.h>

#include "engine/base/cleanup.h"

/* Levenshtein distance with one row of memory; names longer than the row count as far away. */
static size_t edit_distance(const char *a, const char *b)
{
	size_t row[64], la = strlen(a), lb = strlen(b), i, j;

	if (lb >= ARRAY_SIZE(row) || la > 255)
		return SIZE_MAX;
	for (j = 0; j <= lb; j++)
		row[j] = j;
	for (i = 1; i <= la; i++) {
		size_t diagonal = row[0];

		row[0] = i;
		for (j = 1; j <= lb; j++) {
			size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
			size_t best = replaced;

			diagonal = row[j];
			if (row[j] + 1 < best)
				best = row[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			row[j] = best;
		}
	}
	return row[lb];
}

size_t spelling_distance(const char *given, const char *known)
{
	/* What was begun right is meant, however much is missing. */
	if (strlen(given) > 2 && !strncmp(given, known, strlen(given)))
		return 0;
	return edit_distance(given, known);
}
