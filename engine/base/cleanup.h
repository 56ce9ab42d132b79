/* SPDX-License-Identifier: MIT */
/*
 * Scope helpers: a variable that owns a resource releases it at the end of its block.
 *
 *	__cleanup_fd int fd = open(...);	closed if >= 0
 *	__cleanup_free char *s = strdup(...);	freed
 *	return take_fd(&fd);			ownership leaves the scope
 */
#ifndef ENGINE_BASE_CLEANUP_H
#define ENGINE_BASE_CLEANUP_H

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define __cleanup(fn) __attribute__((cleanup(fn)))

static inline void cleanup_free(void *p)
{
	free(*(void **)p);
}

static inline void cleanup_fd(int *fd)
{
	int saved = errno;

	if (*fd >= 0)
		close(*fd);
	errno = saved;
}

static inline void cleanup_file(FILE **f)
{
	if (*f)
		fclose(*f);
}

static inline void cleanup_unlock(pthread_mutex_t **m)
{
	pthread_mutex_unlock(*m);
}

/* Holds the mutex @m, which has no rank (lock.h), until the end of the enclosing block. */
#define MUTEX_SCOPE(m) \
	__cleanup(cleanup_unlock) pthread_mutex_t *mutex_scope_ = (m); \
	pthread_mutex_lock(mutex_scope_)

#define __cleanup_free __cleanup(cleanup_free)
#define __cleanup_fd   __cleanup(cleanup_fd)
#define __cleanup_file __cleanup(cleanup_file)

static inline int take_fd(int *fd)
{
	int f = *fd;

	*fd = -1;
	return f;
}

#define take_ptr(p) \
	({ \
		__typeof__(p) take_ptr_ = (p); \
		(p) = NULL; \
		take_ptr_; \
	})

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#endif
