/* SPDX-License-Identifier: MIT */
#include "tests/sim/world.h"

#include "engine/commit/start.h"
#include "engine/coord/nodes.h"
#include "engine/save/units.h"
#include "tests/backing/faults.h"
#include "tests/backing/memory_engine.h"
#include "tests/backing/util.h"
#include "tests/sim/people.h"
#include "tests/sim/ranks.h"
#include "tests/sim/sched.h"
#include "tests/sim/service.h"
#include "tests/sim/story.h"
#include "tests/sim/versions.h"
#include "tests/sim/wrap.h"

#define OPTIONS \
	"log_level=error,pin_host_cache=false,chunk_size=64K,host_cache_size=512K,flush_depth=2," \
	"parser_threads=2,lease_s=5,quiet_s=1,order_timeout_s=60,stall_timeout_s=20,io_retry_s=3," \
	"commit_timeout_s=%u%s"
#define DRAIN_S 120

struct node_slot {
	struct mnt *m;
	struct faults *faults;
	char label[8], place[16];
	bool changing; /* a mount or an unmount is under way */
};

static struct {
	struct world_options options;
	struct memory *memory;
	struct backing eye;
	uint64_t losses;
	struct node_slot nodes[NODES_MAX + 1];
} w;

void world_begin(const struct world_options *o)
{
	w.options = *o;
	w.memory = memory_create();
	memory_open(w.memory, &w.eye);
	if (o->power_fails)
		memory_track(w.memory);
}

void world_end(void)
{
	backing_close(&w.eye);
	memory_destroy(w.memory);
}

unsigned world_nodes(void)
{
	return w.options.nodes;
}

bool world_has_service(void)
{
	return w.options.service;
}

struct mnt *world_at(unsigned n)
{
	return w.nodes[n].m;
}

bool world_is_changing(unsigned n)
{
	return w.nodes[n].changing;
}

struct faults *world_faults(unsigned n)
{
	return w.nodes[n].faults;
}

struct backing *world_eye(void)
{
	return &w.eye;
}

uint64_t world_changes(void)
{
	return w.losses + memory_changes(w.memory);
}

/* --- a mount --- */

/* Of engine_meet: the service is none that an option could name. */
static int meet(struct mnt *m, unsigned n, struct error *e)
{
	struct engine *en = &m->en;
	char rules[33];

	if (w.options.service)
		en->coord.ops = &service_ops;
	rules_digest(en->rules, rules);
	nodes_protocol = version_next(n);
	return nodes_create(&en->nodes,
			    &(struct nodes_options){
				    .coord = en->coord.ops,
				    .coord_arg = en->coord.arg,
				    .backing = "/backing",
				    .label = w.nodes[n].label,
				    .place = w.nodes[n].place,
				    .rules = rules,
				    .lease_s = (unsigned)config_number(&en->config, OPT_LEASE_S),
			    },
			    e);
}

static int open_mount(struct mnt *m, unsigned n, struct error *e)
{
	struct config config;
	char options[512];

	snprintf(options, sizeof(options), OPTIONS, COMMIT_TIMEOUT_S, w.options.mount);
	m->user = (struct caller){.uid = getuid(), .gid = getgid(), .pid = getpid()};
	config_init(&config);
	if (config_apply_options(&config, options, e) ||
	    engine_open_memory(&m->en, &config, w.memory, e))
		return -e->err;
	m->top = m->en.backing.root_fd;
	w.nodes[n].faults = faults_attach(&m->en.backing);
	return meet(m, n, e);
}

static int start_mount(struct mnt *m, unsigned n, struct error *e)
{
	if (engine_start(&m->en, w.nodes[n].label, NULL, e))
		return -e->err;
	m->fs.engine = &m->en;
	m->fs.tree = tree_create(&m->en, 64);
	if (!m->fs.tree)
		return FAIL(e, ENOMEM, MOUNT_REFUSED, "/mnt", ": ", strerror(ENOMEM));
	m->root = node_get(m->fs.tree, NODE_ROOT);
	return 0;
}

/*
 * As the daemon does at its end, also where it could not start; where it could not even open the
 * backing, that is closed.
 */
