/* SPDX-License-Identifier: MIT */
/* The order of locks is checked, in a build that checks it: this one, whatever the rest is. */
#ifndef CKPTFS_LOCK_CHECK
#define CKPTFS_LOCK_CHECK
#endif
#include "tests/unit/unit.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>

#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/lock.c"

static struct lock ending = LOCK_INIT(LOCK_ENDING), tree = LOCK_INIT(LOCK_TREE),
		   units = LOCK_INIT(LOCK_UNITS), cache = LOCK_INIT(LOCK_CACHE),
		   other_cache = LOCK_INIT(LOCK_CACHE);

static void in_order(void)
{
	LOCK_SCOPE(&tree);
	{
		LOCK_SCOPE(&units);
		{
			LOCK_SCOPE(&cache);
		}
	}
	{
		LOCK_SCOPE(&cache);
	}
}

static void dropped_in_any_order(void)
{
	lock_take(&tree);
	lock_take(&units);
	lock_drop(&tree);
	lock_take(&cache);
	lock_assert_held(&units);
	lock_drop(&units);
	lock_drop(&cache);
}

static void inverted(void)
{
	LOCK_SCOPE(&cache);
	lock_take(&units);
}

static void two_of_a_rank(void)
{
	LOCK_SCOPE(&cache);
	lock_take(&other_cache);
}

static void waited_with_beside_the_end(void)
{
	lock_take(&ending);
	lock_take(&units);
	lock_check_alone(&units);
}

static void waited_with_beside_another(void)
{
	lock_take(&tree);
	lock_take(&units);
	lock_check_alone(&units);
}

static void dropped_twice(void)
{
	lock_take(&cache);
	lock_drop(&cache);
	lock_drop(&cache);
}

/* What @f does in a process of its own: "" if that ends well, or its last words. */
static const char *words_of(void (*f)(void))
{
	static char text[256];
	int fds[2], status;
	ssize_t n;
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	if (!pid) {
		dup2(fds[1], STDERR_FILENO);
		signal(SIGILL, SIG_DFL);
		signal(SIGTRAP, SIG_DFL);
		f();
		_exit(0);
	}
	close(fds[1]);
	n = read(fds[0], text, sizeof(text) - 1);
	close(fds[0]);
	text[n > 0 ? n : 0] = '\0';
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(!*text, WIFEXITED(status) && !WEXITSTATUS(status));
	return text;
}

static void the_order_is_kept(void **state)
{
	(void)state;
	assert_string_equal(words_of(in_order), "");
	assert_string_equal(words_of(dropped_in_any_order), "");
	assert_string_equal(words_of(waited_with_beside_the_end), "");
}

static void what_breaks_it_is_named(void **state)
{
	(void)state;
	assert_string_equal(words_of(inverted), "ckptfs: lock 'units' is taken after 'cache'\n");
	assert_string_equal(words_of(two_of_a_rank),
			    "ckptfs: lock 'cache' is taken after 'cache'\n");
	assert_string_equal(words_of(waited_with_beside_another),
			    "ckptfs: lock 'units' is waited with while holding 'tree'\n");
	assert_string_equal(words_of(dropped_twice), "ckptfs: lock 'cache' is not held\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_order_is_kept),
		cmocka_unit_test(what_breaks_it_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
