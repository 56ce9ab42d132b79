// SPDX-License-Identifier: MIT
/*
 * The script language: one step is a verb and its words. Words are separated
 * by blanks; '' is the empty word. Inside a word {n255} stands for a name of
 * so many bytes, {deep} for a path longer than PATH_MAX, {raw} for bytes that
 * are no UTF-8, {cwd} for the absolute path of the working directory.
 */
#include "posixcmp.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define MAX_WORDS 12
#define WORD_MAX  6000

static const struct verb *const verb_tables[] = {
	name_verbs, file_verbs, attr_verbs, dir_verbs, proc_verbs,
};

const struct flag open_flags[] = {
	{"RDONLY", O_RDONLY},	  {"WRONLY", O_WRONLY},
	{"RDWR", O_RDWR},	  {"CREAT", O_CREAT},
	{"EXCL", O_EXCL},	  {"TRUNC", O_TRUNC},
	{"APPEND", O_APPEND},	  {"DIRECTORY", O_DIRECTORY},
	{"NOFOLLOW", O_NOFOLLOW}, {"PATH", O_PATH},
	{"NOATIME", O_NOATIME},	  {"TMPFILE", O_TMPFILE},
	{"NONBLOCK", O_NONBLOCK}, {"SYNC", O_SYNC},
	{"DSYNC", O_DSYNC},	  {NULL, 0},
};

const struct flag at_flags[] = {
	{"NOFOLLOW", AT_SYMLINK_NOFOLLOW}, {"FOLLOW", AT_SYMLINK_FOLLOW},
	{"REMOVEDIR", AT_REMOVEDIR},	   {"EACCESS", AT_EACCESS},
	{"EMPTY_PATH", AT_EMPTY_PATH},	   {NULL, 0},
};

/* ---- answers ---- */

void say(struct ctx *c, const char *fmt, ...)
{
	size_t room = sizeof(c->out) - c->len;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(c->out + c->len, room, fmt, ap);
	va_end(ap);
	if (n > 0)
		c->len += (size_t)n < room ? (size_t)n : room - 1;
}

const char *errno_name(int err)
{
	const char *name = strerrorname_np(err);

	return name ? name : "an unknown error";
}

void say_ret(struct ctx *c, long ret)
{
	if (ret == -1) {
		c->failed = true;
		say(c, "%s", errno_name(errno));
	} else {
		say(c, "%ld", ret);
	}
}

void say_bytes(struct ctx *c, const void *p, size_t len)
{
	const unsigned char *b = p;
	unsigned long long sum = 0xcbf29ce484222325ULL;
	size_t i;

	if (len > 48) {
		for (i = 0; i < len; i++)
			sum = (sum ^ b[i]) * 0x100000001b3ULL;
		say(c, " %zu bytes, sum %llx", len, sum);
		return;
	}
	say(c, " \"");
	for (i = 0; i < len; i++)
		say(c, isprint(b[i]) ? "%c" : "\\%03o", b[i]);
	say(c, "\"");
}

static const char *type_name(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
		return "file";
	case S_IFDIR:
		return "directory";
	case S_IFLNK:
		return "symlink";
	case S_IFIFO:
		return "fifo";
	case S_IFSOCK:
		return "socket";
	case S_IFCHR:
		return "char-device";
	case S_IFBLK:
		return "block-device";
	default:
		return "unknown-type";
	}
}

void say_stat(struct ctx *c, const struct stat *st)
{
	say(c, "%s %04o %u:%u", type_name(st->st_mode), st->st_mode & 07777, st->st_uid,
	    st->st_gid);
	if (S_ISREG(st->st_mode) || S_ISLNK(st->st_mode))
		say(c, " size=%lld", (long long)st->st_size);
	if (S_ISCHR(st->st_mode) || S_ISBLK(st->st_mode))
		say(c, " dev=%u:%u", major(st->st_rdev), minor(st->st_rdev));
	say(c, " nlink=%lu", (unsigned long)st->st_nlink);
}

/* ---- arguments ---- */

static void bad_word(struct ctx *c, const char *what, const char *w)
{
	c->bad = true;
	say(c, "[not %s: %s]", what, w ? w : "(missing)");
}

static bool flag_find(const struct flag *t, const char *w, size_t len, unsigned long *value)
{
	for (; t->name; t++)
		if (strlen(t->name) == len && !memcmp(t->name, w, len)) {
			*value = t->value;
			return true;
		}
	return false;
}

unsigned long arg_flags(struct ctx *c, const struct flag *t, const char *w)
{
	unsigned long sum = 0, one;

	for (; w && *w; w += w[0] == '|') {
		size_t len = strcspn(w, "|");
		char *end;

		if (!flag_find(t, w, len, &one)) {
			one = strtoul(w, &end, 0);
			if (end != w + len || !len)
				bad_word(c, "a flag of this call", w);
		}
		sum |= one;
		w += len;
	}
	return sum;
}

