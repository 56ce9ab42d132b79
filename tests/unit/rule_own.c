/* SPDX-License-Identifier: MIT */
/* Rules of one's own come first; broken ones are told, and everything has a limit. */
#include "tests/unit/rule.h"

static void own_rules_come_first(void **state)
{
	struct rules *rs = rules_of(
		"[{\"name\": \"mine\", \"match\": [\"runs/*/save-*\"], \"temp\": [\"*.partial\"],"
		"  \"pointers\": [{\"name\": \"newest\", \"names\": \"save-{content:03}.x\"}],"
		"  \"done\": [[{\"close\": \"index/done\"}, \"all_closed\"]]},"
		" {\"name\": \"dcp-of-mine\", \"files\": [\"__0_0.distcp\"],"
		"  \"done\": [[\"asked\"]]},"
		" {\"name\": \"single-file\", \"kind\": \"file\", \"match\": [\"*.weights\"],"
		"  \"done\": [[\"all_closed\"]]}]");
	char text[RULE_WORDS_MAX], out[NAME_MAX + 1];
	const struct rule *r;

	(void)state;
	r = rules_suggest(rs, "runs/a/save-1");
	assert_string_equal(name_of(r), "mine");
	rule_evidence(r, 0, text, sizeof(text));
	assert_string_equal(text, "close index/done + all closed");
	assert_ptr_equal(rules_claim(rs, "runs/a/save-1", "x/y", is_beside, NULL), r);
	assert_ptr_equal(rules_claim(rs, "any/save.partial", "x/y", is_beside, NULL), r);
	assert_null(rules_suggest(rs, "runs/a/b/save-1"));
	assert_null(rules_suggest(rs, "save-1"));
	assert_string_equal(name_of(rules_claim(rs, "a", "__0_0.distcp", is_beside, NULL)),
			    "dcp-of-mine");
	assert_string_equal(name_of(rules_claim(rs, "a", "__0_1.distcp", is_beside, NULL)),
			    "torch-dcp");
	/* The own one took the place of the built-in one. */
	assert_non_null(rules_single(rs, "a.weights"));
	assert_null(rules_single(rs, "a.pt"));
	assert_true(rules_pointer_names(rs, "newest", "7\n", 2, out));
	assert_string_equal(out, "save-007.x");
	assert_false(rules_pointer_names(rs, "newest", "seven", 5, out));
	assert_false(rules_pointer_names(rs, "newest", "1234567890123456789", 19, out));
	rules_destroy(rs);
	rules_destroy(NULL);
}

#define RULE(keys) "[{\"name\": \"mine\", " keys "}]"
#define DONE	   "\"done\": [[\"quiet\"]]"
#define MATCH	   "\"match\": [\"m\"], "

