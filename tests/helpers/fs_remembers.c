/* SPDX-License-Identifier: MIT */
/*
 * fs_remembers [--names SECONDS] [--absent SECONDS] [--attributes SECONDS] SOURCE POINT: mounts on
 * POINT a client of the directory SOURCE that remembers, as one of a network filesystem does (a
 * replicated volume of GlusterFS; its kernel's dentries, and md-cache), what other clients of
 * SOURCE change meanwhile. Needs root. Returns when it is mounted; ends when POINT is unmounted.
 *
 * The kernel remembers what a name leads to for --names, that there is nothing for --absent, and
 * attributes for --attributes. This process then remembers attributes for --attributes from when it
 * asked SOURCE last, and answers with these whatever it is asked (AT_STATX_FORCE_SYNC, too); also a
 * lookup of a name of which it knows where it led to. SOURCE is asked again when the time is over,
 * and when this client itself has changed a file, or synced it. Listings are true, and refresh
 * nothing. An inode is found by its number: it stays itself where another client moves it, and what
 * another client has removed is ESTALE, but for what was read, written or synced by descriptors
 * here before: an open by itself asks nothing.
 *
 * No inode is let go of before the end, so that none has the number of one that was removed.
 */
#define FUSE_USE_VERSION 31
#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <getopt.h>
#include <limits.h>
#include <linux/limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#define BUCKETS	 4096
#define PROC_MAX 32

/* What a name was last seen to lead to. */
struct name {
	struct name *next;
	struct node *node;
	char text[];
};

struct node {
	struct node *next; /* in its bucket */
	int fd;		   /* O_PATH */
	unsigned opens;
	bool removed;	    /* its last name, here */
	struct stat st;	    /* as SOURCE said last */
	double until;	    /* then that is asked again */
	struct name *names; /* of a directory */
};

static double names_s, absent_s, attributes_s;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all nodes */
static struct node *buckets[BUCKETS], *root;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static struct node *node_at(fuse_ino_t ino)
{
	return ino == FUSE_ROOT_ID ? root : (struct node *)(uintptr_t)ino;
}

/* --- what is remembered; lock held in all of these, which return an errno --- */

static bool remembers(const struct node *n)
{
	return now() < n->until;
}

static int ask(struct node *n)
{
	n->until = 0;
	if (fstatat(n->fd, "", &n->st, AT_EMPTY_PATH))
		return errno;
	if (!n->st.st_nlink && !n->opens)
		return ESTALE;
	n->until = now() + attributes_s;
	return 0;
}

/* The node of what @pin, O_PATH, is open on; takes that. */
static int meet(int pin, struct node **node)
{
	struct node *n, **bucket;
	struct stat st;

	if (pin < 0 || fstatat(pin, "", &st, AT_EMPTY_PATH))
		return errno;
	bucket = &buckets[st.st_ino % BUCKETS];
	for (n = *bucket; n && (n->st.st_ino != st.st_ino || n->st.st_dev != st.st_dev);)
		n = n->next;
	if (n) {
		close(pin);
	} else {
		n = calloc(1, sizeof(*n));
		if (!n)
			err(1, "memory");
		n->fd = pin;
		n->next = *bucket;
		*bucket = n;
	}
	n->st = st;
	n->until = now() + attributes_s;
	*node = n;
	return 0;
}

static struct name **find_name(struct node *dir, const char *text)
{
	struct name **at = &dir->names;

	while (*at && strcmp((*at)->text, text))
		at = &(*at)->next;
	return at;
}

static struct node *known(struct node *dir, const char *text)
{
	struct name *name = *find_name(dir, text);

	return name ? name->node : NULL;
}

static void forget_name(struct node *dir, const char *text)
{
	struct name **at = find_name(dir, text), *name = *at;

	if (name)
		*at = name->next;
	free(name);
}

