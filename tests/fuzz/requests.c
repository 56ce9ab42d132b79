/* SPDX-License-Identifier: MIT */
/*
 * Sequences of FUSE requests against a scratch directory, without a mount: each input is
 * a list of requests with any node ids, names, offsets and flags. As the kernel does, it
 * asks with handles that an open returned and with well-formed messages; everything else
 * is arbitrary. Some requests were given up before they are served, so that their
 * handlers have to take back what they did.
 *
 * Kept: each request is answered once; nothing outside the directory changes; when all is
 * released and forgotten no node, handle or descriptor is left.
 */
#include <dirent.h>
#include <ftw.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "tests/fuzz/requests_ask.h"

/* --- requests about names and nodes --- */

struct step {
	struct input *in;
	uint8_t op;
	uint32_t uid;
	bool given_up;
	char body[4096];
};

static bool send_step(struct step *s, uint32_t opcode, uint64_t node, size_t len)
{
	return ask_as(opcode, node, s->body, len, s->uid, s->given_up);
}

static void step_name(struct step *s)
{
	static const uint32_t opcodes[] = {FUSE_LOOKUP, FUSE_LOOKUP, FUSE_UNLINK, FUSE_RMDIR};
	uint32_t opcode = opcodes[s->op % 4];
	uint64_t dir = get_node(s->in);
	size_t len = get_name(s->in, s->body);

	if (send_step(s, opcode, dir, len) && opcode == FUSE_LOOKUP)
		learn_entry();
}

static void step_make(struct step *s)
{
	static const char *const targets[] = {"../canary", "a", ".", "..", "b/../c"};
	uint64_t dir = get_node(s->in);
	uint32_t mode = (uint32_t)get_number(s->in);
	size_t len;
	bool ok;

	if (s->op % 4 == 0) {
		struct fuse_mkdir_in in = {.mode = mode, .umask = get8(s->in)};

		memcpy(s->body, &in, sizeof(in));
		len = sizeof(in) + get_name(s->in, s->body + sizeof(in));
		ok = send_step(s, FUSE_MKDIR, dir, len);
	} else if (s->op % 4 == 1) {
		static const uint32_t types[] = {S_IFREG, S_IFIFO, S_IFSOCK, S_IFCHR, S_IFDIR, 0};
		struct fuse_mknod_in in = {.mode = (mode & 07777) | types[get8(s->in) % 6]};

		memcpy(s->body, &in, sizeof(in));
		len = sizeof(in) + get_name(s->in, s->body + sizeof(in));
		ok = send_step(s, FUSE_MKNOD, dir, len);
	} else if (s->op % 4 == 2) {
		len = get_name(s->in, s->body);
		len += (size_t)sprintf(s->body + len, "%s", targets[mode % ARRAY_SIZE(targets)]) +
		       1;
		ok = send_step(s, FUSE_SYMLINK, dir, len);
	} else {
		struct fuse_link_in in = {.oldnodeid = get_node(s->in)};

		memcpy(s->body, &in, sizeof(in));
		len = sizeof(in) + get_name(s->in, s->body + sizeof(in));
		ok = send_step(s, FUSE_LINK, dir, len);
	}
	if (ok)
		learn_entry();
}

static void step_rename(struct step *s)
{
	struct fuse_rename2_in in = {.flags = get8(s->in) % 8};
	uint64_t dir = get_node(s->in);
	size_t len = sizeof(in);

	in.newdir = get_node(s->in);
	memcpy(s->body, &in, sizeof(in));
	len += get_name(s->in, s->body + len);
	len += get_name(s->in, s->body + len);
	send_step(s, FUSE_RENAME2, dir, len);
}

static void step_attr(struct step *s)
{
	struct fuse_setattr_in in = {.valid = (uint32_t)get_number(s->in) &
					      (FATTR_MODE | FATTR_UID | FATTR_GID | FATTR_SIZE |
					       FATTR_ATIME | FATTR_MTIME | FATTR_ATIME_NOW |
					       FATTR_MTIME_NOW)};
	struct fuse_getattr_in get = {0};
	uint64_t node = get_node(s->in);

	if (s->op % 4 == 0) {
		memcpy(s->body, &get, sizeof(get));
		send_step(s, FUSE_GETATTR, node, sizeof(get));
	} else if (s->op % 4 == 1) {
		send_step(s, FUSE_STATFS, node, 0);
	} else if (s->op % 4 == 2) {
		send_step(s, FUSE_READLINK, node, 0);
	} else {
		in.mode = (uint32_t)get_number(s->in);
		in.size = get_number(s->in);
		in.uid = (uint32_t)get_number(s->in);
		in.gid = in.uid;
		in.mtime = get_number(s->in);
		in.mtimensec = (uint32_t)get_number(s->in) % 1000000000;
		memcpy(s->body, &in, sizeof(in));
		send_step(s, FUSE_SETATTR, node, sizeof(in));
	}
}

