// SPDX-License-Identifier: MIT
/* Verbs on open files. A slot 0..9 stands for a descriptor. */
#include "posixcmp.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <unistd.h>

#define MAX_IOV	   8
#define BIG_WINDOW (2UL << 20)

static const struct flag whence_flags[] = {
	{"SET", SEEK_SET},   {"CUR", SEEK_CUR},	  {"END", SEEK_END},
	{"DATA", SEEK_DATA}, {"HOLE", SEEK_HOLE}, {NULL, 0},
};

static const struct flag falloc_flags[] = {
	{"KEEP_SIZE", FALLOC_FL_KEEP_SIZE},	  {"PUNCH_HOLE", FALLOC_FL_PUNCH_HOLE},
	{"ZERO_RANGE", FALLOC_FL_ZERO_RANGE},	  {"COLLAPSE_RANGE", FALLOC_FL_COLLAPSE_RANGE},
	{"INSERT_RANGE", FALLOC_FL_INSERT_RANGE}, {NULL, 0},
};

/* Puts a new descriptor in its slot and says "ok", never its number. */
static void say_fd(struct ctx *c, const char *slot, int fd)
{
	slot_set(c, arg_slot(c, slot), fd);
	if (fd < 0)
		say_ret(c, -1);
	else
		say(c, "ok");
}

static void v_open(struct ctx *c, char **w)
{
	say_fd(c, w[0], open(w[1], arg_flags(c, open_flags, w[2]), w[3] ? arg_mode(c, w[3]) : 0));
}

static void v_openat(struct ctx *c, char **w)
{
	say_fd(c, w[0],
	       openat(arg_fd(c, w[1]), w[2], arg_flags(c, open_flags, w[3]),
		      w[4] ? arg_mode(c, w[4]) : 0));
}

static void v_reopen(struct ctx *c, char **w)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", arg_fd(c, w[1]));
	say_fd(c, w[0], open(path, arg_flags(c, open_flags, w[2])));
}

static void v_dup(struct ctx *c, char **w)
{
	say_fd(c, w[0], dup(arg_fd(c, w[1])));
}

static void v_close(struct ctx *c, char **w)
{
	int slot = arg_slot(c, w[0]);

	say_ret(c, close(c->fd[slot]));
	c->fd[slot] = -1;
}

static void say_read(struct ctx *c, ssize_t n, char *buf)
{
	say_ret(c, n);
	if (n > 0)
		say_bytes(c, buf, n);
	free(buf);
}

static void v_read(struct ctx *c, char **w)
{
	size_t len = arg_num(c, w[1]);
	char *buf = calloc(1, len + 1);

	say_read(c, read(arg_fd(c, w[0]), buf, len), buf);
}

static void v_pread(struct ctx *c, char **w)
{
	size_t len = arg_num(c, w[1]);
	char *buf = calloc(1, len + 1);

	say_read(c, pread(arg_fd(c, w[0]), buf, len, arg_num(c, w[2])), buf);
}

static void v_write(struct ctx *c, char **w)
{
	say_ret(c, write(arg_fd(c, w[0]), w[1], strlen(w[1])));
}

static void v_pwrite(struct ctx *c, char **w)
{
	say_ret(c, pwrite(arg_fd(c, w[0]), w[1], strlen(w[1]), arg_num(c, w[2])));
}

static void v_fill(struct ctx *c, char **w)
{
	size_t len = arg_num(c, w[1]), i;
	char *buf = malloc(len + 1);

	for (i = 0; i < len; i++)
		buf[i] = 'a' + (i / 512 + i) % 26;
	say_ret(c, pwrite(arg_fd(c, w[0]), buf, len, w[2] ? arg_num(c, w[2]) : 0));
	free(buf);
}