static void know_name(struct node *dir, const char *text, struct node *n)
{
	struct name *name = malloc(sizeof(*name) + strlen(text) + 1);

	if (!name)
		err(1, "memory");
	forget_name(dir, text);
	strcpy(name->text, text);
	name->node = n;
	name->next = dir->names;
	dir->names = name;
}

/* What is remembered of @name, if it is what that is. */
static struct node *really(struct node *dir, const char *name)
{
	struct node *n = known(dir, name);
	struct stat st;

	return n && !fstatat(dir->fd, name, &st, AT_SYMLINK_NOFOLLOW) &&
			       st.st_ino == n->st.st_ino && st.st_dev == n->st.st_dev
		       ? n
		       : NULL;
}

/* This client has taken a name of @n. */
static void lost_name(struct node *n)
{
	if (n)
		ask(n);
	if (n && !n->st.st_nlink)
		n->removed = true;
}

static int ask_name(struct node *dir, const char *name, struct node **n)
{
	int error = meet(openat(dir->fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC), n);

	if (error)
		forget_name(dir, name);
	else
		know_name(dir, name, *n);
	return error;
}

static void path_of(int fd, char path[PROC_MAX])
{
	snprintf(path, PROC_MAX, "/proc/self/fd/%d", fd);
}

/* For calls that go to an inode, whoever has it open: there is none any more that has no name. */
static int reach(struct node *n, char path[PROC_MAX])
{
	struct stat st;

	path_of(n->fd, path);
	if (!fstatat(n->fd, "", &st, AT_EMPTY_PATH) && st.st_nlink)
		return 0;
	n->until = 0;
	return ESTALE;
}

/* --- answers --- */

static struct fuse_entry_param entry_of(struct node *n)
{
	return (struct fuse_entry_param){.ino = n == root ? FUSE_ROOT_ID : (uintptr_t)n,
					 .attr = n->st,
					 .attr_timeout = attributes_s,
					 .entry_timeout = names_s};
}

static void answer(fuse_req_t req, int error, struct node *n)
{
	struct fuse_entry_param e = {.entry_timeout = absent_s};

	if (!error)
		e = entry_of(n);
	if (error && error != ENOENT)
		fuse_reply_err(req, error);
	else
		fuse_reply_entry(req, &e);
}

/* Of a call that gave @failed, and made @name. */
static void answer_made(fuse_req_t req, bool failed, struct node *dir, const char *name)
{
	int error = failed ? errno : 0;
	struct node *n;

	pthread_mutex_lock(&lock);
	if (!error)
		error = ask_name(dir, name, &n);
	ask(dir);
	if (error)
		fuse_reply_err(req, error);
	else
		answer(req, 0, n);
	pthread_mutex_unlock(&lock);
}

static void act_as_caller(fuse_req_t req)
{
	setfsgid(fuse_req_ctx(req)->gid);
	setfsuid(fuse_req_ctx(req)->uid);
}

static void act_as_self(void)
{
	int number = errno;

	setfsuid(0);
	setfsgid(0);
	errno = number;
}

/* --- names --- */

static void do_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct node *dir = node_at(parent), *n;
	int error = 0;

	pthread_mutex_lock(&lock);
	n = known(dir, name);
	if (!n || !remembers(n))
		error = ask_name(dir, name, &n);
	answer(req, error, n);
	pthread_mutex_unlock(&lock);
}

static void do_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
	struct node *dir = node_at(parent);
	int r;

	act_as_caller(req);
	r = mkdirat(dir->fd, name, mode);
	act_as_self();
	answer_made(req, r, dir, name);
}

static void do_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name)
{
	struct node *dir = node_at(parent);
	int r;

	act_as_caller(req);
	r = symlinkat(target, dir->fd, name);
	act_as_self();
	answer_made(req, r, dir, name);
}

