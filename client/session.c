/* SPDX-License-Identifier: MIT */
/* What all parts of a session use: errors, calls to the daemon, threads, devices. */
#include "client/session.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/wire.h"

static __thread struct {
	const struct ckptfs_session *session;
	char text[CKPTFS_TEXT_MAX];
} last_error;
static __thread char last_open_error[CKPTFS_TEXT_MAX];

int ckpt_error(const struct ckptfs_session *s, int err, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(s ? last_error.text : last_open_error, CKPTFS_TEXT_MAX, format, args);
	va_end(args);
	if (s)
		last_error.session = s;
	return err;
}

const char *ckptfs_error(const struct ckptfs_session *s)
{
	if (!s)
		return last_open_error;
	return last_error.session == s ? last_error.text : "";
}

const char *ckptfs_version(void)
{
	return CKPTFS_VERSION;
}

uint64_t ckpt_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * CKPT_NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

int ckpt_session_enter(struct ckptfs_session *s)
{
	int dead;

	ckpt_error(s, 0, "%s", "");
	if (s->pid != getpid())
		return ckpt_error(s, -ECHILD,
				  "the session is that of process %d; a child opens its own",
				  (int)s->pid);
	pthread_mutex_lock(&s->lock);
	dead = s->dead;
	pthread_mutex_unlock(&s->lock);
	return dead ? ckpt_error(s, dead, "the daemon is gone: %s", strerror(-dead)) : 0;
}

int ckpt_session_ioctl(int fd, unsigned long request, void *arg)
{
	int err;

	do
		err = ckpt_wire->ioctl(fd, request, arg);
	while (err == -EINTR);
	return err;
}

int ckpt_thread_start(pthread_t *t, const char *name, void *(*run)(void *), void *arg)
{
	sigset_t all, before;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(t, NULL, run, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!err)
		pthread_setname_np(*t, name);
	return -err;
}

struct ckpt_bound_device *ckpt_session_device(struct ckptfs_session *s, enum ckptfs_memory memory)
{
	unsigned i = memory == CKPTFS_HOST || memory == CKPTFS_HOST_PINNED ? 0 : 1;

	return s->devices[i].ops ? &s->devices[i] : NULL;
}

void ckpt_session_touch_locked(struct ckptfs_session *s, uint64_t bytes)
{
	if (bytes > s->arena_bytes)
		bytes = s->arena_bytes;
	if (bytes <= s->to_touch)
		return;
	s->to_touch = bytes;
	pthread_cond_signal(&s->touch);
}

int ckptfs_session_stats(struct ckptfs_session *s, struct ckptfs_session_stats *stats)
{
	int err = ckpt_session_enter(s);

	if (err == -ECHILD)
		return err;
	pthread_mutex_lock(&s->lock);
	*stats = s->stats;
	pthread_mutex_unlock(&s->lock);
	return 0;
}
