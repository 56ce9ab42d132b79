/* SPDX-License-Identifier: MIT */
#include "engine/coord/nodes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/base/json.h"
#include "engine/base/log.h"
#include "engine/base/wait.h"
#include "engine/coord/nodes_inside.h"

#define FIRST_TRIES 5

int nodes_protocol = NODES_PROTOCOL;

/* --- renewing --- */

static void sleep_locked(struct waitq *wake, uint64_t ns_from_now)
{
	wait_out(wake, clock_mono_ns() + ns_from_now);
}

/* Renews every third of the lease's time; sooner after a renewal that failed. */
static void *renew_main(void *arg)
{
	struct nodes *ns = arg;
	uint64_t begun = clock_mono_ns(), every = ns->lease_ns / 3, now;

	lock_take(&ns->lock);
	while (!ns->stop) {
		now = clock_mono_ns();
		if (now - begun < every) {
			sleep_locked(&ns->wake_renewer, every - (now - begun));
			continue;
		}
		begun = now;
		lock_drop(&ns->lock);
		every = nodes_renew(ns) ? ns->lease_ns / 10 : ns->lease_ns / 3;
		lock_take(&ns->lock);
	}
	lock_drop(&ns->lock);
	return NULL;
}

static void *watch_main(void *arg)
{
	struct nodes *ns = arg;

	lock_take(&ns->lock);
	while (!ns->stop) {
		if (nodes_idle_locked(ns)) {
			wait_out(&ns->wake_watcher, CLOCK_NEVER);
			continue;
		}
		nodes_look_locked(ns);
		if (!ns->stop)
			sleep_locked(&ns->wake_watcher, nodes_look_every(ns));
	}
	lock_drop(&ns->lock);
	return NULL;
}

/* --- create and destroy --- */

static int make_id(char id[COORD_NODE_MAX])
{
	unsigned char random[(COORD_NODE_MAX - 1) / 2];
	size_t i;

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return -EIO;
	for (i = 0; i < sizeof(random); i++)
		snprintf(id + 2 * i, 3, "%02x", random[i]);
	return 0;
}

static void read_boot(char boot[BOOT_MAX])
{
	__cleanup_fd int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, boot, BOOT_MAX - 1);

	boot[n > 0 ? n : 0] = '\0';
	boot[strspn(boot, "0123456789abcdef-")] = '\0';
}

static int describe(struct nodes *ns, const struct nodes_options *o)
{
	struct lease_facts *f = &ns->self;

	ns->options = *o;
	ns->lease_ns = (o->lease_s ? o->lease_s : 1) * NSEC_PER_SEC;
	ns->backing = strdup(o->backing);
	f->protocol = nodes_protocol;
	f->lease_ns = ns->lease_ns;
	snprintf(f->label, sizeof(f->label), "%s", o->label);
	snprintf(f->place, sizeof(f->place), "%s", o->place);
	snprintf(f->rules, sizeof(f->rules), "%s", o->rules);
	gethostname(f->host, sizeof(f->host) - 1);
	read_boot(f->boot);
	return ns->backing ? make_id(ns->id) : -ENOMEM;
}

static void init_locks(struct nodes *ns)
{

	lock_init(&ns->lock, LOCK_NODES);
	waitq_init(&ns->wake_renewer, &ns->lock);
	waitq_init(&ns->wake_watcher, &ns->lock);
	list_init(&ns->seen);
}

/* True if @err will not pass by itself: this node may not write there, or there is no room. */
static bool stays(int err)
{
	return err == -EROFS || err == -EACCES || err == -EPERM || err == -ENOENT ||
	       err == -ENOTDIR || err == -ENOSPC || err == -EDQUOT;
}

static int first_lease(struct nodes *ns, struct error *e)
{
	char text[MESSAGE_MAX];
	int err = nodes_renew(ns);
	unsigned i;

	for (i = 1; err && !stays(err) && i < FIRST_TRIES; i++) {
		wait_ns(100 * NSEC_PER_MSEC);
		err = nodes_renew(ns);
	}
	if (!err)
		return 0;
	if (!stays(err))
		return FAIL(e, -err, NODE_NO_LEASE, ns->backing, strerror(-err));
	snprintf(ns->alone, sizeof(ns->alone), "no lease can be made: %s", strerror(-err));
	MESSAGE(text, NODE_ALONE, ns->backing, strerror(-err));
	log_warn("%s", text);
	return 0;
}

static int start(struct nodes *ns, struct worker *w, const char *name, void *(*main)(void *),
		 struct error *e)
{
	int err = ns->options.by_hand ? 0 : worker_start(w, name, main, ns);

