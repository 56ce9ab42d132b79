/* SPDX-License-Identifier: MIT */
#include "engine/content/digest.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <xxhash.h>

#include "engine/base/cleanup.h"
#include "engine/base/lock.h"
#include "engine/base/worker.h"
#include "engine/content/hash.h"
#include "engine/content/spans.h"

#define READ_BYTES  ((size_t)1 << 20)
#define MAX_THREADS 64
#define TWICE_BYTES ((size_t)64 << 10) /* stay in the processor's cache until they are read again */

/*
 * The table of pieces is as long as its farthest piece, so a few bytes far out in a sparse file
 * must not make it grow. It reaches FREE_REACH, and KNOWN_REACH farther with each known piece;
 * pieces beyond are read again.
 */
#define FREE_REACH  16384 /* 128 GiB */
#define KNOWN_REACH 8

struct piece {
	XXH128_canonical_t digest; /* of the first len bytes */
	uint32_t len;		   /* 0: unknown */
};

/* A piece whose bytes are passing in order. */
struct stream {
	XXH3_state_t *state;
	uint64_t piece;
	uint32_t len;  /* bytes taken so far; 0: forgotten */
	uint64_t used; /* number of the last feed */
	bool busy;     /* a thread is hashing, without the lock; len counts its bytes already */
};

struct digest {
	struct lock lock; /* all below */
	struct piece *pieces;
	uint64_t nr_pieces; /* the table's length */
	uint64_t nr_known;  /* pieces put into the table so far, repetitions included */
	uint64_t changes;   /* feeds and spoils */
	struct stream streams[DIGEST_STREAMS];
	struct spans spans;
};

/* Buffers to read and digest a piece, one per thread. */
struct hasher {
	XXH3_state_t *state;
	void *buf;
};

static int hasher_init(struct hasher *h)
{
	h->state = XXH3_createState();
	h->buf = malloc(READ_BYTES);
	return h->state && h->buf ? 0 : -ENOMEM;
}

static void hasher_finish(struct hasher *h)
{
	XXH3_freeState(h->state);
	free(h->buf);
}

static XXH128_canonical_t digest_of_state(const XXH3_state_t *state)
{
	XXH128_canonical_t digest;

	XXH128_canonicalFromHash(&digest, XXH3_128bits_digest(state));
	return digest;
}

static int hash_piece(struct hasher *h, const struct source *src, uint64_t off, size_t len,
		      XXH128_canonical_t *digest)
{
	XXH3_128bits_reset(h->state);
	while (len) {
		size_t part = len < READ_BYTES ? len : READ_BYTES;
		ssize_t n = src->read(src->arg, h->buf, part, off);

		if (n < 0)
			return (int)n;
		if ((size_t)n != part)
			return -EIO;
		hash_update(h->state, h->buf, part);
		off += part;
		len -= part;
	}
	*digest = digest_of_state(h->state);
	return 0;
}

static void to_hex(const XXH128_canonical_t *digest, char hex[DIGEST_HEX])
{
	static const char digits[] = "0123456789abcdef";
	size_t i;

	for (i = 0; i < sizeof(digest->digest); i++) {
		hex[2 * i] = digits[digest->digest[i] >> 4];
		hex[2 * i + 1] = digits[digest->digest[i] & 15];
	}
	hex[2 * i] = '\0';
}

static uint64_t pieces_of(uint64_t size)
{
	return size / DIGEST_PIECE + !!(size % DIGEST_PIECE);
}

static size_t piece_len(uint64_t size, uint64_t piece)
{
	uint64_t left = size - piece * DIGEST_PIECE;

	return left < DIGEST_PIECE ? (size_t)left : DIGEST_PIECE;
}

/* --- while it is written --- */

struct digest *digest_create(void)
{
	struct digest *d = calloc(1, sizeof(*d));

	if (d)
		lock_init(&d->lock, LOCK_DIGEST);
	return d;
}

void digest_destroy(struct digest *d)
{
	size_t i;

	if (!d)
		return;
	for (i = 0; i < DIGEST_STREAMS; i++)
		XXH3_freeState(d->streams[i].state);
	free(d->pieces);
	spans_free(&d->spans);
	lock_finish(&d->lock);
	free(d);
}

static bool grow(struct digest *d, uint64_t piece)
{
	uint64_t reach = FREE_REACH + KNOWN_REACH * d->nr_known, nr = d->nr_pieces * 2;
	struct piece *pieces;

	if (piece < d->nr_pieces)
		return true;
	if (piece >= reach)
		return false;
	if (nr <= piece)
		nr = piece + 1;
	pieces = reallocarray(d->pieces, nr, sizeof(*pieces));
	if (!pieces)
		return false;
	memset(pieces + d->nr_pieces, 0, (nr - d->nr_pieces) * sizeof(*pieces));
	d->pieces = pieces;
	d->nr_pieces = nr;
	return true;
}