static void close_mount(struct mnt *m, unsigned n)
{
	struct node_slot *at = &w.nodes[n];

	if (!at->faults) {
		version_gone(n);
		free(m);
		return;
	}
	engine_stop(&m->en);
	if (m->fs.tree) {
		node_put(m->fs.tree, m->root);
		tree_destroy(m->fs.tree);
	}
	version_stops(n);
	nodes_destroy(m->en.nodes);
	m->en.nodes = NULL;
	version_gone(n);
	faults_clear(at->faults);
	faults_detach(at->faults);
	at->faults = NULL;
	engine_close(&m->en);
	free(m);
}

struct job_of_mount {
	unsigned n;
	int err;
	bool done;
};

static void done(struct job_of_mount *job, int err)
{
	job->err = err;
	job->done = true;
	w.nodes[job->n].changing = false;
}

/* As a task of the node, whose threads are the node's then. */
static void *mount_main(void *arg)
{
	struct job_of_mount *job = arg;
	struct mnt *m = must(calloc(1, sizeof(*m)));
	struct node_slot *at = &w.nodes[job->n];
	struct error e = {0};
	int err;

	sched_name("mount");
	if (at->m) {
		done(job, 0);
		return NULL;
	}
	snprintf(at->label, sizeof(at->label), "n%u", job->n);
	snprintf(at->place, sizeof(at->place), "place%u", job->n);
	version_begins(job->n);
	err = open_mount(m, job->n, &e);
	if (!err)
		err = start_mount(m, job->n, &e);
	if (!err) {
		at->m = m;
		version_serves(job->n);
	} else {
		story_of_daemon(job->n, e.text);
		close_mount(m, job->n);
	}
	if (err == -EPROTO)
		version_refused(job->n, e.text);
	done(job, err);
	return NULL;
}

/* One after the other. -ECANCELED: the node was lost meanwhile. */
static int change(unsigned n, void *(*main)(void *))
{
	struct node_slot *at = &w.nodes[n];
	struct job_of_mount *job;
	int err;

	while (at->changing)
		sched_sleep(20 * NSEC_PER_MSEC);
	job = must(calloc(1, sizeof(*job)));
	*job = (struct job_of_mount){.n = n, .err = -ECANCELED};
	at->changing = true;
	sched_start(n, main, job, false);
	while (at->changing && !job->done)
		sched_sleep(NSEC_PER_MSEC);
	err = job->err;
	if (job->done) /* else its task is gone, and has left it */
		free(job);
	return err;
}

int world_mount(unsigned n)
{
	return w.nodes[n].m ? 0 : change(n, mount_main);
}

static void *unmount_main(void *arg)
{
	struct job_of_mount *job = arg;
	struct node_slot *at = &w.nodes[job->n];
	struct mnt *m = at->m;
	int err;

	sched_name("umount");
	if (!m) {
		done(job, 0);
		return NULL;
	}
	at->m = NULL; /* no call begins from here on */
	while (ranks_busy_on(job->n))
		sched_sleep(20 * NSEC_PER_MSEC);
	if (ranks_have_open_on(job->n)) { /* by what was under way when it began */
		at->m = m;
		done(job, -EBUSY);
		return NULL;
	}
	engine_no_more_calls(&m->en, "/mnt");
	err = mnt_drain(m, DRAIN_S);
	close_mount(m, job->n);
	done(job, err);
	return NULL;
}

int world_unmount(unsigned n)
{
	return w.nodes[n].m ? change(n, unmount_main) : 0;
}

void world_kill(unsigned n)
{
	struct node_slot *at = &w.nodes[n];

	version_gone(n);
	people_lost(n);
	sched_kill(n);
	wrap_drop_locks(n);
	if (at->faults)
		at->faults = NULL;
	at->m = NULL;
	at->changing = false;
}

void world_power_fails(uint64_t seed)
{
	unsigned n;

	sched_locks(); /* none mounts until it is over */
	for (n = 1; n <= w.options.nodes; n++)
		world_kill(n);
	memory_power_loss(w.memory, seed);
	w.losses++; /* names may have changed */
	sched_unlocked();
}