	return err ? FAIL(e, -err, IO_THREADS, strerror(-err)) : 0;
}

int nodes_create(struct nodes **out, const struct nodes_options *o, struct error *e)
{
	struct nodes *ns = calloc(1, sizeof(*ns));
	int err = ns ? describe(ns, o) : -ENOMEM;

	*out = NULL;
	if (err) {
		free(ns);
		return FAIL(e, -err, IO_THREADS, strerror(-err));
	}
	init_locks(ns);
	err = first_lease(ns, e);
	if (!err && !*ns->alone)
		err = start(ns, &ns->renewer, "ckptfs-lease", renew_main, e);
	if (!err && !*ns->alone)
		err = nodes_meet(ns, e);
	if (!err && !*ns->alone)
		err = start(ns, &ns->watcher, "ckptfs-nodes", watch_main, e);
	if (!err && !o->by_hand && o->coord == &coord_dir_ops && !nodes_seem_alone(ns))
		wait_ns(NODES_JOIN_NS);
	if (err)
		nodes_destroy(ns);
	else
		*out = ns;
	return err;
}

void nodes_destroy(struct nodes *ns)
{
	int err;

	if (!ns)
		return;
	lock_take(&ns->lock);
	ns->stop = true;
	waitq_wake(&ns->wake_renewer);
	waitq_wake(&ns->wake_watcher);
	lock_drop(&ns->lock);
	worker_join(&ns->renewer);
	worker_join(&ns->watcher);
	err = *ns->alone ? 0 : ns->options.coord->lease_end(ns->options.coord_arg, ns->id);
	if (err)
		log_info("the lease of this node in %s could not be ended: %s; others see that it "
			 "is over "
			 "after %u s",
			 ns->backing, strerror(-err), (unsigned)(ns->lease_ns / NSEC_PER_SEC));
	nodes_forget_all(ns);
	lock_finish(&ns->lock);
	free(ns->backing);
	free(ns);
}

/* --- what other modules ask --- */

const char *nodes_id(const struct nodes *ns)
{
	return ns->id;
}

bool nodes_alone(const struct nodes *ns)
{
	return *ns->alone;
}

static int another(void *arg, const char *node)
{
	const struct nodes *ns = arg;

	return strcmp(node, ns->id) != 0;
}

bool nodes_seem_alone(struct nodes *ns)
{
	uint64_t now = clock_mono_ns(), last = atomic_load(&ns->seemed_ns);

	if (*ns->alone)
		return true;
	if (ns->options.coord != &coord_dir_ops)
		return false;
	/* One thread looks; the others use its last result. */
	if (now - last >= NODES_LOOK_NS &&
	    atomic_compare_exchange_strong(&ns->seemed_ns, &last, now))
		atomic_store(&ns->seems_alone,
			     !ns->options.coord->lease_list(ns->options.coord_arg, another, ns));
	return atomic_load(&ns->seems_alone);
}

bool nodes_hold(struct nodes *ns)
{
	LOCK_SCOPE(&ns->lock);
	return !*ns->alone && ns->renewed_ns && clock_mono_ns() - ns->renewed_ns < ns->lease_ns;
}

static json_t *others_to_json(const struct nodes *ns)
{
	json_t *others = json_array();
	const struct list *at;

	list_for_each (at, &ns->seen) {
		const struct seen *s = container_of(at, struct seen, link);

		if (s->ever)
			json_array_append_new(others,
					      json_pack("{s:s, s:o, s:o, s:s, s:f}", "node", s->id,
							"label", json_text(s->facts.label), "host",
							json_text(s->facts.host), "state",
							s->dead	     ? "dead"
							: s->changed ? "live"
								     : "unknown",
							"silent_s",
							(double)s->unchanged_ns / NSEC_PER_SEC));
	}
	return others;
}

json_t *nodes_to_json(struct nodes *ns)
{
	uint64_t now = clock_mono_ns();
	const char *lease, *why;

	LOCK_SCOPE(&ns->lock);
	lease = *ns->alone ? "alone" : ns->renew_err ? "failing" : "held";
	why = *ns->alone ? ns->alone : ns->renew_err ? strerror(-ns->renew_err) : "";
	if (!*ns->alone) {
		if (now >= ns->interest_ns)
			waitq_wake(&ns->wake_watcher);
		ns->interest_ns = now + 2 * ns->lease_ns;
	}
	return json_pack("{s:s, s:s, s:s, s:o}", "node", ns->id, "lease", lease, "why", why,
			 "others", others_to_json(ns));
}
