/* SPDX-License-Identifier: MIT */
/* Compares two whole trees: names, attributes, contents, xattrs. */
#include "randops.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { CHUNK = 1 << 20, XATTR_MAX = 65536, PATHS_MAX = 65536 };

void diff_set(struct diff *d, const char *what, const char *expected, const char *got)
{
	d->found = true;
	snprintf(d->what, sizeof(d->what), "%.250s", what);
	snprintf(d->expected, sizeof(d->expected), "%.1000s", expected);
	snprintf(d->got, sizeof(d->got), "%.1000s", got);
}

/* Both places being compared; a and b grow and shrink with the walk. */
struct walk {
	char *a, *b;
	size_t a_root;
	bool dir_nlink, sticky_mtime;
	unsigned char *data[2];
	struct diff *d;
};

/* The walk's path below the root, unprintable bytes as \xNN. */
static void walk_where(const struct walk *w, char *out, size_t size)
{
	const unsigned char *in = (const unsigned char *)w->a + w->a_root;
	size_t len = 0;

	while (*in == '/')
		in++;
	if (!*in)
		len += snprintf(out, size, ".");
	for (; *in && len + 8 < size; in++)
		len += sprintf(out + len, *in > ' ' && *in < 127 ? "%c" : "\\x%02x", *in);
	out[len] = '\0';
}

static void walk_diff(struct walk *w, const char *what, long long expected, long long got)
{
	char where[180], text[256], e[32], g[32];

	walk_where(w, where, sizeof(where));
	snprintf(text, sizeof(text), "tree: %s of %s", what, where);
	snprintf(e, sizeof(e), "%lld", expected);
	snprintf(g, sizeof(g), "%lld", got);
	diff_set(w->d, text, e, g);
}

static bool same(struct walk *w, const char *what, long long expected, long long got)
{
	if (expected != got)
		walk_diff(w, what, expected, got);
	return expected == got;
}

static ssize_t read_full(int fd, unsigned char *buf, size_t len)
{
	size_t done = 0;
	ssize_t n = 0;

	while (done < len && (n = read(fd, buf + done, len - done)) > 0)
		done += n;
	return n < 0 ? -errno : (ssize_t)done;
}

static size_t first_diff(const unsigned char *a, const unsigned char *b, size_t len)
{
	size_t i;

	for (i = 0; i < len && a[i] == b[i]; i++)
		;
	return i;
}

static void compare_fds(struct walk *w, int fa, int fb)
{
	ssize_t na, nb;
	off_t off = 0;
	size_t at;
	char what[64];

	do {
		na = read_full(fa, w->data[0], CHUNK);
		nb = read_full(fb, w->data[1], CHUNK);
		if (!same(w, "bytes read", nb, na))
			return;
		if (nb <= 0)
			return;
		at = first_diff(w->data[0], w->data[1], nb);
		if (at < (size_t)nb) {
			snprintf(what, sizeof(what), "byte %lld", (long long)off + at);
			walk_diff(w, what, w->data[1][at], w->data[0][at]);
			return;
		}
		off += nb;
	} while (nb == CHUNK);
}

static void compare_contents(struct walk *w)
{
	int fa = open(w->a, O_RDONLY | O_CLOEXEC), ea = fa < 0 ? errno : 0;
	int fb = open(w->b, O_RDONLY | O_CLOEXEC), eb = fb < 0 ? errno : 0;

	if (same(w, "errno of opening", eb, ea) && !eb)
		compare_fds(w, fa, fb);
	if (fa >= 0)
		close(fa);
	if (fb >= 0)
		close(fb);
}

static void compare_links(struct walk *w)
{
	char ta[4096], tb[4096];
	ssize_t na = readlink(w->a, ta, sizeof(ta) - 1);
	ssize_t nb = readlink(w->b, tb, sizeof(tb) - 1);

	if (!same(w, "length of the target", nb, na) || nb < 0)
		return;
	ta[na] = tb[nb] = '\0';
	if (strcmp(ta, tb))
		diff_set(w->d, "tree: target of a symbolic link", tb, ta);
}

