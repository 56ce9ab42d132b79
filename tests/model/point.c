/* SPDX-License-Identifier: MIT */
#include "tests/model/point.h"

#include "tests/model/calls.h"
#include "tests/model/look.h"

#define POINTER	     "run/latest"
#define POINTER_TEMP "run/latest.tmp"
#define WRITES_MAX   OPS_MAX

static struct written {
	unsigned unit;
	bool unknown;
	bool free; /* it named nothing, or what was committed: it is applied at once */
} writes[WRITES_MAX];
static int nr_writes, shown; /* the last that was seen on the backing; -1: none */

void point_begin(void)
{
	nr_writes = 0;
	shown = -1;
}

static int write_to(pid_t pid, const char *path, const char *text)
{
	struct opened o;
	int err = call_open(pid, path, O_WRONLY | O_CREAT | O_TRUNC, &o), close_err;

	if (err)
		return err;
	err = call_write(pid, &o, text, strlen(text), 0);
	close_err = call_close(pid, &o);
	return err ? err : close_err;
}

void point_write(unsigned who, unsigned u, bool by_rename)
{
	pid_t pid = ref.procs[who].pid;
	const char *name = name_of(NAME_UNIT(u)) + strlen("run/");
	const struct unit *n = &ref.units[u];
	/* It was begun once, and is not there: if it has failed, what names it is dropped. */
	bool lost = n->ever && !n->committed && !(n->pending && n->claimed);
	int err;

	if (nr_writes == WRITES_MAX)
		return;
	writes[nr_writes++] = (struct written){
		.unit = u,
		.free = !lost && (!n->pending || !(n->claimed || n->committed)),
		.unknown = lost,
	};
	err = write_to(pid, by_rename ? POINTER_TEMP : POINTER, name);
	if (!err && by_rename)
		err = call_rename(pid, POINTER_TEMP, POINTER);
	if (err)
		wrong("writing %s: %s", POINTER, strerror(-err));
}

bool point_waits(void)
{
	return nr_writes && shown != nr_writes - 1 &&
	       (shown < 0 || writes[shown].unit != writes[nr_writes - 1].unit);
}

void point_renamed(unsigned u)
{
	int i;

	for (i = 0; i < nr_writes; i++)
		if (writes[i].unit == u)
			writes[i].unknown = true;
}

/* Which write does the file on @b show, not before @from? -1: none, -2: no such one. */
static int find(struct backing *b, int from, int to, char text[DATA_MAX + 1])
{
	ssize_t n = look_file(b, POINTER, text);
	int i;

	*(text + (n < 0 ? 0 : n)) = '\0';
	if (n == -ENOENT)
		return -1;
	for (i = to; i-- > (from < 0 ? 0 : from);)
		if (!strcmp(text, name_of(NAME_UNIT(writes[i].unit)) + strlen("run/")))
			return i;
	return -2;
}

/* The first that it can be: the same name may have been written again, which is not seen. */
static int first_of(int found, int from)
{
	int i;

	for (i = from < 0 ? 0 : from; i < found; i++)
		if (writes[i].unit == writes[found].unit)
			return i;
	return found;
}

void point_look(bool settled)
{
	char text[DATA_MAX + 1];
	int found = find(&world.look, shown, nr_writes, text);
	const struct unit *n;

	if (found == -1 && shown < 0)
		return;
	if (found < 0) {
		wrong("%s is '%s' on the backing, and was '%s'", POINTER, text,
		      shown < 0 ? "" : name_of(NAME_UNIT(writes[shown].unit)));
		return;
	}
	n = &ref.units[writes[found].unit];
	if (first_of(found, shown) > shown && !writes[found].free && !writes[found].unknown &&
	    !n->committed && !n->back_unknown && settled)
		wrong("%s names %s, which is not committed", POINTER, text);
	shown = first_of(found, shown);
	if (settled && nr_writes && writes[nr_writes - 1].free &&
	    writes[nr_writes - 1].unit != writes[found].unit)
		wrong("%s names %s, though %s was written", POINTER, text,
		      name_of(NAME_UNIT(writes[nr_writes - 1].unit)));
}

void point_remounted(void)
{
	char text[DATA_MAX + 1];
	int found = find(&world.look, shown, nr_writes, text);

	if (found < 0)
		return;
	writes[0] = writes[found];
	nr_writes = 1;
	shown = 0;
}

/* Nothing is promised: a rename that is done at once is not durable, nor is what it renames. */
void point_look_cut(struct backing *b)
{
	char text[DATA_MAX + 1];

	if (find(b, -1, nr_writes, text) == -2 && *text)
		wrong("%s is '%s' after a crash, which was never written", POINTER, text);
}
