/* SPDX-License-Identifier: MIT */
/*
 * Files that are whole, and can tell, on a directory of the kernel (_at) or on any backing (_on).
 */
#ifndef TESTS_UNIT_VERSIONS_H
#define TESTS_UNIT_VERSIONS_H

#include "tests/unit/unit.h"

#include <sys/xattr.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/content/digest.h"
#include "tests/backing/peek.h"

/*
 * --- whole files: a version and a size are in their first words, all of it follows from these ---
 */

enum {
	ABSENT = 0,
	OLD = 1,       /* was there before, without a digest */
	PATCHED = 30,  /* OLD, changed in its middle third */
	TORN = 31,     /* anything else */
	SIZE = 200000, /* of OLD: three chunks and a tail that is no whole block */
	PATCH_AT = 65000,
	PATCH_LEN = 66000
};

/* To be freed. */
static inline char *bytes_of(int version, size_t size)
{
	uint64_t *words = malloc(size + 8);
	size_t i;

	assert_non_null(words);
	assert_true(size >= 16);
	words[0] = (uint64_t)version;
	words[1] = size;
	for (i = 2; i < size / 8 + 1; i++)
		words[i] = (uint64_t)version * 0x9E3779B97F4A7C15ull + i * 0xD1B54A32D192ED03ull;
	return (char *)words;
}

static inline bool is_patched(const char *data, size_t size)
{
	__cleanup_free char *old = bytes_of(OLD, size), *patch = bytes_of(PATCHED, size);

	memcpy(old + PATCH_AT, patch + PATCH_AT, PATCH_LEN);
	return !memcmp(data, old, size);
}

static inline int version_of(const char *data, size_t size)
{
	uint64_t head[2];
	__cleanup_free char *want = NULL;

	if (size < sizeof(head))
		return TORN;
	memcpy(head, data, sizeof(head));
	if (head[0] == ABSENT || head[0] >= TORN || head[1] != size)
		return TORN;
	want = bytes_of((int)head[0], size);
	if (!memcmp(data, want, size))
		return (int)head[0];
	return head[0] == OLD && size == SIZE && is_patched(data, size) ? PATCHED : TORN;
}

/* What dir/@name is, on the backing. */
static inline int version_at(int dir, const char *name)
{
	__cleanup_fd int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	__cleanup_free char *data = NULL;
	struct stat st;

	if (fd < 0)
		return errno == ENOENT ? ABSENT : TORN;
	assert_int_equal(fstat(fd, &st), 0);
	data = malloc((size_t)st.st_size + 1);
	if (pread(fd, data, (size_t)st.st_size, 0) != st.st_size)
		return TORN;
	return version_of(data, (size_t)st.st_size);
}

/* What @path is on the backing @b. */
static inline int version_on(struct backing *b, const char *path)
{
	__cleanup_free char *data = NULL;
	struct statx stx;
	int err = peek_stat(b, path, &stx);

	if (err)
		return err == -ENOENT ? ABSENT : TORN;
	data = malloc(stx.stx_size + 1);
	assert_non_null(data);
	if (peek_read(b, path, data, stx.stx_size) != (ssize_t)stx.stx_size)
		return TORN;
	return version_of(data, stx.stx_size);
}

/* As if it were there for long: not through a mount. */
static inline void make_version(int dir, const char *name, int version, size_t size)
{
	__cleanup_fd int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	__cleanup_free char *data = bytes_of(version, size);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, size), size);
}

static inline ssize_t fd_read(void *arg, void *buf, size_t len, uint64_t off)
{
	return pread(*(int *)arg, buf, len, (off_t)off);
}

/* Has dir/@name a digest record that is true? */
static inline bool has_digest(int dir, const char *name)
{
	__cleanup_fd int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	char text[DIGEST_RECORD_MAX], hex[DIGEST_HEX], real[DIGEST_HEX];
	struct source src = {.read = fd_read, .arg = &fd};
	uint64_t size, mtime_ns;
	struct stat st;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st))
		return false;
	n = fgetxattr(fd, DIGEST_XATTR, text, sizeof(text));
	if (n < 0 || digest_record_parse(text, (size_t)n, hex, &size, &mtime_ns))
		return false;
	return size == (uint64_t)st.st_size &&
	       mtime_ns ==
		       (uint64_t)st.st_mtim.tv_sec * NSEC_PER_SEC + (uint64_t)st.st_mtim.tv_nsec &&
	       !digest_of_source(&src, size, 1, NULL, NULL, real) && !strcmp(hex, real);
}

/* True if @path on the backing @b has a digest record that is true. */
static inline bool has_digest_on(struct backing *b, const char *path)
{
	char text[DIGEST_RECORD_MAX], hex[DIGEST_HEX], real[DIGEST_HEX];
	struct source src;
	struct peek_file f;
	uint64_t size, mtime_ns;
	struct statx stx;
	bool yes = false;
	ssize_t n;

	if (peek_source(b, path, &f, &src))
		return false;
	n = backing_getxattr(b, f.fd, DIGEST_XATTR, text, sizeof(text));
	if (n >= 0 && !backing_stat(b, f.fd, &stx) &&
	    !digest_record_parse(text, (size_t)n, hex, &size, &mtime_ns))
		yes = size == stx.stx_size &&
		      mtime_ns == (uint64_t)stx.stx_mtime.tv_sec * NSEC_PER_SEC +
					  stx.stx_mtime.tv_nsec &&
		      !digest_of_source(&src, size, 1, NULL, NULL, real) && !strcmp(hex, real);
	peek_close(&f);
	return yes;
}

#endif
