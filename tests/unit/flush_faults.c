/* SPDX-License-Identifier: MIT */
/* timeout: 300 */
/* cpu: 15 */
/*
 * Saves over a backing that fails, is full, takes part of what it is given, hangs or is slow. What
 * has the name is whole at any time, old or new; the program that saves is told; memory and
 * descriptors come back; and nobody waits for ever.
 *
 * W11 to W15: what went wrong in other engines (research/anchors-checkpointing.md).
 */
#include "tests/unit/mnt.h"

#include <pthread.h>
#include <sys/fsuid.h>

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

static void begin(const char *options)
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

static size_t cached(const char *what)
{
	json_t *o = cache_to_json(m.en.cache);
	size_t n = (size_t)json_integer_value(json_object_get(o, what));

	json_decref(o);
	return n;
}

static bool cache_is_idle(void)
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

static bool no_save_is_left(void)
{
	struct units_progress p;

	units_progress(m.en.units, &p);
	return !p.open && !p.closed;
}

static unsigned nr_staged(void)
{
	DIR *d = opendir(dir_path);
	struct dirent *de;
	unsigned nr = 0;

	assert_non_null(d);
	while ((de = readdir(d)))
		nr += !strncmp(de->d_name, STAGING_PREFIX, strlen(STAGING_PREFIX));
	closedir(d);
	return nr;
}

/* The last message of failures.json. */
static void assert_told(const char *part)
{
	json_t *all = failures_to_json(m.en.failures, 0, true), *last;
	char text[MESSAGE_MAX];

	assert_true(json_array_size(all) > 0);
	last = json_array_get(all, json_array_size(all) - 1);
	snprintf(text, sizeof(text), "%s", json_string_value(json_object_get(last, "message")));
	json_decref(all);
	assert_contains(text, part);
}

static void assert_on_backing(int version)
{
	assert_int_equal(version_at(m.top, "x.pt"), version);
	if (version != OLD && feature(&m.en.backing.features, FEATURE_XATTR))
		assert_true(has_digest(m.top, "x.pt"));
}

/* All is over, and nothing is held: nor can anything be in the way of the next save. */
static void end(void)
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

static struct fault *eio(unsigned calls, unsigned times)
{
	static struct fault fault;

	fault = (struct fault){.calls = calls, .times = times, .err = EIO};
	return &fault;
}

static void open_for(struct file *file, const char *name)
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

static void *saver_main(void *arg)
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

static void start(struct saver *s, const char *name, int version, size_t size, bool sync)
{
	*s = (struct saver){.name = name, .version = version, .size = size, .sync = sync};
	interruptible_init(&s->call);
	assert_int_equal(pthread_create(&s->thread, NULL, saver_main, s), 0);
}

static void start_on(struct saver *s, struct file *file, int version, size_t size, bool sync)
{
	*s = (struct saver){.file = *file, .version = version, .size = size, .sync = sync};
	interruptible_init(&s->call);
	assert_int_equal(pthread_create(&s->thread, NULL, saver_main, s), 0);
}

static int join(struct saver *s)
{
	pthread_join(s->thread, NULL);
	return s->result;
}

/* The inode that a save of @name is staged in. */
static ino_t staged_inode(const char *name)
{
	struct inode_id dir = node_inode(m.root);
	struct generation *g = units_find(m.en.units, &dir, name);
	ino_t ino;

	assert_non_null(g);
	ino = g->id.ino;
	generation_put(g);
	return ino;
}

static enum generation_state state_of(struct generation *g)
{
	enum generation_state state;
	char reason[MESSAGE_MAX];

	assert_true(units_state_of(m.en.units, &g->id, &state, reason));
	return state;
}

/* --- errors that pass --- */

static void an_error_that_passes_is_not_seen(void **state)
{
	static const unsigned calls[] = {CALL_WRITE,   CALL_SYNC,     CALL_RENAME, CALL_SETXATTR,
					 CALL_UTIMENS, CALL_SYNC_DIR, CALL_OPEN,   CALL_STAT};
	static const int errs[] = {EIO, EAGAIN, ENOMEM, ETIMEDOUT, ENOSPC};
	size_t i, k;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(calls); i++) {
		for (k = 0; k < ARRAY_SIZE(errs); k++) {
			struct file file;
			int fault;

			begin(PATIENT);
			open_for(&file, "x.pt");
			fault = faults_add(
				f, &(struct fault){.calls = calls[i], .times = 2, .err = errs[k]});
			assert_int_equal(file_fill(&file, NEW, NEW_SIZE), 0);
			assert_int_equal(file_close(&file), 0);
			assert_int_equal(name_wait(&m, "x.pt"), 0);
			if (!faults_hits(f, fault) && calls[i] != CALL_OPEN)
				fail_msg("call %zu was not made", i);
			assert_on_backing(NEW);
			assert_int_equal(failures_total(m.en.failures), 0);
			end();
		}
	}
}

/* W12: what is written short is written on from there, in whichever chunk, however often. */
static void short_writes_are_continued(void **state)
{
	static const size_t sizes[] = {1000, 4096, 5000, 40000, 65535};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		begin(PATIENT);
		faults_short(f, CALL_WRITE, sizes[i]);
		assert_int_equal(save(&m, "x.pt", NEW, NEW_SIZE, true), 0);
		assert_on_backing(NEW);
		end();
	}
}