static void step_xattr(struct step *s)
{
	uint64_t node = get_node(s->in);
	struct fuse_getxattr_in get = {.size = (uint32_t)get_number(s->in)};
	size_t len;

	memcpy(s->body, &get, sizeof(get));
	if (s->op % 4 == 0) {
		len = sizeof(get) + get_xattr_name(s->in, s->body + sizeof(get));
		send_step(s, FUSE_GETXATTR, node, len);
	} else if (s->op % 4 == 1) {
		send_step(s, FUSE_LISTXATTR, node, sizeof(get));
	} else if (s->op % 4 == 2) {
		uint32_t in[2] = {get.size % 64, get8(s->in) % 4}; /* size, flags */

		memcpy(s->body, in, sizeof(in));
		len = sizeof(in) + get_xattr_name(s->in, s->body + sizeof(in));
		memset(s->body + len, get8(s->in), in[0]);
		send_step(s, FUSE_SETXATTR, node, len + in[0]);
	} else {
		len = get_xattr_name(s->in, s->body);
		send_step(s, FUSE_REMOVEXATTR, node, len);
	}
}

static void step_forget(struct step *s)
{
	struct fuse_forget_in in = {.nlookup = get_number(s->in)};
	uint64_t node = get_node(s->in);
	unsigned i;

	/* Of its own the kernel forgets what it has; of others any number. */
	for (i = 0; i < w.nr_nodes; i++) {
		if (w.nodes[i].id == node) {
			forget_node(i);
			return;
		}
	}
	memcpy(s->body, &in, sizeof(in));
	send_step(s, FUSE_FORGET, node, sizeof(in));
}

/* --- requests about open files --- */

static uint32_t open_flags(struct input *in)
{
	static const uint32_t more[] = {0,	 O_TRUNC, O_DIRECT, O_APPEND, O_SYNC,
					O_DSYNC, O_EXCL,  0x20,	    O_NOATIME};

	return get8(in) % 4 | more[get8(in) % ARRAY_SIZE(more)] | more[get8(in) % ARRAY_SIZE(more)];
}

static void step_open(struct step *s)
{
	struct fuse_open_in in = {.flags = open_flags(s->in)};
	uint64_t node = get_node(s->in);
	size_t len = sizeof(in);

	if (w.nr_handles == MAX_HANDLES)
		release(0);
	if (s->op % 4 == 0) {
		struct fuse_create_in create = {.flags = in.flags,
						.mode = (uint32_t)get_number(s->in)};

		memcpy(s->body, &create, sizeof(create));
		len = sizeof(create) + get_name(s->in, s->body + sizeof(create));
		if (!send_step(s, FUSE_CREATE, node, len))
			return;
		learn_open(((const struct fuse_entry_out *)w.body)->nodeid,
			   (const void *)(w.body + sizeof(struct fuse_entry_out)), false);
		learn_entry();
		return;
	}
	memcpy(s->body, &in, sizeof(in));
	if (send_step(s, s->op % 4 == 1 ? FUSE_OPENDIR : FUSE_OPEN, node, len))
		learn_open(node, (const void *)w.body, s->op % 4 == 1);
}

static void step_release(struct step *s)
{
	if (w.nr_handles)
		release(get8(s->in) % w.nr_handles);
}

static void step_read(struct step *s)
{
	unsigned i = w.nr_handles ? get8(s->in) % w.nr_handles : 0;
	struct fuse_read_in in = {.offset = get_number(s->in), .size = (uint32_t)get_number(s->in)};
	bool dir;

	if (!w.nr_handles)
		return;
	in.fh = w.handles[i].fh;
	dir = w.handles[i].kind == DIR_HANDLE || w.handles[i].kind == CONTROL_DIR_HANDLE;
	if (in.size > REQUEST_MAX_BYTES) /* as agreed at INIT */
		in.size = REQUEST_MAX_BYTES;
	memcpy(s->body, &in, sizeof(in));
	if (send_step(s, dir ? FUSE_READDIR : FUSE_READ, w.handles[i].id, sizeof(in)))
		REQUIRE(w.len <= in.size);
}

static void write_to(struct step *s, unsigned i)
{
	struct fuse_write_in in = {.fh = w.handles[i].fh,
				   .offset = get_number(s->in),
				   .size = (uint32_t)get_number(s->in) % 2000,
				   .write_flags = get8(s->in) % 8};

	in.flags = open_flags(s->in);
	memcpy(s->body, &in, sizeof(in));
	memset(s->body + sizeof(in), 'w', in.size);
	if (send_step(s, FUSE_WRITE, w.handles[i].id, sizeof(in) + in.size))
		REQUIRE(((const struct fuse_write_out *)w.body)->size <= in.size);
}

