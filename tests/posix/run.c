// SPDX-License-Identifier: MIT
/*
 * Runs one case in directory A, then in B, and compares what was said.
 *
 * Each side has a keeper, an actor as which posixcmp itself runs (root, or the
 * one user): it makes and removes the case's directory, so that this process
 * never touches a filesystem that may hang.
 */
#include "posixcmp.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_STEPS 64
#define NR_ACTORS 5 /* one for each of actor_keys */

static const struct cred users[] = {
	{.key = 'r', .name = "root"},
	{.key = '1', .name = "user1", .uid = 1001, .gid = 1001},
	{.key = '2', .name = "user2", .uid = 1002, .gid = 1002},
	{.key = 'g',
	 .name = "user1-in-group3",
	 .uid = 1001,
	 .gid = 1001,
	 .nr_groups = 1,
	 .groups = {1003}},
};

/* b: a second process of the user that the case is run as */
static const char actor_keys[] = "r12gb";

struct step {
	bool setup; /* must succeed in B */
	char who;   /* a key of users, m: the case's, b: its twin */
	char text[STEP_MAX];
};

struct transcript {
	size_t nr; /* answers, at most the steps */
	char *text[MAX_STEPS];
	enum reply reply[MAX_STEPS];
};

struct side {
	const char *dir;
	char base[64];	      /* all that we make is in here */
	char top[96];	      /* the case's directory is in here */
	unsigned int nr_tops; /* a hung case leaves its one behind */
	struct actor keeper;
};

static struct side sides[2];
static const struct run_options *opts;
static struct cred keeper_cred = {.name = "keeper"};
static struct step steps[MAX_STEPS];
static size_t nr_steps;

static const struct cred *cred_of(char key)
{
	size_t i;

	if (opts->own_user)
		return &keeper_cred;
	for (i = 0; i < ARRAY_SIZE(users); i++)
		if (users[i].key == key)
			return &users[i];
	abort();
}

static bool is_actor_key(char ch)
{
	return ch && strchr("r12gmb", ch);
}

/* "[+][USER:] VERB WORDS" */
static void step_parse(struct step *s, const char *p, size_t len)
{
	s->setup = len && *p == '+';
	p += s->setup;
	len -= s->setup;
	s->who = 'm';
	if (len > 2 && is_actor_key(p[0]) && p[1] == ':') {
		s->who = p[0];
		p += 2;
		len -= 2;
	}
	for (; len && *p == ' '; p++)
		len--;
	snprintf(s->text, sizeof(s->text), "%.*s", (int)len, p);
}

static void script_parse(const char *script)
{
	nr_steps = 0;
	while (*script) {
		size_t len;

		script += strspn(script, "; \n\t");
		len = strcspn(script, ";\n");
		if (!len)
			break;
		if (nr_steps == MAX_STEPS)
			abort();
		step_parse(&steps[nr_steps++], script, len);
		script += len;
	}
}

static bool needs_many_users(const struct job *j)
{
	size_t i;

	if (j->who != '1')
		return true;
	for (i = 0; i < nr_steps; i++)
		if (!strchr("1mb", steps[i].who))
			return true;
	return false;
}

/* ---- one side ---- */

/* 0, -ETIMEDOUT: it hung, -EIO with a message */
static int keeper_do(struct side *s, const char *verb, const char *path, const char *args)
{
	char text[REPLY_MAX], step[512];
	enum reply r;

	if (!s->keeper.pid && actor_start(&s->keeper, &keeper_cred, s->dir))
		return -EIO;
	snprintf(step, sizeof(step), "%s %s %s", verb, path, args);
	r = actor_ask(&s->keeper, step, text);
	if (r == REPLY_OK)
		return 0;
	fprintf(stderr, "posixcmp: %s: %s: %s\n", s->dir, step, text);
	return r == REPLY_HUNG ? -ETIMEDOUT : -EIO;
}

static int top_make(struct side *s)
{
	snprintf(s->top, sizeof(s->top), "%s/%u", s->base, s->nr_tops++);
	return keeper_do(s, "mkdir", s->top, "755");
}

static int case_dir_make(struct side *s)
{
	char path[128];
	int ret;

	snprintf(path, sizeof(path), "%s/case", s->top);
	ret = keeper_do(s, "mkdir", path, "755");
	if (!ret && !opts->own_user)
		ret = keeper_do(s, "chown", path, "1001 1001");
	return ret;
}

static void case_dir_remove(struct side *s)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/case", s->top);
	if (keeper_do(s, "rmtree", path, ""))
		top_make(s);
}

static struct actor *actor_get(struct actor *actors, char key, char me, const char *dir)
{
	const char *k;

	if (key == 'm' || opts->own_user)
		key = key == 'b' ? 'b' : me;
	k = strchr(actor_keys, key);
	if (!actors[k - actor_keys].pid &&
	    actor_start(&actors[k - actor_keys], cred_of(key == 'b' ? me : key), dir))
		return NULL;
	return &actors[k - actor_keys];
}

static void actors_stop(struct actor *actors, size_t nr)
{
	while (nr--)
		actor_stop(&actors[nr]);
}

static void answer_add(struct transcript *t, enum reply r, const char *text)
{
	t->reply[t->nr] = r;
	t->text[t->nr++] = strdup(text);
}

