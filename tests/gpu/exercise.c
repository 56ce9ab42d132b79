/* SPDX-License-Identifier: MIT */
/*
 * What tests of the fake driver let it do:
 * 	exercise copies N BYTES [pageable]	N copies from the device, one after the other; of
 * 		each a line: its number, what the call returned and what waiting for it did, how
 * 		many bits are wrong
 * 	exercise rush N BYTES	after a line was read: N copies; ns before the first and after the last
 * 	exercise overtake BYTES	a copy of BYTES begins, then one of 4 bytes on another stream; how many ns
 * 		that took, from before both
 * 	exercise early BYTES	writes to where a copy is going to, at its half; exercise late BYTES: at its end
 * 	exercise devices	of each: UUID, PCI address
 * 	exercise register BYTES	what registering that much returns
 */
#include <err.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "client/cuda_driver.h"
#include "engine/base/clock.h"
#include "tests/fakecuda/api.h"

static const struct cuda_driver *cu;
static struct cuda_trainer tr;
static CUstream stream;

static const char *named(CUresult error)
{
	static char text[2][80];
	static int next;

	next = !next;
	return cuda_error_text(cu, error, text[next], sizeof(text[0]));
}

static void must(CUresult error, const char *what)
{
	if (error)
		errx(1, "%s: %s", what, named(error));
}

#define MUST(call) must(call, #call)

static char *new_host(size_t bytes, bool pinned)
{
	char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (memory == MAP_FAILED)
		err(1, "mmap");
	if (pinned)
		MUST(cu->MemHostRegister(memory, bytes, 0));
	return memory;
}

static CUdeviceptr new_device(size_t bytes)
{
	CUdeviceptr memory;

	MUST(tr.MemAlloc(&memory, bytes));
	return memory;
}

static unsigned int wrong_bits(const char *memory, size_t bytes, char wanted)
{
	unsigned int wrong = 0;

	for (size_t i = 0; i < bytes; i++)
		wrong += __builtin_popcount((unsigned char)(memory[i] ^ wanted));
	return wrong;
}

static void copies(int n, size_t bytes, bool pinned)
{
	CUdeviceptr device = new_device(bytes);
	char *host = new_host(bytes, pinned);
	CUevent event;
	uint64_t begun, pageable;

	MUST(cu->EventCreate(&event, 0));
	for (int i = 1; i <= n; i++) {
		CUresult called, waited;

		tr.MemsetD8Async(device, i, bytes, stream);
		called = cu->MemcpyDtoHAsync(host, device, bytes, stream);
		waited = cu->EventRecord(event, stream);
		if (!waited)
			waited = cu->EventSynchronize(event);
		printf("%d, %s, %s, %u wrong\n", i, named(called), named(waited),
		       wrong_bits(host, bytes, (char)i));
	}
	cu->EventDestroy(event);
	MUST(tr.Count("copies", &begun));
	MUST(tr.Count("pageable", &pageable));
	printf("copies %d pageable %d\n", (int)begun, (int)pageable);
}

static void rush(int n, size_t bytes)
{
	CUdeviceptr device = new_device(bytes);
	char *host = new_host(bytes, true), line[8];
	uint64_t start;

	puts("ready");
	if (!fgets(line, sizeof(line), stdin))
		errx(1, "no line to start at");
	start = clock_mono_ns();
	for (int i = 0; i < n; i++)
		MUST(cu->MemcpyDtoHAsync(host, device, bytes, stream));
	MUST(tr.StreamSynchronize(stream));
	printf("%llu %llu\n", (unsigned long long)start, (unsigned long long)clock_mono_ns());
}

static void begun(void *arg, int engine, size_t done, size_t total)
{
	(void)engine, (void)total;
	if (!done)
		sem_post(arg);
}

static void overtake(size_t bytes)
{
	CUdeviceptr device = new_device(bytes);
	char *host = new_host(bytes, true);
	uint64_t start = clock_mono_ns();
	CUstream other;
	sem_t large;

	sem_init(&large, 0, 0);
	MUST(cu->StreamCreate(&other, CU_STREAM_NON_BLOCKING));
	MUST(tr.OnStep(begun, &large));
	MUST(cu->MemcpyDtoHAsync(host, device, bytes, stream));
	sem_wait(&large);
	MUST(cu->MemcpyDtoHAsync(host, device, 4, other));
	MUST(tr.StreamSynchronize(other));
	printf("%llu\n", (unsigned long long)(clock_mono_ns() - start));
}

/* Tells without ordering anything, as a look at the memory would. */
static void half(void *arg, int engine, size_t done, size_t total)
{
	(void)engine;
	if (done >= total / 2)
		__atomic_store_n((int *)arg, 1, __ATOMIC_RELAXED);
}

static void touch(size_t bytes, bool early)
{
	CUdeviceptr device = new_device(bytes);
	char *host = malloc(bytes);
	int reached = 0;

	MUST(cu->MemHostRegister(host, bytes, 0));
	MUST(tr.OnStep(half, &reached));
	MUST(cu->MemcpyDtoHAsync(host, device, bytes, stream));
	if (!early)
		MUST(tr.StreamSynchronize(stream));
	while (!__atomic_load_n(&reached, __ATOMIC_RELAXED))
		;
	host[0]++;
	MUST(tr.StreamSynchronize(stream));
	MUST(cu->MemHostUnregister(host));
	free(host);
}

static void devices(void)
{
	char bus[16];
	CUuuid uuid;
	int n;

	MUST(cu->DeviceGetCount(&n));
	for (int i = 0; i < n; i++) {
		MUST(cu->DeviceGetUuid(&uuid, i));
		MUST(cu->DeviceGetPCIBusId(bus, sizeof(bus), i));
		for (size_t j = 0; j < sizeof(uuid.bytes); j++)
			printf("%02x", (unsigned char)uuid.bytes[j]);
		printf(" %s\n", bus);
	}
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "", *lacks;
	size_t bytes = argc > 2 ? strtoull(argv[argc > 3 ? 3 : 2], NULL, 10) : 0;
	CUcontext context;

	setvbuf(stdout, NULL, _IOLBF, 0);
	cu = cuda_driver();
	if (!cu)
		errx(77, "%s", cuda_driver_missing());
	lacks = cuda_trainer_load(&tr);
	if (lacks || !tr.Launch)
		errx(1, "the driver lacks %s", lacks ? lacks : "what the fake one has");
	MUST(cu->Init(0));
	MUST(cu->DevicePrimaryCtxRetain(&context, 0));
	MUST(cu->CtxPushCurrent(context));
	MUST(cu->StreamCreate(&stream, CU_STREAM_NON_BLOCKING));

	if (!strcmp(what, "copies"))
		copies(atoi(argv[2]), bytes, argc < 5);
	else if (!strcmp(what, "rush"))
		rush(atoi(argv[2]), bytes);
	else if (!strcmp(what, "overtake"))
		overtake(bytes);
	else if (!strcmp(what, "early") || !strcmp(what, "late"))
		touch(bytes, *what == 'e');
	else if (!strcmp(what, "devices"))
		devices();
	else if (!strcmp(what, "register"))
		puts(named(cu->MemHostRegister(new_host(bytes, false), bytes, 0)));
	else
		errx(2, "what is '%s'?", what);
	return 0;
}
