/* SPDX-License-Identifier: MIT */
/*
 * The run directory: one unix socket for each live mount, named after the mount's device number
 * ("0-52.sock": verbs find it from mountinfo, wherever the mount is bound to), and one lock file
 * for each node label in use. $CKPTFS_RUN_DIR, else /run/ckptfs for root, else
 * $XDG_RUNTIME_DIR/ckptfs, else /tmp/ckptfs-UID.
 */
#ifndef FS_RUNDIR_H
#define FS_RUNDIR_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>
#include <sys/un.h>

#include "engine/base/message.h"

#define RUNDIR_PATH_MAX (PATH_MAX - 320) /* leaves room for a file name */

/* Makes this user's run directory if missing, refuses one that others could tamper with. */
int rundir_make(char out[RUNDIR_PATH_MAX], struct error *e);

/*
 * Takes a node label: @wanted, or the host name with -2, -3, ... behind it as needed. The label
 * is held until *lock_fd is closed (by whatever death of the process). 0 or -errno, @e filled.
 */
int rundir_take_label(const char *dir, const char *wanted, char label[128], int *lock_fd,
		      struct error *e);
void rundir_drop_label(const char *dir, const char *label, int lock_fd);

/*
 * Listens for the mount with that device number; removes sockets that dead daemons left. *@ino: the
 * socket's, for rundir_unlisten: when the mount has gone the number, and the name, may be
 * another's.
 */
int rundir_listen(const char *dir, unsigned major, unsigned minor, ino_t *ino, struct error *e);
void rundir_unlisten(const char *dir, unsigned major, unsigned minor, ino_t ino);

/*
 * Connects to the daemon of a mount that user @owner made. Returns the socket or -errno:
 * ECONNREFUSED or ENOENT when no daemon listens.
 */
int rundir_connect(uid_t owner, unsigned major, unsigned minor);

#endif
