/* SPDX-License-Identifier: MIT */
#include "engine/format/digest_record.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/cleanup.h"

static bool is_digest(const char *hex, size_t len)
{
	return len == DIGEST_HEX - 1 && strspn(hex, "0123456789abcdef") >= len;
}

/* Parses digits without a leading zero, the one valid spelling. Returns their end, or NULL. */
static const char *parse_number(const char *at, const char *end, uint64_t *number)
{
	const char *start = at;

	*number = 0;
	for (; at < end && *at >= '0' && *at <= '9'; at++)
		if (__builtin_mul_overflow(*number, 10, number) ||
		    __builtin_add_overflow(*number, (uint64_t)(*at - '0'), number))
			return NULL;
	if (at == start || (*start == '0' && at - start > 1))
		return NULL;
	return at;
}

int digest_record_format(char *buf, size_t size, const char *hex, uint64_t fsize, uint64_t mtime_ns)
{
	int len;

	if (!is_digest(hex, strlen(hex)))
		return -EINVAL;
	len = snprintf(buf, size, "%s %llu %llu", hex, (unsigned long long)fsize,
		       (unsigned long long)mtime_ns);
	return len >= 0 && (size_t)len < size ? len : -EINVAL;
}

int digest_record_parse(const char *text, size_t len, char hex[DIGEST_HEX], uint64_t *fsize,
			uint64_t *mtime_ns)
{
	const char *end = text + len, *at = text + DIGEST_HEX - 1;
	char digest[DIGEST_HEX];
	uint64_t numbers[2];
	size_t i;

	if (len < DIGEST_HEX)
		return -EINVAL;
	memcpy(digest, text, sizeof(digest) - 1);
	digest[sizeof(digest) - 1] = '\0';
	if (!is_digest(digest, strlen(digest)))
		return -EINVAL;
	for (i = 0; i < ARRAY_SIZE(numbers); i++) {
		if (at == end || *at != ' ')
			return -EINVAL;
		at = parse_number(at + 1, end, &numbers[i]);
		if (!at)
			return -EINVAL;
	}
	if (at != end)
		return -EINVAL;
	memcpy(hex, digest, sizeof(digest));
	*fsize = numbers[0];
	*mtime_ns = numbers[1];
	return 0;
}

void digest_file_dir(char name[DIGEST_FILE_MAX], uid_t owner)
{
	snprintf(name, DIGEST_FILE_MAX, "%u", (unsigned)owner);
}

void digest_file_name(char name[DIGEST_FILE_MAX], uint64_t inode)
{
	snprintf(name, DIGEST_FILE_MAX, "%llx", (unsigned long long)inode);
}

int digest_file_check(const char *text, size_t len)
{
	uint64_t size, mtime_ns;
	char hex[DIGEST_HEX];
	int err;

	if (!len || text[len - 1] != '\n')
		return -EINVAL;
	err = digest_record_parse(text, len - 1, hex, &size, &mtime_ns);
	return err ? err : (int)len - 1;
}
