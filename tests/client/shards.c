/* SPDX-License-Identifier: MIT */
/*
 * An example of what libckptfs saves and restores: a checkpoint of two safetensors files, each with
 * its parts of tensors that are split over two, and with objects.
 *
 * 	shards save DIR		into DIR, which is made; in a mount of ckptfs the tensors are
 * 				written by handle
 * 	shards leave DIR	the same, but the second file is never closed
 * 	shards abandon DIR	the same, but the second file is given up
 * 	shards restore DIR	reads all into place, and compares it with what was saved
 *
 * What to look at: save_file (a file of tensors and objects), save (the barrier before tensors
 * change), and restore_file (each part is read straight to where it belongs in the whole, whose
 * rows it has only a piece of).
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/ckptfs.h"

#define FILES	2
#define ROWS	1000
#define COLUMNS 700
#define OBJECT	100001

/* "by_row" is split after row 600, "by_column" after column 150. */
static float by_row[ROWS][COLUMNS], by_column[ROWS][COLUMNS];
static const uint64_t row_cut[FILES + 1] = {0, 600, ROWS},
				      column_cut[FILES + 1] = {0, 150, COLUMNS};
static int64_t step;
static unsigned char object[OBJECT];

static struct ckptfs_session *session; /* NULL: none */

static void die(const char *what, const char *why)
{
	fprintf(stderr, "shards: %s: %s\n", what, why);
	exit(1);
}

static void compute(void)
{
	step = 12;
	for (unsigned r = 0; r < ROWS; r++)
		for (unsigned c = 0; c < COLUMNS; c++) {
			by_row[r][c] = (float)(r * COLUMNS + c);
			by_column[r][c] = -(float)(r * COLUMNS + c);
		}
	for (unsigned i = 0; i < OBJECT; i++)
		object[i] = (unsigned char)(i * 31 + i / 256);
}

static const char *name_of(const char *dir, unsigned file)
{
	static char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/shard-%05u-model-00001-of-00001.safetensors", dir,
		 file + 1);
	return path;
}

/* --- saving --- */

enum { ROW_PART = 1, COLUMN_PART = 3, STEP = 5 }; /* ids; of the second file one more */

/* Returns how many. */
static size_t describe(unsigned file, struct ckptfs_tensor_info *t)
{
	uint64_t rows = row_cut[file + 1] - row_cut[file];
	uint64_t columns = column_cut[file + 1] - column_cut[file];

	t[0] = (struct ckptfs_tensor_info){.id = ROW_PART + file,
					   .name = "by_row",
					   .kind = CKPTFS_TENSOR,
					   .dtype = "F32",
					   .ndim = 2,
					   .global_shape = {ROWS, COLUMNS},
					   .shard_offset = {row_cut[file], 0},
					   .shard_shape = {rows, COLUMNS},
					   .bytes = rows * COLUMNS * sizeof(float)};
	t[1] = (struct ckptfs_tensor_info){.id = COLUMN_PART + file,
					   .name = "by_column",
					   .kind = CKPTFS_TENSOR,
					   .dtype = "F32",
					   .ndim = 2,
					   .global_shape = {ROWS, COLUMNS},
					   .shard_offset = {0, column_cut[file]},
					   .shard_shape = {ROWS, columns},
					   .bytes = ROWS * columns * sizeof(float)};
	t[2] = (struct ckptfs_tensor_info){.id = STEP,
					   .name = "step",
					   .kind = CKPTFS_TENSOR,
					   .dtype = "I64",
					   .bytes = sizeof(step)};
	return file ? 2 : 3;
}

static void save_tensors(struct ckptfs_file *f, unsigned file, const struct ckptfs_tensor_info *t,
			 size_t n)
{
	struct ckptfs_write_op ops[] = {
		{.id = t[0].id, .len = t[0].bytes, .addr = by_row[row_cut[file]]},
		{.id = t[1].id,
		 .len = t[1].bytes,
		 .addr = &by_column[0][column_cut[file]],
		 .rows = ROWS,
		 .row_bytes = (column_cut[file + 1] - column_cut[file]) * sizeof(float),
		 .pitch = sizeof(by_column[0])},
		{.id = t[2].id, .len = t[2].bytes, .addr = &step},
	};

	if (ckptfs_file_write(f, ops, n))
		die("ckptfs_file_write", ckptfs_error(session));
}

/*
 * Tensors are queued, and captured while it goes on; objects are there at once, whatever their
 * sizes are.
 */
static struct ckptfs_file *save_file(const char *dir, unsigned file)
{
	struct ckptfs_tensor_info t[3];
	size_t n = describe(file, t);
	struct ckptfs_file *f;
	char name[32];

	if (ckptfs_file_create(session, name_of(dir, file), t, n, 0, &f))
		die("ckptfs_file_create", ckptfs_error(session));
	snprintf(name, sizeof(name), "object.%u", file);
	if (ckptfs_file_object(f, name, object, OBJECT - file * 1000))
		die("ckptfs_file_object", ckptfs_error(session));
	save_tensors(f, file, t, n);
	if (ckptfs_file_metadata(f, "step", "12"))
		die("ckptfs_file_metadata", ckptfs_error(session));
	return f;
}

