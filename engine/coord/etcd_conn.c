/* SPDX-License-Identifier: MIT */
/*
 * Connections to members of an etcd, and one request over one of them. A connection belongs to one
 * thread until it is given back. The lock of struct etcd guards the idle connections, and is not
 * held while one is used. etcd_http.c decides which member is asked and what its answer means.
 */
#include "engine/coord/etcd_conn.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"

#define CONNECT_MS  2000L
#define ANSWER_MAX  (4u << 20)
#define IDLE_MAX    8 /* idle connections */
#define IDLE_BYTES  262144
#define KEEPALIVE_S 5L

void etcd_conn_destroy(struct conn *c)
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
		etcd_conn_destroy(c);
		return NULL;
	}
	c->curl->easy_setopt(c->easy, CURLOPT_NOSIGNAL, 1L);
	c->curl->easy_setopt(c->easy, CURLOPT_PROTOCOLS_STR, "http,https");
	c->curl->easy_setopt(c->easy, CURLOPT_PROXY, ""); /* whatever the environment says */
	c->curl->easy_setopt(c->easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	c->curl->easy_setopt(c->easy, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
	c->curl->easy_setopt(c->easy, CURLOPT_QUICK_EXIT,
			     1L); /* a silent name server holds up nothing */
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

struct conn *etcd_conn_get(struct etcd *etcd)
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

void etcd_conn_put(struct conn *c)
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
		etcd_conn_destroy(c);
}

/* --- one request to one member --- */

static bool readable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return fd >= 0 && poll(&p, 1, 0) == 1;
}

int etcd_conn_wait_for(struct conn *c, int wake, uint64_t until_ns)
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

/* Runs the request to its end and sets *@result; errors as etcd_conn_wait_for. */
static int transfer(struct conn *c, int wake, uint64_t until_ns, CURLcode *result)
{
	int running = 1, left, err = 0;
	CURLMsg *msg;

	while (!err) {
		if (c->curl->multi_perform(c->multi, &running))
			return -EIO;
		if (!running)
			break;
		err = etcd_conn_wait_for(c, wake, until_ns);
	}
	*result = CURLE_OK;
	while ((msg = c->curl->multi_info_read(c->multi, &left)))
		if (msg->msg == CURLMSG_DONE)
			*result = msg->data.result;
	return err;
}

int etcd_conn_send_request(struct conn *c, const struct where *w)
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
					: c->etcd->headers); /* curl only reads it */
	c->curl->easy_setopt(c->easy, CURLOPT_POSTFIELDSIZE, (long)strlen(w->body));
	c->curl->easy_setopt(c->easy, CURLOPT_POSTFIELDS, w->body);
	return c->curl->multi_add_handle(c->multi, c->easy) ? -EIO : 0;
}

void etcd_conn_end_request(struct conn *c)
{
	c->curl->multi_remove_handle(c->multi, c->easy);
	c->curl->easy_setopt(c->easy, CURLOPT_HTTPHEADER, NULL);
	explicit_bzero(c->authorization, sizeof(c->authorization));
}

static int post(struct conn *c, const struct where *w, int wake, uint64_t until_ns,
		CURLcode *result)
{
	int err = etcd_conn_send_request(c, w);

	if (!err)
		err = transfer(c, wake, until_ns, result);
	etcd_conn_end_request(c);
	return err;
}

/* Says in words why the request failed, and repeats nothing of what was sent. */
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

int etcd_conn_ask(struct etcd *etcd, const struct where *w, enum etcd_kind kind, int wake,
		  uint64_t until_ns, struct etcd_answer *a, struct text *t)
{
	struct conn *c = etcd_conn_get(etcd);
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
	etcd_conn_put(c);
	return err;
}
