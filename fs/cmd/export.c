/* SPDX-License-Identifier: MIT */
/*
 * ckptfs export: writes the files that a view shows. They are made in a hidden directory beside
 * their place, and get it by one rename. A file there that has its name is whole: so an export that
 * was cut short goes on where it was.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "engine/base/cleanup.h"
#include "engine/base/message.h"
#include "engine/tensors/read.h"
#include "engine/views/view.h"
#include "fs/cmd/cmd.h"
#include "fs/cmd/export_beside.h"
#include "fs/show.h"
#include "fs/view_assets.h"
#include "fs/view_files.h"

#define THREADS_MAX 16
#define BLOCK	    ((uint64_t)4 << 20)
#define KEY	    ".ckptfs-export" /* in the hidden directory: what is exported there */
#define KEY_MAX	    (PATH_MAX + 512)
#define TMP	    ".tmp" /* behind the name of a file that is not whole yet */
#define SHOWN_WHY   10
#define SPEC_MARK   "/.view/"

struct export
{
	bool json, partial;
	const char *dst;
	char unit[PATH_MAX];
	struct export_beside beside; /* with the spec */
	struct tree tree;
	struct view *view;
	struct view_files files;
	int parent, dir;	    /* of the destination; the hidden one */
	char name[NAME_MAX + 1];    /* of the destination in the parent */
	char hidden[NAME_MAX + 16]; /* of the hidden one */
	int out;		    /* the file that is written */
	size_t file;
	atomic_ullong next; /* the first byte of it that no thread has taken */
	atomic_ullong done; /* bytes of all files */
	atomic_int err;
	uint64_t total;
	struct progress_line progress;
};

/* --- what --- */

