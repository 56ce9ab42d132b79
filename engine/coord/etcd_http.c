/* SPDX-License-Identifier: MIT */
#include "engine/coord/etcd_http.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/json.h"
#include "engine/base/lock.h"
#include "engine/base/log.h"
#include "engine/base/text.h"
#include "engine/coord/curl.h"

#define CONNECT_MS  2000L
#define ATTEMPT_NS  (4 * NSEC_PER_SEC)
#define CALL_NS	    (ETCD_CALL_S * NSEC_PER_SEC)
#define ANSWER_MAX  (4u << 20)
#define IDLE_MAX    8 /* connections that are kept */
#define IDLE_BYTES  262144
#define KEEPALIVE_S 5L

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

/* --- connections --- */

static void conn_destroy(struct conn *c)
{
	if (c->multi)
		c->curl->multi_cleanup(c->multi);
	if (c->easy)
		c->curl->easy_cleanup(c->easy);
	free(c->buf);
	free(c);
}

static size_t received(char *data, size_t one, size_t len, void *arg)
{
	struct conn *c = arg;
	size_t size = c->size ? c->size : 4096;

	(void)one;
	if (len > ANSWER_MAX - c->len) {
		c->too_long = true;
		return 0;
	}
	while (size < c->len + len)
		size *= 2;
	if (size != c->size) {
		char *more = realloc(c->buf, size);

		if (!more)
			return 0;
		c->buf = more;
		c->size = size;
	}
	memcpy(c->buf + c->len, data, len);
	c->len += len;
	return len;
}

static struct conn *conn_create(struct etcd *etcd)
{
	struct conn *c = calloc(1, sizeof(*c));
	const struct etcd_config *config = &etcd->config;

