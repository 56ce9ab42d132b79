/* SPDX-License-Identifier: MIT */
/* ckptfs tensors: lists the tensors of a checkpoint, and which bytes of which file hold them. */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/base/message.h"
#include "engine/tensors/digest.h"
#include "engine/tensors/read.h"
#include "engine/tensors/stored.h"
#include "fs/cmd/cmd.h"
#include "fs/cmd/tensors.h"
#include "fs/show.h"

#define SHAPE_WIDTH 24

/* "[8, 16]" */
static const char *show_shape(char *buf, size_t size, const struct index_tensor *t)
{
	size_t len = (size_t)snprintf(buf, size, "[");

	for (unsigned i = 0; i < t->ndim && len < size; i++)
		len += (size_t)snprintf(buf + len, size - len, "%s%" PRIu64, i ? ", " : "",
					t->shape[i]);
	if (len < size)
		snprintf(buf + len, size - len, "]");
	return buf;
}

static void print_tensor(const struct index_tensor *t)
{
	static const char *const parts[] = {"model", "optimizer", "other"};
	char size[SHOW_MAX], shape[512], scope[PATH_MAX], name[PATH_MAX];

	show_size(size, (double)index_bytes(t));
	printf("%-8s %*s %10s %6zu  %-9s  %s%s%s", t->dtype, -SHAPE_WIDTH,
	       show_shape(shape, sizeof(shape), t), size, t->nr_pieces, parts[t->part],
	       show_name(scope, sizeof(scope), t->scope), *t->scope ? ": " : "",
	       show_name(name, sizeof(name), t->name));
	if (t->alias)
		printf(" (the bytes of %s)", show_name(name, sizeof(name), t->alias));
	if (t->hole || t->opaque)
		printf("\n         %s", index_state(t));
	putchar('\n');
}

static void print_opaque(const struct index_opaque *o)
{
	char path[PATH_MAX], name[PATH_MAX];

	printf("%-8s %s%s%s: %s\n", o->missing ? "missing" : "opaque",
	       show_name(path, sizeof(path), o->path), *o->name ? ": " : "",
	       show_name(name, sizeof(name), o->name), o->reason);
}

/* How many entries say that something is missing, or that its form is unknown. */
static size_t nr_opaque(const struct index *ix, bool missing)
{
	size_t nr = 0;

	for (const struct index_opaque *o = ix->opaque; o; o = o->next)
		nr += o->missing == missing;
	return nr;
}

/* Sets *@bytes to the bytes of all, each once. Returns how many have a hole. */
static size_t sum_up(const struct index *ix, uint64_t *bytes)
{
	size_t holes = 0;

	*bytes = 0;
	for (size_t i = 0; i < ix->nr; i++) {
		const struct index_tensor *t = ix->tensors[i];

		holes += t->hole != NULL;
		*bytes += t->alias ? 0 : index_bytes(t);
	}
	return holes;
}

static void print_table(const struct index *ix)
{
	uint64_t bytes;
	size_t holes = sum_up(ix, &bytes), opaque = nr_opaque(ix, false);
	size_t missing = nr_opaque(ix, true);
	char size[SHOW_MAX];

	if (ix->nr)
		printf("%-8s %*s %10s %6s  %-9s  %s\n", "TYPE", -SHAPE_WIDTH, "SHAPE", "SIZE",
		       "PIECES", "PART", "NAME");
	for (size_t i = 0; i < ix->nr; i++)
		print_tensor(ix->tensors[i]);
	for (const struct index_opaque *o = ix->opaque; o; o = o->next)
		print_opaque(o);
	show_size(size, (double)bytes);
	printf("%zu tensors, %s: ", ix->nr, size);
	if (!ix->nr)
		printf("none was found");
	else if (holes)
		printf("%zu of them incomplete", holes);
	else
		printf("complete");
	if (missing)
		printf("; %zu parts are missing", missing);
	if (opaque)
		printf("; %zu that cannot be described", opaque);
	putchar('\n');
}

/* How to call the verb. */
struct asked {
	bool json, digest, redundancy, keep;
	struct progress_line progress;
};

static void show_read(void *arg, uint64_t bytes)
{
	struct asked *a = arg;

	progress_line_show(&a->progress, "%.0f MB read", (double)bytes / 1e6);
}

static const char *why_not_kept(int err)
{
	return err == -ENODATA	 ? "it has no commit file"
	       : err == -ENOTDIR ? "it is a single file"
	       : err == -EPERM ? "it lies in a mount, which keeps indexes itself: name its backing"
	       : err == -EFBIG ? "a tensor has too many pieces"
			       : strerror(-err);
}

