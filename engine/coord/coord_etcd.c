/* SPDX-License-Identifier: MIT */
/*
 * Records as keys of etcd v3:
 *
 *	/ckptfs/UUID/txn/UID/GEN.KIND	a record; made by a transaction, if its create_revision is 0
 *	/ckptfs/UUID/nodes/ID		the lease of a node; attached to a lease of etcd, whose number is made of the key
 *
 * Each answer of etcd is what its majority agrees on, so what is not there is not there. What is unknown because an answer
 * was lost is asked for again, with the same text: the transaction does the same however often it is done.
 */
#include "engine/coord/coord_etcd.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/json.h"
#include "engine/base/log.h"
#include "engine/coord/etcd_http.h"

#define PREFIX_MAX 64
#define KEY_MAX	   192
#define PAGE	   500		       /* keys at a time in a listing */
#define LOOK_MAX   64		       /* keys at a time, of a transaction's at most 128 */
#define WATCH_NS   (10 * NSEC_PER_SEC) /* then it looks again: a member may hang and stay connected */
#define NAP_NS	   (300 * NSEC_PER_MSEC)
#define NOBODY	   (-1) /* wakes */

struct coord_etcd {
	struct etcd *etcd;
	char prefix[PREFIX_MAX]; /* /ckptfs/UUID/ */
	unsigned lease_s;
};

/* --- requests --- */

static json_t *json_base64(const char *data, size_t len)
{
	__cleanup_free char *text = etcd_base64(data, len);

	return text ? json_string(text) : NULL;
}

static json_t *json_key(const char *key)
{
	return json_base64(key, strlen(key));
}

static json_t *json_number(int64_t number)
{
	char text[24];

	snprintf(text, sizeof(text), "%lld", (long long)number);
	return json_string(text);
}

/* Takes @o, also if it is NULL, which is no memory. As etcd_call. */
static int call(struct coord_etcd *ce, const char *path, json_t *o, enum etcd_kind kind,
		int expected, int wake, struct etcd_answer *a)
{
	__cleanup_free char *body = o ? json_dumps(o, JSON_COMPACT) : NULL;
	const struct etcd_request r = {
		.path = path, .body = body, .kind = kind, .expected = expected};

	json_decref(o);
	memset(a, 0, sizeof(*a));
	return body ? etcd_call(ce->etcd, &r, wake, a) : -ENOMEM;
}

/* All keys that begin with @prefix, whose last character has one behind it. */
static json_t *json_below(const char *prefix)
{
	char end[KEY_MAX];

	snprintf(end, sizeof(end), "%s", prefix);
	end[strlen(end) - 1]++;
	return json_pack("{s:o, s:o}", "key", json_key(prefix), "range_end", json_key(end));
}

static void record_key(const struct coord_etcd *ce, char key[KEY_MAX], uid_t owner, const char *gen,
		       const char *kind)
{
	snprintf(key, KEY_MAX, "%stxn/%u/%s.%s", ce->prefix, (unsigned)owner, gen, kind);
}

static void node_key(const struct coord_etcd *ce, char key[KEY_MAX], const char *node)
{
	snprintf(key, KEY_MAX, "%snodes/%s", ce->prefix, node);
}

/* --- what one key has --- */

/* Of an answer that has one key at most: its text. -ENOENT, -EPERM, -ERANGE as coord_ops.read. */
static ssize_t text_of(const struct etcd_answer *a, const char *key, char *buf, size_t size)
{
	const struct etcd_kv *kv = a->kvs;
	char text[MESSAGE_MAX];

	if (!a->nr_kvs)
		return -ENOENT;
	if (a->nr_kvs > 1 || strcmp(kv->key, key) || kv->len > COORD_TEXT_MAX ||
	    memchr(kv->value, '\0', kv->len)) {
		MESSAGE(text, ETCD_NO_RECORD, key);
		log_warn("%s", text);
		return -EPERM;
	}
	if (kv->len > size)
		return -ERANGE;
	memcpy(buf, kv->value, kv->len);
	return (ssize_t)kv->len;
}

static ssize_t read_key(struct coord_etcd *ce, const char *key, char *buf, size_t size)
{
	struct etcd_answer a;
	ssize_t n = call(ce, "kv/range", json_pack("{s:o}", "key", json_key(key)), ETCD_RANGE,
			 ETCD_OK, NOBODY, &a);

	if (!n)
		n = text_of(&a, key, buf, size);
	etcd_answer_finish(&a);
	return n;
}

