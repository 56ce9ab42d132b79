/* SPDX-License-Identifier: MIT */
/*
 * conformance [--json]: what this program's driver, the real one or tests/fakecuda, does of what
 * libckptfs relies on. The same on both, but for what no real driver can be made to do; a
 * difference is a bug of the fake. Status 0: all as it should be; 1: something is not; 77: there is
 * no driver.
 *
 * What is said as UNSURE is to be confirmed on hardware: documentation leaves it open, or only
 * reports tell it.
 *
 * A stream is kept busy by a host function that waits in it (struct gate), so that nothing here
 * depends on time.
 */
#include <err.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/gpu/conformance.h"

#define FAULTED 99

static void before_init(void)
{
	const char *name = "";
	unsigned int flags;
	char text[80];
	int n = -1;

	is("names of errors are there before cuInit",
	   cu->GetErrorName ? cu->GetErrorName(CUDA_ERROR_ILLEGAL_ADDRESS, &name) : CUDA_SUCCESS,
	   CUDA_SUCCESS);
	ok("an error's text is its name and number",
	   !strcmp(cuda_error_text(cu, CUDA_ERROR_ILLEGAL_ADDRESS, text, sizeof(text)),
		   "CUDA_ERROR_ILLEGAL_ADDRESS (700)"));
	ok("an error without a name has a text",
	   !strcmp(cuda_error_text(cu, 123456, text, sizeof(text)), "CUDA error 123456"));
	is("the version is there before cuInit", cu->DriverGetVersion(&n), CUDA_SUCCESS);
	ok("the version is 11 or later", n >= 11000);
	is("there are no devices before cuInit", cu->DeviceGetCount(&n),
	   CUDA_ERROR_NOT_INITIALIZED);
	is("nor primary contexts", cu->DevicePrimaryCtxGetState(0, &flags, &n),
	   CUDA_ERROR_NOT_INITIALIZED);
	is("cuInit takes no flags", cu->Init(1), CUDA_ERROR_INVALID_VALUE);
}

static void devices(void)
{
	CUuuid one = {{0}}, again = {{0}}, zero = {{0}};
	char bus[32] = "";
	CUdevice device;
	int n = 0, value = 0;
	unsigned int a, b, c, d;

	is("devices can be counted", cu->DeviceGetCount(&n), CUDA_SUCCESS);
	is("one past the last is none", cu->DeviceGet(&device, n), CUDA_ERROR_INVALID_DEVICE);
	is("the first can be had", cu->DeviceGet(&device, 0), CUDA_SUCCESS);
	cu->DeviceGetUuid(&one, 0);
	cu->DeviceGetUuid(&again, 0);
	ok("a UUID is always the same, and not zero",
	   !memcmp(&one, &again, sizeof(one)) && memcmp(&one, &zero, sizeof(one)));
	is("the PCI address can be had", cu->DeviceGetPCIBusId(bus, sizeof(bus), 0), CUDA_SUCCESS);
	ok("it is domain:bus:device.function",
	   sscanf(bus, "%x:%x:%x.%u", &a, &b, &c, &d) == 4 && strlen(bus) == 12);
	cu->DeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 0);
	ok("addresses are unified", value == 1);
	is("an attribute that there is not is refused", cu->DeviceGetAttribute(&value, 100000, 0),
	   CUDA_ERROR_INVALID_VALUE);
}

static void contexts(void)
{
	CUcontext again, popped = NULL;
	unsigned int flags;
	CUstream stream;
	int active = -1;

	cu->DevicePrimaryCtxGetState(0, &flags, &active);
	ok("cuInit makes no context", active == 0);
	is("without a context there is no stream", cu->StreamCreate(&stream, 0),
	   CUDA_ERROR_INVALID_CONTEXT);
	is("nothing can be popped where nothing was pushed", cu->CtxPopCurrent(&popped),
	   CUDA_ERROR_INVALID_CONTEXT);
	MUST(cu->DevicePrimaryCtxRetain(&context, 0));
	cu->DevicePrimaryCtxGetState(0, &flags, &active);
	ok("a retained context is active", active == 1);
	MUST(cu->DevicePrimaryCtxRetain(&again, 0));
	ok("there is one primary context a device", again == context);
	MUST(cu->DevicePrimaryCtxRelease(0));
	cu->DevicePrimaryCtxGetState(0, &flags, &active);
	ok("it is active until it is released as often", active == 1);
	MUST(cu->CtxPushCurrent(context));
	MUST(cu->CtxPopCurrent(&popped));
	ok("what was pushed is popped", popped == context);
	MUST(tr.CtxSetCurrent(context));
	MUST(tr.CtxGetCurrent(&again));
	ok("the current context can be set", again == context);
	MUST(tr.CtxSetCurrent(NULL));
	is("and taken away", cu->StreamCreate(&stream, 0), CUDA_ERROR_INVALID_CONTEXT);
	MUST(cu->CtxPushCurrent(context));
}

