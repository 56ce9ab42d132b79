/* SPDX-License-Identifier: MIT */
/*
 * What ranks, and people, do to single files and directories, and what they must find there. Each
 * line is one act of a process: what it finds is compared at once, as the process sees it on its
 * node.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "tests/sim/rank.h"
#include "tests/sim/world.h"

#define COME_NS (60 * NSEC_PER_SEC) /* in which another node's change must be seen */
#define DEPTH	4

static int put(struct rank *r, const char *path, const char *text, int flags, bool at_end)
{
	struct opened o;
	int err = call_open(&r->proc, path, O_WRONLY | O_CREAT | flags, &o), closed;

	if (err)
		return err;
	err = call_write(&o, text, strlen(text), at_end ? call_size(&o) : 0);
	closed = call_close(&o);
	return err ? err : closed;
}

int rank_write_text(struct rank *r, const char *path, const char *text)
{
	return put(r, path, text, O_TRUNC, false);
}

static void add_name(void *arg, const char *name, bool directory)
{
	char(*names)[64] = arg;
	unsigned i;

	(void)directory;
	if (!strncmp(name, ".ckptfs", 7))
		return;
	for (i = 0; i < NAMES_MAX - 1 && *names[i]; i++)
		;
	snprintf(names[i], 64, "%s", name);
	if (i == NAMES_MAX - 1)
		*names[i] = '\0';
}

int rank_list(struct rank *r, const char *path, char names[NAMES_MAX][64])
{
	memset(names, 0, NAMES_MAX * 64);
	return call_list(&r->proc, path, add_name, names);
}

/* --- to change --- */

/* Splits "X WORD Y" at @word: X, at most @size bytes, and Y. NULL: it is not of that form. */
static const char *split(const char *text, const char *word, char *first, size_t size)
{
	const char *at = strstr(text, word);

	if (!at)
		return NULL;
	snprintf(first, size, "%.*s", (int)(at - text), text);
	return at + strlen(word);
}

/* "120000 bytes" is so many of them; else @words is the content. Malloced. */
static char *content_of(const char *words)
{
	unsigned nr;
	int end = 0;
	char *text;

	if (sscanf(words, "%u bytes%n", &nr, &end) != 1 || !end || nr > SAVE_FILE_MAX)
		return strdup(words);
	text = malloc((size_t)nr + 1);
	memset(text, 'x', nr);
	text[nr] = '\0';
	return text;
}

static int do_put(struct rank *r, const char *object)
{
	char words[64] = "";
	const char *path = split(object, " into ", words, sizeof(words));
	__cleanup_free char *text = content_of(words);

	return path ? put(r, path, text, O_TRUNC, false) : -EBADMSG;
}

static int do_append(struct rank *r, const char *object)
{
	char text[64];
	const char *path = split(object, " to ", text, sizeof(text));

	return path ? put(r, path, text, 0, true) : -EBADMSG;
}

static int do_rename(struct rank *r, const char *object)
{
	char from[96];
	const char *to = split(object, " to ", from, sizeof(from));

	return to ? call_rename(&r->proc, from, to) : -EBADMSG;
}

static int do_open(struct rank *r, const char *path)
{
	int err = call_open(&r->proc, path, O_WRONLY | O_CREAT, &r->file);

	r->file_open = !err;
	return err;
}

static int do_write_to_it(struct rank *r, const char *text)
{
	return r->file_open ? call_write(&r->file, text, strlen(text), call_size(&r->file))
			    : -EBADF;
}

static int do_close(struct rank *r, const char *unused)
{
	(void)unused;
	if (!r->file_open)
		return -EBADF;
	r->file_open = false;
	return call_close(&r->file);
}

/* mkdir -p */
static int do_make(struct rank *r, const char *path)
{
	char part[96];
	const char *slash = path - 1;
	int err;

	do {
		slash = strchrnul(slash + 1, '/');
		snprintf(part, sizeof(part), "%.*s", (int)(slash - path), path);
		err = call_mkdir(&r->proc, part);
	} while ((!err || err == -EEXIST) && *slash);
	return err == -EEXIST ? 0 : err;
}

static int do_delete(struct rank *r, const char *path)
{
	return call_unlink(&r->proc, path);
}

/* rm -rf */
static int remove_tree(struct rank *r, const char *path, unsigned depth)
{
	__cleanup_free char(*names)[64] = calloc(NAMES_MAX, 64);
	char below[160];
	int err = rank_list(r, path, names);
	unsigned i;

	for (i = 0; !err && *names[i]; i++) {
		snprintf(below, sizeof(below), "%s/%s", path, names[i]);
		err = call_unlink(&r->proc, below);
		if (err == -EISDIR && depth < DEPTH)
			err = remove_tree(r, below, depth + 1);
		err = err == -ENOENT ? 0 : err;
	}
	err = err ? err : call_rmdir(&r->proc, path);
	return err == -ENOENT ? 0 : err;
}

static int do_remove(struct rank *r, const char *path)
{
	return remove_tree(r, path, 0);
}

/* --- pointers --- */

static int do_point(struct rank *r, const char *unit)
{
	return rank_write_text(r, "latest", unit);
}

static int do_point_by_rename(struct rank *r, const char *unit)
{
	char temp[32];
	int err;

	snprintf(temp, sizeof(temp), "latest.new.%u", r->nr);
	err = rank_write_text(r, temp, unit);
	return err ? err : call_rename(&r->proc, temp, "latest");
}

