/* SPDX-License-Identifier: MIT */
/*
 * What the engine calls of threads, locks, clocks and chance, linked in place of libc's
 * (-Wl,--wrap, see the Makefile): all of it ends in sched.c.
 *
 * A mutex is free or has an owner, kept in its first bytes. A condition has, in its first bytes,
 * its clock.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "tests/sim/sched.h"
#include "tests/sim/story.h"
#include "tests/sim/wrap.h"

#define FDS_MAX 65536

static bool is_event[FDS_MAX]; /* descriptors that eventfd() has returned */
static const char events[1];   /* what waits for an eventfd waits on */

/* --- locks --- */

struct mutex {
	struct task *owner;
	unsigned waiters;
	bool taken;
};

_Static_assert(sizeof(struct mutex) <= sizeof(pthread_mutex_t), "a mutex has no room");

int __wrap_pthread_mutex_init(pthread_mutex_t *m, const pthread_mutexattr_t *attr);
int __wrap_pthread_mutex_init(pthread_mutex_t *m, const pthread_mutexattr_t *attr)
{
	(void)attr;
	memset(m, 0, sizeof(*m));
	return 0;
}

int __wrap_pthread_mutex_destroy(pthread_mutex_t *m);
int __wrap_pthread_mutex_destroy(pthread_mutex_t *m)
{
	(void)m;
	return 0;
}

static void take(pthread_mutex_t *mutex)
{
	struct mutex *m = (struct mutex *)mutex;

	while (m->taken) {
		m->waiters++;
		sched_wait(m, SCHED_FOREVER);
		m->waiters--;
	}
	m->taken = true;
	m->owner = sched_current();
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *m);
int __wrap_pthread_mutex_lock(pthread_mutex_t *m)
{
	sched_locks();
	take(m);
	return 0;
}

int __wrap_pthread_mutex_trylock(pthread_mutex_t *m);
int __wrap_pthread_mutex_trylock(pthread_mutex_t *m)
{
	if (((struct mutex *)m)->taken)
		return EBUSY;
	sched_locks();
	take(m);
	return 0;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *m);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *m)
{
	((struct mutex *)m)->taken = false;
	sched_unlocked();
	if (((struct mutex *)m)->waiters)
		sched_wake_all(m);
	return 0;
}

/* --- conditions --- */

int __wrap_pthread_cond_init(pthread_cond_t *c, const pthread_condattr_t *attr);
int __wrap_pthread_cond_init(pthread_cond_t *c, const pthread_condattr_t *attr)
{
	clockid_t clock = CLOCK_REALTIME;

	if (attr)
		pthread_condattr_getclock(attr, &clock);
	memset(c, 0, sizeof(*c));
	*(clockid_t *)c = clock;
	return 0;
}

int __wrap_pthread_cond_destroy(pthread_cond_t *c);
int __wrap_pthread_cond_destroy(pthread_cond_t *c)
{
	(void)c;
	return 0;
}

int __wrap_pthread_cond_signal(pthread_cond_t *c);
int __wrap_pthread_cond_signal(pthread_cond_t *c)
{
	sched_wake_one(c);
	return 0;
}

int __wrap_pthread_cond_broadcast(pthread_cond_t *c);
int __wrap_pthread_cond_broadcast(pthread_cond_t *c)
{
	sched_wake_all(c);
	return 0;
}

static uint64_t ns_of(const struct timespec *ts)
{
	return (uint64_t)ts->tv_sec * NSEC_PER_SEC + (uint64_t)ts->tv_nsec;
}

/* As sched_now counts. */
static uint64_t deadline(clockid_t clock, const struct timespec *ts)
{
	uint64_t now = clock == CLOCK_REALTIME ? sched_wall() : sched_now(), at = ns_of(ts);

	return at > now ? sched_now() + (at - now) : sched_now();
}

static int wait_until(pthread_cond_t *c, pthread_mutex_t *m, uint64_t until_ns)
{
	bool woken;

	__wrap_pthread_mutex_unlock(m);
	woken = sched_wait(c, until_ns);
	__wrap_pthread_mutex_lock(m);
	return woken ? 0 : ETIMEDOUT;
}

int __wrap_pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m);
int __wrap_pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m)
{
	return wait_until(c, m, SCHED_FOREVER);
}

int __wrap_pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *ts);
int __wrap_pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *ts)
{
	return wait_until(c, m, deadline(*(clockid_t *)c, ts));
}

int __wrap_pthread_cond_clockwait(pthread_cond_t *c, pthread_mutex_t *m, clockid_t clock,
				  const struct timespec *ts);
int __wrap_pthread_cond_clockwait(pthread_cond_t *c, pthread_mutex_t *m, clockid_t clock,
				  const struct timespec *ts)
{
	return wait_until(c, m, deadline(clock, ts));
}

/* --- threads --- */

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*main)(void *),
			  void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*main)(void *),
			  void *arg)
{
	int detached = PTHREAD_CREATE_JOINABLE;

	if (attr)
		pthread_attr_getdetachstate(attr, &detached);
	*thread = (pthread_t)sched_start(sched_node(), main, arg,
					 detached == PTHREAD_CREATE_JOINABLE);
	return 0;
}

int __wrap_pthread_join(pthread_t thread, void **result);
int __wrap_pthread_join(pthread_t thread, void **result)
{
	sched_join((struct task *)thread, SCHED_FOREVER, result);
	return 0;
}

