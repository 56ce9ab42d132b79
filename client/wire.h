/* SPDX-License-Identifier: MIT */
/*
 * All calls of the library to the daemon pass here, so that a test can stand in for it. Unlike the
 * system calls, these return 0 (or a descriptor) or -errno.
 */
#ifndef CLIENT_WIRE_H
#define CLIENT_WIRE_H

#include <stdbool.h>

#include "client/ckptfs_abi.h"

struct ckpt_wire {
	/* May wait; for CKPTFS_IOC_NEXT as long as that says. -EINTR: nothing has happened. */
	int (*ioctl)(int fd, unsigned long request, void *arg);
	/* True if @fd lies in a mount of ckptfs. */
	bool (*is_ckptfs)(int fd);
};

extern const struct ckpt_wire *ckpt_wire;

/* The descriptor that the daemon gives to a process that connects to the socket @name in @dir. */
int ckpt_wire_receive(int dir, const char *name);

#endif
