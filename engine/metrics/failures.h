/* SPDX-License-Identifier: MIT */
/*
 * The failures since the mount: the newest FAILURES_KEPT entries, equal ones counted together.
 * Thread-safe (LOCK_FAILURES). The control file failures.json and `ckptfs status` show them. A
 * second list of this kind holds notices: saves that were accepted though nothing protects them.
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
 * Records and logs that @op on @path, requested by @uid, failed with @err (positive errno);
 * @message is for people. A failure with the uid, op, path and err of a kept entry only raises its
 * count, so a program that retries in a loop does not displace the other entries.
 */
void failures_add(struct failures *f, uid_t uid, const char *op, const char *path, int err,
		  const char *message);

/*
 * Records a notice: @op is its kind, @path the directory it concerns. A notice with the uid, kind
 * and directory of a kept one is not logged again.
 */
void failures_notice(struct failures *f, uid_t uid, const char *op, const char *path,
		     const char *message);

/* True if such a notice is kept already, so that the caller need not format its message. */
bool failures_noticed(struct failures *f, uid_t uid, const char *op, const char *path);

/* Begins a request on this thread: no error of it is explained yet. */
void failures_begin(void);

/*
 * True if this thread has recorded a failure with @err in this request. The caller then need not
 * record the error that it answers with.
 */
bool failures_explained(int err);

/* How many failures were ever added. */
uint64_t failures_total(struct failures *f);

/*
 * [{time_ns, last_ns, count, uid, op, path, errno, message}], oldest first; the caller owns it.
 * Unless @all, paths and messages of users other than @viewer are left out.
 */
json_t *failures_to_json(struct failures *f, uid_t viewer, bool all);

#endif
