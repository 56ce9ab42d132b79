/* SPDX-License-Identifier: MIT */
#include "tests/sim/play.h"

#include "engine/base/clock.h"
#include "tests/backing/faults.h"
#include "tests/sim/check.h"
#include "tests/sim/expect.h"
#include "tests/sim/ranks.h"
#include "tests/sim/sched.h"
#include "tests/sim/service.h"
#include "tests/sim/story.h"
#include "tests/sim/versions.h"
#include "tests/sim/world.h"

#define STEPS_MAX  20000000ull
#define SETTLE_NS  (200 * NSEC_PER_SEC) /* in which all must have ended, once nothing disturbs it */
#define WHEN_NS	   (150 * NSEC_PER_SEC)
#define LEASE_S	   5
#define SLOW_CALLS (CALL_CHANGES | CALL_ANY_SYNC)

static const struct plan *plan;
static struct world_options options;

/* --- what ends by itself --- */

enum ends { END_STOP, END_CUT, END_SLOW, END_FULL };

struct ending {
	enum ends what;
	unsigned node;
	uint64_t after_ns;
};

static void end_now(enum ends what, unsigned n)
{
	struct faults *f = world_faults(n);

	if (what == END_STOP)
		sched_pause(n, false);
	if (!f)
		return;
	if (what == END_CUT)
		faults_thaw(f);
	if (what == END_SLOW)
		faults_slow(f, SLOW_CALLS, 0, 0);
	if (what == END_FULL)
		faults_disk(f, -1, 0);
}

static void *end_later(void *arg)
{
	struct ending *e = arg;

	sched_sleep(e->after_ns);
	end_now(e->what, e->node);
	free(e);
	return NULL;
}

static void ends_after(enum ends what, unsigned node, unsigned seconds)
{
	struct ending *e = malloc(sizeof(*e));

	if (what != END_FULL)
		ranks_disturbed(seconds);
	*e = (struct ending){what, node, seconds * NSEC_PER_SEC};
	sched_start(0, end_later, e, false);
}

/* --- nodes --- */

static void *mount_later(void *arg)
{
	unsigned n = (unsigned)(uintptr_t)arg;

	if (!world_at(n))
		story("node %u mounts: %s", n, strerror(-world_mount(n)));
	return NULL;
}

static void *unmount_later(void *arg)
{
	unsigned n = (unsigned)(uintptr_t)arg;

	if (ranks_have_open_on(n))
		story("node %u cannot unmount: busy", n);
	else if (world_at(n)) {
		int err = world_unmount(n);

		note_unmounted(n);
		story("node %u has unmounted: %s", n, strerror(-err));
	}
	return NULL;
}

static void lose(unsigned n)
{
	ranks_lost(n);
	world_kill(n);
}

static void stop(unsigned n, unsigned seconds)
{
	sched_pause(n, true);
	version_disturbed(n);
	if (seconds)
		ends_after(END_STOP, n, seconds);
	/* A lease may have been renewed a third of its time before. */
	if (!seconds || seconds + LEASE_S / 3 >= LEASE_S)
		check_forgive();
}

static void cut(unsigned n, unsigned seconds)
{
	ranks_disturbed(seconds);
	if (options.service)
		service_cut(n, sched_now() + seconds * NSEC_PER_SEC);
	else if (world_faults(n)) {
		faults_freeze(world_faults(n), CALL_ANY);
		ends_after(END_CUT, n, seconds);
	}
	version_disturbed(n);
	check_forgive();
}

static void add_fault(unsigned n, const struct fault *fault)
{
	if (world_faults(n))
		faults_add(world_faults(n), fault);
	version_disturbed(n);
	check_forgive();
}

/* What happens to node @n. False: no such thing. */
static bool node_line(unsigned n, const char *what)
{
	struct faults *f = world_faults(n);
	unsigned nr;
	int jump;

	if (!n || n > options.nodes)
		return false;
	if (!strcmp(what, "stops"))
		stop(n, 0);
	else if (sscanf(what, "stops for %u s", &nr) == 1)
		stop(n, nr);
	else if (!strcmp(what, "goes on"))
		sched_pause(n, false);
	else if (!strcmp(what, "is lost"))
		lose(n);
	else if (!strcmp(what, "is upgraded"))
		version_upgrade(n);
	else if (!strcmp(what, "mounts"))
		sched_start(0, mount_later, (void *)(uintptr_t)n, false);
	else if (!strcmp(what, "unmounts")) {
		sched_start(0, unmount_later, (void *)(uintptr_t)n, false);
		check_forgive(); /* a save whose end was not seen there yet */
	} else if (sscanf(what, "'s clock jumps by %d s", &jump) == 1)
		sched_shift_wall(n, jump * (int64_t)NSEC_PER_SEC);
	else if (sscanf(what, "is cut off for %u s", &nr) == 1)
		cut(n, nr);
	else if (sscanf(what, "is slow for %u s", &nr) == 1) {
		version_disturbed(n);
		if (f)
			faults_slow(f, SLOW_CALLS, 200 * NSEC_PER_MSEC, 0);
		ends_after(END_SLOW, n, nr);
	} else if (sscanf(what, "finds no room for %u s", &nr) == 1) {
		if (f)
			faults_disk(f, 0, ENOSPC);
		version_disturbed(n);
		ends_after(END_FULL, n, nr);
		check_forgive();
	} else if (sscanf(what, "gets ESTALE %u times", &nr) == 1)
		add_fault(n, &(struct fault){.calls = CALL_PIN | CALL_OPEN | CALL_STAT,
					     .skip = (unsigned)sched_draw(20),
					     .times = nr,
					     .err = ESTALE});
	else if (!strcmp(what, "gets EIO from a sync"))
		add_fault(n, &(struct fault){.calls = CALL_ANY_SYNC, .times = 1, .err = EIO});
	else if (!strcmp(what, "gets EIO from a rename that was made"))
		add_fault(n, &(struct fault){
				     .calls = CALL_RENAME, .times = 1, .err = EIO, .done = true});
	else
		return false;
	return true;
}

