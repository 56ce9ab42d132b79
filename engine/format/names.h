/* SPDX-License-Identifier: MIT */
/*
 * The names that ckptfs keeps for itself among the files of users (ckptfs-format(5)). Only this
 * module composes them and takes them apart:
 *
 *	.ckptfs-9bc4c03b35e5828fe4b49aa7cefefdb2         staging: the id of a save, its generation
 *	.ckptfs-trash-9bc4c03b35e5828fe4b49aa7cefefdb2   trash: what that save has replaced
 *	.ckptfs-vote-17                                  in staging: the list of the node in slot 17
 *	.ckptfs-commit-NODE                              in staging: the commit file of an heir
 *	.ckptfs-index.json                               the index of a committed checkpoint
 *
 * commit.h has the names of commit files. No state and no lock.
 */
#ifndef ENGINE_FORMAT_NAMES_H
#define ENGINE_FORMAT_NAMES_H

#include <stdbool.h>
#include <stdint.h>

/* An id or a digest: 32 digits, 0-9a-f, and the NUL. */
#define COMMIT_HEX 33
bool commit_is_hex(const char *text);

#define STAGING_PREFIX ".ckptfs-"
#define TRASH_PREFIX   STAGING_PREFIX "trash-"
#define INDEX_FILE     STAGING_PREFIX "index.json"

/* The sizes of these names, with the NUL. */
#define STAGING_MAX 48
#define TRASH_MAX   (STAGING_MAX + 8)

/* True if ckptfs keeps @name, or the path that begins with it, for itself; the mount hides it. */
bool name_is_reserved(const char *name);

void staging_name(char name[STAGING_MAX], const char *id);

/* A staging name that was never used. 0 or -EIO. */
int staging_new(char name[STAGING_MAX]);

/* The id in @staging, which is a staging name. */
const char *staging_id(const char *staging);

/* True for a prefix and an id. */
bool name_is_staging(const char *name);

void trash_name(char name[TRASH_MAX], const char *id);
bool name_is_trash(const char *name);

void vote_name(char name[STAGING_MAX], uint32_t slot);
void own_commit_name(char name[STAGING_MAX], const char *node);

/* True for the names of the two functions above, by which nodes agree on a commit. */
bool name_is_of_agreement(const char *name);

#endif
