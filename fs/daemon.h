/* SPDX-License-Identifier: MIT */
/*
 * The process that serves one mount: starts the engine, mounts, serves the kernel and verbs until
 * the unmount, drains, and stops all of that. daemon_run is called once, before the process has
 * other threads; signals get a thread of their own.
 */
#ifndef FS_DAEMON_H
#define FS_DAEMON_H

#include <stdbool.h>

struct config;
struct error;

struct daemon_options {
	struct config *config; /* taken over */
	const char *backing;
	const char *mountpoint; /* resolved */
	bool foreground;
	/* Called once, when the mount answers. */
	void (*ready)(void *arg);
	/* Called often before that, while the mount waits for another node; may be NULL. */
	void (*waits)(void *arg);
	void *arg;
};

/*
 * Mounts, and serves until the unmount. 0: it ended as asked. -errno with @e filled: the mount
 * never answered. Does not return if a thread still hangs in the backing: then the process exits.
 */
int daemon_run(const struct daemon_options *o, struct error *e);

#endif
