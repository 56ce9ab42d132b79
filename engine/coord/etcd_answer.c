/* SPDX-License-Identifier: MIT */
#include "engine/coord/etcd_answer.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/json.h"

/* --- base64 --- */

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

char *etcd_base64(const void *data, size_t len)
{
	const unsigned char *in = data;
	char *text = malloc((len + 2) / 3 * 4 + 1), *out = text;
	size_t i;

	if (!text)
		return NULL;
	for (i = 0; i < len; i += 3) {
		size_t n = len - i < 3 ? len - i : 3;
		unsigned three = (unsigned)in[i] << 16 | (n > 1 ? (unsigned)in[i + 1] << 8 : 0) |
				 (n > 2 ? in[i + 2] : 0);

		*out++ = digits[three >> 18];
		*out++ = digits[three >> 12 & 63];
		*out++ = n > 1 ? digits[three >> 6 & 63] : '=';
		*out++ = n > 2 ? digits[three & 63] : '=';
	}
	*out = '\0';
	return text;
}

/*
 * The decoded bytes, with a NUL behind them. NULL: @text is no base64 (errno EBADMSG), or there is
 * no memory.
 */
static char *unbase64(const char *text, size_t len, size_t *size)
{
	size_t pad = len && text[len - 1] == '=' ? 1 + (len > 1 && text[len - 2] == '=') : 0, i;
	char *data, *out;
	unsigned bits = 0;

	errno = EBADMSG;
	if (len % 4)
		return NULL;
	data = out = malloc(len / 4 * 3 + 1);
	if (!data)
		return NULL;
	for (i = 0; i < len - pad; i++) {
		const char *digit = text[i] ? strchr(digits, text[i]) : NULL;

		if (!digit) {
			free(data);
			errno = EBADMSG;
			return NULL;
		}
		bits = bits << 6 | (unsigned)(digit - digits);
		if (i % 4)
			*out++ = (char)(bits >> (6 - i % 4 * 2));
	}
	*out = '\0';
	*size = (size_t)(out - data);
	return data;
}

/* --- single values --- */

/* Reads a number, which the gateway writes as a text, or as a number. Missing: 0. */
static int get_number(const json_t *o, const char *key, uint64_t most, uint64_t *number)
{
	const json_t *value = json_object_get(o, key);
	const char *text = json_string_value(value);
	char *end;

	*number = 0;
	if (!value)
		return 0;
	if (json_is_integer(value) && json_integer_value(value) >= 0) {
		*number = (uint64_t)json_integer_value(value);
		return *number <= most ? 0 : -EBADMSG;
	}
	if (!text || !*text || text[strspn(text, "0123456789")])
		return -EBADMSG;
	errno = 0;
	*number = strtoull(text, &end, 10);
	return !errno && *number <= most ? 0 : -EBADMSG;
}

static int get_bool(const json_t *o, const char *key, bool *is)
{
	const json_t *value = json_object_get(o, key);

	*is = json_is_true(value);
	return !value || json_is_boolean(value) ? 0 : -EBADMSG;
}

static int get_bytes(const json_t *o, const char *key, char **data, size_t *len)
{
	const json_t *value = json_object_get(o, key);

	if (value && !json_is_string(value))
		return -EBADMSG;
	*data = unbase64(value ? json_string_value(value) : "",
			 value ? json_string_length(value) : 0, len);
	return *data ? 0 : -errno;
}

/* --- answers --- */

static int get_header(struct etcd_answer *a, const json_t *o)
{
	const json_t *header = json_object_get(o, "header");
	uint64_t revision;
	int err = get_number(header, "cluster_id", UINT64_MAX, &a->cluster);

	if (!err)
		err = get_number(header, "revision", INT64_MAX - 1, &revision);
	if (!err)
		a->revision = (int64_t)revision;
	return err ? err : a->cluster ? 0 : -EBADMSG;
}

static int add_kv(struct etcd_answer *a, const json_t *o)
{
	struct etcd_kv *kv = &a->kvs[a->nr_kvs];
	size_t len;
	int err = json_is_object(o) ? get_bytes(o, "key", &kv->key, &len) : -EBADMSG;

	if (err)
		return err;
	err = !len || strlen(kv->key) != len ? -EBADMSG
					     : get_bytes(o, "value", &kv->value, &kv->len);
	if (err)
		free(kv->key);
	else
		a->nr_kvs++;
	return err;
}

