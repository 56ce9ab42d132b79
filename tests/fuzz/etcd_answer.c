/* SPDX-License-Identifier: MIT */
/*
 * Whatever etcd answers, to the request that the first byte says, is refused, or taken with all
 * that it must have.
 */
#include "tests/fuzz/fuzz.h"

#include "engine/coord/etcd_answer.h"

static void check(const struct etcd_answer *a, enum etcd_kind kind)
{
	size_t i;

	REQUIRE(a->code >= 0 && strlen(a->error) < sizeof(a->error));
	REQUIRE(!!a->code == !!*a->error);
	if (a->code) {
		REQUIRE(!a->nr_kvs && !a->kvs && !a->token);
		return;
	}
	REQUIRE(a->cluster && a->ttl >= 0);
	REQUIRE(kind == ETCD_AUTHENTICATE ? a->token && !strpbrk(a->token, "\r\n")
					  : a->revision > 0);
	for (i = 0; i < a->nr_kvs; i++) {
		REQUIRE(*a->kvs[i].key && a->kvs[i].value);
		REQUIRE(!a->kvs[i].value[a->kvs[i].len]);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *exact = malloc(size ? size : 1); /* no terminator behind it to hide an overrun */
	enum etcd_kind kind = size ? data[0] % (ETCD_AUTHENTICATE + 1) : ETCD_RANGE;
	struct etcd_answer a;

	REQUIRE(exact);
	if (size)
		memcpy(exact, data + 1, size - 1);
	if (!etcd_answer_parse(&a, kind, exact, size ? size - 1 : 0))
		check(&a, kind);
	else
		REQUIRE(!a.nr_kvs && !a.kvs && !a.token);
	etcd_answer_finish(&a);
	free(exact);
	return 0;
}
