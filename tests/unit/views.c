/* SPDX-License-Identifier: MIT */
/* Views: tensors that are cut in random ways are read as they were, in any stretches. */
#include "tests/unit/unit.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>

#include "engine/base/cleanup.h"
#include "engine/views/round.h"
#include "engine/views/view.h"

#define SEEDS 300

static unsigned nr_reads;

/* The files of the checkpoint: each is one piece. */
struct store {
	struct {
		char *data;
		size_t size;
	} files[256];
	size_t nr;
	const struct view *v;
};

static int read_store(void *arg, size_t path, void *buf, size_t len, uint64_t off)
{
	struct store *s = arg;
	size_t nr = (size_t)strtoul(s->v->paths[path], NULL, 10);

	nr_reads++;
	if (off + len > s->files[nr].size)
		return -EIO;
	memcpy(buf, s->files[nr].data + off, len);
	return 0;
}

static uint64_t below(uint64_t limit)
{
	return limit ? (uint64_t)rand() % limit : 0;
}

/* Puts the bytes of the box into a file, some way in. */
static void add_piece(struct index *ix, struct index_tensor *t, struct store *s, const char *whole,
		      const uint64_t *box, unsigned size, uint64_t from, uint64_t bytes)
{
	uint64_t volume = 1, at = below(50);
	char path[16], *all;
	struct index_piece p = {.path = path, .at = at, .from = from, .bytes = bytes, .box = box};

	for (unsigned d = 0; d < t->ndim; d++)
		volume *= box[t->ndim + d];
	all = malloc(volume * size + 1);
	for (uint64_t e = 0; e < volume; e++) {
		uint64_t rest = e, place = 0, step = 1;

		for (unsigned d = t->ndim; d-- > 0;) {
			place += (box[d] + rest % box[t->ndim + d]) * step;
			rest /= box[t->ndim + d];
			step *= t->shape[d];
		}
		memcpy(all + e * size, whole + place * size, size);
	}
	s->files[s->nr].size = at + bytes;
	s->files[s->nr].data = malloc(at + bytes + 1);
	memcpy(s->files[s->nr].data + at, all + from, bytes);
	free(all);
	snprintf(path, sizeof(path), "%zu", s->nr++);
	assert_int_equal(index_add_piece(ix, t, &p), 0);
}

/* Cuts the box at random until it is small, and then perhaps into flat ranges. */
static void cut(struct index *ix, struct index_tensor *t, struct store *s, const char *whole,
		const uint64_t *box, unsigned size, unsigned depth)
{
	unsigned d = (unsigned)below(t->ndim);
	uint64_t a[16], b[16], k, bytes = size;

	if (t->ndim && depth && box[t->ndim + d] > 1 && below(4)) {
		memcpy(a, box, 2 * t->ndim * sizeof(*box));
		memcpy(b, box, 2 * t->ndim * sizeof(*box));
		k = 1 + below(box[t->ndim + d] - 1);
		a[t->ndim + d] = k;
		b[d] += k;
		b[t->ndim + d] -= k;
		cut(ix, t, s, whole, a, size, depth - 1);
		cut(ix, t, s, whole, b, size, depth - 1);
		return;
	}
	for (unsigned i = 0; i < t->ndim; i++)
		bytes *= box[t->ndim + i];
	for (uint64_t from = 0, n; from < bytes; from += n) {
		n = below(3) ? bytes - from : (1 + below((bytes - from) / size)) * size;
		add_piece(ix, t, s, whole, box, size, from, n);
	}
}

/* Rules that cut an axis of each tensor in two, and have these the other way round. */
static int read_map(void *arg, const char *name, char **text)
{
	const struct index *ix = arg;
	size_t len;
	FILE *out;

	if (strcmp(name, "turned.json") != 0)
		return -ENOENT;
	out = open_memstream(text, &len);
	fprintf(out, "{\"tensors\": [");
	for (size_t i = 0; i < ix->nr; i++) {
		const struct index_tensor *t = ix->tensors[i];
		unsigned dim = t->ndim ? (unsigned)below(t->ndim) : 0;
		uint64_t length = t->ndim ? t->shape[dim] : 1, half = 1 + below(length);

		while (length % half)
			half--;
		fprintf(out, "%s{\"from\": \"%s\", \"to\": \"%s\", \"dim\": %u", i ? ", " : "",
			t->name, t->name, dim);
		if (!t->ndim) {
			fputc('}', out);
			continue;
		}
		fprintf(out, ", \"cut\": [%" PRIu64 ", null], \"order\": [1, 0]}", half);
	}
	fprintf(out, "]}");
	fclose(out);
	return 0;
}

