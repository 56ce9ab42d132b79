/* SPDX-License-Identifier: MIT */
/* Shared by the files behind etcd_http.h: the etcd, and the connections to its members. */
#ifndef ENGINE_COORD_ETCD_CONN_H
#define ENGINE_COORD_ETCD_CONN_H

#include "engine/base/lock.h"
#include "engine/base/text.h"
#include "engine/coord/curl.h"
#include "engine/coord/etcd_http.h"

struct etcd {
	const struct curl_library *curl; /* const */
	struct etcd_config config;	 /* const */
	struct curl_slist *headers;	 /* const */
	struct lock lock;
	/* lock: lock, for all below */
	size_t best; /* the URL that answered last */
	struct conn *idle;
	unsigned nr_idle;
	char *token; /* NULL: none yet; "": etcd wants none */
	uint64_t cluster;
	uint64_t out_since_ns; /* 0: the last call was answered */
	char why[ETCD_WHY_MAX];
	bool tells;
};

/* A connection: one request at a time. It stays open for the next one. */
struct conn {
	const struct curl_library *curl; /* const */
	struct conn *next;
	CURL *easy;
	CURLM *multi;
	char *buf;
	size_t len, size;
	bool too_long;
	char error[CURL_ERROR_SIZE];
	char authorization[4200]; /* of the request that is under way */
	struct curl_slist authorized;
	struct etcd *etcd;
};

/* An idle connection, or a new one; NULL: no memory. */
struct conn *etcd_conn_get(struct etcd *etcd);
/* Keeps the connection for the next request, or closes it. */
void etcd_conn_put(struct conn *c);
void etcd_conn_destroy(struct conn *c);

struct where {
	const char *url, *path, *body, *token;
};

/* Begins the request; @w->body has to stay until etcd_conn_end_request. 0 or -EIO. */
int etcd_conn_send_request(struct conn *c, const struct where *w);
/*
 * 0 once there is something to do for the request; -ECANCELED: @wake is readable; -ETIMEDOUT, -EIO.
 */
int etcd_conn_wait_for(struct conn *c, int wake, uint64_t until_ns);
void etcd_conn_end_request(struct conn *c);

/*
 * Asks the member @w->url. 0: @a is its answer, which may be an error. -errno: there is none, and
 * @t says why.
 */
int etcd_conn_ask(struct etcd *etcd, const struct where *w, enum etcd_kind kind, int wake,
		  uint64_t until_ns, struct etcd_answer *a, struct text *t);

/* A copy of the token, NULL: there is none yet. Defined in etcd_http.c. */
char *etcd_token_of(struct etcd *etcd);
/* True if @cluster is that of the other members; the first one asked sets it. In etcd_http.c. */
bool etcd_is_member(struct etcd *etcd, uint64_t cluster);

#endif
