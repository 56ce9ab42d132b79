/* SPDX-License-Identifier: MIT */
/* Any option list is applied, or refused with a message; what was taken can be shown. */
#include "tests/fuzz/fuzz.h"

#include "engine/config/config.h"

static void check_values(const struct config *c)
{
	json_t *root = config_to_json(c);
	char *text = json_dumps(root, 0);
	uint64_t number;
	enum key k;

	REQUIRE(text && json_object_size(root) == NR_KEYS);
	for (k = 0; k < NR_KEYS; k++) {
		const struct config_value *v = &c->values[k];

		if (!v->text || key_table[k].type == KEY_JSON)
			continue;
		REQUIRE(!config_parse_value(&key_table[k], v->text, &number));
		REQUIRE(number == v->number);
		REQUIRE(json_is_null(json_object_get(json_object_get(root, key_table[k].name),
						     "value")) == false);
	}
	free(text);
	json_decref(root);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size);
	struct error e = {0};
	struct config c;
	int err;

	/* Files have a target of their own; nothing of this machine is to be read. */
	if (!strstr(text, "config=")) {
		config_init(&c);
		err = config_apply_options(&c, text, &e);
		REQUIRE(err <= 0 && err == -e.err);
		REQUIRE(!err == !e.text[0] && strlen(e.text) < sizeof(e.text));
		check_values(&c);
		config_finish(&c);
	}
	free(text);
	return 0;
}
