/* SPDX-License-Identifier: MIT */
/* The process that serves one mount. */
#ifndef FS_DAEMON_H
#define FS_DAEMON_H

#include "engine/engine.h"

struct daemon_options {
	struct config *config; /* taken over */
	const char *backing;
	const char *mountpoint; /* resolved */
	bool foreground;
	/* Called once, when the mount answers. */
	void (*ready)(void *arg);
	/*
	 * Called, often, before that while another node is waited for; NULL: nobody wants to know.
	 */
	void (*waits)(void *arg);
	void *arg;
};

/*
 * Mounts and serves until unmounted. Returns 0 when it ended as asked, or -errno with @e filled
 * when the mount never came to be. Does not return at all where a thread is still held by the
 * backing: then the process ends.
 */
int daemon_run(const struct daemon_options *o, struct error *e);

#endif
