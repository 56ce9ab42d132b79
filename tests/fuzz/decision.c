/* SPDX-License-Identifier: MIT */
/* A text is no decision, or one that names something below the backing, and nothing but that. */
#include "tests/fuzz/fuzz.h"

#include <errno.h>

#include "engine/backing/backing.h"
#include "engine/format/names.h"
#include "engine/record/decision.h"

static void is_below(const char *path)
{
	char *copy = strdup(path), *rest = copy, *name;
	size_t len = 0;

	REQUIRE(copy && *path && strlen(path) < PATH_MAX);
	while ((name = strsep(&rest, "/"))) {
		REQUIRE(backing_name_ok(name));
		len += strlen(name) + 1;
	}
	REQUIRE(len == strlen(path) + 1);
	free(copy);
}

static void is_name(const char *name)
{
	REQUIRE(backing_name_ok(name) && !name_is_reserved(name));
}

static void follows(const struct order *o)
{
	size_t i;

	REQUIRE(o->nr_pointers <= ORDER_MAX && o->nr_removals <= ORDER_MAX);
	for (i = 0; i < o->nr_pointers; i++) {
		const struct order_pointer *p = &o->pointers[i];

		is_name(p->name);
		REQUIRE(name_is_reserved(p->staging) && commit_is_hex(staging_id(p->staging)));
		REQUIRE(order_was_ok(p->was));
	}
	for (i = 0; i < o->nr_removals; i++) {
		is_name(o->removals[i].name);
		REQUIRE(commit_is_hex(o->removals[i].generation));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *exact = malloc(size ? size : 1); /* no terminator behind it to hide an overrun */
	struct decision *d = malloc(sizeof(*d)), *none = calloc(1, sizeof(*d));
	int err;

	REQUIRE(exact && d && none);
	memcpy(exact, data, size);
	memset(d, 0xA5, sizeof(*d));
	err = decision_parse(exact, size, d);
	REQUIRE(!err || (err == -EBADMSG && !memcmp(d, none, sizeof(*d))));
	if (!err) {
		is_below(d->unit);
		follows(&d->order);
		REQUIRE(!*d->generation || (d->replaces && commit_is_hex(d->generation)));
		REQUIRE(d->replaces || (!d->ino && !d->btime_ns));
		REQUIRE(!*d->generation || (!d->ino && !d->btime_ns));
	}
	free(exact);
	free(d);
	free(none);
	return 0;
}
