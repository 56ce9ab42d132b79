/* SPDX-License-Identifier: MIT */
/* What the files of etcd_http.h share: the etcd, and connections to its members. */
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
	/* lock: */
	size_t best; /* of the URLs: who answered last */
	struct conn *idle;
	unsigned nr_idle;
	char *token; /* NULL: none yet; "": etcd wants none */
	uint64_t cluster;
	uint64_t out_since_ns; /* 0: somebody answers */
	char why[ETCD_WHY_MAX];
	bool tells;
};

/* One request at a time; and the connections that are kept open for the next. */
struct conn {
	const struct curl_library *curl; /* const */
	struct conn *next;
	CURL *easy;
	CURLM *multi;
	char *buf;
	size_t len, size;
	bool too_long;
	char error[CURL_ERROR_SIZE];
	char authorization[4200]; /* what is sent, as long as it is */
	struct curl_slist authorized;
	struct etcd *etcd;
};

/* One that is kept, or a new one; NULL: no memory. */
struct conn *etcd_conn_get(struct etcd *etcd);
/* Keeps it for the next request, or ends it. */
void etcd_conn_put(struct conn *c);
void etcd_conn_destroy(struct conn *c);

struct where {
	const char *url, *path, *body, *token;
};

/* Begins it. @w->body has to stay until the end. 0 or -EIO. */
int etcd_conn_send_request(struct conn *c, const struct where *w);
/* Until there is something to do for it; -ECANCELED, -ETIMEDOUT, -EIO. */
int etcd_conn_wait_for(struct conn *c, int wake, uint64_t until_ns);
void etcd_conn_end_request(struct conn *c);

/*
 * The answer of the member @w.url, or why there is none: 0 or -errno, and then @t is told. Its
 * answer may be an error.
 */
int etcd_conn_ask(struct etcd *etcd, const struct where *w, enum etcd_kind kind, int wake,
		  uint64_t until_ns, struct etcd_answer *a, struct text *t);

/* A copy of the token, NULL: there is none yet. etcd_http.c */
char *etcd_token_of(struct etcd *etcd);
/* True if @cluster is the one that the other members are of. etcd_http.c */
bool etcd_is_member(struct etcd *etcd, uint64_t cluster);

#endif