/* W12: the same with an error after each part, so that the flush engine goes on by itself. */
static void errors_after_a_part_are_continued(void **state)
{
	static const size_t sizes[] = {4096, 5000, 40000};
	size_t i;
	unsigned k;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		begin(PATIENT);
		faults_short(f, CALL_WRITE, sizes[i]);
		for (k = 1; k < 100; k += 2)
			faults_add(f,
				   &(struct fault){
					   .calls = CALL_WRITE, .skip = k, .times = 1, .err = EIO});
		assert_int_equal(save(&m, "x.pt", NEW, NEW_SIZE, true), 0);
		assert_on_backing(NEW);
		end();
	}
}

/* W12: a write of no bytes is no progress; it is tried again, with pauses. */
static void nothing_written_is_tried_again(void **state)
{
	(void)state;
	begin(PATIENT);
	faults_add(f, &(struct fault){.calls = CALL_WRITE, .skip = 1, .times = 6, .nothing = true});
	assert_int_equal(save(&m, "x.pt", NEW, NEW_SIZE, true), 0);
	assert_on_backing(NEW);
	end();
}

/* W12: and if it stays so, it is an error, not a loop. */
static void nothing_written_for_ever_fails(void **state)
{
	(void)state;
	begin(IMPATIENT);
	faults_add(f, &(struct fault){.calls = CALL_WRITE, .nothing = true});
	assert_int_equal(save(&m, "x.pt", NEW, NEW_SIZE, true), -EIO);
	assert_true(faults_count(f, CALL_WRITE) < 500);
	assert_on_backing(OLD);
	WAIT_FOR(nr_staged() == 0);
	end();
}

/* W11: what was lost by a failed fsync is written again before the next one is believed. */
static void a_failed_fsync_is_not_tried_again_alone(void **state)
{
	uint64_t written;
	struct file file;

	(void)state;
	begin(PATIENT);
	open_for(&file, "x.pt");
	assert_int_equal(file_fill(&file, NEW, NEW_SIZE), 0);
	assert_int_equal(content_write_back(file.h->content), 0);
	written = faults_count(f, CALL_WRITE);
	faults_add(f, eio(CALL_SYNC, 1));
	assert_int_equal(file_close(&file), 0);
	assert_int_equal(name_wait(&m, "x.pt"), 0);
	assert_on_backing(NEW);
	assert_true(faults_count(f, CALL_WRITE) >= written + NEW_SIZE / CHUNK + 1);
	end();
}

/* W11: nor where it was the program's, who heard of it or not. */
static void nor_the_fsync_of_a_program(void **state)
{
	uint64_t written;
	struct file file;

	(void)state;
	begin(PATIENT);
	open_for(&file, "x.pt");
	assert_int_equal(file_fill(&file, NEW, NEW_SIZE), 0);
	assert_int_equal(content_write_back(file.h->content), 0);
	written = faults_count(f, CALL_WRITE);
	faults_add(f, eio(CALL_SYNC, 1));
	if (!file_sync(&file)) {
		assert_int_equal(file_close(&file), 0);
		assert_true(faults_count(f, CALL_WRITE) >= written + NEW_SIZE / CHUNK + 1);
		assert_on_backing(NEW);
	} else {
		assert_int_equal(file_close(&file), -EIO);
		assert_on_backing(OLD);
	}
	end();
}

/* W11: bytes that are not cached any more cannot be written again: then it fails. */
static void a_failed_fsync_of_a_large_file_fails_it(void **state)
{
	(void)state;
	begin(PATIENT);
	faults_add(f, eio(CALL_SYNC, 1));
	assert_int_equal(save(&m, "x.pt", NEW, 3 * SMALL_CHUNKS * CHUNK, true), -EIO);
	assert_on_backing(OLD);
	WAIT_FOR(nr_staged() == 0);
	end();
}

/* W11: a wait ends when the file and its name are synced, not before. */
static void a_wait_is_for_what_is_durable(void **state)
{
	static const unsigned calls[] = {CALL_WRITE, CALL_SYNC, CALL_RENAME, CALL_SYNC_DIR};
	struct saver s = {0};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(calls); i++) {
		begin(PATIENT);
		faults_freeze(f, calls[i]);
		start(&s, "x.pt", NEW, NEW_SIZE, true);
		faults_wait_frozen(f, 1);
		usleep(20000);
		assert_false(atomic_load(&s.done));
		if (calls[i] != CALL_SYNC_DIR)
			assert_on_backing(OLD);
		faults_thaw(f);
		assert_int_equal(join(&s), 0);
		assert_on_backing(NEW);
		end();
	}
}

/* --- errors that stay --- */

/* The first error sticks, and all hear of it; what has the name is whole, the memory free. */
static void sticks(unsigned calls, int err)
{
	uint64_t until = clock_mono_ns() + PATIENCE_NS;
	struct generation *g;
	struct file file;
	char byte = 0;
	ssize_t n;

	open_for(&file, "x.pt");
	g = file.h->generation;
	generation_get(g);
	faults_add(f, &(struct fault){.calls = calls, .skip = 2, .err = -err});
	do {
		n = file_fill(&file, NEW, 3 * SMALL_CHUNKS * CHUNK);
	} while (!n && clock_mono_ns() < until);
	assert_int_equal(n, err);
	assert_int_equal(file_write(&file, &byte, 1, 0), err);
	assert_int_equal(file_sync(&file), err);
	WAIT_FOR(state_of(g) == GENERATION_FAILED);
	assert_int_equal(generation_wait(g), err);
	assert_int_equal(file_close(&file), err);
	generation_put(g);
	WAIT_FOR(cache_is_idle());
	contents_sweep(m.en.contents);
	WAIT_FOR(cached("free") == cached("size"));
	WAIT_FOR(failures_total(m.en.failures) == 1);
	assert_told("x.pt");
	assert_told(strerror(-err));
	assert_on_backing(OLD);
	assert_int_equal(version_in(&m, "x.pt"), OLD);
	WAIT_FOR(nr_staged() == 0);
}