static int text_cmp(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The user.* names, sorted, each followed by a newline; length or -1. */
ssize_t xattr_list_sorted(const char *path, char *out, size_t size)
{
	static char raw[XATTR_MAX];
	char *names[256];
	size_t nr = 0, i, len = 0;
	ssize_t got = listxattr(path, raw, sizeof(raw));
	char *p;

	if (got < 0)
		return -1;
	for (p = raw; p < raw + got && nr < 256; p += strlen(p) + 1) {
		if (!strncmp(p, "user.", 5))
			names[nr++] = p;
	}
	qsort(names, nr, sizeof(*names), text_cmp);
	for (i = 0; i < nr && len < size; i++)
		len += snprintf(out + len, size - len, "%s\n", names[i]);
	return len;
}

static void compare_xattrs(struct walk *w)
{
	static char la[XATTR_MAX], lb[XATTR_MAX], va[XATTR_MAX], vb[XATTR_MAX];
	ssize_t na = xattr_list_sorted(w->a, la, sizeof(la)), nb;
	char *name, *save = NULL;

	nb = xattr_list_sorted(w->b, lb, sizeof(lb));
	if (nb < 0 || na < 0) /* one of them cannot: the ops say so, if asked */
		return;
	if (na != nb || memcmp(la, lb, nb)) {
		la[na] = lb[nb] = '\0';
		walk_diff(w, "extended attributes", 0, 0);
		diff_set(w->d, strdupa(w->d->what), lb, la);
		return;
	}
	for (name = strtok_r(lb, "\n", &save); name; name = strtok_r(NULL, "\n", &save)) {
		na = getxattr(w->a, name, va, sizeof(va));
		nb = getxattr(w->b, name, vb, sizeof(vb));
		if (!same(w, "length of an xattr value", nb, na))
			return;
		if (nb > 0 && memcmp(va, vb, nb)) {
			walk_diff(w, "xattr value (first bytes)", vb[0], va[0]);
			return;
		}
	}
}

static bool compare_stat(struct walk *w, struct stat *st)
{
	struct stat sa;
	int ea = lstat(w->a, &sa) ? errno : 0, eb = lstat(w->b, st) ? errno : 0;

	if (!same(w, "errno of lstat", eb, ea) || eb)
		return false;
	if (!same(w, "file type", st->st_mode & S_IFMT, sa.st_mode & S_IFMT))
		return false;
	if (!S_ISLNK(st->st_mode) && !same(w, "mode", st->st_mode & 07777, sa.st_mode & 07777))
		return false;
	if (w->sticky_mtime &&
	    !same(w, "mtime (ns, or touched)", stat_mtime_class(st), stat_mtime_class(&sa)))
		return false;
	if (S_ISDIR(st->st_mode))
		return !w->dir_nlink || same(w, "nlink", st->st_nlink, sa.st_nlink);
	return same(w, "nlink", st->st_nlink, sa.st_nlink) &&
	       same(w, "size", st->st_size, sa.st_size);
}

static void names_diff(struct walk *w, const struct name_list *la, const struct name_list *lb)
{
	size_t i = 0;

	while (i < la->nr && i < lb->nr && !strcmp(la->names[i], lb->names[i]))
		i++;
	walk_diff(w, "listing", lb->nr, la->nr);
	snprintf(w->d->expected, sizeof(w->d->expected), "%zu names, first other: %.200s", lb->nr,
		 i < lb->nr ? lb->names[i] : "(none)");
	snprintf(w->d->got, sizeof(w->d->got), "%zu names, first other: %.200s", la->nr,
		 i < la->nr ? la->names[i] : "(none)");
}

static bool names_same(const struct name_list *la, const struct name_list *lb)
{
	size_t i;

	if (la->nr != lb->nr)
		return false;
	for (i = 0; i < la->nr; i++) {
		if (strcmp(la->names[i], lb->names[i]))
			return false;
	}
	return true;
}

static void compare_any(struct walk *w);

static void compare_entry(struct walk *w, const char *name)
{
	size_t la = strlen(w->a), lb = strlen(w->b);

	if (la + strlen(name) + 2 > PATHS_MAX || lb + strlen(name) + 2 > PATHS_MAX)
		return;
	strcat(strcat(w->a, "/"), name);
	strcat(strcat(w->b, "/"), name);
	compare_any(w);
	w->a[la] = '\0';
	w->b[lb] = '\0';
}

static void compare_dirs(struct walk *w)
{
	struct name_list la, lb;
	int ea = names_read(AT_FDCWD, w->a, &la), eb = names_read(AT_FDCWD, w->b, &lb);
	size_t i;

	if (same(w, "error of listing", eb, ea) && !eb) {
		if (!names_same(&la, &lb))
			names_diff(w, &la, &lb);
		for (i = 0; i < lb.nr && !w->d->found; i++) {
			if (strcmp(lb.names[i], ".") && strcmp(lb.names[i], ".."))
				compare_entry(w, lb.names[i]);
		}
	}
	names_free(&la);
	names_free(&lb);
}

static void compare_any(struct walk *w)
{
	struct stat st;

	if (!compare_stat(w, &st))
		return;
	if (S_ISLNK(st.st_mode)) {
		compare_links(w);
		return;
	}
	compare_xattrs(w);
	if (w->d->found)
		return;
	if (S_ISDIR(st.st_mode))
		compare_dirs(w);
	else if (S_ISREG(st.st_mode))
		compare_contents(w);
}

void tree_compare(const char *a, const char *b, const struct config *cfg, struct diff *d)
{
	struct walk w = {.a_root = strlen(a), .d = d};

	w.dir_nlink = has_feat(cfg, FEAT_DIR_NLINK);
	w.sticky_mtime = has_feat(cfg, FEAT_STICKY_MTIME);
	w.a = strcpy(xmalloc(PATHS_MAX), a);
	w.b = strcpy(xmalloc(PATHS_MAX), b);
	w.data[0] = xmalloc(CHUNK);
	w.data[1] = xmalloc(CHUNK);
	compare_any(&w);
	free(w.a);
	free(w.b);
	free(w.data[0]);
	free(w.data[1]);
}
