/* SPDX-License-Identifier: MIT */
/* Options: every type with its bounds, the option list, the config file, and who wins. */
#include "tests/unit/unit.h"

#include "engine/config/config.h"

#define KIB (1ull << 10)
#define MIB (1ull << 20)
#define GIB (1ull << 30)
#define TIB (1ull << 40)

static const struct {
	enum key key;
	const char *text;
	bool valid;
	uint64_t number;
} values[] = {
	{OPT_PIN_HOST_CACHE, "true", true, 1},
	{OPT_PIN_HOST_CACHE, "yes", true, 1},
	{OPT_PIN_HOST_CACHE, "1", true, 1},
	{OPT_PIN_HOST_CACHE, "false", true, 0},
	{OPT_PIN_HOST_CACHE, "no", true, 0},
	{OPT_PIN_HOST_CACHE, "0", true, 0},
	{OPT_PIN_HOST_CACHE, "2", false, 0},
	{OPT_PIN_HOST_CACHE, "", false, 0},
	{OPT_PIN_HOST_CACHE, "TRUE", false, 0},
	{OPT_PIN_HOST_CACHE, "true ", false, 0},

	{OPT_PARSER_THREADS, "0", true, 0},
	{OPT_PARSER_THREADS, "007", true, 7},
	{OPT_PARSER_THREADS, "4294967295", true, UINT32_MAX},
	{OPT_PARSER_THREADS, "4294967296", false, 0},
	{OPT_PARSER_THREADS, "18446744073709551616", false, 0},
	{OPT_PARSER_THREADS, "99999999999999999999999999", false, 0},
	{OPT_PARSER_THREADS, "-1", false, 0},
	{OPT_PARSER_THREADS, "+1", false, 0},
	{OPT_PARSER_THREADS, " 1", false, 0},
	{OPT_PARSER_THREADS, "1 ", false, 0},
	{OPT_PARSER_THREADS, "0x10", false, 0},
	{OPT_PARSER_THREADS, "2.0", false, 0},
	{OPT_PARSER_THREADS, "1K", false, 0},
	{OPT_PARSER_THREADS, "", false, 0},

	{OPT_QUIET_S, "60", true, 60},
	{OPT_QUIET_S, "60s", false, 0},
	{OPT_QUIET_S, "-60", false, 0},

	{OPT_HOST_CACHE_SIZE, "0", true, 0},
	{OPT_HOST_CACHE_SIZE, "2", true, 2 * GIB},
	{OPT_HOST_CACHE_SIZE, "2K", true, 2 * KIB},
	{OPT_HOST_CACHE_SIZE, "2k", true, 2 * KIB},
	{OPT_HOST_CACHE_SIZE, "3M", true, 3 * MIB},
	{OPT_HOST_CACHE_SIZE, "3m", true, 3 * MIB},
	{OPT_HOST_CACHE_SIZE, "4G", true, 4 * GIB},
	{OPT_HOST_CACHE_SIZE, "4g", true, 4 * GIB},
	{OPT_HOST_CACHE_SIZE, "5T", true, 5 * TIB},
	{OPT_HOST_CACHE_SIZE, "5t", true, 5 * TIB},
	{OPT_HOST_CACHE_SIZE, "8388607T", true, 8388607 * TIB},
	{OPT_HOST_CACHE_SIZE, "8388608T", false, 0}, /* 2^63 */
	{OPT_HOST_CACHE_SIZE, "1024", true, 1024 * GIB},
	{OPT_HOST_CACHE_SIZE, "8589934591G", true, 8589934591 * GIB},
	{OPT_HOST_CACHE_SIZE, "8589934592G", false, 0},
	{OPT_HOST_CACHE_SIZE, "18446744073709551617K", false, 0},
	{OPT_HOST_CACHE_SIZE, "1KB", true, KIB},
	{OPT_HOST_CACHE_SIZE, "2MiB", true, 2 * MIB},
	{OPT_HOST_CACHE_SIZE, "1GB", true, GIB},
	{OPT_HOST_CACHE_SIZE, "1gib", true, GIB},
	{OPT_HOST_CACHE_SIZE, "3TB", true, 3 * TIB},
	{OPT_HOST_CACHE_SIZE, "1Gi", false, 0},
	{OPT_HOST_CACHE_SIZE, "1GBs", false, 0},
	{OPT_HOST_CACHE_SIZE, "1B", false, 0},
	{OPT_HOST_CACHE_SIZE, "1iB", false, 0},
	{OPT_HOST_CACHE_SIZE, "1 GB", false, 0},
	{OPT_HOST_CACHE_SIZE, "25%", true, CONFIG_PERCENT | 25},
	{OPT_HOST_CACHE_SIZE, "100%", true, CONFIG_PERCENT | 100},
	{OPT_HOST_CACHE_SIZE, "101%", false, 0},
	{OPT_HOST_CACHE_SIZE, "0%", false, 0},
	{OPT_HOST_CACHE_SIZE, "%", false, 0},
	{OPT_HOST_CACHE_SIZE, "1000%", false, 0},
	{OPT_HOST_CACHE_SIZE, "-1%", false, 0},
	{OPT_HOST_CACHE_SIZE, "25%%", false, 0},
	{OPT_HOST_CACHE_SIZE, "1P", false, 0},
	{OPT_HOST_CACHE_SIZE, "1.5G", false, 0},
	{OPT_HOST_CACHE_SIZE, "G", false, 0},
	{OPT_HOST_CACHE_SIZE, "-1G", false, 0},
	{OPT_HOST_CACHE_SIZE, "", false, 0},

	{OPT_FLUSH_BW, "1000", true, 1000},
	{OPT_FLUSH_BW, "1G", true, GIB},
	{OPT_FLUSH_BW, "400MB", true, 400 * MIB},
	{OPT_FLUSH_BW, "25%", false, 0},
	{OPT_FLUSH_BW, "9223372036854775807", true, INT64_MAX},
	{OPT_FLUSH_BW, "9223372036854775808", false, 0},
	{OPT_FLUSH_BW, "fast", false, 0},

	{OPT_FSYNC, "barrier", true, 0},
	{OPT_FSYNC, "durable", true, 1},
	{OPT_FSYNC, "barrier-all", true, 2},
	{OPT_FSYNC, "barrier-", false, 0},
	{OPT_FSYNC, "Durable", false, 0},
	{OPT_FSYNC, "", false, 0},
	{OPT_ON_FULL, "wait:30", true, 1},
	{OPT_ON_FULL, "delete_last", true, 2},
	{OPT_ON_FULL, "wait", false, 0},
	{OPT_ON_FULL, "wait:", false, 0},
	{OPT_ON_FULL, "wait:-1", false, 0},
	{OPT_ON_FULL, "wait:1x", false, 0},
	{OPT_ON_FULL, "fail:1", false, 0},

	{OPT_COORD, "", false, 0},
	{OPT_COORD, "a\nb", false, 0},
	{OPT_COORD, "a\x7f", false, 0},
	{OPT_COORD, "etcd:http://host:2379/x", true, 0},
	{OPT_NODE, "gpu07.rack-3_b", true, 0},
	{OPT_NODE, "a/b", false, 0},
	{OPT_NODE, ".hidden", false, 0},
	{OPT_NODE, "..", false, 0},
	{OPT_NODE, "", false, 0},

	{OPT_RULES, "[]", false, 0}, /* only in the file */
};

