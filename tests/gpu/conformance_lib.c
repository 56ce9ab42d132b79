/* SPDX-License-Identifier: MIT */
#include "tests/gpu/conformance.h"

#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAX_ASSERTS 160

const struct cuda_driver *cu;
struct cuda_trainer tr;
CUcontext context;
size_t size;

const char *group;
int n_failed;
bool json;
static struct {
	const char *group, *name, *verdict;
	char got[200]; /* if it is not what was wanted, or why it was not asked */
} asserted[MAX_ASSERTS];
static int n_asserted, n_skipped;

static void note(const char *name, const char *verdict, const char *got)
{
	if (n_asserted == MAX_ASSERTS)
		errx(2, "more than MAX_ASSERTS assertions");
	asserted[n_asserted].group = group;
	asserted[n_asserted].name = name;
	asserted[n_asserted].verdict = verdict;
	snprintf(asserted[n_asserted++].got, sizeof(asserted[0].got), "%s", got);
	if (!json)
		printf("%-4s %s: %s%s%s\n", verdict, group, name, *got ? ": " : "", got);
	fflush(stdout);
}

bool ok(const char *name, bool true_)
{
	n_failed += !true_;
	note(name, true_ ? "ok" : "FAIL", "");
	return true_;
}

void skip(const char *name, const char *why)
{
	n_skipped++;
	note(name, "skip", why);
}

bool is(const char *name, CUresult got, CUresult wanted)
{
	char one[80], other[80], text[200];

	if (got == wanted)
		return ok(name, true);
	snprintf(text, sizeof(text), "got %s, wanted %s",
		 cuda_error_text(cu, got, one, sizeof(one)),
		 cuda_error_text(cu, wanted, other, sizeof(other)));
	n_failed++;
	note(name, "FAIL", text);
	return false;
}

void must(CUresult got, const char *what)
{
	char text[80];

	if (got)
		errx(1, "%s: %s", what, cuda_error_text(cu, got, text, sizeof(text)));
}

static void print_json(void)
{
	int version = 0;

	cu->DriverGetVersion(&version);
	printf("{\"driver\": %d, \"fake\": %s, \"passed\": %d, \"failed\": %d, \"skipped\": %d, "
	       "\"assertions\": [",
	       version, tr.Launch ? "true" : "false", n_asserted - n_failed - n_skipped, n_failed,
	       n_skipped);
	for (int i = 0; i < n_asserted; i++)
		printf("%s\n  {\"group\": \"%s\", \"name\": \"%s\", \"verdict\": \"%s\", "
		       "\"got\": \"%s\"}",
		       i ? "," : "", asserted[i].group, asserted[i].name, asserted[i].verdict,
		       asserted[i].got);
	printf("]}\n");
}

void print_summary(void)
{
	if (json)
		print_json();
	else
		printf("%d assertions: %d failed, %d skipped\n", n_asserted, n_failed, n_skipped);
}

/* --- what the cases use --- */

void gate_wait(void *arg)
{
	struct gate *gate = arg;

	sem_post(&gate->reached);
	sem_wait(&gate->open);
}

void gate_init(struct gate *gate)
{
	sem_init(&gate->reached, 0, 0);
	sem_init(&gate->open, 0, 0);
}

void gate_close(struct gate *gate, CUstream stream)
{
	gate_init(gate);
	MUST(tr.LaunchHostFunc(stream, gate_wait, gate));
	sem_wait(&gate->reached);
}

void gate_open(struct gate *gate)
{
	sem_post(&gate->open);
}

CUstream new_stream(unsigned int flags)
{
	CUstream stream;

	MUST(cu->StreamCreate(&stream, flags));
	return stream;
}

CUevent new_event(void)
{
	CUevent event;

	MUST(cu->EventCreate(&event, CU_EVENT_DISABLE_TIMING));
	return event;
}

CUevent record(CUstream stream)
{
	CUevent event = new_event();

	MUST(cu->EventRecord(event, stream));
	return event;
}

CUdeviceptr new_memory(size_t bytes, int byte)
{
	CUdeviceptr memory;

	MUST(tr.MemAlloc(&memory, bytes));
	MUST(tr.MemsetD8(memory, byte, bytes));
	MUST(tr.CtxSynchronize());
	return memory;
}

char *new_host(size_t bytes)
{
	int fd = memfd_create("conformance", MFD_CLOEXEC);
	char *memory;

	if (fd < 0 || ftruncate(fd, bytes) < 0)
		err(1, "memfd_create");
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		err(1, "mmap");
	close(fd);
	memset(memory, 0, bytes);
	return memory;
}

char *new_pinned(size_t bytes)
{
	char *memory = new_host(bytes);

	MUST(cu->MemHostRegister(memory, bytes, CU_MEMHOSTREGISTER_PORTABLE));
	return memory;
}

void free_pinned(char *memory, size_t bytes)
{
	MUST(cu->MemHostUnregister(memory));
	munmap(memory, bytes);
}

bool all_are(const char *memory, size_t bytes, int byte)
{
	return memory[0] == (char)byte && !memcmp(memory, memory + 1, bytes - 1);
}

bool device_is(CUdeviceptr memory, size_t bytes, int byte)
{
	char *copy = malloc(bytes);
	bool same;

	MUST(tr.CtxSynchronize());
	MUST(tr.MemcpyDtoH(copy, memory, bytes));
	same = all_are(copy, bytes, byte);
	free(copy);
	return same;
}

CUresult about(CUdeviceptr pointer, struct about *about)
{
	int which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,      CU_POINTER_ATTRIBUTE_BUFFER_ID,
		       CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
		       CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,   CU_POINTER_ATTRIBUTE_IS_MANAGED};
	void *values[] = {&about->type, &about->id,	 &about->start,
			  &about->size, &about->ordinal, &about->managed};

	memset(about, 0xff, sizeof(*about));
	return cu->PointerGetAttributes(6, which, values, pointer);
}
