/* SPDX-License-Identifier: MIT */
/* Loads and stores through memory mappings. */
#include "randops.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static sigjmp_buf bus_jump;
static volatile sig_atomic_t bus_armed;

static void on_sigbus(int sig)
{
	if (bus_armed)
		siglongjmp(bus_jump, 1);
	signal(sig, SIG_DFL);
	raise(sig);
}

void catch_sigbus(void)
{
	struct sigaction sa = {.sa_handler = on_sigbus, .sa_flags = SA_NODEFER};

	sigaction(SIGBUS, &sa, NULL);
}

/* memcpy that reports a SIGBUS as -1, EFAULT. */
static int copy_guarded(void *to, const void *from, size_t len)
{
	if (sigsetjmp(bus_jump, 1)) {
		bus_armed = 0;
		errno = EFAULT;
		return -1;
	}
	bus_armed = 1;
	memcpy(to, from, len);
	bus_armed = 0;
	return 0;
}

struct window {
	unsigned char *map;
	off_t off;
	size_t len;  /* bytes of the file in the window */
	size_t full; /* the same up to the end of the last page */
};

/* False: nothing to map, or mmap refused (the reason is in r). */
static bool window_open(const struct slot *slot, const struct op *op, int prot, int flags,
			struct window *w, struct result *r)
{
	struct stat st;

	w->off = op->off & ~(off_t)(PAGE - 1);
	if (fstat(slot->fd, &st) || w->off >= st.st_size || op->len <= 0)
		return false;
	w->len = op->len < st.st_size - w->off ? op->len : st.st_size - w->off;
	if (w->len > MAX_IO)
		w->len = MAX_IO;
	w->full = (w->len + PAGE - 1) & ~(size_t)(PAGE - 1);
	w->map = mmap(NULL, w->full, prot, flags, slot->fd, w->off);
	if (w->map == MAP_FAILED) {
		result_ret(r, -1);
		return false;
	}
	return true;
}

static void do_private(struct side *s, const struct op *op, struct result *r)
{
	struct slot *slot = &s->slots[op->slot];
	struct window w;

	if (!window_open(slot, op, PROT_READ | PROT_WRITE, MAP_PRIVATE, &w, r))
		return;
	/* All of the last page: behind the end of the file it reads as zeros. */
	result_ret(r, copy_guarded(s->buf, w.map, w.full));
	r->data = s->buf;
	r->len = w.full;
	if (!r->ret && op->n) {
		fill_pattern(s->buf + w.full, PAGE, op->seed);
		memcpy(w.map, s->buf + w.full, w.len < PAGE ? w.len : PAGE);
	}
	munmap(w.map, w.full);
}

static void read_back(struct side *s, const struct slot *slot, const struct window *w,
		      struct result *r)
{
	/* a whole number of pages: O_DIRECT slots come here as well */
	ssize_t got = pread(slot->fd, s->buf, w->full, w->off);

	if (got < 0) {
		result_ret(r, -1);
		return;
	}
	r->data = s->buf;
	r->len = got;
}

static void do_shared(struct side *s, const struct op *op, struct result *r)
{
	struct slot *slot = &s->slots[op->slot];
	struct window w;

	if (!window_open(slot, op, PROT_READ | PROT_WRITE, MAP_SHARED, &w, r))
		return;
	fill_pattern(s->buf, w.len, op->seed);
	result_ret(r, copy_guarded(w.map, s->buf, w.len));
	if (op->flags)
		result_field(r, "msync",
			     msync(w.map, w.full, op->flags & MM_SYNC ? MS_SYNC : MS_ASYNC) ? errno
											    : 0);
	munmap(w.map, w.full);
	read_back(s, slot, &w, r);
	/* Without it the time of the store may be marked any time later. */
	result_field(r, "fsync", fsync(slot->fd) ? errno : 0);
}

void exec_map(struct side *s, const struct op *op, struct result *r)
{
	struct slot *slot = &s->slots[op->slot];

	if (slot->fd < 0 || slot->dir)
		return;
	if (op->kind == OP_MMAP_PRIVATE)
		do_private(s, op, r);
	else
		do_shared(s, op, r);
	result_fstat(r, s, slot);
}