static int open_source(void *export, const char *path)
{
	const struct export *x = export;
	int fd = openat(x->tree.dir, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static const struct view_files_ops files_ops = {.open = open_source};

/* Splits UNIT/.view/SPEC. */
static int read_place(struct export *x, const char *place)
{
	const char *mark = NULL, *next = place;
	size_t len;

	while ((next = strstr(next, SPEC_MARK)))
		mark = next++;
	len = mark ? (size_t)(mark - place) : strlen(place);

	if (len >= sizeof(x->unit) || (mark && strlen(mark + strlen(SPEC_MARK)) > SPEC_TEXT_MAX))
		return -ENAMETOOLONG;
	memcpy(x->unit, place, len);
	x->unit[len] = '\0';
	if (mark)
		strcpy(x->beside.spec, mark + strlen(SPEC_MARK));
	if (!*x->beside.spec)
		strcpy(x->beside.spec, "safetensors");
	return 0;
}

/* Opens the checkpoint, and makes the view. False: it has complained. */
static bool make_view(struct export *x)
{
	char text[MESSAGE_MAX], why[SPEC_WHY_MAX] = "";
	const struct view_beside beside = {.read = export_read_beside, .arg = &x->beside};
	struct index *ix = NULL;
	int err = tree_open(&x->tree, x->unit);

	x->beside.unit = x->tree.dir;
	if (!err)
		err = index_of(&ix, &x->tree, false);
	if (err) {
		MESSAGE(text, TENSORS_UNREADABLE, x->unit, strerror(-err));
		fail_verb(x->json, err, text);
		return false;
	}
	if (export_assets_problem(&x->beside, why))
		err = -EINVAL;
	if (err)
		index_destroy(ix);
	else
		err = view_create(&x->view, ix, x->beside.spec, &beside, why);
	if (!err)
		err = view_files_init(&x->files, x->view, &files_ops, x);
	if (err) {
		MESSAGE(text, VIEW_WRONG, x->beside.spec, *why ? why : strerror(-err));
		fail_verb(x->json, err, text);
	}
	return !err;
}

/* False: it has complained, as not all that is asked for can be shown. */
static bool is_shown(struct export *x)
{
	const struct view *v = x->view;
	char text[MESSAGE_MAX];
	const char *line = v->why;

	if (v->nr_tensors && (x->partial || !v->nr_not_shown))
		return true;
	for (unsigned i = 0; i < SHOWN_WHY && *line;) {
		int len = (int)strcspn(line, "\n");

		if (!v->nr_not_shown || strncmp(line, VIEW_NOTE, strlen(VIEW_NOTE)) != 0) {
			fprintf(stderr, "  %.*s\n", len, line);
			i++;
		}
		line += len + (line[len] == '\n');
	}
	if (v->nr_tensors)
		MESSAGE(text, EXPORT_PARTIAL, x->unit, v->nr_not_shown);
	else
		MESSAGE(text, EXPORT_NOTHING, x->unit, x->beside.spec);
	fail_verb(x->json, -ENODATA, text);
	return false;
}

/* --- where --- */

static int remove_all(int dir)
{
	DIR *d = fdopendir(openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	struct dirent *e;

	if (!d)
		return -errno;
	while ((e = readdir(d)))
		if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
			unlinkat(dir, e->d_name, 0);
	closedir(d);
	return 0;
}

/* What tells a file from another, and from what it was before a change. */
static int add_state(XXH3_state_t *state, int dir, const char *path)
{
	struct stat st;

	if (fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW))
		return -errno;
	XXH3_64bits_update(state, &st.st_ino, sizeof(st.st_ino));
	XXH3_64bits_update(state, &st.st_size, sizeof(st.st_size));
	XXH3_64bits_update(state, &st.st_mtim, sizeof(st.st_mtim));
	XXH3_64bits_update(state, &st.st_ctim, sizeof(st.st_ctim));
	return 0;
}

/* What the hidden directory is for: exports of the same files, as they are now, are one. */
static int make_key(struct export *x, char *key, size_t size)
{
	XXH3_state_t *state = XXH3_createState();
	int err = state ? 0 : -ENOMEM;

	if (state)
		XXH3_64bits_reset(state);
	for (size_t i = 0; i < x->view->nr_paths && !err; i++)
		err = add_state(state, x->tree.dir, x->view->paths[i]);
	if (!err)
		snprintf(key, size, "%s\n%s\n%016llx\n%016llx\n%zu\n", x->unit, x->beside.spec,
			 (unsigned long long)XXH3_64bits_digest(state),
			 (unsigned long long)x->beside.state, x->view->nr_files);
	XXH3_freeState(state);
	return err;
}

/* Begins, or goes on if the hidden directory is for the same. */
static int begin(struct export *x)
{
	char key[KEY_MAX], there[KEY_MAX] = "";
	int err = make_key(x, key, sizeof(key)), fd;

	if (err)
		return err;
	fd = openat(x->dir, KEY, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0) {
		ssize_t n = read(fd, there, sizeof(there) - 1);

		there[n > 0 ? n : 0] = '\0';
		close(fd);
	}
	if (!strcmp(key, there))
		return 0;
	err = remove_all(x->dir);
	fd = err ? err : openat(x->dir, KEY, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return err ? err : -errno;
	err = write(fd, key, strlen(key)) == (ssize_t)strlen(key) ? 0 : -EIO;
	close(fd);
	return err;
}

/* Locks the hidden directory, which another export may give its name at any moment. */
static int lock_hidden(struct export *x)
{
	struct stat mine, there;

	if (flock(x->dir, LOCK_EX | LOCK_NB) || fstat(x->dir, &mine) ||
	    fstatat(x->parent, x->hidden, &there, AT_SYMLINK_NOFOLLOW) ||
	    mine.st_ino != there.st_ino || mine.st_dev != there.st_dev)
		return -EBUSY;
	return fstatat(x->parent, x->name, &there, AT_SYMLINK_NOFOLLOW) ? begin(x) : -EEXIST;
}

/* Makes or takes up the hidden directory. -EBUSY: another process is exporting there. */
static int open_hidden(struct export *x)
{
	char path[PATH_MAX], *slash;
	struct stat st;

	snprintf(path, sizeof(path), "%s", x->dst);
	while ((slash = strrchr(path, '/')) && slash != path && !slash[1])
		*slash = '\0';
	if (strlen(slash ? slash + 1 : path) >= sizeof(x->name))
		return -ENAMETOOLONG;
	strcpy(x->name, slash ? slash + 1 : path);
	if (slash)
		slash[slash == path] = '\0';
	x->parent = open(slash ? path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (x->parent < 0)
		return -errno;
	if (!fstatat(x->parent, x->name, &st, AT_SYMLINK_NOFOLLOW))
		return -EEXIST;
	snprintf(x->hidden, sizeof(x->hidden), ".%s.part", x->name);
	if (mkdirat(x->parent, x->hidden, 0777) && errno != EEXIST)
		return -errno;
	x->dir = openat(x->parent, x->hidden, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (x->dir < 0)
		return -errno;
	return lock_hidden(x);
}

/* --- the bytes --- */

static int write_all(int fd, const char *buf, size_t len, uint64_t off)
{
	while (len) {
		ssize_t n = pwrite(fd, buf, len, (off_t)off);

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0) {
			buf += n;
			off += (uint64_t)n;
			len -= (size_t)n;
		}
	}
	return 0;
}

/* A thread: takes a block after another of the file. */
static void *write_blocks(void *arg)
{
	struct export *x = arg;
	struct view_source src = view_files_source(&x->files);
	__cleanup_free char *buf = malloc(BLOCK);
	int err = buf ? 0 : -ENOMEM;

	while (!err && !atomic_load(&x->err)) {
		uint64_t off = atomic_fetch_add(&x->next, BLOCK);
		ssize_t n = view_read(x->view, x->file, buf, BLOCK, off, &src);

		if (!n)
			break;
		err = n < 0 ? (int)n : write_all(x->out, buf, (size_t)n, off);
		if (!err)
			atomic_fetch_add(&x->done, (unsigned long long)n);
	}
	if (err)
		atomic_store(&x->err, err);
	return NULL;
}

static void show(struct export *x)
{
	progress_line_show(&x->progress, "%.0f of %.0f MB written",
			   (double)atomic_load(&x->done) / 1e6, (double)x->total / 1e6);
}

/* Writes the file by several threads, of which this is one that only shows how far they are. */
static int write_parallel(struct export *x)
{
	uint64_t blocks = x->view->files[x->file].size / BLOCK + 1;
	long nr = sysconf(_SC_NPROCESSORS_ONLN);
	pthread_t threads[THREADS_MAX];
	int started = 0;

	nr = nr < 2 ? 2 : nr > THREADS_MAX ? THREADS_MAX : nr;
	nr = (uint64_t)nr < blocks ? nr : (long)blocks;
	atomic_store(&x->next, 0);
	while (started < nr && !pthread_create(&threads[started], NULL, write_blocks, x))
		started++;
	if (!started)
		write_blocks(x);
	for (int i = 0; i < started; i++) {
		struct timespec end;

		do {
			show(x);
			clock_gettime(CLOCK_REALTIME, &end);
			end.tv_sec++;
		} while (pthread_timedjoin_np(threads[i], NULL, &end) == ETIMEDOUT);
	}
	return atomic_load(&x->err);
}

static int write_file(struct export *x, size_t nr)
{
	const struct view_file *f = &x->view->files[nr];
	char name[NAME_MAX + sizeof(TMP)];
	struct stat st;
	int err;

	if (!fstatat(x->dir, f->name, &st, AT_SYMLINK_NOFOLLOW)) {
		atomic_fetch_add(&x->done, f->size); /* an export before has written it */
		return 0;
	}
	snprintf(name, sizeof(name), "%.240s" TMP, f->name);
	x->file = nr;
	x->out = openat(x->dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
	if (x->out < 0)
		return -errno;
	err = write_parallel(x);
	if (!err && fsync(x->out))
		err = -errno;
	if (close(x->out) && !err)
		err = -errno;
	if (!err && renameat(x->dir, name, x->dir, f->name))
		err = -errno;
	return err;
}

static int copy_asset(struct export *x, int from, bool own, const char *name)
{
	/* A link of the checkpoint may lead to what its owner cannot read, but this user can. */
	int flags = own ? O_NOFOLLOW : 0, out, err = 0;
	int in = openat(from, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC | flags);
	char buf[65536];
	struct stat st;
	ssize_t n;

	if (in < 0 && errno != ENOENT)
		return -errno;
	unlinkat(x->dir, name, 0); /* of an export before */
	if (in < 0)
		return 0;
	if (fstat(in, &st) || !S_ISREG(st.st_mode)) {
		close(in);
		return -EINVAL;
	}
	out = openat(x->dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
	if (out < 0)
		err = -errno;
	for (uint64_t at = 0; !err && (n = read(in, buf, sizeof(buf))); at += (uint64_t)n)
		err = n < 0 ? -errno : write_all(out, buf, (size_t)n, at);
	if (!err && fsync(out))
		err = -errno;
	if (out >= 0)
		close(out);
	close(in);
	return err;
}

static int copy_assets(struct export *x)
{
	bool own;
	int from = export_assets(&x->beside, &own), err = from < 0 ? from : 0;

	for (size_t i = 0; view_asset(i) && !err; i++)
		err = copy_asset(x, from, own, view_asset(i));
	if (from >= 0)
		close(from);
	return err;
}

/* It appears, whole. */
static int give_name(struct export *x)
{
	if (unlinkat(x->dir, KEY, 0) || fsync(x->dir))
		return -errno;
	if (renameat2(x->parent, x->hidden, x->parent, x->name, RENAME_NOREPLACE) &&
	    (errno != EINVAL || renameat(x->parent, x->hidden, x->parent, x->name)))
		return -errno;
	return fsync(x->parent) ? -errno : 0;
}

static int write_files(struct export *x)
{
	int err = open_hidden(x);

	for (size_t i = 0; i < x->view->nr_files; i++)
		x->total += x->view->files[i].size;
	x->progress = progress_line_start(x->json);
	if (!err)
		err = copy_assets(x); /* few: what is wrong with them is known early */
	for (size_t i = 0; i < x->view->nr_files && !err; i++)
		err = write_file(x, i);
	progress_line_end(&x->progress);
	return err ? err : give_name(x);
}

static int export(struct export *x)
{
	char text[MESSAGE_MAX], size[SHOW_MAX];
	int err;

	if (!make_view(x) || !is_shown(x))
		return EXIT_NO;
	err = write_files(x);
	if (err == -EEXIST)
		MESSAGE(text, EXPORT_EXISTS, x->dst);
	else if (err == -EBUSY)
		MESSAGE(text, EXPORT_BUSY, x->dst);
	else if (err)
		MESSAGE(text, EXPORT_FAILED, x->unit, x->dst, strerror(-err));
	if (err)
		return fail_verb(x->json, err, text);
	show_size(size, (double)x->total);
	if (x->json)
		printf("{\"ok\": true, \"files\": %zu, \"bytes\": %llu, \"tensors\": %zu}\n",
		       x->view->nr_files, (unsigned long long)x->total, x->view->nr_tensors);
	else
		printf("%zu tensors, %s, in %zu files: %s\n", x->view->nr_tensors, size,
		       x->view->nr_files, x->dst);
	return EXIT_DONE;
}

static void release(struct export *x)
{
	if (x->view && x->files.fds)
		view_files_finish(&x->files);
	view_destroy(x->view);
	tree_close(&x->tree);
	if (x->dir >= 0)
		close(x->dir);
	if (x->parent >= 0)
		close(x->parent);
}

static const struct option longs[] = {{"help", no_argument, NULL, 'h'},
				      {"json", no_argument, NULL, 'j'},
				      {"partial", no_argument, NULL, 'p'},
				      {"assets", required_argument, NULL, 'a'},
				      {NULL, 0, NULL, 0}};

static int run_export(const struct verb *v, int argc, char **argv)
{
	struct export x = {.tree = TREE_CLOSED, .dir = -1, .parent = -1};
	int c, status;

	while ((c = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
		if (c == 'h')
			return verb_help(v);
		if (c == '?')
			return option_error(v, argv);
		x.json |= c == 'j';
		x.partial |= c == 'p';
		x.beside.assets = c == 'a' ? optarg : x.beside.assets;
	}
	if (argc - optind != 2)
		return usage_error(v, "give a checkpoint, and a directory to make");
	x.dst = argv[optind + 1];
	if (read_place(&x, argv[optind]))
		return usage_error(v, "%s is too long", argv[optind]);
	status = export(&x);
	release(&x);
	return status;
}

const struct verb verb_export = {
	.name = "export",
	.args = "[--assets DIR] [--partial] [--json] UNIT[/.view/SPEC] DST",
	.summary = "write its tensors as Hugging Face files",
	.help = "Writes the tensors of the checkpoint UNIT, whoever wrote it, into the new "
		"directory\n"
		"DST: as model.safetensors, or as several files with an index, as Hugging Face "
		"has\n"
		"them. UNIT may lie in a mount, in a backing, or anywhere; no mount is needed. "
		"DST\n"
		"appears when all is written. An export that was cut short goes on when it is "
		"asked\n"
		"for again.\n"
		"\n"
		"SPEC says which tensors, and how: words joined by commas (ckptfs-views(5)).\n"
		"  part=model           or optimizer, other, all; master: the fp32 parameters of "
		"ZeRO\n"
		"  only=GLOB            names that match; may be given again\n"
		"  strip=PREFIX         without that at the start of names\n"
		"  scope=FILE           of that file, where several have tensors of one name\n"
		"  map=NAME             under other names, and in other shapes, as NAME.json says; "
		"built\n"
		"                       in: megatron-llama, torchtitan-llama\n"
		"  dtype=bf16           round F64, F32 and F16 to BF16\n"
		"  max=SIZE             of a file; default 5G\n"
		"  npy                  a file of NumPy for each tensor\n"
		"  dcp,n=N              as torch.distributed.checkpoint writes them, in N files\n"
		"  layout=NAME,tp=N,pp=N,dp=N\n"
		"                       a file for each rank, as NAME.json says; built in: llama\n"
		"  assets=NAME          as --assets, a directory in UNIT or above it\n"
		"\n"
		"Exit 1, with nothing written, if a tensor that is asked for cannot be shown "
		"whole.\n"
		"\n"
		"  --assets DIR         copy config.json, tokenizer files and the like from DIR, "
		"not\n"
		"                       from UNIT\n"
		"  --partial            write the tensors that can be shown\n"
		"  --json               for machines\n",
	.longs = longs,
	.run = run_export,
};
