/* SPDX-License-Identifier: MIT */
/*
 * For the tests of saves over a backing that fails, is full, takes part of what it is given, hangs
 * or is slow. What has the name is whole at any time, old or new; the program that saves is told;
 * memory and descriptors come back; and nobody waits for ever.
 *
 * W11 to W15 are what went wrong in other engines of checkpoints:
 *
 *   W11  an fsync that waits for writes alone, and rewrites that leave the tail of a longer file
 *   W12  a short write that is continued at a wrong place, or is submitted for ever
 *   W13  writes that land in another order than they were submitted in
 *   W14  threads that submit and complete at once, without a common lock
 *   W15  more writes than the queue holds, or an error of one, that end the trainer
 */
#ifndef TESTS_UNIT_FLUSH_FAULTS_H
#define TESTS_UNIT_FLUSH_FAULTS_H

#include "tests/unit/mnt.h"

#include <pthread.h>

#include "engine/format/names.h"
#include "engine/metrics/failures.h"
#include "tests/backing/faults.h"

#define NEW_SIZE     270001
#define ANOTHER_SIZE 150000
#define PATIENCE_NS  (60 * NSEC_PER_SEC) /* then the test fails; a slow machine has it, too */
#define AT_ONCE_NS   (10 * NSEC_PER_SEC) /* far below the time-outs that it is told from */
#define IMPATIENT    SMALL_CACHE ",io_retry_s=1,stall_timeout_s=600"
#define PATIENT	     SMALL_CACHE ",io_retry_s=600,stall_timeout_s=600"
#define XATTR	     "user.note"

enum { NEW = 2, ANOTHER, THIRD };

static struct mnt m;
static struct faults *f;
static char dir_path[PATH_MAX];
static int fds;

static inline void begin(const char *options)
{
	char path[PATH_MAX + 8];
	int dir;

	scratch_dir(dir_path);
	assert_int_equal(chmod(dir_path, 0777), 0);
	dir = open(dir_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	make_version(dir, "x.pt", OLD, SIZE);
	close(dir);
	snprintf(path, sizeof(path), "%s/x.pt", dir_path);
	assert_true(!setxattr(path, XATTR, "keep", 4, 0) || errno == EOPNOTSUPP);
	fds = count_fds();
	mnt_open(&m, dir_path, options);
	f = faults_attach(&m.en.backing);
	mnt_start(&m);
}

/* --- looking --- */

#define WAIT_FOR(condition) \
	do { \
		uint64_t until_ = clock_mono_ns() + PATIENCE_NS; \
		while (!(condition)) { \
			if (clock_mono_ns() > until_) \
				fail_msg("in vain: %s", #condition); \
			usleep(1000); \
		} \
	} while (0)

static inline size_t cached(const char *what)
{
	json_t *o = cache_to_json(m.en.cache);
	size_t n = (size_t)json_integer_value(json_object_get(o, what));

	json_decref(o);
	return n;
}

static inline bool cache_is_idle(void)
{
	json_t *o = cache_to_json(m.en.cache);
	json_int_t busy = json_integer_value(json_object_get(o, "dirty")) +
			  json_integer_value(json_object_get(o, "flying")) +
			  json_integer_value(json_object_get(o, "waiting"));
	json_int_t rest = json_integer_value(json_object_get(o, "free")) +
			  json_integer_value(json_object_get(o, "clean"));
	bool idle = !busy && rest == json_integer_value(json_object_get(o, "size"));

	json_decref(o);
	return idle;
}

static inline bool no_save_is_left(void)
{
	struct units_progress p;

	units_progress(m.en.units, &p);
	return !p.open && !p.closed;
}

static inline unsigned nr_staged(void)
{
	DIR *d = opendir(dir_path);
	struct dirent *de;
	unsigned nr = 0;

	assert_non_null(d);
	while ((de = readdir(d)))
		nr += name_is_reserved(de->d_name);
	closedir(d);
	return nr;
}

/* The last message of failures.json. */
static inline void assert_told(const char *part)
{
	json_t *all = failures_to_json(m.en.failures, 0, true), *last;
	char text[MESSAGE_MAX];

	assert_true(json_array_size(all) > 0);
	last = json_array_get(all, json_array_size(all) - 1);
	snprintf(text, sizeof(text), "%s", json_string_value(json_object_get(last, "message")));
	json_decref(all);
	assert_contains(text, part);
}

static inline void assert_on_backing(int version)
{
	assert_int_equal(version_at(m.top, "x.pt"), version);
	if (version != OLD && feature(m.en.backing.features, FEATURE_XATTR))
		assert_true(has_digest(m.top, "x.pt"));
}

/* All is over, and nothing is held: nor can anything be in the way of the next save. */
static inline void end(void)
{
	faults_clear(f);
	assert_int_equal(save(&m, "x.pt", THIRD, NEW_SIZE, true), 0);
	assert_on_backing(THIRD);
	WAIT_FOR(cache_is_idle() && no_save_is_left());
	contents_sweep(m.en.contents);
	assert_true(m.en.contents->nr * CHUNK <= cached("clean"));
	mnt_close(&m);
	faults_detach(f);
	assert_int_equal(count_fds(), fds);
}

/* --- doing --- */

static inline struct fault *eio(unsigned calls, unsigned times)
{
	static struct fault fault;

	fault = (struct fault){.calls = calls, .times = times, .err = EIO};
	return &fault;
}

static inline void open_for(struct file *file, const char *name)
{
	assert_int_equal(file_open(&m, file, name, O_WRONLY | O_TRUNC), 0);
}

/* One that saves in a thread of its own, a file that is open already, or one by its name. */
struct saver {
	pthread_t thread;
	struct file file;
	const char *name;
	int version;
	size_t size;
	bool sync;
	int result;
	struct interruptible call;
	atomic_bool done;
};

static inline void *saver_main(void *arg)
{
	struct saver *s = arg;
	int err = 0, close_err;

	wait_serve(&s->call);
	if (s->name)
		err = file_open(&m, &s->file, s->name, O_WRONLY | O_TRUNC);
	if (!err) {
		err = file_fill(&s->file, s->version, s->size);
		if (!err && s->sync)
			err = file_sync(&s->file);
		close_err = file_close(&s->file);
		err = err ? err : close_err;
	}
	s->result = err;
	atomic_store(&s->done, true);
	return NULL;
}

static inline void start(struct saver *s, const char *name, int version, size_t size, bool sync)
{
	*s = (struct saver){.name = name, .version = version, .size = size, .sync = sync};
	interruptible_init(&s->call);
	assert_int_equal(pthread_create(&s->thread, NULL, saver_main, s), 0);
}

static inline void start_on(struct saver *s, struct file *file, int version, size_t size, bool sync)
{
	*s = (struct saver){.file = *file, .version = version, .size = size, .sync = sync};
	interruptible_init(&s->call);
	assert_int_equal(pthread_create(&s->thread, NULL, saver_main, s), 0);
}

static inline int join(struct saver *s)
{
	pthread_join(s->thread, NULL);
	return s->result;
}

/* The inode that a save of @name is staged in. */
static inline ino_t staged_inode(const char *name)
{
	struct inode_id dir = node_inode(m.root);
	struct generation *g = units_find(m.en.units, &dir, name, 0);
	ino_t ino;

	assert_non_null(g);
	ino = generation_id(g)->ino;
	generation_put(g);
	return ino;
}

#endif
