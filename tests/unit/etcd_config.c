/* SPDX-License-Identifier: MIT */
/* What may stand behind coord=etcd:, and what is said of what may not. */
#include "tests/unit/unit.h"

#include "engine/coord/etcd_config.h"

static struct etcd_config c;
static struct error e;
static char dir[PATH_MAX], path[PATH_MAX + 16];

static int setup(void **state)
{
	(void)state;
	scratch_dir(dir);
	snprintf(path, sizeof(path), "%s/etcd.json", dir);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	etcd_config_finish(&c);
	return 0;
}

static int read_spec(const char *spec)
{
	etcd_config_finish(&c);
	return etcd_config_read(&c, spec, &e);
}

static void refused(const char *spec, const char *why)
{
	assert_int_equal(read_spec(spec), -EINVAL);
	assert_contains(e.text, why);
	assert_contains(e.text, "Nothing was changed");
}

static int read_text(const char *text, mode_t mode)
{
	FILE *f = fopen(path, "we");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
	chmod(path, mode);
	return read_spec(path);
}

static void refused_text(const char *text, const char *why)
{
	assert_int_equal(read_text(text, 0600), -EINVAL);
	assert_contains(e.text, why);
	assert_contains(e.text, path);
}

static void urls_are_of_hosts_and_ports(void **state)
{
	(void)state;
	assert_int_equal(read_spec("http://127.0.0.1:1234"), 0);
	assert_int_equal(c.nr_urls, 1);
	assert_string_equal(c.urls[0], "http://127.0.0.1:1234");
	assert_int_equal(read_spec("https://a.b-c_d/,http://[::1],https://[fe80::1]:7"), 0);
	assert_int_equal(c.nr_urls, 3);
	assert_string_equal(c.urls[0], "https://a.b-c_d:2379");
	assert_string_equal(c.urls[1], "http://[::1]:2379");
	assert_string_equal(c.urls[2], "https://[fe80::1]:7");
}

static void other_urls_are_refused(void **state)
{
	char many[20 * 16] = "http://a", longer[1024];
	unsigned i;

	(void)state;
	refused("", "begins with http:// or https://");
	refused("host:2379", "begins with http:// or https://");
	refused("ftp://host", "begins with http:// or https://");
	refused("http://a,", "begins with http:// or https://");
	refused("http://", "http://HOST:PORT");
	refused("http://a:", "http://HOST:PORT");
	refused("http://a:x", "http://HOST:PORT");
	refused("http://a:123456", "http://HOST:PORT");
	refused("http://a/v3", "http://HOST:PORT");
	refused("http://a?b", "http://HOST:PORT");
	refused("http://a b", "http://HOST:PORT");
	refused("http://[::1", "http://HOST:PORT");
	for (i = 0; i < 16; i++)
		strcat(many, ",http://a");
	refused(many, "more than 16");
	memset(longer, 'a', sizeof(longer));
	memcpy(longer, "http://", 7);
	longer[sizeof(longer) - 1] = '\0';
	refused(longer, "too long");
}

static void a_password_in_a_url_is_not_repeated(void **state)
{
	(void)state;
	refused("http://b,http://me:secret@a", "belong into a file");
	assert_null(strstr(e.text, "secret"));
}

static void a_file_has_the_rest(void **state)
{
	char text[4 * PATH_MAX];

	(void)state;
	snprintf(text, sizeof(text),
		 "{\"endpoints\": [\"https://a\", \"https://b:1\"], \"ca\": \"%s\", \"cert\": "
		 "\"%s\","
		 " \"key\": \"%s\", \"user\": \"me\", \"password\": \"secret\"}",
		 path, path, path);
	assert_int_equal(read_text(text, 0600), 0);
	assert_int_equal(c.nr_urls, 2);
	assert_string_equal(c.urls[1], "https://b:1");
	assert_string_equal(c.ca, path);
	assert_string_equal(c.user, "me");
	assert_string_equal(c.password, "secret");
	assert_int_equal(read_text(text, 0640), -EINVAL);
	assert_contains(e.text, "others may read it");
	assert_null(strstr(e.text, "secret"));
	assert_int_equal(read_text("{\"endpoints\": [\"http://a\"]}", 0644), 0);
	assert_null(c.ca);
	assert_null(c.user);
}

static void other_files_are_refused(void **state)
{
	(void)state;
	assert_int_equal(read_spec("/nowhere/etcd.json"), -ENOENT);
	assert_contains(e.text, "/nowhere/etcd.json");
	assert_int_equal(read_spec(dir), -EISDIR);
	refused_text("", "no JSON object");
	refused_text("[]", "no JSON object");
	refused_text("{}", "no endpoints");
	refused_text("{\"endpoint\": []}", "did you mean 'endpoints'");
	refused_text("{\"passwd\": \"x\"}", "did you mean 'password'");
	refused_text("{\"endpoints\": \"http://a\"}", "no list of URLs");
	refused_text("{\"endpoints\": []}", "no list of URLs");
	refused_text("{\"endpoints\": [1]}", "no list of URLs");
	refused_text("{\"endpoints\": [\"a\"]}", "begins with http:// or https://");
	refused_text("{\"endpoints\": [\"http://a\"], \"user\": \"a\"}", "belong together");
	refused_text("{\"endpoints\": [\"https://a\"], \"cert\": \"/dev/null\"}",
		     "belong together");
	refused_text("{\"endpoints\": [\"https://a\"], \"ca\": 1}", "no text");
	refused_text("{\"endpoints\": [\"https://a\"], \"ca\": \"\"}", "no text");
	refused_text("{\"endpoints\": [\"https://a\"], \"ca\": \"a\"}", "absolute");
	refused_text("{\"endpoints\": [\"https://a\"], \"ca\": \"/no/ca\"}", "cannot be read");
	refused_text("{\"endpoints\": [\"http://a\"], \"ca\": \"/dev/null\"}",
		     "an endpoint is http");
}

#define EACH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		EACH(urls_are_of_hosts_and_ports),
		EACH(other_urls_are_refused),
		EACH(a_password_in_a_url_is_not_repeated),
		EACH(a_file_has_the_rest),
		EACH(other_files_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