static void values_of_every_type(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		const struct key_info *k = &key_table[values[i].key];
		uint64_t number = 99;
		int err = config_parse_value(k, values[i].text, &number);

		if (err != (values[i].valid ? 0 : -EINVAL))
			fail_msg("%s=%s gave %d", k->name, values[i].text, err);
		if (values[i].valid && number != values[i].number)
			fail_msg("%s=%s is %llu", k->name, values[i].text,
				 (unsigned long long)number);
	}
}

static void texts_have_a_longest(void **state)
{
	char text[300];
	uint64_t number;

	(void)state;
	memset(text, 'n', sizeof(text));
	text[255] = '\0';
	assert_int_equal(config_parse_value(&key_table[OPT_COORD], text, &number), 0);
	assert_int_equal(config_parse_value(&key_table[OPT_NODE], text, &number), -EINVAL);
	text[255] = 'n';
	text[256] = '\0';
	assert_int_equal(config_parse_value(&key_table[OPT_COORD], text, &number), -EINVAL);
	text[64] = '\0';
	assert_int_equal(config_parse_value(&key_table[OPT_NODE], text, &number), 0);
	text[64] = 'n';
	text[65] = '\0';
	assert_int_equal(config_parse_value(&key_table[OPT_NODE], text, &number), -EINVAL);
}

