/* SPDX-License-Identifier: MIT */
#include "engine/base/worker.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define NAME_SIZE 16

struct beginning {
	void *(*main)(void *);
	void *arg;
	char name[NAME_SIZE];
};

static void *begin(void *beginning)
{
	struct beginning b = *(struct beginning *)beginning;

	free(beginning);
	pthread_setname_np(pthread_self(), b.name);
	return b.main(b.arg);
}

static int start(pthread_t *thread, const pthread_attr_t *attr, const char *name,
		 void *(*main)(void *), void *arg)
{
	struct beginning *b = malloc(sizeof(*b));
	sigset_t all, before;
	int err;

	if (!b)
		return -ENOMEM;
	*b = (struct beginning){.main = main, .arg = arg};
	snprintf(b->name, sizeof(b->name), "%s", name);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = -pthread_create(thread, attr, begin, b);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (err)
		free(b);
	return err;
}

int worker_start(struct worker *w, const char *name, void *(*main)(void *), void *arg)
{
	int err = start(&w->thread, NULL, name, main, arg);

	w->runs = !err;
	return err;
}

void worker_join(struct worker *w)
{
	if (w->runs)
		pthread_join(w->thread, NULL);
	w->runs = false;
}

int worker_start_detached(const char *name, size_t stack, void *(*main)(void *), void *arg)
{
	pthread_attr_t attr;
	pthread_t thread;
	int err;

	pthread_attr_init(&attr);
	if (stack)
		pthread_attr_setstacksize(&attr, stack);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	err = start(&thread, &attr, name, main, arg);
	pthread_attr_destroy(&attr);
	return err;
}

unsigned worker_cpus(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof(set), &set) ? 1 : (unsigned)CPU_COUNT(&set);
}