/* --- processes of their own --- */

/* The exit status of this program, started anew with @role: a process of its own, to be spoilt. */
static int status_of(const char *role)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		execl("/proc/self/exe", "conformance", "--child", role, NULL);
		_exit(126);
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void start(void)
{
	MUST(cu->Init(0));
	MUST(cu->DevicePrimaryCtxRetain(&context, 0));
	MUST(cu->CtxPushCurrent(context));
}

static void exit_handler(void)
{
	int n;

	_exit(cu->DeviceGetCount(&n));
}

static void fault(int signal_)
{
	(void)signal_;
	_exit(FAULTED);
}

static int child(const char *role)
{
	CUdeviceptr memory;
	CUstream stream;
	CUresult first;
	char *host;
	void *view;

	if (!strcmp(role, "after-exit")) {
		atexit(exit_handler);
		start();
		return 125;
	}
	start();
	host = new_pinned(PAGE);
	stream = new_stream(CU_STREAM_NON_BLOCKING);
	memory = new_memory(32 << 20, 1);
	if (!strcmp(role, "dereference")) {
		memcpy(&view, &memory, sizeof(view));
		signal(SIGSEGV, fault);
		return *(volatile char *)view;
	}
	if (!strcmp(role, "unregistered")) {
		struct gate gate;

		/* The registration goes while a copy to it is still to come. */
		gate_close(&gate, stream);
		MUST(cu->MemcpyDtoHAsync(host, memory, PAGE, stream));
		MUST(cu->MemHostUnregister(host));
		gate_open(&gate);
		return tr.StreamSynchronize(stream) == CUDA_ERROR_ILLEGAL_ADDRESS ? 0 : 1;
	}
	if (!strcmp(role, "nobodys"))
		return tr.MemcpyDtoH(host, PAGE, 1) == CUDA_ERROR_INVALID_VALUE ? 0 : 1;
	MUST(tr.MemFree(memory));
	if (tr.Launch)
		new_memory(32 << 20, 2); /* elsewhere, as long as there is room */
	first = cu->MemcpyDtoHAsync(host, memory, PAGE, stream);
	if (!first)
		first = tr.StreamSynchronize(stream);
	if (first == CUDA_ERROR_ILLEGAL_ADDRESS)
		return tr.MemAlloc(&memory, PAGE) == first && tr.CtxSynchronize() == first ? 0 : 1;
	return first == CUDA_ERROR_INVALID_VALUE ? 0 : 2;
}

static int in_a_fork(void)
{
	int n, status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(cu->DeviceGetCount(&n));
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void processes(void)
{
	is("in a forked child nothing works" UNSURE, in_a_fork(), CUDA_ERROR_NOT_INITIALIZED);
	is("nor when the program is ending" UNSURE, status_of("after-exit"),
	   CUDA_ERROR_DEINITIALIZED);
	ok("use after free is refused, or fails and is sticky" UNSURE,
	   status_of("use-after-free") == 0);
	ok("an address that nobody has is refused" UNSURE, status_of("nobodys") == 0);
	if (!tr.Launch) {
		skip("who reads device memory on the CPU dies", "some systems can");
		skip("a copy to what was unregistered meanwhile fails", "undefined");
		return;
	}
	ok("who reads device memory on the CPU dies", status_of("dereference") == FAULTED);
	ok("a copy to what was unregistered meanwhile fails", status_of("unregistered") == 0);
}

int main(int argc, char **argv)
{
	const char *lacks;

	cu = cuda_driver();
	if (!cu) {
		printf("no CUDA driver: %s\n", cuda_driver_missing());
		return 77;
	}
	lacks = cuda_trainer_load(&tr);
	if (lacks)
		errx(1, "the driver lacks %s", lacks);
	if (argc == 3 && !strcmp(argv[1], "--child"))
		return child(argv[2]);
	json = argc == 2 && !strcmp(argv[1], "--json");
	size = tr.Launch ? 4 << 20 : 256 << 20;

	group = "before cuInit";
	before_init();
	if (cu->Init(0) == CUDA_ERROR_NO_DEVICE) {
		printf("no CUDA device\n");
		return 77;
	}
	group = "devices";
	devices();
	group = "contexts";
	contexts();
	memory_cases();
	stream_cases();
	group = "processes";
	processes();
	print_summary();
	return n_failed > 0;
}
