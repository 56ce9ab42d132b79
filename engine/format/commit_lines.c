/* SPDX-License-Identifier: MIT */
#include "engine/format/commit_lines.h"

#include <errno.h>
#include <string.h>

int commit_damaged(struct reader *r, const char *what)
{
	return FAIL(r->e, EBADMSG, COMMIT_DAMAGED, r->path, r->nr, what);
}

int commit_fill(struct reader *r)
{
	ssize_t n;

	if (r->taken < r->filled)
		return 1;
	n = r->src->read(r->src->arg, r->buffer, BUFFER_BYTES, r->off);
	if (n < 0)
		return FAIL(r->e, (int)-n, COMMIT_UNREADABLE, r->path, strerror((int)-n));
	r->off += (uint64_t)n;
	r->filled = (size_t)n;
	r->taken = 0;
	return n > 0;
}

/* The digits of the digest count as '0'. */
static void hash_line(struct reader *r)
{
	static const char zeros[] = "00000000000000000000000000000000";
	const char *line = r->line + 1;
	size_t start = strlen(DIGEST_START);

	if (!r->in_section && r->len >= start + DIGITS && !memcmp(line, DIGEST_START, start)) {
		XXH3_128bits_update(r->state, line, start);
		XXH3_128bits_update(r->state, zeros, DIGITS);
		XXH3_128bits_update(r->state, line + start + DIGITS, r->len - start - DIGITS);
	} else {
		XXH3_128bits_update(r->state, line, r->len);
	}
	XXH3_128bits_update(r->state, "\n", 1);
}

int commit_next_line(struct reader *r)
{
	r->len = 0;
	r->nr++;
	for (;;) {
		const char *from, *end;
		size_t part;
		int got = commit_fill(r);

		if (got < 0)
			return got;
		if (!got)
			return commit_damaged(r, "it is cut off");
		from = r->buffer + r->taken;
		end = memchr(from, '\n', r->filled - r->taken);
		part = end ? (size_t)(end - from) : r->filled - r->taken;
		if (part > COMMIT_LINE_MAX - r->len)
			return commit_damaged(r, "a line that is too long");
		memcpy(r->line + 1 + r->len, from, part);
		r->len += part;
		r->taken += part + !!end;
		if (end)
			break;
	}
	r->line[1 + r->len] = '\0';
	hash_line(r);
	return 0;
}

bool commit_line_is(const struct reader *r, const char *text)
{
	return r->len == strlen(text) && !memcmp(r->line + 1, text, r->len);
}

bool commit_take_comma(struct reader *r)
{
	if (!r->len || r->line[r->len] != ',')
		return false;
	r->line[r->len--] = '\0';
	return true;
}

json_t *commit_parse_member(struct reader *r, char closing)
{
	size_t end = 1 + r->len;
	json_t *o;

	r->line[0] = '{';
	if (closing)
		r->line[end++] = closing;
	r->line[end++] = '}';
	o = json_loadb(r->line, end, JSON_REJECT_DUPLICATES, NULL);
	r->line[1 + r->len] = '\0';
	if (json_object_size(o) == 1)
		return o;
	json_decref(o);
	return NULL;
}
