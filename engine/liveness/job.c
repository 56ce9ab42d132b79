/* SPDX-License-Identifier: MIT */
/* The thread that sees known processes end, and the start and end of the whole module. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/wait.h"
#include "engine/liveness/job_inside.h"
#include "engine/liveness/proc.h"

/*
 * The watcher looks this often while a watch stands. Two looks more than HELD_UP_NS apart show that
 * the daemon was held up: then lived_ns is the time of the earlier look.
 */
#define LOOK_MS	   100
#define HELD_UP_NS (NSEC_PER_SEC / 2)

static void wake(struct jobs *js)
{
	eventfd_write(js->wake, 1);
}

int jobs_watch(struct process *p)
{
	struct jobs *js = p->jobs;
	LOCK_SCOPE(&js->lock);

	if (!p->visible)
		return -ESRCH;
	process_get_locked(p);
	if (p->gone)
		p->untold = true;
	if (!p->watches++ || p->gone)
		wake(js);
	return 0;
}

void jobs_unwatch(struct process *p)
{
	LOCK_SCOPE(&p->jobs->lock);
	assert(p->watches);
	p->watches--;
	process_put_locked(p);
}

bool process_has_ended(struct process *p)
{
	LOCK_SCOPE(&p->jobs->lock);
	return p->gone || (p->pidfd >= 0 && pidfd_ended(p->pidfd));
}

bool process_is_ending(struct process *p)
{
	LOCK_SCOPE(&p->jobs->lock);
	return p->gone || (!p->noticed && p->pidfd >= 0 && pidfd_ended(p->pidfd));
}

bool process_is_gone(struct process *p, struct writer_end *end)
{
	LOCK_SCOPE(&p->jobs->lock);
	if (p->gone)
		*end = p->end;
	return p->gone;
}

/*
 * Finds out how @p ended; only the watcher closes p->pidfd. Returns false if the kernel tells only
 * after the parent has waited. Before that /proc tells, to a reader with the right. Its answer
 * counts if @p was still not waited for afterwards: then no other process had its id.
 */
static bool find_end(const struct process *p, bool reaped, struct writer_end *end)
{
	int told, status = 0;

	*end = (struct writer_end){WRITER_EXIT_UNKNOWN, 0};
	if (!reaped) {
		struct writer_end seen = writer_judge(p->tgid);

		if ((seen.fate == WRITER_DIED || seen.fate == WRITER_EXITED_OK) &&
		    !pidfd_reaped(p->pidfd)) {
			*end = seen;
			return true;
		}
	}
	told = pidfd_status(p->pidfd, &status);
	if (told > 0)
		*end = writer_end_of(status);
	return told || reaped;
}

/* @p, referenced, has ended, after the time @lived_ns. */
static void settle(struct jobs *js, struct process *p, bool reaped, uint64_t lived_ns)
{
	struct writer_end end;
	bool known = find_end(p, reaped, &end);
	LOCK_SCOPE(&js->lock);

	if (!p->noticed)
		p->lived_ns = lived_ns;
	p->noticed = true;
	if (!known) {
		process_watch_end(p, 0); /* EPOLLHUP is reported nevertheless */
	} else {
		p->gone = true;
		p->end = end;
		p->untold = p->watches;
		close(p->pidfd);
		p->pidfd = -1;
	}
	process_put_locked(p);
}

static struct process *get_by_serial(struct jobs *js, uint64_t serial)
{
	struct list *pos;
	LOCK_SCOPE(&js->lock);

	list_for_each (pos, &js->processes) {
		struct process *p = container_of(pos, struct process, link);

		if (p->serial == serial && !p->gone)
			return process_get_locked(p);
	}
	return NULL;
}

static struct process *next_untold(struct jobs *js)
{
	struct list *pos;
	LOCK_SCOPE(&js->lock);

	list_for_each (pos, &js->processes) {
		struct process *p = container_of(pos, struct process, link);

		if (p->untold && p->watches) {
			p->untold = false;
			return process_get_locked(p);
		}
	}
	return NULL;
}

static bool is_ending(struct jobs *js)
{
	LOCK_SCOPE(&js->lock);
	return js->ending;
}

