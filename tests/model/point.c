/* SPDX-License-Identifier: MIT */
#include "tests/model/point.h"

#include "engine/format/commit.h"
#include "tests/backing/peek.h"
#include "tests/model/calls.h"
#include "tests/model/look.h"

#define WRITES_MAX  OPS_MAX
#define NR_POINTERS 2

static struct pointer {
	const char *path, *temp;
	struct written {
		unsigned unit;
		bool unknown;
		bool free; /* it named nothing, or what was committed: it is applied at once */
	} writes[WRITES_MAX];
	int nr, shown; /* the last that was seen on the backing; -1: none */
} pointers[NR_POINTERS] = {{.path = "run/latest", .temp = "run/latest.tmp"},
			   {.path = "run/last.ckpt", .temp = "run/last.ckpt.tmp"}};
static bool gone[NR_UNITS]; /* it was removed or renamed once */

void point_begin(void)
{
	unsigned i;

	memset(gone, 0, sizeof(gone));
	for (i = 0; i < NR_POINTERS; i++) {
		pointers[i].nr = 0;
		pointers[i].shown = -1;
	}
}

/* --- what is done to them --- */

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

static const char *target_of(unsigned u)
{
	return name_of(NAME_UNIT(u)) + strlen("run/");
}

static void note(struct pointer *p, unsigned u)
{
	const struct unit *n = &ref.units[u];
	/* It was begun once, and is not there: if it has failed, what names it is dropped. */
	bool lost = n->ever && !n->committed && !(n->pending && n->claimed);

	p->writes[p->nr++] = (struct written){
		.unit = u,
		.free = !lost && (!n->pending || !(n->claimed || n->committed)),
		.unknown = lost,
	};
}

void point_write(unsigned who, unsigned u, bool by_rename)
{
	struct pointer *p = &pointers[0];
	pid_t pid = ref.procs[who].pid;
	int err;

	if (p->nr == WRITES_MAX)
		return;
	note(p, u);
	err = write_to(pid, by_rename ? p->temp : p->path, target_of(u));
	if (!err && by_rename)
		err = call_rename(pid, p->temp, p->path);
	if (err)
		wrong("writing %s: %s", p->path, strerror(-err));
}

void point_link(unsigned who, unsigned u)
{
	struct pointer *p = &pointers[1];
	pid_t pid = ref.procs[who].pid;
	int err;

	if (p->nr == WRITES_MAX)
		return;
	note(p, u);
	err = call_symlink(pid, target_of(u), p->temp);
	if (!err)
		err = call_rename(pid, p->temp, p->path);
	if (err)
		wrong("linking %s: %s", p->path, strerror(-err));
}

void point_renamed(unsigned u)
{
	unsigned i;
	int k;

	gone[u] = true;
	for (i = 0; i < NR_POINTERS; i++)
		for (k = 0; k < pointers[i].nr; k++)
			if (pointers[i].writes[k].unit == u)
				pointers[i].writes[k].unknown = true;
}

void point_removed(unsigned u)
{
	gone[u] = true;
}

/* --- what they show --- */

/* Which write is on the backing, not before @from? -1: none, -2: no such one. */
static int find(const struct pointer *p, struct backing *b, int from, char text[DATA_MAX + 1])
{
	ssize_t n = look_file(b, p->path, text);
	int i;

	text[n < 0 ? 0 : n] = '\0';
	if (n == -ENOENT)
		return -1;
	for (i = p->nr; i-- > (from < 0 ? 0 : from);)
		if (!strcmp(text, target_of(p->writes[i].unit)))
			return i;
	return -2;
}

/* The first that it can be: the same name may have been written again, which is not seen. */
static int first_of(const struct pointer *p, int found, int from)
{
	int i;

	for (i = from < 0 ? 0 : from; i < found; i++)
		if (p->writes[i].unit == p->writes[found].unit)
			return i;
	return found;
}

static void look(struct pointer *p, bool settled)
{
	const struct written *last = p->nr ? &p->writes[p->nr - 1] : NULL;
	char text[DATA_MAX + 1];
	int found = find(p, &world.look, p->shown, text);
	const struct unit *n;

	if (found == -1 && p->shown < 0)
		return;
	if (found < 0) {
		wrong("%s is '%s' on the backing, and was '%s'", p->path, text,
		      p->shown < 0 ? "" : target_of(p->writes[p->shown].unit));
		return;
	}
	n = &ref.units[p->writes[found].unit];
	if (first_of(p, found, p->shown) > p->shown && !p->writes[found].free &&
	    !p->writes[found].unknown && !n->committed && !n->back_unknown && settled)
		wrong("%s names %s, which is not committed", p->path, text);
	p->shown = first_of(p, found, p->shown);
	if (settled && last && last->free && last->unit != p->writes[found].unit)
		wrong("%s names %s, though %s was written", p->path, text, target_of(last->unit));
}

void point_look(bool settled)
{
	unsigned i;

	for (i = 0; !is_wrong() && i < NR_POINTERS; i++)
		look(&pointers[i], settled);
}

void point_remounted(void)
{
	char text[DATA_MAX + 1];
	unsigned i;

	for (i = 0; i < NR_POINTERS; i++) {
		struct pointer *p = &pointers[i];
		int found = find(p, &world.look, p->shown, text);

		if (found < 0)
			continue;
		p->writes[0] = p->writes[found];
		p->nr = 1;
		p->shown = 0;
	}
}

/* True if each write that named unit @u waited for its commit. */
static bool always_waited(const struct pointer *p, unsigned u)
{
	int i;

	for (i = 0; i < p->nr; i++)
		if (p->writes[i].unit == u && (p->writes[i].free || p->writes[i].unknown))
			return false;
	return true;
}

void point_look_cut(struct backing *b)
{
	unsigned i;

	for (i = 0; !is_wrong() && i < NR_POINTERS; i++) {
		struct pointer *p = &pointers[i];
		char text[DATA_MAX + 1], commit[PATH_LEN + sizeof(COMMIT_FILE)];
		int found = find(p, b, -1, text);
		unsigned u = found < 0 ? 0 : p->writes[found].unit;

		if (found == -2 && *text)
			wrong("%s is '%s' after a crash, which was never written", p->path, text);
		if (found < 0 || gone[u] || !always_waited(p, u))
			continue;
		snprintf(commit, sizeof(commit), "%s/" COMMIT_FILE, name_of(NAME_UNIT(u)));
		if (!peek_exists(b, commit))
			wrong("%s names %s after a crash, which is not committed", p->path, text);
	}
}