/* W15: the program is told, and lives; so does the mount. */
static void an_error_that_stays_sticks(void **state)
{
	static const int errs[] = {-EIO, -ENOSPC, -EDQUOT, -EROFS, -EFBIG};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(errs); i++) {
		begin(IMPATIENT);
		sticks(CALL_WRITE, errs[i]);
		end();
	}
}

/* W15: a disk that fills up in the middle, whether that is seen before or when it is flushed. */
static void a_full_disk_fails_the_save(void **state)
{
	static const int errs[] = {ENOSPC, EDQUOT};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(errs); i++) {
		begin(IMPATIENT);
		faults_disk(f, 100000, errs[i]);
		assert_int_equal(save(&m, "x.pt", NEW, 2000000, true), -errs[i]);
		assert_on_backing(OLD);
		WAIT_FOR(no_save_is_left() || nr_staged() == 0);
		faults_disk(f, -1, 0);
		end();
	}
}

/* What is freed in time is used. */
static void a_full_disk_may_get_room(void **state)
{
	struct file file;

	(void)state;
	begin(PATIENT);
	open_for(&file, "x.pt");
	faults_freeze(f, CALL_WRITE); /* else all may be there before the disk is full */
	assert_int_equal(file_fill(&file, NEW, NEW_SIZE), 0);
	faults_disk(f, 70000, ENOSPC);
	faults_thaw(f);
	assert_int_equal(file_close(&file), 0);
	faults_wait_count(f, CALL_WRITE, faults_count(f, CALL_WRITE) + 1);
	faults_disk(f, -1, 0);
	assert_int_equal(name_wait(&m, "x.pt"), 0);
	assert_on_backing(NEW);
	end();
}

/* A step of the publish that fails for good. @left: what the name has then. */
static void fails_in(unsigned calls, int err, int left)
{
	struct generation *g;
	struct file file;

	begin(IMPATIENT);
	open_for(&file, "x.pt");
	g = file.h->generation;
	generation_get(g);
	assert_int_equal(file_fill(&file, NEW, NEW_SIZE), 0);
	assert_int_equal(content_write_back(file.h->content), 0);
	faults_add(f, &(struct fault){.calls = calls, .err = err});
	assert_int_equal(file_close(&file), 0);
	assert_int_equal(generation_wait(g), -err);
	generation_put(g);
	faults_clear(f);
	assert_on_backing(left);
	assert_int_equal(version_in(&m, "x.pt"), left);
	WAIT_FOR(nr_staged() == 0);
	WAIT_FOR(failures_total(m.en.failures) == 1);
	assert_told(strerror(err));
}

static void a_failing_publish_leaves_the_old_file(void **state)
{
	static const int errs[] = {EIO, EROFS};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(errs); i++) {
		fails_in(CALL_SYNC, errs[i], OLD);
		assert_told("whole and still has it");
		end();
		fails_in(CALL_RENAME, errs[i], OLD);
		assert_told("whole and still has it");
		end();
		fails_in(CALL_UTIMENS, errs[i], OLD);
		end();
		fails_in(CALL_STAT, errs[i], OLD);
		end();
	}
	fails_in(CALL_SETXATTR, EIO, OLD);
	end();
}

/* The name is changed already: nobody says that the old file is there. */
static void a_failing_directory_sync_is_told_as_it_is(void **state)
{
	(void)state;
	fails_in(CALL_SYNC_DIR, EIO, NEW);
	assert_told("may not survive");
	end();
	fails_in(CALL_SYNC_DIR, EROFS, NEW);
	end();
}

static void without_xattrs_there_is_no_record(void **state)
{
	static const int errs[] = {EOPNOTSUPP, EPERM, EACCES};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(errs); i++) {
		begin(IMPATIENT);
		faults_add(f, &(struct fault){.calls = CALL_SETXATTR, .err = errs[i]});
		assert_int_equal(save(&m, "x.pt", NEW, NEW_SIZE, true), 0);
		assert_int_equal(version_at(m.top, "x.pt"), NEW);
		assert_false(has_digest(m.top, "x.pt"));
		assert_int_equal(failures_total(m.en.failures), 0);
		end();
	}
}

/* The answer is lost, the deed is done: it is found out by looking. */
static void a_rename_whose_answer_is_lost_is_done(void **state)
{
	(void)state;
	begin(PATIENT);
	faults_add(f, &(struct fault){.calls = CALL_RENAME, .times = 1, .err = EIO, .done = true});
	assert_int_equal(save(&m, "x.pt", NEW, NEW_SIZE, true), 0);
	assert_on_backing(NEW);
	assert_int_equal(failures_total(m.en.failures), 0);
	end();
	begin(IMPATIENT); /* and if it stays lost, nobody says that the old file is there */
	faults_add(f, &(struct fault){.calls = CALL_RENAME, .err = EIO, .done = true});
	assert_int_equal(save(&m, "x.pt", NEW, NEW_SIZE, true), 0);
	assert_on_backing(NEW);
	end();
}

