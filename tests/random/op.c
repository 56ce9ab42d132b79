/* SPDX-License-Identifier: MIT */
/*
 * The table of operation kinds, and an operation as one line of text.
 *
 *   pwrite slot=3 off=4097 len=100 align=7 seed=12
 */
#include "randops.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/xattr.h>
#include <unistd.h>

struct flag {
	const char *name;
	int value;
};

static const struct flag open_flags[] = {
	{"O_WRONLY", O_WRONLY},	    {"O_RDWR", O_RDWR},		  {"O_CREAT", O_CREAT},
	{"O_EXCL", O_EXCL},	    {"O_TRUNC", O_TRUNC},	  {"O_APPEND", O_APPEND},
	{"O_DIRECT", O_DIRECT},	    {"O_SYNC", O_SYNC},		  {"O_DSYNC", O_DSYNC},
	{"O_NOFOLLOW", O_NOFOLLOW}, {"O_DIRECTORY", O_DIRECTORY}, {NULL, 0},
};
static const struct flag falloc_flags[] = {
	{"KEEP_SIZE", FALLOC_FL_KEEP_SIZE},
	{"PUNCH_HOLE", FALLOC_FL_PUNCH_HOLE},
	{"ZERO_RANGE", FALLOC_FL_ZERO_RANGE},
	{NULL, 0},
};
static const struct flag rename_flags[] = {
	{"NOREPLACE", RENAME_NOREPLACE},
	{"EXCHANGE", RENAME_EXCHANGE},
	{NULL, 0},
};
static const struct flag whence_flags[] = {
	{"SEEK_CUR", SEEK_CUR},
	{"SEEK_END", SEEK_END},
	{"SEEK_DATA", SEEK_DATA},
	{"SEEK_HOLE", SEEK_HOLE},
	{NULL, 0},
};
static const struct flag mmap_flags[] = {
	{"MS_SYNC", MM_SYNC},
	{"MS_ASYNC", MM_ASYNC},
	{NULL, 0},
};
static const struct flag fsync_flags[] = {{"DATA", 1}, {NULL, 0}};
static const struct flag utimens_flags[] = {
	{"ATIME_NOW", UT_ATIME_NOW},   {"ATIME_OMIT", UT_ATIME_OMIT}, {"MTIME_NOW", UT_MTIME_NOW},
	{"MTIME_OMIT", UT_MTIME_OMIT}, {"NOFOLLOW", UT_NOFOLLOW},     {NULL, 0},
};
static const struct flag xattr_flags[] = {
	{"XATTR_CREATE", XATTR_CREATE},
	{"XATTR_REPLACE", XATTR_REPLACE},
	{NULL, 0},
};
static const struct flag flock_flags[] = {
	{"LOCK_SH", LOCK_SH},
	{"LOCK_EX", LOCK_EX},
	{"LOCK_UN", LOCK_UN},
	{NULL, 0},
};

/*
 * uses: s slot, S slot2, p path, P path2, f flags, m mode, o off, O off2,
 * l len, n, a align, x seed. weight: how often gen.c picks it.
 */
struct kind {
	const char *name, *uses;
	const struct flag *flags;
	unsigned int weight;
	bool data; /* moves file bytes: align matters, so may len */
};