/* True: the next step can follow. */
static bool run_step(struct transcript *t, struct actor *actors, const struct step *st, char me,
		     const char *dir)
{
	struct actor *a = actor_get(actors, st->who, me, dir);
	char text[REPLY_MAX];
	enum reply r;

	if (!a) {
		answer_add(t, REPLY_DIED, "no process to do it");
		return false;
	}
	r = actor_ask(a, st->text, text);
	answer_add(t, r, text);
	return r == REPLY_OK || r == REPLY_FAILED;
}

static void run_side(struct side *s, char me, struct transcript *t)
{
	struct actor actors[NR_ACTORS] = {{0}};
	int ret = case_dir_make(s);
	char dir[PATH_MAX];

	if (ret) {
		bool hung = ret == -ETIMEDOUT;

		answer_add(t, hung ? REPLY_HUNG : REPLY_DIED,
			   hung ? "hung (mkdir before it)" : "no directory for it");
		top_make(s);
		return;
	}
	snprintf(dir, sizeof(dir), "%s/%s/case", s->dir, s->top);
	while (t->nr < nr_steps && run_step(t, actors, &steps[t->nr], me, dir))
		;
	actors_stop(actors, NR_ACTORS);
	if (t->reply[t->nr - 1] == REPLY_HUNG)
		top_make(s);
	else
		case_dir_remove(s);
}

static void transcript_clear(struct transcript *t)
{
	while (t->nr)
		free(t->text[--t->nr]);
}

/* ---- comparing ---- */

static void print_all(const struct transcript *a, const struct transcript *b)
{
	size_t i;

	for (i = 0; i < nr_steps; i++) {
		const char *ta = i < a->nr ? a->text[i] : "(not reached)";
		const char *tb = i < b->nr ? b->text[i] : "(not reached)";

		printf("    %s%c: %-40s %s%s%s\n", steps[i].setup ? "+" : " ", steps[i].who,
		       steps[i].text, tb, strcmp(ta, tb) ? "   A: " : "", strcmp(ta, tb) ? ta : "");
	}
}

/* First step that differs, or -1. */
static int first_difference(const struct transcript *a, const struct transcript *b)
{
	size_t i;

	for (i = 0; i < a->nr && i < b->nr; i++)
		if (strcmp(a->text[i], b->text[i]))
			return i;
	return a->nr != b->nr ? (int)i - 1 : -1;
}

static bool ended_with(const struct transcript *t, enum reply r)
{
	return t->nr && t->reply[t->nr - 1] == r;
}

static int failed_setup(const struct transcript *t)
{
	size_t i;

	for (i = 0; i < t->nr; i++)
		if (steps[i].setup && t->reply[i] != REPLY_OK)
			return i;
	return -1;
}

static void report_difference(const struct job *j, struct run_counts *n, const struct transcript *a,
			      const struct transcript *b, int at)
{
	const char *why = known_reason(j->name, steps[at].text, a->text[at], opts->without);

	if (why) {
		n->known++;
		printf("%s: intended: %s (%s gave %s, the plain directory "
		       "%s)\n",
		       j->name, why, steps[at].text, a->text[at], b->text[at]);
		return;
	}
	if (ended_with(a, REPLY_HUNG) || ended_with(b, REPLY_HUNG))
		n->hung++;
	else
		n->different++;
	printf("%s: %s: A gave %s, the plain directory gave %s\n", j->name, steps[at].text,
	       a->text[at], b->text[at]);
}

static void compare(const struct job *j, struct run_counts *n, const struct transcript *a,
		    const struct transcript *b)
{
	int at = first_difference(a, b), setup = failed_setup(b);

	if (ended_with(b, REPLY_BAD) || ended_with(a, REPLY_BAD)) {
		const struct transcript *t = ended_with(b, REPLY_BAD) ? b : a;

		n->broken++;
		printf("%s: this case is broken: %s: %s\n", j->name, steps[t->nr - 1].text,
		       t->text[t->nr - 1]);
	} else if (at >= 0) {
		report_difference(j, n, a, b, at);
	} else if (ended_with(b, REPLY_HUNG)) {
		n->hung++;
		printf("%s: hung in both\n", j->name);
	} else if (setup >= 0) {
		n->not_applicable++;
		printf("%s: not compared: neither directory can %s: %s\n", j->name,
		       steps[setup].text, b->text[setup]);
	} else {
		n->same++;
	}
}

void run_job(const struct job *j, struct run_counts *n)
{
	struct transcript a = {0}, b = {0};

	script_parse(j->script);
	if (opts->own_user && needs_many_users(j))
		return;
	run_side(&sides[0], j->who, &a);
	run_side(&sides[1], j->who, &b);
	if (opts->verbose) {
		printf("%s\n", j->name);
		print_all(&a, &b);
	}
	compare(j, n, &a, &b);
	transcript_clear(&a);
	transcript_clear(&b);
}

/* ---- all of it ---- */

int run_begin(const struct run_options *o)
{
	int i, ret = 0;

	opts = o;
	keeper_cred.keep = true;
	sides[0].dir = o->dir_a;
	sides[1].dir = o->dir_b;
	for (i = 0; i < 2 && !ret; i++) {
		snprintf(sides[i].base, sizeof(sides[i].base), "posixcmp-%d", (int)getpid());
		ret = keeper_do(&sides[i], "mkdir", sides[i].base, "755");
		if (!ret)
			ret = top_make(&sides[i]);
	}
	return ret;
}

void run_end(void)
{
	int i;

	for (i = 0; i < 2; i++) {
		if (!sides[i].keeper.pid)
			continue;
		keeper_do(&sides[i], "rmtree", sides[i].base, "");
		actor_stop(&sides[i].keeper);
	}
}
