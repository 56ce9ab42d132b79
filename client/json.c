/* SPDX-License-Identifier: MIT */
#include "client/json.h"

#include <string.h>

/* --- UTF-8 --- */

/* The length in bytes of the character that begins at @p; 0: it is none. */
static size_t character(const unsigned char *p, size_t len)
{
	size_t n;
	uint32_t c;

	if (p[0] < 0x80)
		return 1;
	if (p[0] < 0xc2 || p[0] > 0xf4)
		return 0;
	n = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
	if (len < n)
		return 0;
	c = p[0] & (0x7f >> n);
	for (size_t i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (p[i] & 0x3f);
	}
	if ((n == 3 && c < 0x800) || (n == 4 && c < 0x10000) || c > 0x10ffff ||
	    (c >= 0xd800 && c < 0xe000))
		return 0;
	return n;
}

bool ckpt_utf8(const char *text, size_t len)
{
	const unsigned char *p = (const unsigned char *)text;

	for (size_t n; len; p += n, len -= n) {
		n = character(p, len);
		if (!n)
			return false;
	}
	return true;
}

static char *encode(char *to, uint32_t c)
{
	if (c < 0x80) {
		*to++ = (char)c;
	} else if (c < 0x800) {
		*to++ = (char)(0xc0 | c >> 6);
		*to++ = (char)(0x80 | (c & 0x3f));
	} else if (c < 0x10000) {
		*to++ = (char)(0xe0 | c >> 12);
		*to++ = (char)(0x80 | (c >> 6 & 0x3f));
		*to++ = (char)(0x80 | (c & 0x3f));
	} else {
		*to++ = (char)(0xf0 | c >> 18);
		*to++ = (char)(0x80 | (c >> 12 & 0x3f));
		*to++ = (char)(0x80 | (c >> 6 & 0x3f));
		*to++ = (char)(0x80 | (c & 0x3f));
	}
	return to;
}

/* --- pieces --- */

static bool bad(struct ckpt_json *j)
{
	j->bad = true;
	return false;
}

/* The next character that is no blank, without taking it; '\0': there is none. */
static char peek(struct ckpt_json *j)
{
	while (j->at < j->end &&
	       (*j->at == ' ' || *j->at == '\t' || *j->at == '\n' || *j->at == '\r'))
		j->at++;
	return j->bad || j->at == j->end ? '\0' : *j->at;
}

bool ckpt_json_take(struct ckpt_json *j, char c)
{
	if (peek(j) != c)
		return bad(j);
	j->at++;
	return true;
}

bool ckpt_json_more(struct ckpt_json *j, char close, bool *first)
{
	if (peek(j) == close) {
		j->at++;
		return false;
	}
	if (!*first && (!ckpt_json_take(j, ',') || peek(j) == close))
		return bad(j);
	*first = false;
	return !j->bad;
}

bool ckpt_json_over(struct ckpt_json *j)
{
	return peek(j) == '\0' && !j->bad && j->at == j->end ? true : bad(j);
}

/* --- strings --- */

static bool four_digits(struct ckpt_json *j, uint32_t *c)
{
	*c = 0;
	if (j->end - j->at < 4)
		return bad(j);
	for (int i = 0; i < 4; i++) {
		char d = *j->at++;

		if (d >= '0' && d <= '9')
			*c = *c << 4 | (uint32_t)(d - '0');
		else if ((d | 0x20) >= 'a' && (d | 0x20) <= 'f')
			*c = *c << 4 | (uint32_t)((d | 0x20) - 'a' + 10);
		else
			return bad(j);
	}
	return true;
}

/* Reads behind "\u": one character, for which two of these may stand. */
static bool code_point(struct ckpt_json *j, uint32_t *c)
{
	uint32_t low;

	if (!four_digits(j, c))
		return false;
	if (!*c || (*c >= 0xdc00 && *c < 0xe000))
		return bad(j);
	if (*c < 0xd800 || *c >= 0xdc00)
		return true;
	if (j->end - j->at < 2 || j->at[0] != '\\' || j->at[1] != 'u')
		return bad(j);
	j->at += 2;
	if (!four_digits(j, &low) || low < 0xdc00 || low >= 0xe000)
		return bad(j);
	*c = 0x10000 + ((*c - 0xd800) << 10) + (low - 0xdc00);
	return true;
}