static void remember(struct digest *d, uint64_t piece, const XXH128_canonical_t *digest, size_t len)
{
	if (!grow(d, piece))
		return;
	d->pieces[piece].digest = *digest;
	d->pieces[piece].len = (uint32_t)len;
	d->nr_known++;
}

static struct stream *find_stream(struct digest *d, uint64_t piece)
{
	size_t i;

	for (i = 0; i < DIGEST_STREAMS; i++)
		if (d->streams[i].len && d->streams[i].piece == piece)
			return &d->streams[i];
	return NULL;
}

/* The bytes of the piece from @at on have changed. */
static void forget(struct digest *d, uint64_t piece, size_t at)
{
	struct stream *s = find_stream(d, piece);

	if (s && at < s->len)
		s->len = 0;
	if (piece < d->nr_pieces && at < d->pieces[piece].len)
		d->pieces[piece].len = 0;
}

/* A stream for the start of the piece: a free one, or the least recently fed. NULL: none. */
static struct stream *start_stream(struct digest *d, uint64_t piece)
{
	struct stream *s = NULL, *t;

	for (t = d->streams; t < d->streams + DIGEST_STREAMS && !(s && !s->len); t++)
		if (!t->busy && (!s || !t->len || t->used < s->used))
			s = t;
	if (!s)
		return NULL;
	if (!s->state)
		s->state = XXH3_createState();
	if (!s->state)
		return NULL;
	XXH3_128bits_reset(s->state);
	s->piece = piece;
	s->len = 0;
	return s;
}

/* Drops the lock while it hashes. A change of the bytes meanwhile forgets them (forget). */
static void feed_piece_locked(struct digest *d, uint64_t piece, size_t at, const void *data,
			      size_t len)
{
	struct stream *s;

	forget(d, piece, at);
	s = find_stream(d, piece);
	if (!s && !at)
		s = start_stream(d, piece);
	if (!s || s->busy || s->len != at)
		return;
	s->len += (uint32_t)len;
	s->used = d->changes;
	s->busy = true;
	lock_drop(&d->lock);
	hash_update(s->state, data, len);
	lock_take(&d->lock);
	s->busy = false;
	if (s->len == DIGEST_PIECE) {
		XXH128_canonical_t digest = digest_of_state(s->state);

		remember(d, piece, &digest, DIGEST_PIECE);
		s->len = 0;
	}
}

void digest_expect(struct digest *d, uint64_t off, uint64_t len)
{
	LOCK_SCOPE(&d->lock);

	spans_expect(&d->spans, off, len);
}

bool digest_of_expected(struct digest *d, uint64_t off, uint64_t len, char hex[DIGEST_HEX])
{
	XXH128_canonical_t digest;
	LOCK_SCOPE(&d->lock);

	if (!spans_known(&d->spans, off, len, &digest))
		return false;
	to_hex(&digest, hex);
	return true;
}

void digest_feed(struct digest *d, uint64_t off, const void *data, size_t len)
{
	LOCK_SCOPE(&d->lock);

	d->changes++;
	while (len) {
		size_t at = off % DIGEST_PIECE;
		size_t part = len < DIGEST_PIECE - at ? len : DIGEST_PIECE - at;

		if (part > TWICE_BYTES && d->spans.nr)
			part = TWICE_BYTES;
		feed_piece_locked(d, off / DIGEST_PIECE, at, data, part);
		spans_feed(&d->spans, off, data, part);
		data = (const char *)data + part;
		off += part;
		len -= part;
	}
}

void digest_spoil(struct digest *d, uint64_t off, uint64_t len)
{
	uint64_t end = len < UINT64_MAX - off ? off + len : UINT64_MAX;
	uint64_t first = off / DIGEST_PIECE, last = pieces_of(end), p;
	size_t i;
	LOCK_SCOPE(&d->lock);

	d->changes++;
	if (!len)
		return;
	spans_spoil(&d->spans, off, end);
	forget(d, first, off % DIGEST_PIECE);
	for (p = first + 1; p < last && p < d->nr_pieces; p++)
		d->pieces[p].len = 0;
	for (i = 0; i < DIGEST_STREAMS; i++)
		if (d->streams[i].piece > first && d->streams[i].piece < last)
			d->streams[i].len = 0;
}

/* True if the digest of the piece's first @len bytes is known. *@changes: as of now. */
static bool known(struct digest *d, uint64_t piece, size_t len, XXH128_canonical_t *digest,
		  uint64_t *changes)
{
	struct stream *s;
	LOCK_SCOPE(&d->lock);

	*changes = d->changes;
	s = find_stream(d, piece);
	if (s && s->len == len && !s->busy) {
		*digest = digest_of_state(s->state);
		return true;
	}
	if (piece >= d->nr_pieces || d->pieces[piece].len != len)
		return false;
	*digest = d->pieces[piece].digest;
	return true;
}

