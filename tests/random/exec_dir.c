/* SPDX-License-Identifier: MIT */
/* Directory listings, and directories that change while being listed. */
#include "randops.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHURN_FILES = 60, CHURN_NAME = 200 };

static int name_cmp(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void names_add(struct name_list *list, const char *name)
{
	list->names = xrealloc(list->names, (list->nr + 1) * sizeof(*list->names));
	list->names[list->nr] = strdup(name);
	if (!list->names[list->nr++])
		die("out of memory (a name)");
}

void names_free(struct name_list *list)
{
	size_t i;

	for (i = 0; i < list->nr; i++)
		free(list->names[i]);
	free(list->names);
	memset(list, 0, sizeof(*list));
}

static DIR *dir_open(int dirfd, const char *path)
{
	int fd = openat(dirfd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (fd >= 0 && !dir)
		close(fd);
	return dir;
}

static int dir_rest(DIR *dir, struct name_list *list)
{
	struct dirent *de;

	errno = 0;
	while ((de = readdir(dir)))
		names_add(list, de->d_name);
	return -errno;
}

static void names_sort(struct name_list *list)
{
	if (list->nr)
		qsort(list->names, list->nr, sizeof(*list->names), name_cmp);
}

int names_read(int dirfd, const char *path, struct name_list *list)
{
	DIR *dir = dir_open(dirfd, path);
	int err;

	memset(list, 0, sizeof(*list));
	if (!dir)
		return -errno;
	err = dir_rest(dir, list);
	closedir(dir);
	if (err)
		names_free(list);
	else
		names_sort(list);
	return err;
}

static void names_to_result(struct side *s, const struct name_list *list, struct result *r)
{
	size_t i, n;

	r->data = s->buf;
	r->text = true;
	for (i = 0; i < list->nr; i++) {
		n = strlen(list->names[i]);
		memcpy(s->buf + r->len, list->names[i], n);
		s->buf[r->len + n] = '\n';
		r->len += n + 1;
	}
}

/* List again from the n-th place: the same names must follow. */
static bool seek_repeats(DIR *dir, unsigned int n)
{
	struct name_list first = {0}, again = {0};
	bool same;
	size_t i;
	long place;

	rewinddir(dir);
	while (n-- && readdir(dir))
		;
	place = telldir(dir);
	dir_rest(dir, &first);
	seekdir(dir, place);
	dir_rest(dir, &again);
	same = first.nr == again.nr;
	for (i = 0; same && i < first.nr; i++)
		same = !strcmp(first.names[i], again.names[i]);
	names_free(&first);
	names_free(&again);
	return same;
}

static void do_readdir(struct side *s, const struct op *op, const char *name, struct result *r)
{
	struct name_list list = {0};
	DIR *dir = dir_open(s->rootfd, name);

	result_ret(r, dir ? 0 : -1);
	if (!dir)
		return;
	result_field(r, "errno of readdir", -dir_rest(dir, &list));
	names_sort(&list);
	names_to_result(s, &list, r);
	names_free(&list);
	result_field(r, "seekdir repeats", seek_repeats(dir, op->n));
	closedir(dir);
}

static void churn_name(char *out, char group, unsigned int i)
{
	memset(out, 'c', CHURN_NAME);
	sprintf(out + CHURN_NAME, "%c%u", group, i);
}

static unsigned int churn_make(int dirfd, char group, unsigned int nr)
{
	char name[CHURN_NAME + 16];
	unsigned int i, bad = 0;
	int fd;

	for (i = 0; i < nr; i++) {
		churn_name(name, group, i);
		fd = openat(dirfd, name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
		if (fd < 0 || close(fd))
			bad++;
	}
	return bad;
}

static unsigned int churn_remove(int dirfd, char group, unsigned int from, unsigned int step)
{
	char name[CHURN_NAME + 16];
	unsigned int i, bad = 0;

	for (i = from; i < CHURN_FILES; i += step) {
		churn_name(name, group, i);
		bad += unlinkat(dirfd, name, 0) != 0;
	}
	return bad;
}

static bool is_churned(const char *name)
{
	static const char mark[] = "cccccccccccccccccccc";
	size_t len = strlen(name);
	unsigned int i;

	if (strncmp(name, mark, sizeof(mark) - 1) || len <= CHURN_NAME)
		return false;
	i = atoi(name + CHURN_NAME + 1);
	return name[CHURN_NAME] == 'n' || i % 2; /* new, or removed */
}

static int names_until(DIR *dir, struct name_list *list, unsigned int nr)
{
	struct dirent *de;

	while (nr-- && (de = readdir(dir))) {
		if (!is_churned(de->d_name))
			names_add(list, de->d_name);
	}
	return 0;
}

/*
 * Sixty files; list part of the directory; remove every second one and add
 * others; list on. Names that were there all the time must come out exactly
 * once; they are the result. All temporary names go away again.
 */
static void do_churn(struct side *s, const struct op *op, const char *name, struct result *r)
{
	struct name_list list = {0};
	DIR *dir = dir_open(s->rootfd, name);
	unsigned int bad;

	result_ret(r, dir ? 0 : -1);
	if (!dir)
		return;
	bad = churn_make(dirfd(dir), 'o', CHURN_FILES);
	rewinddir(dir);
	names_until(dir, &list, op->seed % CHURN_FILES);
	bad += churn_remove(dirfd(dir), 'o', 1, 2);
	bad += churn_make(dirfd(dir), 'n', CHURN_FILES);
	names_until(dir, &list, UINT32_MAX);
	names_sort(&list);
	names_to_result(s, &list, r);
	names_free(&list);
	bad += churn_remove(dirfd(dir), 'n', 0, 1) + churn_remove(dirfd(dir), 'o', 0, 2);
	result_field(r, "temporary names that failed", bad);
	closedir(dir);
}

static void do_fsync_dir(struct side *s, const char *name, struct result *r)
{
	int fd = openat(s->rootfd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	result_ret(r, fd < 0 ? -1 : fsync(fd));
	if (fd >= 0)
		close(fd);
}

void exec_dir(struct side *s, const struct op *op, struct result *r)
{
	char name[NAME_TEXT_MAX];

	path_real(&op->path, name);
	if (op->kind == OP_READDIR)
		do_readdir(s, op, name, r);
	else if (op->kind == OP_CHURN)
		do_churn(s, op, name, r);
	else
		do_fsync_dir(s, name, r);
	result_lstat(r, s, &op->path);
}