static bool has_watches(struct jobs *js)
{
	struct list *pos;
	LOCK_SCOPE(&js->lock);

	list_for_each (pos, &js->processes) {
		struct process *p = container_of(pos, struct process, link);

		if (p->watches && !p->noticed)
			return true;
	}
	return false;
}

static void *watcher_main(void *arg)
{
	uint64_t looked_ns = 0, began_ns, now, lived_ns;
	struct jobs *js = arg;
	struct epoll_event events[16];
	struct process *p;
	bool watched;
	int i, nr;

	while (!is_ending(js)) {
		watched = has_watches(js);
		began_ns = clock_mono_ns();
		nr = epoll_wait(js->epoll, events, ARRAY_SIZE(events), watched ? LOOK_MS : -1);
		now = clock_mono_ns();
		looked_ns = watched ? looked_ns : now;
		lived_ns = now - looked_ns > HELD_UP_NS ? looked_ns : now;
		/*
		 * epoll_wait reports every end up to its start, unless the array was too small or
		 * the call was interrupted.
		 */
		if (watched && nr >= 0 && nr < (int)ARRAY_SIZE(events))
			looked_ns = began_ns;
		for (i = 0; i < nr; i++) {
			uint64_t serial = events[i].data.u64;
			eventfd_t count;

			p = serial ? get_by_serial(js, serial) : NULL;
			if (p)
				settle(js, p, events[i].events & EPOLLHUP, lived_ns);
			else if (!serial)
				eventfd_read(js->wake, &count);
		}
		while ((p = next_untold(js))) {
			js->ended(js->arg, p, p->end); /* p->end is const once p is gone */
			process_put(p);
		}
	}
	return NULL;
}

/* --- the whole module --- */

static void read_boot_id(char *out, size_t size)
{
	__cleanup_file FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");

	if (!f || !fgets(out, (int)size, f))
		snprintf(out, size, "-");
	out[strspn(out, "0123456789abcdef-")] = '\0';
}

static void close_watch(struct jobs *js)
{
	LOCK_SCOPE(&js->lock);
	if (js->epoll >= 0)
		close(js->epoll);
	if (js->wake >= 0)
		close(js->wake);
	js->epoll = js->wake = -1; /* a hanging reader may not know yet */
}

static int start_threads(struct jobs *js)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.u64 = 0};
	int err;

	js->epoll = epoll_create1(EPOLL_CLOEXEC);
	js->wake = js->epoll < 0 ? -1 : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (js->wake < 0 || epoll_ctl(js->epoll, EPOLL_CTL_ADD, js->wake, &ev))
		return -errno;
	{
		LOCK_SCOPE(&js->lock);
		err = jobs_start_reader_locked(js);
	}
	if (!err)
		err = worker_start(&js->watcher, "ckptfs-exits", watcher_main, js);
	return err;
}

int jobs_create(struct jobs **out,
		void (*ended)(void *arg, const struct process *p, struct writer_end end), void *arg,
		struct error *e)
{
	struct jobs *js = calloc(1, sizeof(*js));
	int err;

	*out = NULL;
	if (!js)
		return FAIL(e, ENOMEM, JOBS_UNWATCHED, strerror(ENOMEM));
	js->ended = ended;
	js->arg = arg;
	js->epoll = js->wake = -1;
	js->users = 1;
	js->next_serial = 1;
	list_init(&js->processes);
	list_init(&js->idle);
	list_init(&js->questions);
	lock_init(&js->lock, LOCK_JOBS);
	waitq_init(&js->changed, &js->lock);
	read_boot_id(js->boot_id, sizeof(js->boot_id));
	err = start_threads(js);
	if (err) {
		jobs_end_readers(js);
		close_watch(js);
		jobs_put(js);
		return FAIL(e, -err, JOBS_UNWATCHED, strerror(-err));
	}
	*out = js;
	return 0;
}

void jobs_destroy(struct jobs *js)
{
	if (!js)
		return;
	jobs_end_readers(js);
	wake(js);
	worker_join(&js->watcher);
	close_watch(js);
	processes_drop_idle(js);
	jobs_put(js);
}
