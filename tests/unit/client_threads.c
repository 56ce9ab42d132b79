/* SPDX-License-Identifier: MIT */
/* libckptfs: threads that register, write, wait and unregister at once, on one session. */
#include "tests/unit/client_daemon.h"

#define THREADS 4
#define ROUNDS	25
#define TENSORS 20
#define BYTES	3001

static struct ckptfs_session *s;

struct worker {
	pthread_t thread;
	unsigned nr;
	int fd, err;
	unsigned char *bytes;
};

static int one_round(struct worker *w, unsigned round)
{
	struct ckptfs_tensor_info t[TENSORS];
	struct ckptfs_write_op ops[TENSORS];
	uint64_t ids[TENSORS];
	char names[TENSORS][32];
	int err;

	for (unsigned i = 0; i < TENSORS; i++) {
		ids[i] = 1 + i + (uint64_t)TENSORS * (round + (uint64_t)ROUNDS * w->nr);
		snprintf(names[i], sizeof(names[i]), "thread.%u.%u", w->nr, i);
		t[i] = tensor_of(ids[i], names[i], BYTES);
		ops[i] = (struct ckptfs_write_op){.id = ids[i],
						  .addr = w->bytes + i * BYTES,
						  .file_off = i * BYTES,
						  .len = BYTES};
	}
	memset(w->bytes, (int)(w->nr * ROUNDS + round), TENSORS * BYTES);
	err = ckptfs_register(s, t, TENSORS);
	if (!err)
		err = ckptfs_write(s, w->fd, ops, TENSORS);
	if (!err)
		err = ckptfs_unregister(s, ids, TENSORS);
	return err ? err : ckptfs_barrier(s, NULL, 0, CKPTFS_BARRIER_LANDED, 0);
}

static void *work(void *arg)
{
	struct worker *w = arg;

	for (unsigned round = 0; round < ROUNDS && !w->err; round++)
		w->err = one_round(w, round);
	return NULL;
}

static void threads_share_a_session(void **state)
{
	struct worker workers[THREADS] = {0};
	struct ckptfs_session_stats st;

	(void)state;
	daemon_.ragged = true;
	daemon_.check = CKPTFS_CHECK_ALL;
	s = session_open();
	for (unsigned i = 0; i < THREADS; i++) {
		char name[16];

		snprintf(name, sizeof(name), "file-%u", i);
		workers[i].nr = i;
		workers[i].fd = file_create(name);
		workers[i].bytes = malloc(TENSORS * BYTES);
		pthread_create(&workers[i].thread, NULL, work, &workers[i]);
	}
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(workers[i].thread, NULL);
		assert_int_equal(workers[i].err, 0);
		assert_content(workers[i].fd, 0, workers[i].bytes, TENSORS * BYTES);
		close(workers[i].fd);
		free(workers[i].bytes);
	}
	assert_int_equal(ckptfs_session_stats(s, &st), 0);
	assert_int_equal(st.captures, THREADS * ROUNDS * TENSORS);
	assert_int_equal(st.pending, 0);
	ckptfs_close(s);
	assert_int_equal(daemon_.nr_ids, 0);
	assert_int_equal(daemon_.nr_fails, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {DAEMON_TEST(threads_share_a_session)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
