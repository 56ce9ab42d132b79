/* SPDX-License-Identifier: MIT */
#include "client/capture.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/session.h"

#define WINDOW_FIRST 1024 /* a power of 2 */
#define FILE_SHOWN   180

static uint64_t min(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static struct ckpt_capture **place_of(struct ckptfs_session *s, uint64_t seq)
{
	return &s->window[seq & (s->window_size - 1)];
}

/* --- begin and end of a capture --- */

static int check(struct ckptfs_session *s, const struct ckptfs_write_op *op,
		 const struct ckpt_tensor *t)
{
	uint64_t rows_bytes, span, end, file_end;

	if (__builtin_add_overflow(op->src_off, op->len, &end) || end > t->info.bytes)
		return ckpt_error(s, -EINVAL,
				  "%s: has %llu bytes, and bytes %llu to %llu are written", t->name,
				  (unsigned long long)t->info.bytes,
				  (unsigned long long)op->src_off, (unsigned long long)end);
	if (__builtin_add_overflow(op->file_off, op->len, &file_end) || file_end > LLONG_MAX)
		return ckpt_error(s, -EFBIG, "%s: is to end behind the largest offset of files",
				  t->name);
	if (op->rows && (__builtin_mul_overflow(op->rows, op->row_bytes, &rows_bytes) ||
			 __builtin_mul_overflow(op->rows - 1, op->pitch, &span) ||
			 op->pitch < op->row_bytes || rows_bytes != t->info.bytes))
		return ckpt_error(
			s, -EINVAL,
			"%s: has %llu bytes, which %llu rows of %llu, %llu apart, are not", t->name,
			(unsigned long long)t->info.bytes, (unsigned long long)op->rows,
			(unsigned long long)op->row_bytes, (unsigned long long)op->pitch);
	if (op->len && !op->addr)
		return ckpt_error(s, -EFAULT, "%s: is written without an address", t->name);
	return 0;
}

int ckpt_capture_create(struct ckptfs_session *s, const struct ckptfs_write_op *op,
			const char *file, struct ckpt_capture **capture)
{
	struct ckpt_tensor *t = ckpt_tensor_get(s, op->id);
	struct ckpt_capture *c = NULL;
	int err;

	*capture = NULL;
	if (!t)
		return ckpt_error(s, -EBADF, "no tensor %llu is registered",
				  (unsigned long long)op->id);
	err = check(s, op, t);
	if (!err && op->len)
		c = calloc(1, sizeof(*c));
	if (!c) {
		pthread_mutex_lock(&s->lock);
		ckpt_tensor_put_locked(t);
		pthread_mutex_unlock(&s->lock);
		return err || !op->len ? err : -ENOMEM;
	}
	c->refs = 1;
	c->tensor = t;
	c->file_off = op->file_off;
	c->file = *file ? strdup(file) : NULL;
	c->src_off = op->src_off;
	c->len = c->total = op->len;
	c->source = (struct ckpt_source){.addr = op->addr,
					 .stream = op->stream,
					 .rows = op->rows,
					 .row_bytes = op->row_bytes,
					 .pitch = op->pitch};
	c->device = ckpt_session_device(s, t->info.memory);
	*capture = c;
	return 0;
}

void ckpt_capture_put_locked(struct ckpt_capture *c)
{
	if (--c->refs)
		return;
	if (c->bound)
		c->device->ops->unbind(c->device->state, c);
	ckpt_tensor_put_locked(c->tensor);
	ckpt_probes_free(&c->probes);
	free(c->text);
	free(c->file);
	free(c);
}

static void no_longer_held_locked(struct ckptfs_session *s, struct ckpt_capture *c)
{
	if (!c->held)
		return;
	c->held = false;
	s->nr_held--;
	pthread_cond_broadcast(&s->ended);
}

static bool wants_grants(const struct ckpt_capture *c)
{
	return !c->failed && c->granted < c->total;
}

/* --- the window --- */

static int make_room_locked(struct ckptfs_session *s, size_t n)
{
	size_t size = s->window_size ? s->window_size : WINDOW_FIRST;
	struct ckpt_capture **old = s->window, **new;

	while (size < s->next_seq - s->base + n)
		size *= 2;
	if (size == s->window_size)
		return 0;
	new = calloc(size, sizeof(struct ckpt_capture *));
	if (!new)
		return -ENOMEM;
	for (uint64_t seq = s->base; seq != s->next_seq; seq++)
		new[seq & (size - 1)] = *place_of(s, seq);
	s->window = new;
	s->window_size = size;
	free(old);
	return 0;
}

int ckpt_captures_append_locked(struct ckptfs_session *s, struct ckpt_capture *const *c, size_t n)
{
	int err = make_room_locked(s, n);

	if (err)
		return err;
	for (size_t i = 0; i < n; i++) {
		c[i]->seq = s->next_seq++;
		c[i]->refs++;
		c[i]->held = true;
		*place_of(s, c[i]->seq) = c[i];
		s->stats.pending++;
		s->stats.pending_bytes += c[i]->len;
	}
	s->nr_held += n;
	s->nr_ungranted += n;
	return 0;
}

static void over_locked(struct ckptfs_session *s, struct ckpt_capture *c)
{
	c->over = true;
	s->stats.pending--;
	s->stats.pending_bytes -= c->len;
	*place_of(s, c->seq) = NULL;
	while (s->base != s->next_seq && !*place_of(s, s->base))
		s->base++;
	if (s->safe < s->base)
		s->safe = s->base;
	pthread_cond_broadcast(&s->ended);
	pthread_cond_signal(&s->work);
	ckpt_capture_put_locked(c);
}

static void forget_failure_locked(struct ckptfs_session *s, struct ckpt_capture *c)
{
	for (struct ckpt_capture **at = &s->failures; *at; at = &(*at)->next)
		if (*at == c) {
			*at = c->next;
			ckpt_capture_put_locked(c);
			return;
		}
}

void ckpt_captures_take_back_locked(struct ckptfs_session *s, struct ckpt_capture *const *c,
				    size_t n)
{
	while (n-- > 0) {
		s->next_seq--;
		forget_failure_locked(s, c[n]);
		no_longer_held_locked(s, c[n]);
		if (c[n]->over) /* ended by a barrier that timed out meanwhile */
			continue;
		s->nr_ungranted--;
		s->stats.pending--;
		s->stats.pending_bytes -= c[n]->len;
		*place_of(s, c[n]->seq) = NULL;
		c[n]->over = true;
		ckpt_capture_put_locked(c[n]);
	}
	s->base = min(s->base, s->next_seq);
	s->safe = min(s->safe, s->next_seq);
	pthread_cond_broadcast(&s->ended);
}

void ckpt_captures_taken_locked(struct ckptfs_session *s, struct ckpt_capture *const *c, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		c[i]->taken = true;
		s->stats.captures++;
	}
	s->asked = true;
	pthread_cond_signal(&s->work);
}

