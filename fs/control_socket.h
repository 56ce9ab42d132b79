/* SPDX-License-Identifier: MIT */
/*
 * How verbs talk to the daemon: one line of JSON each way, over the unix socket of rundir.h.
 * Nothing goes through the mount, so the daemon answers while the mount hangs. Each connection has
 * its own thread; the lock of struct control guards the list of connections, and is not held while
 * a request is served.
 *
 *	{"verb": "status"}	-> what status.json says
 *	{"verb": "failures"}	-> {"failures": [...]}, as failures.json
 *	{"verb": "config"}	-> as config.json
 *	{"verb": "umount", "limit_ms": N}
 *				-> {"ok": true, "left": [TEXT], "failed": BOOL,
 *				   "last_failure": TEXT}. The connection ends when the daemon has
 *				   ended. left: checkpoints left uncommitted; failed: meanwhile a
 *				   file could not be saved
 *	{"verb": "drain", ...}	-> see control_drain.h
 *	{"verb": "file", "path": P, "generation": ID or absent}
 *				-> see control_file.h; touches the backing
 *	{"verb": "commit", "path": P, "abandon": BOOL}
 *				-> see control_file.h; touches the backing
 * The answer to each may be {"error": ERRNO_NAME, "message": TEXT}.
 */
#ifndef FS_CONTROL_SOCKET_H
#define FS_CONTROL_SOCKET_H

#include <jansson.h>

#include "fs/fs.h"
#include "fs/mountinfo.h"

/*
 * The daemon's side. Takes over @listen_fd, also on failure. @umount unmounts: 0 or -errno with @e
 * filled. NULL: no memory or no thread.
 */
struct control;
struct control *control_start(struct fs *fs, int listen_fd,
			      int (*umount)(struct fs *fs, struct error *e));
/* Takes no more requests, and waits until those in progress are answered. */
void control_finish(struct control *c);

/* For an answer of the daemon alone, of a verb's 2 s. Too short: a busy daemon seems silent. */
#define CONTROL_ASK_MS 1500
/* For a request with an effect. Too short: the verb loses the answer, and reports a failure. */
#define CONTROL_DO_MS 30000

/*
 * The verb's side: asks the daemon of @m and waits up to @limit_ms. 0 and the answer (owned by the
 * caller), or -errno with @e filled. -ECONNREFUSED: no daemon. -ENXIO: its daemon cannot be reached
 * from here. -ETIMEDOUT: no answer. Else the error with which the daemon refused. *pid (may be
 * NULL): the daemon's. *keep (may be NULL): the connection, so that the caller can wait for its
 * end.
 */
int control_ask(const struct mount_entry *m, const char *verb, int limit_ms, json_t **answer,
		int *pid, int *keep, struct error *e);

/* As control_ask, for a whole request; takes over @request. */
int control_request(const struct mount_entry *m, json_t *request, int limit_ms, json_t **answer,
		    int *pid, int *keep, struct error *e);

#endif
