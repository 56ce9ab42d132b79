/* SPDX-License-Identifier: MIT */
/* What the mount and the backing show. */
#ifndef TESTS_MODEL_LOOK_H
#define TESTS_MODEL_LOOK_H

#include "engine/backing/backing.h"
#include "tests/model/reference.h"

/* The directory @path in the mount; false: wrong() was said. */
bool look_mount(const char *path, struct snap *s);

enum found { FOUND_NOTHING, FOUND_PLAIN, FOUND_UNIT, FOUND_BROKEN };

/*
 * The unit @u on the backing @b. A unit is whole, and verifies; else it is broken, and @why
 * tells.
 */
enum found look_unit(struct backing *b, unsigned u, struct snap *s, char generation[GENERATION],
		     char *why, size_t size);

/* The file @path on the backing: its length, or -errno. */
ssize_t look_file(struct backing *b, const char *path, char data[DATA_MAX]);

#endif
