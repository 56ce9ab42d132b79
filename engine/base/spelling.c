/* SPDX-License-Identifier: MIT */
#include "engine/base/spelling.h"

#include <stdint.h>
#include <string.h>

#define WORD_MAX 64

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/*
 * The number of missing, additional, different or swapped neighbouring letters. Keeps three rows of
 * the table of distances between the beginnings of both words. Words that do not fit into a row
 * count as infinitely far.
 */
static size_t edit_distance(const char *a, const char *b)
{
	size_t rows[3][WORD_MAX], la = strlen(a), lb = strlen(b), i, j;

	if (lb >= WORD_MAX || la > 255)
		return SIZE_MAX;
	for (j = 0; j <= lb; j++)
		rows[0][j] = j;
	for (i = 1; i <= la; i++) {
		size_t *row = rows[i % 3], *above = rows[(i + 2) % 3],
		       *above_that = rows[(i + 1) % 3];

		row[0] = i;
		for (j = 1; j <= lb; j++) {
			row[j] = least(above[j - 1] + (a[i - 1] != b[j - 1]),
				       least(above[j], row[j - 1]) + 1);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				row[j] = least(row[j], above_that[j - 2] + 1);
		}
	}
	return rows[la % 3][lb];
}

size_t spelling_distance(const char *given, const char *known)
{
	/* A correct beginning is accepted, however much is missing. */
	if (strlen(given) > 2 && !strncmp(given, known, strlen(given)))
		return 0;
	return edit_distance(given, known);
}

size_t spelling_limit(const char *given)
{
	size_t limit = (strlen(given) + 1) / 3;

	return limit ? limit : 1;
}