/* --- records --- */

/* Puts it, unless it is there; then it is read. */
static json_t *json_record(const char *key, const char *text, size_t len)
{
	return json_pack("{s:[{s:s, s:s, s:o, s:s}], s:[{s:{s:o, s:o}}], s:[{s:{s:o}}]}", "compare",
			 "target", "CREATE", "result", "EQUAL", "key", json_key(key),
			 "create_revision", "0", "success", "request_put", "key", json_key(key),
			 "value", json_base64(text, len), "failure", "request_range", "key",
			 json_key(key));
}

static int etcd_record(void *arg, const struct caller *owner, const char *gen, const char *kind,
		       const char *text, size_t len, char *first, size_t *first_len)
{
	struct coord_etcd *ce = arg;
	char key[KEY_MAX];
	struct etcd_answer a;
	ssize_t n;

	if (!coord_gen_ok(gen) || !coord_kind_ok(kind) || len > COORD_TEXT_MAX ||
	    memchr(text, '\0', len))
		return -EINVAL;
	creds_restore();
	record_key(ce, key, owner->uid, gen, kind);
	n = call(ce, "kv/txn", json_record(key, text, len), ETCD_TXN, ETCD_OK, NOBODY, &a);
	if (!n && a.succeeded)
		n = 1;
	else if (!n) {
		n = text_of(&a, key, first, COORD_TEXT_MAX);
		*first_len = n < 0 ? 0 : (size_t)n;
		if (n >= 0)
			n = *first_len == len && !memcmp(first, text, len);
	}
	etcd_answer_finish(&a);
	return n == -ENOENT ? -EIO : (int)n;
}

static ssize_t etcd_read(void *arg, uid_t owner, const char *gen, const char *kind, char *buf,
			 size_t size)
{
	struct coord_etcd *ce = arg;
	char key[KEY_MAX];

	if (!coord_gen_ok(gen) || !coord_kind_ok(kind))
		return -EINVAL;
	creds_restore();
	record_key(ce, key, owner, gen, kind);
	return read_key(ce, key, buf, size);
}

/* All at once, so that nobody sees some of them without the decision. */
static int etcd_forget(void *arg, const struct caller *owner, const char *gen)
{
	struct coord_etcd *ce = arg;
	char key[KEY_MAX];
	struct etcd_answer a;
	int err;

	if (!coord_gen_ok(gen))
		return -EINVAL;
	creds_restore();
	record_key(ce, key, owner->uid, gen, "");
	err = call(ce, "kv/deleterange", json_below(key), ETCD_RANGE, ETCD_OK, NOBODY, &a);
	etcd_answer_finish(&a);
	return err;
}

/* --- listings --- */

struct listing {
	struct coord_etcd *ce;
	char prefix[KEY_MAX];	/* of the keys */
	char last[KEY_MAX];	/* which was seen last */
	char next[2 * KEY_MAX]; /* behind which the next page begins */
	/* Of each key, without the prefix. May say what is @next. Anything but 0 stops. */
	int (*seen)(struct listing *l, const char *name);
	int (*gen_found)(void *arg, uid_t owner, const char *gen);
	int (*node_found)(void *arg, const char *node);
	void *found_arg;
	char told[KEY_MAX]; /* the generation of which @gen_found knows already */
	int stop;	    /* what was returned */
};

static json_t *json_page(const struct listing *l)
{
	json_t *o = json_below(l->prefix);

	/* With the NUL: the first key behind that. */
	json_object_set_new(o, "key", json_base64(l->next, strlen(l->next) + 1));
	json_object_set_new(o, "limit", json_number(PAGE));
	json_object_set_new(o, "keys_only", json_true());
	return o;
}

/* Is it below the prefix, and behind the one before? Else a listing might have no end. */
static bool is_next(const struct listing *l, const char *key)
{
	return strlen(key) < KEY_MAX && !strncmp(key, l->prefix, strlen(l->prefix)) &&
	       strcmp(key, l->last) > 0;
}

static int take_page(struct listing *l, const struct etcd_answer *a)
{
	size_t i;

	for (i = 0; i < a->nr_kvs && !l->stop; i++) {
		const char *key = a->kvs[i].key;

		if (!is_next(l, key))
			return -EBADMSG;
		memcpy(l->last, key, strlen(key) + 1);
		memcpy(l->next, key, strlen(key) + 1);
		l->stop = l->seen(l, key + strlen(l->prefix));
	}
	return a->more && !a->nr_kvs ? -EBADMSG : 0;
}