struct ckpt_capture *ckpt_capture_find_locked(struct ckptfs_session *s, uint64_t seq)
{
	return seq >= s->base && seq < s->next_seq ? *place_of(s, seq) : NULL;
}

/* --- what happens to a capture --- */

/* Of a long path only the end is shown. */
static void count_failure_locked(struct ckptfs_session *s, const struct ckpt_capture *c, int err,
				 const char *text)
{
	const char *file = c->file ? c->file : "";
	size_t len = strlen(file);

	s->stats.failed++;
	if (s->unreported)
		return;
	s->unreported = err;
	snprintf(s->unreported_text, sizeof(s->unreported_text), "%s%s%s%s",
		 len > FILE_SHOWN ? "..." : "", len > FILE_SHOWN ? file + len - FILE_SHOWN : file,
		 len ? " failed: " : "", text ? text : strerror(-err));
}

void ckpt_capture_fail_locked(struct ckptfs_session *s, struct ckpt_capture *c, int err,
			      const char *text)
{
	if (c->over || c->failed)
		return;
	if (wants_grants(c))
		s->nr_ungranted--;
	c->failed = true;
	c->err = err;
	c->text = text ? strdup(text) : NULL;
	count_failure_locked(s, c, err, text);
	if (!s->dead) {
		c->next = s->failures;
		s->failures = c;
		c->refs++;
	}
	pthread_cond_signal(&s->work);
	if (!c->running)
		over_locked(s, c);
}