static int do_point_by_link(struct rank *r, const char *unit)
{
	char temp[32];
	int err;

	snprintf(temp, sizeof(temp), "last.new.%u", r->nr);
	err = call_symlink(&r->proc, unit, temp);
	return err ? err : call_rename(&r->proc, temp, "last.ckpt");
}

/* --- to find --- */

/* In any order: the names in @want, which has a space between two. */
static bool same_names(char names[NAMES_MAX][64], const char *want)
{
	char have[NAMES_MAX * 64] = " ", word[66];
	unsigned i, nr = 0;
	int len;

	for (i = 0; *names[i]; i++)
		snprintf(have + strlen(have), sizeof(have) - strlen(have), "%s ", names[i]);
	for (; sscanf(want, "%63s%n", word + 1, &len) == 1; want += len, nr++) {
		*word = ' ';
		strcat(word, " ");
		if (!strstr(have, word))
			return false;
	}
	return nr == i;
}

static int do_list(struct rank *r, const char *object)
{
	__cleanup_free char(*names)[64] = calloc(NAMES_MAX, 64);
	char want[96], have[NAMES_MAX * 65] = "";
	const char *path = split(object, " in ", want, sizeof(want));
	unsigned i;
	int err;

	if (!path)
		return -EBADMSG;
	if (!strcmp(path, "the top"))
		path = "";
	err = rank_list(r, path, names);
	if (err || same_names(names, strcmp(want, "nothing") ? want : ""))
		return err;
	for (i = 0; *names[i]; i++)
		snprintf(have + strlen(have), sizeof(have) - strlen(have), " %s", names[i]);
	wrong("expected: %c%u lists %s in '%s', not%s", r->job->name, r->nr, want, path, have);
	return 0;
}

static int do_look(struct rank *r, const char *path)
{
	int err = call_look(&r->proc, path);

	return err == -ENOENT ? 0 : err;
}

static int do_find(struct rank *r, const char *path)
{
	bool none = !strncmp(path, "no ", 3);
	int err;

	path += none ? 3 : 0;
	err = call_look(&r->proc, path);
	if (err && err != -ENOENT)
		return err;
	if (none != (err == -ENOENT))
		wrong("expected: %c%u finds %s%s", r->job->name, r->nr, none ? "no " : "", path);
	return 0;
}

/* What another node does may take a moment. */
static int do_come_to_find(struct rank *r, const char *path)
{
	bool none = !strncmp(path, "no ", 3);
	uint64_t until = sched_now() + COME_NS;
	int err;

	while (!r->killed) {
		err = call_look(&r->proc, path + (none ? 3 : 0));
		if (err && err != -ENOENT)
			return err;
		if (none == (err == -ENOENT))
			return 0;
		if (sched_now() >= until) {
			wrong("expected: %c%u finds %s in the end", r->job->name, r->nr, path);
			return 0;
		}
		sched_sleep(20 * NSEC_PER_MSEC);
	}
	return -EINTR;
}

static int do_read(struct rank *r, const char *object)
{
	__cleanup_free char *buf = calloc(1, SAVE_FILE_MAX + 1);
	char words[64] = "";
	const char *path = split(object, " in ", words, sizeof(words));
	__cleanup_free char *want = content_of(words);
	ssize_t len;

	if (!path)
		return -EBADMSG;
	len = call_read(&r->proc, path, buf, SAVE_FILE_MAX);
	if (len < 0)
		return (int)len;
	if (strcmp(buf, want) != 0)
		wrong("expected: %c%u reads %s in %s, not '%.60s' (%zd bytes)", r->job->name, r->nr,
		      words, path, buf, len);
	return 0;
}

static int do_read_whole(struct rank *r, const char *path)
{
	__cleanup_free char *buf = malloc(SAVE_FILE_MAX);
	ssize_t len = call_read(&r->proc, path, buf, SAVE_FILE_MAX);
	struct made_by by;

	if (len < 0)
		return (int)len;
	if (!save_whole(buf, (size_t)len, &by))
		wrong("expected: %c%u reads all of %s, not these %zd bytes", r->job->name, r->nr,
		      path, len);
	return 0;
}

static int do_nothing(struct rank *r, const char *object)
{
	unsigned long long seconds = strtoull(object, NULL, 10);
	uint64_t until = sched_now() + seconds * NSEC_PER_SEC;

	if (seconds >= COMMIT_TIMEOUT_S)
		rank_stays_away(r);
	while (!r->killed && sched_now() < until)
		sched_wait(r, until);
	return r->killed ? -EINTR : 0;
}

static const struct verb verbs[] = {
	{"puts ", do_put},
	{"appends ", do_append},
	{"renames ", do_rename},
	{"opens ", do_open},
	{"writes into it ", do_write_to_it},
	{"closes it", do_close},
	{"makes ", do_make},
	{"deletes ", do_delete},
	{"removes ", do_remove},
	{"points by a rename to ", do_point_by_rename},
	{"points by a link to ", do_point_by_link},
	{"points to ", do_point},
	{"lists ", do_list},
	{"looks at ", do_look},
	{"finds ", do_find},
	{"comes to find ", do_come_to_find},
	{"reads all of ", do_read_whole},
	{"reads ", do_read},
	{"is busy for ", do_nothing},
};

const struct verb *verb_of_file(const char *what)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(verbs); i++)
		if (!strncmp(what, verbs[i].text, strlen(verbs[i].text)))
			return &verbs[i];
	return NULL;
}
