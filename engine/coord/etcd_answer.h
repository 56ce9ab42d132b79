/* SPDX-License-Identifier: MIT */
/*
 * The answers of etcd's JSON gateway, and base64 for its requests. In this JSON, 64-bit numbers are
 * texts, keys and values are base64, and what is 0, false or empty is left out. An answer comes
 * from outside: each byte is checked. No I/O and no lock.
 */
#ifndef ENGINE_COORD_ETCD_ANSWER_H
#define ENGINE_COORD_ETCD_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ETCD_WHY_MAX 512

enum etcd_kind {
	/* also for put, deleterange, lease/grant, lease/revoke, where only the header counts */
	ETCD_RANGE,
	ETCD_TXN,
	ETCD_KEEPALIVE,
	ETCD_WATCH, /* one line of a stream */
	ETCD_AUTHENTICATE,
};

/* google.golang.org/grpc/codes */
enum etcd_code {
	ETCD_OK = 0,
	ETCD_INVALID = 3,
	ETCD_NOT_FOUND = 5,
	ETCD_DENIED = 7,
	ETCD_PRECONDITION = 9, /* the lease exists already; authentication is off */
	ETCD_OUT_OF_RANGE = 11,
	ETCD_UNAVAILABLE = 14,
	ETCD_UNAUTHENTICATED = 16,
};

struct etcd_kv {
	char *key; /* without any NUL */
	char *value;
	size_t len; /* of @value */
};

struct etcd_answer {
	int code; /* ETCD_OK; else @error says what etcd does not like, and nothing else is set */
	char error[ETCD_WHY_MAX];
	uint64_t cluster;    /* never 0 */
	int64_t revision;    /* 1 or more; ETCD_AUTHENTICATE: may be 0 */
	bool succeeded;	     /* ETCD_TXN: its comparison held */
	struct etcd_kv *kvs; /* of all ranges; ETCD_WATCH: what changed */
	size_t nr_kvs;
	bool more;     /* ETCD_RANGE: there are more keys than these */
	int64_t ttl;   /* ETCD_KEEPALIVE: in seconds; 0: there is no such lease */
	bool created;  /* ETCD_WATCH: the watch has begun */
	bool canceled; /* ETCD_WATCH: no more comes */
	char *token;   /* ETCD_AUTHENTICATE: never NULL */
};

/*
 * 0; -EBADMSG: @text is no answer of that kind; -ENOMEM. On an error @a is empty. Undo with
 * etcd_answer_finish, in any case.
 */
int etcd_answer_parse(struct etcd_answer *a, enum etcd_kind kind, const char *text, size_t len);
void etcd_answer_finish(struct etcd_answer *a);

/* Encodes @data as a text for JSON; owned by the caller, NULL without memory. */
char *etcd_base64(const void *data, size_t len);

#endif