static void change_file(struct step *s, unsigned i, uint8_t what)
{
	unsigned other = get8(s->in) % w.nr_handles;

	if (what == 0) {
		struct fuse_fallocate_in in = {.fh = w.handles[i].fh,
					       .offset = get_number(s->in),
					       .length = get_number(s->in),
					       .mode = get8(s->in) % 128};

		memcpy(s->body, &in, sizeof(in));
		send_step(s, FUSE_FALLOCATE, w.handles[i].id, sizeof(in));
	} else if (what == 1 && w.handles[other].kind == FILE_HANDLE) {
		struct fuse_copy_file_range_in in = {.fh_in = w.handles[i].fh,
						     .off_in = get_number(s->in),
						     .nodeid_out = w.handles[other].id,
						     .fh_out = w.handles[other].fh,
						     .off_out = get_number(s->in),
						     .len = get_number(s->in),
						     .flags = get8(s->in) % 2};

		memcpy(s->body, &in, sizeof(in));
		send_step(s, FUSE_COPY_FILE_RANGE, w.handles[i].id, sizeof(in));
	} else if (what == 2) {
		struct fuse_setattr_in in = {.valid = FATTR_SIZE | FATTR_FH,
					     .fh = w.handles[i].fh,
					     .size = get_number(s->in)};

		memcpy(s->body, &in, sizeof(in));
		send_step(s, FUSE_SETATTR, w.handles[i].id, sizeof(in));
	} else {
		write_to(s, i);
	}
}

static void step_handle(struct step *s)
{
	unsigned i = w.nr_handles ? get8(s->in) % w.nr_handles : 0;
	uint8_t what = get8(s->in) % 8;
	bool dir;

	if (!w.nr_handles)
		return;
	dir = w.handles[i].kind == DIR_HANDLE || w.handles[i].kind == CONTROL_DIR_HANDLE;
	if (what == 4 && !dir) {
		struct fuse_flush_in in = {.fh = w.handles[i].fh};

		memcpy(s->body, &in, sizeof(in));
		send_step(s, FUSE_FLUSH, w.handles[i].id, sizeof(in));
	} else if (what == 5) {
		struct fuse_fsync_in in = {.fh = w.handles[i].fh, .fsync_flags = get8(s->in) % 2};

		memcpy(s->body, &in, sizeof(in));
		send_step(s, dir ? FUSE_FSYNCDIR : FUSE_FSYNC, w.handles[i].id, sizeof(in));
	} else if (what == 6 && !dir) {
		struct fuse_lseek_in in = {.fh = w.handles[i].fh,
					   .offset = get_number(s->in),
					   .whence = get8(s->in) % 6};

		memcpy(s->body, &in, sizeof(in));
		send_step(s, FUSE_LSEEK, w.handles[i].id, sizeof(in));
	} else if (w.handles[i].kind == FILE_HANDLE) {
		change_file(s, i, what);
	}
}

/* What another node of the cluster does meanwhile. */
static void step_behind_our_back(struct step *s)
{
	static const char *const names[] = {"a", "b", "c", "d"};
	int top = w.engine.backing.root_fd;
	const char *one = names[get8(s->in) % 4], *two = names[get8(s->in) % 4];

	if (s->op % 4 == 0)
		renameat(top, one, top, two);
	else if (s->op % 4 == 1 && unlinkat(top, one, 0))
		unlinkat(top, one, AT_REMOVEDIR);
	else if (s->op % 4 == 2)
		mkfifoat(top, one, 0644);
	else if (s->op % 4 == 3)
		symlinkat("../canary", top, one);
}

/* --- the world --- */

/* No device nodes: opening one might do anything. */
static void drop_mknod(void)
{
	struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct data[2];

	REQUIRE(!syscall(SYS_capget, &head, data));
	data[0].effective &= ~CAP_TO_MASK(CAP_MKNOD);
	data[0].permitted &= ~CAP_TO_MASK(CAP_MKNOD);
	REQUIRE(!syscall(SYS_capset, &head, data));
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *where)
{
	(void)st;
	(void)type;
	if (where->level > 1)
		remove(path);
	return 0;
}

static int remove_all(const char *path, const struct stat *st, int type, struct FTW *where)
{
	(void)st;
	(void)type;
	(void)where;
	remove(path);
	return 0;
}

static void clean_up(void)
{
	nftw(w.top, remove_all, 16, FTW_DEPTH | FTW_PHYS);
}

static void say_hello(void)
{
	struct fuse_init_in in = {.major = 7, .minor = 36, .max_readahead = 1 << 20, .flags = ~0u};

	w.fs.tree = tree_create(&w.engine, 1);
	REQUIRE(w.fs.tree && ask(FUSE_INIT, 0, &in, sizeof(in)));
	tree_destroy(w.fs.tree);
}