static void do_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t parent, const char *name)
{
	struct node *dir = node_at(parent);
	char path[PROC_MAX];

	path_of(node_at(ino)->fd, path);
	answer_made(req, linkat(AT_FDCWD, path, dir->fd, name, AT_SYMLINK_FOLLOW), dir, name);
}

static void remove_name(fuse_req_t req, fuse_ino_t parent, const char *name, int flags)
{
	struct node *dir = node_at(parent), *n;
	int error;

	pthread_mutex_lock(&lock);
	n = really(dir, name);
	error = unlinkat(dir->fd, name, flags) ? errno : 0;
	if (!error)
		lost_name(n);
	if (!error || error == ENOENT)
		forget_name(dir, name);
	ask(dir);
	fuse_reply_err(req, error);
	pthread_mutex_unlock(&lock);
}

static void do_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	remove_name(req, parent, name, 0);
}

static void do_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	remove_name(req, parent, name, AT_REMOVEDIR);
}

static void do_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t to_parent,
		      const char *to_name, unsigned flags)
{
	struct node *dir = node_at(parent), *to_dir = node_at(to_parent), *n, *replaced;
	int error = EINVAL;

	pthread_mutex_lock(&lock);
	replaced = really(to_dir, to_name);
	if (!flags)
		error = renameat(dir->fd, name, to_dir->fd, to_name) ? errno : 0;
	if (!error) {
		lost_name(replaced);
		forget_name(dir, name);
		ask_name(to_dir, to_name, &n);
		ask(dir);
		ask(to_dir);
	}
	fuse_reply_err(req, error);
	pthread_mutex_unlock(&lock);
}

static void do_readlink(fuse_req_t req, fuse_ino_t ino)
{
	char target[PATH_MAX + 1];
	ssize_t len = readlinkat(node_at(ino)->fd, "", target, PATH_MAX);

	if (len < 0) {
		fuse_reply_err(req, errno);
		return;
	}
	target[len] = '\0';
	fuse_reply_readlink(req, target);
}

/* --- attributes --- */

static void do_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct node *n = node_at(ino);
	int error;

	(void)fi;
	pthread_mutex_lock(&lock);
	error = remembers(n) ? 0 : ask(n);
	if (error)
		fuse_reply_err(req, error);
	else
		fuse_reply_attr(req, &n->st, attributes_s);
	pthread_mutex_unlock(&lock);
}

static struct timespec time_of(struct timespec t, int set, int given, int at_once)
{
	if (set & at_once)
		return (struct timespec){.tv_nsec = UTIME_NOW};
	return set & given ? t : (struct timespec){.tv_nsec = UTIME_OMIT};
}

static int change(struct node *n, const char *path, const struct stat *st, int set)
{
	const struct timespec times[] = {
		time_of(st->st_atim, set, FUSE_SET_ATTR_ATIME, FUSE_SET_ATTR_ATIME_NOW),
		time_of(st->st_mtim, set, FUSE_SET_ATTR_MTIME, FUSE_SET_ATTR_MTIME_NOW),
	};
	uid_t uid = set & FUSE_SET_ATTR_UID ? st->st_uid : (uid_t)-1;
	gid_t gid = set & FUSE_SET_ATTR_GID ? st->st_gid : (gid_t)-1;

	if ((set & FUSE_SET_ATTR_SIZE) && truncate(path, st->st_size))
		return errno;
	if ((set & (FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID)) &&
	    fchownat(n->fd, "", uid, gid, AT_EMPTY_PATH))
		return errno;
	if ((set & FUSE_SET_ATTR_MODE) && chmod(path, st->st_mode))
		return errno;
	if ((set & (FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_MTIME)) &&
	    utimensat(n->fd, "", times, AT_EMPTY_PATH))
		return errno;
	return 0;
}

static void do_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *st, int set,
		       struct fuse_file_info *fi)
{
	struct node *n = node_at(ino);
	char path[PROC_MAX];
	int error;