static const struct {
	const char *own, *says;
} broken[] = {
	{"{}", "test.json: key rules is not valid: expected a list"},
	{"[1]", "a list of objects"},
	{"[{}]", "rule 1 of the list: key name"},
	{"[{\"name\": \"a b\"}]", "rule 1 of the list: key name"},
	{"[{\"name\": \"\"}]", "letters, digits"},
	{"[{\"name\": 7}]", "letters, digits"},
	{RULE(MATCH DONE ", \"mach\": []"), "rule 'mine' has the unknown key 'mach'; did you mean "
					    "'match'?"},
	{"[{\"nam\": \"x\"}]", "rule 1 of the list has the unknown key 'nam'; did you mean 'name'"},
	{RULE(MATCH DONE ", \"kind\": \"tree\""), "key kind"},
	{RULE(MATCH DONE ", \"kind\": 1"), "key kind"},
	{RULE(DONE), "key match is not valid: expected at least one of"},
	{RULE("\"temp\": [\"t\"], " DONE), "key match is not valid: expected at least one of"},
	{RULE("\"files\": [\"m\"], \"kind\": \"file\", " DONE), "key files"},
	{RULE("\"beside\": [\"m\"], \"kind\": \"file\", " DONE), "key beside"},
	{RULE("\"temp\": [\"m\"], \"kind\": \"file\", " DONE), "key match"},
	{RULE("\"match\": \"m\", " DONE), "key match"},
	{RULE("\"match\": [], " DONE), "key match"},
	{RULE("\"match\": [1], " DONE), "key match"},
	{RULE("\"match\": [\"\"], " DONE), "key match"},
	{RULE("\"match\": [\"/m\"], " DONE), "key match"},
	{RULE("\"match\": [\"m/\"], " DONE), "key match"},
	{RULE("\"match\": [\"m//n\"], " DONE), "key match"},
	{RULE("\"match\": [\"../m\"], " DONE), "key match"},
	{RULE("\"match\": [\"m/../n\"], " DONE), "key match"},
	{RULE("\"match\": [\"m/.\"], " DONE), "key match"},
	{RULE("\"match\": [\".\"], " DONE), "key match"},
	{RULE("\"match\": [\"m\\u0001\"], " DONE), "key match"},
	{RULE("\"match\": [\"{name}\"], " DONE), "key match"},
	{RULE("\"match\": [\"m}\"], " DONE), "key match"},
	{RULE("\"match\": [\"{m\"], " DONE), "key match"},
	{RULE("\"temp\": [\"a/b\"], " MATCH DONE), "key temp"},
	{RULE("\"beside\": [\"*\"], " MATCH DONE), "key beside"},
	{RULE("\"beside\": [\"{step}\"], " MATCH DONE), "key beside"},
	{RULE("\"beside\": [\"{name%}\"], " MATCH DONE), "key beside"},
	{RULE("\"beside\": [\"{name%{name}}\"], " MATCH DONE), "key beside"},
	{RULE("\"beside\": [\"../{name}\"], " MATCH DONE), "key beside"},
	{RULE("\"match\": [\"m\"]"), "key done"},
	{RULE(MATCH "\"done\": []"), "key done"},
	{RULE(MATCH "\"done\": [[]]"), "key done"},
	{RULE(MATCH "\"done\": [\"quiet\"]"), "key done"},
	{RULE(MATCH "\"done\": [[7]]"), "key done"},
	{RULE(MATCH "\"done\": [[{}]]"), "key done"},
	{RULE(MATCH "\"done\": [[{\"close\": \"a\", \"rename\": \"b\"}]]"), "key done"},
	{RULE(MATCH "\"done\": [[\"al_closed\"]]"), "rule 'mine': unknown evidence 'al_closed' in "
						    "done; did you mean 'all_closed'?"},
	{RULE(MATCH "\"done\": [[{\"clos\": \"a\"}]]"), "did you mean 'close'?"},
	{RULE(MATCH "\"done\": [[\"close\"]]"), "{\"close\": PATTERN}"},
	{RULE(MATCH "\"done\": [[{\"quiet\": \"a\"}]]"), "\"quiet\" without a pattern"},
	{RULE(MATCH "\"done\": [[{\"close\": \".\"}]]"), "key done"},
	{RULE(MATCH "\"done\": [[{\"close\": \"..\"}]]"), "key done"},
	{RULE(MATCH "\"done\": [[{\"close\": \"../\"}]]"), "key done"},
	{RULE(MATCH "\"done\": [[{\"close\": \"../../a\"}]]"), "key done"},
	{RULE(MATCH "\"done\": [[{\"close\": \"a{rank}\"}]]"), "key done"},
	{RULE(MATCH "\"done\": [[{\"every_rank\": \"../{rank}\"}]]"), "key done"},
	{RULE(MATCH "\"done\": [[{\"close\": 7}]]"), "key done"},
	{RULE(MATCH "\"done\": [[{\"close\": \"a\"}, \"after_al\"]]"),
	 "rule 'mine': unknown evidence 'after_al' in done; did you mean 'after_all'?"},
	{RULE(MATCH "\"done\": [[{\"close\": \"a\"}, {\"after_all\": true}]]"),
	 "key done is not valid: expected \"after_all\" without a pattern"},
	{RULE(MATCH "\"done\": [[{\"close\": \"a\"}, {\"after_all\": \"a\"}]]"),
	 "\"after_all\" without a pattern"},
	{RULE(MATCH "\"done\": [[\"after_all\"]]"), "\"after_all\" beside close, rename or unlink"},
	{RULE(MATCH "\"done\": [[\"all_closed\", \"after_all\"]]"),
	 "\"after_all\" beside close, rename or unlink"},
	{RULE(MATCH "\"done\": [[{\"every_rank\": \"{rank}\"}, \"after_all\"]]"),
	 "\"after_all\" beside close, rename or unlink"},
	{RULE(MATCH "\"done\": [[{\"close\": \"a\"}, \"quiet\", \"after_all\"]]"),
	 "\"after_all\" without exited_0, quiet and asked beside it"},
	{RULE(MATCH "\"done\": [[\"after_all\", {\"close\": \"a\"}, \"exited_0\"]]"),
	 "\"after_all\" without exited_0"},
	{RULE(MATCH "\"done\": [[{\"close\": \"a\"}, \"asked\", \"after_all\"]]"),
	 "\"after_all\" without exited_0"},
	{RULE(MATCH "\"kind\": \"file\", \"done\": [[{\"rename\": \".\"}, \"after_all\"]]"),
	 "no \"after_all\" in a rule of kind \"file\""},
	{RULE(MATCH "\"after_all\": true, " DONE),
	 "key after_all is not valid: expected it in an alternative of done, such as"},
	{RULE(MATCH DONE ", \"pointers\": []"), "key pointers"},
	{RULE(MATCH DONE ", \"pointers\": [7]"), "key pointers"},
	{RULE(MATCH DONE ", \"pointers\": [{\"name\": \"l\"}]"), "key pointers"},
	{RULE(MATCH DONE ", \"pointers\": [{\"name\": \"l*\", \"names\": \"{content}\"}]"),
	 "key pointers"},
	{RULE(MATCH DONE ", \"pointers\": [{\"name\": \"l\", \"names\": \"x\"}]"), "key pointers"},
	{RULE(MATCH DONE ", \"pointers\": [{\"name\": \"l\", \"names\": \"{content}{content}\"}]"),
	 "key pointers"},
	{RULE(MATCH DONE ", \"pointers\": [{\"name\": \"l\", \"names\": \"{content:7}\"}]"),
	 "key pointers"},
	{RULE(MATCH DONE ", \"pointers\": [{\"name\": \"l\", \"names\": \"{content:019}\"}]"),
	 "key pointers"},
	{RULE(MATCH DONE ", \"pointers\": [{\"name\": \"l\", \"names\": \"{content:0+7}\"}]"),
	 "key pointers"},
	{RULE(MATCH DONE ", \"pointers\": [{\"name\": \"l\", \"names\": \"{content:0}\"}]"),
	 "key pointers"},
	{RULE(MATCH DONE ", \"pointers\": [{\"name\": \"l\", \"names\": \"{content}\", "
			 "\"after\": 7}]"),
	 "key pointers"},
	{RULE(MATCH DONE ", \"pointers\": [{\"name\": \"l\", \"name_\": \"x\"}]"),
	 "unknown key 'name_'; did you mean 'name'?"},
	{"[{\"name\": \"x\", \"match\": [\"m\"], " DONE
	 "}, {\"name\": \"x\", \"match\": [\"n\"], " DONE "}]",
	 "two rules have the name 'x'"},
};

