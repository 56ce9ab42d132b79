/* SPDX-License-Identifier: MIT */
/* Writes pickles of protocol 2. Each function writes what its name says, to a stream in memory. */
#ifndef ENGINE_VIEWS_PICKLE_OUT_H
#define ENGINE_VIEWS_PICKLE_OUT_H

#include <stdint.h>
#include <stdio.h>

#define PICKLE_BEGIN	"\x80\x02"
#define PICKLE_MARK	"("
#define PICKLE_TUPLE	"t" /* of what is since the mark */
#define PICKLE_LIST	"l"
#define PICKLE_DICT	"}"
#define PICKLE_SETITEMS "u"
#define PICKLE_NEW	")\x81" /* of the class before, without arguments */
#define PICKLE_BUILD	"b"
#define PICKLE_CALL	"R"
#define PICKLE_PERSID	"Q"
#define PICKLE_FALSE	"\x89"
#define PICKLE_END	"."

void put_text(FILE *out, const char *text);
void put_int(FILE *out, uint64_t value);
void put_global(FILE *out, const char *module, const char *name);

/* A tuple of numbers; and one that torch.Size is called with. */
void put_tuple(FILE *out, const uint64_t *list, unsigned nr);
void put_size(FILE *out, const uint64_t *list, unsigned nr);

#endif
