/* SPDX-License-Identifier: MIT */
/* What Prometheus reads: every line well-formed, histograms cumulative and complete. */
#include "tests/unit/unit.h"

#include <pthread.h>

#include "engine/metrics/metrics.h"

static const char *op_name(unsigned opcode)
{
	return opcode == 1 ? "ONE" : opcode == 2 ? "TWO" : NULL;
}

static char *text_of(struct metrics *m)
{
	char *text = metrics_prometheus(m, "node-1", 5, op_name);

	assert_non_null(text);
	return text;
}

/* The value of the series that begins with @series, which must be there once. */
static double value_of(const char *text, const char *series)
{
	const char *at = strstr(text, series);

	if (!at)
		fail_msg("no %s in %s", series, text);
	assert_null(strstr(at + 1, series));
	return strtod(at + strlen(series), NULL);
}

static bool is_name(const char *s, size_t len)
{
	return len && strspn(s, "abcdefghijklmnopqrstuvwxyz_") >= len;
}

/* NAME{label="value",...} NUMBER, or "# HELP NAME text", or "# TYPE NAME type". */
static void check_line(const char *line, char type_of[128])
{
	char name[128], type[32], labels[256];
	int end = 0;
	double value;

	if (sscanf(line, "# TYPE %127s %31s%n", name, type, &end) == 2) {
		assert_true(!strcmp(type, "counter") || !strcmp(type, "gauge") ||
			    !strcmp(type, "histogram"));
		snprintf(type_of, 128, "%s", name);
	} else if (!strncmp(line, "# HELP ", 7)) {
		return;
	} else {
		assert_int_equal(
			sscanf(line, "%127[a-z_]{%255[^}]} %lf%n", name, labels, &value, &end), 3);
		assert_true(is_name(name, strlen(name)));
		assert_int_equal(strncmp(name, type_of, strlen(type_of)), 0);
		assert_non_null(strstr(labels, "node=\"node-1\""));
		assert_true(value >= 0);
	}
	assert_int_equal(line[end], '\0');
}

static void every_line_parses(void **state)
{
	struct metrics m = {0};
	char *text, *line, *rest, type_of[128] = "";

	(void)state;
	metrics_request(&m, 1, 5000, 0);
	metrics_request(&m, 2, 5000, 1);
	text = text_of(&m);
	assert_int_equal(text[strlen(text) - 1], '\n');
	for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		check_line(line, type_of);
	free(text);
}

static void histograms_are_cumulative(void **state)
{
	/* At a bound, just above it, and far above all. */
	static const uint64_t took_ns[] = {0,	       10000,	    10001,	    1000000,
					   9999999999, 10000000001, 123456789012345};
	struct metrics m = {0};
	char *text;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(took_ns) / sizeof(took_ns[0]); i++)
		metrics_request(&m, 1, took_ns[i], i == 3);
	text = text_of(&m);
#define BUCKET(le) value_of(text, "seconds_bucket{node=\"node-1\",op=\"ONE\",le=\"" le "\"}")
	assert_true(BUCKET("1e-05") == 2);
	assert_true(BUCKET("0.0001") == 3);
	assert_true(BUCKET("0.001") == 4);
	assert_true(BUCKET("0.01") == 4);
	assert_true(BUCKET("0.1") == 4);
	assert_true(BUCKET("1") == 4);
	assert_true(BUCKET("10") == 5);
	assert_true(BUCKET("+Inf") == 7);
	assert_true(value_of(text, "seconds_count{node=\"node-1\",op=\"ONE\"}") == 7);
	assert_true(value_of(text, "seconds_sum{node=\"node-1\",op=\"ONE\"}") > 123456);
	assert_true(value_of(text, "errors_total{node=\"node-1\",op=\"ONE\"}") == 1);
	assert_null(strstr(text, "TWO")); /* nothing happened: no series */
	free(text);
}

static void bounds_ascend(void **state)
{
	size_t i;

	(void)state;
	for (i = 1; i < METRIC_BUCKETS - 1; i++)
		assert_true(metric_bucket_us[i] > metric_bucket_us[i - 1]);
}

static void plain_values_show(void **state)
{
	struct metrics m = {0};
	char *text;

	(void)state;
	m.read_bytes = 1ull << 60;
	m.written_bytes = 2;
	m.queued = 3;
	text = text_of(&m);
	assert_true(value_of(text, "\nckptfs_read_bytes_total{node=\"node-1\"}") == 0x1p60);
	assert_true(value_of(text, "\nckptfs_written_bytes_total{node=\"node-1\"}") == 2);
	assert_true(value_of(text, "\nckptfs_queued_requests{node=\"node-1\"}") == 3);
	assert_true(value_of(text, "\nckptfs_failures_total{node=\"node-1\"}") == 5);
	free(text);
}

static void odd_opcodes_are_counted_somewhere(void **state)
{
	struct metrics m = {0};

	(void)state;
	metrics_request(&m, METRIC_OPS, 1, 0);
	metrics_request(&m, UINT32_MAX, 1, 1);
	assert_int_equal(m.ops[0].requests, 2);
	assert_int_equal(m.ops[0].errors, 1);
}

static void *count_many(void *arg)
{
	int i;

	for (i = 0; i < 20000; i++)
		metrics_request(arg, 1, (uint64_t)i * 1000, i % 2);
	return NULL;
}

static void threads_lose_nothing(void **state)
{
	static struct metrics m;
	uint64_t sum = 0;
	pthread_t threads[4];
	int i;

	(void)state;
	for (i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, count_many, &m), 0);
	for (i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	for (i = 0; i < METRIC_BUCKETS; i++)
		sum += m.ops[1].buckets[i];
	assert_int_equal(m.ops[1].requests, 80000);
	assert_int_equal(m.ops[1].errors, 40000);
	assert_int_equal(sum, 80000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_line_parses),
		cmocka_unit_test(histograms_are_cumulative),
		cmocka_unit_test(bounds_ascend),
		cmocka_unit_test(plain_values_show),
		cmocka_unit_test(odd_opcodes_are_counted_somewhere),
		cmocka_unit_test(threads_lose_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