/* Reads behind a backslash. No character is longer than what stands for it. */
static char *escaped(struct ckpt_json *j, char *to)
{
	static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
	const char *name;
	uint32_t c;

	if (j->at == j->end || !*j->at) {
		bad(j);
		return to;
	}
	if (*j->at == 'u') {
		j->at++;
		return code_point(j, &c) ? encode(to, c) : to;
	}
	name = strchr(names, *j->at++);
	if (name)
		*to++ = values[name - names];
	else
		bad(j);
	return to;
}

char *ckpt_json_string(struct ckpt_json *j)
{
	char *begin, *to;

	if (!ckpt_json_take(j, '"'))
		return NULL;
	begin = to = j->at;
	while (!j->bad && j->at < j->end) {
		char c = *j->at++;

		if (c == '"') {
			*to = '\0';
			return begin;
		}
		if (c == '\\')
			to = escaped(j, to);
		else if ((unsigned char)c < 0x20)
			bad(j);
		else
			*to++ = c;
	}
	bad(j);
	return NULL;
}

char *ckpt_json_name(struct ckpt_json *j)
{
	char *name = ckpt_json_string(j);

	return name && ckpt_json_take(j, ':') ? name : NULL;
}

/* --- other values --- */

static bool is_digit(const struct ckpt_json *j)
{
	return j->at < j->end && *j->at >= '0' && *j->at <= '9';
}

/* True if what follows makes another kind of number of these digits. */
static bool goes_on(const struct ckpt_json *j)
{
	return j->at < j->end && *j->at && strchr(".eE+-", *j->at);
}

bool ckpt_json_number(struct ckpt_json *j, uint64_t *n)
{
	const char *begin;

	*n = 0;
	peek(j);
	begin = j->at;
	while (!j->bad && is_digit(j))
		if (__builtin_mul_overflow(*n, 10, n) ||
		    __builtin_add_overflow(*n, (uint64_t)(*j->at++ - '0'), n))
			return bad(j);
	if (j->bad || j->at == begin || (*begin == '0' && j->at - begin > 1) || goes_on(j))
		return bad(j);
	return true;
}

static bool skip_digits(struct ckpt_json *j)
{
	if (!is_digit(j))
		return bad(j);
	while (is_digit(j))
		j->at++;
	return true;
}

static bool skip_number(struct ckpt_json *j)
{
	bool zero;

	if (*j->at == '-')
		j->at++;
	zero = j->at < j->end && *j->at == '0';
	if (zero)
		j->at++;
	else if (!skip_digits(j))
		return false;
	if (j->at < j->end && *j->at == '.') {
		j->at++;
		if (!skip_digits(j))
			return false;
	}
	if (j->at < j->end && (*j->at | 0x20) == 'e') {
		j->at++;
		if (j->at < j->end && (*j->at == '+' || *j->at == '-'))
			j->at++;
		return skip_digits(j);
	}
	return zero && is_digit(j) ? bad(j) : true;
}

static bool skip_plain(struct ckpt_json *j)
{
	static const char *const words[] = {"true", "false", "null"};
	char c = peek(j);

	if (c == '"')
		return ckpt_json_string(j) != NULL;
	if (c == '-' || (c >= '0' && c <= '9'))
		return skip_number(j);
	for (unsigned i = 0; c && i < 3; i++) {
		size_t len = strlen(words[i]);

		if ((size_t)(j->end - j->at) >= len && !memcmp(j->at, words[i], len)) {
			j->at += len;
			return true;
		}
	}
	return bad(j);
}

bool ckpt_json_skip(struct ckpt_json *j)
{
	char close[CKPT_JSON_DEPTH];
	bool first[CKPT_JSON_DEPTH];
	unsigned depth = 0;

	do {
		char c = peek(j);

		if (depth && !ckpt_json_more(j, close[depth - 1], &first[depth - 1])) {
			depth--;
			continue;
		}
		if (depth && close[depth - 1] == '}' && !ckpt_json_name(j))
			return false;
		if (depth)
			c = peek(j);
		if (c != '{' && c != '[') {
			if (!skip_plain(j))
				return false;
			continue;
		}
		if (depth == CKPT_JSON_DEPTH)
			return bad(j);
		j->at++;
		close[depth] = c == '{' ? '}' : ']';
		first[depth++] = true;
	} while (depth && !j->bad);
	return !j->bad;
}
