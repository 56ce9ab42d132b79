/* SPDX-License-Identifier: MIT */
#include "engine/coord/etcd_http.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/json.h"
#include "engine/base/log.h"
#include "engine/coord/etcd_conn.h"

#define ATTEMPT_NS (4 * NSEC_PER_SEC)
#define CALL_NS	   (ETCD_CALL_S * NSEC_PER_SEC)

/* --- which member answers --- */

static void answered(struct etcd *etcd, size_t member)
{
	char text[MESSAGE_MAX];
	uint64_t since;
	bool tell;

	{
		LOCK_SCOPE(&etcd->lock);
		since = etcd->out_since_ns;
		tell = etcd->tells && since;
		etcd->out_since_ns = 0;
		etcd->best = member;
	}
	if (!tell)
		return;
	MESSAGE(text, ETCD_BACK, etcd->config.urls[member],
		(double)(clock_mono_ns() - since) / NSEC_PER_SEC);
	log_info("%s", text);
}

static void nobody_answered(struct etcd *etcd, const char *why)
{
	char text[MESSAGE_MAX];
	bool tell;

	{
		LOCK_SCOPE(&etcd->lock);
		tell = etcd->tells && !etcd->out_since_ns;
		if (!etcd->out_since_ns)
			etcd->out_since_ns = clock_mono_ns();
		snprintf(etcd->why, sizeof(etcd->why), "%s", why);
	}
	if (!tell)
		return;
	MESSAGE(text, ETCD_OUTAGE, why);
	log_warn("%s", text);
}

/* Two clusters would each decide for themselves. */
bool etcd_is_member(struct etcd *etcd, uint64_t cluster)
{
	LOCK_SCOPE(&etcd->lock);
	if (!etcd->cluster)
		etcd->cluster = cluster;
	return etcd->cluster == cluster;
}

/* --- authentication --- */

char *etcd_token_of(struct etcd *etcd)
{
	LOCK_SCOPE(&etcd->lock);
	return etcd->token ? strdup(etcd->token) : NULL;
}

static void set_token(struct etcd *etcd, char *token)
{
	LOCK_SCOPE(&etcd->lock);
	free(etcd->token);
	etcd->token = token;
}

/*
 * True if etcd does not take the token: it has run out, users were changed, or etcd was restarted.
 */
static bool wants_token(const struct etcd_answer *a)
{
	return a->code == ETCD_UNAUTHENTICATED ||
	       (a->code == ETCD_INVALID && (strstr(a->error, "user name is empty") ||
					    strstr(a->error, "revision of auth store is old")));
}

/* Gets a new token. -EACCES: etcd rejects the user; else as etcd_conn_ask. */
static int authenticate(struct etcd *etcd, const char *url, int wake, uint64_t until_ns,
			struct text *t)
{
	json_t *o = json_pack("{s:s, s:s}", "name", etcd->config.user, "password",
			      etcd->config.password);
	char *body = o ? json_dumps(o, JSON_COMPACT) : NULL;
	const struct where w = {.url = url, .path = "auth/authenticate", .body = body};
	struct etcd_answer a = {0};
	int err =
		body ? etcd_conn_ask(etcd, &w, ETCD_AUTHENTICATE, wake, until_ns, &a, t) : -ENOMEM;

	json_decref(o);
	if (body)
		explicit_bzero(body, strlen(body));
	free(body);
	if (!err && a.code == ETCD_PRECONDITION) { /* authentication is not enabled */
		set_token(etcd, strdup(""));
	} else if (!err && a.code) {
		text_say(t, "user %s: %s", etcd->config.user, a.error);
		err = a.code == ETCD_INVALID ? -EACCES : -EIO;
	} else if (!err) {
		set_token(etcd, take_ptr(a.token));
	}
	etcd_answer_finish(&a);
	return err;
}

/* --- a call --- */

/* Asks with a token, where one is needed; gets a new token once. */
static int ask_as_user(struct etcd *etcd, const char *url, const struct etcd_request *r, int wake,
		       uint64_t until_ns, struct etcd_answer *a, struct text *t)
{
	bool renewed = false;

	for (;;) {
		__cleanup_free char *token = etcd_token_of(etcd);
		const struct where w = {
			.url = url, .path = r->path, .body = r->body, .token = token};
		int err;

		if (etcd->config.user && !token) {
			err = authenticate(etcd, url, wake, until_ns, t);
			if (err)
				return err;
			renewed = true;
			continue;
		}
		err = etcd_conn_ask(etcd, &w, r->kind, wake, until_ns, a, t);
		if (err || !etcd->config.user || renewed || !wants_token(a))
			return err;
		etcd_answer_finish(a);
		set_token(etcd, NULL);
	}
}

