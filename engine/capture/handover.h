/* SPDX-License-Identifier: MIT */
/*
 * How the descriptor of lent memory reaches the process that asked for it: over a unix socket bound
 * in the control directory of our own mount. So the process finds it wherever that is mounted, and
 * there is no other way to it. The socket takes one connection and is gone: a socket that stays
 * would make a plain umount fail.
 */
#ifndef ENGINE_CAPTURE_HANDOVER_H
#define ENGINE_CAPTURE_HANDOVER_H

#include <sys/types.h>

/*
 * Binds @name in the directory @path, which must be on device @dev. A descriptor, or -errno. A
 * thread that serves requests must not call it: binding is a request.
 */
int handover_listen(const char *path, dev_t dev, const char *name);

/*
 * Waits up to @wait_ms for a process of @uid, refuses others, and gives it @fd. Returns a pidfd of
 * that process, with its id in *@pid (0: another pid namespace); -ETIMEDOUT or another -errno.
 */
int handover_give(int listening, uid_t uid, int fd, int wait_ms, pid_t *pid);

#endif
