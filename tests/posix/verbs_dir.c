// SPDX-License-Identifier: MIT
/* Verbs that read directories or work on whole ones. */
#include "posixcmp.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_NAMES 2048

struct names {
	char *name[MAX_NAMES];
	size_t nr;
};

static const char *dtype_name(unsigned char t)
{
	switch (t) {
	case DT_REG:
		return "f";
	case DT_DIR:
		return "d";
	case DT_LNK:
		return "l";
	case DT_FIFO:
		return "p";
	case DT_SOCK:
		return "s";
	case DT_CHR:
		return "c";
	case DT_BLK:
		return "b";
	default:
		return "?";
	}
}

/* Reads from here to the end. False: readdir gave an error. */
static bool names_read(struct names *n, DIR *d)
{
	struct dirent *e;
	char text[300];

	for (;;) {
		errno = 0;
		e = readdir(d);
		if (!e)
			return !errno;
		if (n->nr == MAX_NAMES)
			return false;
		snprintf(text, sizeof(text), "%s:%s", e->d_name, dtype_name(e->d_type));
		n->name[n->nr++] = strdup(text);
	}
}

static int cmp(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void names_say(struct ctx *c, struct names *n)
{
	size_t i;

	qsort(n->name, n->nr, sizeof(n->name[0]), cmp);
	say(c, "%zu", n->nr);
	for (i = 0; i < n->nr && n->nr < 40; i++)
		say(c, " %s", n->name[i]);
	for (i = 0; i < n->nr; i++)
		free(n->name[i]);
	n->nr = 0;
}

static void rest(struct ctx *c, DIR *d)
{
	static struct names n;

	if (!names_read(&n, d))
		say_ret(c, -1);
	names_say(c, &n);
}

static void v_ls(struct ctx *c, char **w)
{
	DIR *d = opendir(w[0]);

	if (!d) {
		say_ret(c, -1);
		return;
	}
	rest(c, d);
	closedir(d);
}

static void v_opendir(struct ctx *c, char **w)
{
	int slot = arg_slot(c, w[0]);

	c->dir[slot] = opendir(w[1]);
	if (c->dir[slot])
		say(c, "ok");
	else
		say_ret(c, -1);
}

/* The directory of a slot; without one the step is bad. */
static DIR *arg_dir(struct ctx *c, const char *w)
{
	DIR *d = c->dir[arg_slot(c, w)];

	if (!d) {
		c->bad = true;
		say(c, "[no directory is open in slot %s]", w);
	}
	return d;
}

static void v_rest(struct ctx *c, char **w)
{
	DIR *d = arg_dir(c, w[0]);

	if (d)
		rest(c, d);
}

static void v_skip(struct ctx *c, char **w)
{
	DIR *d = arg_dir(c, w[0]);
	long n = arg_num(c, w[1]);

	while (d && n-- && readdir(d))
		;
	say(c, "0");
}

static void v_rewinddir(struct ctx *c, char **w)
{
	DIR *d = arg_dir(c, w[0]);

	if (d) {
		rewinddir(d);
		say(c, "0");
	}
}

/* Goes back to every position of @d, last first: is the name the same? */
static bool positions_hold(DIR *d, const long *pos, struct names *n)
{
	struct dirent *e;
	size_t i;

	for (i = n->nr; i--;) {
		seekdir(d, pos[i]);
		e = readdir(d);
		if (!e || strcmp(e->d_name, n->name[i]))
			return false;
	}
	return true;
}

static void v_seekcheck(struct ctx *c, char **w)
{
	static struct names n;
	static long pos[MAX_NAMES];
	DIR *d = opendir(w[0]);
	struct dirent *e;

	if (!d) {
		say_ret(c, -1);
		return;
	}
	for (n.nr = 0; n.nr < MAX_NAMES; n.name[n.nr++] = strdup(e->d_name)) {
		pos[n.nr] = telldir(d);
		e = readdir(d);
		if (!e)
			break;
	}
	say(c, "%zu names, positions %s", n.nr,
	    positions_hold(d, pos, &n) ? "hold" : "do not hold");
	closedir(d);
	while (n.nr)
		free(n.name[--n.nr]);
}

static void v_many(struct ctx *c, char **w)
{
	long n = arg_num(c, w[1]), i;
	char path[512];
	int fd;

	for (i = 0; i < n; i++) {
		snprintf(path, sizeof(path), "%s/file-%05ld", w[0], i);
		fd = open(path, O_WRONLY | O_CREAT, 0644);
		if (fd < 0) {
			say_ret(c, -1);
			return;
		}
		close(fd);
	}
	say(c, "%ld", n);
}

static void v_empty(struct ctx *c, char **w)
{
	DIR *d = opendir(w[0]);
	struct dirent *e;
	long n = 0;

	if (!d) {
		say_ret(c, -1);
		return;
	}
	while ((e = readdir(d)))
		if (e->d_name[0] != '.')
			n += !unlinkat(dirfd(d), e->d_name, 0);
	closedir(d);
	say(c, "%ld", n);
}

/* rm -rf; opens up directories that forbid it to their owner. */
static int tree_remove(int parent, const char *name)
{
	int fd, ret = 0;
	struct dirent *e;
	DIR *d;

	if (!unlinkat(parent, name, 0))
		return 0;
	fchmodat(parent, name, 0700, 0);
	fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
	d = fd < 0 ? NULL : fdopendir(fd);
	if (!d)
		return -1;
	while ((e = readdir(d)))
		if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
			ret |= tree_remove(fd, e->d_name);
	closedir(d);
	return unlinkat(parent, name, AT_REMOVEDIR) ? -1 : ret;
}

static void v_rmtree(struct ctx *c, char **w)
{
	say_ret(c, tree_remove(AT_FDCWD, w[0]));
}

const struct verb dir_verbs[] = {
	{"ls", "PATH", "all names with their d_type", v_ls},
	{"opendir", "SLOT PATH", "directories have slots of their own", v_opendir},
	{"skip", "SLOT N", "readdir N times", v_skip},
	{"rest", "SLOT", "readdir to the end", v_rest},
	{"rewinddir", "SLOT", "", v_rewinddir},
	{"seekcheck", "PATH", "telldir, then seekdir to each", v_seekcheck},
	{"many", "PATH N", "N empty files", v_many},
	{"empty", "PATH", "delete while reading", v_empty},
	{"rmtree", "PATH", "", v_rmtree},
	{NULL, NULL, NULL, NULL},
};