	(void)fi;
	pthread_mutex_lock(&lock);
	path_of(n->fd, path);
	error = ask(n);
	if (!error)
		error = change(n, path, st, set);
	if (!error)
		error = ask(n);
	if (error)
		fuse_reply_err(req, error);
	else
		fuse_reply_attr(req, &n->st, attributes_s);
	pthread_mutex_unlock(&lock);
}

/* --- files --- */

/* The server hears of an open only when something is done with it. */
struct handle {
	int fd;
	bool is_open;
	bool too_late; /* it was removed here before */
};

static struct handle *handle_of(struct fuse_file_info *fi)
{
	return (struct handle *)(uintptr_t)fi->fh;
}

static struct handle *new_handle(int fd, const struct node *n, bool is_open)
{
	struct handle *h = calloc(1, sizeof(*h));

	if (!h)
		err(1, "memory");
	*h = (struct handle){.fd = fd, .is_open = is_open, .too_late = n->removed};
	return h;
}

/* Lock held. What this client removes itself it opens before, where that is still to be done. */
static int use(struct node *n, struct handle *h)
{
	struct stat st;

	if (h->is_open)
		return 0;
	if (h->too_late || fstat(h->fd, &st) || (!st.st_nlink && !n->removed)) {
		n->until = 0;
		return ESTALE;
	}
	h->is_open = true;
	n->opens++;
	return 0;
}

static int use_locked(struct node *n, struct handle *h)
{
	int error;

	pthread_mutex_lock(&lock);
	error = use(n, h);
	pthread_mutex_unlock(&lock);
	return error;
}

static void do_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct node *n = node_at(ino);
	struct handle *h = NULL;
	char path[PROC_MAX];
	int fd, error = 0;

	path_of(n->fd, path);
	pthread_mutex_lock(&lock);
	if (fi->flags & O_TRUNC)
		error = reach(n, path);
	fd = error ? -1 : open(path, (fi->flags & ~(O_NOFOLLOW | O_DIRECT)) | O_CLOEXEC);
	if (!error && fd < 0)
		error = errno;
	if (!error)
		h = new_handle(fd, n, false);
	if (!error && fi->flags & O_TRUNC) {
		use(n, h);
		ask(n);
	}
	pthread_mutex_unlock(&lock);
	fi->fh = (uintptr_t)h;
	if (error)
		fuse_reply_err(req, error);
	else
		fuse_reply_open(req, fi);
}

static void do_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
		      struct fuse_file_info *fi)
{
	struct node *dir = node_at(parent), *n;
	struct fuse_entry_param e;
	char path[PROC_MAX];
	int fd, error;

	fi->fh = 0;
	act_as_caller(req);
	fd = openat(dir->fd, name, (fi->flags & ~O_DIRECT) | O_CREAT | O_NOFOLLOW | O_CLOEXEC,
		    mode);
	act_as_self();
	if (fd < 0) {
		fuse_reply_err(req, errno);
		return;
	}
	path_of(fd, path);
	pthread_mutex_lock(&lock);
	error = meet(open(path, O_PATH | O_CLOEXEC), &n);
	if (!error) {
		n->opens++;
		fi->fh = (uintptr_t)new_handle(fd, n, true);
		know_name(dir, name, n);
		ask(dir);
		e = entry_of(n);
	}
	pthread_mutex_unlock(&lock);
	if (error) {
		close(fd);
		fuse_reply_err(req, error);
	} else {
		fuse_reply_create(req, &e, fi);
	}
}

static void do_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
		    struct fuse_file_info *fi)
{
	struct fuse_bufvec data = FUSE_BUFVEC_INIT(size);
	int error = use_locked(node_at(ino), handle_of(fi));

	data.buf[0].flags = FUSE_BUF_IS_FD | FUSE_BUF_FD_SEEK;
	data.buf[0].fd = handle_of(fi)->fd;
	data.buf[0].pos = off;
	if (error)
		fuse_reply_err(req, error);
	else
		fuse_reply_data(req, &data, 0);
}