long long arg_num(struct ctx *c, const char *w)
{
	static const char units[] = "kMGT";
	const char *unit;
	long long n;
	char *end;

	n = strtoll(w, &end, 0);
	if (end == w) {
		bad_word(c, "a number", w);
		return 0;
	}
	unit = *end ? strchr(units, *end) : NULL;
	if (unit)
		n *= 1LL << (10 * (unit - units + 1));
	else if (*end)
		bad_word(c, "a number", w);
	return n;
}

mode_t arg_mode(struct ctx *c, const char *w)
{
	char *end;
	unsigned long m = strtoul(w ? w : "", &end, 8);

	if (!w || end == w || *end)
		bad_word(c, "an octal mode", w);
	return m;
}

int arg_slot(struct ctx *c, const char *w)
{
	if (w[0] >= '0' && w[0] <= '9' && !w[1])
		return w[0] - '0';
	bad_word(c, "a slot 0..9", w);
	return 0;
}

int arg_fd(struct ctx *c, const char *w)
{
	return c->fd[arg_slot(c, w)];
}

void slot_set(struct ctx *c, int slot, int fd)
{
	int saved = errno;

	if (c->fd[slot] >= 0)
		close(c->fd[slot]);
	c->fd[slot] = fd;
	errno = saved;
}

/* ---- words ---- */

struct buf {
	char *p;
	size_t len, cap;
};

static void buf_fill(struct buf *b, char ch, size_t n)
{
	while (n-- && b->len + 1 < b->cap)
		b->p[b->len++] = ch;
	b->p[b->len] = 0;
}

static void buf_text(struct buf *b, const char *s)
{
	for (; *s; s++)
		buf_fill(b, *s, 1);
}

/* @s is after the brace. False: no such placeholder. */
static bool placeholder(struct buf *b, const char *s, size_t len)
{
	char cwd[PATH_MAX];
	int i;

	if (len > 1 && s[0] == 'n') {
		buf_fill(b, 'n', strtoul(s + 1, NULL, 10));
	} else if (len == 4 && !memcmp(s, "deep", 4)) {
		for (i = 0; i < 2100; i++)
			buf_text(b, "./");
		buf_text(b, "x");
	} else if (len == 3 && !memcmp(s, "raw", 3)) {
		buf_text(b, "\xff\xfe\x80\xc3(");
	} else if (len == 3 && !memcmp(s, "cwd", 3)) {
		buf_text(b, getcwd(cwd, sizeof(cwd)) ? cwd : "/nowhere");
	} else {
		return false;
	}
	return true;
}

static char *expand(struct ctx *c, const char *w, size_t len)
{
	struct buf b = {malloc(WORD_MAX), 0, WORD_MAX};
	const char *end = w + len;

	if (!b.p)
		abort();
	b.p[0] = 0;
	if (len == 2 && !memcmp(w, "''", 2))
		return b.p;
	while (w < end) {
		const char *close = *w == '{' ? memchr(w, '}', end - w) : NULL;

		if (!close) {
			buf_fill(&b, *w++, 1);
			continue;
		}
		if (!placeholder(&b, w + 1, close - w - 1))
			bad_word(c, "a placeholder", w);
		w = close + 1;
	}
	return b.p;
}

static int split(struct ctx *c, const char *s, char **words)
{
	int n = 0;

	for (;;) {
		size_t len;

		s += strspn(s, " \t");
		if (!*s)
			break;
		len = strcspn(s, " \t");
		if (n == MAX_WORDS) {
			bad_word(c, "so few words", s);
			break;
		}
		words[n++] = expand(c, s, len);
		s += len;
	}
	words[n] = NULL;
	return n;
}

/* ---- verbs ---- */

static const struct verb *verb_find(const char *name)
{
	const struct verb *v;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(verb_tables); i++)
		for (v = verb_tables[i]; v->name; v++)
			if (!strcmp(v->name, name))
				return v;
	return NULL;
}

/* Counts the words of @args; "..." after a word permits any number. */
static bool arity_ok(const char *args, int nr)
{
	int min = 0, max = 0;

	if (strstr(args, "..."))
		max = MAX_WORDS;
	for (args += strspn(args, " "); *args; args += strspn(args, " ")) {
		min += *args != '[';
		max++;
		args += strcspn(args, " ");
	}
	return nr >= min && nr <= max;
}

void step_run(struct ctx *c, const char *step)
{
	char *words[MAX_WORDS + 1];
	const struct verb *v;
	int n, i;

	c->len = 0;
	c->out[0] = 0;
	c->failed = false;
	c->bad = false;
	n = split(c, step, words);
	v = n ? verb_find(words[0]) : NULL;
	if (!v)
		bad_word(c, "a verb", n ? words[0] : "");
	else if (!arity_ok(v->args, n - 1))
		bad_word(c, "the right number of words", step);
	else if (!c->bad)
		v->run(c, words + 1);
	for (i = 0; i < n; i++)
		free(words[i]);
}

void verbs_print_help(void)
{
	const struct verb *v;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(verb_tables); i++)
		for (v = verb_tables[i]; v->name; v++)
			printf("  %-10s %-30s %s\n", v->name, v->args, v->help);
}

void ctx_init(struct ctx *c)
{
	int i;

	memset(c, 0, sizeof(*c));
	for (i = 0; i < NR_SLOTS; i++)
		c->fd[i] = -1;
}
