/* SPDX-License-Identifier: MIT */
/*
 * Any bytes are refused as a pickle, with a reason, or become a tree of bounded size, all of which
 * can be asked about.
 */
#include "tests/fuzz/fuzz.h"

#include <errno.h>

#include "engine/tensors/pickle.h"

#define DEPTH_MAX 16
#define ASK_MAX	  500 /* values may be shared, and hold themselves */

struct asking {
	const struct pickle *p;
	const uint8_t *data;
	size_t size, nr;
};

static void ask(struct asking *a, pickle_ref r, unsigned depth)
{
	const struct pickle *p = a->p;
	char name[64];
	size_t len;
	const char *text = pickle_text(p, r, &len);
	int64_t number;

	if (depth > DEPTH_MAX || ++a->nr > ASK_MAX)
		return;
	if (text)
		REQUIRE(text >= (const char *)a->data &&
			len <= a->size - (size_t)(text - (const char *)a->data));
	pickle_int(p, r, &number);
	REQUIRE(pickle_global(p, r, name, sizeof(name)) && strlen(name) < sizeof(name));
	REQUIRE(!pickle_item(p, r, pickle_nr(p, r)));
	for (size_t i = 0; i < pickle_nr(p, r); i++)
		ask(a, pickle_item(p, r, i), depth + 1);
	for (size_t i = 0; i < pickle_nr_pairs(p, r); i++) {
		REQUIRE(pickle_is_dict(p, r));
		ask(a, pickle_key(p, r, i), depth + 1);
		ask(a, pickle_value(p, r, i), depth + 1);
	}
	pickle_get(p, r, "size");
	pickle_attribute(p, r, "size");
	ask(a, pickle_callee(p, r), depth + 1);
	ask(a, pickle_args(p, r), depth + 1);
	ask(a, pickle_state(p, r), depth + 1);
	ask(a, pickle_appended(p, r), depth + 1);
	ask(a, pickle_id(p, r), depth + 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pickle *p = NULL;
	struct asking a = {.data = data, .size = size};
	const char *why = NULL;
	size_t used;
	int err = pickle_read(data, size, &p, &used, &why);

	REQUIRE(used <= size);
	if (err) {
		REQUIRE(err == -EBADMSG && why && !p);
		return 0;
	}
	a.p = p;
	REQUIRE(pickle_root(p));
	ask(&a, pickle_root(p), 0);
	pickle_free(p);
	return 0;
}
