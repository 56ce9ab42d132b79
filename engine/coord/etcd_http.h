/* SPDX-License-Identifier: MIT */
/*
 * Requests to etcd's JSON gateway, to any member that answers. Any thread may call; the lock of
 * struct etcd is not held during a request.
 *
 * - No call takes longer than ETCD_CALL_S, and each ends at once when its eventfd is readable.
 * - A member that cannot be reached, has no leader or sends no answer of etcd is passed over. The
 *   next call begins with the member that answered last. All members are of one cluster; one of
 *   another cluster is passed over, too.
 * - The log says once that no member answers, and that one answers again.
 * - The password goes to etcd alone. The token that etcd returns is renewed when etcd no longer
 *   takes it.
 */
#ifndef ENGINE_COORD_ETCD_HTTP_H
#define ENGINE_COORD_ETCD_HTTP_H

#include "engine/coord/etcd_answer.h"
#include "engine/coord/etcd_config.h"

#define ETCD_CALL_S 10

struct etcd;

/* Takes over @c. NULL: no memory, or no libcurl (engine/coord/curl.h). Contacts no member yet. */
struct etcd *etcd_create(struct etcd_config *c);
void etcd_destroy(struct etcd *etcd); /* NULL is fine */

struct etcd_request {
	const char *path; /* below /v3/ */
	const char *body;
	enum etcd_kind kind;
	int expected; /* an error code that the caller takes as an answer; or ETCD_OK */
};

/*
 * 0: @a is the answer; its code is ETCD_OK or the expected one. -EHOSTDOWN: the outcome is unknown.
 * -ECANCELED: @wake (an eventfd, or -1) is readable; unknown, too. Then a->error has the reason.
 * Undo with etcd_answer_finish, in any case.
 */
int etcd_call(struct etcd *etcd, const struct etcd_request *r, int wake, struct etcd_answer *a);

/*
 * A request with an endless series of answers, a line each, to the member that answered last. For
 * one thread at a time. NULL: no memory. If the member cannot be reached, the first
 * etcd_stream_next says so.
 */
struct etcd_stream;
struct etcd_stream *etcd_stream_open(struct etcd *etcd, const char *path, const char *body);
void etcd_stream_close(struct etcd_stream *s); /* NULL is fine */

/*
 * 1: @a is the next answer, of the kind ETCD_WATCH, and no error. 0: @until_ns has passed, or @wake
 * is readable. -errno: the stream broke; the log does not say so. Undo with etcd_answer_finish, in
 * any case.
 */
int etcd_stream_next(struct etcd_stream *s, int wake, uint64_t until_ns, struct etcd_answer *a);

/* From here on the log reports outages. */
void etcd_tell(struct etcd *etcd);

/* For how long no member has answered, and why; 0: the last call was answered. */
uint64_t etcd_outage_ns(struct etcd *etcd, char why[ETCD_WHY_MAX]);

/* The id of the cluster; 0: no member has answered yet. */
uint64_t etcd_cluster(struct etcd *etcd);

#endif
