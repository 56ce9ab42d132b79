/* SPDX-License-Identifier: MIT */
#include "engine/redo/unit_header.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"

struct read_unit {
	struct backing *b;
	int fd;
};

static ssize_t read_at(void *read_unit, void *buf, size_t len, uint64_t off)
{
	struct read_unit *u = read_unit;

	return backing_read(u->b, u->fd, buf, len, (off_t)off);
}

int unit_header(struct backing *b, int unit, struct commit_header *h)
{
	__cleanup_fd int pin = -1, fd = -1;
	struct read_unit u = {.b = b};
	struct source src = {.read = read_at, .arg = &u};
	struct statx stx;
	struct error e;
	int err;

	pin = backing_pin(b, unit, COMMIT_FILE);
	err = pin < 0 ? pin : backing_stat(b, pin, &stx);
	if (!err && !S_ISREG(stx.stx_mode))
		err = -EBADMSG;
	fd = err ? err : backing_reopen(b, pin, O_RDONLY);
	if (fd < 0)
		return fd;
	u.fd = fd;
	return commit_read_header(&src, COMMIT_FILE, h, &e);
}

int unit_generation(struct backing *b, int unit, char generation[COMMIT_HEX])
{
	__cleanup_free struct commit_header *h = malloc(sizeof(*h));
	int err = h ? unit_header(b, unit, h) : -ENOMEM;

	generation[0] = '\0';
	if (!err)
		memcpy(generation, h->generation, COMMIT_HEX);
	return err;
}