static void end_if_landed_locked(struct ckptfs_session *s, struct ckpt_capture *c)
{
	if (c->failed || c->landed < c->total)
		return;
	if (c->gave_up) {
		char text[CKPTFS_TEXT_MAX];

		snprintf(text, sizeof(text),
			 "%s: is no longer wanted, its file has failed or is gone: %s",
			 c->tensor->name, strerror(-c->gave_up));
		count_failure_locked(s, c, c->gave_up, text);
	}
	no_longer_held_locked(s, c);
	over_locked(s, c);
}

void ckpt_capture_granted_locked(struct ckptfs_session *s, struct ckpt_capture *c, uint64_t bytes)
{
	c->granted += bytes;
	if (!wants_grants(c))
		s->nr_ungranted--;
}

void ckpt_capture_stopped_locked(struct ckptfs_session *s, struct ckpt_capture *c, int err,
				 const char *text)
{
	if (err)
		ckpt_capture_fail_locked(s, c, err, text);
	if (--c->running == 0 && c->failed)
		over_locked(s, c);
}

void ckpt_capture_landed_locked(struct ckptfs_session *s, struct ckpt_capture *c, uint64_t bytes)
{
	if (c->over)
		return;
	c->landed += bytes;
	s->stats.captured_bytes += bytes;
	end_if_landed_locked(s, c);
}

void ckpt_capture_given_up_locked(struct ckptfs_session *s, struct ckpt_capture *c, int err)
{
	if (!wants_grants(c))
		return;
	s->nr_ungranted--;
	c->total = c->granted;
	c->gave_up = err;
	end_if_landed_locked(s, c);
}

struct ckpt_capture *ckpt_failure_next_locked(struct ckptfs_session *s)
{
	for (struct ckpt_capture **at = &s->failures; *at; at = &(*at)->next) {
		struct ckpt_capture *c = *at;

		/*
		 * FAIL voids the grants of the capture, so no copy to their places may still run.
		 */
		if (!c->taken || c->running)
			continue;
		*at = c->next;
		return c;
	}
	return NULL;
}

void ckpt_failure_told_locked(struct ckptfs_session *s, struct ckpt_capture *c)
{
	no_longer_held_locked(s, c);
	ckpt_capture_put_locked(c);
}

bool ckpt_captures_passed_locked(struct ckptfs_session *s, uint64_t seq, bool landed)
{
	if (landed)
		return s->base > seq || s->base == s->next_seq;
	for (; s->safe != s->next_seq; s->safe++) {
		const struct ckpt_capture *c = *place_of(s, s->safe);

		if (c && !(c->device->ops->ordered && c->begun == c->total))
			break;
	}
	return s->safe > seq || s->safe == s->next_seq;
}

void ckpt_captures_die_locked(struct ckptfs_session *s, int err)
{
	char text[CKPTFS_TEXT_MAX];

	if (s->dead)
		return;
	s->dead = err;
	snprintf(text, sizeof(text), "the daemon is gone, and with it what was not captured: %s",
		 strerror(-err));
	for (uint64_t seq = s->base; seq < s->next_seq; seq++) {
		struct ckpt_capture *c = *place_of(s, seq);

		if (!c)
			continue;
		no_longer_held_locked(s, c);
		ckpt_capture_fail_locked(s, c, err, text);
	}
	while (s->failures) {
		no_longer_held_locked(s, s->failures);
		forget_failure_locked(s, s->failures);
	}
	pthread_cond_broadcast(&s->ended);
	pthread_cond_broadcast(&s->work);
}
