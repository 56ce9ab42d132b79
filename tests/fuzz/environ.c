/* SPDX-License-Identifier: MIT */
/* Whatever a process has in its environment, rank and world make sense, and the key is a key. */
#include "tests/fuzz/fuzz.h"

#include "engine/liveness/job.h"

#define BOOT_ID "01234567-89ab-4def-8123-456789abcdef"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *exact = malloc(size ? size : 1); /* no terminator behind it to hide an overrun */
	struct process p, again;
	size_t len;

	REQUIRE(exact);
	memcpy(exact, data, size);
	memset(&p, 0x55, sizeof(p));
	memset(&again, 0xaa, sizeof(again));
	job_parse(exact, size, 1000, 7, BOOT_ID, &p);
	job_parse(exact, size, 1000, 7, BOOT_ID, &again);
	REQUIRE(p.rank >= -1 && p.world >= 0);
	REQUIRE(p.rank < p.world || !p.world);
	REQUIRE(p.rank >= 0 || !p.world);
	len = strnlen(p.key, sizeof(p.key));
	REQUIRE(len < sizeof(p.key) - 1); /* nothing was cut */
	REQUIRE(!strncmp(p.key, "1000/", 5));
	REQUIRE(strspn(p.key,
		       "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.:[]%@/") ==
		len);
	REQUIRE(p.weak == !strcmp(p.key, "1000/session/7@" BOOT_ID));
	REQUIRE(p.rank == again.rank && p.world == again.world && p.weak == again.weak);
	REQUIRE(!strcmp(p.key, again.key));
	free(exact);
	return 0;
}