/* The bytes of its tensors, in whatever order. */
static uint64_t sum_of(const char *bytes, size_t nr)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < nr; i++)
		sum += (unsigned char)bytes[i];
	return sum;
}

static void one_view(unsigned seed)
{
	bool turned = seed % 3 == 0;
	static const char *const dtypes[] = {"F32", "BF16", "U8", "F64"};
	static const unsigned sizes[] = {4, 2, 1, 8};
	char name[16], why[SPEC_WHY_MAX], *wholes[4];
	uint64_t all[4];
	struct view_source src = {.read = read_store};
	struct view_beside beside = {.read = read_map};
	struct store s = {0};
	struct index *ix;
	struct view *v;

	srand(seed);
	assert_int_equal(index_create(&ix), 0);
	for (unsigned i = 0; i < 4; i++) {
		uint64_t shape[4], box[8] = {0}, bytes = sizes[i];
		unsigned ndim = (unsigned)below(5);
		struct index_tensor *t;

		for (unsigned d = 0; d < ndim; d++) {
			shape[d] = 1 + below(d == 1 && !below(4) ? 3000 : 9);
			box[ndim + d] = shape[d];
			bytes *= shape[d];
		}
		wholes[i] = malloc(bytes);
		all[i] = bytes;
		for (uint64_t k = 0; k < bytes; k++)
			wholes[i][k] = (char)rand();
		snprintf(name, sizeof(name), "t%u", i);
		assert_int_equal(index_add(ix, "", name, dtypes[i], ndim, shape, &t), 0);
		cut(ix, t, &s, wholes[i], box, sizes[i], 5);
	}
	assert_int_equal(index_finish(ix), 0);
	for (size_t i = 0; i < ix->nr; i++)
		assert_string_equal(index_state(ix->tensors[i]), "complete");
	beside.arg = ix;
	assert_int_equal(view_create(&v, ix,
				     turned	? "part=all,map=turned"
				     : seed % 2 ? "part=all"
						: "part=all,max=100",
				     &beside, why),
			 0);
	assert_int_equal(v->nr_tensors, 4);
	s.v = v;
	src.arg = &s;
	for (size_t f = 0; f < v->nr_files; f++) {
		const struct view_file *file = &v->files[f];
		char *whole = malloc(file->size + 1), *part = malloc(file->size + 1);

		assert_int_equal(view_read(v, f, whole, file->size + 1, 0, &src), file->size);
		for (size_t k = 0; k < file->nr; k++) {
			const struct view_segment *g = &file->segments[k];
			unsigned nr = g->tensor ? (unsigned)(g->tensor->name[1] - '0') : 0;

			if (!g->tensor)
				continue;
			assert_int_equal(g->bytes, all[nr]);
			if (turned)
				assert_int_equal(sum_of(whole + g->at, g->bytes),
						 sum_of(wholes[nr], g->bytes));
			else
				assert_memory_equal(whole + g->at, wholes[nr], g->bytes);
		}
		for (unsigned k = 0; k < 50; k++) {
			uint64_t off = below(file->size + 1), len = below(file->size - off + 1);

			assert_int_equal(view_read(v, f, part, len, off, &src), len);
			assert_memory_equal(part, whole + off, len);
		}
		assert_int_equal(view_read(v, f, part, 1, file->size, &src), 0);
		free(whole);
		free(part);
	}
	view_destroy(v);
	for (size_t i = 0; i < s.nr; i++)
		free(s.files[i].data);
	for (unsigned i = 0; i < 4; i++)
		free(wholes[i]);
}

static void however_cut_it_is_read_whole(void **state)
{
	(void)state;
	for (unsigned seed = 1; seed <= SEEDS; seed++)
		one_view(seed);
}

