/* SPDX-License-Identifier: MIT */
/*
 * The parts of conformance: conformance.c, which tells what it is for, has the program and what
 * concerns devices and processes, the others the rest of the cases; conformance_lib.c what they
 * use.
 */
#ifndef TESTS_GPU_CONFORMANCE_H
#define TESTS_GPU_CONFORMANCE_H

#include <semaphore.h>
#include <stdbool.h>
#include <stddef.h>

#include "client/cuda_driver.h"
#include "tests/fakecuda/api.h"

/* In the name of an assertion that documentation leaves open, or that only reports tell. */
#define UNSURE " [to be confirmed on hardware]"

#define PAGE 4096ul

extern const struct cuda_driver *cu;
extern struct cuda_trainer tr;
extern CUcontext context;
extern size_t size; /* of a copy that takes its time */

/* --- assertions: a line each --- */

extern const char *group; /* of those that come */
extern int n_failed;
extern bool json; /* only say it at the end, as JSON */

bool ok(const char *name, bool true_);
bool is(const char *name, CUresult got, CUresult wanted);
void skip(const char *name, const char *why);
/* All that there were so far. */
void print_summary(void);

/* What has to work for anything to make sense; else it ends the program. */
#define MUST(call) must(call, #call)
void must(CUresult got, const char *what);

/* --- what the cases use --- */

struct gate {
	sem_t reached, open;
};

void gate_init(struct gate *gate);
/* Says that it is reached, and waits until it is opened. */
void gate_wait(void *gate);
/* From now on @stream does nothing, until gate_open. */
void gate_close(struct gate *gate, CUstream stream);
void gate_open(struct gate *gate);

CUstream new_stream(unsigned int flags);
CUevent new_event(void);
CUevent record(CUstream stream);

CUdeviceptr new_memory(size_t bytes, int byte);
char *new_host(size_t bytes);	/* to munmap */
char *new_pinned(size_t bytes); /* registered; to free_pinned */
void free_pinned(char *memory, size_t bytes);
bool all_are(const char *memory, size_t bytes, int byte);
/* All of device memory, looked at with all work done. */
bool device_is(CUdeviceptr memory, size_t bytes, int byte);

/* What the driver says of a pointer. */
struct about {
	unsigned int type;
	unsigned long long id;
	CUdeviceptr start;
	size_t size;
	int ordinal;
	unsigned int managed;
};

CUresult about(CUdeviceptr pointer, struct about *about);

/* --- conformance_memory.c, conformance_streams.c --- */

void memory_cases(void);
void stream_cases(void);

#endif
