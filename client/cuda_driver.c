/* SPDX-License-Identifier: MIT */
#include "client/cuda_driver.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>

#define LIBRARY "libcuda.so.1"

static struct {
	pthread_once_t once;
	struct cuda_driver driver;
	bool there;
	char why[CUDA_DRIVER_WHY_MAX];
} loaded = {.once = PTHREAD_ONCE_INIT};

/* The first required function that @library lacks, or NULL. */
static const char *find_functions(struct cuda_driver *driver, void *library)
{
#define FIND(field, symbol, arguments) *(void **)&driver->field = dlsym(library, #symbol);
	CUDA_DRIVER_REQUIRED(FIND)
	CUDA_DRIVER_OPTIONAL(FIND)
#undef FIND
#define MISSING(field, symbol, arguments) \
	if (!driver->field) \
		return #symbol;
	CUDA_DRIVER_REQUIRED(MISSING)
#undef MISSING
	return NULL;
}

int cuda_driver_load(struct cuda_driver *driver, const char *library, char *why)
{
	const char *symbol;
	void *handle;

	/*
	 * The library that the trainer has loaded comes first, wherever it was found: it has the
	 * tensors.
	 */
	handle = dlopen(library, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
	if (!handle)
		handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	if (!handle) {
		const char *error = dlerror();

		snprintf(why, CUDA_DRIVER_WHY_MAX, "%s cannot be loaded: %s", library,
			 error ? error : "unknown error");
		return -ENOENT;
	}

	symbol = find_functions(driver, handle);
	if (symbol) {
		snprintf(why, CUDA_DRIVER_WHY_MAX, "%s has no function %s", library, symbol);
		dlclose(handle);
		return -ENOSYS;
	}
	why[0] = '\0';
	return 0;
}

static void load_once(void)
{
	loaded.there = cuda_driver_load(&loaded.driver, LIBRARY, loaded.why) == 0;
}

const struct cuda_driver *cuda_driver(void)
{
	pthread_once(&loaded.once, load_once);
	return loaded.there ? &loaded.driver : NULL;
}

const struct cuda_driver *cuda_driver_if_loaded(void)
{
	void *there = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);

	if (!there)
		return NULL;
	dlclose(there);
	return cuda_driver();
}

const char *cuda_driver_missing(void)
{
	cuda_driver();
	return loaded.why;
}

const char *cuda_error_text(const struct cuda_driver *driver, CUresult error, char *text,
			    size_t size)
{
	const char *name = NULL;

	if (driver && driver->GetErrorName && driver->GetErrorName(error, &name) == CUDA_SUCCESS &&
	    name)
		snprintf(text, size, "%s (%d)", name, error);
	else
		snprintf(text, size, "CUDA error %d", error);
	return text;
}
