/* SPDX-License-Identifier: MIT */
/* Opening and closing slots, and what is done to an open file as a whole. */
#include "randops.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

static void slot_close(struct slot *slot, struct result *r)
{
	if (slot->fd < 0)
		return;
	result_ret(r, close(slot->fd));
	slot->fd = -1;
	result_field(r, "closed", 1);
}

static void slot_open(struct side *s, const struct op *op, struct result *r)
{
	struct slot *slot = &s->slots[op->slot];
	char name[NAME_TEXT_MAX];
	struct stat st;

	slot_close(slot, r);
	if (r->err)
		result_field(r, "errno of the close before", r->err);
	path_real(&op->path, name);
	slot->fd = openat(s->rootfd, name, op->flags | O_CLOEXEC, op->mode);
	result_ret(r, slot->fd < 0 ? -1 : 0);
	if (slot->fd < 0)
		return;
	slot->flags = op->flags;
	slot->dir = !fstat(slot->fd, &st) && S_ISDIR(st.st_mode);
	if (slot->dir)
		slot->flags &= ~O_DIRECT;
	result_fstat(r, s, slot);
}

static void slot_dup(struct slot *slot, struct result *r)
{
	int fd = fcntl(slot->fd, F_DUPFD_CLOEXEC, 0);

	result_ret(r, fd < 0 ? -1 : 0);
	if (fd < 0)
		return;
	result_field(r, "close", close(slot->fd) ? errno : 0);
	slot->fd = fd;
}

static void do_ftruncate(struct side *s, const struct op *op, struct result *r)
{
	int fd = s->slots[op->slot].fd;
	int64_t len = op->len;
	struct stat st;
	bool same = !fstat(fd, &st) && st.st_size == len;

	if (faulty(s, FAULT_SHORT_TRUNCATE) && len > PAGE)
		len--;
	result_ret(r, ftruncate(fd, len));
	if (same && !r->ret)
		settle_mtime(s, NULL, fd);
}

static void do_fsync(struct side *s, const struct op *op, struct result *r)
{
	int fd = s->slots[op->slot].fd;

	result_ret(r, op->flags ? fdatasync(fd) : fsync(fd));
	if (faulty(s, FAULT_EXTRA_MTIME))
		futimens(fd, NULL);
}

void exec_file(struct side *s, const struct op *op, struct result *r)
{
	struct slot *slot = &s->slots[op->slot];

	if (op->kind == OP_OPEN) {
		slot_open(s, op, r);
		return;
	}
	if (slot->fd < 0)
		return;
	switch (op->kind) {
	case OP_CLOSE:
		slot_close(slot, r);
		break;
	case OP_DUP:
		slot_dup(slot, r);
		break;
	case OP_FTRUNCATE:
		do_ftruncate(s, op, r);
		break;
	case OP_FALLOCATE:
		result_ret(r, fallocate(slot->fd, op->flags, op->off, op->len));
		break;
	case OP_FSYNC:
		do_fsync(s, op, r);
		break;
	case OP_FCHMOD:
		result_ret(r, fchmod(slot->fd, op->mode));
		break;
	case OP_FLOCK:
		result_ret(r, flock(slot->fd, op->flags | LOCK_NB));
		break;
	default: /* OP_FSTAT: the fields are the result */
		break;
	}
	result_fstat(r, s, slot);
}
