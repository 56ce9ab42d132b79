/* SPDX-License-Identifier: MIT */
/* Features: what the environment turns off stays off; probing leaves nothing behind. */
#include "tests/unit/unit.h"

#include <pthread.h>
#include <stdatomic.h>

#include "engine/backing/features.h"
#include "engine/base/json.h"
#include "engine/format/format.h"

static struct features with_env(const char *off)
{
	struct features f;

	if (off)
		setenv("CKPTFS_FEATURES_OFF", off, 1);
	else
		unsetenv("CKPTFS_FEATURES_OFF");
	features_init(&f);
	unsetenv("CKPTFS_FEATURES_OFF");
	return f;
}

static unsigned nr_off(const struct features *f)
{
	unsigned nr = 0, i;

	for (i = 0; i < NR_FEATURES; i++)
		nr += f->state[i] == FEATURE_TURNED_OFF;
	return nr;
}

static void the_environment_turns_off(void **state)
{
	struct features f = with_env(NULL);

	(void)state;
	assert_int_equal(nr_off(&f), 0);
	f = with_env("");
	assert_int_equal(nr_off(&f), 0);
	f = with_env("all");
	assert_int_equal(nr_off(&f), NR_FEATURES);
	f = with_env("openat2");
	assert_int_equal(nr_off(&f), 1);
	assert_int_equal(f.state[FEATURE_OPENAT2], FEATURE_TURNED_OFF);
	f = with_env(" ,xattr, odirect,,nonsense ,");
	assert_int_equal(nr_off(&f), 2);
	assert_int_equal(f.state[FEATURE_XATTR], FEATURE_TURNED_OFF);
	assert_int_equal(f.state[FEATURE_ODIRECT], FEATURE_TURNED_OFF);
	f = with_env("xattrs,XATTR,xatt"); /* whole names, as they are written */
	assert_int_equal(nr_off(&f), 0);
}

static void each_has_a_name_and_a_fallback(void **state)
{
	unsigned i, j;

	(void)state;
	for (i = 0; i < NR_FEATURES; i++) {
		struct features f = with_env(feature_names[i]);

		assert_int_equal(nr_off(&f), 1);
		assert_int_equal(f.state[i], FEATURE_TURNED_OFF);
		assert_true(strlen(feature_fallbacks[i]) > 10);
		for (j = 0; j < i; j++)
			assert_string_not_equal(feature_names[i], feature_names[j]);
	}
}

static void findings_do_not_turn_on_what_is_off(void **state)
{
	struct features f = with_env("xattr");

	(void)state;
	assert_true(feature_untried(&f, FEATURE_ODIRECT));
	assert_false(feature(&f, FEATURE_ODIRECT));
	features_set(&f, FEATURE_XATTR, true);
	features_set(&f, FEATURE_ODIRECT, true);
	features_set(&f, FEATURE_BTIME, false);
	assert_false(feature(&f, FEATURE_XATTR));
	assert_false(feature_untried(&f, FEATURE_XATTR));
	assert_true(feature(&f, FEATURE_ODIRECT));
	assert_false(feature(&f, FEATURE_BTIME));
	assert_false(feature_untried(&f, FEATURE_BTIME));
	features_set(&f, FEATURE_ODIRECT, false); /* found out later */
	assert_false(feature(&f, FEATURE_ODIRECT));
}

static void json_has_a_word_for_each(void **state)
{
	struct features f = with_env("xattr");
	json_t *o;

	(void)state;
	features_set(&f, FEATURE_ODIRECT, true);
	features_set(&f, FEATURE_BTIME, false);
	o = features_to_json(&f);
	assert_int_equal(json_object_size(o), NR_FEATURES);
	assert_string_equal(json_get_text(o, "xattr", ""), "off");
	assert_string_equal(json_get_text(o, "odirect", ""), "yes");
	assert_string_equal(json_get_text(o, "btime", ""), "no");
	assert_string_equal(json_get_text(o, "openat2", ""), "unknown");
	json_decref(o);
}

static int entries(int top)
{
	int fd = openat(top, FORMAT_DIR, O_RDONLY | O_DIRECTORY);
	DIR *d = fdopendir(fd);
	int nr = 0;

	assert_non_null(d);
	while (readdir(d))
		nr++;
	closedir(d);
	return nr;
}

