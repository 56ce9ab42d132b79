/* SPDX-License-Identifier: MIT */
/* The shared-file mode: reading regions while they change, and at the end. */
#include "shared.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static bool word_ok(const struct region *reg, size_t i, uint64_t word, uint32_t lo, uint32_t hi)
{
	uint32_t seq = word >> 32 & 0xffffff;

	if (!word)
		return lo == 0; /* as it was made: nothing written yet */
	return word == stamp(reg->writer, seq, reg->off + 8 * i) && seq >= lo && seq <= hi;
}

bool region_check(struct shared *sh, const struct region *reg, const uint64_t *words, uint32_t lo,
		  uint32_t hi, const char *how)
{
	size_t i;

	for (i = 0; i < reg->len / 8; i++) {
		if (word_ok(reg, i, words[i], lo, hi))
			continue;
		shared_fail(sh,
			    "%s: at %lld (byte %zu of the region of %zu at %lld): "
			    "expected writer %u, round %u to %u, offset %lld; got writer %u, "
			    "round %u, offset %lld",
			    how, (long long)reg->off + 8 * (long long)i, 8 * i, reg->len,
			    (long long)reg->off, reg->writer, lo, hi,
			    (long long)reg->off + 8 * (long long)i, (unsigned int)(words[i] >> 56),
			    (unsigned int)(words[i] >> 32 & 0xffffff),
			    (long long)(words[i] & 0xffffffff) * 8);
		return false;
	}
	return true;
}

bool region_read(struct shared *sh, const struct region *reg, int fd, void *buf)
{
	uint32_t lo = reg->done, hi;
	ssize_t got = pread(fd, buf, reg->len, reg->off);

	hi = reg->started;
	sh->reads++;
	if (got != (ssize_t)reg->len) {
		shared_fail(sh, "pread of %zu at %lld: %s", reg->len, (long long)reg->off,
			    got < 0 ? strerror(errno) : "short");
		return false;
	}
	return region_check(sh, reg, buf, lo, hi, "pread");
}

bool region_map(struct shared *sh, const struct region *reg, int fd)
{
	off_t from = reg->off & ~(off_t)(PAGE - 1);
	size_t lead = reg->off - from, len = lead + reg->len;
	char *map = mmap(NULL, len, PROT_READ, MAP_SHARED, fd, from);
	uint64_t *copy;
	uint32_t lo, hi;
	bool ok;

	if (map == MAP_FAILED) {
		shared_fail(sh, "mmap: %s", strerror(errno));
		return false;
	}
	copy = xmalloc(reg->len);
	lo = reg->done;
	memcpy(copy, map + lead, reg->len);
	hi = reg->started;
	ok = region_check(sh, reg, copy, lo, hi, "mmap");
	free(copy);
	munmap(map, len);
	sh->maps++;
	return ok;
}

/* All of the regions as they must be for good; what they must be goes to out. */
static void verify_regions(struct shared *sh, int fd, int out)
{
	uint64_t *buf = xmalloc(REGION_MAX);
	const struct region *reg;
	unsigned int i;
	size_t k;

	for (i = 0; i < sh->nr_regions && !sh->failed; i++) {
		reg = &sh->regions[i];
		if (reg->done != reg->started)
			shared_fail(sh, "region %u: a write did not end", i);
		if (!region_read(sh, reg, fd, buf) || !region_map(sh, reg, fd))
			break;
		for (k = 0; k < reg->len / 8; k++)
			buf[k] = reg->done ? stamp(reg->writer, reg->done, reg->off + 8 * k) : 0;
		if (pwrite(out, buf, reg->len, reg->off) != (ssize_t)reg->len)
			die("cannot write the reference: %s", strerror(errno));
	}
	free(buf);
}

/* One record at off; its length, or 0: said why. */
static size_t verify_record(struct shared *sh, int fd, off_t off, uint64_t *buf, uint32_t *seen)
{
	ssize_t got = pread(fd, buf, RECORD_MAX, off);
	struct record rec;
	size_t i;

	if (got < (ssize_t)sizeof(rec)) {
		shared_fail(sh, "append: the record at %lld is cut off", (long long)off);
		return 0;
	}
	memcpy(&rec, buf, sizeof(rec));
	if (rec.magic != RECORD_MAGIC || !rec.writer || rec.writer > sh->nr_writers ||
	    rec.len > (uint64_t)got || rec.len < 64 || rec.len % 8) {
		shared_fail(sh, "append: no whole record at %lld", (long long)off);
		return 0;
	}
	if (rec.seq != ++seen[rec.writer]) {
		shared_fail(sh, "append: at %lld record %llu of writer %llu, expected %u",
			    (long long)off, (unsigned long long)rec.seq,
			    (unsigned long long)rec.writer, seen[rec.writer]);
		return 0;
	}
	for (i = sizeof(rec) / 8; i < rec.len / 8; i++) {
		if (buf[i] == stamp(rec.writer, rec.seq, 8 * i))
			continue;
		shared_fail(sh, "append: torn record at %lld, byte %zu of it", (long long)off,
			    8 * i);
		return 0;
	}
	return rec.len;
}

static void verify_append(struct shared *sh, int fd, int out)
{
	uint64_t *buf = xmalloc(RECORD_MAX);
	uint32_t seen[MAX_WRITERS + 1] = {0};
	off_t off = 0, end = lseek(fd, 0, SEEK_END);
	unsigned int i;
	size_t len;

	while (off < end) {
		len = verify_record(sh, fd, off, buf, seen);
		if (!len)
			break;
		if (pwrite(out, buf, len, off) != (ssize_t)len)
			die("cannot write the reference: %s", strerror(errno));
		off += len;
	}
	for (i = 1; i <= sh->nr_writers && !sh->failed; i++) {
		if (seen[i] != sh->appended[i])
			shared_fail(sh, "append: %u records of writer %u, expected %u", seen[i], i,
				    sh->appended[i]);
	}
	free(buf);
}

static int open_at(const char *dir, const char *name, int flags)
{
	char path[ROOT_MAX + 64];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, flags | O_CLOEXEC, 0644);
	if (fd < 0)
		die("%s: %s", path, strerror(errno));
	return fd;
}

/* Give it its first name again, and leave no decoys. */
static void settle_names(struct shared *sh)
{
	char path[ROOT_MAX + 64], first[ROOT_MAX + 64];
	struct stat st;
	int i;

	snprintf(first, sizeof(first), "%s/%s", sh->root, shared_names[0]);
	for (i = 1; i < NR_SHARED_NAMES; i++) {
		snprintf(path, sizeof(path), "%s/%s", sh->root, shared_names[i]);
		if (stat(path, &st))
			continue;
		if (st.st_size ? rename(path, first) : unlink(path))
			shared_fail(sh, "%s: %s", path, strerror(errno));
	}
}

int shared_verify(struct shared *sh, const char *reference)
{
	int fd, out;

	settle_names(sh);
	fd = open_at(sh->root, shared_names[0], O_RDONLY);
	out = open_at(reference, shared_names[0], O_RDWR | O_CREAT | O_TRUNC);
	if (lseek(fd, 0, SEEK_END) != sh->size)
		shared_fail(sh, "size %lld, expected %lld", (long long)lseek(fd, 0, SEEK_END),
			    (long long)sh->size);
	verify_regions(sh, fd, out);
	close(fd);
	close(out);
	fd = open_at(sh->root, "append", O_RDONLY);
	out = open_at(reference, "append", O_RDWR | O_CREAT | O_TRUNC);
	verify_append(sh, fd, out);
	close(fd);
	close(out);
	return sh->failed ? 1 : 0;
}
