/* SPDX-License-Identifier: MIT */
#include "engine/coord/curl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>

#define LIBRARY "libcurl.so.4"

static struct {
	pthread_once_t once;
	struct curl_library functions;
	bool there;
	char why[256];
} loaded = {.once = PTHREAD_ONCE_INIT};

/* The first function that @library lacks, or NULL. */
static const char *find_functions(struct curl_library *functions, void *library)
{
#define FIND(name) \
	*(void **)&functions->name = dlsym(library, "curl_" #name); \
	if (!functions->name) \
		return "curl_" #name;
	CURL_FUNCTIONS(FIND)
#undef FIND
	return NULL;
}

static void load_once(void)
{
	void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	const char *lacking = library ? find_functions(&loaded.functions, library) : NULL;

	loaded.there = library && !lacking;
	if (lacking)
		snprintf(loaded.why, sizeof(loaded.why), "%s has no %s", LIBRARY, lacking);
	else if (!library)
		snprintf(loaded.why, sizeof(loaded.why), "%s", dlerror());
}

const struct curl_library *curl_library(void)
{
	pthread_once(&loaded.once, load_once);
	return loaded.there ? &loaded.functions : NULL;
}

const char *curl_missing(void)
{
	curl_library();
	return loaded.why;
}