/* --- jobs --- */

/* "1 2 3" and, behind a comma, what else is to be known of it. */
static bool job_rest(const char *rest, struct job_options *o, unsigned nodes[SAVE_RANKS])
{
	unsigned nr = 0;
	int len;

	for (; nr < o->world && sscanf(rest, "%u%n", &nodes[nr], &len) == 1; rest += len)
		if (!nodes[nr] || nodes[nr++] > options.nodes)
			return false;
	o->nodes = nodes;
	if (!strcmp(rest, ", without a restart count"))
		o->uncounted = true;
	else if (sscanf(rest, ", the next start of %c%n", &o->next_of, &len) == 1 && !rest[len])
		return nr == o->world && job_is_there(o->next_of);
	else if (*rest)
		return false;
	return nr == o->world;
}

static bool job_line(const char *line)
{
	struct job_options o = {0};
	unsigned nodes[SAVE_RANKS], node;
	char name, shape[16];
	int at = 0;

	if (sscanf(line, "person %c on node %u", &name, &node) == 2) {
		if (!node || node > options.nodes)
			return false;
		person_create(name, node);
		return true;
	}
	if (sscanf(line, "job %c of %u ranks, %15[a-z], on nodes%n", &name, &o.world, shape, &at) <
		    3 ||
	    !at || o.world > SAVE_RANKS)
		return false;
	o.shape = shape_of(shape);
	if (!o.shape || !job_rest(line + at, &o, nodes))
		return false;
	job_create(name, &o);
	return true;
}

/* What the plan removes or renames may go. */
static void note_removal(const char *what)
{
	char path[64];

	if (!strncmp(what, "removes ", 8))
		check_may_go(what + 8);
	if (sscanf(what, "renames %63s to", path) == 1)
		check_may_go(path);
}

static bool rank_line(const char *line)
{
	int rank = -1, at = 0;
	char job = *line;
	const char *what;
	unsigned node;

	if (job < 'A' || job > 'Z' || !job_is_there(job))
		return false;
	if (sscanf(line + 1, "%d%n", &rank, &at) != 1)
		at = 0;
	if (line[1 + at] != ' ' || rank >= (int)job_world(job))
		return false;
	what = line + 2 + at;
	if (!strcmp(what, "is started again") || !strcmp(what, "is started again at once")) {
		job_restart(job, strstr(what, "at once"));
		return true;
	}
	if (!strcmp(what, "is killed")) {
		for (at = 0; at < (int)job_world(job); at++)
			if (rank < 0 || at == rank)
				rank_kill(job, at);
		return true;
	}
	if (sscanf(what, "is back on node %u", &node) == 1)
		return rank >= 0 && node && node <= options.nodes && rank_return(job, rank, node);
	note_removal(what);
	return rank_told(job, rank, what);
}

/* --- a line --- */

static void power_fails(void)
{
	unsigned n;

	for (n = 1; n <= options.nodes; n++)
		ranks_lost(n);
	world_power_fails(sched_draw(UINT64_MAX));
	check_power_failed();
	check_forgive();
}

static bool all_line(const char *line)
{
	unsigned n;

	if (!strcmp(line, "the power fails"))
		power_fails();
	else if (!strcmp(line, "all nodes are lost"))
		for (n = 1; n <= options.nodes; n++)
			lose(n);
	else if (!strcmp(line, "all nodes mount"))
		for (n = 1; n <= options.nodes; n++)
			sched_start(0, mount_later, (void *)(uintptr_t)n, false);
	else
		return false;
	return true;
}

static bool service_line(const char *line)
{
	unsigned nr, n;

	if (sscanf(line, "the service is away for %u s", &nr) == 1) {
		ranks_disturbed(nr);
		service_cut(0, sched_now() + nr * NSEC_PER_SEC);
	} else if (sscanf(line, "the service loses %u answers", &nr) == 1)
		service_lose_answers(nr);
	else if (sscanf(line, "the service has no room for %u s", &nr) == 1)
		service_full(sched_now() + nr * NSEC_PER_SEC);
	else
		return false;
	for (n = 1; n <= options.nodes; n++)
		version_disturbed(n);
	check_forgive();
	return true;
}

