/* SPDX-License-Identifier: MIT */
/*
 * For tests of libckptfs with tensors on a GPU: the stand-in daemon, and a trainer's side of CUDA,
 * on the fake driver. main() begins with gpu_main.
 */
#ifndef TESTS_UNIT_CLIENT_CUDA_H
#define TESTS_UNIT_CLIENT_CUDA_H

#include "tests/unit/client_daemon.h"

#include <libgen.h>
#include <limits.h>
#include <semaphore.h>

#include "client/cuda_driver.h"
#include "tests/fakecuda/api.h"

static const struct cuda_driver *cu;
static struct cuda_trainer tr;
static CUcontext context;
static CUstream stream;

/*
 * The driver is found when a program is loaded: so this one starts anew where it is not yet said.
 */
HELPER void gpu_main(char **argv)
{
	const char *tmp = getenv("TEST_TMP");
	char exe[PATH_MAX], path[PATH_MAX + 32], dir[] = "/tmp/fakecuda-XXXXXX";
	ssize_t len = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	if (getenv("FAKE_CUDA_DIR"))
		return;
	exe[len > 0 ? len : 0] = '\0';
	snprintf(path, sizeof(path), "%s/../fakecuda", dirname(exe));
	setenv("LD_LIBRARY_PATH", path, 1);
	if (tmp)
		snprintf(path, sizeof(path), "%s/cuda", tmp);
	if (tmp ? mkdir(path, 0755) : !mkdtemp(dir))
		exit(99);
	setenv("FAKE_CUDA_DIR", tmp ? path : dir, 1);
	snprintf(path, sizeof(path), "%s/calls", getenv("FAKE_CUDA_DIR"));
	setenv("FAKE_CUDA_LOG", path, 1);
	setenv("FAKE_CUDA_DEVICES", "2", 1);
	execv("/proc/self/exe", argv);
	exit(99);
}

/* How often the function was called in this process, but for what the log of another has. */
HELPER unsigned calls_of(const char *function)
{
	FILE *f = fopen(getenv("FAKE_CUDA_LOG"), "re");
	char line[600], name[100];
	unsigned n = 0;
	int pid;

	while (f && fgets(line, sizeof(line), f))
		n += sscanf(line, "%*u %d %*d %99s", &pid, name) == 2 && pid == getpid() &&
		     !strcmp(name, function);
	if (f)
		fclose(f);
	return n;
}

#define MUST(call) assert_int_equal(call, CUDA_SUCCESS)

HELPER int gpu_begin(void **state)
{
	const char *lacks;

	(void)state;
	cu = cuda_driver();
	if (!cu)
		fail_msg("%s", cuda_driver_missing());
	lacks = cuda_trainer_load(&tr);
	if (lacks || !tr.Launch)
		fail_msg("the driver lacks %s", lacks ? lacks : "what the fake one has");
	MUST(cu->Init(0));
	MUST(cu->DevicePrimaryCtxRetain(&context, 0));
	MUST(tr.CtxSetCurrent(context));
	MUST(cu->StreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	return 0;
}

HELPER CUdeviceptr gpu_memory(const void *bytes, size_t len)
{
	CUdeviceptr memory;

	MUST(tr.MemAlloc(&memory, len));
	MUST(tr.MemcpyHtoD(memory, bytes, len));
	return memory;
}

HELPER const void *address_of(CUdeviceptr memory)
{
	return (const void *)(uintptr_t)memory; /* NOLINT: as the trainer has it */
}

static uint64_t handle(CUstream of)
{
	return (uintptr_t)of;
}

/* A tensor on the GPU that is registered: @id, of @len bytes, named layer.ID. */
HELPER void gpu_register(struct ckptfs_session *s, uint64_t id, uint64_t len)
{
	char name[32];
	struct ckptfs_tensor_info t = tensor_of(id, name, len);

	snprintf(name, sizeof(name), "layer.%d", (int)id);
	t.memory = CKPTFS_CUDA;
	if (ckptfs_register(s, &t, 1))
		fail_msg("ckptfs_register: %s", ckptfs_error(s));
}

HELPER int gpu_write(struct ckptfs_session *s, int fd, uint64_t id, CUdeviceptr memory,
		     uint64_t len, uint64_t on)
{
	struct ckptfs_write_op op = {
		.id = id, .addr = address_of(memory), .len = len, .stream = on};

	return ckptfs_write(s, fd, &op, 1);
}

/* --- a copy, held up at its half; a stream, held up --- */

struct gate {
	sem_t reached, open;
	size_t bytes; /* of the copy that is meant: at least */
	bool done;
};

HELPER void gate_wait(void *arg)
{
	struct gate *g = arg;

	sem_post(&g->reached);
	sem_wait(&g->open);
}

HELPER void gate_open(void *arg)
{
	sem_post(&((struct gate *)arg)->open);
}

HELPER void at_half(void *arg, int engine, size_t done, size_t total)
{
	struct gate *g = arg;

	if (engine != ENGINE_DTOH || total < g->bytes || done < total / 2 || g->done)
		return;
	g->done = true;
	gate_wait(g);
}

HELPER void gate_init(struct gate *g, size_t bytes)
{
	*g = (struct gate){.bytes = bytes};
	sem_init(&g->reached, 0, 0);
	sem_init(&g->open, 0, 0);
}

#endif
