/* SPDX-License-Identifier: MIT */
/*
 * Records as keys of etcd v3:
 *
 *   /ckptfs/UUID/txn/UID/GEN.KIND  a record; made by a transaction, if its create_revision is 0
 *   /ckptfs/UUID/nodes/ID          the lease of a node; attached to a lease of etcd, with a number
 *                                  derived from the key
 *
 * Each answer of etcd is what its majority agrees on, so a key that is missing does not exist. If
 * an answer is lost, the caller asks again with the same text: the transaction has the same result
 * however often it is done.
 */
#include "engine/coord/coord_etcd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/coord/curl.h"
#include "engine/coord/etcd_inside.h"

static void record_key(const struct coord_etcd *ce, char key[ETCD_KEY_MAX], uid_t owner,
		       const char *gen, const char *kind)
{
	char uid[COORD_UID_MAX], name[COORD_NAME_MAX];

	coord_uid_name(uid, owner);
	coord_record_name(name, gen, kind);
	snprintf(key, ETCD_KEY_MAX, "%s" ETCD_TXN_KEYS "%s/%s", ce->prefix, uid, name);
}

/* Copies the text of @key from what a wait has received; -ENOENT: it has not. */
static ssize_t take_key(struct coord_etcd *ce, char *key, char *buf, size_t size)
{
	struct etcd_kv kv = {.key = key};
	ssize_t n;

	kv.value = etcd_watch_take(ce->watch, key, &kv.len);
	n = kv.value ? etcd_text_of(&kv, key, buf, size) : -ENOENT;
	free(kv.value);
	return n;
}

/* --- records --- */

static json_t *json_compare(const char *result, const char *key)
{
	return json_pack("{s:s, s:s, s:o, s:s}", "target", "CREATE", "result", result, "key",
			 etcd_json_key(key), "create_revision", "0");
}

static json_t *json_put(const char *key, const char *text, size_t len)
{
	return json_pack("{s:{s:o, s:o}}", "request_put", "key", etcd_json_key(key), "value",
			 etcd_json_text(text, len));
}

static json_t *json_get(const char *key)
{
	return json_pack("{s:{s:o}}", "request_range", "key", etcd_json_key(key));
}

static int check_record(const char *gen, const char *kind, const char *text, size_t len)
{
	return coord_gen_ok(gen) && coord_kind_ok(kind) && len <= COORD_TEXT_MAX &&
			       !memchr(text, '\0', len)
		       ? 0
		       : -EINVAL;
}

static bool is_first(const char *text, size_t len, const char *first, size_t first_len)
{
	return first_len == len && !memcmp(first, text, len);
}

/* Puts the record if it does not exist, else reads the one that stands. */
static int etcd_record(void *arg, const struct caller *owner, const char *gen, const char *kind,
		       const char *text, size_t len, char *first, size_t *first_len)
{
	struct coord_etcd *ce = arg;
	char key[ETCD_KEY_MAX];
	struct etcd_answer a;
	ssize_t n = check_record(gen, kind, text, len);

	if (n)
		return (int)n;
	record_key(ce, key, owner->uid, gen, kind);
	n = etcd_ask(ce->etcd, "kv/txn",
		     json_pack("{s:[o], s:[o], s:[o]}", "compare", json_compare("EQUAL", key),
			       "success", json_put(key, text, len), "failure", json_get(key)),
		     ETCD_TXN, ETCD_OK, NOBODY, &a);
	if (!n && a.succeeded)
		n = 1;
	else if (!n) {
		n = etcd_text_in(&a, key, first, COORD_TEXT_MAX);
		*first_len = n < 0 ? 0 : (size_t)n;
		if (n >= 0)
			n = is_first(text, len, first, *first_len);
	}
	etcd_answer_finish(&a);
	return n == -ENOENT ? -EIO : (int)n;
}

static const struct etcd_kv *kv_of(const struct etcd_answer *a, const char *key)
{
	size_t i;

	for (i = 0; i < a->nr_kvs; i++)
		if (!strcmp(a->kvs[i].key, key))
			return &a->kvs[i];
	return NULL;
}

/* Why the transaction did not hold, as coord_ops.record_open returns it. */
static int judge_open(const struct etcd_answer *a, const char *open, const char *key,
		      const char *text, size_t len, const char *also_key, const char *also,
		      char *first, size_t *first_len)
{
	const struct etcd_kv *kv = kv_of(a, key), *also_kv = also ? kv_of(a, also_key) : NULL;
	ssize_t n;

	if (!kv_of(a, open))
		return -ESTALE;
	if (!kv)
		return also_kv ? -EAGAIN : -EIO;
	n = etcd_text_of(kv, key, first, COORD_TEXT_MAX);
	*first_len = n < 0 ? 0 : (size_t)n;
	if (n < 0)
		return (int)n;
	if (!is_first(text, len, first, *first_len))
		return 0;
	return !also || (also_kv && is_first(also, strlen(also), also_kv->value, also_kv->len))
		       ? 1
		       : -EAGAIN;
}