static void do_write(fuse_req_t req, fuse_ino_t ino, const char *data, size_t size, off_t off,
		     struct fuse_file_info *fi)
{
	int error = use_locked(node_at(ino), handle_of(fi));
	ssize_t written = error ? 0 : pwrite(handle_of(fi)->fd, data, size, off);

	if (written < 0)
		error = errno;
	pthread_mutex_lock(&lock);
	if (!error)
		ask(node_at(ino));
	pthread_mutex_unlock(&lock);
	if (error)
		fuse_reply_err(req, error);
	else
		fuse_reply_write(req, (size_t)written);
}

static void do_fsync(fuse_req_t req, fuse_ino_t ino, int only_data, struct fuse_file_info *fi)
{
	int error = use_locked(node_at(ino), handle_of(fi)), fd = handle_of(fi)->fd;

	if (!error && (only_data ? fdatasync(fd) : fsync(fd)))
		error = errno;
	pthread_mutex_lock(&lock);
	if (!error)
		ask(node_at(ino));
	pthread_mutex_unlock(&lock);
	fuse_reply_err(req, error);
}

static void do_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct handle *h = handle_of(fi);

	pthread_mutex_lock(&lock);
	node_at(ino)->opens -= h->is_open;
	pthread_mutex_unlock(&lock);
	close(h->fd);
	free(h);
	fuse_reply_err(req, 0);
}

/* --- directories --- */

static DIR *dir_of(struct fuse_file_info *fi)
{
	return (DIR *)(uintptr_t)fi->fh;
}

static void do_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct node *n = node_at(ino);
	char path[PROC_MAX];
	DIR *dir = NULL;
	int error;

	pthread_mutex_lock(&lock);
	error = reach(n, path);
	pthread_mutex_unlock(&lock);
	if (!error)
		dir = opendir(path);
	if (!error && !dir)
		error = errno;
	fi->fh = (uintptr_t)dir;
	if (error)
		fuse_reply_err(req, error);
	else
		fuse_reply_open(req, fi);
}

static void do_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
		       struct fuse_file_info *fi)
{
	char *data = malloc(size);
	struct dirent *entry;
	size_t len = 0, more;

	(void)ino;
	if (!data)
		err(1, "memory");
	if (off)
		seekdir(dir_of(fi), off);
	else
		rewinddir(dir_of(fi));
	while ((entry = readdir(dir_of(fi)))) {
		const struct stat st = {.st_ino = entry->d_ino, .st_mode = DTTOIF(entry->d_type)};

		more = fuse_add_direntry(req, data + len, size - len, entry->d_name, &st,
					 entry->d_off);
		if (more > size - len)
			break;
		len += more;
	}
	fuse_reply_buf(req, data, len);
	free(data);
}

static void do_fsyncdir(fuse_req_t req, fuse_ino_t ino, int only_data, struct fuse_file_info *fi)
{
	int fd = dirfd(dir_of(fi));

	(void)ino;
	fuse_reply_err(req, (only_data ? fdatasync(fd) : fsync(fd)) ? errno : 0);
}

static void do_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	(void)ino;
	closedir(dir_of(fi));
	fuse_reply_err(req, 0);
}

static void do_statfs(fuse_req_t req, fuse_ino_t ino)
{
	struct statvfs st;

	(void)ino;
	if (fstatvfs(root->fd, &st))
		fuse_reply_err(req, errno);
	else
		fuse_reply_statfs(req, &st);
}

/* --- extended attributes: always true --- */

static int reach_locked(fuse_ino_t ino, char path[PROC_MAX])
{
	int error;

	pthread_mutex_lock(&lock);
	error = reach(node_at(ino), path);
	pthread_mutex_unlock(&lock);
	return error;
}

