/* SPDX-License-Identifier: MIT */
/*
 * Which version of the protocol between nodes each node has, as after an upgrade of one package
 * after the other, and what must hold then:
 *
 *  I12 one version  no node serves beside one of another version, unless one of them was disturbed
 *                   so that it may count as dead; who is refused is told which node runs another
 *                   version, and that does; in the end, with one version, all mount
 */
#ifndef TESTS_SIM_VERSIONS_H
#define TESTS_SIM_VERSIONS_H

#include <stdbool.h>

/* From its next mount on node @n has a newer version. */
void version_upgrade(unsigned n);
/* That of its next mount. */
int version_next(unsigned n);

/*
 * world.c tells: node @n begins to mount, serves, has been refused with @text, is about to end its
 * lease, or has none.
 */
void version_begins(unsigned n);
void version_serves(unsigned n);
void version_refused(unsigned n, const char *text);
void version_stops(unsigned n);
void version_gone(unsigned n);
/* Something has happened to it by which others may take it for dead. */
void version_disturbed(unsigned n);

/* True if the last mount of it was refused. */
bool version_is_refused(unsigned n);

/* All nodes get the version of those that run, or the newest. False: nodes of two versions run. */
bool versions_align(void);

#endif
