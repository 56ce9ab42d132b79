/* SPDX-License-Identifier: MIT */
/*
 * fs_fates [-u UID] DIR LOG: mounts on DIR a filesystem that forgets what is written, and writes
 * into LOG, for each FLUSH, the file's name and what writer_judge says of who sent it. Needs root;
 * serves as user and group UID. LOG appears when all is ready. Ends when DIR is unmounted.
 *
 * One thread, and the protocol by hand: a judge that blocks stops everything. It is then killed,
 * since nothing that waits for it can be.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/fuse.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* Helpers are linked with nothing. */
#include "engine/liveness/proc.c"
#include "engine/liveness/writer.c"

#define MAX_FILES  200
#define FIRST	   (FUSE_ROOT_ID + 1) /* node of files[0] */
#define MAY_TAKE_S 20

static char files[MAX_FILES][64];
static size_t nr_files;
static int device, log_fd;

static void reply(const struct fuse_in_header *in, int error, void *data, size_t len)
{
	struct fuse_out_header out = {sizeof(out) + len, error, in->unique};
	struct iovec iov[] = {{&out, sizeof(out)}, {data, len}};

	/* ENOENT: the request was interrupted, nobody waits for this. */
	if (writev(device, iov, 2) < 0 && errno != ENOENT)
		err(1, "reply");
}

static struct fuse_attr attr_of(uint64_t node)
{
	struct fuse_attr attr = {.ino = node, .nlink = 1};

	attr.mode = node == FUSE_ROOT_ID ? S_IFDIR | 0777 : S_IFREG | 0666;
	return attr;
}

static uint64_t find(const char *name)
{
	size_t i;

	for (i = 0; i < nr_files; i++)
		if (!strcmp(files[i], name))
			return FIRST + i;
	return 0;
}

static struct fuse_entry_out entry_of(uint64_t node)
{
	return (struct fuse_entry_out){.nodeid = node, .attr = attr_of(node)};
}

static void do_init(const struct fuse_in_header *in, const struct fuse_init_in *asked)
{
	struct fuse_init_out out = {.major = FUSE_KERNEL_VERSION, .minor = 31};

	out.max_readahead = asked->max_readahead;
	out.max_write = 4096;
	reply(in, 0, &out, sizeof(out));
}

static void do_create(const struct fuse_in_header *in, const char *name)
{
	struct {
		struct fuse_entry_out entry;
		struct fuse_open_out open;
	} out = {.open.open_flags = FOPEN_DIRECT_IO};
	uint64_t node = find(name);

	if (!node) {
		if (nr_files == MAX_FILES || strlen(name) >= sizeof(files[0])) {
			reply(in, -ENOSPC, NULL, 0);
			return;
		}
		strcpy(files[nr_files], name);
		node = FIRST + nr_files++;
	}
	out.entry = entry_of(node);
	reply(in, 0, &out, sizeof(out));
}

static void do_flush(const struct fuse_in_header *in)
{
	static const char *const names[] = {
		[WRITER_ALIVE] = "alive",	  [WRITER_EXITED_OK] = "exited-ok",
		[WRITER_DIED] = "died",		  [WRITER_EXIT_UNKNOWN] = "exit-unknown",
		[WRITER_INVISIBLE] = "invisible",
	};
	struct writer_end end;

	alarm(MAY_TAKE_S);
	end = writer_judge((pid_t)in->pid);
	alarm(0);
	dprintf(log_fd, "%s %s %d\n", files[in->nodeid - FIRST], names[end.fate], end.code);
	reply(in, 0, NULL, 0);
}

static void serve(const struct fuse_in_header *in)
{
	const void *arg = in + 1;
	struct fuse_attr_out attr = {.attr = attr_of(in->nodeid)};
	struct fuse_open_out open = {.open_flags = FOPEN_DIRECT_IO};
	struct fuse_write_out written = {.size = ((const struct fuse_write_in *)arg)->size};
	struct fuse_entry_out entry;

	switch (in->opcode) {
	case FUSE_INIT:
		do_init(in, arg);
		return;
	case FUSE_LOOKUP:
		entry = entry_of(find(arg));
		reply(in, entry.nodeid ? 0 : -ENOENT, &entry, entry.nodeid ? sizeof(entry) : 0);
		return;
	case FUSE_GETATTR:
	case FUSE_SETATTR:
		reply(in, 0, &attr, sizeof(attr));
		return;
	case FUSE_CREATE:
		do_create(in, (const char *)arg + sizeof(struct fuse_create_in));
		return;
	case FUSE_OPEN:
		reply(in, 0, &open, sizeof(open));
		return;
	case FUSE_WRITE:
		reply(in, 0, &written, sizeof(written));
		return;
	case FUSE_FLUSH:
		do_flush(in);
		return;
	case FUSE_RELEASE:
		reply(in, 0, NULL, 0);
		return;
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT:
		return;
	default:
		reply(in, -ENOSYS, NULL, 0);
	}
}

static void mount_on(const char *dir)
{
	char options[128];

	device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	if (device < 0)
		err(1, "/dev/fuse");
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other",
		 device);
	if (mount("fs_fates", dir, "fuse.fs_fates", MS_NOSUID | MS_NODEV, options))
		err(1, "mount %s", dir);
}

int main(int argc, char **argv)
{
	static _Alignas(struct fuse_in_header) char request[FUSE_MIN_READ_BUFFER * 2];
	uid_t uid = 0;

	if (argc == 5 && !strcmp(argv[1], "-u")) {
		uid = (uid_t)atoi(argv[2]);
		argv += 2;
		argc -= 2;
	}
	if (argc != 3)
		errx(2, "usage: fs_fates [-u UID] DIR LOG");
	mount_on(argv[1]);
	log_fd = open(argv[2], O_CREAT | O_EXCL | O_WRONLY | O_APPEND | O_CLOEXEC, 0644);
	if (log_fd < 0)
		err(1, "%s", argv[2]);
	if (uid && (setgroups(0, NULL) || setresgid(uid, uid, uid) || setresuid(uid, uid, uid)))
		err(1, "user %d", (int)uid);
	for (;;) {
		ssize_t n = read(device, request, sizeof(request));

		if (n < 0 && errno == ENODEV)
			return 0;
		if (n >= (ssize_t)sizeof(struct fuse_in_header))
			serve((const void *)request);
		else if (n >= 0 || (errno != EINTR && errno != ENOENT))
			err(1, "read /dev/fuse");
	}
}
