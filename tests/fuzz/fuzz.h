/* SPDX-License-Identifier: MIT */
/*
 * What the fuzz targets share. Each tests/fuzz/<target>.c defines LLVMFuzzerTestOneInput;
 * `make fuzz` links it with libFuzzer, `make tests` with replay.c, which feeds it the
 * files it is given.
 */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A promise that any input must keep; on in every build. */
#define REQUIRE(cond) \
	do { \
		if (!(cond)) { \
			fprintf(stderr, "%s:%d: broken: %s\n", __FILE__, __LINE__, #cond); \
			abort(); \
		} \
	} while (0)

/* The input as a string: ends at its first NUL. Owned by the caller. */
static inline char *fuzz_text(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);

	REQUIRE(text);
	memcpy(text, data, size);
	text[size] = '\0';
	return text;
}

#endif