/* The index of what is at @path, with digests if they are needed. NULL: complained. */
static struct index *get_index(struct asked *a, const char *path)
{
	struct tree tree = TREE_CLOSED;
	struct index *ix = NULL;
	char text[MESSAGE_MAX];
	int err = tree_open(&tree, path);

	if (!err)
		err = index_of(&ix, &tree, a->keep);
	if (!err && (a->digest || a->redundancy)) {
		a->progress = progress_line_start(false);
		err = index_digest(ix, &tree, show_read, a);
		progress_line_end(&a->progress);
	}
	if (!err && a->keep) {
		err = tree.single ? -ENOTDIR : index_keep(ix, tree.dir);
		if (err)
			MESSAGE(text, TENSORS_NOT_KEPT, path, why_not_kept(err));
	} else if (err) {
		MESSAGE(text, TENSORS_UNREADABLE, path, strerror(-err));
	}
	tree_close(&tree);
	if (!err)
		return ix;
	complain(text);
	index_destroy(ix);
	return NULL;
}

static int compare(struct asked *a, const char *path, const char *with)
{
	struct index *ix = get_index(a, path), *old = ix && with ? get_index(a, with) : NULL;
	int status = EXIT_UNKNOWN;

	if (ix && (old || !with) && !tensors_compare(ix, old, a->json))
		status = ix->nr ? EXIT_DONE : EXIT_NO;
	index_destroy(old);
	index_destroy(ix);
	return status;
}

static int list(struct asked *a, const char *path)
{
	struct index *ix = get_index(a, path);
	int status;

	if (!ix)
		return EXIT_UNKNOWN;
	if (a->json)
		index_print(ix, path, stdout);
	else
		print_table(ix);
	status = !ix->nr || index_nr_missing(ix) ? EXIT_NO : EXIT_DONE;
	index_destroy(ix);
	return status;
}

static const struct option longs[] = {
	{"help", no_argument, NULL, 'h'},	{"keep", no_argument, NULL, 'k'},
	{"json", no_argument, NULL, 'j'},	{"digest", no_argument, NULL, 'd'},
	{"redundancy", no_argument, NULL, 'r'}, {NULL, 0, NULL, 0}};

static int run_tensors(const struct verb *v, int argc, char **argv)
{
	struct asked a = {0};
	int c, nr;

	while ((c = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
		if (c == 'h')
			return verb_help(v);
		if (c == '?')
			return option_error(v, argv);
		a.json |= c == 'j';
		a.digest |= c == 'd';
		a.redundancy |= c == 'r';
		a.keep |= c == 'k';
	}
	nr = argc - optind;
	if (a.redundancy && nr != 1 && nr != 2)
		return usage_error(v, "give one checkpoint, or a second to compare with");
	if (!a.redundancy && nr != 1)
		return usage_error(v, "give one checkpoint");
	if (a.redundancy)
		return compare(&a, argv[optind], nr == 2 ? argv[optind + 1] : NULL);
	return list(&a, argv[optind]);
}

const struct verb verb_tensors = {
	.name = "tensors",
	.args = "[--digest | --redundancy] [--json] [--keep] PATH [PATH]",
	.summary = "list the tensors of a checkpoint",
	.help = "Lists what PATH holds, a directory or a file, whoever wrote it: the type, shape "
		"and\n"
		"size of each tensor, and in how many pieces it lies in files. It reads "
		"safetensors,\n"
		"sets of Hugging Face, torch.distributed.checkpoint, Megatron's torch_dist, the\n"
		"optimizer states of DeepSpeed ZeRO, zip files of torch.save, and directories of\n"
		"torch_checkpointing. It runs nothing of a pickle. PATH may lie in a mount, in a\n"
		"backing, or anywhere.\n"
		"\n"
		"A tensor is complete if its pieces are there and cover it once. Else the line "
		"below\n"
		"it says what is missing. What cannot be described is called opaque, with the "
		"reason.\n"
		"Exit 1 if a tensor is incomplete, or if there is none.\n"
		"\n"
		"  --digest             also the digest of each tensor; reads all bytes\n"
		"  --redundancy         which tensors several ranks have saved with the same "
		"bytes, "
		"and,\n"
		"                       with a second PATH, which have not changed since that; "
		"reads\n"
		"                       all bytes\n"
		"  --keep               read all files anew, and keep the index in PATH, a "
		"committed\n"
		"                       checkpoint in a backing; with --digest, the digests too\n"
		"  --json               the index, for machines: ckptfs(1) has its form\n",
	.longs = longs,
	.run = run_tensors,
};
