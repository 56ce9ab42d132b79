/* SPDX-License-Identifier: MIT */
/*
 * Requests to etcd's JSON gateway: to whichever of its members answers.
 *
 * - No call takes longer than ETCD_CALL_S, and each ends at once when its eventfd can be read.
 * - A member that cannot be reached, has no leader or says what is no answer of etcd is passed
 *   over; the next call begins with who answered last. All of them are one cluster: one that is not
 *   is no member.
 * - That no member answers is told in the log once, and that one does again.
 * - The password goes nowhere but to etcd; the token that comes back is renewed when etcd does not
 *   know it any more.
 */
#ifndef ENGINE_COORD_ETCD_HTTP_H
#define ENGINE_COORD_ETCD_HTTP_H

#include "engine/coord/etcd_answer.h"
#include "engine/coord/etcd_config.h"

#define ETCD_CALL_S 10

struct etcd;

/* Takes over @c. NULL: no memory, or no libcurl (engine/coord/curl.h). Reaches for nothing yet. */
struct etcd *etcd_create(struct etcd_config *c);
void etcd_destroy(struct etcd *etcd); /* NULL is none */

struct etcd_request {
	const char *path; /* behind /v3/ */
	const char *body;
	enum etcd_kind kind;
	int expected; /* an error that is an answer for him who asks; or ETCD_OK */
};

/*
 * 0: @a is the answer: its code is ETCD_OK or the expected one. Else -errno, and the reason is in
 * a->error: -EHOSTDOWN: unknown; -ECANCELED: @wake (an eventfd, or -1) can be read, unknown. Undo
 * with etcd_answer_finish, in any case.
 */
int etcd_call(struct etcd *etcd, const struct etcd_request *r, int wake, struct etcd_answer *a);

/*
 * A request whose answers, a line each, have no end: of the member that answered last. For one
 * thread at a time. NULL: no memory; that nobody is reached is said by the first etcd_stream_next.
 */
struct etcd_stream;
struct etcd_stream *etcd_stream_open(struct etcd *etcd, const char *path, const char *body);
void etcd_stream_close(struct etcd_stream *s); /* NULL is none */

/*
 * 1: @a is the next one, of the kind ETCD_WATCH, and no error. 0: @until_ns has come, or @wake can
 * be read. -errno: the stream broke, which is not told. Undo with etcd_answer_finish, in any case.
 */
int etcd_stream_next(struct etcd_stream *s, int wake, uint64_t until_ns, struct etcd_answer *a);

/* From here on outages are told in the log. */
void etcd_tell(struct etcd *etcd);

/* For how long nobody has answered, and why; 0: somebody did, last time. */
uint64_t etcd_outage_ns(struct etcd *etcd, char why[ETCD_WHY_MAX]);

/* 0: nobody has answered yet. */
uint64_t etcd_cluster(struct etcd *etcd);

#endif
