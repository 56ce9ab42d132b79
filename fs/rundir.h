/* SPDX-License-Identifier: MIT */
/*
 * The run directory: a unix socket for each live mount, named after the mount's device number
 * ("0-52.sock": verbs find it from mountinfo, wherever the mount is bound to), and a lock file for
 * each node label in use. It is $CKPTFS_RUN_DIR, else /run/ckptfs for root, else
 * $XDG_RUNTIME_DIR/ckptfs, else /tmp/ckptfs-UID. A verb tries all of these, and
 * /run/user/UID/ckptfs. Has no lock in memory.
 */
#ifndef FS_RUNDIR_H
#define FS_RUNDIR_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>
#include <sys/un.h>

#include "engine/base/message.h"

#define RUNDIR_PATH_MAX (PATH_MAX - 320) /* leaves room for a file name */

/* Makes this user's run directory if missing. Refuses one that other users could tamper with. */
int rundir_make(char out[RUNDIR_PATH_MAX], struct error *e);

/*
 * Takes a node label: @wanted, or the host name, followed by -2, -3, ... as needed. The label is
 * held until *lock_fd is closed, by whatever end of the process. 0 or -errno, @e filled.
 */
int rundir_take_label(const char *dir, const char *wanted, char label[128], int *lock_fd,
		      struct error *e);
void rundir_drop_label(const char *dir, const char *label, int lock_fd);

/*
 * Removes sockets that dead daemons left, and listens for the mount with that device number. The
 * socket, or -errno with @e filled. *@ino: its inode, for rundir_unlisten: once the mount is gone,
 * the number, and with it the name, may be another mount's.
 */
int rundir_listen(const char *dir, unsigned major, unsigned minor, ino_t *ino, struct error *e);
void rundir_unlisten(const char *dir, unsigned major, unsigned minor, ino_t ino);

/*
 * Connects to the daemon of a mount that user @owner made. The socket or -errno. -ECONNREFUSED,
 * -ENOENT: no daemon listens. -ETIMEDOUT: it does not answer.
 */
int rundir_connect(uid_t owner, unsigned major, unsigned minor);

#endif