static const struct kind kinds[NR_KINDS] = {
	[OP_OPEN] = {"open", "spfm", open_flags, 100, false},
	[OP_CLOSE] = {"close", "s", NULL, 40, false},
	/* dup the descriptor and close the old one: a flush, no release */
	[OP_DUP] = {"dup", "s", NULL, 10, false},
	[OP_READ] = {"read", "sla", NULL, 40, true},
	[OP_PREAD] = {"pread", "sola", NULL, 60, true},
	[OP_READV] = {"readv", "slna", NULL, 15, true},
	[OP_WRITE] = {"write", "slax", NULL, 80, true},
	[OP_PWRITE] = {"pwrite", "solax", NULL, 100, true},
	[OP_WRITEV] = {"writev", "slnax", NULL, 25, true},
	[OP_LSEEK] = {"lseek", "sof", whence_flags, 25, false},
	/* SEEK_DATA or SEEK_HOLE: what it calls a hole must read as zeros */
	[OP_HOLE] = {"hole", "sof", whence_flags, 20, false},
	[OP_FTRUNCATE] = {"ftruncate", "sl", NULL, 35, false},
	[OP_TRUNCATE] = {"truncate", "pl", NULL, 20, false},
	[OP_FALLOCATE] = {"fallocate", "solf", falloc_flags, 30, false},
	/* flags 0: read; n 1: also store privately, the file stays as it is */
	[OP_MMAP_PRIVATE] = {"mmap_private", "solnx", NULL, 20, false},
	/* store, msync as flags say, munmap, read back, fsync */
	[OP_MMAP_SHARED] = {"mmap_shared", "solfx", mmap_flags, 30, false},
	[OP_FSYNC] = {"fsync", "sf", fsync_flags, 25, false},
	[OP_FSYNC_DIR] = {"fsync_dir", "p", NULL, 10, false},
	[OP_FSTAT] = {"fstat", "s", NULL, 20, false},
	[OP_STAT] = {"stat", "p", NULL, 25, false},
	[OP_RENAME] = {"rename", "pPf", rename_flags, 60, false},
	[OP_LINK] = {"link", "pP", NULL, 20, false},
	/* path2 is the text of the link, path where it is made */
	[OP_SYMLINK] = {"symlink", "pP", NULL, 12, false},
	[OP_READLINK] = {"readlink", "pl", NULL, 8, false},
	[OP_UNLINK] = {"unlink", "p", NULL, 35, false},
	[OP_MKDIR] = {"mkdir", "pm", NULL, 14, false},
	[OP_RMDIR] = {"rmdir", "p", NULL, 10, false},
	/* list; seek back to the n-th place and list from there */
	[OP_READDIR] = {"readdir", "pn", NULL, 15, false},
	/* list while other names in the directory are made and removed */
	[OP_CHURN] = {"churn", "px", NULL, 2, false},
	[OP_CHMOD] = {"chmod", "pm", NULL, 12, false},
	[OP_FCHMOD] = {"fchmod", "sm", NULL, 8, false},
	/* off: atime seconds, len: mtime seconds, n: nanoseconds of both */
	[OP_UTIMENS] = {"utimens", "polnf", utimens_flags, 20, false},
	/* n: which name */
	[OP_SETXATTR] = {"setxattr", "pnlfx", xattr_flags, 12, false},
	[OP_GETXATTR] = {"getxattr", "pnl", NULL, 8, false},
	[OP_LISTXATTR] = {"listxattr", "p", NULL, 6, false},
	[OP_REMOVEXATTR] = {"removexattr", "pn", NULL, 5, false},
	[OP_COPY_RANGE] = {"copy_range", "sSoOl", NULL, 20, false},
	[OP_ACCESS] = {"access", "pm", NULL, 8, false},
	[OP_STATFS] = {"statfs", "p", NULL, 2, false},
	[OP_FLOCK] = {"flock", "sf", flock_flags, 10, false},
	/* open, read all of it, close */
	[OP_READ_FILE] = {"read_file", "p", NULL, 25, false},
	/* compare the two trees entirely */
	[OP_CHECK] = {"check", "", NULL, 4, false},
};

static const char *const features[NR_FEATURES] = {
	[FEAT_DIRECT] = "direct",
	[FEAT_APPEND] = "append",
	[FEAT_SYNC_FLAGS] = "sync_flags",
	[FEAT_UNLINK_OPEN] = "unlink_open",
	[FEAT_FALLOC_KEEP] = "falloc_keep",
	[FEAT_FALLOC_PUNCH] = "falloc_punch",
	[FEAT_FALLOC_ZERO] = "falloc_zero",
	[FEAT_EXCHANGE] = "exchange",
	[FEAT_NOREPLACE] = "noreplace",
	[FEAT_LONG_NAME] = "long_name",
	[FEAT_ODD_NAMES] = "odd_names",
	[FEAT_TOOLONG_NAME] = "toolong_name",
	[FEAT_STICKY_MTIME] = "sticky_mtime",
	[FEAT_DIR_NLINK] = "dir_nlink",
	[FEAT_WRITE_ONLY] = "write_only",
};

const char *op_name(enum op_kind kind)
{
	return kinds[kind].name;
}

unsigned int op_weight(enum op_kind kind)
{
	return kinds[kind].weight;
}

bool op_moves_data(enum op_kind kind)
{
	return kinds[kind].data;
}

void op_list(FILE *f)
{
	int i;

	fprintf(f, "operations:");
	for (i = 0; i < NR_KINDS; i++)
		fprintf(f, "%s%s", i % 10 ? " " : "\n  ", kinds[i].name);
	fprintf(f, "\nfeatures:");
	for (i = 0; i < NR_FEATURES; i++)
		fprintf(f, "%s%s", i % 7 ? " " : "\n  ", features[i]);
	fprintf(f, "\ngroups:\n  xattr: the four *xattr; mmap: mmap_*; falloc: fallocate\n");
}