/* Somebody else changed what the name stands for: nothing of theirs is replaced, nor ours lost. */
static void a_target_changed_behind_is_a_conflict(void **state)
{
	struct generation *g;
	struct file file;
	char byte = 0;
	ssize_t n;

	(void)state;
	begin(IMPATIENT);
	open_for(&file, "x.pt");
	g = file.h->generation;
	generation_get(g);
	assert_int_equal(file_fill(&file, NEW, NEW_SIZE), 0);
	make_version(m.top, "theirs", ANOTHER, ANOTHER_SIZE);
	assert_int_equal(renameat(m.top, "theirs", m.top, "x.pt"), 0);
	generation_closed(g, file.key, (struct writer_end){.fate = WRITER_ALIVE});
	assert_true(generation_wait(g) < 0);
	assert_int_equal(version_at(m.top, "x.pt"), ANOTHER);
	assert_int_equal(nr_staged(), 1);
	assert_int_equal(version_at(m.top, g->staging), NEW);
	assert_told("Nothing was replaced");
	assert_told(g->staging);
	/* What is beside it stays as it is. */
	n = file_write(&file, &byte, 1, 0);
	assert_true(n < 0);
	assert_int_equal(version_at(m.top, g->staging), NEW);
	assert_true(file_close(&file) < 0);
	assert_int_equal(version_in(&m, "x.pt"), ANOTHER);
	generation_put(g);
	end();
}

/* --- every call in turn --- */

/* All that a save over an old file does. What the program is told by the end: 0 or the first error. */
static int whole_save(void)
{
	struct file file;
	int err = file_open(&m, &file, "x.pt.tmp", O_WRONLY | O_TRUNC), e;

	if (err)
		return err;
	err = file_fill(&file, NEW, NEW_SIZE);
	if (!err)
		err = file_sync(&file);
	e = file_close(&file);
	err = err ? err : e;
	if (err)
		return err;
	/* Over the old file by a save, then by a rename. */
	err = save(&m, "x.pt", NEW, NEW_SIZE, true);
	return err ? err : file_rename(&m, "x.pt.tmp", "x.pt");
}

static bool keeps_its_note(void)
{
	char path[PATH_MAX + 8], text[8];

	snprintf(path, sizeof(path), "%s/x.pt", dir_path);
	return getxattr(path, XATTR, text, sizeof(text)) == 4 && !memcmp(text, "keep", 4);
}

/* One fault at call @nr. False: there are not so many calls. */
static bool survives(unsigned nr, int err, bool done, unsigned times)
{
	int fault = faults_add(
		f,
		&(struct fault){
			.calls = CALL_ANY, .skip = nr, .times = times, .err = err, .done = done});
	int result = save(&m, "x.pt", NEW, NEW_SIZE, true), version;
	bool hit = faults_hits(f, fault);

	faults_clear(f);
	version = version_at(m.top, "x.pt");
	if (version != OLD && version != NEW)
		fail_msg("call %u fails: torn", nr);
	if (!result && version != NEW)
		fail_msg("call %u fails: said to be saved, but is not", nr);
	/* What may not be seen, or set, is left out. */
	if (!result && err != EACCES && feature(&m.en.backing.features, FEATURE_XATTR) &&
	    !keeps_its_note())
		fail_msg("call %u fails: lost an attribute of the old file", nr);
	return hit;
}

static void each_call_fails(int err, bool done, unsigned times, const char *options)
{
	bool more = true;
	unsigned nr;

	for (nr = 0; more; nr++) {
		begin(options);
		more = survives(nr, err, done, times);
		end();
		assert_true(nr < 500);
	}
	assert_true(nr > 15);
}

#define NO_RETRY SMALL_CACHE ",io_retry_s=0,stall_timeout_s=600"

static void each_call_fails_once(void **state)
{
	(void)state;
	each_call_fails(EIO, false, 1, PATIENT);
	each_call_fails(EIO, false, 1, NO_RETRY);
	each_call_fails(EACCES, false, 1, NO_RETRY);
}

static void each_call_is_done_but_answers_an_error(void **state)
{
	(void)state;
	each_call_fails(EIO, true, 1, PATIENT);
	each_call_fails(ESTALE, true, 1, NO_RETRY);
}

static void all_calls_fail_from_one_on(void **state)
{
	(void)state;
	each_call_fails(EIO, false, 0, NO_RETRY);
	each_call_fails(ENOSPC, false, 0, NO_RETRY);
	each_call_fails(EIO, true, 0, NO_RETRY);
}

/* The same of a save under another name that is renamed to it. */
static void each_call_of_a_rename_fails(void **state)
{
	bool more = true;
	unsigned nr;

	(void)state;
	for (nr = 0; more; nr++) {
		int fault, result, version;

		begin(PATIENT);
		fault = faults_add(
			f, &(struct fault){.calls = CALL_ANY, .skip = nr, .times = 1, .err = EIO});
		result = whole_save();
		more = faults_hits(f, fault);
		faults_clear(f);
		version = version_at(m.top, "x.pt");
		if (version != OLD && version != NEW)
			fail_msg("call %u fails: torn", nr);
		if (!result && version != NEW)
			fail_msg("call %u fails: said to be saved, but is not", nr);
		assert_true(version_at(m.top, "x.pt.tmp") != TORN);
		end();
	}
}

