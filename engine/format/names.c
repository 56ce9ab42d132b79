/* SPDX-License-Identifier: MIT */
#include "engine/format/names.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#define VOTE_PREFIX	  STAGING_PREFIX "vote-"
#define COMMIT_OWN_PREFIX STAGING_PREFIX "commit-"

static bool begins(const char *name, const char *prefix)
{
	return !strncmp(name, prefix, strlen(prefix));
}

bool commit_is_hex(const char *text)
{
	return strlen(text) == COMMIT_HEX - 1 && strspn(text, "0123456789abcdef") == COMMIT_HEX - 1;
}

bool name_is_reserved(const char *name)
{
	return begins(name, STAGING_PREFIX);
}

void staging_name(char name[STAGING_MAX], const char *id)
{
	snprintf(name, STAGING_MAX, STAGING_PREFIX "%s", id);
}

int staging_new(char name[STAGING_MAX])
{
	unsigned char bytes[(COMMIT_HEX - 1) / 2];
	char id[COMMIT_HEX];
	size_t i;

	if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
		return -EIO;
	for (i = 0; i < sizeof(bytes); i++)
		snprintf(id + 2 * i, 3, "%02x", bytes[i]);
	staging_name(name, id);
	return 0;
}

const char *staging_id(const char *staging)
{
	return staging + strlen(STAGING_PREFIX);
}

bool name_is_staging(const char *name)
{
	return name_is_reserved(name) && commit_is_hex(staging_id(name));
}

void trash_name(char name[TRASH_MAX], const char *id)
{
	snprintf(name, TRASH_MAX, TRASH_PREFIX "%s", id);
}

bool name_is_trash(const char *name)
{
	return begins(name, TRASH_PREFIX) && name[strlen(TRASH_PREFIX)];
}

void vote_name(char name[STAGING_MAX], uint32_t slot)
{
	snprintf(name, STAGING_MAX, VOTE_PREFIX "%u", slot);
}

void own_commit_name(char name[STAGING_MAX], const char *node)
{
	snprintf(name, STAGING_MAX, COMMIT_OWN_PREFIX "%s", node);
}

bool name_is_of_agreement(const char *name)
{
	return begins(name, VOTE_PREFIX) || begins(name, COMMIT_OWN_PREFIX);
}
