/* SPDX-License-Identifier: MIT */
/*
 * An example of a trainer that saves by libckptfs: Adam, with a checkpoint at every step.
 *
 * 	trainer [--plain] [--device host|cuda] [--steps N] [--every N] [--tensors N]
 * 		[--elements N] [--keep N] [--no-barrier] DIR
 *
 * DIR, in a mount of ckptfs, gets a directory step-N for each checkpoint, named as DCP names its
 * files: __RANK_0.distcp (weights) and __RANK_1.distcp (Adam's moments) are written by handle,
 * .metadata as text, under another name and renamed when all is written. A run that finds
 * checkpoints goes on from the newest; since all that it computes is determined by the state, it
 * ends with the same weights, bit for bit. --plain writes the same by write(2), to any directory.
 * --no-barrier is wrong, to show that this is noticed. With --device cuda the tensors lie on a GPU,
 * and the update is work that is enqueued there (gpu.c); the weights are the same. Status 77: there
 * is no GPU.
 *
 * It prints for how many seconds it has trained, was blocked by each save, and by the barrier
 * behind it.
 *
 * What to look at: tensors are registered once (register_state), written at each save
 * (save_lazily), and ckptfs_barrier stands before the one place where they change (main).
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "client/ckptfs.h"
#include "tests/trainer/gpu.h"

#define TENSORS_MAX 1000
#define ALIGN	    4096

enum { WEIGHT, EXP_AVG, EXP_AVG_SQ, KINDS };
static const char *const kind_names[KINDS] = {"weight", "exp_avg", "exp_avg_sq"};

struct tensor {
	float *data;  /* of one on a GPU: what was fetched from there last, or is to be stored */
	void *device; /* NULL: on the host */
	size_t nr;    /* elements */
	unsigned file;
	uint64_t file_off;
	uint64_t id;
	char name[64];
};

static struct {
	struct tensor tensors[KINDS][TENSORS_MAX];
	unsigned nr;
	unsigned long step; /* updates that were made */
} state;

static struct {
	const char *dir;
	bool plain, no_barrier, gpu;
	unsigned long steps, every, keep;
	size_t elements;
	int rank, world;
} options = {.steps = 10, .every = 1, .elements = 10000, .world = 1};

static struct ckptfs_session *session; /* NULL: plain */

/* Seconds for which training was blocked: by writing tensors, and by barriers. */
static double blocked_by_saves, blocked_by_barriers;