/* --- order and pace --- */

/* W13: the oldest write is the last to land. */
static void writes_land_in_any_order(void **state)
{
	struct saver s = {0};

	(void)state;
	begin(PATIENT);
	faults_freeze_first(f, CALL_WRITE, 2);
	start(&s, "x.pt", NEW, 4 * SMALL_CHUNKS * CHUNK, true);
	faults_wait_count(f, CALL_WRITE, 3 * SMALL_CHUNKS);
	assert_int_equal(faults_frozen(f), 2);
	assert_on_backing(OLD);
	faults_thaw(f);
	assert_int_equal(join(&s), 0);
	assert_on_backing(NEW);
	end();
}

/* W13, W15: many times the cache, over a wire that is slower than they are, two writes at a time. */
static void a_slow_backing_slows_writers(void **state)
{
	struct saver s[4] = {{0}};
	char names[4][16];
	int i;

	(void)state;
	begin(PATIENT ",flush_depth=2");
	faults_slow(f, CALL_WRITE, 200000, 10);
	for (i = 0; i < 4; i++) {
		snprintf(names[i], sizeof(names[i]), "%d.pt", i);
		start(&s[i], names[i], NEW, 2 * SMALL_CHUNKS * CHUNK + 11, i % 2);
	}
	for (i = 0; i < 4; i++) {
		assert_int_equal(join(&s[i]), 0);
		assert_int_equal(name_wait(&m, names[i]), 0);
		assert_int_equal(version_at(m.top, names[i]), NEW);
	}
	assert_true(cached("stalls") > 0);
	end();
}

enum { CROWD = 24 };

/* W14: submitted and completed from all sides at once, with errors, parts and slowness. */
static void a_crowd_over_a_bad_backing(void **state)
{
	struct saver s[CROWD] = {{0}};
	char names[CROWD][16];
	uint64_t rng = 7;
	int i, round, left = 1;

	(void)state;
	begin(PATIENT ",flush_depth=5");
	for (i = 0; i < CROWD; i++) {
		snprintf(names[i], sizeof(names[i]), "%d.pt", i);
		start(&s[i], names[i], NEW, 20000 + 9001 * (size_t)i, i % 3 == 0);
	}
	for (round = 0; left && round < 50; round++) {
		switch (next_random(&rng) % 5) {
		case 0:
			faults_add(f, &(struct fault){.calls = CALL_WRITE,
						      .times = 3,
						      .err = EIO,
						      .done = next_random(&rng) % 2});
			break;
		case 1:
			faults_short(f, CALL_WRITE, 100 + next_random(&rng) % 60000);
			break;
		case 2:
			faults_slow(f, CALL_WRITE | CALL_SYNC, 300000, 1);
			break;
		case 3:
			faults_freeze(f, CALL_WRITE);
			usleep(1000);
			faults_freeze(f, 0);
			usleep(1000);
			faults_thaw(f);
			break;
		default:
			faults_add(f, &(struct fault){
					      .calls = CALL_WRITE, .times = 2, .nothing = true});
		}
		usleep(2000);
		for (left = i = 0; i < CROWD; i++)
			left += !atomic_load(&s[i].done);
	}
	faults_clear(f);
	for (i = 0; i < CROWD; i++)
		assert_int_equal(join(&s[i]), 0);
	for (i = 0; i < CROWD; i++) {
		assert_int_equal(name_wait(&m, names[i]), 0);
		assert_int_equal(version_at(m.top, names[i]), NEW);
		assert_true(has_digest(m.top, names[i]));
	}
	end();
}

/* W15: a hundred writers at once, with the smallest cache: each waits its turn. */
static void a_hundred_writers_wait_their_turn(void **state)
{
	enum { HUNDRED = 100 };
	static struct saver s[HUNDRED];
	static char names[HUNDRED][16];
	int i;

	(void)state;
	begin(PATIENT);
	memset(s, 0, sizeof(s));
	for (i = 0; i < HUNDRED; i++) {
		snprintf(names[i], sizeof(names[i]), "%d.pt", i);
		start(&s[i], names[i], NEW, CHUNK + 1000, false);
	}
	for (i = 0; i < HUNDRED; i++)
		assert_int_equal(join(&s[i]), 0);
	assert_int_equal(mnt_drain(&m, 60), 0);
	for (i = 0; i < HUNDRED; i++)
		assert_int_equal(version_at(m.top, names[i]), NEW);
	end();
}

/* --- a backing that hangs --- */

/* Who waits for room goes when his call is given up, with what he was given before, or EINTR. */
static void a_writer_who_waits_can_be_interrupted(void **state)
{
	struct saver s = {0};
	uint64_t began;

	(void)state;
	begin(PATIENT);
	faults_freeze(f, CALL_WRITE);
	start(&s, "x.pt", NEW, 3 * SMALL_CHUNKS * CHUNK, false);
	WAIT_FOR(cached("waiting") > 0);
	began = clock_mono_ns();
	wait_interrupt(&s.call);
	WAIT_FOR(atomic_load(&s.done));
	assert_true(clock_mono_ns() - began < AT_ONCE_NS);
	assert_int_equal(join(&s), -EINTR);
	assert_on_backing(OLD);
	faults_thaw(f);
	end();
}

