/* SPDX-License-Identifier: MIT */
/*
 * A request to an etcd with an endless series of answers, a line each: on a connection of its own,
 * to the member that answered last. For one thread at a time. If that member fails, no other one is
 * asked.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/coord/etcd_conn.h"

struct etcd_stream {
	struct conn *conn;
	char *body;
	size_t taken; /* how much of what was received is parsed */
};

struct etcd_stream *etcd_stream_open(struct etcd *etcd, const char *path, const char *body)
{
	__cleanup_free char *token = etcd_token_of(etcd);
	struct etcd_stream *s = calloc(1, sizeof(*s));
	struct where w = {.path = path, .token = token};

	if (!s)
		return NULL;
	s->conn = etcd_conn_get(etcd);
	w.body = s->body = strdup(body);
	{
		LOCK_SCOPE(&etcd->lock);
		w.url = etcd->config.urls[etcd->best];
	}
	if (s->conn && s->body && !etcd_conn_send_request(s->conn, &w))
		return s;
	etcd_stream_close(s);
	return NULL;
}

void etcd_stream_close(struct etcd_stream *s)
{
	if (!s)
		return;
	if (s->conn) {
		etcd_conn_end_request(s->conn);
		etcd_conn_put(s->conn);
	}
	free(s->body);
	free(s);
}

/* 1: a whole line has come and was parsed. 0: none has come yet. Or -errno. */
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
	if (!err && (a->code || !etcd_is_member(c->etcd, a->cluster)))
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
		err = etcd_conn_wait_for(c, wake, until_ns);
		if (err)
			return err == -EIO ? err : 0;
	}
}