static void refused(json_t *own, const char *says)
{
	struct error e = {0};
	struct rules *rs = presets;
	int err;

	assert_non_null(own);
	err = rules_create(&rs, own, "test.json", &e);
	json_decref(own);
	if (err != -EINVAL || rs)
		fail_msg("rules for '%s' were taken", says);
	assert_int_equal(e.err, EINVAL);
	assert_contains(e.text, "test.json: ");
	assert_contains(e.text, says);
}

static void broken_rules_are_told(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(broken) / sizeof(broken[0]); i++)
		refused(json_loads(broken[i].own, 0, NULL), broken[i].says);
}

#define AFTER_ALL "{\"close\": \"a\"}, \"after_all\""

static void after_all_is_of_an_alternative(void **state)
{
	struct rules *rs =
		rules_of(RULE(MATCH "\"done\": [[\"quiet\"], [\"after_all\", {\"close\": \"a\"}], "
				    "[{\"close\": \"a\"}, \"next_sibling\"], "
				    "[{\"close\": \"a\"}, \"next_sibling\", \"after_all\"]]"));
	const struct rule *r = rules_find(rs, "mine");
	char text[RULE_WORDS_MAX];

	(void)state;
	assert_int_equal(r->after_all, 1 << 1 | 1 << 3);
	/* It is no evidence: what the commit file says of the end does not have it. */
	rule_evidence(r, 1, text, sizeof(text));
	assert_string_equal(text, "close a");
	rules_destroy(rs);
}