static void die(const char *what, const char *why)
{
	fprintf(stderr, "trainer: %s: %s\n", what, why);
	exit(1);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* --- the model --- */

static uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15ull;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

/* In [-1, 1), the same for the same key. */
static float noise(uint64_t a, uint64_t b, uint64_t c)
{
	return (float)(int32_t)(mix(mix(mix(a) ^ b) ^ c) >> 32) * 0x1p-31f;
}

/* Enqueued: of so many kinds of tensors, or of each. */
static void fetch(unsigned kinds)
{
	for (unsigned k = 0; options.gpu && k < kinds; k++)
		for (unsigned i = 0; i < state.nr; i++) {
			struct tensor *t = &state.tensors[k][i];

			gpu_fetch(t->data, t->device, t->nr * sizeof(float));
		}
}

static void store(void)
{
	for (unsigned k = 0; options.gpu && k < KINDS; k++)
		for (unsigned i = 0; i < state.nr; i++) {
			struct tensor *t = &state.tensors[k][i];

			gpu_store(t->device, t->data, t->nr * sizeof(float));
		}
}

static void wait_for_gpu(void)
{
	if (options.gpu)
		gpu_wait();
}

static void allocate(struct tensor *t)
{
	size_t bytes = t->nr * sizeof(float);

	t->data = options.gpu ? gpu_alloc_host(bytes) : calloc(1, bytes);
	t->device = options.gpu ? gpu_alloc(bytes) : NULL;
	if (!t->data)
		die("tensors", strerror(ENOMEM));
}

static void create_state(void)
{
	uint64_t ends[2] = {0, 0};

	for (unsigned k = 0; k < KINDS; k++)
		for (unsigned i = 0; i < state.nr; i++) {
			struct tensor *t = &state.tensors[k][i];

			t->nr = options.elements / (i % 7 + 1) + i;
			allocate(t);
			t->id = k * TENSORS_MAX + i + 1;
			snprintf(t->name, sizeof(t->name), "layers.%u.%s", i, kind_names[k]);
			t->file = k == WEIGHT ? 0 : 1;
			t->file_off = ends[t->file];
			ends[t->file] += (t->nr * sizeof(float) + ALIGN - 1) / ALIGN * ALIGN;
			for (size_t e = 0; k == WEIGHT && e < t->nr; e++)
				t->data[e] = noise((uint64_t)options.rank, i, e);
		}
	store();
}

/*
 * Forward and backward: reads weights only. The loss is the distance from a goal that is seen
 * through noise.
 */
static float gradient(unsigned i, size_t e)
{
	const struct tensor *w = &state.tensors[WEIGHT][i];
	float goal = noise(i, e, 77);

	return w->data[e] - goal + 0.1f * noise(state.step, i, e);
}

static float *compute_gradients(void)
{
	float *all, *at;
	size_t nr = 0;

	for (unsigned i = 0; i < state.nr; i++)
		nr += state.tensors[WEIGHT][i].nr;
	all = at = malloc(nr * sizeof(float));
	if (!all)
		die("gradients", strerror(ENOMEM));
	fetch(WEIGHT + 1);
	wait_for_gpu();
	for (unsigned i = 0; i < state.nr; i++)
		for (size_t e = 0; e < state.tensors[WEIGHT][i].nr; e++)
			*at++ = gradient(i, e);
	return all;
}

struct update {
	float *gradients;
	unsigned long step;
};

static void compute_update(void *arg)
{
	const float beta1 = 0.9f, beta2 = 0.999f, rate = 0.01f;
	struct update *u = arg;
	const float *g = u->gradients;
	double power1 = 1, power2 = 1;

	for (unsigned long s = 0; s < u->step; s++) {
		power1 *= (double)beta1;
		power2 *= (double)beta2;
	}
	for (unsigned i = 0; i < state.nr; i++) {
		float *w = state.tensors[WEIGHT][i].data;
		float *m = state.tensors[EXP_AVG][i].data;
		float *v = state.tensors[EXP_AVG_SQ][i].data;

		for (size_t e = 0; e < state.tensors[WEIGHT][i].nr; e++, g++) {
			m[e] = beta1 * m[e] + (1 - beta1) * *g;
			v[e] = beta2 * v[e] + (1 - beta2) * *g * *g;
			w[e] -= rate * (m[e] / (float)(1 - power1)) /
				(sqrtf(v[e] / (float)(1 - power2)) + 1e-8f);
		}
	}
	free(u->gradients);
	free(u);
}

/* The update: changes all tensors. On a GPU it is enqueued, and nothing here waits for it. */
static void adam_step(float *gradients)
{
	struct update *u = malloc(sizeof(*u));

	if (!u)
		die("update", strerror(ENOMEM));
	*u = (struct update){gradients, ++state.step};
	if (!options.gpu) {
		compute_update(u);
		return;
	}
	fetch(KINDS);
	gpu_call(compute_update, u);
	store();
}

static uint64_t digest_state(unsigned kinds)
{
	uint64_t h = state.step;

	fetch(kinds);
	wait_for_gpu();
	for (unsigned k = 0; k < kinds; k++)
		for (unsigned i = 0; i < state.nr; i++)
			for (size_t e = 0; e < state.tensors[k][i].nr; e++) {
				uint32_t bits;

				memcpy(&bits, &state.tensors[k][i].data[e], sizeof(bits));
				h = (h ^ bits) * 0x100000001b3ull;
				h ^= h >> 29;
			}
	return h;
}

/* --- saving --- */

static void name_of(char *path, unsigned long step, const char *file)
{
	snprintf(path, PATH_MAX, "%s/step-%lu%s%s", options.dir, step, *file ? "/" : "", file);
}

static void data_name(char *path, unsigned long step, unsigned file)
{
	char name[64];

	snprintf(name, sizeof(name), "__%d_%u.distcp", options.rank, file);
	name_of(path, step, name);
}

/*
 * One rank alone writes what DCP's coordinator does; of several, which do not talk, each has its
 * own.
 */
static void metadata_name(char *path, unsigned long step, const char *suffix)
{
	char name[64];

	if (options.world == 1)
		snprintf(name, sizeof(name), ".metadata%s", suffix);
	else
		snprintf(name, sizeof(name), "__%d.metadata%s", options.rank, suffix);
	name_of(path, step, name);
}

static void register_state(void)
{
	struct ckptfs_tensor_info *infos = calloc(KINDS * state.nr, sizeof(*infos));
	size_t n = 0;

	for (unsigned k = 0; k < KINDS; k++)
		for (unsigned i = 0; i < state.nr; i++) {
			const struct tensor *t = &state.tensors[k][i];

			infos[n++] = (struct ckptfs_tensor_info){
				.id = t->id,
				.name = t->name,
				.kind = CKPTFS_TENSOR,
				.memory = options.gpu ? CKPTFS_CUDA : CKPTFS_HOST,
				.dtype = "F32",
				.ndim = 1,
				.global_shape = {t->nr},
				.shard_shape = {t->nr},
				.bytes = t->nr * sizeof(float)};
		}
	if (ckptfs_register(session, infos, n))
		die("ckptfs_register", ckptfs_error(session));
	free(infos);
}

static int write_all(int fd, const void *from, size_t len, uint64_t off)
{
	const char *at = from;

	while (len) {
		ssize_t n = pwrite(fd, at, len, (off_t)off);

		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		at += n;
		len -= (size_t)n;
		off += (uint64_t)n;
	}
	return 0;
}

static int save_plainly(int fd, unsigned file)
{
	int err = 0;

	fetch(KINDS);
	wait_for_gpu();
	for (unsigned k = 0; k < KINDS; k++)
		for (unsigned i = 0; i < state.nr && !err; i++) {
			const struct tensor *t = &state.tensors[k][i];

			if (t->file == file)
				err = write_all(fd, t->data, t->nr * sizeof(float), t->file_off);
		}
	return err;
}

/* Returns at once: the bytes are copied while the next step computes its gradients. */
static int save_lazily(int fd, unsigned file)
{
	static struct ckptfs_write_op ops[KINDS * TENSORS_MAX];
	size_t n = 0;
	int err;

	for (unsigned k = 0; k < KINDS; k++)
		for (unsigned i = 0; i < state.nr; i++) {
			const struct tensor *t = &state.tensors[k][i];

			if (t->file == file)
				ops[n++] = (struct ckptfs_write_op){
					.id = t->id,
					.file_off = t->file_off,
					.addr = options.gpu ? t->device : t->data,
					.stream = options.gpu ? gpu_stream() : 0,
					.len = t->nr * sizeof(float)};
		}
	err = ckptfs_write(session, fd, ops, n);
	if (err)
		fprintf(stderr, "trainer: ckptfs_write: %s\n", ckptfs_error(session));
	return err;
}

static int save_data(unsigned file)
{
	char path[PATH_MAX];
	double begin = now();
	int fd, err;

	data_name(path, state.step, file);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (fd < 0)
		return -errno;
	err = session ? save_lazily(fd, file) : save_plainly(fd, file);
	if (close(fd) && !err)
		err = -errno;
	blocked_by_saves += now() - begin;
	return err;
}

static int save_metadata(void)
{
	char temporary[PATH_MAX], path[PATH_MAX];
	FILE *f;
	int err;

	metadata_name(temporary, state.step, ".tmp");
	metadata_name(path, state.step, "");
	f = fopen(temporary, "we");
	if (!f)
		return -errno;
	fprintf(f, "step %lu\ntensors %u\nelements %zu\ndigest %016" PRIx64 "\n", state.step,
		state.nr, options.elements, digest_state(KINDS));
	err = ferror(f) ? -EIO : 0;
	if (fclose(f) && !err)
		err = -errno;
	if (!err && rename(temporary, path))
		err = -errno;
	return err;
}

static int save(void)
{
	char path[PATH_MAX];
	int err = 0;

	name_of(path, state.step, "");
	if (mkdir(path, 0777) && errno != EEXIST)
		err = -errno;
	for (unsigned file = 0; file < 2 && !err; file++)
		err = save_data(file);
	return err ? err : save_metadata();
}

/* A checkpoint's names are known. What is not there any more was removed by another rank. */
static void remove_step(unsigned long step)
{
	char path[PATH_MAX];

	for (unsigned file = 0; file < 2; file++) {
		data_name(path, step, file);
		unlink(path);
	}
	metadata_name(path, step, "");
	unlink(path);
	name_of(path, step, "");
	rmdir(path);
}

/* --- resuming --- */

/* In a mount the checkpoint itself says it; elsewhere its last file does. */
static bool is_committed(unsigned long step)
{
	char path[PATH_MAX], text[64];
	ssize_t len;

	metadata_name(path, step, "");
	if (access(path, F_OK))
		return false;
	name_of(path, step, "");
	len = getxattr(path, "user.ckptfs.state", text, sizeof(text) - 1);
	if (len < 0)
		return true;
	text[len] = '\0';
	return !strncmp(text, "committed", 9) || strstr(text, "foreign");
}

/* 0: there is none. */
static unsigned long newest_step(void)
{
	unsigned long newest = 0, step;
	struct dirent *e;
	DIR *d = opendir(options.dir);
	char end;

	if (!d)
		die(options.dir, strerror(errno));
	while ((e = readdir(d)))
		if (sscanf(e->d_name, "step-%lu%c", &step, &end) == 1 && step > newest &&
		    is_committed(step))
			newest = step;
	closedir(d);
	return newest;
}

static void load_data(unsigned long step)
{
	for (unsigned file = 0; file < 2; file++) {
		char path[PATH_MAX];
		int fd;

		data_name(path, step, file);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			die(path, strerror(errno));
		for (unsigned k = 0; k < KINDS; k++)
			for (unsigned i = 0; i < state.nr; i++) {
				struct tensor *t = &state.tensors[k][i];
				size_t len = t->nr * sizeof(float), got = 0;
				ssize_t n = 1;

				for (; t->file == file && got < len && n > 0; got += (size_t)n)
					n = pread(fd, (char *)t->data + got, len - got,
						  (off_t)(t->file_off + got));
				if (n <= 0)
					die(path, n < 0 ? strerror(errno) : "is too short");
			}
		close(fd);
	}
}

static void resume(unsigned long step)
{
	char path[PATH_MAX];
	uint64_t digest;
	size_t elements;
	unsigned nr;
	FILE *f;

	metadata_name(path, step, "");
	f = fopen(path, "re");
	if (!f)
		die(path, strerror(errno));
	if (fscanf(f, "step %lu tensors %u elements %zu digest %" SCNx64, &state.step, &nr,
		   &elements, &digest) != 4 ||
	    state.step != step || nr != state.nr || elements != options.elements)
		die(path, "is of another run");
	fclose(f);
	load_data(step);
	store();
	if (digest_state(KINDS) != digest)
		die(path, "the tensors are not those that were saved");
	printf("resumed step %lu\n", step);
}

/* --- the loop --- */

/* Without its checkpoint training goes on all the same. */
static void wait_before_update(void)
{
	uint64_t stream = options.gpu ? gpu_stream() : 0;
	double begin = now();

	if (!session || options.no_barrier)
		return;
	if (ckptfs_barrier(session, &stream, options.gpu, 0, 0))
		fprintf(stderr, "trainer: ckptfs_barrier: %s\n", ckptfs_error(session));
	blocked_by_barriers += now() - begin;
}

static void train(void)
{
	double begin = now();
	unsigned saves = 0;

	while (state.step < options.steps) {
		float *g = compute_gradients();
		int err = 0;

		wait_before_update();
		adam_step(g);
		if (state.step % options.every && state.step != options.steps)
			continue;
		err = save();
		saves++;
		if (err)
			fprintf(stderr, "trainer: step %lu is not saved: %s\n", state.step,
				strerror(-err));
		else
			printf("saved step %lu\n", state.step);
		if (options.keep && state.step > options.keep * options.every)
			remove_step(state.step - options.keep * options.every);
	}
	printf("training %.3f\n", now() - begin);
	if (saves)
		printf("blocked %.3f\nlonger %.3f\n", blocked_by_saves / saves,
		       blocked_by_barriers / saves);
}

static unsigned long number(const char *text)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	if (!*text || *end || !n)
		die(text, "is no number above 0");
	return n;
}