static void probing_leaves_nothing(void **state)
{
	struct features f = with_env(NULL);
	struct error e;
	int dir = scratch_fd(), before, fds;

	(void)state;
	assert_int_equal(format_init(dir, "here", &e), 0);
	features_probe(&f, dir, false); /* read-only: what needs a file stays open */
	assert_true(feature_untried(&f, FEATURE_ODIRECT));
	assert_false(feature_untried(&f, FEATURE_XATTR));
	before = entries(dir);
	fds = count_fds();
	features_probe(&f, dir, true);
	assert_int_equal(entries(dir), before);
	assert_int_equal(count_fds(), fds);
	/* Everything that can be tried on a directory has been. */
	assert_false(feature_untried(&f, FEATURE_OPENAT2));
	assert_false(feature_untried(&f, FEATURE_BTIME));
	assert_false(feature_untried(&f, FEATURE_XATTR));
	assert_false(feature_untried(&f, FEATURE_ODIRECT));
	assert_false(feature_untried(&f, FEATURE_RENAME_FLAGS));
	close(dir);
}

static atomic_bool stop;
static int top;

/* The name of a file by which a mount tries the filesystem; "": there is none now. */
static void find_probe(char *name, size_t size)
{
	DIR *d = fdopendir(openat(top, FORMAT_DIR, O_RDONLY | O_DIRECTORY));
	struct dirent *e;

	assert_non_null(d);
	*name = '\0';
	while ((e = readdir(d)))
		if (!strncmp(e->d_name, "probe-", 6))
			snprintf(name, size, FORMAT_DIR "/%s", e->d_name);
	closedir(d);
}

static void *swap_for_a_fifo(void *arg)
{
	char name[NAME_MAX + 16];

	(void)arg;
	while (!stop) {
		mkfifoat(top, "fifo", 0666);
		find_probe(name, sizeof(name));
		if (*name)
			renameat2(top, "fifo", top, name, RENAME_EXCHANGE);
	}
	return NULL;
}

/* Another user may own .ckptfs. (Else this never ends.) */
static void probing_waits_for_no_fifo(void **state)
{
	struct error e;
	pthread_t thread;
	int i;

	(void)state;
	top = scratch_fd();
	assert_int_equal(format_init(top, "here", &e), 0);
	assert_int_equal(pthread_create(&thread, NULL, swap_for_a_fifo, NULL), 0);
	for (i = 0; i < 5000; i++) {
		struct features f = with_env(NULL);

		features_probe(&f, top, true);
	}
	stop = true;
	pthread_join(thread, NULL);
	close(top);
}

/* A mount that was killed, or another node's whose process has the same id, is at it, too. */
static void what_another_has_left_misleads_no_probe(void **state)
{
	struct features f = with_env(NULL), g = with_env(NULL);
	struct error e;
	char name[64];
	int dir = scratch_fd();

	(void)state;
	assert_int_equal(format_init(dir, "here", &e), 0);
	features_probe(&f, dir, true);
	snprintf(name, sizeof(name), FORMAT_DIR "/probe-%d-b", (int)getpid());
	assert_int_equal(mknodat(dir, name, S_IFREG | 0600, 0), 0);
	features_probe(&g, dir, true);
	assert_int_equal(feature(&g, FEATURE_RENAME_FLAGS), feature(&f, FEATURE_RENAME_FLAGS));
	assert_true(feature(&g, FEATURE_RENAME_FLAGS));
	close(dir);
}

static void without_the_format_directory_less_is_tried(void **state)
{
	struct features f = with_env(NULL);
	int dir = scratch_fd();

	(void)state;
	features_probe(&f, dir, true);
	assert_true(feature_untried(&f, FEATURE_ODIRECT));
	assert_false(feature_untried(&f, FEATURE_BTIME));
	close(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_environment_turns_off),
		cmocka_unit_test(each_has_a_name_and_a_fallback),
		cmocka_unit_test(findings_do_not_turn_on_what_is_off),
		cmocka_unit_test(json_has_a_word_for_each),
		cmocka_unit_test(probing_leaves_nothing),
		cmocka_unit_test(probing_waits_for_no_fifo),
		cmocka_unit_test(what_another_has_left_misleads_no_probe),
		cmocka_unit_test(without_the_format_directory_less_is_tried),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