/* A label stands in metrics, JSON and file names; it must not break any of them. */
static void labels_break_nothing(void **state)
{
	uint64_t number;

	(void)state;
	assert_int_equal(config_parse_value(&key_table[OPT_NODE], "a\"b", &number), -EINVAL);
	assert_int_equal(config_parse_value(&key_table[OPT_NODE], "a\\b", &number), -EINVAL);
	assert_int_equal(config_parse_value(&key_table[OPT_NODE], "a\xff", &number), -EINVAL);
	assert_int_equal(config_parse_value(&key_table[OPT_COORD], "a\xff", &number), -EINVAL);
	assert_int_equal(config_parse_value(&key_table[OPT_COORD], "kn\xc3\xb6t", &number), 0);
	assert_int_equal(config_parse_value(&key_table[OPT_NODE], "kn\xc3\xb6t", &number), -EINVAL);
}

/* --- the option list --- */

struct applied {
	struct config config;
	struct error error;
	int err;
};

static struct applied *apply(const char *options)
{
	struct applied *a = calloc(1, sizeof(*a));

	assert_non_null(a);
	config_init(&a->config);
	a->err = config_apply_options(&a->config, options, &a->error);
	return a;
}

static void done(struct applied *a)
{
	config_finish(&a->config);
	free(a);
}

static void defaults_come_first(void **state)
{
	struct applied *a = apply("");

	(void)state;
	assert_int_equal(a->err, 0);
	assert_int_equal(config_number(&a->config, OPT_QUIET_S), 60);
	assert_int_equal(config_number(&a->config, OPT_COW_MAX), GIB);
	assert_int_equal(config_number(&a->config, OPT_LOG_LEVEL), 2);
	assert_string_equal(config_text(&a->config, OPT_NODE), "");
	assert_false(config_given(&a->config, OPT_QUIET_S));
	assert_false(a->config.read_only);
	done(a);
}

static void options_are_applied(void **state)
{
	struct applied *a = apply("quiet_s=5,fsync=durable,allow_other,node=n1,ro,cow_max=2M");

	(void)state;
	assert_int_equal(a->err, 0);
	assert_int_equal(config_number(&a->config, OPT_QUIET_S), 5);
	assert_int_equal(config_number(&a->config, OPT_FSYNC), 1);
	assert_int_equal(config_number(&a->config, OPT_ALLOW_OTHER), 1);
	assert_int_equal(config_number(&a->config, OPT_COW_MAX), 2 * MIB);
	assert_string_equal(config_text(&a->config, OPT_NODE), "n1");
	assert_int_equal(a->config.values[OPT_NODE].source, FROM_OPTION);
	assert_true(a->config.read_only);
	done(a);
}

static void the_last_one_counts(void **state)
{
	struct applied *a = apply("quiet_s=5,quiet_s=6,ro,rw");

	(void)state;
	assert_int_equal(a->err, 0);
	assert_int_equal(config_number(&a->config, OPT_QUIET_S), 6);
	assert_false(a->config.read_only);
	done(a);
}

static void empty_options_are_nothing(void **state)
{
	struct applied *a = apply(",,quiet_s=5,,");

	(void)state;
	assert_int_equal(a->err, 0);
	assert_int_equal(config_number(&a->config, OPT_QUIET_S), 5);
	done(a);
}

