/* SPDX-License-Identifier: MIT */
#include "engine/capture/session.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/base/cleanup.h"

void session_wake(struct session *s)
{
	uint64_t one = 1;
	ssize_t ignored = write(s->wake, &one, sizeof(one));

	(void)ignored;
}

void session_stop_locked(struct session *s)
{
	if (s->listening >= 0)
		shutdown(s->listening, SHUT_RDWR); /* ends the wait for a connection */
	session_wake(s);
}

void printable(const char *said, char *text)
{
	do {
		unsigned char c = (unsigned char)*said;

		*text++ = c && (c < ' ' || c == 0x7f) ? '?' : *said;
	} while (*said++);
}

void session_add_counts(const struct session *s, struct session_counts *sum)
{
	const struct session_counts *c = &s->counts;

	sum->stats.captures += c->stats.captures;
	sum->stats.captured_bytes += c->stats.captured_bytes;
	sum->stats.landed_bytes += c->stats.landed_bytes;
	sum->stats.failed += c->stats.failed;
	sum->stats.pending += c->stats.pending;
	sum->stats.pending_bytes += c->stats.pending_bytes;
	sum->copied += c->copied;
	sum->barriers += c->barriers;
	sum->barrier_ns += c->barrier_ns;
	sum->timed_out += c->timed_out;
}

void session_free(struct session *s)
{
	if (s->tensors.buckets) {
		size_t i;

		for (i = 0; i < s->tensors.nr_buckets; i++)
			while (!list_empty(&s->tensors.buckets[i])) {
				struct tensor *t = container_of(s->tensors.buckets[i].next,
								struct tensor, node.link);

				table_del(&s->tensors, &t->node);
				tensor_put(t);
			}
		table_finish(&s->tensors);
	}
	while (s->notices.next && !list_empty(&s->notices)) {
		struct notice *n = container_of(s->notices.next, struct notice, link);

		list_del(&n->link);
		free(n);
	}
	table_finish(&s->granted_pieces);
	loan_close(s->loan);
	if (s->wake >= 0)
		close(s->wake);
	lock_finish(&s->lock);
	free(s);
}

struct session *session_find(struct captures *cs, uid_t uid, uint64_t id)
{
	struct list *l;
	LOCK_SCOPE(&cs->lock);

	list_for_each (l, &cs->sessions) {
		struct session *s = container_of(l, struct session, link);

		if (s->id == id && s->uid == uid) {
			s->refs++;
			return s;
		}
	}
	return NULL;
}

void session_put(struct session *s)
{
	struct captures *cs = s->all;
	bool last;
	{
		LOCK_SCOPE(&cs->lock);
		last = --s->refs == 0;
	}
	if (last)
		session_free(s);
}

void session_put_at_end(struct session **s)
{
	if (*s)
		session_put(*s);
}

int session_check_alive_locked(const struct session *s)
{
	return s->state == SESSION_LIVES ? 0 : -ENOENT;
}

bool captures_decide(const struct captures *cs)
{
	return !cs->options.decide || cs->options.decide();
}
