/* SPDX-License-Identifier: MIT */
/*
 * How verbs speak with the daemon: one line of JSON there, one line back, over the unix socket of
 * rundir.h. It never goes through the mount, so it answers while the mount hangs; each connection
 * has its own thread, none of which touches the backing.
 *
 *	{"verb": "status"}	-> what status.json says
 *	{"verb": "failures"}	-> {"failures": [...]}, as failures.json
 *	{"verb": "config"}	-> as config.json
 *	{"verb": "umount", "limit_ms": N}
 *				-> {"ok": true, "failed": BOOL, "last_failure": TEXT}, then the
 *				   connection ends when the daemon has; failed: while it was asked
 *				   to, a file could not be saved
 *	{"verb": "drain", ...}	-> see control_drain.h
 *	{"verb": "file", "path": P, "generation": ID or absent}
 *				-> see control_file.h; alone among these, it touches the backing
 * Any of them may be answered {"error": ERRNO_NAME, "message": TEXT}.
 */
#ifndef FS_CONTROL_SOCKET_H
#define FS_CONTROL_SOCKET_H

#include <jansson.h>

#include "fs/fs.h"
#include "fs/mountinfo.h"

/*
 * The daemon's side. @listen_fd is taken over, also on failure; @umount unmounts, 0 or -errno with
 * @e filled. NULL if there is no memory or thread for it.
 */
struct control;
struct control *control_start(struct fs *fs, int listen_fd,
			      int (*umount)(struct fs *fs, struct error *e));
/* Takes no more requests, and waits until those in progress are answered. */
void control_finish(struct control *c);

/* For an answer that needs nothing but the daemon: of the two seconds that a verb may take. */
#define CONTROL_ASK_MS 1500
/* For what is done by asking, whose answer must not be lost. */
#define CONTROL_DO_MS 30000

/*
 * The verb's side: asks the daemon of @m and waits up to @limit_ms for its answer. Returns 0 and
 * the answer (owned by the caller), or -errno with @e filled: ECONNREFUSED there is no daemon,
 * ETIMEDOUT it does not answer, else what it refused the request with. *pid (may be NULL) is the
 * daemon's. *keep (may be NULL) receives the connection, to wait for its end.
 */
int control_ask(const struct mount_entry *m, const char *verb, int limit_ms, json_t **answer,
		int *pid, int *keep, struct error *e);

/* The same with more in the request than a verb; @request is taken over. */
int control_request(const struct mount_entry *m, json_t *request, int limit_ms, json_t **answer,
		    int *pid, int *keep, struct error *e);

#endif
