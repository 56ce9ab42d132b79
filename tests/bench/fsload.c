/* SPDX-License-Identifier: MIT */
/*
 * The measured loops of the bench (bench.py runs them): each verb does one kind of work
 * on one directory and prints "SECONDS COUNT", where COUNT is bytes or files.
 *
 * Buffers are touched and directories opened before the clock starts. Nothing is checked
 * but errors: that the bytes are right is for the tests to say.
 */
#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NAME_BYTES 32

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

static void report(double start, double end, unsigned long long count)
{
	printf("%.9f %llu\n", end - start, count);
}

static unsigned long long number(const char *text)
{
	char *end;
	unsigned long long value;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || end == text || *end)
		errx(2, "not a number: %s", text);
	return value;
}

/* Never fails; every page is there, with bytes that are not all alike. */
static char *touched(size_t bytes)
{
	char *buffer =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (buffer == MAP_FAILED)
		err(1, "no memory");
	for (size_t i = 0; i < bytes; i++)
		buffer[i] = (char)(i * 2654435761u >> 13);
	return buffer;
}

static int open_dir(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		err(1, "%s", path);
	return fd;
}

static const char *name_of(char name[NAME_BYTES], unsigned long long index)
{
	snprintf(name, NAME_BYTES, "f%06llu", index);
	return name;
}

static void write_all(int fd, const char *buffer, size_t bytes)
{
	while (bytes > 0) {
		ssize_t n = write(fd, buffer, bytes);

		if (n < 0)
			err(1, "write");
		buffer += n;
		bytes -= n;
	}
}

/* Ends the program when a child failed. */
static void reap(unsigned nr)
{
	int status;

	while (nr-- > 0)
		if (wait(&status) < 0 || status != 0)
			errx(1, "a writer failed");
}

static unsigned long long read_whole(const char *path, char *buffer, size_t block)
{
	unsigned long long total = 0;
	ssize_t n;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		err(1, "%s", path);
	while ((n = read(fd, buffer, block)) > 0)
		total += n;
	if (n < 0)
		err(1, "read %s", path);
	close(fd);
	return total;
}

/* read-once FILE BLOCK: from open to close, as the caches are now. */
static void do_read_once(char **args)
{
	size_t block = number(args[1]);
	char *buffer = touched(block);
	double start = now();
	unsigned long long total = read_whole(args[0], buffer, block);

	report(start, now(), total);
}

/* read FILE BLOCK: from open to close, after a first time that is not measured. */
static void do_read(char **args)
{
	size_t block = number(args[1]);
	char *buffer = touched(block);
	unsigned long long total;
	double start;

	read_whole(args[0], buffer, block);
	start = now();
	total = read_whole(args[0], buffer, block);
	report(start, now(), total);
}

/* What each of the writers does, and when it was through. */
struct work {
	int dir;
	const char *name_format; /* of the number of the writer */
	unsigned long long bytes;
	size_t block;
	int durable;   /* fsync before close */
	double *ended; /* shared memory */
};

static const char *file_of(const struct work *w, char name[NAME_BYTES], unsigned index)
{
	snprintf(name, NAME_BYTES, w->name_format, index);
	return name;
}