/* Adds what the list @name of @o has: each element is a key, or has one as @inside. */
static int add_kvs(struct etcd_answer *a, const json_t *o, const char *name, const char *inside)
{
	const json_t *list = json_object_get(o, name), *one;
	struct etcd_kv *more;
	size_t i;
	int err = 0;

	if (!list || (json_is_array(list) && !json_array_size(list)))
		return 0;
	if (!json_is_array(list))
		return -EBADMSG;
	more = realloc(a->kvs, (a->nr_kvs + json_array_size(list)) * sizeof(*a->kvs));
	if (!more)
		return -ENOMEM;
	a->kvs = more;
	json_array_foreach (list, i, one) {
		if (!strcmp(json_get_text(one, "type", "PUT"), "DELETE"))
			continue; /* from a watch that did not ask for deletions */
		err = err ? err : add_kv(a, inside ? json_object_get(one, inside) : one);
	}
	return err;
}

static int get_txn(struct etcd_answer *a, const json_t *o)
{
	const json_t *list = json_object_get(o, "responses"), *one;
	size_t i;
	int err = get_bool(o, "succeeded", &a->succeeded);

	if (list && !json_is_array(list))
		return -EBADMSG;
	json_array_foreach (list, i, one) {
		const json_t *range = json_object_get(one, "response_range");

		if (!err && range)
			err = add_kvs(a, range, "kvs", NULL);
	}
	return err;
}

static int get_ttl(struct etcd_answer *a, const json_t *o)
{
	uint64_t ttl;
	int err = get_number(o, "TTL", INT_MAX, &ttl);

	a->ttl = err ? 0 : (int64_t)ttl;
	return err;
}

static int get_token(struct etcd_answer *a, const json_t *o)
{
	const char *token = json_string_value(json_object_get(o, "token"));

	/* The token becomes a line of a header. */
	if (!token || !*token || strlen(token) > 4096 || strpbrk(token, "\r\n"))
		return -EBADMSG;
	a->token = strdup(token);
	return a->token ? 0 : -ENOMEM;
}

static int get_result(struct etcd_answer *a, enum etcd_kind kind, const json_t *o)
{
	int err = get_header(a, o);

	if (err)
		return err;
	if (kind == ETCD_AUTHENTICATE)
		return get_token(a, o);
	if (a->revision < 1)
		return -EBADMSG;
	switch (kind) {
	case ETCD_RANGE:
		err = add_kvs(a, o, "kvs", NULL);
		return err ? err : get_bool(o, "more", &a->more);
	case ETCD_TXN:
		return get_txn(a, o);
	case ETCD_KEEPALIVE:
		return get_ttl(a, o);
	default:
		err = get_bool(o, "canceled", &a->canceled);
		if (!err)
			err = get_bool(o, "created", &a->created);
		return err ? err : add_kvs(a, o, "events", "kv");
	}
}

/*
 * {"error": TEXT, "code": N}; in a stream {"error": {"message": TEXT, "grpc_code": N}}. From etcd
 * 3.6 on {"message": TEXT, "code": N}; in a stream {"error": {"message": TEXT, "code": N}}.
 */
static bool is_error(const json_t *o)
{
	return json_object_get(o, "error") ||
	       (json_object_get(o, "code") && json_object_get(o, "message"));
}

static int get_error(struct etcd_answer *a, const json_t *o)
{
	const json_t *error = json_object_get(o, "error");
	const json_t *inside = json_is_object(error) ? error : o;
	const char *text = json_get_text(inside, "message", json_get_text(o, "error", ""));
	json_int_t code = json_get_int(inside, "grpc_code", json_get_int(inside, "code", 0));
	char *c;

	if (code <= 0 || code > 100)
		return -EBADMSG;
	a->code = (int)code;
	strncat(a->error, *text ? text : "an error without a name", sizeof(a->error) - 1);
	for (c = a->error; *c; c++) /* the text goes into a log */
		if ((unsigned char)*c < ' ' || *c == 127)
			*c = ' ';
	return 0;
}

int etcd_answer_parse(struct etcd_answer *a, enum etcd_kind kind, const char *text, size_t len)
{
	json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL), *result = root;
	int err;

	memset(a, 0, sizeof(*a));
	if (kind == ETCD_KEEPALIVE || kind == ETCD_WATCH)
		result = json_object_get(root, "result");
	if (is_error(root))
		err = get_error(a, root);
	else
		err = json_is_object(result) ? get_result(a, kind, result) : -EBADMSG;
	json_decref(root);
	if (err)
		etcd_answer_finish(a);
	return err;
}

void etcd_answer_finish(struct etcd_answer *a)
{
	while (a->nr_kvs) {
		a->nr_kvs--;
		free(a->kvs[a->nr_kvs].key);
		free(a->kvs[a->nr_kvs].value);
	}
	free(a->kvs);
	free(a->token);
	memset(a, 0, sizeof(*a));
}