static void v_readv(struct ctx *c, char **w)
{
	struct iovec iov[MAX_IOV];
	char *buf = calloc(MAX_IOV, 64);
	int n;
	ssize_t ret;

	for (n = 0; w[n + 1] && n < MAX_IOV; n++) {
		iov[n].iov_base = buf + 64 * n;
		iov[n].iov_len = arg_num(c, w[n + 1]) & 63;
	}
	ret = readv(arg_fd(c, w[0]), iov, n);
	say_ret(c, ret);
	if (ret >= 0)
		say_bytes(c, buf, 64 * n);
	free(buf);
}

static void v_writev(struct ctx *c, char **w)
{
	struct iovec iov[MAX_IOV];
	int n;

	for (n = 0; w[n + 1] && n < MAX_IOV; n++) {
		iov[n].iov_base = w[n + 1];
		iov[n].iov_len = strlen(w[n + 1]);
	}
	say_ret(c, writev(arg_fd(c, w[0]), iov, n));
}

static void v_writev_count(struct ctx *c, char **w)
{
	int n = arg_num(c, w[1]), i;
	struct iovec *iov = calloc(n > 0 ? n : 1, sizeof(*iov));

	for (i = 0; i < n; i++) {
		iov[i].iov_base = "x";
		iov[i].iov_len = 1;
	}
	say_ret(c, writev(arg_fd(c, w[0]), iov, n));
	free(iov);
}

static void v_badbuf(struct ctx *c, char **w)
{
	int fd = arg_fd(c, w[0]);
	void *nowhere = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	say(c, "read ");
	say_ret(c, pread(fd, nowhere, 10, 0));
	say(c, " write ");
	say_ret(c, pwrite(fd, nowhere, 10, 0));
	munmap(nowhere, 4096);
}

static void v_seek(struct ctx *c, char **w)
{
	say_ret(c, lseek(arg_fd(c, w[0]), arg_num(c, w[1]), arg_flags(c, whence_flags, w[2])));
}

static void v_fstat(struct ctx *c, char **w)
{
	struct stat st;

	if (fstat(arg_fd(c, w[0]), &st))
		say_ret(c, -1);
	else
		say_stat(c, &st);
}

static void v_truncate(struct ctx *c, char **w)
{
	say_ret(c, truncate(w[0], arg_num(c, w[1])));
}

static void v_ftruncate(struct ctx *c, char **w)
{
	say_ret(c, ftruncate(arg_fd(c, w[0]), arg_num(c, w[1])));
}

static void v_fallocate(struct ctx *c, char **w)
{
	say_ret(c, fallocate(arg_fd(c, w[0]), arg_flags(c, falloc_flags, w[1]), arg_num(c, w[2]),
			     arg_num(c, w[3])));
}

static void v_fsync(struct ctx *c, char **w)
{
	say_ret(c, fsync(arg_fd(c, w[0])));
}

static void v_fdatasync(struct ctx *c, char **w)
{
	say_ret(c, fdatasync(arg_fd(c, w[0])));
}

static void v_setfl(struct ctx *c, char **w)
{
	say_ret(c, fcntl(arg_fd(c, w[0]), F_SETFL, arg_flags(c, open_flags, w[1])));
}

static void v_cat(struct ctx *c, char **w)
{
	size_t len = 0, cap = 1 << 20;
	char *buf;
	ssize_t n;
	int fd = open(w[0], O_RDONLY | O_NONBLOCK);

	if (fd < 0) {
		say_ret(c, -1);
		return;
	}
	buf = malloc(cap);
	while ((n = read(fd, buf + len, cap - len)) > 0)
		len += n;
	if (n < 0)
		say_ret(c, -1);
	else
		say_bytes(c, buf, len);
	free(buf);
	close(fd);
}

/* Offsets after the call too: they tell which side has moved. */
static void v_copyrange(struct ctx *c, char **w)
{
	off_t in, out, *pin = NULL, *pout = NULL;
	ssize_t n;

	if (w[3] && w[4]) {
		in = arg_num(c, w[3]);
		out = arg_num(c, w[4]);
		pin = &in;
		pout = &out;
	}
	n = copy_file_range(arg_fd(c, w[0]), pin, arg_fd(c, w[1]), pout, arg_num(c, w[2]), 0);
	say_ret(c, n);
	say(c, " at %ld %ld", (long)lseek(arg_fd(c, w[0]), 0, SEEK_CUR),
	    (long)lseek(arg_fd(c, w[1]), 0, SEEK_CUR));
}