/* @below: what the keys have behind the prefix of the filesystem. */
static int list_keys(struct listing *l, const char *below)
{
	struct etcd_answer a;
	bool more = true;
	int err = 0;

	creds_restore();
	snprintf(l->prefix, sizeof(l->prefix), "%s%s", l->ce->prefix, below);
	memcpy(l->last, l->prefix, sizeof(l->last));
	memcpy(l->next, l->prefix, sizeof(l->prefix));
	while (!err && more && !l->stop) {
		err = call(l->ce, "kv/range", json_page(l), ETCD_RANGE, ETCD_OK, NOBODY, &a);
		if (!err)
			err = take_page(l, &a);
		more = a.more;
		etcd_answer_finish(&a);
	}
	return l->stop ? l->stop : err;
}

/* UID/GEN.KIND. A generation may have ten thousands of records: of one that is known the rest is passed over. */
static int seen_record(struct listing *l, const char *name)
{
	char again[KEY_MAX], gen[COORD_GEN_MAX];
	const char *slash = strchr(name, '/'), *dot = strchr(name, '.');
	unsigned long owner = strtoul(name, NULL, 10);

	if (!slash || !dot || dot - slash != COORD_GEN_MAX)
		return 0;
	memcpy(gen, slash + 1, COORD_GEN_MAX - 1);
	gen[COORD_GEN_MAX - 1] = '\0';
	snprintf(again, sizeof(again), "%lu/%s", owner, gen);
	if (owner >= (uid_t)-1 || !coord_gen_ok(gen) ||
	    strncmp(again, name, (size_t)(dot - name)) || again[dot - name])
		return 0;
	snprintf(l->next, sizeof(l->next), "%s%s%c", l->prefix, again, '.' + 1);
	if (!strcmp(again, l->told))
		return 0;
	memcpy(l->told, again, sizeof(l->told));
	return l->gen_found(l->found_arg, (uid_t)owner, gen);
}

static int etcd_list(void *arg, int (*found)(void *arg, uid_t owner, const char *gen),
		     void *found_arg)
{
	struct listing l = {
		.ce = arg, .seen = seen_record, .gen_found = found, .found_arg = found_arg};

	return list_keys(&l, "txn/");
}

static int seen_node(struct listing *l, const char *name)
{
	return coord_node_ok(name) ? l->node_found(l->found_arg, name) : 0;
}

static int etcd_lease_list(void *arg, int (*found)(void *arg, const char *node), void *found_arg)
{
	struct listing l = {
		.ce = arg, .seen = seen_node, .node_found = found, .found_arg = found_arg};

	return list_keys(&l, "nodes/");
}

/* --- waiting --- */

struct wait {
	struct coord_etcd *ce;
	const struct coord_key *keys;
	size_t nr;
	int wake;
	bool looked;
};

/* Is one of @nr keys there? 1, 0, or as etcd_call. */
static int look(const struct wait *w, const struct coord_key *keys, size_t nr)
{
	json_t *ranges = json_array();
	char key[KEY_MAX];
	struct etcd_answer a;
	size_t i;
	int err;

	for (i = 0; i < nr; i++) {
		record_key(w->ce, key, keys[i].owner, keys[i].gen, keys[i].kind);
		json_array_append_new(ranges, json_pack("{s:{s:o, s:b}}", "request_range", "key",
							json_key(key), "keys_only", 1));
	}
	err = call(w->ce, "kv/txn", json_pack("{s:o}", "success", ranges), ETCD_TXN, ETCD_OK,
		   w->wake, &a);
	if (!err)
		err = a.nr_kvs > 0;
	etcd_answer_finish(&a);
	return err;
}

static int look_at_all(void *arg)
{
	struct wait *w = arg;
	size_t i;
	int seen = 0;

	w->looked = true;
	for (i = 0; !seen && i < w->nr; i += LOOK_MAX)
		seen = look(w, w->keys + i, w->nr - i < LOOK_MAX ? w->nr - i : LOOK_MAX);
	return seen;
}

