/* SPDX-License-Identifier: MIT */
/*
 * What went wrong since the mount: the newest FAILURES_KEPT entries, equal ones counted together.
 * Thread-safe. Shown by the control file failures.json and by `ckptfs status`. A second list of
 * this kind holds notices: what was accepted though nothing protects it.
 */
#ifndef ENGINE_METRICS_FAILURES_H
#define ENGINE_METRICS_FAILURES_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define FAILURES_KEPT 256

struct failures;

struct failures *failures_create(void); /* NULL: no memory */
void failures_destroy(struct failures *f);

/*
 * Records that @op on @path, asked for by @uid, failed with @err (positive errno), as @message
 * says, and logs it. A failure with the uid, op, path and err of one that is still kept only raises
 * its count, so a program that retries in a loop does not push out the rest.
 */
void failures_add(struct failures *f, uid_t uid, const char *op, const char *path, int err,
		  const char *message);

/*
 * Records a notice: @op is its kind, @path the directory that it is about. It is logged once for
 * each uid, kind and directory that is still kept.
 */
void failures_notice(struct failures *f, uid_t uid, const char *op, const char *path,
		     const char *message);

/* True if such a notice is kept already: then its message need not be made. */
bool failures_noticed(struct failures *f, uid_t uid, const char *op, const char *path);

/* A request begins on this thread: nothing of it is explained yet. */
void failures_begin(void);

/*
 * Has this thread recorded a failure with @err since then? Then whoever answers with it need not.
 */
bool failures_explained(int err);

/* How many were ever added. */
uint64_t failures_total(struct failures *f);

/*
 * [{time_ns, last_ns, count, uid, op, path, errno, message}], oldest first; owned by the caller.
 * Unless @all, paths and messages that concern other users than @viewer are left out.
 */
json_t *failures_to_json(struct failures *f, uid_t viewer, bool all);

#endif
