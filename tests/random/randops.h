/* SPDX-License-Identifier: MIT */
/*
 * randops: one random sequence of operations, two directories, every result
 * compared.
 *
 *   util.c   random numbers, patterns, small helpers
 *   names.c  the bounded namespace
 *   op.c     the table of operation kinds; an op as a line of text and back
 *   gen.c    picks the next op, all of its parameters fixed
 *   exec*.c  applies one op to one side and gathers what can be compared
 *   tree.c   compares two whole trees
 *   world.c  both sides together: run an op or a trace, report a difference
 *   shrink.c makes a failing trace small
 *   probe.c  what a side cannot do at all (O_DIRECT, fallocate modes, ...)
 *   shared*.c many writers on one file (no reference needed while it runs)
 *   main.c   command line
 */
#ifndef RANDOPS_H
#define RANDOPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>

#define NR_SLOTS   16
#define PAGE	   4096
#define MAX_IO	   (4 << 20)
#define PATH_DEPTH 4
#define NR_FIELDS  32
#define ROOT_MAX   2048

/* util.c */

struct rng {
	uint64_t state;
};

uint64_t rng_next(struct rng *rng);
uint64_t rng_below(struct rng *rng, uint64_t limit); /* limit > 0 */
bool rng_chance(struct rng *rng, unsigned int percent);
void fill_pattern(void *buf, size_t len, uint64_t seed);
void *xmalloc(size_t size);
void *xrealloc(void *ptr, size_t size);
double seconds_now(void);
int remove_tree(int dirfd, const char *name); /* 0 or -errno */
void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void die(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
extern char say_prefix[32];

/* names.c */

struct path {
	uint8_t n; /* components; 0 is the root of the run */
	uint8_t c[PATH_DEPTH];
};

enum { NR_DIR_NAMES = 4 };
extern const unsigned int nr_names;
enum { NAME_TEXT_MAX = PATH_DEPTH * 300 };

void path_real(const struct path *p, char *out);  /* bytes for the kernel */
void path_token(const struct path *p, char *out); /* printable, parseable */
int path_parse(const char *text, struct path *p); /* 0 or -1 */
unsigned int name_pick(struct rng *rng, bool long_ok, bool odd_ok, bool toolong_ok);
const char *xattr_name(unsigned int n);
enum { NR_XATTR_NAMES = 4 };

/* op.c */

enum op_kind {
	OP_OPEN,
	OP_CLOSE,
	OP_DUP,
	OP_READ,
	OP_PREAD,
	OP_READV,
	OP_WRITE,
	OP_PWRITE,
	OP_WRITEV,
	OP_LSEEK,
	OP_HOLE,
	OP_FTRUNCATE,
	OP_TRUNCATE,
	OP_FALLOCATE,
	OP_MMAP_PRIVATE,
	OP_MMAP_SHARED,
	OP_FSYNC,
	OP_FSYNC_DIR,
	OP_FSTAT,
	OP_STAT,
	OP_RENAME,
	OP_LINK,
	OP_SYMLINK,
	OP_READLINK,
	OP_UNLINK,
	OP_MKDIR,
	OP_RMDIR,
	OP_READDIR,
	OP_CHURN,
	OP_CHMOD,
	OP_FCHMOD,
	OP_UTIMENS,
	OP_SETXATTR,
	OP_GETXATTR,
	OP_LISTXATTR,
	OP_REMOVEXATTR,
	OP_COPY_RANGE,
	OP_ACCESS,
	OP_STATFS,
	OP_FLOCK,
	OP_READ_FILE,
	OP_CHECK,
	NR_KINDS
};

/* Things that cut across op kinds and can be left out by name. */
enum feature {
	FEAT_DIRECT,
	FEAT_APPEND,
	FEAT_SYNC_FLAGS,
	FEAT_UNLINK_OPEN,
	FEAT_FALLOC_KEEP,
	FEAT_FALLOC_PUNCH,
	FEAT_FALLOC_ZERO,
	FEAT_EXCHANGE,
	FEAT_NOREPLACE,
	FEAT_LONG_NAME,
	FEAT_ODD_NAMES,
	FEAT_TOOLONG_NAME,
	FEAT_STICKY_MTIME,
	FEAT_DIR_NLINK,
	FEAT_WRITE_ONLY,
	NR_FEATURES
};

/* Meaning of the fields: the comment at each kind in op.c. */
struct op {
	enum op_kind kind;
	int slot, slot2;
	struct path path, path2;
	int flags;
	int mode;
	int64_t off, off2, len;
	int n;
	int align; /* the buffer starts this far into a page */
	uint64_t seed;
};

enum { UT_ATIME_NOW = 1, UT_ATIME_OMIT = 2, UT_MTIME_NOW = 4, UT_MTIME_OMIT = 8, UT_NOFOLLOW = 16 };
enum { MM_SYNC = 1, MM_ASYNC = 2 };
enum { OP_TEXT_MAX = 2 * NAME_TEXT_MAX + 512 };

const char *op_name(enum op_kind kind);
unsigned int op_weight(enum op_kind kind);
bool op_moves_data(enum op_kind kind);
void op_print(const struct op *op, char *out); /* OP_TEXT_MAX bytes */
int op_parse(const char *line, struct op *op); /* 0 or -1 */
void op_list(FILE *f);

struct trace {
	struct op *ops;
	size_t nr, cap;
};

void trace_push(struct trace *t, const struct op *op);
void trace_finish(struct trace *t);

struct config {
	const char *dir[2]; /* A: under test, B: the reference */
	uint64_t seed;
	unsigned long nr_ops;
	unsigned int procs, threads, seconds;
	int64_t max_size;
	uint64_t without_kinds, without_feats;
	bool shrink, keep, strict, verbose, stats;
	unsigned int attempts;
	unsigned int op_timeout;
	const char *out;
};

bool without_set(struct config *cfg, const char *list); /* false: unknown name */
static inline bool has_kind(const struct config *cfg, enum op_kind kind)
{
	return !(cfg->without_kinds >> kind & 1);
}
static inline bool has_feat(const struct config *cfg, enum feature feat)
{
	return !(cfg->without_feats >> feat & 1);
}
int trace_write(const struct trace *t, const struct config *cfg, const char *file,
		const char *comment);
int trace_read(struct trace *t, struct config *cfg, const char *file);

/* exec*.c */

struct slot {
	int fd; /* -1: not open */
	int flags;
	bool dir;
};

struct side {
	int index; /* 0: A, 1: B */
	char root[ROOT_MAX];
	int rootfd;
	struct slot slots[NR_SLOTS];
	unsigned char *buf; /* MAX_IO + 4 pages, page aligned */
	bool sticky_mtime, dir_nlink;
};

struct field {
	const char *name;
	int64_t value;
};

/* What one side answered; both are compared member by member. */
struct result {
	int64_t ret;
	int err;
	struct field fields[NR_FIELDS];
	int nr_fields;
	const unsigned char *data; /* inside the side's buf */
	size_t len;
	bool text; /* data is for people: print it in a difference */
};

void result_field(struct result *r, const char *name, int64_t value);
void result_ret(struct result *r, int64_t ret); /* takes errno if ret < 0 */
void result_stat(struct result *r, const struct side *s, const struct stat *st, int err);
void result_lstat(struct result *r, const struct side *s, const struct path *p);
void result_fstat(struct result *r, const struct side *s, const struct slot *slot);
int64_t stat_mtime_class(const struct stat *st);
void settle_mtime(const struct side *s, const char *name, int fd);
int accmode(const struct slot *slot);

void side_exec(struct side *s, const struct op *op, struct result *r);
void exec_io(struct side *s, const struct op *op, struct result *r);
void exec_file(struct side *s, const struct op *op, struct result *r);
void exec_map(struct side *s, const struct op *op, struct result *r);
void exec_name(struct side *s, const struct op *op, struct result *r);
void exec_attr(struct side *s, const struct op *op, struct result *r);
void exec_dir(struct side *s, const struct op *op, struct result *r);
void catch_sigbus(void);

/* A deliberate mistake on side A, for the test of the test. */
enum fault {
	FAULT_NONE,
	FAULT_DROP_WRITE,
	FAULT_SHORT_TRUNCATE,
	FAULT_LOST_RENAME,
	FAULT_FLIP_READ,
	FAULT_LOST_XATTR,
	FAULT_EXTRA_MTIME,
	FAULT_BAD_ERRNO,
	FAULT_LOST_APPEND /* --mode shared, which knows drop-write as well */
};
extern enum fault fault;
void fault_init(void);
static inline bool faulty(const struct side *s, enum fault which)
{
	return s->index == 0 && fault == which;
}

/* tree.c */

struct name_list {
	char **names;
	size_t nr;
};

int names_read(int dirfd, const char *path, struct name_list *list); /* -errno */
void names_free(struct name_list *list);
ssize_t xattr_list_sorted(const char *path, char *out, size_t size);

struct diff {
	bool found, environment; /* environment: not a verdict on A */
	size_t op;
	char what[256];
	char expected[1024], got[1024];
};

void diff_set(struct diff *d, const char *what, const char *expected, const char *got);
void tree_compare(const char *a, const char *b, const struct config *cfg, struct diff *d);

/* world.c */

struct world {
	const struct config *cfg;
	struct side side[2];
	char sub[64];
	struct {
		unsigned long tried, idle, failed;
	} stats[NR_KINDS]; /* of B: idle ops found no open slot */
};

int world_start(struct world *w, const struct config *cfg, const char *sub);
void world_end(struct world *w, bool remove);
bool world_step(struct world *w, const struct op *op, struct diff *d); /* true: same */
bool world_run(struct world *w, const struct trace *t, struct diff *d);
void world_stats(const struct world *w);
void diff_report(const struct diff *d, const struct trace *t);
void watchdog_start(unsigned int seconds);
void watchdog_tick(const struct op *op, size_t nr);

/* gen.c */

struct gen {
	struct rng rng;
	struct path recent[24];
	unsigned int nr_recent;
};

void gen_init(struct gen *g, uint64_t seed);
void gen_next(struct gen *g, const struct world *w, struct op *op);

/* shrink.c, probe.c, shared.c */

void shrink(const struct config *cfg, struct trace *t, const char *sub, struct diff *d);
int probe(struct config *cfg); /* -1: --strict and A lacks what B has */
int shared_main(const struct config *cfg);

#endif
