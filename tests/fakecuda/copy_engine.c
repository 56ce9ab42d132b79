/* SPDX-License-Identifier: MIT */
/*
 * Copy engines. Each has a timetable of one number, the time at which it is free again, in a file
 * that all processes of FAKE_CUDA_DIR share: who comes takes the time from then on, as long as its
 * copy needs. So copies wait for those before them, whoever's they are, and nobody can die with a
 * lock; the time that a killed process had taken is lost.
 */
#include "tests/fakecuda/fake.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/cleanup.h"

#define MAX_SLEEP_NS 2000000 /* exit is not kept waiting for longer */

/* Settable while copies run, hence atomic. */
static struct {
	_Atomic double bytes_per_ns;
	_Atomic unsigned int us;
} rates[ENGINES];

static _Atomic uint64_t (*free_at)[ENGINES]; /* of each device */

uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

void sleep_until(uint64_t ns)
{
	for (uint64_t now = now_ns(); now < ns && !fake.exited; now = now_ns()) {
		uint64_t to = ns - now > MAX_SLEEP_NS ? now + MAX_SLEEP_NS : ns;
		struct timespec until = {to / 1000000000, to % 1000000000};

		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
	}
}

CUresult engines_open(const char *dir)
{
	static const char *const names[ENGINES] = {"DTOH", "HTOD", "DTOD"};
	size_t bytes = sizeof(*free_at) * MAX_DEVICES;
	char text[4096];

	for (int i = 0; i < ENGINES; i++) {
		snprintf(text, sizeof(text), "%s_GBPS", names[i]);
		rates[i].bytes_per_ns = setting(text, 0);
		snprintf(text, sizeof(text), "%s_US", names[i]);
		rates[i].us = setting(text, 0);
	}
	snprintf(text, sizeof(text), "%s/engines", dir);
	__cleanup_fd int fd = open(text, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	if (fd < 0 || ftruncate(fd, bytes) < 0)
		return CUDA_ERROR_NO_DEVICE;
	free_at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return free_at == MAP_FAILED ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}

void engine_reserve(int device, int engine, size_t bytes, uint64_t *start, uint64_t *end)
{
	double rate = rates[engine].bytes_per_ns;
	uint64_t takes = rates[engine].us * 1000ull + (rate > 0 ? (uint64_t)(bytes / rate) : 0);
	uint64_t now = now_ns(), free_then = free_at[device][engine];

	do {
		*start = free_then > now ? free_then : now;
		*end = *start + takes;
	} while (!atomic_compare_exchange_weak(&free_at[device][engine], &free_then, *end));
}

CUresult fakeRate(int engine, double gb_per_s, unsigned int us_per_copy)
{
	CALL(0, "engine=%d gbps=%g us=%u", engine, gb_per_s, us_per_copy);
	rates[engine].bytes_per_ns = gb_per_s;
	rates[engine].us = us_per_copy;
	return CUDA_SUCCESS;
}
