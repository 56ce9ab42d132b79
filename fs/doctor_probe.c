/* SPDX-License-Identifier: MIT */
/*
 * doctor: tries out a backing. The test files are named like the staging of ckptfs, which a mount
 * hides. Each is removed once it is open, or within the call that made it, so that no signal leaves
 * one. If the host dies, `ckptfs fsck --discard` recognises them.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "engine/backing/backing.h"
#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/content/digest.h"
#include "engine/coord/coord.h"
#include "engine/format/digest_record.h"
#include "engine/format/format.h"
#include "engine/format/names.h"
#include "fs/doctor.h"

#define SMALL_BYTES 4096
#define SMALL_MOST  32
#define SMALL_NS    (2 * NSEC_PER_SEC)
#define BIG_BYTES   ((uint64_t)128 << 20) /* a round */
#define BIG_FREE    ((uint64_t)1 << 30)	  /* with less free space nothing is written */
#define BIG_BLOCK   ((size_t)1 << 20)
#define BIG_NS	    (3 * NSEC_PER_SEC) /* the longest round, without its sync */
#define BIG_ROUNDS  3
#define WRITERS	    8 /* blocks at a time: as a flush, with a smaller depth */
#define COPY_BYTES  ((size_t)64 << 20)
#define COPY_ROUNDS 5

struct name {
	char text[STAGING_MAX];
};

static struct name new_name(void)
{
	struct name n;

	if (staging_new(n.text))
		staging_name(n.text, ""); /* without random numbers no save works either */
	return n;
}

static double seconds_since(uint64_t ns)
{
	return (double)(clock_mono_ns() - ns) / NSEC_PER_SEC;
}