int __wrap_pthread_timedjoin_np(pthread_t thread, void **result, const struct timespec *ts);
int __wrap_pthread_timedjoin_np(pthread_t thread, void **result, const struct timespec *ts)
{
	return sched_join((struct task *)thread, deadline(CLOCK_REALTIME, ts), result) ? 0
										       : ETIMEDOUT;
}

int __wrap_pthread_detach(pthread_t thread);
int __wrap_pthread_detach(pthread_t thread)
{
	sched_detach((struct task *)thread);
	return 0;
}

pthread_t __wrap_pthread_self(void);
pthread_t __wrap_pthread_self(void)
{
	return (pthread_t)sched_current();
}

int __wrap_pthread_setname_np(pthread_t thread, const char *name);
int __wrap_pthread_setname_np(pthread_t thread, const char *name)
{
	if (thread == (pthread_t)sched_current())
		sched_name(name);
	return 0;
}

int __wrap_pthread_sigmask(int how, const sigset_t *set, sigset_t *old);
int __wrap_pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
	(void)how;
	(void)set;
	if (old)
		memset(old, 0, sizeof(*old));
	return 0;
}

/* --- time --- */

int __wrap_clock_gettime(clockid_t clock, struct timespec *ts);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
	uint64_t ns = clock == CLOCK_REALTIME ? sched_wall() : sched_now();

	ts->tv_sec = (time_t)(ns / NSEC_PER_SEC);
	ts->tv_nsec = (long)(ns % NSEC_PER_SEC);
	return 0;
}

int __wrap_nanosleep(const struct timespec *ts, struct timespec *left);
int __wrap_nanosleep(const struct timespec *ts, struct timespec *left)
{
	(void)left;
	sched_sleep(ns_of(ts));
	return 0;
}

int __wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *ts,
			   struct timespec *left);
int __wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *ts,
			   struct timespec *left)
{
	(void)left;
	if (flags & TIMER_ABSTIME)
		sched_sleep(deadline(clock, ts) - sched_now());
	else
		sched_sleep(ns_of(ts));
	return 0;
}

/* --- descriptors that wake --- */

int __real_eventfd(unsigned value, int flags);
int __wrap_eventfd(unsigned value, int flags);
int __wrap_eventfd(unsigned value, int flags)
{
	int fd = __real_eventfd(value, flags);

	if (fd >= 0 && fd < FDS_MAX)
		is_event[fd] = true;
	return fd;
}

ssize_t __real_write(int fd, const void *buf, size_t size);
ssize_t __wrap_write(int fd, const void *buf, size_t size);
ssize_t __wrap_write(int fd, const void *buf, size_t size)
{
	ssize_t n = __real_write(fd, buf, size);

	if (fd >= 0 && fd < FDS_MAX && is_event[fd])
		sched_wake_all(events);
	return n;
}

int __real_poll(struct pollfd *fds, nfds_t nr, int timeout_ms);

bool wrap_poll_now(struct pollfd *p)
{
	return __real_poll(p, 1, 0) > 0;
}

void wrap_wait_poll(uint64_t until_ns)
{
	sched_wait(events, until_ns);
}

void wrap_wake_polls(void)
{
	sched_wake_all(events);
}

static int poll_until(struct pollfd *fds, nfds_t nr, uint64_t until_ns)
{
	int ready;

	while (!(ready = __real_poll(fds, nr, 0)) && sched_now() < until_ns)
		sched_wait(events, until_ns);
	return ready;
}

int __wrap_poll(struct pollfd *fds, nfds_t nr, int timeout_ms);
int __wrap_poll(struct pollfd *fds, nfds_t nr, int timeout_ms)
{
	return poll_until(fds, nr,
			  timeout_ms < 0 ? SCHED_FOREVER
					 : sched_now() + (uint64_t)timeout_ms * NSEC_PER_MSEC);
}

int __wrap_ppoll(struct pollfd *fds, nfds_t nr, const struct timespec *ts, const sigset_t *mask);
int __wrap_ppoll(struct pollfd *fds, nfds_t nr, const struct timespec *ts, const sigset_t *mask)
{
	(void)mask;
	return poll_until(fds, nr, ts ? sched_now() + ns_of(ts) : SCHED_FOREVER);
}

/* --- locks of files, which end with their process --- */

static unsigned char locked_by[FDS_MAX]; /* a node, or 0 */

int __real_flock(int fd, int operation);
int __wrap_flock(int fd, int operation);
int __wrap_flock(int fd, int operation)
{
	int err = __real_flock(fd, operation);

	if (!err && fd < FDS_MAX)
		locked_by[fd] = operation & LOCK_UN ? 0 : (unsigned char)sched_node();
	return err;
}

void wrap_drop_locks(unsigned node)
{
	int fd;

	for (fd = 0; fd < FDS_MAX; fd++)
		if (locked_by[fd] == node) {
			__real_flock(fd, LOCK_UN);
			locked_by[fd] = 0;
		}
}

/* --- what daemons say --- */

void __wrap_log_write(enum log_level level, const char *fmt, ...);
void __wrap_log_write(enum log_level level, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	if (level > LOG_LEVEL_WARN)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	story_of_daemon(sched_node(), text);
}

/* --- chance --- */

ssize_t __wrap_getrandom(void *buf, size_t size, unsigned flags);
ssize_t __wrap_getrandom(void *buf, size_t size, unsigned flags)
{
	unsigned char *at = buf;
	size_t i;

	(void)flags;
	for (i = 0; i < size; i++)
		at[i] = (unsigned char)sched_draw(256);
	return (ssize_t)size;
}