static void commas_can_be_escaped(void **state)
{
	struct applied *a = apply("coord=0-3\\,8\\\\b,quiet_s=5");

	(void)state;
	assert_int_equal(a->err, 0);
	assert_string_equal(config_text(&a->config, OPT_COORD), "0-3,8\\b");
	assert_int_equal(config_number(&a->config, OPT_QUIET_S), 5);
	done(a);
	a = apply("coord=a\\b"); /* before anything else it is itself */
	assert_string_equal(config_text(&a->config, OPT_COORD), "a\\b");
	done(a);
	a = apply("coord=a\\"); /* and at the end */
	assert_string_equal(config_text(&a->config, OPT_COORD), "a\\");
	done(a);
}

static void values_may_contain_equals(void **state)
{
	struct applied *a = apply("coord=etcd:http://h/?a=b");

	(void)state;
	assert_int_equal(a->err, 0);
	assert_string_equal(config_text(&a->config, OPT_COORD), "etcd:http://h/?a=b");
	done(a);
}

static void options_of_fstab_are_accepted(void **state)
{
	struct applied *a = apply("defaults,rw,_netdev,nofail,x-systemd.automount,"
				  "x-systemd.requires=a.service,noatime,comment=mine,nosuid,nodev");

	(void)state;
	assert_int_equal(a->err, 0);
	done(a);
}

static void refused(const char *options, const char *part, const char *other)
{
	struct applied *a = apply(options);

	assert_int_equal(a->err, -EINVAL);
	assert_int_equal(a->error.err, EINVAL);
	assert_contains(a->error.text, part);
	assert_contains(a->error.text, other);
	assert_contains(a->error.text, "Nothing was mounted");
	done(a);
}

/* What is in percent becomes bytes once the memory is known; the rest stays. */
static void percent_is_of_the_memory(void **state)
{
	struct applied *a = apply("host_cache_size=25%,cow_max=100%,cache_per_uid=3M");

	(void)state;
	assert_int_equal(a->err, 0);
	config_set_memory(&a->config, 8 * GIB);
	assert_int_equal(config_number(&a->config, OPT_HOST_CACHE_SIZE), 2 * GIB);
	assert_int_equal(config_number(&a->config, OPT_COW_MAX), 8 * GIB);
	assert_int_equal(config_number(&a->config, OPT_CACHE_PER_UID), 3 * MIB);
	assert_int_equal(config_number(&a->config, OPT_QUIET_S), 60);
	done(a);
}

static void flags_are_kept(void **state)
{
	struct applied *a = apply("noatime,nonempty,noexec,remount,user_id=0,max_read=4096");

	(void)state;
	assert_int_equal(a->err, 0);
	assert_true(a->config.no_atime && a->config.non_empty && a->config.no_exec &&
		    a->config.remount);
	done(a);
	a = apply("noatime,atime,relatime,strictatime,nodiratime");
	assert_int_equal(a->err, 0);
	assert_false(a->config.no_atime);
	done(a);
	a = apply("user_id=0"); /* the kernel's word, only of a remount */
	assert_int_equal(a->err, -EINVAL);
	done(a);
}

static void refusals_help(void **state)
{
	(void)state;
	refused("quite_s=5", "'quite_s'", "did you mean 'quiet_s'");
	refused("quiet_s=5,lease", "'lease'", "did you mean 'lease_s'");
	refused("quiet_s=soon", "quiet_s=soon", "expected whole seconds");
	refused("quiet_s", "quiet_s=", "expected whole seconds");
	refused("fsync=never", "fsync=never", "expected barrier|durable|barrier-all");
	refused("on_full=wait", "on_full=wait", "wait:SECONDS");
	refused("rules=[]", "rules=[]", "in the config file");
	refused("ro=1", "'ro'", "unknown option 'ro'.");
	refused("cache=4G", "'cache'", "did you mean 'host_cache_size'?");
	refused("sync", "'sync'", "did you mean 'fsync'?");
	refused("zzz", "'zzz'", "unknown option 'zzz'.");
	refused("cpus=0-3", "'cpus'", "does not exist any more");
	refused("host_cache_size=4096", "host_cache_size=4096", "write 4096M for MiB, or 4096G");
	refused("coord=etcd:http://a,http://b", "'http://b'",
		"-o 'coord=etcd:http://a\\,http://b'");
}

