/* SPDX-License-Identifier: MIT */
/* What every call of the driver goes through: the log, failures asked for, and who may call now. */
#include "tests/fakecuda/fake.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine/base/cleanup.h"

struct fake fake = {.lock = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER};
__thread struct fake_thread fake_thread;

static int log_fd = -1;

static void open_log(void)
{
	const char *path = getenv("FAKE_CUDA_LOG");

	if (path)
		log_fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
}

static void log_line(const char *head, const char *format, va_list args)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	char line[512];
	int used;

	pthread_once(&once, open_log);
	if (log_fd < 0)
		return;
	used = snprintf(line, sizeof(line) - 1, "%llu %d %ld %s", (unsigned long long)now_ns(),
			getpid(), syscall(SYS_gettid), head);
	used += vsnprintf(line + used, sizeof(line) - 1 - used, format, args);
	if (used > (int)sizeof(line) - 2)
		used = sizeof(line) - 2;
	line[used++] = '\n';
	if (write(log_fd, line, used) < 0)
		log_fd = -1;
}

void call_log(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	log_line("", format, args);
	va_end(args);
}

/* Of the calling thread: may it call a function with these @flags? */
static CUresult allowed(int flags)
{
	CUcontext context = current_context();

	if (flags & CONTEXT && (!context || !context->retained))
		return CUDA_ERROR_INVALID_CONTEXT;
	if (flags & CONTEXT && context->failed)
		return context->failed;
	return flags & UNSAFE ? capture_forbids() : CUDA_SUCCESS;
}

static bool is_sticky(CUresult error)
{
	return error == CUDA_ERROR_ILLEGAL_ADDRESS || error == CUDA_ERROR_LAUNCH_TIMEOUT ||
	       error == CUDA_ERROR_LAUNCH_FAILED;
}

CUresult call_begin(const char *function, int flags, const char *format, ...)
{
	CUresult error;
	char head[64];
	va_list args;

	/*
	 * In a forked child a lock may be held by a thread that is not there: nothing more happens.
	 */
	if (fake.pid && fake.pid != getpid())
		return flags & ANY_TIME ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
	if (!(flags & ANY_TIME) && (!fake.pid || fake.exited))
		return fake.exited ? CUDA_ERROR_DEINITIALIZED : CUDA_ERROR_NOT_INITIALIZED;
	snprintf(head, sizeof(head), "%s ", function);
	va_start(args, format);
	log_line(head, format, args);
	va_end(args);

	fake_thread.effect = (struct effect){0};
	error = inject(function);

	MUTEX_SCOPE(&fake.lock);
	if (is_sticky(error) && current_context())
		current_context()->failed = error;
	return error ? error : allowed(flags);
}