static int make_file(int dir, struct name *n)
{
	int fd;

	*n = new_name();
	fd = openat(dir, n->text, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	return fd < 0 ? -errno : fd;
}

/* --- features --- */

static void try_rename(struct probe *p, int dir, struct name *n)
{
	struct name other = new_name();
	struct name third;
	int fd;

	if (p->noreplace == TURNED_OFF)
		return;
	if (renameat2(dir, n->text, dir, other.text, RENAME_NOREPLACE)) {
		p->noreplace = p->exchange = ABSENT;
		return;
	}
	p->noreplace = PRESENT;
	*n = other;
	fd = make_file(dir, &third);
	if (fd < 0)
		return;
	close(fd);
	p->exchange = renameat2(dir, n->text, dir, third.text, RENAME_EXCHANGE) ? ABSENT : PRESENT;
	unlinkat(dir, third.text, 0);
}

static void try_direct(struct probe *p, int dir, const struct name *n)
{
	void *block;
	int fd;

	if (p->direct == TURNED_OFF || posix_memalign(&block, 4096, SMALL_BYTES))
		return;
	memset(block, 'x', SMALL_BYTES);
	fd = openat(dir, n->text, O_WRONLY | O_DIRECT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	p->direct = fd >= 0 && pwrite(fd, block, SMALL_BYTES, 0) == SMALL_BYTES ? PRESENT : ABSENT;
	if (fd >= 0)
		close(fd);
	free(block);
}

static void try_xattr(struct probe *p, int fd)
{
	char back[8];

	if (p->xattr == TURNED_OFF)
		return;
	p->xattr_err = fsetxattr(fd, DIGEST_XATTR, "probe", 5, 0) ? -errno : 0;
	p->xattr = !p->xattr_err && fgetxattr(fd, DIGEST_XATTR, back, sizeof(back)) == 5 ? PRESENT
											 : ABSENT;
}

static void try_coord(struct probe *p)
{
	__cleanup_fd int dir =
		backing_reopen(&p->backing, p->backing.root_fd, O_RDONLY | O_DIRECTORY);

	p->doing = "trying what nodes agree by";
	p->coord = dir < 0 ? dir : coord_dir_test(&p->backing, dir, p->coord_why);
}

static void try_features(struct probe *p)
{
	int dir = p->backing.root_fd;
	struct stat st;
	struct name n;
	__cleanup_fd int fd = -1;

	p->doing = "making a file";
	fd = make_file(dir, &n);
	p->made = fd < 0 ? fd : 0;
	if (fd < 0)
		return;
	p->owner = fstat(fd, &st) ? geteuid() : st.st_uid;
	p->doing = "trying O_DIRECT, extended attributes and renames";
	try_direct(p, dir, &n);
	try_xattr(p, fd);
	try_rename(p, dir, &n);
	unlinkat(dir, n.text, 0);
	try_coord(p);
}

static void turn_off(enum found *what, const struct features *f, enum feature feature)
{
	*what = f->state[feature] == FEATURE_TURNED_OFF ? TURNED_OFF : NOT_TRIED;
}

/* --- what it costs --- */

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/*
 * Publishes a small file as a mount does: write, sync, rename, sync of the directory. 0 or -errno.
 */
static int small_cycle(int dir, const void *bytes)
{
	struct name n, target = new_name();
	__cleanup_fd int fd = make_file(dir, &n);
	int err = fd < 0 ? fd : 0;

	if (err)
		return err;
	if (pwrite(fd, bytes, SMALL_BYTES, 0) != SMALL_BYTES || fsync(fd) ||
	    renameat(dir, n.text, dir, target.text))
		err = -errno;
	if (!err && fsync(dir))
		err = -errno;
	unlinkat(dir, err ? n.text : target.text, 0);
	unlinkat(dir, err ? target.text : n.text, 0);
	return err;
}

static void measure_small(struct probe *p)
{
	static const char bytes[SMALL_BYTES];
	uint64_t start = clock_mono_ns();
	double took[SMALL_MOST];
	unsigned nr = 0;

	p->doing = "saving small files";
	while (nr < SMALL_MOST && clock_mono_ns() - start < SMALL_NS && !*p->signal) {
		uint64_t began = clock_mono_ns();

		p->small_err = small_cycle(p->backing.root_fd, bytes);
		if (p->small_err)
			return;
		took[nr++] = seconds_since(began);
	}
	if (!nr)
		return;
	qsort(took, nr, sizeof(took[0]), by_size);
	p->small_s = took[nr / 2];
	p->nr_small = nr;
}

struct big {
	struct probe *p;
	int fd;
	const void *block;
	uint64_t deadline_ns;
	_Atomic uint64_t next; /* offset */
	atomic_int err;
};

static void *big_main(void *arg)
{
	struct big *b = arg;

	while (!b->err && !*b->p->signal && clock_mono_ns() < b->deadline_ns) {
		uint64_t off = atomic_fetch_add(&b->next, BIG_BLOCK);
		size_t done = 0;

		if (off >= BIG_BYTES)
			break;
		while (done < BIG_BLOCK) {
			ssize_t n = pwrite(b->fd, (const char *)b->block + done, BIG_BLOCK - done,
					   (off_t)(off + done));

			if (n < 0 && errno == EINTR)
				continue;
			if (n <= 0) {
				b->err = n ? errno : EIO;
				return NULL;
			}
			done += (size_t)n;
			atomic_fetch_add(&b->p->written, (uint64_t)n);
		}
	}
	return NULL;
}

/* Bytes that no storage can compress. */
static void *random_block(void)
{
	uint64_t *block, x = clock_mono_ns() | 1;
	void *memory;
	size_t i;

	if (posix_memalign(&memory, 4096, BIG_BLOCK))
		return NULL;
	for (block = memory, i = 0; i < BIG_BLOCK / sizeof(*block); i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		block[i] = x;
	}
	return memory;
}

/* Writes a round with @writers threads, and syncs. Bytes a second; 0: it failed or was stopped. */
static double write_round(struct probe *p, struct big *b, size_t writers)
{
	pthread_t threads[WRITERS];
	uint64_t start, before = p->written;
	size_t i, nr = 0;

	if (ftruncate(b->fd, 0) || fdatasync(b->fd))
		b->err = errno;
	start = clock_mono_ns();
	b->deadline_ns = start + BIG_NS;
	b->next = 0;
	while (writers > 1 && nr < writers && !pthread_create(&threads[nr], NULL, big_main, b))
		nr++;
	if (!nr)
		big_main(b);
	for (i = 0; i < nr; i++)
		pthread_join(threads[i], NULL);
	if (!b->err && fdatasync(b->fd))
		b->err = errno;
	return b->err || *p->signal ? 0 : (double)(p->written - before) / seconds_since(start);
}

static void write_rounds(struct probe *p, struct big *b, size_t writers, struct speed *speed)
{
	double rounds[BIG_ROUNDS];
	size_t i;

	for (i = 0; i < BIG_ROUNDS; i++) {
		rounds[i] = write_round(p, b, writers);
		if (!rounds[i])
			return;
	}
	qsort(rounds, BIG_ROUNDS, sizeof(rounds[0]), by_size);
	*speed = (struct speed){.median = rounds[BIG_ROUNDS / 2],
				.least = rounds[0],
				.most = rounds[BIG_ROUNDS - 1]};
}

static void measure_big(struct probe *p)
{
	__cleanup_free void *block = random_block();
	struct big b = {.p = p, .block = block};
	struct name n;
	__cleanup_fd int fd = -1;

	if (!block || *p->signal)
		return;
	if (p->space.f_blocks && (uint64_t)p->space.f_bavail * p->space.f_frsize < BIG_FREE) {
		p->big_err = -ENOSPC;
		return;
	}
	fd = make_file(p->backing.root_fd, &n);
	p->big_err = fd < 0 ? fd : 0;
	if (fd < 0)
		return;
	unlinkat(p->backing.root_fd, n.text, 0);
	b.fd = fd;
	p->doing = "writing as a program without ckptfs does";
	write_rounds(p, &b, 1, &p->plain);
	p->doing = "writing as ckptfs does";
	if (!b.err && p->direct == PRESENT)
		fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_DIRECT);
	if (!b.err)
		write_rounds(p, &b, WRITERS, &p->flush);
	p->big_err = -b.err;
}

/*
 * Measures write(2) into memory, which a save waits for. The pages exist already, as in the cache.
 */
static void measure_copy(struct probe *p)
{
	__cleanup_free void *block = random_block();
	__cleanup_fd int fd = memfd_create("ckptfs-doctor", MFD_CLOEXEC);
	double took[COPY_ROUNDS];
	size_t round, off;

	if (!block || fd < 0)
		return;
	for (round = 0; round <= COPY_ROUNDS; round++) { /* the first makes the pages */
		uint64_t start = clock_mono_ns();

		for (off = 0; off < COPY_BYTES; off += BIG_BLOCK)
			if (*p->signal ||
			    pwrite(fd, block, BIG_BLOCK, (off_t)off) != (ssize_t)BIG_BLOCK)
				return;
		if (round)
			took[round - 1] = seconds_since(start);
	}
	qsort(took, COPY_ROUNDS, sizeof(took[0]), by_size);
	p->copy_bytes_per_s = (double)COPY_BYTES / took[COPY_ROUNDS / 2];
}

/*
 * Measures the copy of a lazy save: memcpy from the trainer's memory into the cache, where both
 * exist already.
 */
static void measure_capture(struct probe *p)
{
	__cleanup_free char *from = malloc(COPY_BYTES), *to = malloc(COPY_BYTES);
	double took[COPY_ROUNDS];
	size_t round;

	if (!from || !to)
		return;
	memset(from, 1, COPY_BYTES);
	for (round = 0; round <= COPY_ROUNDS && !*p->signal; round++) {
		uint64_t start = clock_mono_ns();

		memcpy(to, from, COPY_BYTES);
		__asm__ volatile("" : : "r"(to) : "memory"); /* or no copy would be made */
		if (round)
			took[round - 1] = seconds_since(start);
	}
	if (*p->signal)
		return;
	qsort(took, COPY_ROUNDS, sizeof(took[0]), by_size);
	p->capture_bytes_per_s = (double)COPY_BYTES / took[COPY_ROUNDS / 2];
}

/* --- the whole --- */

static void look(struct probe *p)
{
	struct backing *b = &p->backing;
	struct fsxattr x = {0};
	struct statfs sf;

	if (fstatvfs(b->root_fd, &p->space) || fstatfs(b->root_fd, &sf))
		memset(&p->space, 0, sizeof(p->space));
	else
		p->fs_magic = (unsigned)sf.f_type;
	if (!ioctl(b->root_fd, FS_IOC_FSGETXATTR, &x))
		p->project = x.fsx_projid;
	p->may_write = faccessat(b->root_fd, ".", W_OK | X_OK, AT_EACCESS) ? -errno : 0;
	features_probe(b->features, b->root_fd, false);
	turn_off(&p->direct, b->features, FEATURE_ODIRECT);
	turn_off(&p->xattr, b->features, FEATURE_XATTR);
	turn_off(&p->noreplace, b->features, FEATURE_RENAME_FLAGS);
	p->exchange = p->noreplace;
	p->btime = feature(b->features, FEATURE_BTIME)			     ? PRESENT
		   : b->features->state[FEATURE_BTIME] == FEATURE_TURNED_OFF ? TURNED_OFF
									     : ABSENT;
}

void probe_run(struct probe *p)
{
	p->doing = "opening it";
	if (backing_open(&p->backing, p->path, &p->error))
		return;
	p->doing = "looking at it";
	if (!format_read(p->backing.root_fd, p->backing.path, &p->format, &p->format_error))
		format_check_nested(p->backing.root_fd, p->backing.path, &p->format_error);
	look(p);
	if (!p->may_write)
		try_features(p);
	else
		p->made = p->may_write;
	if (p->made || *p->signal)
		return;
	measure_small(p);
	measure_big(p);
	measure_copy(p);
	measure_capture(p);
}