static void a_refused_value_changes_nothing(void **state)
{
	struct applied *a = apply("quiet_s=5,node=n1");
	struct error e;

	(void)state;
	assert_int_equal(config_apply_options(&a->config, "quiet_s=x", &e), -EINVAL);
	assert_int_equal(config_apply_options(&a->config, "node=a/b", &e), -EINVAL);
	assert_int_equal(config_number(&a->config, OPT_QUIET_S), 5);
	assert_string_equal(config_text(&a->config, OPT_QUIET_S), "5");
	assert_string_equal(config_text(&a->config, OPT_NODE), "n1");
	done(a);
}

static void long_options_are_refused_too(void **state)
{
	static char options[100000];
	struct applied *a;

	(void)state;
	memset(options, 'q', sizeof(options) - 1);
	a = apply(options);
	assert_int_equal(a->err, -EINVAL);
	assert_true(strlen(a->error.text) < MESSAGE_MAX);
	done(a);
}

/* --- the config file --- */

static char file_path[PATH_MAX];

static struct applied *apply_file(const char *json)
{
	char dir[PATH_MAX - 16];
	char options[PATH_MAX + 16];
	FILE *f;

	snprintf(dir, sizeof(dir), "%.*s", (int)sizeof(dir) - 1, scratch_dir(file_path));
	snprintf(file_path, sizeof(file_path), "%s/config.json", dir);
	f = fopen(file_path, "w");
	assert_non_null(f);
	fputs(json, f);
	fclose(f);
	snprintf(options, sizeof(options), "config=%s", file_path);
	return apply(options);
}

static void the_file_is_read(void **state)
{
	struct applied *a = apply_file("{\"quiet_s\": 7, \"cow_max\": \"2M\", \"node\": \"n2\","
				       " \"pin_host_cache\": false, \"host_cache_size\": 2,"
				       " \"rules\": [{\"match\": \"*\"}], \"flush_bw\": 100}");

	(void)state;
	assert_int_equal(a->err, 0);
	assert_int_equal(config_number(&a->config, OPT_QUIET_S), 7);
	assert_int_equal(config_number(&a->config, OPT_COW_MAX), 2 * MIB);
	assert_int_equal(config_number(&a->config, OPT_HOST_CACHE_SIZE), 2 * GIB);
	assert_int_equal(config_number(&a->config, OPT_PIN_HOST_CACHE), 0);
	assert_int_equal(config_number(&a->config, OPT_FLUSH_BW), 100);
	assert_string_equal(config_text(&a->config, OPT_RULES), "[{\"match\":\"*\"}]");
	assert_int_equal(a->config.values[OPT_QUIET_S].source, FROM_FILE);
	assert_false(config_given(&a->config, OPT_LEASE_S));
	done(a);
}

static void options_win_over_the_file_wherever_it_stands(void **state)
{
	struct applied *a = apply_file("{\"quiet_s\": 7, \"lease_s\": 8}"), *b;
	char options[PATH_MAX + 64];
	int i;

	(void)state;
	assert_int_equal(a->err, 0);
	for (i = 0; i < 2; i++) {
		snprintf(options, sizeof(options),
			 i ? "config=%s,quiet_s=9" : "quiet_s=9,config=%s", file_path);
		b = apply(options);
		assert_int_equal(b->err, 0);
		assert_int_equal(config_number(&b->config, OPT_QUIET_S), 9);
		assert_int_equal(config_number(&b->config, OPT_LEASE_S), 8);
		assert_int_equal(b->config.values[OPT_QUIET_S].source, FROM_OPTION);
		assert_int_equal(b->config.values[OPT_LEASE_S].source, FROM_FILE);
		done(b);
	}
	done(a);
}

static void file_refused(const char *json, const char *part)
{
	struct applied *a = apply_file(json);

	assert_int_equal(a->err, -EINVAL);
	assert_contains(a->error.text, file_path);
	assert_contains(a->error.text, part);
	assert_contains(a->error.text, "Nothing was mounted");
	done(a);
}