/* Nodes that differ in it would judge one checkpoint differently, so they do not mount together. */
static void after_all_is_in_the_digest(void **state)
{
	struct rules *with = rules_of(RULE(MATCH "\"done\": [[" AFTER_ALL "]]"));
	struct rules *without = rules_of(RULE(MATCH "\"done\": [[{\"close\": \"a\"}]]"));
	char one[33], other[33];

	(void)state;
	rules_digest(with, one);
	rules_digest(without, other);
	assert_string_not_equal(one, other);
	rules_destroy(with);
	rules_destroy(without);
}

static void rules_without_cover_are_found(void **state)
{
	struct rules *rs = rules_of(
		"[{\"name\": \"a\", " MATCH "\"done\": [[{\"close\": \"a\"}], [\"quiet\"]]},"
		" {\"name\": \"b\", " MATCH "\"done\": [[\"quiet\"], [" AFTER_ALL "]]},"
		" {\"name\": \"c\", " MATCH "\"done\": [[{\"every_rank\": \"r{rank}\"}]]},"
		" {\"name\": \"d\", " MATCH "\"kind\": \"file\", \"done\": [[\"all_closed\"]]},"
		" {\"name\": \"e\", " MATCH "\"done\": [[\"exited_0\"]]}]");
	const struct rule *r = rules_next_bare(rs, NULL);

	(void)state;
	assert_string_equal(name_of(r), "a");
	r = rules_next_bare(rs, r);
	assert_string_equal(name_of(r), "e");
	assert_null(rules_next_bare(rs, r));
	rules_destroy(rs);
	/* Of the built-in ones the manual page tells. */
	assert_null(rules_next_bare(presets, NULL));
}

static json_t *rule_with(const char *key, json_t *value)
{
	json_t *own = json_loads(RULE(MATCH DONE), 0, NULL);

	assert_int_equal(json_object_set_new(json_array_get(own, 0), key, value), 0);
	return own;
}

static json_t *many(json_t *value, size_t nr)
{
	json_t *list = json_array();

	while (nr--)
		assert_int_equal(json_array_append(list, value), 0);
	json_decref(value);
	return list;
}

static void accepted(json_t *own)
{
	struct error e = {0};
	struct rules *rs;

	assert_int_equal(rules_create(&rs, own, "test.json", &e), 0);
	rules_destroy(rs);
	json_decref(own);
}

static void everything_has_a_limit(void **state)
{
	json_t *rule = json_loads(RULE(MATCH DONE), 0, NULL), *list = json_array(), *done;
	char text[257], name[66];
	size_t i, j;

	(void)state;
	for (i = 0; i < RULES_MAX + 1; i++) {
		json_t *copy = json_deep_copy(json_array_get(rule, 0));

		if (i == RULES_MAX)
			accepted(json_deep_copy(list));
		snprintf(name, sizeof(name), "r%zu", i);
		json_object_set_new(copy, "name", json_string(name));
		json_array_append_new(list, copy);
	}
	refused(list, "at most 64 rules");
	json_decref(rule);

	memset(text, 't', sizeof(text));
	text[256] = '\0';
	refused(rule_with("match", json_pack("[s]", text)), "key match");
	accepted(rule_with("match", json_pack("[s]", text + 1)));
	memset(name, 'n', sizeof(name));
	name[65] = '\0';
	refused(rule_with("name", json_string(name)), "rule 1 of the list");
	accepted(rule_with("name", json_string(name + 1)));

	accepted(rule_with("files", many(json_string("f"), 32)));
	refused(rule_with("files", many(json_string("f"), 33)), "key files");
	accepted(rule_with("done", many(many(json_string("quiet"), 8), 14)));
	refused(rule_with("done", many(many(json_string("quiet"), 1), 15)), "key done");
	refused(rule_with("done", many(many(json_string("quiet"), 9), 1)), "key done");

	done = json_array();
	for (i = 0; i < 8; i++) {
		json_t *alternative = json_array();

		for (j = 0; j < 8; j++) {
			snprintf(name, sizeof(name), "f%zu%zu", i, j);
			json_array_append_new(alternative, json_pack("{s:s}", "close", name));
		}
		json_array_append_new(done, alternative);
	}
	refused(rule_with("done", done), "59 different ones");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(own_rules_come_first),
		cmocka_unit_test(broken_rules_are_told),
		cmocka_unit_test(after_all_is_of_an_alternative),
		cmocka_unit_test(after_all_is_in_the_digest),
		cmocka_unit_test(rules_without_cover_are_found),
		cmocka_unit_test(everything_has_a_limit),
	};

	return cmocka_run_group_tests(tests, create_presets, destroy_presets);
}