static int etcd_record_open(void *arg, const struct caller *owner, const char *gen,
			    const char *kind, const char *text, size_t len,
			    const struct coord_record *also, char *first, size_t *first_len)
{
	struct coord_etcd *ce = arg;
	char key[ETCD_KEY_MAX], open[ETCD_KEY_MAX], also_key[ETCD_KEY_MAX];
	struct etcd_answer a;
	json_t *txn;
	int r = check_record(gen, kind, text, len);

	if (!r && also)
		r = check_record(gen, also->kind, also->text, strlen(also->text));
	if (r)
		return r;
	record_key(ce, key, owner->uid, gen, kind);
	record_key(ce, open, owner->uid, gen, COORD_OPEN);
	txn = json_pack("{s:[o, o], s:[o], s:[o, o]}", "compare", json_compare("NOT_EQUAL", open),
			json_compare("EQUAL", key), "success", json_put(key, text, len), "failure",
			json_get(open), json_get(key));
	if (also) {
		record_key(ce, also_key, owner->uid, gen, also->kind);
		if (json_array_append_new(json_object_get(txn, "compare"),
					  json_compare("EQUAL", also_key)) ||
		    json_array_append_new(json_object_get(txn, "success"),
					  json_put(also_key, also->text, strlen(also->text))) ||
		    json_array_append_new(json_object_get(txn, "failure"), json_get(also_key))) {
			json_decref(txn);
			txn = NULL;
		}
	}
	r = etcd_ask(ce->etcd, "kv/txn", txn, ETCD_TXN, ETCD_OK, NOBODY, &a);
	if (!r)
		r = a.succeeded ? 1
				: judge_open(&a, open, key, text, len, also_key,
					     also ? also->text : NULL, first, first_len);
	etcd_answer_finish(&a);
	return r;
}

static ssize_t etcd_read(void *arg, uid_t owner, const char *gen, const char *kind, char *buf,
			 size_t size)
{
	struct coord_etcd *ce = arg;
	char key[ETCD_KEY_MAX];
	bool seen;
	ssize_t n;

	if (!coord_gen_ok(gen) || !coord_kind_ok(kind))
		return -EINVAL;
	record_key(ce, key, owner, gen, kind);
	n = take_key(ce, key, buf, size);
	if (n != -ENOENT)
		return n;
	seen = etcd_watch_has(ce->watch, key);
	n = etcd_read_key(ce, key, buf, size);
	if (n == -ENOENT && seen)
		etcd_watch_gone(ce->watch, key);
	return n;
}

static int delete (struct coord_etcd *ce, const char *key, json_t *range)
{
	struct etcd_answer a;
	int err = etcd_ask(ce->etcd, "kv/deleterange", range, ETCD_RANGE, ETCD_OK, NOBODY, &a);

	etcd_watch_forget(ce->watch, key);
	etcd_answer_finish(&a);
	return err;
}

/* Removes all at once, so that no node sees some of them without the decision. */
static int etcd_forget(void *arg, const struct caller *owner, const char *gen)
{
	struct coord_etcd *ce = arg;
	char key[ETCD_KEY_MAX];

	if (!coord_gen_ok(gen))
		return -EINVAL;
	record_key(ce, key, owner->uid, gen, "");
	return delete (ce, key, etcd_json_below(key));
}

static int etcd_remove(void *arg, const struct caller *owner, const char *gen, const char *kind)
{
	struct coord_etcd *ce = arg;
	char key[ETCD_KEY_MAX];

	if (!coord_gen_ok(gen) || !coord_kind_ok(kind))
		return -EINVAL;
	record_key(ce, key, owner->uid, gen, kind);
	return delete (ce, key, json_pack("{s:o}", "key", etcd_json_key(key)));
}

/* --- waiting --- */

/* A log is watched as a whole: its entries are awaited one after the other. */
static void to_await(const struct coord_etcd *ce, const struct coord_key *key,
		     struct etcd_awaited *w)
{
	record_key(ce, w->key, key->owner, key->gen, key->kind);
	memcpy(w->range, w->key, sizeof(w->range));
	if (coord_is_log(key->kind))
		strrchr(w->range, '.')[1] = '\0';
}

static int etcd_wait(void *arg, struct coord_key *keys, size_t nr, int wake, uint64_t deadline_ns)
{
	struct coord_etcd *ce = arg;
	__cleanup_free struct etcd_awaited *awaited = calloc(nr + 1, sizeof(*awaited));
	size_t i;
	int r;

	for (i = 0; i < nr; i++)
		if (!coord_gen_ok(keys[i].gen) || !coord_kind_ok(keys[i].kind))
			return -EINVAL;
	if (!awaited)
		return -ENOMEM;
	for (i = 0; i < nr; i++)
		to_await(ce, &keys[i], &awaited[i]);
	r = etcd_watch_wait(ce->watch, awaited, nr, wake, deadline_ns);
	for (i = 0; i < nr; i++)
		keys[i].there = awaited[i].there;
	return r;
}

const struct coord_ops coord_etcd_ops = {
	.record = etcd_record,
	.record_open = etcd_record_open,
	.read = etcd_read,
	.forget = etcd_forget,
	.remove = etcd_remove,
	.list = etcd_list,
	.wait = etcd_wait,
	.lease = etcd_lease,
	.lease_read = etcd_lease_read,
	.lease_is_sure = true,
	.lease_end = etcd_lease_end,
	.lease_list = etcd_lease_list,
};

/* --- open and close --- */

/* Reads a key that does not exist, and removes it: etcd checks whether that is allowed. */
static int try_out(struct coord_etcd *ce, struct error *e)
{
	char key[ETCD_KEY_MAX];
	struct etcd_answer a;
	int err;

	snprintf(key, sizeof(key), "%snodes/none", ce->prefix);
	err = etcd_ask(ce->etcd, "kv/txn",
		       json_pack("{s:[{s:{s:o}}, {s:{s:o}}]}", "success", "request_range", "key",
				 etcd_json_key(key), "request_delete_range", "key",
				 etcd_json_key(key)),
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

	if (!err && !curl_library())
		err = FAIL(e, ELIBACC, CURL_MISSING, curl_missing());
	if (!err && c)
		c->etcd = etcd_create(&config);
	if (!err && c && c->etcd)
		c->watch = etcd_watch_create(c->etcd);
	if (!err && (!c || !c->watch))
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
	etcd_watch_destroy(ce->watch);
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
