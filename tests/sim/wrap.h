/* SPDX-License-Identifier: MIT */
/*
 * What fakes of the outside world share with wrap.c: eventfds that can be waited for beside
 * something else.
 */
#ifndef TESTS_SIM_WRAP_H
#define TESTS_SIM_WRAP_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

/* True if @p has an event. */
bool wrap_poll_now(struct pollfd *p);
/* Until some eventfd is written, or wrap_wake_polls. */
void wrap_wait_poll(uint64_t until_ns);
void wrap_wake_polls(void);

/* The host of @node is gone: its descriptors stay open here, but lock nothing. */
void wrap_drop_locks(unsigned node);

#endif