static bool is_exact(enum op_kind kind)
{
	return kinds[kind].flags == whence_flags;
}

static void flags_print(enum op_kind kind, int value, char *out)
{
	const struct flag *f = kinds[kind].flags;
	bool exact = is_exact(kind);

	*out = '\0';
	if (kind == OP_OPEN && (value & O_ACCMODE) == O_RDONLY)
		strcat(out, "|O_RDONLY");
	if (exact && value == SEEK_SET)
		strcat(out, "|SEEK_SET");
	for (; f && f->name; f++) {
		if (exact ? value != f->value : (value & f->value) != f->value)
			continue;
		strcat(strcat(out, "|"), f->name);
		value &= ~f->value;
	}
	if (*out)
		memmove(out, out + 1, strlen(out));
	else
		strcpy(out, "0");
}

static int flags_parse(enum op_kind kind, char *text, int *value)
{
	const struct flag *f;
	char *save = NULL, *word;

	*value = 0;
	for (word = strtok_r(text, "|", &save); word; word = strtok_r(NULL, "|", &save)) {
		if (!strcmp(word, "0") || !strcmp(word, "O_RDONLY") || !strcmp(word, "SEEK_SET"))
			continue;
		for (f = kinds[kind].flags; f && f->name && strcmp(f->name, word); f++)
			;
		if (!f || !f->name)
			return -1;
		*value |= f->value;
	}
	return 0;
}

void op_print(const struct op *op, char *out)
{
	char text[NAME_TEXT_MAX];
	const char *use = kinds[op->kind].uses;

	out += sprintf(out, "%s", kinds[op->kind].name);
	for (; *use; use++) {
		switch (*use) {
		case 's':
			out += sprintf(out, " slot=%d", op->slot);
			break;
		case 'S':
			out += sprintf(out, " slot2=%d", op->slot2);
			break;
		case 'p':
			path_token(&op->path, text);
			out += sprintf(out, " path=%s", text);
			break;
		case 'P':
			path_token(&op->path2, text);
			out += sprintf(out, " path2=%s", text);
			break;
		case 'f':
			flags_print(op->kind, op->flags, text);
			out += sprintf(out, " flags=%s", text);
			break;
		case 'm':
			out += sprintf(out, " mode=0%o", op->mode);
			break;
		case 'o':
			out += sprintf(out, " off=%lld", (long long)op->off);
			break;
		case 'O':
			out += sprintf(out, " off2=%lld", (long long)op->off2);
			break;
		case 'l':
			out += sprintf(out, " len=%lld", (long long)op->len);
			break;
		case 'n':
			out += sprintf(out, " n=%d", op->n);
			break;
		case 'a':
			out += sprintf(out, " align=%d", op->align);
			break;
		case 'x':
			out += sprintf(out, " seed=%llu", (unsigned long long)op->seed);
			break;
		}
	}
}

static int key_parse(struct op *op, const char *key, char *value)
{
	long long number = strtoll(value, NULL, 0);

	if (!strcmp(key, "path"))
		return path_parse(value, &op->path);
	if (!strcmp(key, "path2"))
		return path_parse(value, &op->path2);
	if (!strcmp(key, "flags"))
		return flags_parse(op->kind, value, &op->flags);
	if (!strcmp(key, "slot"))
		op->slot = number;
	else if (!strcmp(key, "slot2"))
		op->slot2 = number;
	else if (!strcmp(key, "mode"))
		op->mode = number;
	else if (!strcmp(key, "off"))
		op->off = number;
	else if (!strcmp(key, "off2"))
		op->off2 = number;
	else if (!strcmp(key, "len"))
		op->len = number;
	else if (!strcmp(key, "n"))
		op->n = number;
	else if (!strcmp(key, "align"))
		op->align = number;
	else if (!strcmp(key, "seed"))
		op->seed = strtoull(value, NULL, 0);
	else
		return -1;
	return 0;
}

static bool op_in_range(const struct op *op)
{
	return op->slot >= 0 && op->slot < NR_SLOTS && op->slot2 >= 0 && op->slot2 < NR_SLOTS &&
	       op->align >= 0 && op->align < PAGE && op->n >= 0 &&
	       (!kinds[op->kind].data || (op->len >= 0 && op->len <= MAX_IO));
}