/* A column of a large tensor is many short runs, which lie together in their file. */
static void short_runs_are_read_in_blocks(void **state)
{
	const uint64_t shape[2] = {1024, 512}, left[4] = {0, 0, 1024, 256},
		       right[4] = {0, 256, 1024, 256};
	char *whole = malloc(1024 * 512), *got = malloc(1024 * 512 + 4096), why[SPEC_WHY_MAX];
	struct view_source src = {.read = read_store};
	struct store s = {0};
	struct index_tensor *t;
	struct index *ix;
	struct view *v;

	(void)state;
	for (size_t i = 0; i < 1024 * 512; i++)
		whole[i] = (char)(i * 31 + i / 512);
	assert_int_equal(index_create(&ix), 0);
	assert_int_equal(index_add(ix, "", "w", "U8", 2, shape, &t), 0);
	add_piece(ix, t, &s, whole, left, 1, 0, 1024 * 256);
	add_piece(ix, t, &s, whole, right, 1, 0, 1024 * 256);
	assert_int_equal(index_finish(ix), 0);
	assert_int_equal(view_create(&v, ix, "safetensors", NULL, why), 0);
	s.v = v;
	src.arg = &s;
	nr_reads = 0;
	assert_int_equal(view_read(v, 0, got, v->files[0].size, 0, &src), v->files[0].size);
	assert_memory_equal(got + v->files[0].segments[0].bytes, whole, 1024 * 512);
	assert_int_equal(nr_reads, 2);
	view_destroy(v);
	free(s.files[0].data);
	free(s.files[1].data);
	free(whole);
	free(got);
}

static void numbers_are_rounded_to_even(void **state)
{
	static const struct {
		double value;
		uint16_t bits;
	} known[] = {
		{1, 0x3f80},
		{-2, 0xc000},
		{0, 0},
		{1 + 0x1p-8, 0x3f80},		    /* a tie goes down to even */
		{1 + 3 * 0x1p-8, 0x3f82},	    /* and up */
		{1 + 0x1p-8 + 0x1p-20, 0x3f81},	    /* just above */
		{1 + 0x1p-8 + 0x1p-50, 0x3f81},	    /* above, by less than a float can say */
		{1 + 3 * 0x1p-8 - 0x1p-50, 0x3f81}, /* below */
		{1e39, 0x7f80},
		{-INFINITY, 0xff80},
		{3.4e38, 0x7f80}, /* rounds up to infinity */
		{0x1p-133, 0x0001},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		assert_int_equal(round_to_bf16(known[i].value), known[i].bits);
	assert_int_equal(round_to_bf16(NAN) & 0x7fff, 0x7fc0);
}

static void words_are_checked(void **state)
{
	static const char *const bad[][2] = {
		{"", "1 to 255"},
		{"safetensor", "Is 'safetensors' meant?"},
		{"part=modle", "Is 'model' meant?"},
		{"prat=model", "Is 'part' meant?"},
		{"max=5X", "no size"},
		{"max=0", "no size"},
		{"max=99999999999999999999T", "no size"},
		{"strip=", "strip= has no value"},
		{"dtype=f8", "no dtype"},
		{"safetensors,,part=model", "no form"},
	};
	char why[SPEC_WHY_MAX], globs[200] = "only=a";
	struct view_spec s;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		assert_int_equal(view_spec_parse(&s, bad[i][0], why), -EINVAL);
		assert_non_null(strstr(why, bad[i][1]));
	}
	for (unsigned i = 0; i < SPEC_GLOBS; i++)
		strcat(globs, ",only=a");
	assert_int_equal(view_spec_parse(&s, globs, why), -EINVAL);
	assert_int_equal(view_spec_parse(&s, "max=5GB,part=master,dtype=bf16,scope=x.pt", why), 0);
	assert_true(s.max == 5000000000 && s.master && s.bf16 && !strcmp(s.scope, "x.pt"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(however_cut_it_is_read_whole),
		cmocka_unit_test(short_runs_are_read_in_blocks),
		cmocka_unit_test(numbers_are_rounded_to_even),
		cmocka_unit_test(words_are_checked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
