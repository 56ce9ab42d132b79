/* SPDX-License-Identifier: MIT */
#include "engine/views/pickle_out.h"

#include <string.h>

static void put_number(FILE *out, uint64_t value, unsigned bytes)
{
	for (unsigned i = 0; i < bytes; i++)
		fputc((int)(value >> 8 * i & 255), out);
}

void put_text(FILE *out, const char *text)
{
	fputc('X', out);
	put_number(out, strlen(text), 4);
	fputs(text, out);
}

void put_int(FILE *out, uint64_t value)
{
	if (value < 256) {
		fputc('K', out);
		put_number(out, value, 1);
	} else if (value <= INT32_MAX) {
		fputc('J', out);
		put_number(out, value, 4);
	} else {
		unsigned bytes = 4;

		while (bytes < 8 && value >> (8 * bytes - 1)) /* the highest bit is a sign */
			bytes++;
		fprintf(out, "\x8a%c", (char)(bytes + (value >> 63)));
		put_number(out, value, bytes);
		if (value >> 63)
			fputc(0, out);
	}
}

void put_global(FILE *out, const char *module, const char *name)
{
	fprintf(out, "c%s\n%s\n", module, name);
}

void put_tuple(FILE *out, const uint64_t *list, unsigned nr)
{
	fputs(PICKLE_MARK, out);
	for (unsigned i = 0; i < nr; i++)
		put_int(out, list[i]);
	fputs(PICKLE_TUPLE, out);
}

void put_size(FILE *out, const uint64_t *list, unsigned nr)
{
	put_global(out, "torch", "Size");
	fputs(PICKLE_MARK, out);
	put_tuple(out, list, nr);
	fputs(PICKLE_TUPLE PICKLE_CALL, out);
}
