/* SPDX-License-Identifier: MIT */
/* What the commit file of a committed directory tells of it. */
#ifndef ENGINE_REDO_UNIT_HEADER_H
#define ENGINE_REDO_UNIT_HEADER_H

#include "engine/backing/backing.h"
#include "engine/format/commit.h"

/* The header of the committed directory @unit, any descriptor of it. -errno: it cannot be read. */
int unit_header(struct backing *b, int unit, struct commit_header *h);

/* The same for its generation; "" and -errno on failure. */
int unit_generation(struct backing *b, int unit, char generation[COMMIT_HEX]);

#endif