static void files_with_mistakes_are_refused(void **state)
{
	(void)state;
	file_refused("", "Nothing");
	file_refused("{\n\"quiet_s\": 5,\n}", ":3:");
	file_refused("[1]", "not a JSON object");
	file_refused("{\"quiet_s\": 5, \"quiet_s\": 6}", "duplicate");
	file_refused("{\"quite_s\": 5}", "did you mean 'quiet_s'");
	file_refused("{\"config\": \"x\"}", "'config'");
	file_refused("{\"quiet_s\": true}", "expected whole seconds");
	file_refused("{\"quiet_s\": -5}", "expected whole seconds");
	file_refused("{\"quiet_s\": 5.0}", "expected whole seconds");
	file_refused("{\"quiet_s\": null}", "expected whole seconds");
	file_refused("{\"quiet_s\": 4294967296}", "expected whole seconds");
	file_refused("{\"pin_host_cache\": 1}", "true or false");
	file_refused("{\"rules\": {}}", "JSON list");
	file_refused("{\"rules\": \"[]\"}", "JSON list");
	file_refused("{\"node\": \"a\\u0000b\"}", "Nothing");
	file_refused("{\"node\": [\"a\"]}", "key node");
}

static void a_missing_file_is_told(void **state)
{
	struct applied *a = apply("config=/no/such/file.json");

	(void)state;
	assert_int_equal(a->err, -ENOENT);
	assert_contains(a->error.text, "/no/such/file.json");
	assert_contains(a->error.text, "No such file");
	done(a);
	a = apply("config=/proc");
	assert_true(a->err < 0);
	done(a);
}

/* --- config.json --- */

static void json_shows_value_and_source(void **state)
{
	struct applied *a = apply_file("{\"quiet_s\": 7, \"rules\": [1]}");
	struct error e;
	json_t *root, *key;
	enum key k;

	(void)state;
	assert_int_equal(config_apply_options(&a->config, "log_level=debug", &e), 0);
	root = config_to_json(&a->config);
	assert_int_equal(json_object_size(root), NR_KEYS);
	for (k = 0; k < NR_KEYS; k++)
		assert_true(json_is_object(json_object_get(root, key_table[k].name)));
	key = json_object_get(root, "quiet_s");
	assert_string_equal(json_string_value(json_object_get(key, "value")), "7");
	assert_string_equal(json_string_value(json_object_get(key, "source")), "config file");
	assert_true(json_is_true(json_object_get(key, "effective")));
	key = json_object_get(root, "log_level");
	assert_string_equal(json_string_value(json_object_get(key, "source")), "option");
	assert_true(json_is_true(json_object_get(key, "effective")));
	key = json_object_get(root, "pin_host_cache");
	assert_true(json_is_true(json_object_get(key, "value")));
	assert_string_equal(json_string_value(json_object_get(key, "source")), "default");
	assert_true(json_is_null(json_object_get(json_object_get(root, "node"), "value")));
	assert_true(json_is_array(json_object_get(json_object_get(root, "rules"), "value")));
	json_decref(root);
	done(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_of_every_type),
		cmocka_unit_test(texts_have_a_longest),
		cmocka_unit_test(labels_break_nothing),
		cmocka_unit_test(defaults_come_first),
		cmocka_unit_test(options_are_applied),
		cmocka_unit_test(the_last_one_counts),
		cmocka_unit_test(empty_options_are_nothing),
		cmocka_unit_test(commas_can_be_escaped),
		cmocka_unit_test(values_may_contain_equals),
		cmocka_unit_test(options_of_fstab_are_accepted),
		cmocka_unit_test(percent_is_of_the_memory),
		cmocka_unit_test(flags_are_kept),
		cmocka_unit_test(refusals_help),
		cmocka_unit_test(a_refused_value_changes_nothing),
		cmocka_unit_test(long_options_are_refused_too),
		cmocka_unit_test(the_file_is_read),
		cmocka_unit_test(options_win_over_the_file_wherever_it_stands),
		cmocka_unit_test(files_with_mistakes_are_refused),
		cmocka_unit_test(a_missing_file_is_told),
		cmocka_unit_test(json_shows_value_and_source),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