static void remember_unless_changed(struct digest *d, uint64_t piece,
				    const XXH128_canonical_t *digest, size_t len, uint64_t changes)
{
	LOCK_SCOPE(&d->lock);

	if (d->changes == changes)
		remember(d, piece, digest, len);
}

static int finish(struct digest *d, uint64_t size, const struct source *src, unsigned *reread,
		  struct hasher *h, XXH3_state_t *whole, char hex[DIGEST_HEX])
{
	uint64_t nr = pieces_of(size), piece, changes;
	XXH128_canonical_t digest;

	XXH3_128bits_reset(whole);
	for (piece = 0; piece < nr; piece++) {
		size_t len = piece_len(size, piece);

		if (!known(d, piece, len, &digest, &changes)) {
			int err = hash_piece(h, src, piece * DIGEST_PIECE, len, &digest);

			if (err)
				return err;
			remember_unless_changed(d, piece, &digest, len, changes);
			++*reread;
		}
		hash_update(whole, digest.digest, sizeof(digest.digest));
	}
	if (nr != 1)
		digest = digest_of_state(whole);
	to_hex(&digest, hex);
	return 0;
}

int digest_finish(struct digest *d, uint64_t size, const struct source *src,
		  unsigned *reread_pieces, char hex[DIGEST_HEX])
{
	XXH3_state_t *whole = XXH3_createState();
	struct hasher h;
	int err = hasher_init(&h);
	unsigned reread = 0;

	if (!err && !whole)
		err = -ENOMEM;
	if (!err)
		err = finish(d, size, src, &reread, &h, whole, hex);
	if (reread_pieces)
		*reread_pieces = reread;
	hasher_finish(&h);
	XXH3_freeState(whole);
	return err;
}

/* --- a whole file at once --- */

struct job {
	const struct source *src;
	uint64_t size, nr_pieces;
	XXH128_canonical_t *digests; /* the thread that takes a piece writes its digest */
	void (*progress)(void *arg, uint64_t bytes);
	void *arg;
	struct lock lock; /* all below */
	uint64_t next, done;
	int err; /* the first one */
};

static bool take_piece(struct job *job, uint64_t *piece)
{
	LOCK_SCOPE(&job->lock);

	if (job->err || job->next == job->nr_pieces)
		return false;
	*piece = job->next++;
	return true;
}

static void piece_done(struct job *job, size_t len, int err)
{
	LOCK_SCOPE(&job->lock);

	if (err && !job->err)
		job->err = err;
	job->done += len;
	if (!err && job->progress)
		job->progress(job->arg, job->done);
}

static void *job_thread(void *arg)
{
	struct job *job = arg;
	struct hasher h;
	int err = hasher_init(&h);
	uint64_t piece;

	while (take_piece(job, &piece)) {
		size_t len = piece_len(job->size, piece);

		if (!err)
			err = hash_piece(&h, job->src, piece * DIGEST_PIECE, len,
					 &job->digests[piece]);
		piece_done(job, len, err);
	}
	hasher_finish(&h);
	return NULL;
}

/* The calling thread takes part. If no other can be started, it does all the work. */
static void run_job(struct job *job, unsigned threads)
{
	struct worker workers[MAX_THREADS];
	unsigned nr = 0;

	if (threads > MAX_THREADS)
		threads = MAX_THREADS;
	if (threads > job->nr_pieces)
		threads = (unsigned)job->nr_pieces;
	while (nr + 1 < threads && !worker_start(&workers[nr], "ckptfs-digest", job_thread, job))
		nr++;
	job_thread(job);
	while (nr)
		worker_join(&workers[--nr]);
}

int digest_of_source(const struct source *src, uint64_t size, unsigned threads,
		     void (*progress)(void *arg, uint64_t bytes), void *arg, char hex[DIGEST_HEX])
{
	struct job job = {.src = src,
			  .size = size,
			  .nr_pieces = pieces_of(size),
			  .progress = progress,
			  .arg = arg,
			  .lock = LOCK_INIT(LOCK_DIGEST)};
	XXH128_canonical_t digest;

	job.digests = calloc(job.nr_pieces + 1, sizeof(*job.digests));
	if (!job.digests)
		return -ENOMEM;
	run_job(&job, threads);
	if (job.nr_pieces == 1)
		digest = job.digests[0];
	else
		XXH128_canonicalFromHash(
			&digest, XXH3_128bits(job.digests, job.nr_pieces * sizeof(*job.digests)));
	free(job.digests);
	if (!job.err)
		to_hex(&digest, hex);
	return job.err;
}
