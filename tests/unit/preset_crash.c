/* SPDX-License-Identifier: MIT */
/* timeout: 300 */
/*
 * The save sequence of each preset's framework, as tests/presets has it, cut off by a power cut at
 * every instant: under the name of the checkpoint is nothing or all of it, and what says that it is
 * the newest says so of that.
 */
#include "tests/unit/mnt.h"

#include "engine/coord/coord.h"
#include "engine/format/commit.h"
#include "engine/redo/recover.h"
#include "engine/save/checkpoint.h"
#include "tests/backing/crash.h"

#define BYTES	5001
#define MOST	16
#define PATH_OF "run/"

enum op { END, MKDIR, PUT, MOVE, UNLINK, POINT };

struct step {
	enum op op;
	const char *path, *to; /* below run; of POINT: the text */
};

struct preset {
	const char *name, *unit, *temp; /* temp: its name until the end; or NULL */
	const char *pointer;		/* or NULL */
	struct step steps[24];
};

static const struct preset presets[] = {
	{"torch-dcp",
	 "step-1",
	 NULL,
	 NULL,
	 {{MKDIR, "step-1", NULL},
	  {PUT, "step-1/__0_0.distcp", NULL},
	  {PUT, "step-1/__1_0.distcp", NULL},
	  {PUT, "step-1/.metadata.tmp", NULL},
	  {MOVE, "step-1/.metadata.tmp", "step-1/.metadata"}}},
	{"deepspeed",
	 "global_step1",
	 NULL,
	 "latest",
	 {{MKDIR, "global_step1", NULL},
	  {PUT, "global_step1/mp_rank_00_model_states.pt", NULL},
	  {PUT, "global_step1/bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt", NULL},
	  {PUT, "global_step1/zero_to_fp32.py", NULL},
	  {POINT, "latest", "global_step1"}}},
	{"megatron",
	 "iter_0000010",
	 NULL,
	 "latest_checkpointed_iteration.txt",
	 {{MKDIR, "iter_0000010", NULL},
	  {PUT, "iter_0000010/__0_0.distcp", NULL},
	  {PUT, "iter_0000010/__0_1.distcp", NULL},
	  {PUT, "iter_0000010/.metadata", NULL},
	  {PUT, "iter_0000010/metadata.json", NULL},
	  {POINT, "latest_checkpointed_iteration.txt", "10"}}},
	{"hf-trainer",
	 "checkpoint-5",
	 NULL,
	 NULL,
	 {{MKDIR, "checkpoint-5", NULL},
	  {PUT, "checkpoint-5/config.json", NULL},
	  {PUT, "checkpoint-5/pytorch_model.bin", NULL},
	  {PUT, "checkpoint-5/optimizer.pt", NULL},
	  {PUT, "checkpoint-5/rng_state.pth", NULL},
	  {PUT, "checkpoint-5/trainer_state.json", NULL}}},
	{"accelerate",
	 "checkpoints/checkpoint_0",
	 NULL,
	 NULL,
	 {{MKDIR, "checkpoints", NULL},
	  {MKDIR, "checkpoints/checkpoint_0", NULL},
	  {PUT, "checkpoints/checkpoint_0/pytorch_model.bin", NULL},
	  {PUT, "checkpoints/checkpoint_0/optimizer.bin", NULL},
	  {PUT, "checkpoints/checkpoint_0/random_states_0.pkl", NULL}}},
	{"lightning",
	 "epoch=1-step=20.ckpt",
	 NULL,
	 NULL,
	 {{MKDIR, "epoch=1-step=20.ckpt", NULL},
	  {PUT, "epoch=1-step=20.ckpt/__0_0.distcp", NULL},
	  {PUT, "epoch=1-step=20.ckpt/.metadata.tmp", NULL},
	  {MOVE, "epoch=1-step=20.ckpt/.metadata.tmp", "epoch=1-step=20.ckpt/.metadata"},
	  {PUT, "epoch=1-step=20.ckpt/meta.pt", NULL}}},
	{"nemo",
	 "model--step=10",
	 NULL,
	 NULL,
	 {{PUT, "model--step=10-unfinished", NULL},
	  {MKDIR, "model--step=10", NULL},
	  {MKDIR, "model--step=10/weights", NULL},
	  {PUT, "model--step=10/weights/__0_0.distcp", NULL},
	  {PUT, "model--step=10/weights/.metadata.tmp", NULL},
	  {MOVE, "model--step=10/weights/.metadata.tmp", "model--step=10/weights/.metadata"},
	  {MKDIR, "model--step=10/context", NULL},
	  {PUT, "model--step=10/context/model.yaml", NULL},
	  {UNLINK, "model--step=10-unfinished", NULL}}},
	{"orbax",
	 "7",
	 "7.orbax-checkpoint-tmp-17",
	 NULL,
	 {{MKDIR, "7.orbax-checkpoint-tmp-17", NULL},
	  {MKDIR, "7.orbax-checkpoint-tmp-17/default", NULL},
	  {PUT, "7.orbax-checkpoint-tmp-17/default/manifest.ocdbt.__lock", NULL},
	  {MOVE, "7.orbax-checkpoint-tmp-17/default/manifest.ocdbt.__lock",
	   "7.orbax-checkpoint-tmp-17/default/manifest.ocdbt"},
	  {PUT, "7.orbax-checkpoint-tmp-17/default/_METADATA", NULL},
	  {PUT, "7.orbax-checkpoint-tmp-17/_CHECKPOINT_METADATA", NULL},
	  {MOVE, "7.orbax-checkpoint-tmp-17", "7"}}},
};