/* Its close is what says that the checkpoint is complete, here as for other sharded exports. */
static void save_list(const char *dir)
{
	char path[PATH_MAX];
	FILE *f;

	snprintf(path, sizeof(path), "%s/model.safetensors.index.json", dir);
	f = fopen(path, "we");
	if (!f || fputs("{\"metadata\": {}, \"weight_map\": {}}\n", f) < 0 || fclose(f))
		die(path, strerror(errno));
}

static void save(const char *dir, const char *how)
{
	char parent[PATH_MAX];

	compute();
	snprintf(parent, sizeof(parent), "%s/..", dir);
	if (mkdir(dir, 0777))
		die(dir, strerror(errno));
	if (ckptfs_open(parent, NULL, &session))
		printf("without handles: %s\n", ckptfs_error(NULL));
	for (unsigned file = 0; file < FILES; file++) {
		struct ckptfs_file *f = save_file(dir, file);

		if (file && !strcmp(how, "abandon"))
			ckptfs_file_abandon(f);
		else if (file && !strcmp(how, "leave"))
			continue;
		else if (ckptfs_file_close(f))
			die("ckptfs_file_close", ckptfs_error(session));
	}
	save_list(dir);
	/* ... the next step's gradients are computed; and then, before the update: */
	if (session && ckptfs_barrier(session, NULL, 0, 0, 0))
		die("ckptfs_barrier", ckptfs_error(session));
	memset(by_row, 0, sizeof(by_row));
	memset(by_column, 0, sizeof(by_column));
	if (strcmp(how, "leave"))
		ckptfs_close(session);
	printf("saved %s\n", dir);
}

/* --- restoring --- */

static const struct ckptfs_entry *find(const struct ckptfs_index *ix, const char *name)
{
	const struct ckptfs_entry *e = ckptfs_index_find(ix, name);

	if (!e)
		die(name, "is not there");
	return e;
}

/* Where a part of a matrix lies in the whole: the rows that it has are pieces of that one's. */
static struct ckptfs_read_op read_part(const struct ckptfs_index *ix, const char *name,
				       float to[ROWS][COLUMNS])
{
	const struct ckptfs_entry *e = find(ix, name);

	if (e->ndim != 2 || !e->shard_offset || !e->global_shape || e->global_shape[0] != ROWS ||
	    e->global_shape[1] != COLUMNS)
		die(name, "is of another shape");
	return (struct ckptfs_read_op){
		.file_off = e->file_off,
		.len = e->bytes,
		.addr = &to[e->shard_offset[0]][e->shard_offset[1]],
		.rows = e->shape[1] == COLUMNS ? 0 : e->shape[0],
		.row_bytes = e->shape[1] * sizeof(float),
		.pitch = COLUMNS * sizeof(float),
	};
}

static void restore_file(const char *dir, unsigned file, unsigned char *got)
{
	struct ckptfs_read_op ops[4];
	const struct ckptfs_entry *e;
	struct ckptfs_index *ix;
	char name[32];

	if (ckptfs_index_open(name_of(dir, file), &ix))
		die("ckptfs_index_open", ckptfs_error(NULL));
	ops[0] = read_part(ix, "by_row", by_row);
	ops[1] = read_part(ix, "by_column", by_column);
	snprintf(name, sizeof(name), "object.%u", file);
	e = find(ix, name);
	ops[2] = (struct ckptfs_read_op){.file_off = e->file_off, .len = e->bytes, .addr = got};
	if (e->bytes != OBJECT - file * 1000)
		die(name, "has another size");
	if (!file) {
		e = find(ix, "step");
		ops[3] = (struct ckptfs_read_op){
			.file_off = e->file_off, .len = sizeof(step), .addr = &step};
	}
	if (ckptfs_read(NULL, ckptfs_index_fd(ix), ops, file ? 3 : 4, 0))
		die("ckptfs_read", ckptfs_error(NULL));
	if (memcmp(got, object, OBJECT - file * 1000))
		die(name, "is another one");
	ckptfs_index_close(ix);
}

static void restore(const char *dir)
{
	static float rows[ROWS][COLUMNS], columns[ROWS][COLUMNS];
	static unsigned char got[OBJECT];

	compute();
	memcpy(rows, by_row, sizeof(rows));
	memcpy(columns, by_column, sizeof(columns));
	memset(by_row, 0xff, sizeof(by_row));
	memset(by_column, 0xff, sizeof(by_column));
	step = 0;
	for (unsigned file = 0; file < FILES; file++)
		restore_file(dir, file, got);
	if (memcmp(rows, by_row, sizeof(rows)) || memcmp(columns, by_column, sizeof(columns)) ||
	    step != 12)
		die(dir, "is not what was saved");
	printf("restored %s\n", dir);
}

int main(int argc, char **argv)
{
	if (argc != 3)
		die("usage", "shards save|leave|abandon|restore DIR");
	if (!strcmp(argv[1], "restore"))
		restore(argv[2]);
	else
		save(argv[2], argv[1]);
	return 0;
}
