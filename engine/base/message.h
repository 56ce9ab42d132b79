/* SPDX-License-Identifier: MIT */
/*
 * Messages, and the errors that carry them.
 *
 * A function whose failures deserve a text takes a `struct error *` and returns FAIL(e, err, ID,
 * args...), which is -err. The failing leaf makes the text once; callers pass the error on
 * untouched.
 */
#ifndef ENGINE_BASE_MESSAGE_H
#define ENGINE_BASE_MESSAGE_H

#include <stddef.h>

#include "engine/base/messages.h"

#define MESSAGE_MAX 2048

struct error {
	int err; /* positive errno; 0: nothing failed */
	char text[MESSAGE_MAX];
};

/*
 * Formats message @id into @buf (of @size bytes, always terminated). If the environment variable
 * CKPTFS_MESSAGE_LOG names a file, the id is appended to that file, so that the tests know which
 * messages were provoked.
 */
void message_format(char *buf, size_t size, const char *id, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

#define MESSAGE(buf, ID, ...) \
	message_format(buf, sizeof(buf), #ID, MSG_##ID __VA_OPT__(, ) __VA_ARGS__)

/* Fills @e and evaluates to -(errnum). */
#define FAIL(e, errnum, ID, ...) \
	({ \
		struct error *fail_e_ = (e); \
		fail_e_->err = (errnum); \
		MESSAGE(fail_e_->text, ID, __VA_ARGS__); \
		-fail_e_->err; \
	})

#endif
