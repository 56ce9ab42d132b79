/* SPDX-License-Identifier: MIT */
/*
 * What follows `coord=etcd:`: URL[,URL...], or the absolute path of a file, which holds what
 * belongs on no command line. No lock; contacts no server.
 *
 * 	{"endpoints": ["https://a:2379", ...], "ca": FILE, "cert": FILE, "key": FILE,
 * 	 "user": NAME, "password": TEXT}
 */
#ifndef ENGINE_COORD_ETCD_CONFIG_H
#define ENGINE_COORD_ETCD_CONFIG_H

#include <stddef.h>

#include "engine/base/message.h"

#define ETCD_URLS_MAX 16

struct etcd_config {
	char *urls[ETCD_URLS_MAX]; /* SCHEME://HOST:PORT, no more */
	size_t nr_urls;
	char *ca, *cert, *key, *user, *password; /* each NULL where not given */
};

/* 0, or -errno with @e filled. Undo with etcd_config_finish, in any case. */
int etcd_config_read(struct etcd_config *c, const char *spec, struct error *e);
void etcd_config_finish(struct etcd_config *c);

#endif
