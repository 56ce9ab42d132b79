/* SPDX-License-Identifier: MIT */
/* Shared by the files of the coordination by a directory (coord_dir.c). */
#ifndef ENGINE_COORD_DIR_INSIDE_H
#define ENGINE_COORD_DIR_INSIDE_H

#include "engine/backing/backing.h"
#include "engine/coord/coord.h"
#include "engine/format/format.h"

#define DIR_NOGROUP	  65534 /* a user needs no group to read its own files */
#define DIR_TMP_DIGITS	  16	/* and a dot, behind the name of a record that is being made */
#define DIR_TMP_NAME_SIZE (COORD_NAME_MAX + DIR_TMP_DIGITS + 1)

/* --- dir_open.c --- */

/* Warns that @name, in txn/@owner, is not believed ("": the directory itself). Returns -EPERM. */
__attribute__((format(printf, 4, 5))) int dir_distrust(const struct backing *b, uid_t owner,
						       const char *name, const char *fmt, ...);

/*
 * Opens BACKING/.ckptfs/@name for listing and syncing. Each look opens the directory anew: a client
 * that caches names then asks whether they are still true.
 */
int dir_open(struct backing *b, const char *name);

/* Opens txn/@owner, if it is believed; else -EPERM, and a warning unless @quiet. */
int dir_open_owner(struct backing *b, uid_t owner, bool quiet);
/* The same in @txn, which is open. */
int dir_open_owner_in(struct backing *b, int txn, uid_t owner, bool quiet);

/* --- dir_list.c --- */

/* Calls @seen with each name in @dir, until it returns anything but 0. */
int dir_each_name(struct backing *b, int dir, int (*seen)(void *arg, const char *name), void *arg);

/* The length of a record's name before its dot and random digits; 0: it has none. */
size_t dir_before_random(const char *name);

/* coord_ops.forget and .list */
int dir_forget(void *arg, const struct caller *owner, const char *gen);
int dir_list(void *arg, int (*found)(void *arg, uid_t owner, const char *gen), void *found_arg);

/* --- dir_wait.c, dir_lease.c: coord_ops.wait and the lease functions --- */

int dir_wait(void *arg, struct coord_key *keys, size_t nr, int wake, uint64_t deadline_ns);
int dir_lease(void *arg, const char *node, const char *text, size_t len);
ssize_t dir_lease_read(void *arg, const char *node, char *buf, size_t size);
int dir_lease_end(void *arg, const char *node);
int dir_lease_list(void *arg, int (*found)(void *arg, const char *node), void *found_arg);

#endif