static void usage(void)
{
	fputs("usage: trainer [--plain] [--device host|cuda] [--steps N] [--every N] [--tensors N] "
	      "[--elements N]\n"
	      "               [--keep N] [--no-barrier] DIR\n",
	      stderr);
	exit(2);
}

static void parse(int argc, char **argv)
{
	static const struct option longs[] = {
		{"plain", no_argument, NULL, 'p'},
		{"no-barrier", no_argument, NULL, 'b'},
		{"device", required_argument, NULL, 'd'},
		{"steps", required_argument, NULL, 's'},
		{"every", required_argument, NULL, 'v'},
		{"tensors", required_argument, NULL, 't'},
		{"elements", required_argument, NULL, 'e'},
		{"keep", required_argument, NULL, 'k'},
		{0},
	};
	int c;

	state.nr = 8;
	while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1)
		switch (c) {
		case 'p':
			options.plain = true;
			break;
		case 'b':
			options.no_barrier = true;
			break;
		case 'd':
			options.gpu = !strcmp(optarg, "cuda");
			if (!options.gpu && strcmp(optarg, "host") != 0)
				usage();
			break;
		case 's':
			options.steps = number(optarg);
			break;
		case 'v':
			options.every = number(optarg);
			break;
		case 't':
			state.nr = (unsigned)number(optarg);
			break;
		case 'e':
			options.elements = number(optarg);
			break;
		case 'k':
			options.keep = number(optarg);
			break;
		default:
			usage();
		}
	if (optind + 1 != argc || state.nr > TENSORS_MAX)
		usage();
	options.dir = argv[optind];
	if (getenv("RANK") && getenv("WORLD_SIZE")) {
		options.rank = atoi(getenv("RANK"));
		options.world = atoi(getenv("WORLD_SIZE"));
	}
}

int main(int argc, char **argv)
{
	const char *no_gpu;
	unsigned long newest;

	parse(argc, argv);
	setvbuf(stdout, NULL, _IOLBF, 0);
	no_gpu = options.gpu ? gpu_begin() : NULL;
	if (no_gpu) {
		printf("no GPU: %s\n", no_gpu);
		return 77;
	}
	create_state();
	newest = newest_step();
	if (newest)
		resume(newest);
	if (!options.plain) {
		if (ckptfs_open(options.dir, NULL, &session))
			die("ckptfs_open", ckptfs_error(NULL));
		register_state();
	}
	train();
	ckptfs_close(session);
	printf("weights %016" PRIx64 " after step %lu\n", digest_state(1), state.step);
	return 0;
}