static struct mnt m;
static struct record *r;
static const struct preset *preset;
static struct {
	const char *path; /* below the checkpoint */
	int version;
} files[MOST];
static size_t nr_files, nr_states;

/* --- the save --- */

/* Its path below the checkpoint; NULL: it is beside that. */
static const char *inside(const char *path)
{
	const char *const tops[] = {preset->unit, preset->temp};
	size_t i, len;

	for (i = 0; i < 2; i++) {
		len = tops[i] ? strlen(tops[i]) : 0;
		if (len && !strncmp(path, tops[i], len) && path[len] == '/')
			return path + len + 1;
	}
	return NULL;
}

static void put(const char *path, const char *full)
{
	int version = (int)nr_files + 2;

	assert_int_equal(save(&m, full, version, BYTES + 100 * (size_t)version, false), 0);
	if (!inside(path))
		return;
	assert_true(nr_files < MOST);
	files[nr_files].path = inside(path);
	files[nr_files++].version = version;
}

static void move(const struct step *s, const char *full)
{
	char to[PATH_MAX];
	size_t i;

	snprintf(to, sizeof(to), PATH_OF "%s", s->to);
	assert_int_equal(file_rename(&m, full, to), 0);
	for (i = 0; inside(s->path) && i < nr_files; i++)
		if (!strcmp(files[i].path, inside(s->path)))
			files[i].path = inside(s->to);
}

static void point(const char *full, const char *text)
{
	struct file f;

	assert_int_equal(file_open(&m, &f, full, O_WRONLY | O_TRUNC), 0);
	assert_int_equal(file_write(&f, text, strlen(text), 0), (ssize_t)strlen(text));
	assert_int_equal(file_close(&f), 0);
}

static void do_step(const struct step *s)
{
	char full[PATH_MAX];

	snprintf(full, sizeof(full), PATH_OF "%s", s->path);
	switch (s->op) {
	case MKDIR:
		assert_int_equal(dir_make(&m, full), 0);
		break;
	case PUT:
		put(s->path, full);
		break;
	case MOVE:
		move(s, full);
		break;
	case UNLINK:
		assert_int_equal(file_unlink(&m, full), 0);
		break;
	default:
		point(full, s->to);
	}
}

/* What has no rank is committed after a while without writes, or when somebody asks for it. */
static void commit(void)
{
	char full[PATH_MAX];
	struct checkpoint *cp;
	struct inode_id dir;
	struct at at;

	snprintf(full, sizeof(full), PATH_OF "%s", preset->unit);
	at = at_begin(&m, full);
	dir = node_inode(at.dir);
	cp = checkpoints_find(m.en.units, &dir, at.name);
	at_end(&m, &at);
	if (cp)
		assert_int_equal(checkpoint_ask(cp), 0);
	checkpoint_put(cp);
	assert_int_equal(checkpoint_wait(&m, full), 0);
}

/* --- after a crash --- */

struct found {
	struct backing *b;
	size_t nr;
	bool ok;
};

static const char *in_run(const char *path)
{
	static char full[2 * PATH_MAX];

	snprintf(full, sizeof(full), PATH_OF "%s", path);
	return full;
}

static const char *in_unit(const char *path)
{
	static char full[2 * PATH_MAX];

	snprintf(full, sizeof(full), PATH_OF "%s/%s", preset->unit, path);
	return full;
}

static int find_entry(void *found, const struct commit_entry *e)
{
	struct found *f = found;
	const char *path = in_unit(e->path);
	char hex[DIGEST_HEX];
	struct peek_file file = {.fd = -1};
	struct source src;
	size_t i;

	for (i = 0; i < nr_files && strcmp(files[i].path, e->path); i++)
		;
	f->nr++;
	f->ok = f->ok && i < nr_files && version_on(f->b, path) == files[i].version &&
		!peek_source(f->b, path, &file, &src) &&
		!digest_of_source(&src, e->size, 1, NULL, NULL, hex) && !strcmp(hex, e->xxh3);
	peek_close(&file);
	return 0;
}