/* True if another member would say the same. */
static bool is_final(int code)
{
	return code == ETCD_INVALID || code == ETCD_NOT_FOUND || code == ETCD_DENIED ||
	       code == ETCD_PRECONDITION || code == ETCD_OUT_OF_RANGE ||
	       code == ETCD_UNAUTHENTICATED;
}

/*
 * 0: @a is the answer. -EAGAIN: another member may have a better one. Other -errno: no member has
 * one. If it fails, @t says why.
 */
static int ask_member(struct etcd *etcd, size_t member, const struct etcd_request *r, int wake,
		      uint64_t until_ns, struct etcd_answer *a, struct text *t)
{
	const char *url = etcd->config.urls[member];
	uint64_t now = clock_mono_ns();
	int err;

	text_say(t, "%setcd at %s: ", t->len ? "; " : "", url);
	err = ask_as_user(etcd, url, r, wake,
			  until_ns - now < ATTEMPT_NS ? until_ns : now + ATTEMPT_NS, a, t);
	if (err)
		return err == -ECANCELED || err == -EACCES ? err : -EAGAIN;
	if (a->code && a->code != r->expected) {
		text_say(t, "%s", a->error);
		return is_final(a->code) ? -EACCES : -EAGAIN;
	}
	if (!a->code && !etcd_is_member(etcd, a->cluster)) {
		text_say(t, "it belongs to another cluster than the others (id %llu)",
			 (unsigned long long)a->cluster);
		return -EAGAIN;
	}
	return 0;
}

int etcd_call(struct etcd *etcd, const struct etcd_request *r, int wake, struct etcd_answer *a)
{
	uint64_t until_ns = clock_mono_ns() + CALL_NS;
	char why[ETCD_WHY_MAX] = "";
	struct text t = {.buf = why, .size = sizeof(why)};
	size_t first, i, member;
	int err = -EAGAIN;

	memset(a, 0, sizeof(*a));
	{
		LOCK_SCOPE(&etcd->lock);
		first = etcd->best;
	}
	for (i = 0; err == -EAGAIN && i < etcd->config.nr_urls && clock_mono_ns() < until_ns; i++) {
		etcd_answer_finish(a);
		member = (first + i) % etcd->config.nr_urls;
		err = ask_member(etcd, member, r, wake, until_ns, a, &t);
	}
	if (!err) {
		answered(etcd, member);
		return 0;
	}
	etcd_answer_finish(a);
	memcpy(a->error, why, sizeof(why));
	if (err == -ECANCELED)
		return err;
	nobody_answered(etcd, why);
	return -EHOSTDOWN;
}

/* --- create and destroy --- */

struct etcd *etcd_create(struct etcd_config *c)
{
	static const char *const headers[] = {
		"Content-Type: application/json", "Expect:", /* curl waits for no 100 */
		"Grpc-Metadata-hasleader: true", /* a member cut off from the others says so */
	};
	struct etcd *etcd = calloc(1, sizeof(*etcd));
	struct curl_slist *more = NULL;
	size_t i;

	if (etcd)
		etcd->curl = curl_library();
	if (!etcd || !etcd->curl || etcd->curl->global_init(CURL_GLOBAL_DEFAULT)) {
		etcd_config_finish(c);
		free(etcd);
		return NULL;
	}
	lock_init(&etcd->lock, LOCK_COORD);
	etcd->config = *c;
	memset(c, 0, sizeof(*c));
	for (i = 0; i < ARRAY_SIZE(headers); i++) {
		more = etcd->curl->slist_append(etcd->headers, headers[i]);
		if (!more)
			break;
		etcd->headers = more;
	}
	if (more)
		return etcd;
	etcd_destroy(etcd);
	return NULL;
}

void etcd_destroy(struct etcd *etcd)
{
	if (!etcd)
		return;
	while (etcd->idle) {
		struct conn *c = etcd->idle;

		etcd->idle = c->next;
		etcd_conn_destroy(c);
	}
	etcd->curl->slist_free_all(etcd->headers);
	etcd_config_finish(&etcd->config);
	free(etcd->token);
	lock_finish(&etcd->lock);
	etcd->curl->global_cleanup();
	free(etcd);
}

void etcd_tell(struct etcd *etcd)
{
	LOCK_SCOPE(&etcd->lock);
	etcd->tells = true;
}

uint64_t etcd_outage_ns(struct etcd *etcd, char why[ETCD_WHY_MAX])
{
	LOCK_SCOPE(&etcd->lock);
	if (!etcd->out_since_ns)
		return 0;
	memcpy(why, etcd->why, ETCD_WHY_MAX);
	return clock_mono_ns() - etcd->out_since_ns;
}

uint64_t etcd_cluster(struct etcd *etcd)
{
	LOCK_SCOPE(&etcd->lock);
	return etcd->cluster;
}
