/* SPDX-License-Identifier: MIT */
/*
 * How the descriptor of an arena reaches the process that asked for it: over a unix socket that is
 * bound in the control directory of our own mount, so that it is found wherever that is mounted,
 * and by no other way. It takes one connection and is gone: a socket that stays would make a plain
 * umount fail.
 */
#ifndef ENGINE_CAPTURE_HANDOVER_H
#define ENGINE_CAPTURE_HANDOVER_H

#include <sys/types.h>

/*
 * Binds @name in the directory @path, which must be on device @dev. A descriptor, or -errno. Not
 * for a thread that serves requests: binding is one.
 */
int handover_listen(const char *path, dev_t dev, const char *name);

/*
 * Waits up to @wait_ms for a process of @uid, turning others away, and gives it @fd. A pidfd of
 * that process, and its id in *@pid (0: of another pid namespace); -ETIMEDOUT; -errno.
 */
int handover_give(int listening, uid_t uid, int fd, int wait_ms, pid_t *pid);

#endif