static void v_sendfile(struct ctx *c, char **w)
{
	say_ret(c, sendfile(arg_fd(c, w[1]), arg_fd(c, w[0]), NULL, arg_num(c, w[2])));
}

static void v_splice(struct ctx *c, char **w)
{
	size_t len = arg_num(c, w[2]);
	ssize_t n;
	int p[2];

	if (pipe(p)) {
		say_ret(c, -1);
		return;
	}
	n = splice(arg_fd(c, w[0]), NULL, p[1], NULL, len, 0);
	say_ret(c, n);
	close(p[1]);
	if (n >= 0) {
		say(c, " then ");
		say_ret(c, splice(p[0], NULL, arg_fd(c, w[1]), NULL, len, 0));
	}
	close(p[0]);
}

/*
 * A read of up to 2 GiB into memory of 2 MiB: one window of a shared mapping,
 * mapped over and over.
 */
static void v_bigread(struct ctx *c, char **w)
{
	size_t len = arg_num(c, w[1]), off;
	int mem = memfd_create("window", 0);
	char *p = mmap(NULL, len + BIG_WINDOW, PROT_NONE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (mem < 0 || p == MAP_FAILED || ftruncate(mem, BIG_WINDOW)) {
		say(c, "no memory for this");
		c->bad = true;
		return;
	}
	for (off = 0; off < len; off += BIG_WINDOW)
		mmap(p + off, BIG_WINDOW, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, mem, 0);
	say_ret(c, read(arg_fd(c, w[0]), p, len));
	munmap(p, len + BIG_WINDOW);
	close(mem);
}

const struct verb file_verbs[] = {
	{"open", "SLOT PATH FLAGS [MODE]", "RDWR|CREAT ...", v_open},
	{"openat", "SLOT DIR PATH FLAGS [MODE]", "DIR is a slot", v_openat},
	{"reopen", "SLOT OLD FLAGS", "open /proc/self/fd/OLD", v_reopen},
	{"dup", "SLOT OLD", "", v_dup},
	{"close", "SLOT", "", v_close},
	{"read", "SLOT LEN", "", v_read},
	{"pread", "SLOT LEN OFFSET", "", v_pread},
	{"write", "SLOT TEXT", "", v_write},
	{"pwrite", "SLOT TEXT OFFSET", "", v_pwrite},
	{"fill", "SLOT LEN [OFFSET]", "pwrite of a pattern", v_fill},
	{"readv", "SLOT LEN...", "each LEN below 64", v_readv},
	{"writev", "SLOT TEXT...", "", v_writev},
	{"writev-n", "SLOT COUNT", "COUNT vectors of a byte", v_writev_count},
	{"badbuf", "SLOT", "read and write at a bad address", v_badbuf},
	{"seek", "SLOT OFFSET WHENCE", "SET CUR END DATA HOLE", v_seek},
	{"fstat", "SLOT", "", v_fstat},
	{"truncate", "PATH SIZE", "", v_truncate},
	{"ftruncate", "SLOT SIZE", "", v_ftruncate},
	{"fallocate", "SLOT MODE OFFSET LEN", "KEEP_SIZE|PUNCH_HOLE ...", v_fallocate},
	{"fsync", "SLOT", "", v_fsync},
	{"fdatasync", "SLOT", "", v_fdatasync},
	{"setfl", "SLOT FLAGS", "fcntl F_SETFL", v_setfl},
	{"cat", "PATH", "content, or length and checksum", v_cat},
	{"copyrange", "IN OUT LEN [OFFIN] [OFFOUT]", "copy_file_range", v_copyrange},
	{"sendfile", "IN OUT LEN", "", v_sendfile},
	{"splice", "IN OUT LEN", "through a pipe", v_splice},
	{"bigread", "SLOT LEN", "", v_bigread},
	{NULL, NULL, NULL, NULL},
};
