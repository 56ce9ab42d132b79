/* SPDX-License-Identifier: MIT */
/*
 * The end of a generation, and the verdict after a death, as the scenarios in tests/gen tell: what
 * happens on which node, and what is then to be expected. The logs of the nodes are heard in every
 * order of the nodes; the answer is the same.
 */
#include "tests/unit/rule.h"

#include <dirent.h>

#include "engine/gen/verdict.h"

#define NODES_MAX 3
#define LOG_MAX	  16

struct node {
	struct tally_op log[LOG_MAX];
	bool gone[LOG_MAX]; /* the name has gone since */
	unsigned nr, open;
	bool cut;
};

struct scenario {
	const char *file;
	unsigned line;
	struct gen_facts facts;
	char name[64], lines[64][128];
	struct node nodes[NODES_MAX + 1]; /* 1 .. NODES_MAX */
	bool aborts;			  /* V4 */
	unsigned nr_expected;
};

static void *grow(void *memory, size_t size)
{
	if (size)
		return realloc(memory, size);
	free(memory);
	return NULL;
}

/* --- what happens --- */

static void note(struct node *n, enum evidence_kind kind, const char *path, int rank)
{
	assert_true(n->nr < LOG_MAX);
	n->log[n->nr++] = (struct tally_op){kind, path, rank};
}

static void lose(struct scenario *s, const char *path)
{
	unsigned k, i;

	for (k = 1; k <= NODES_MAX; k++)
		for (i = 0; i < s->nodes[k].nr; i++)
			if (!strcmp(s->nodes[k].log[i].path, path) &&
			    s->nodes[k].log[i].kind != EVIDENCE_UNLINK)
				s->nodes[k].gone[i] = true;
}

/* @what: "closes PATH" and the like. What happens behind the cut is not told. */
static bool act(struct scenario *s, struct node *n, int rank, const char *what)
{
	const char *path = strchr(what, ' ');

	path = path ? path + 1 : "";
	s->facts.quiet = s->facts.removing = false;
	if (!strncmp(what, "opens ", 6)) {
		n->open++;
	} else if (!strncmp(what, "closes ", 7)) {
		n->open -= n->open > 0;
		if (!n->cut)
			note(n, EVIDENCE_CLOSE, path, rank);
	} else if (!strncmp(what, "renames to ", 11)) {
		if (!n->cut)
			note(n, EVIDENCE_RENAME, what + 11, rank);
	} else if (!strncmp(what, "unlinks ", 8)) {
		lose(s, path);
		s->facts.removing = !(s->facts.rule && rule_seen(s->facts.rule, EVIDENCE_UNLINK,
								 s->facts.name, path));
		if (!n->cut)
			note(n, EVIDENCE_UNLINK, path, rank);
	} else if (!strcmp(what, "dies")) {
		s->facts.died = n->cut = true;
		s->facts.died_unranked |= rank < 0;
		s->aborts |= n->open > 0;
	} else {
		return false;
	}
	return true;
}

static bool act_on_node(struct scenario *s, const char *line)
{
	unsigned k;
	int rank = -1, at = 0;

	if (sscanf(line, "node %u: rank %d %n", &k, &rank, &at) != 2 || !at)
		if (sscanf(line, "node %u: a process without a rank %n", &k, &at) != 1 || !at)
			return false;
	assert_in_range(k, 1, NODES_MAX);
	return act(s, &s->nodes[k], rank, line + at);
}

static bool set(struct scenario *s, const char *line)
{
	struct gen_facts *f = &s->facts;
	char name[64];

	if (sscanf(line, "a checkpoint of rule %63s", name) == 1) {
		f->rule = rules_find(presets, name);
		assert_non_null(f->rule);
	} else if (sscanf(line, "it is called %63s", s->name) == 1) {
		f->name = s->name;
	} else if (sscanf(line, "its job has %d rank", &f->world) == 1) {
		;
	} else if (!strcmp(line, "nothing happens for quiet_s")) {
		f->quiet = true;
	} else if (!strcmp(line, "the end of a writer cannot be seen")) {
		f->unseen = true;
	} else if (!strcmp(line, "all processes exit with 0")) {
		f->exited_0 = true;
	} else if (!strcmp(line, "a person asks for its commit")) {
		f->asked = true;
	} else if (!strcmp(line, "the next checkpoint is begun")) {
		f->sibling = true;
	} else if (!strcmp(line, "its only writer begins the next checkpoint")) {
		f->sibling = f->goes_on = true;
	} else if (!strcmp(line, "a change to a committed checkpoint")) {
		f->follows = f->keeps = true;
	} else {
		return false;
	}
	return true;
}

/* --- what is to be expected --- */

/* Counts the logs in the order of the nodes that @order gives, as digits. */
static void count(struct scenario *s, struct tally *t, const char *order)
{
	const struct gen_facts *f = &s->facts;

	memset(t, 0, sizeof(*t));
	if (f->rule)
		tally_begin(t, f->rule, f->name, grow);
	for (; f->rule && *order; order++) {
		const struct node *n = &s->nodes[*order - '0'];
		unsigned i;

		for (i = 0; i < n->nr; i++) {
			tally_add(t, &n->log[i]);
			if (n->gone[i])
				tally_subtract(t, &n->log[i]);
		}
	}
}