	if (!c)
		return NULL;
	c->etcd = etcd;
	c->curl = etcd->curl;
	c->easy = c->curl->easy_init();
	c->multi = c->curl->multi_init();
	if (!c->easy || !c->multi) {
		conn_destroy(c);
		return NULL;
	}
	c->curl->easy_setopt(c->easy, CURLOPT_NOSIGNAL, 1L);
	c->curl->easy_setopt(c->easy, CURLOPT_PROTOCOLS_STR, "http,https");
	c->curl->easy_setopt(c->easy, CURLOPT_PROXY, ""); /* whatever the environment says */
	c->curl->easy_setopt(c->easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	c->curl->easy_setopt(c->easy, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
	c->curl->easy_setopt(c->easy, CURLOPT_QUICK_EXIT,
			     1L); /* a name server that is silent holds nobody */
	c->curl->easy_setopt(c->easy, CURLOPT_TCP_KEEPALIVE, 1L);
	c->curl->easy_setopt(c->easy, CURLOPT_TCP_KEEPIDLE, KEEPALIVE_S);
	c->curl->easy_setopt(c->easy, CURLOPT_TCP_KEEPINTVL, KEEPALIVE_S);
	c->curl->easy_setopt(c->easy, CURLOPT_ERRORBUFFER, c->error);
	c->curl->easy_setopt(c->easy, CURLOPT_WRITEFUNCTION, received);
	c->curl->easy_setopt(c->easy, CURLOPT_WRITEDATA, c);
	if (config->ca)
		c->curl->easy_setopt(c->easy, CURLOPT_CAINFO, config->ca);
	if (config->cert) {
		c->curl->easy_setopt(c->easy, CURLOPT_SSLCERT, config->cert);
		c->curl->easy_setopt(c->easy, CURLOPT_SSLKEY, config->key);
	}
	return c;
}

static struct conn *conn_get(struct etcd *etcd)
{
	struct conn *c;

	{
		LOCK_SCOPE(&etcd->lock);
		c = etcd->idle;
		if (c) {
			etcd->idle = c->next;
			etcd->nr_idle--;
		}
	}
	if (!c)
		return conn_create(etcd);
	c->len = 0;
	c->too_long = false;
	c->error[0] = '\0';
	return c;
}

static void conn_put(struct conn *c)
{
	struct etcd *etcd = c->etcd;
	bool keep;

	{
		LOCK_SCOPE(&etcd->lock);
		keep = etcd->nr_idle < IDLE_MAX && c->size <= IDLE_BYTES;
		if (keep) {
			c->next = etcd->idle;
			etcd->idle = c;
			etcd->nr_idle++;
		}
	}
	if (!keep)
		conn_destroy(c);
}

/* --- one request to one member --- */

static bool readable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return fd >= 0 && poll(&p, 1, 0) == 1;
}

/* Until there is something to do for it; -ECANCELED, -ETIMEDOUT. */
static int wait_for(struct conn *c, int wake, uint64_t until_ns)
{
	struct curl_waitfd also = {.fd = wake, .events = CURL_WAIT_POLLIN};
	uint64_t now = clock_mono_ns(), ms;

	if (readable(wake))
		return -ECANCELED;
	if (now >= until_ns)
		return -ETIMEDOUT;
	ms = (until_ns - now) / NSEC_PER_MSEC + 1;
	if (c->curl->multi_poll(c->multi, &also, wake >= 0, ms < 60000 ? (int)ms : 60000, NULL))
		return -EIO;
	return 0;
}

/* Until it is done, *@result; or as wait_for. */
static int transfer(struct conn *c, int wake, uint64_t until_ns, CURLcode *result)
{
	int running = 1, left, err = 0;
	CURLMsg *msg;

	while (!err) {
		if (c->curl->multi_perform(c->multi, &running))
			return -EIO;
		if (!running)
			break;
		err = wait_for(c, wake, until_ns);
	}
	*result = CURLE_OK;
	while ((msg = c->curl->multi_info_read(c->multi, &left)))
		if (msg->msg == CURLMSG_DONE)
			*result = msg->data.result;
	return err;
}

struct where {
	const char *url, *path, *body, *token;
};

/* Begins it. @w->body has to stay until the end. */
static int send_request(struct conn *c, const struct where *w)
{
	bool authorized = w->token && *w->token;
	char url[1024];

	snprintf(url, sizeof(url), "%s/v3/%s", w->url, w->path);
	snprintf(c->authorization, sizeof(c->authorization), "Authorization: %s",
		 authorized ? w->token : "");
	c->authorized = (struct curl_slist){.data = c->authorization, .next = c->etcd->headers};
	c->curl->easy_setopt(c->easy, CURLOPT_URL, url);
	c->curl->easy_setopt(c->easy, CURLOPT_HTTPHEADER,
			     authorized ? &c->authorized
					: c->etcd->headers); /* which curl only reads */
	c->curl->easy_setopt(c->easy, CURLOPT_POSTFIELDSIZE, (long)strlen(w->body));
	c->curl->easy_setopt(c->easy, CURLOPT_POSTFIELDS, w->body);
	return c->curl->multi_add_handle(c->multi, c->easy) ? -EIO : 0;
}

static void end_request(struct conn *c)
{
	c->curl->multi_remove_handle(c->multi, c->easy);
	c->curl->easy_setopt(c->easy, CURLOPT_HTTPHEADER, NULL);
	explicit_bzero(c->authorization, sizeof(c->authorization));
}

static int post(struct conn *c, const struct where *w, int wake, uint64_t until_ns,
		CURLcode *result)
{
	int err = send_request(c, w);

	if (!err)
		err = transfer(c, wake, until_ns, result);
	end_request(c);
	return err;
}

/* What came of it in words; nothing of what was sent is repeated. */
static void say_transfer(struct text *t, const struct conn *c, int err, CURLcode result)
{
	long os = 0;

	if (err == -ETIMEDOUT)
		text_say(t, "it did not answer in time");
	else if (err)
		text_say(t, "%s", strerror(-err));
	else if (c->too_long)
		text_say(t, "its answer is too long");
	else if (!c->curl->easy_getinfo(c->easy, CURLINFO_OS_ERRNO, &os) && os &&
		 result == CURLE_COULDNT_CONNECT)
		text_say(t, "%s", strerror((int)os));
	else
		text_say(t, "%s", *c->error ? c->error : c->curl->easy_strerror(result));
}

/*
 * The answer of the member @w.url, or why there is none: 0 or -errno, and then @t is told.
 * Its answer may be an error.
 */
static int ask(struct etcd *etcd, const struct where *w, enum etcd_kind kind, int wake,
	       uint64_t until_ns, struct etcd_answer *a, struct text *t)
{
	struct conn *c = conn_get(etcd);
	CURLcode result = CURLE_OK;
	long status = 0;
	int err;

	memset(a, 0, sizeof(*a));
	if (!c) {
		text_say(t, "%s", strerror(ENOMEM));
		return -ENOMEM;
	}
	err = post(c, w, wake, until_ns, &result);
	if (err || result) {
		say_transfer(t, c, err, result);
		err = err ? err : -EIO;
	} else {
		err = etcd_answer_parse(a, kind, c->buf ? c->buf : "", c->len);
		c->curl->easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
		if (err)
			text_say(t,
				 "what it answers, with HTTP status %ld, is not what etcd v3 does",
				 status);
	}
	conn_put(c);
	return err;
}

/* --- who answers --- */

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

/* Is it a member of the cluster that the others are members of? Of two clusters each would decide for itself. */
static bool is_member(struct etcd *etcd, uint64_t cluster)
{
	LOCK_SCOPE(&etcd->lock);
	if (!etcd->cluster)
		etcd->cluster = cluster;
	return etcd->cluster == cluster;
}

/* --- authentication --- */

/* A copy of the token, NULL: there is none yet. */
static char *token_of(struct etcd *etcd)
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

/* etcd does not take the token, because it has run out, users were changed, or etcd was started anew. */
static bool wants_token(const struct etcd_answer *a)
{
	return a->code == ETCD_UNAUTHENTICATED ||
	       (a->code == ETCD_INVALID && (strstr(a->error, "user name is empty") ||
					    strstr(a->error, "revision of auth store is old")));
}

/* 0; -EACCES: etcd does not want us; or as ask. */
static int authenticate(struct etcd *etcd, const char *url, int wake, uint64_t until_ns,
			struct text *t)
{
	json_t *o = json_pack("{s:s, s:s}", "name", etcd->config.user, "password",
			      etcd->config.password);
	char *body = o ? json_dumps(o, JSON_COMPACT) : NULL;
	const struct where w = {.url = url, .path = "auth/authenticate", .body = body};
	struct etcd_answer a = {0};
	int err = body ? ask(etcd, &w, ETCD_AUTHENTICATE, wake, until_ns, &a, t) : -ENOMEM;

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

/* With a token, where one is needed. */
static int ask_as_user(struct etcd *etcd, const char *url, const struct etcd_request *r, int wake,
		       uint64_t until_ns, struct etcd_answer *a, struct text *t)
{
	bool renewed = false;

	for (;;) {
		__cleanup_free char *token = token_of(etcd);
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
		err = ask(etcd, &w, r->kind, wake, until_ns, a, t);
		if (err || !etcd->config.user || renewed || !wants_token(a))
			return err;
		etcd_answer_finish(a);
		set_token(etcd, NULL);
	}
}

/* Would another member say the same? */
static bool is_final(int code)
{
	return code == ETCD_INVALID || code == ETCD_NOT_FOUND || code == ETCD_DENIED ||
	       code == ETCD_PRECONDITION || code == ETCD_OUT_OF_RANGE ||
	       code == ETCD_UNAUTHENTICATED;
}

/* 0: @a is the answer; -EAGAIN: that of another member may be better; else no member has any; then @t is told. */
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
	if (!a->code && !is_member(etcd, a->cluster)) {
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

/* --- a stream --- */

struct etcd_stream {
	struct conn *conn;
	char *body;
	size_t taken; /* of what was received */
};

struct etcd_stream *etcd_stream_open(struct etcd *etcd, const char *path, const char *body)
{
	__cleanup_free char *token = token_of(etcd);
	struct etcd_stream *s = calloc(1, sizeof(*s));
	struct where w = {.path = path, .token = token};

	if (!s)
		return NULL;
	s->conn = conn_get(etcd);
	w.body = s->body = strdup(body);
	{
		LOCK_SCOPE(&etcd->lock);
		w.url = etcd->config.urls[etcd->best];
	}
	if (s->conn && s->body && !send_request(s->conn, &w))
		return s;
	etcd_stream_close(s);
	return NULL;
}

void etcd_stream_close(struct etcd_stream *s)
{
	if (!s)
		return;
	if (s->conn) {
		end_request(s->conn);
		conn_put(s->conn);
	}
	free(s->body);
	free(s);
}

/* Has a whole line come? Then it was parsed: 1, or -errno. */
static int parse_line(struct etcd_stream *s, struct etcd_answer *a)
{
	struct conn *c = s->conn;
	const char *line = c->buf + s->taken;
	const char *end = c->len > s->taken ? memchr(line, '\n', c->len - s->taken) : NULL;
	int err;

	if (!end) {
		if (s->taken)
			memmove(c->buf, line, c->len - s->taken);
		c->len -= s->taken;
		s->taken = 0;
		return 0;
	}
	err = etcd_answer_parse(a, ETCD_WATCH, line, (size_t)(end - line));
	s->taken = (size_t)(end + 1 - c->buf);
	if (!err && (a->code || !is_member(c->etcd, a->cluster)))
		err = -EPROTO;
	return err ? err : 1;
}

int etcd_stream_next(struct etcd_stream *s, int wake, uint64_t until_ns, struct etcd_answer *a)
{
	struct conn *c = s->conn;
	int running = 1, err;
	size_t len;

	memset(a, 0, sizeof(*a));
	for (;;) {
		err = parse_line(s, a);
		if (err)
			return err;
		if (!running)
			return -EPIPE;
		len = c->len;
		if (c->curl->multi_perform(c->multi, &running))
			return -EIO;
		if (c->len != len || !running)
			continue;
		err = wait_for(c, wake, until_ns);
		if (err)
			return err == -EIO ? err : 0;
	}
}

/* --- as a whole --- */

struct etcd *etcd_create(struct etcd_config *c)
{
	static const char *const headers[] = {
		"Content-Type: application/json", "Expect:", /* nothing is worth asking before */
		"Grpc-Metadata-hasleader: true", /* a member that is cut off from the others says so at once */
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
		conn_destroy(c);
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