/* So does who waits for an fsync, a close, a write behind one that flies. */
static void a_sync_that_waits_can_be_interrupted(void **state)
{
	static const unsigned calls[] = {CALL_WRITE, CALL_SYNC_DIR};
	struct saver s = {0};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(calls); i++) {
		begin(PATIENT);
		faults_freeze(f, calls[i]);
		start(&s, "x.pt", NEW, ANOTHER_SIZE, true);
		faults_wait_frozen(f, 1);
		wait_interrupt(&s.call);
		WAIT_FOR(atomic_load(&s.done));
		assert_int_equal(join(&s), -EINTR);
		faults_thaw(f);
		end();
	}
}

static void nobody_waits_longer_than_the_stall_timeout(void **state)
{
	struct saver s = {0};

	(void)state;
	begin(SMALL_CACHE ",io_retry_s=600,stall_timeout_s=1");
	faults_freeze(f, CALL_WRITE);
	start(&s, "x.pt", NEW, 3 * SMALL_CHUNKS * CHUNK, false);
	assert_int_equal(join(&s), -ETIMEDOUT);
	assert_on_backing(OLD);
	assert_told("x.pt");
	faults_thaw(f);
	WAIT_FOR(cache_is_idle());
	contents_sweep(m.en.contents);
	WAIT_FOR(cached("free") == cached("size"));
	WAIT_FOR(nr_staged() == 0);
	end();
}

static void nor_behind_a_chunk_that_flies(void **state)
{
	static char data[CHUNK];
	struct file file;

	(void)state;
	begin(SMALL_CACHE ",io_retry_s=600,stall_timeout_s=1");
	open_for(&file, "x.pt");
	faults_freeze(f, CALL_WRITE);
	assert_int_equal(file_write(&file, data, CHUNK, 0), CHUNK);
	faults_wait_frozen(f, 1);
	assert_int_equal(file_write(&file, data, CHUNK, 0), -ETIMEDOUT);
	faults_thaw(f);
	assert_int_equal(file_close(&file), -ETIMEDOUT);
	assert_on_backing(OLD);
	end();
}

/* What one user's storage does with his writes is nothing to the others, while there is room. */
static void a_stuck_flush_holds_up_no_other(void **state)
{
	struct saver a = {0};
	struct file file;

	(void)state;
	begin(PATIENT);
	open_for(&file, "a.pt");
	faults_only(f, staged_inode("a.pt"));
	faults_freeze(f, CALL_WRITE | CALL_SYNC);
	start_on(&a, &file, NEW, ANOTHER_SIZE, true);
	faults_wait_frozen(f, 1);
	assert_int_equal(save(&m, "x.pt", NEW, 3 * SMALL_CHUNKS * CHUNK, true), 0);
	assert_on_backing(NEW);
	faults_only(f, 0);
	faults_thaw(f);
	assert_int_equal(join(&a), 0);
	end();
}

/* W15: nor does one whose writes fail and are tried again and again, however few may be in flight. */
static void a_failing_flush_holds_up_no_other(void **state)
{
	struct file a;

	(void)state;
	begin(PATIENT ",flush_depth=2");
	open_for(&a, "a.pt");
	faults_only(f, staged_inode("a.pt"));
	faults_add(f, eio(CALL_WRITE, 0));
	assert_int_equal(file_fill(&a, ANOTHER, 5 * CHUNK), 0);
	faults_wait_count(f, CALL_WRITE, 6);
	assert_int_equal(save(&m, "x.pt", NEW, 3 * SMALL_CHUNKS * CHUNK, true), 0);
	assert_on_backing(NEW);
	faults_clear(f);
	assert_int_equal(file_close(&a), 0);
	assert_int_equal(name_wait(&m, "a.pt"), 0);
	assert_int_equal(version_at(m.top, "a.pt"), ANOTHER);
	end();
}

/* A user who holds as much as one may waits for himself. */
static void a_full_share_holds_up_no_other(void **state)
{
	struct caller me, other = {.uid = 1234, .gid = 1234, .pid = getpid()};
	struct saver a = {0};
	struct file file;

	(void)state;
	if (geteuid())
		skip();
	begin(PATIENT ",cache_per_uid=256K");
	me = m.user;
	m.user = other;
	open_for(&file, "a.pt");
	m.user = me;
	faults_only(f, staged_inode("a.pt"));
	faults_freeze(f, CALL_WRITE);
	start_on(&a, &file, ANOTHER, 3 * SMALL_CHUNKS * CHUNK, false);
	WAIT_FOR(cached("waiting") > 0);
	assert_int_equal(save(&m, "x.pt", NEW, 3 * SMALL_CHUNKS * CHUNK, true), 0);
	assert_on_backing(NEW);
	assert_false(atomic_load(&a.done));
	faults_only(f, 0);
	faults_thaw(f);
	assert_int_equal(join(&a), 0);
	end();
}

/* --- while it is being published --- */

/* A frozen publish of NEW over x.pt. */
static void begin_frozen_publish(struct file *file, unsigned calls)
{
	begin(PATIENT);
	open_for(file, "x.pt");
	assert_int_equal(file_fill(file, NEW, NEW_SIZE), 0);
	faults_freeze(f, calls);
	generation_ask_durable(file->h->generation, false);
	generation_closed(file->h->generation, file->key,
			  (struct writer_end){.fate = WRITER_ALIVE});
	faults_wait_frozen(f, 1);
}