static void write_fresh(const struct work *w, const char *name, const char *buffer)
{
	unsigned long long left = w->bytes;
	int fd = openat(w->dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	if (fd < 0)
		err(1, "create %s", name);
	while (left > 0) {
		size_t part = left < w->block ? left : w->block;

		write_all(fd, buffer, part);
		left -= part;
	}
	if (w->durable && fsync(fd) != 0)
		err(1, "fsync %s", name);
	if (close(fd) != 0)
		err(1, "close %s", name);
}

/* A child: says on `ready` that its buffer is touched, and begins when `go` is closed. */
static void writer(int ready, int go, const struct work *w, unsigned index)
{
	char name[NAME_BYTES], byte = 0;
	char *buffer = touched(w->block);

	write_all(ready, &byte, 1);
	if (read(go, &byte, 1) != 0)
		errx(1, "no start signal");
	write_fresh(w, file_of(w, name, index), buffer);
	w->ended[index] = now();
	_exit(0);
}

/* Returns when they began; *end is that of the last close. The files stay. */
static double write_once(struct work *w, unsigned writers, double *end)
{
	int ready[2], go[2];
	double start;
	char byte;

	w->ended = mmap(NULL, writers * sizeof(double), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (w->ended == MAP_FAILED || pipe(ready) != 0 || pipe(go) != 0)
		err(1, "cannot start writers");
	for (unsigned i = 0; i < writers; i++) {
		pid_t pid = fork();

		if (pid < 0)
			err(1, "fork");
		if (pid == 0) {
			close(go[1]);
			writer(ready[1], go[0], w, i);
		}
	}
	close(ready[1]);
	close(go[0]);
	for (unsigned i = 0; i < writers; i++)
		if (read(ready[0], &byte, 1) != 1)
			errx(1, "a writer failed");
	start = now();
	close(go[1]);
	reap(writers);
	close(ready[0]);
	*end = start;
	for (unsigned i = 0; i < writers; i++)
		if (w->ended[i] > *end)
			*end = w->ended[i];
	munmap(w->ended, writers * sizeof(double));
	return start;
}

static void remove_written(const struct work *w, unsigned writers)
{
	char name[NAME_BYTES];

	for (unsigned i = 0; i < writers; i++)
		if (unlinkat(w->dir, file_of(w, name, i), 0) != 0)
			err(1, "unlink %s", name);
}

/*
 * write DIR BYTES BLOCK WRITERS: so many processes write a fresh file of BYTES each. A
 * first time is not measured: where the kernel's free memory must first be fetched from a
 * hypervisor, it decides the figure (ten times slower was seen), and whoever ran before
 * decides whether it must.
 */
static void do_write(char **args)
{
	struct work w = {.dir = open_dir(args[0]),
			 .name_format = "f%06u",
			 .bytes = number(args[1]),
			 .block = number(args[2])};
	unsigned writers = number(args[3]);
	double start, end;

	write_once(&w, writers, &end);
	remove_written(&w, writers);
	start = write_once(&w, writers, &end);
	report(start, end, w.bytes * writers);
	remove_written(&w, writers);
}

static void save(char **args, unsigned writers, int durable)
{
	struct work w = {.dir = open_dir(args[0]),
			 .name_format = "x%u.pt",
			 .bytes = number(args[1]),
			 .block = number(args[2]),
			 .durable = durable};
	double end, start = write_once(&w, writers, &end);

	printf("%.9f %llu %.9f\n", end - start, w.bytes * writers, start);
}

/*
 * save DIR BYTES BLOCK WRITERS: so many processes write a fresh x0.pt, x1.pt, ... of BYTES
 * each, which stay. Once; also prints when they began, by CLOCK_MONOTONIC.
 */
static void do_save(char **args)
{
	save(args, number(args[3]), 0);
}

/* save-durable DIR BYTES BLOCK: the same by one, with an fsync before the close. */
static void do_save_durable(char **args)
{
	save(args, 1, 1);
}

static void make_file(int dir, const char *name, const char *buffer, size_t bytes)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	if (fd < 0)
		err(1, "create %s", name);
	write_all(fd, buffer, bytes);
	if (close(fd) != 0)
		err(1, "close %s", name);
}

/* So many files one after the other; @name_format is of a file's number. */
static void make_files(int dir, const char *name_format, unsigned long long count,
		       const char *buffer, size_t bytes)
{
	char name[NAME_BYTES];

	for (unsigned long long i = 0; i < count; i++) {
		snprintf(name, NAME_BYTES, name_format, i);
		make_file(dir, name, buffer, bytes);
	}
}

/* save-files DIR COUNT BYTES: so many checkpoints of one file, x0.pt, x1.pt, ..., which stay. */
static void do_save_files(char **args)
{
	int dir = open_dir(args[0]);
	unsigned long long count = number(args[1]);
	size_t bytes = number(args[2]);
	char *buffer = touched(bytes);
	double start = now();

	make_files(dir, "x%llu.pt", count, buffer, bytes);
	report(start, now(), count);
}

/* All of a checkpoint of many files, as torch.distributed.checkpoint writes it, but its end. */
static int begin_unit(const char *path, unsigned long long count, const char *buffer, size_t bytes)
{
	int dir;

	if (mkdir(path, 0755) != 0)
		err(1, "mkdir %s", path);
	dir = open_dir(path);
	make_files(dir, "__0_%llu.distcp", count - 1, buffer, bytes);
	make_file(dir, ".metadata.tmp", buffer, bytes);
	return dir;
}

static void end_unit(int dir)
{
	if (renameat(dir, ".metadata.tmp", dir, ".metadata") != 0)
		err(1, "rename .metadata");
}

/* save-unit DIR COUNT BYTES: one checkpoint of so many files, the new directory DIR. */
static void do_save_unit(char **args)
{
	unsigned long long count = number(args[1]);
	size_t bytes = number(args[2]);
	char *buffer = touched(bytes);
	double start = now();

	end_unit(begin_unit(args[0], count, buffer, bytes));
	report(start, now(), count);
}

/*
 * end-unit DIR COUNT BYTES: the same; its end comes when stdin has ended. Only that is timed; also
 * prints when it began, by CLOCK_MONOTONIC.
 */
static void do_end_unit(char **args)
{
	unsigned long long count = number(args[1]);
	size_t bytes = number(args[2]);
	int dir = begin_unit(args[0], count, touched(bytes), bytes);
	double start, end;
	char byte;

	puts("ready");
	fflush(stdout);
	while (read(0, &byte, 1) > 0)
		;
	start = now();
	end_unit(dir);
	end = now();
	printf("%.9f %llu %.9f\n", end - start, count, start);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/*
 * sync DIR COUNT BYTES: the median of write, fsync, rename and fsync of the directory, of a fresh
 * file.
 */
static void do_sync(char **args)
{
	int dir = open_dir(args[0]), fd;
	unsigned long long count = number(args[1]);
	size_t bytes = number(args[2]);
	char name[NAME_BYTES], *buffer = touched(bytes);
	double *took = calloc(count, sizeof(*took));

	if (!took)
		err(1, "no memory");
	for (unsigned long long i = 0; i < count; i++) {
		double start = now();

		fd = openat(dir, "new", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
		if (fd < 0)
			err(1, "create new");
		write_all(fd, buffer, bytes);
		if (fsync(fd) != 0 || renameat(dir, "new", dir, name_of(name, i)) != 0 ||
		    fsync(dir) != 0)
			err(1, "%s", name);
		took[i] = now() - start;
		close(fd);
	}
	for (unsigned long long i = 0; i < count; i++)
		unlinkat(dir, name_of(name, i), 0);
	qsort(took, count, sizeof(*took), compare);
	report(0, took[count / 2], count);
}

/* create DIR COUNT BYTES: create, write, close, unlink, one file after the other. */
static void do_create(char **args)
{
	int dir = open_dir(args[0]);
	unsigned long long count = number(args[1]);
	size_t bytes = number(args[2]);
	char name[NAME_BYTES], *buffer = touched(bytes);
	double start = now();

	for (unsigned long long i = 0; i < count; i++) {
		make_file(dir, name_of(name, i), buffer, bytes);
		if (unlinkat(dir, name, 0) != 0)
			err(1, "unlink %s", name);
	}
	report(start, now(), count);
}

/* fill DIR COUNT BYTES: make files that stay. */
static void do_fill(char **args)
{
	int dir = open_dir(args[0]);
	unsigned long long count = number(args[1]);
	size_t bytes = number(args[2]);
	char name[NAME_BYTES], *buffer = touched(bytes + 1);
	double start = now();

	for (unsigned long long i = 0; i < count; i++)
		make_file(dir, name_of(name, i), buffer, bytes);
	report(start, now(), count);
}

/* stat DIR COUNT: each file once, by name, in an order that is not the directory's. */
static void do_stat(char **args)
{
	int dir = open_dir(args[0]);
	unsigned long long count = number(args[1]), step = 7919;
	char name[NAME_BYTES];
	struct stat st;
	double start;

	if (count % step == 0)
		step = 7907;
	start = now();
	for (unsigned long long i = 0; i < count; i++)
		if (fstatat(dir, name_of(name, i * step % count), &st, 0) != 0)
			err(1, "stat %s", name);
	report(start, now(), count);
}

static void list(const char *path, int with_stat)
{
	unsigned long long count = 0;
	struct dirent *entry;
	struct stat st;
	double start;
	DIR *dir = opendir(path);

	if (!dir)
		err(1, "%s", path);
	start = now();
	while ((errno = 0, entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		if (with_stat && fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW))
			err(1, "stat %s", entry->d_name);
		count++;
	}
	if (errno)
		err(1, "readdir %s", path);
	report(start, now(), count);
	closedir(dir);
}

/* readdir DIR: a plain listing. */
static void do_readdir(char **args)
{
	list(args[0], 0);
}

/* ls DIR: a listing with a stat of each entry, as ls -l and find -size do. */
static void do_ls(char **args)
{
	list(args[0], 1);
}

/* hold DIR COUNT: open so many files for reading, report, and keep them until stdin ends.
 */
static void do_hold(char **args)
{
	int dir = open_dir(args[0]);
	unsigned long long count = number(args[1]);
	struct rlimit limit;
	char name[NAME_BYTES], byte;
	double start;

	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	start = now();
	for (unsigned long long i = 0; i < count; i++)
		if (openat(dir, name_of(name, i), O_RDONLY | O_CLOEXEC) < 0)
			err(1, "open %s", name);
	report(start, now(), count);
	fflush(stdout);
	while (read(0, &byte, 1) > 0)
		;
}

static const struct verb {
	const char *name;
	int nr_args;
	void (*run)(char **args);
	const char *help;
} verbs[] = {
	{"read", 2, do_read, "FILE BLOCK"},
	{"read-once", 2, do_read_once, "FILE BLOCK"},
	{"write", 4, do_write, "DIR BYTES BLOCK WRITERS"},
	{"save", 4, do_save, "DIR BYTES BLOCK WRITERS"},
	{"save-durable", 3, do_save_durable, "DIR BYTES BLOCK"},
	{"save-files", 3, do_save_files, "DIR COUNT BYTES"},
	{"save-unit", 3, do_save_unit, "DIR COUNT BYTES"},
	{"end-unit", 3, do_end_unit, "DIR COUNT BYTES"},
	{"sync", 3, do_sync, "DIR COUNT BYTES"},
	{"create", 3, do_create, "DIR COUNT BYTES"},
	{"fill", 3, do_fill, "DIR COUNT BYTES"},
	{"stat", 2, do_stat, "DIR COUNT"},
	{"readdir", 1, do_readdir, "DIR"},
	{"ls", 1, do_ls, "DIR"},
	{"hold", 2, do_hold, "DIR COUNT"},
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc > 1 && i < sizeof(verbs) / sizeof(verbs[0]); i++) {
		if (strcmp(argv[1], verbs[i].name) != 0 || argc - 2 != verbs[i].nr_args)
			continue;
		verbs[i].run(argv + 2);
		return 0;
	}
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		fprintf(stderr, "usage: fsload %s %s\n", verbs[i].name, verbs[i].help);
	return 2;
}