int op_parse(const char *line, struct op *op)
{
	char copy[OP_TEXT_MAX], *save = NULL, *word, *eq;
	int i;

	if (strlen(line) >= sizeof(copy))
		return -1;
	strcpy(copy, line);
	memset(op, 0, sizeof(*op));
	word = strtok_r(copy, " \n", &save);
	for (i = 0; word && i < NR_KINDS && strcmp(word, kinds[i].name); i++)
		;
	if (!word || i == NR_KINDS)
		return -1;
	op->kind = i;
	while ((word = strtok_r(NULL, " \n", &save))) {
		eq = strchr(word, '=');
		if (!eq)
			return -1;
		*eq = '\0';
		if (key_parse(op, word, eq + 1))
			return -1;
	}
	return op_in_range(op) ? 0 : -1;
}

static bool without_one(struct config *cfg, const char *word)
{
	bool known = false;
	int i;

	for (i = 0; i < NR_KINDS; i++) {
		if (!strcmp(word, kinds[i].name) ||
		    (!strcmp(word, "xattr") && strstr(kinds[i].name, "xattr")) ||
		    (!strcmp(word, "mmap") && strstr(kinds[i].name, "mmap")) ||
		    (!strcmp(word, "falloc") && i == OP_FALLOCATE)) {
			cfg->without_kinds |= 1ULL << i;
			known = true;
		}
	}
	for (i = 0; i < NR_FEATURES; i++) {
		if (!strcmp(word, features[i])) {
			cfg->without_feats |= 1ULL << i;
			known = true;
		}
	}
	return known;
}

bool without_set(struct config *cfg, const char *list)
{
	char *copy = strdup(list), *save = NULL, *word;
	bool ok = copy != NULL;

	for (word = strtok_r(copy, ",\n", &save); ok && word; word = strtok_r(NULL, ",\n", &save))
		ok = without_one(cfg, word);
	free(copy);
	return ok;
}

void trace_push(struct trace *t, const struct op *op)
{
	if (t->nr == t->cap) {
		t->cap = t->cap ? 2 * t->cap : 256;
		t->ops = xrealloc(t->ops, t->cap * sizeof(*t->ops));
	}
	t->ops[t->nr++] = *op;
}

void trace_finish(struct trace *t)
{
	free(t->ops);
	memset(t, 0, sizeof(*t));
}

static void without_write(FILE *f, const struct config *cfg)
{
	const char *sep = "without=";
	int i;

	for (i = 0; i < NR_KINDS; i++) {
		if (!has_kind(cfg, i)) {
			fprintf(f, "%s%s", sep, kinds[i].name);
			sep = ",";
		}
	}
	for (i = 0; i < NR_FEATURES; i++) {
		if (!has_feat(cfg, i)) {
			fprintf(f, "%s%s", sep, features[i]);
			sep = ",";
		}
	}
	if (*sep == ',')
		fputc('\n', f);
}

int trace_write(const struct trace *t, const struct config *cfg, const char *file,
		const char *comment)
{
	char text[OP_TEXT_MAX];
	FILE *f = fopen(file, "we");
	size_t i;

	if (!f)
		return -errno;
	fprintf(f, "# randops trace, seed %llu: %s\n# run: randops --replay %s A B\n",
		(unsigned long long)cfg->seed, comment, file);
	fprintf(f, "max_size=%lld\n", (long long)cfg->max_size);
	without_write(f, cfg);
	for (i = 0; i < t->nr; i++) {
		op_print(&t->ops[i], text);
		fprintf(f, "%s\n", text);
	}
	return fclose(f) ? -errno : 0;
}

int trace_read(struct trace *t, struct config *cfg, const char *file)
{
	char line[OP_TEXT_MAX];
	unsigned int nr = 0;
	struct op op;
	FILE *f = fopen(file, "re");

	if (!f)
		return -errno;
	while (fgets(line, sizeof(line), f)) {
		nr++;
		if (*line == '#' || *line == '\n')
			continue;
		if (!strncmp(line, "max_size=", 9))
			cfg->max_size = strtoll(line + 9, NULL, 0);
		else if (!strncmp(line, "without=", 8) && without_set(cfg, line + 8))
			continue;
		else if (!op_parse(line, &op))
			trace_push(t, &op);
		else
			die("%s:%u: not an operation: %s", file, nr, line);
	}
	fclose(f);
	return 0;
}