struct late_write {
	pthread_t thread;
	struct file *file;
	struct interruptible call;
	atomic_bool done;
	ssize_t result;
};

static void *late_write_main(void *arg)
{
	struct late_write *w = arg;

	wait_serve(&w->call);
	w->result = file_write(w->file, "late", 4, 100);
	atomic_store(&w->done, true);
	return NULL;
}

/* Who writes on then waits for the end of it, and changes a plain file, which has no digest more. */
static void a_write_waits_for_the_publish(void **state)
{
	struct late_write w = {0};
	struct file file;

	(void)state;
	begin_frozen_publish(&file, CALL_RENAME);
	w.file = &file;
	interruptible_init(&w.call);
	assert_int_equal(pthread_create(&w.thread, NULL, late_write_main, &w), 0);
	usleep(20000);
	assert_false(atomic_load(&w.done));
	wait_interrupt(&w.call);
	pthread_join(w.thread, NULL);
	assert_int_equal(w.result, -EINTR);
	interruptible_init(&w.call);
	w.done = false;
	assert_int_equal(pthread_create(&w.thread, NULL, late_write_main, &w), 0);
	faults_thaw(f);
	pthread_join(w.thread, NULL);
	assert_int_equal(w.result, 4);
	assert_int_equal(version_at(m.top, "x.pt"), TORN);
	assert_false(has_digest(m.top, "x.pt"));
	assert_int_equal(file_close(&file), 0);
	end();
}

/* A process that dies then had closed it before: what was complete is published. */
static void a_death_during_the_publish_comes_too_late(void **state)
{
	static const unsigned calls[] = {CALL_SETXATTR, CALL_SYNC, CALL_RENAME, CALL_SYNC_DIR};
	struct file file;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(calls); i++) {
		begin_frozen_publish(&file, calls[i]);
		generation_closed(file.h->generation, file.key,
				  (struct writer_end){.fate = WRITER_DIED, .code = -9});
		faults_thaw(f);
		assert_int_equal(generation_wait(file.h->generation), 0);
		assert_on_backing(NEW);
		assert_int_equal(failures_total(m.en.failures), 0);
		assert_int_equal(file_close(&file), 0);
		end();
	}
}

static void a_death_during_a_failing_publish_is_one_failure(void **state)
{
	struct file file;

	(void)state;
	begin_frozen_publish(&file, CALL_RENAME);
	generation_closed(file.h->generation, file.key,
			  (struct writer_end){.fate = WRITER_DIED, .code = -9});
	faults_add(f, &(struct fault){.calls = CALL_RENAME, .err = EROFS});
	faults_thaw(f);
	assert_true(generation_wait(file.h->generation) < 0);
	assert_on_backing(OLD);
	WAIT_FOR(failures_total(m.en.failures) == 1);
	assert_true(file_close(&file) < 0);
	end();
}

struct mover {
	pthread_t thread;
	int result;
};

static void *mover_main(void *arg)
{
	struct mover *mover = arg;

	mover->result = file_rename(&m, "x.pt", "d/x.pt");
	return NULL;
}

/* One that dies while its file moves to another directory fails it. */
static void a_death_during_a_move_fails_it(void **state)
{
	struct mover mover;
	struct file file;

	(void)state;
	begin(PATIENT);
	assert_int_equal(mkdirat(m.top, "d", 0777), 0);
	open_for(&file, "x.pt");
	assert_int_equal(file_fill(&file, NEW, NEW_SIZE), 0);
	faults_freeze(f, CALL_RENAME);
	assert_int_equal(pthread_create(&mover.thread, NULL, mover_main, &mover), 0);
	faults_wait_frozen(f, 1);
	generation_closed(file.h->generation, file.key,
			  (struct writer_end){.fate = WRITER_DIED, .code = -9});
	faults_thaw(f);
	pthread_join(mover.thread, NULL);
	assert_int_equal(mover.result, 0); /* of what the name shows then */
	assert_true(generation_wait(file.h->generation) < 0);
	assert_true(file_close(&file) < 0);
	assert_int_equal(version_at(m.top, "d/x.pt"), OLD);
	assert_int_equal(version_at(m.top, "x.pt"), ABSENT);
	WAIT_FOR(no_save_is_left());
	end();
}

/* What a thread of the process still writes while another closes is in it, or comes after it. */
static void a_write_beside_the_close_is_in_it(void **state)
{
	struct late_write w = {0};
	struct generation *g;
	struct file file;
	int version;

	(void)state;
	begin(PATIENT);
	assert_int_equal(file_open(&m, &file, "x.pt", O_RDWR), 0); /* a copy */
	g = file.h->generation;
	generation_ask_durable(g, false);
	assert_int_equal(file_write(&file, "early", 5, 0), 5);
	assert_int_equal(content_write_back(file.h->content), 0);
	/* Between what is cached of the chunk and what is written there is the backing's. */
	faults_freeze(f, CALL_READ);
	w.file = &file;
	interruptible_init(&w.call);
	assert_int_equal(pthread_create(&w.thread, NULL, late_write_main, &w), 0);
	faults_wait_frozen(f, 1);
	generation_closed(g, file.key, (struct writer_end){.fate = WRITER_ALIVE});
	faults_freeze(f, 0);
	usleep(100000);
	faults_thaw(f);
	pthread_join(w.thread, NULL);
	assert_int_equal(w.result, 4);
	assert_int_equal(generation_wait(g), 0);
	assert_int_equal(file_close(&file), 0);
	WAIT_FOR(cache_is_idle());
	version = version_in(&m, "x.pt");
	assert_int_equal(version, TORN); /* neither of the two that are known */
	assert_true(has_digest(m.top, "x.pt"));
	end();
}