/*
 * 1: it is there, whole; 0: nothing of it is, or, where it is in a directory that was made for it,
 * no file; -1.
 */
static int what_is_there(struct backing *b)
{
	struct found f = {.b = b, .ok = true};
	struct peek_file file = {.fd = -1};
	struct source src;
	struct error e;
	int err;

	if (!peek_exists(b, in_run(preset->unit)))
		return 0;
	if (strchr(preset->unit, '/') && !peek_names(b, in_run(preset->unit), true))
		return 0;
	err = peek_source(b, in_unit(COMMIT_FILE), &file, &src);
	if (!err)
		err = commit_read(&src, preset->unit, NULL, find_entry, &f, &e);
	peek_close(&file);
	return !err && f.ok && f.nr == nr_files ? 1 : -1;
}

static int look(const struct crash_state *s, const char *when)
{
	int there = what_is_there(s->backing);

	if (there < 0 || (!there && s->mark)) {
		print_error("%s: %s is %s\n", when, preset->unit, there ? "broken" : "lost");
		return 1;
	}
	if (!there && preset->pointer && peek_exists(s->backing, in_run(preset->pointer))) {
		print_error("%s: %s runs ahead\n", when, preset->pointer);
		return 1;
	}
	if (preset->temp && peek_exists(s->backing, in_run(preset->temp))) {
		print_error("%s: %s is to be seen\n", when, preset->temp);
		return 1;
	}
	return 0;
}

static void redone(void *failed, const struct caller *owner, const char *unit, const char *staging,
		   int err)
{
	(void)owner;
	(void)unit;
	(void)staging;
	*(bool *)failed |= err;
}

static void followed(void *failed, const struct caller *owner, const char *path, bool removed,
		     const char *unit, int err)
{
	(void)owner;
	(void)path;
	(void)unit;
	*(bool *)failed |= err || removed;
}

static void trashed(void *failed, const struct caller *owner, int dir, const char *id)
{
	(void)owner;
	(void)dir;
	(void)id;
	*(bool *)failed = true; /* nothing was replaced, or removed */
}

static int check(void *arg, const struct crash_state *s)
{
	struct rules *rules;
	bool failed = false;
	struct recovery rec = {.backing = s->backing,
			       .coord = &coord_dir_ops,
			       .coord_arg = s->backing,
			       .alone = true,
			       .redone = redone,
			       .followed = followed,
			       .trashed = trashed,
			       .arg = &failed};
	struct error e;
	int err;

	(void)arg;
	if (look(s, "right after the crash"))
		return 1;
	assert_int_equal(rules_create(&rules, NULL, "", &e), 0);
	rec.rules = rules;
	*s->backing->features = m.features;
	err = recover_decided(&rec);
	rules_destroy(rules);
	return err || failed ? 1 : look(s, "recovered");
}

static void is_all_or_nothing(void **state)
{
	struct crash_options options = {.seed = 1};
	struct crash_report report;
	const struct step *s;
	char path[PATH_MAX];

	preset = *state;
	nr_files = 0;
	mnt_open(&m, scratch_dir(path), SMALL_CACHE ",quiet_s=3600");
	assert_int_equal(mkdirat(m.top, "run", 0755), 0);
	r = record_start(&m.en.backing);
	mnt_start(&m);
	for (s = preset->steps; s->op != END; s++)
		do_step(s);
	commit();
	record_mark(r, 1);
	assert_int_equal(mnt_drain(&m, 60), 0);
	engine_stop(&m.en); /* it goes on tidying */
	record_stop(r);
	mnt_close(&m);
	if (crash_explore(r, &options, check, NULL, &report)) {
		record_print(r, stderr);
		fail_msg("%s: %s", preset->name, report.what);
	}
	assert_false(report.cut_short);
	assert_true(report.checked > 3);
	nr_states += report.checked;
	record_free(r);
}

/* What has a rank is read from the environment that a process began with. */
static void begin_anew_as_rank(char **argv)
{
	if (getenv("RANK"))
		return;
	setenv("RANK", "0", 1);
	setenv("WORLD_SIZE", "1", 1);
	execv("/proc/self/exe", argv);
	abort();
}

int main(int argc, char **argv)
{
	struct CMUnitTest tests[sizeof(presets) / sizeof(*presets)];
	size_t i;
	int failed;

	(void)argc;
	begin_anew_as_rank(argv);
	umask(0);
	for (i = 0; i < sizeof(presets) / sizeof(*presets); i++)
		tests[i] = (struct CMUnitTest){.name = presets[i].name,
					       .test_func = is_all_or_nothing,
					       .initial_state = (void *)&presets[i]};
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	print_message("%zu states checked\n", nr_states);
	return failed;
}
