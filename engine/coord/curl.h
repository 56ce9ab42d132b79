/* SPDX-License-Identifier: MIT */
/*
 * libcurl, opened at run time: a host that does not use coord=etcd needs none. curl's headers give
 * the types; curl_library() gives the functions, which keep their names without the prefix `curl_`.
 *
 * The library is opened once, by the first thread that asks, and is never closed. A libcurl that
 * lacks one of the functions counts as missing. This module does not call into libcurl.
 */
#ifndef ENGINE_COORD_CURL_H
#define ENGINE_COORD_CURL_H

#include <curl/curl.h>

#define CURL_FUNCTIONS(X) \
	X(global_init) \
	X(global_cleanup) \
	X(slist_append) \
	X(slist_free_all) \
	X(easy_init) \
	X(easy_cleanup) \
	X(easy_setopt) \
	X(easy_getinfo) \
	X(easy_strerror) \
	X(multi_init) \
	X(multi_cleanup) \
	X(multi_add_handle) \
	X(multi_remove_handle) \
	X(multi_perform) \
	X(multi_poll) \
	X(multi_info_read)

struct curl_library {
#define CURL_FIELD(name) __typeof__(curl_##name) *name;
	CURL_FUNCTIONS(CURL_FIELD)
#undef CURL_FIELD
};

/* NULL: this host has no usable libcurl; curl_missing() says why. */
const struct curl_library *curl_library(void);

/* Why curl_library() is NULL, for people; "" if it is not. */
const char *curl_missing(void);

#endif