/* --- the end of the mount --- */

static void draining_tells_what_is_left(void **state)
{
	struct saver s = {0};

	(void)state;
	begin(PATIENT);
	faults_freeze(f, CALL_WRITE);
	start(&s, "x.pt", NEW, ANOTHER_SIZE, false);
	assert_int_equal(join(&s), 0);
	faults_wait_frozen(f, 1);
	assert_int_equal(engine_drain(&m.en, clock_mono_ns() + NSEC_PER_SEC / 5), -ETIMEDOUT);
	faults_thaw(f);
	assert_int_equal(mnt_drain(&m, 60), 0);
	assert_on_backing(NEW);
	end();
	begin(IMPATIENT);
	faults_add(f, eio(CALL_WRITE, 0));
	assert_int_equal(save(&m, "x.pt", NEW, ANOTHER_SIZE, false), 0);
	assert_int_equal(mnt_drain(&m, 60), -EIO);
	assert_on_backing(OLD);
	end();
}

/* A mount that ends does not go on trying for io_retry_s; the old file is whole. */
static void the_end_of_a_mount_waits_for_no_retries(void **state)
{
	static const unsigned calls[] = {CALL_WRITE, CALL_SYNC, CALL_RENAME};
	uint64_t began;
	size_t i;
	int dir;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(calls); i++) {
		begin(PATIENT);
		faults_add(f, eio(calls[i], 0));
		assert_int_equal(save(&m, "x.pt", NEW, ANOTHER_SIZE, false), 0);
		WAIT_FOR(faults_count(f, calls[i]) > 1);
		began = clock_mono_ns();
		mnt_close(&m);
		assert_true(clock_mono_ns() - began < AT_ONCE_NS);
		assert_int_equal(nr_staged(), 1); /* fsck tells what it is */
		faults_detach(f);
		assert_int_equal(count_fds(), fds);
		dir = open(dir_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		assert_int_equal(version_at(dir, "x.pt"), OLD);
		close(dir);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_error_that_passes_is_not_seen),
		cmocka_unit_test(short_writes_are_continued),
		cmocka_unit_test(errors_after_a_part_are_continued),
		cmocka_unit_test(nothing_written_is_tried_again),
		cmocka_unit_test(nothing_written_for_ever_fails),
		cmocka_unit_test(a_failed_fsync_is_not_tried_again_alone),
		cmocka_unit_test(nor_the_fsync_of_a_program),
		cmocka_unit_test(a_failed_fsync_of_a_large_file_fails_it),
		cmocka_unit_test(a_wait_is_for_what_is_durable),
		cmocka_unit_test(an_error_that_stays_sticks),
		cmocka_unit_test(a_full_disk_fails_the_save),
		cmocka_unit_test(a_full_disk_may_get_room),
		cmocka_unit_test(a_failing_publish_leaves_the_old_file),
		cmocka_unit_test(a_failing_directory_sync_is_told_as_it_is),
		cmocka_unit_test(without_xattrs_there_is_no_record),
		cmocka_unit_test(a_rename_whose_answer_is_lost_is_done),
		cmocka_unit_test(a_target_changed_behind_is_a_conflict),
		cmocka_unit_test(each_call_fails_once),
		cmocka_unit_test(each_call_is_done_but_answers_an_error),
		cmocka_unit_test(all_calls_fail_from_one_on),
		cmocka_unit_test(each_call_of_a_rename_fails),
		cmocka_unit_test(writes_land_in_any_order),
		cmocka_unit_test(a_slow_backing_slows_writers),
		cmocka_unit_test(a_crowd_over_a_bad_backing),
		cmocka_unit_test(a_hundred_writers_wait_their_turn),
		cmocka_unit_test(a_writer_who_waits_can_be_interrupted),
		cmocka_unit_test(a_sync_that_waits_can_be_interrupted),
		cmocka_unit_test(nobody_waits_longer_than_the_stall_timeout),
		cmocka_unit_test(nor_behind_a_chunk_that_flies),
		cmocka_unit_test(a_stuck_flush_holds_up_no_other),
		cmocka_unit_test(a_failing_flush_holds_up_no_other),
		cmocka_unit_test(a_full_share_holds_up_no_other),
		cmocka_unit_test(a_write_waits_for_the_publish),
		cmocka_unit_test(a_death_during_the_publish_comes_too_late),
		cmocka_unit_test(a_death_during_a_failing_publish_is_one_failure),
		cmocka_unit_test(a_death_during_a_move_fails_it),
		cmocka_unit_test(a_write_beside_the_close_is_in_it),
		cmocka_unit_test(draining_tells_what_is_left),
		cmocka_unit_test(the_end_of_a_mount_waits_for_no_retries),
	};
	const char *only = getenv("CKPTFS_TEST_ONLY");

	umask(0);
	writer_judge(getpid()); /* keeps /proc open from now on */
	if (only)
		cmocka_set_test_filter(only);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