/* One request after the other, as the gateway takes them from one stream; owned by the caller. */
static char *watches(const struct wait *w)
{
	char *body = NULL, key[KEY_MAX];
	size_t size = 0, i, nr = w->nr;
	FILE *f = open_memstream(&body, &size);

	for (i = 0; f && i < nr; i++) {
		const struct coord_key *k = &w->keys[i];
		json_t *o;

		record_key(w->ce, key, k->owner, k->gen, k->kind);
		o = json_pack("{s:{s:o, s:[s]}}", "create_request", "key", json_key(key), "filters",
			      "NODELETE");
		if (!o || json_dumpf(o, f, JSON_COMPACT) || putc('\n', f) == EOF)
			nr = 0;
		json_decref(o);
	}
	if (f && !fclose(f) && i == w->nr)
		return body;
	free(body);
	return NULL;
}

/* A while, or until @wake can be read or the deadline comes: then it returns false. */
static bool nap(int wake, uint64_t ns, uint64_t deadline_ns)
{
	struct pollfd p = {.fd = wake, .events = POLLIN};
	uint64_t now = clock_mono_ns(), until = now + ns;

	if (until > deadline_ns)
		until = deadline_ns > now ? deadline_ns : now;
	return !poll(&p, 1, (int)((until - now) / NSEC_PER_MSEC)) && until < deadline_ns;
}

/*
 * Watches, and then looks: a watch that begins at a revision of before, which others have left behind meanwhile, is served
 * by etcd up to 100 ms later.
 */
static int wait_once(struct wait *w, uint64_t deadline_ns)
{
	uint64_t until = clock_mono_ns() + WATCH_NS;
	__cleanup_free char *body = watches(w);
	int err = -ENOMEM, seen;

	if (body)
		err = etcd_watch(w->ce->etcd, body, w->nr, look_at_all, w, w->wake,
				 until < deadline_ns ? until : deadline_ns);
	/* Whoever does not begin to watch in time may never: a member that hangs, or a proxy that keeps answers back. */
	if (err <= 0 && err != -ECANCELED && !w->looked) {
		seen = look_at_all(w);
		err = seen ? seen : err;
	}
	return err;
}

static int etcd_wait(void *arg, const struct coord_key *keys, size_t nr, int wake,
		     uint64_t deadline_ns)
{
	struct pollfd p = {.fd = wake, .events = POLLIN};
	size_t i;

	for (i = 0; i < nr; i++)
		if (!coord_gen_ok(keys[i].gen) || !coord_kind_ok(keys[i].kind))
			return -EINVAL;
	creds_restore();
	if (!nr)
		nap(wake, deadline_ns, deadline_ns);
	while (nr && clock_mono_ns() < deadline_ns && (wake < 0 || !poll(&p, 1, 0))) {
		struct wait w = {arg, keys, nr, wake, false};
		int r = wait_once(&w, deadline_ns);

		if (r == 1)
			return 1;
		if (r == -ECANCELED)
			return 0;
		/* Without a stream it is asked now and then; and nobody asks a service that fails all the time. */
		if (r && !nap(wake, NAP_NS, deadline_ns))
			return 0;
		if (r == -EHOSTDOWN || r == -ENOMEM)
			return r;
	}
	return 0;
}

/* --- leases --- */

/*
 * The number of etcd's lease is made of the key, so that who has lost an answer knows which it was. The text is
 * put anew at each renewal; the lease takes it away when nobody renews it.
 */
static int64_t lease_id(const char *key)
{
	uint64_t id = XXH3_64bits(key, strlen(key)) >> 1;

	return id ? (int64_t)id : 1;
}

/* Makes it live for another while; makes it, if there is none (any more). */
static int keep_lease(struct coord_etcd *ce, int64_t id)
{
	struct etcd_answer a;
	int err = call(ce, "lease/keepalive", json_pack("{s:o}", "ID", json_number(id)),
		       ETCD_KEEPALIVE, ETCD_OK, NOBODY, &a);
	bool lives = !err && a.ttl > 0;

	etcd_answer_finish(&a);
	if (err || lives)
		return err;
	err = call(ce, "lease/grant",
		   json_pack("{s:o, s:o}", "ID", json_number(id), "TTL", json_number(ce->lease_s)),
		   ETCD_RANGE, ETCD_PRECONDITION, NOBODY, &a);
	etcd_answer_finish(&a);
	return err;
}

/* 1: the lease has run out since. */
static int put_lease(struct coord_etcd *ce, const char *key, int64_t id, const char *text,
		     size_t len)
{
	struct etcd_answer a;
	int err = call(ce, "kv/put",
		       json_pack("{s:o, s:o, s:o}", "key", json_key(key), "value",
				 json_base64(text, len), "lease", json_number(id)),
		       ETCD_RANGE, ETCD_NOT_FOUND, NOBODY, &a);

	if (!err)
		err = a.code == ETCD_NOT_FOUND;
	etcd_answer_finish(&a);
	return err;
}