static bool play_line(const char *line)
{
	unsigned n;
	int at = 0;

	if (sscanf(line, "after %u ms", &n) == 1) {
		sched_sleep(n * NSEC_PER_MSEC);
		return true;
	}
	story("* %s", line);
	if (sscanf(line, "node %u%n", &n, &at) == 1)
		return node_line(n, line + at + (line[at] == ' '));
	return all_line(line) || job_line(line) || when_line(line) || expect_line(line) ||
	       service_line(line) || rank_line(line);
}

/* --- the end --- */

static void stop_faults(void)
{
	unsigned n;

	service_cut(0, 0);
	service_lose_answers(0);
	service_full(0);
	for (n = 1; n <= options.nodes; n++) {
		sched_pause(n, false);
		if (world_faults(n))
			faults_clear(world_faults(n));
	}
}

/* What `ckptfs status` says is pending, for the story. */
static void tell_pending(void)
{
	unsigned n;

	for (n = 1; n <= options.nodes; n++) {
		json_t *pending =
			world_at(n) ? units_to_json(world_at(n)->en.units, 0, true) : NULL;
		char *text = pending ? json_dumps(pending, JSON_COMPACT) : NULL;

		if (text && json_array_size(pending))
			story("(pending on node %u: %s)", n, text);
		free(text);
		json_decref(pending);
	}
}

/* What is under way ends first: it has the version with which it began. */
static bool align_versions(void)
{
	unsigned n;

	for (n = 1; n <= options.nodes; n++)
		while (world_is_changing(n))
			sched_sleep(20 * NSEC_PER_MSEC);
	return versions_align();
}

static void mount_all(bool must)
{
	unsigned n;

	for (n = 1; n <= options.nodes; n++)
		if (!world_at(n) && world_mount(n) && must)
			wrong("I12: node %u cannot mount, and no other has another version", n);
}

static void unmount_all(void)
{
	unsigned n;
	int err;

	for (n = 1; n <= options.nodes; n++) {
		err = world_at(n) ? world_unmount(n) : 0;
		story("node %u has unmounted: %s", n, strerror(-err));
		if (err == -ETIMEDOUT)
			wrong("I6: node %u cannot be unmounted", n);
	}
}

static void settle(void)
{
	if (!await_settled(SETTLE_NS)) {
		tell_pending();
		wrong("I6: nothing disturbs it and all processes are gone, and something is still "
		      "pending");
	}
}

static void finish(void)
{
	bool one_version;

	story("(faults stop)");
	stop_faults();
	one_version = align_versions();
	mount_all(one_version);
	await_idle(WHEN_NS);
	ranks_exit_all();
	settle();
	unmount_all();
	/* who came back beside a newer version: what that left is left to all */
	if (!one_version) {
		align_versions();
		mount_all(true);
		settle();
		unmount_all();
	}
	check_end();
}

static void *director(void *arg)
{
	unsigned i, n;

	(void)arg;
	for (n = 1; n <= options.nodes; n++)
		if (world_mount(n))
			wrong("node %u cannot mount", n);
	for (i = 0; i < plan->nr; i++)
		if (!play_line(plan->lines[i]))
			wrong("nobody understands: %s", plan->lines[i]);
	finish();
	return NULL;
}

/* What comes before the first event. True: it was such a line. */
static bool head_line(const char *line, char *mount, size_t size)
{
	char more[64];

	if (sscanf(line, "%u nodes", &options.nodes) == 1)
		return true;
	if (!strcmp(line, "coordination by a service"))
		options.service = true;
	else if (sscanf(line, "mount with %63s", more) == 1)
		snprintf(mount, size, ",%s", more);
	else
		return !strcmp(line, "coordination by the backing");
	return true;
}

const char *plan_read(struct plan *p, const char *text, unsigned *at)
{
	unsigned len;

	*at = 0;
	for (p->nr = 0; *text; text += len + (text[len] == '\n')) {
		len = (unsigned)strcspn(text, "\n");
		++*at;
		if (!len || *text == '#')
			continue;
		if (p->nr == PLAN_LINES)
			return "the plan is too long";
		if (len >= LINE_LEN)
			return "the line is too long";
		snprintf(p->lines[p->nr++], LINE_LEN, "%.*s", (int)len, text);
	}
	return NULL;
}

bool play(const struct plan *p, unsigned long long seed)
{
	static char mount[80];
	static struct plan events;
	unsigned i;

	options = (struct world_options){.nodes = 1, .mount = mount};
	for (i = 0; i < p->nr; i++) {
		if (!strcmp(p->lines[i], "the power fails"))
			options.power_fails = true;
		if (!head_line(p->lines[i], mount, sizeof(mount)))
			memcpy(events.lines[events.nr++], p->lines[i], LINE_LEN);
	}
	if (options.nodes > NODES_MAX)
		options.nodes = NODES_MAX;
	plan = &events;
	sched_init(seed, seed % 3 ? 8 : 64);
	world_begin(&options);
	if (!sched_run(director, NULL, check_step, STEPS_MAX))
		wrong("I6: %s", sched_stuck());
	world_end();
	return !what_is_wrong();
}