static void answer_xattr(fuse_req_t req, ssize_t len, const char *data, size_t size)
{
	if (len < 0)
		fuse_reply_err(req, errno);
	else if (size)
		fuse_reply_buf(req, data, (size_t)len);
	else
		fuse_reply_xattr(req, (size_t)len);
}

static void do_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
	char path[PROC_MAX], data[XATTR_SIZE_MAX];

	errno = reach_locked(ino, path);
	answer_xattr(req, errno ? -1 : getxattr(path, name, data, size), data, size);
}

static void do_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size)
{
	char path[PROC_MAX], data[XATTR_LIST_MAX];

	errno = reach_locked(ino, path);
	answer_xattr(req, errno ? -1 : listxattr(path, data, size), data, size);
}

static void do_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value,
			size_t size, int flags)
{
	char path[PROC_MAX];

	errno = reach_locked(ino, path);
	fuse_reply_err(req, errno || setxattr(path, name, value, size, flags) ? errno : 0);
}

static void do_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name)
{
	char path[PROC_MAX];

	errno = reach_locked(ino, path);
	fuse_reply_err(req, errno || removexattr(path, name) ? errno : 0);
}

static const struct fuse_lowlevel_ops ops = {
	.lookup = do_lookup,
	.getattr = do_getattr,
	.setattr = do_setattr,
	.readlink = do_readlink,
	.mkdir = do_mkdir,
	.unlink = do_unlink,
	.rmdir = do_rmdir,
	.symlink = do_symlink,
	.rename = do_rename,
	.link = do_link,
	.open = do_open,
	.create = do_create,
	.read = do_read,
	.write = do_write,
	.fsync = do_fsync,
	.release = do_release,
	.opendir = do_opendir,
	.readdir = do_readdir,
	.fsyncdir = do_fsyncdir,
	.releasedir = do_releasedir,
	.statfs = do_statfs,
	.getxattr = do_getxattr,
	.listxattr = do_listxattr,
	.setxattr = do_setxattr,
	.removexattr = do_removexattr,
};

static double seconds(const char *text)
{
	char *end;
	double s = strtod(text, &end);

	if (end == text || *end || !(s >= 0))
		errx(2, "'%s' is no number of seconds", text);
	return s;
}

static void parse(int argc, char **argv)
{
	static const struct option options[] = {
		{"names", required_argument, NULL, 'n'},
		{"absent", required_argument, NULL, 'b'},
		{"attributes", required_argument, NULL, 'a'},
		{0},
	};
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) >= 0) {
		if (option == 'n')
			names_s = seconds(optarg);
		else if (option == 'b')
			absent_s = seconds(optarg);
		else if (option == 'a')
			attributes_s = seconds(optarg);
		else
			exit(2);
	}
	if (argc - optind != 2)
		errx(2, "usage: fs_remembers [--names SECONDS] [--absent SECONDS] "
			"[--attributes SECONDS] SOURCE POINT");
}

static void allow_many_files(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		err(1, "limit of files");
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit))
		err(1, "limit of files");
}

int main(int argc, char **argv)
{
	char *fuse_argv[] = {"fs_remembers", "-oallow_other,default_permissions", NULL};
	struct fuse_args args = FUSE_ARGS_INIT(2, fuse_argv);
	struct fuse_session *session;

	parse(argc, argv);
	allow_many_files();
	umask(0);
	errno = meet(open(argv[optind], O_PATH | O_DIRECTORY | O_CLOEXEC), &root);
	if (errno)
		err(1, "%s", argv[optind]);
	session = fuse_session_new(&args, &ops, sizeof(ops), NULL);
	if (!session || fuse_session_mount(session, argv[optind + 1]) || fuse_daemonize(false))
		errx(1, "cannot mount on %s", argv[optind + 1]);
	if (fuse_session_loop_mt(session, false))
		errx(1, "the filesystem has failed");
	fuse_session_unmount(session);
	fuse_session_destroy(session);
	return 0;
}