static void answer(struct scenario *s, const char *order, bool verdict, char *buf, size_t size)
{
	struct gen_facts f = s->facts;
	struct tally t;
	unsigned k;
	int by;

	count(s, &t, order);
	f.tally = &t;
	f.closed = true;
	for (k = 1; k <= NODES_MAX; k++)
		f.closed &= !s->nodes[k].open;
	by = verdict ? gen_verdict(&f) : gen_end(&f);
	if (verdict && s->aborts)
		by = GEN_NO_END;
	if (by == GEN_NO_END)
		snprintf(buf, size, "%s", verdict ? "it aborts" : "it has not ended");
	else if (by == GEN_NO_RULE)
		snprintf(buf, size, "%s", verdict ? "it commits" : "it has ended");
	else {
		size_t len = (size_t)snprintf(buf, size, "%s by ",
					      verdict ? "it commits" : "it has ended");

		rule_evidence(f.rule, by, buf + len, size - len);
	}
	tally_end(&t);
}

static bool expect(struct scenario *s, const char *line)
{
	static const char *const orders[] = {"123", "132", "213", "231", "312", "321"};
	bool verdict;
	char got[1024];
	size_t i;

	if (strncmp(line, "expect ", 7) != 0)
		return false;
	line += 7;
	verdict = !strncmp(line, "it aborts", 9) || !strncmp(line, "it commits", 10);
	for (i = 0; i < sizeof(orders) / sizeof(*orders); i++) {
		answer(s, orders[i], verdict, got, sizeof(got));
		if (strcmp(line, got) != 0)
			fail_msg("%s:%u: expected: %s; but %s", s->file, s->line, line, got);
	}
	s->nr_expected++;
	return true;
}

static void play(const char *dir, const char *file)
{
	struct scenario s = {.file = file, .facts = {.name = "run", .world = 0}};
	char path[512];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, file);
	f = fopen(path, "r");
	assert_non_null(f);
	while (fgets(s.lines[s.line], sizeof(*s.lines), f)) {
		char *line = s.lines[s.line++];

		assert_true(s.line < sizeof(s.lines) / sizeof(*s.lines));
		line[strcspn(line, "\n")] = '\0';
		if (*line && *line != '#' && !act_on_node(&s, line) && !set(&s, line) &&
		    !expect(&s, line))
			fail_msg("%s:%u: what is '%s'?", file, s.line, line);
	}
	fclose(f);
	if (!s.nr_expected)
		fail_msg("%s expects nothing", file);
}

static void each_scenario_holds(void **state)
{
	char dir[400];
	struct dirent *e;
	unsigned nr = 0;
	DIR *d;

	(void)state;
	snprintf(dir, sizeof(dir), "%s/tests/gen", getenv("SRC") ? getenv("SRC") : ".");
	d = opendir(dir);
	assert_non_null(d);
	while ((e = readdir(d)))
		if (strlen(e->d_name) > 4 && !strcmp(e->d_name + strlen(e->d_name) - 4, ".txt")) {
			play(dir, e->d_name);
			nr++;
		}
	closedir(d);
	assert_true(nr >= 28);
}

/* --- every small history --- */

/*
 * Three ranks on three nodes save one file each; rank 0 then renames .metadata, as DCP does after
 * it has heard of all. Each may die after each of its steps, or does not; the others go on as far
 * as they may. What commits is whole.
 */
static void what_commits_is_whole(void **state)
{
	static const char *const rules[] = {"torch-dcp", "accelerate", "deepspeed"};
	static const char *const files[][3] = {
		{"__0.metadata", "__1.metadata", "__2.metadata"},
		{"random_states_0.pkl", "random_states_1.pkl", "random_states_2.pkl"},
		{"zero_pp_rank_0_mp_rank_00_optim_states.pt",
		 "zero_pp_rank_1_mp_rank_00_optim_states.pt",
		 "zero_pp_rank_2_mp_rank_00_optim_states.pt"},
	};
	unsigned r, steps, deaths, flags, commits = 0, aborts = 0;

	(void)state;
	for (r = 0; r < 3; r++)
		for (steps = 0; steps < 27; steps++) /* of each rank: none, opened, closed */
			for (deaths = 0; deaths < 8; deaths++)
				for (flags = 0; flags < 16; flags++) {
					struct scenario s = {.facts = {.name = "run", .world = 3}};
					unsigned at[3] = {steps % 3, steps / 3 % 3, steps / 9}, k;
					bool all = at[0] == 2 && at[1] == 2 && at[2] == 2;
					char got[1024];

					s.facts.rule = rules_find(presets, rules[r]);
					s.facts.quiet = flags & 1;
					s.facts.exited_0 = flags & 2 && !deaths;
					s.facts.asked =
						flags & 4 && deaths; /* a person may end anything */
					s.facts.sibling = flags & 8;
					for (k = 0; k < 3; k++) {
						struct node *n = &s.nodes[k + 1];

						n->open = at[k] == 1;
						if (at[k] == 2)
							note(n, EVIDENCE_CLOSE, files[r][k],
							     (int)k);
						s.facts.died |= deaths >> k & 1;
						s.aborts |= deaths >> k & 1 && n->open;
					}
					answer(&s, "123", true, got, sizeof(got));
					if (!strcmp(got, "it aborts"))
						aborts++;
					else if (all)
						commits++;
					else
						fail_msg("%s, steps %u, deaths %u, flags %u: %s",
							 rules[r], steps, deaths, flags, got);
				}
	assert_true(commits && aborts);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_scenario_holds),
		cmocka_unit_test(what_commits_is_whole),
	};

	return cmocka_run_group_tests(tests, create_presets, destroy_presets);
}