static int etcd_lease(void *arg, const char *node, const char *text, size_t len)
{
	struct coord_etcd *ce = arg;
	char key[KEY_MAX];
	int err, tries = 2;

	if (!coord_node_ok(node) || len > COORD_LEASE_MAX || memchr(text, '\0', len))
		return -EINVAL;
	creds_restore();
	node_key(ce, key, node);
	do {
		err = keep_lease(ce, lease_id(key));
		if (!err)
			err = put_lease(ce, key, lease_id(key), text, len);
	} while (err == 1 && --tries);
	return err == 1 ? -EAGAIN : err;
}

static ssize_t etcd_lease_read(void *arg, const char *node, char *buf, size_t size)
{
	struct coord_etcd *ce = arg;
	char key[KEY_MAX];

	if (!coord_node_ok(node))
		return -EINVAL;
	creds_restore();
	node_key(ce, key, node);
	return read_key(ce, key, buf, size);
}

static int etcd_lease_end(void *arg, const char *node)
{
	struct coord_etcd *ce = arg;
	char key[KEY_MAX];
	struct etcd_answer a;
	int err;

	if (!coord_node_ok(node))
		return -EINVAL;
	creds_restore();
	node_key(ce, key, node);
	err = call(ce, "lease/revoke", json_pack("{s:o}", "ID", json_number(lease_id(key))),
		   ETCD_RANGE, ETCD_NOT_FOUND, NOBODY, &a);
	etcd_answer_finish(&a);
	return err;
}

const struct coord_ops coord_etcd_ops = {
	.record = etcd_record,
	.read = etcd_read,
	.forget = etcd_forget,
	.list = etcd_list,
	.wait = etcd_wait,
	.lease = etcd_lease,
	.lease_read = etcd_lease_read,
	.lease_end = etcd_lease_end,
	.lease_list = etcd_lease_list,
};

/* --- as a whole --- */

/* Reads, and removes what is not there, for which etcd asks whether that would be allowed. */
static int try_out(struct coord_etcd *ce, struct error *e)
{
	char key[KEY_MAX];
	struct etcd_answer a;
	int err;

	snprintf(key, sizeof(key), "%snodes/none", ce->prefix);
	err = call(ce, "kv/txn",
		   json_pack("{s:[{s:{s:o}}, {s:{s:o}}]}", "success", "request_range", "key",
			     json_key(key), "request_delete_range", "key", json_key(key)),
		   ETCD_TXN, ETCD_OK, NOBODY, &a);
	if (err)
		err = FAIL(e, -err, ETCD_UNUSABLE, *a.error ? a.error : strerror(-err));
	etcd_answer_finish(&a);
	return err;
}

int coord_etcd_open(struct coord_etcd **ce, const char *spec, const char *uuid, unsigned lease_s,
		    struct error *e)
{
	struct coord_etcd *c = calloc(1, sizeof(*c));
	struct etcd_config config;
	int err = etcd_config_read(&config, spec, e);

	if (!err && c)
		c->etcd = etcd_create(&config);
	if (!err && (!c || !c->etcd))
		err = FAIL(e, ENOMEM, ETCD_UNUSABLE, strerror(ENOMEM));
	etcd_config_finish(&config);
	if (!err) {
		snprintf(c->prefix, sizeof(c->prefix), "/ckptfs/%s/", uuid);
		c->lease_s = lease_s ? lease_s : 1;
		err = try_out(c, e);
	}
	if (err) {
		coord_etcd_close(c);
		return err;
	}
	etcd_tell(c->etcd);
	*ce = c;
	return 0;
}

void coord_etcd_close(struct coord_etcd *ce)
{
	if (!ce)
		return;
	etcd_destroy(ce->etcd);
	free(ce);
}

uint64_t coord_etcd_outage_ns(struct coord_etcd *ce, char *why, size_t size)
{
	char text[ETCD_WHY_MAX];
	uint64_t ns = etcd_outage_ns(ce->etcd, text);

	if (ns)
		snprintf(why, size, "%s", text);
	return ns;
}

uint64_t coord_etcd_cluster(struct coord_etcd *ce)
{
	return etcd_cluster(ce->etcd);
}
