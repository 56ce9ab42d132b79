/* SPDX-License-Identifier: MIT */
/* Each state machine has one setter, which lets nothing pass that its table does not have. */
#include "tests/unit/unit.h"

#include <signal.h>
#include <sys/wait.h>

#include "engine/cache/cache.h"
#include "engine/coord/agreement.h"
#include "engine/save/units.h"

static const struct machine *const machines[] = {&file_machine, &checkpoint_machine, &chunk_machine,
						 &agreement_machine};

static void a_machine_has_names_and_can_be_walked_to_an_end(void **state)
{
	size_t i, s, to;

	(void)state;
	for (i = 0; i < sizeof(machines) / sizeof(*machines); i++) {
		const struct machine *m = machines[i];
		uint32_t all = 0;

		assert_true(m->nr_states && m->nr_states <= MACHINE_STATES_MAX);
		for (s = 0; s < m->nr_states; s++) {
			assert_non_null(m->names[s]);
			assert_false(machine_allows(m, (unsigned)s, (unsigned)s));
			for (to = 0; to < m->nr_states; to++)
				if (machine_allows(m, (unsigned)s, (unsigned)to))
					all |= MACHINE_TO(to);
		}
		assert_int_equal(all >> m->nr_states, 0);
		assert_false(machine_allows(m, m->nr_states, 0));
		assert_false(machine_allows(m, 0, m->nr_states));
	}
}

static void nothing_follows_what_is_over(void **state)
{
	enum generation_state s;
	enum agree_state a;

	(void)state;
	for (s = GENERATION_OPEN; s <= GENERATION_DROPPED; s++)
		if (state_is_over(s)) {
			assert_int_equal(file_machine.next[s], 0);
			assert_int_equal(checkpoint_machine.next[s], 0);
		}
	for (a = AGREE_COMMIT; a <= AGREE_LATE; a++)
		assert_int_equal(agreement_machine.next[a], 0);
}

/* What `wait --state durable` goes by. */
static void only_what_is_synced_is_told_as_durable(void **state)
{
	enum generation_state s;

	(void)state;
	for (s = GENERATION_OPEN; s < GENERATION_NAMING; s++) {
		assert_string_not_equal(generation_state_name(s), "durable");
		/* Nothing becomes durable but by the one who syncs it. */
		if (s != GENERATION_PUBLISHING && s != GENERATION_TAKEN)
			assert_false(machine_allows(&file_machine, s, GENERATION_NAMING));
		if (s != GENERATION_COMMITTING)
			assert_false(machine_allows(&checkpoint_machine, s, GENERATION_NAMING));
	}
	assert_string_equal(generation_state_name(GENERATION_NAMING), "durable");
}

/* What @illegal says on its way out, which is an abort. */
static void dies(void (*illegal)(void), const char *words[])
{
	char said[2048];
	int pipes[2], status;
	ssize_t len;
	pid_t pid;

	assert_int_equal(pipe(pipes), 0);
	pid = fork();
	if (!pid) {
		dup2(pipes[1], STDERR_FILENO);
		signal(SIGABRT, SIG_DFL);
		illegal();
		_exit(0);
	}
	close(pipes[1]);
	len = read(pipes[0], said, sizeof(said) - 1);
	close(pipes[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	assert_true(len > 0);
	said[len] = '\0';
	for (; *words; words++)
		if (!strstr(said, *words))
			fail_msg("it does not say '%s': %s", *words, said);
}

static void reopen_a_committed_file(void)
{
	struct units us;
	struct generation g = {.units = &us, .target = {.name = "model.pt"}};

	g.state = GENERATION_COMMITTED;
	generation_set_state(&g, GENERATION_OPEN);
}

static void commit_an_open_checkpoint(void)
{
	struct checkpoint cp = {.target = {.name = "step-7"}, .staging = ".ckptfs-77"};

	checkpoint_set_state(&cp, GENERATION_COMMITTING);
}

static void fly_with_a_free_chunk(void)
{
	struct cache c = {.nr_free = 1};
	struct chunk ck = {.index = 5};

	c.chunks = &ck;
	list_init(&ck.queue);
	cache_set_state(&c, &ck, CHUNK_FLYING);
}

static void vote_twice(void)
{
	const struct agree_op op = {.what = AGREE_RECORD, .kind = "log.3.1", .also = "log.0.9"};
	struct agreement a;
	struct agree_news news;

	agreement_begin(&a, "aa", "bb", 2);
	a.state = AGREE_VOTED;
	agreement_answer(&a, &op, true, "closed 3 aa", &news);
}

static void an_illegal_transition_ends_the_daemon_and_says_which(void **state)
{
	(void)state;
	dies(reopen_a_committed_file,
	     (const char *[]){"model.pt", "COMMITTED", "OPEN", "reopen_a_committed_file", NULL});
	dies(commit_an_open_checkpoint,
	     (const char *[]){"step-7", ".ckptfs-77", "OPEN", "COMMITTING",
			      "commit_an_open_checkpoint", NULL});
	dies(fly_with_a_free_chunk,
	     (const char *[]){"FREE", "FLYING", "fly_with_a_free_chunk", NULL});
	dies(vote_twice, (const char *[]){"node aa", "VOTED", "has_voted", NULL});
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_machine_has_names_and_can_be_walked_to_an_end),
		cmocka_unit_test(nothing_follows_what_is_over),
		cmocka_unit_test(only_what_is_synced_is_told_as_durable),
		cmocka_unit_test(an_illegal_transition_ends_the_daemon_and_says_which),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