static void set_up(void)
{
	static struct fuse_lowlevel_ops ops;
	char *argv[] = {"fuzz", NULL}, path[PATH_MAX + 16];
	struct fuse_args args = FUSE_ARGS_INIT(1, argv);
	struct rlimit limit = {4 << 20, 4 << 20};
	const char *tmp = getenv("TMPDIR");
	struct config config;
	struct error e;
	int fd;

	snprintf(w.top, sizeof(w.top), "%s/fuzz-requests-XXXXXX", tmp ? tmp : "/tmp");
	REQUIRE(mkdtemp(w.top));
	atexit(clean_up);
	snprintf(path, sizeof(path), "%s/canary", w.top);
	fd = open(path, O_WRONLY | O_CREAT, 0600);
	REQUIRE(fd >= 0 && write(fd, "canary", 6) == 6 && !close(fd));
	snprintf(path, sizeof(path), "%s/root", w.top);
	REQUIRE(!mkdir(path, 0777) && !chmod(w.top, 0755));
	drop_mknod();
	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &limit);
	config_init(&config);
	REQUIRE(!config_apply_options(&config, "log_level=error", &e));
	config.read_only = true; /* makes no .ckptfs, which each input would have to restore */
	REQUIRE(!engine_open(&w.engine, &config, path, &e));
	w.engine.config.read_only = false;
	w.fs = (struct fs){.engine = &w.engine, .mountpoint = "/mnt", .label = "n1"};
	w.fs.requests = requests_create(&w.fs);
	ops_name(&ops);
	ops_attr(&ops);
	ops_file(&ops);
	ops_dir(&ops);
	ops_xattr(&ops);
	w.fs.session = fuse_session_new(&args, &ops, sizeof(ops), &w.fs);
	REQUIRE(w.fs.requests && w.fs.session);
	fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	REQUIRE(!fuse_session_custom_io(w.fs.session, &requests_io, fd));
	w.fs.requests->se = w.fs.session;
	w.fs.requests->fd = fd;
	fuse_opt_free_args(&args);
	say_hello();
}

static int lowest_free_fd(void)
{
	int fd = dup(w.fs.requests->fd);

	REQUIRE(fd >= 0);
	close(fd);
	return fd;
}

static void check_canary(void)
{
	char path[PATH_MAX + 16], text[16] = "";
	struct stat st;
	struct dirent *entry;
	int fd, nr = 0;
	DIR *d = opendir(w.top);

	REQUIRE(d);
	while ((entry = readdir(d)))
		nr++;
	closedir(d);
	REQUIRE(nr == 4); /* . .. root canary */
	snprintf(path, sizeof(path), "%s/canary", w.top);
	fd = open(path, O_RDONLY);
	REQUIRE(fd >= 0 && read(fd, text, sizeof(text)) == 6 && !memcmp(text, "canary", 6));
	REQUIRE(!fstat(fd, &st) && st.st_nlink == 1 && st.st_mode == (S_IFREG | 0600));
	close(fd);
}

static void tear_down(void)
{
	while (w.nr_handles)
		release(0);
	while (w.nr_nodes)
		forget_node(0);
	REQUIRE(w.engine.metrics.open_handles == 0);
	REQUIRE(w.engine.metrics.nodes == 1);
	REQUIRE(w.engine.metrics.queued == 0);
	tree_destroy(w.fs.tree);
	REQUIRE(lowest_free_fd() == w.lowest_fd);
	check_canary();
	fchmod(w.engine.backing.root_fd, 0777);
	REQUIRE(!fchown(w.engine.backing.root_fd, 0, 0) || geteuid());
	nftw(w.top, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const steps[])(struct step *) = {
		step_name,   step_name,	  step_make,   step_make,
		step_rename, step_attr,	  step_xattr,  step_forget,
		step_open,   step_open,	  step_open,   step_release,
		step_read,   step_handle, step_handle, step_behind_our_back,
	};
	static const uint32_t uids[] = {0, 0, 1000, 65534};
	struct input in = {data, data + size};
	struct step s = {.in = &in};
	int i;

	if (!w.fs.session)
		set_up();
	w.lowest_fd = lowest_free_fd();
	w.fs.tree = tree_create(&w.engine, get8(&in) % 8 * 3 + 1);
	REQUIRE(w.fs.tree);
	for (i = 0; i < MAX_STEPS && in.at < in.end; i++) {
		uint8_t how = get8(&in);

		s.op = get8(&in);
		s.uid = uids[how >> 6];
		s.given_up = (how & 48) == 48;
		steps[how % 16](&s);
	}
	tear_down();
	return 0;
}
