/* SPDX-License-Identifier: MIT */
#include "fs/foreign.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/appear.h"
#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/message.h"
#include "engine/base/source.h"
#include "engine/content/digest.h"
#include "engine/content/structure.h"
#include "engine/format/commit.h"
#include "engine/format/names.h"
#include "engine/rule/rule.h"
#include "engine/tensors/read.h"
#include "fs/record.h"

#define THREADS	     8
#define QUIET_S	     60 /* a younger file may still be written; too short adopts a torn one */
#define METADATA_MAX (1u << 30) /* bytes; a larger .metadata or index is not read */
#define OPEN_DIR     (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#define OPEN_FILE    (O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)

static int refuse(const struct foreign *f, int err, const char *why, struct error *e)
{
	return FAIL(e, err, FOREIGN_LEFT, f->shown, f->rule->name, why);
}

/* --- which rule claims it --- */

static bool is_beside(void *arg, const char *name)
{
	(void)arg, (void)name;
	return false; /* what is beside it marks an unfinished one at most */
}

static DIR *open_list(int dir)
{
	int fd = openat(dir, ".", OPEN_DIR);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);

	if (fd >= 0 && !d)
		close(fd);
	return d;
}

const struct rule *foreign_rule(const struct rules *rs, const char *path, int dir)
{
	const struct rule *r = NULL;
	struct dirent *entry;
	DIR *d = open_list(dir);

	while (d && !r && (entry = readdir(d)))
		if (entry->d_type == DT_REG || entry->d_type == DT_UNKNOWN)
			r = rules_claim(rs, path, entry->d_name, is_beside, NULL);
	if (d)
		closedir(d);
	return r;
}

bool foreign_is_empty(int dir)
{
	struct dirent *entry;
	DIR *d = open_list(dir);
	bool empty = d != NULL;

	while (empty && (entry = readdir(d)))
		empty = !strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..");
	if (d)
		closedir(d);
	return empty;
}

/* --- whether all of it is there --- */

static bool is_there(const struct foreign *f, const char *name)
{
	struct stat st;

	return !fstatat(f->dir, name, &st, AT_SYMLINK_NOFOLLOW) && S_ISREG(st.st_mode) &&
	       st.st_size;
}

static int check_named(const struct foreign *f, const char *by, const char *name, struct error *e)
{
	char why[NAME_MAX * 2 + 64];

	if (strchr(name, '/') || is_there(f, name))
		return 0;
	snprintf(why, sizeof(why), "its %.255s names %.255s, which is not there", by, name);
	return refuse(f, EILSEQ, why, e);
}

/* Reads a whole file of @dir, and adds a NUL. NULL: it cannot be read. */
static char *read_all(int dir, const char *name, size_t *len)
{
	__cleanup_fd int fd = openat(dir, name, OPEN_FILE);
	struct source src = source_of_fd(&fd);
	struct stat st;
	char *text;

	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size > METADATA_MAX)
		return NULL;
	text = malloc((size_t)st.st_size + 1);
	if (text && src.read(src.arg, text, (size_t)st.st_size, 0) != st.st_size) {
		free(text);
		return NULL;
	}
	if (text)
		text[st.st_size] = '\0';
	*len = (size_t)st.st_size;
	return text;
}

/* What is missing first. NULL: nothing. */
static const char *first_missing(const struct index *ix, char *buf, size_t size)
{
	const struct index_opaque *o = ix->opaque;

	for (size_t i = 0; i < ix->nr; i++)
		if (ix->tensors[i]->hole) {
			snprintf(buf, size, "%.255s: %s", ix->tensors[i]->name,
				 ix->tensors[i]->hole);
			return buf;
		}
	while (o && !o->missing)
		o = o->next;
	if (!o)
		return NULL;
	snprintf(buf, size, "%.255s: %s", o->path, o->reason);
	return buf;
}

/* Why .metadata, or a tensor that it names, cannot be described at all. NULL: all can. */
static const char *metadata_problem(const struct index *ix, char *buf, size_t size)
{
	for (const struct index_opaque *o = ix->opaque; o; o = o->next)
		if (!strcmp(o->path, ".metadata") && !index_find(ix, "", o->name)) {
			snprintf(buf, size, ".metadata %.255s: %s", o->name, o->reason);
			return buf;
		}
	return NULL;
}

/* All tensors that .metadata names are there, with all their bytes. */
static int prove_dcp(const struct foreign *f, struct error *e)
{
	struct tree tree = TREE_CLOSED;
	struct index *ix = NULL;
	char why[1024];
	int err = is_there(f, ".metadata") ? tree_open_dir(&tree, f->dir) : -ENODATA;

	if (!err)
		err = index_create(&ix);
	if (!err)
		err = index_read(ix, &tree);
	tree_close(&tree);
	if (err == -ENODATA)
		err = refuse(f, ENODATA, "it has no .metadata that names its tensors", e);
	else if (err)
		err = refuse(f, -err, strerror(-err), e);
	else if (first_missing(ix, why, sizeof(why)))
		err = refuse(f, EILSEQ, why, e);
	else if (metadata_problem(ix, why, sizeof(why)))
		err = refuse(f, ENODATA, why, e);
	index_destroy(ix);
	return err;
}

static int prove_megatron(const struct foreign *f, struct error *e)
{
	if (!is_there(f, "metadata.json") && !is_there(f, "common.pt"))
		return refuse(f, ENODATA, "it has neither metadata.json nor common.pt", e);
	return prove_dcp(f, e);
}

static int check_index(const struct foreign *f, const char *index, struct error *e)
{
	size_t len;
	__cleanup_free char *text = read_all(f->dir, index, &len);
	json_t *json = text ? json_loadb(text, len, 0, NULL) : NULL;
	const json_t *map = json_object_get(json, "weight_map");
	const char *key;
	json_t *file;
	int err = 0;

	if (!json_object_size(map))
		err = refuse(f, EILSEQ, "its index names no files", e);
	json_object_foreach ((json_t *)map, key, file)
		if (!err && json_is_string(file))
			err = check_named(f, index, json_string_value(file), e);
	json_decref(json);
	return err;
}

static int prove_index(const struct foreign *f, struct error *e)
{
	static const char suffix[] = ".index.json";
	struct dirent *entry;
	DIR *d = open_list(f->dir);
	unsigned nr = 0;
	int err = 0;

	while (d && !err && (entry = readdir(d))) {
		size_t len = strlen(entry->d_name);

		if (len < sizeof(suffix) ||
		    strcmp(entry->d_name + len + 1 - sizeof(suffix), suffix))
			continue;
		err = check_index(f, entry->d_name, e);
		nr++;
	}
	if (d)
		closedir(d);
	return err || nr ? err : refuse(f, ENODATA, "it has no index of its files", e);
}

static int prove(const struct foreign *f, struct error *e)
{
	static const struct {
		const char *rule;
		int (*prove)(const struct foreign *f, struct error *e);
	} provers[] = {
		{"torch-dcp", prove_dcp},
		{"torchtitan", prove_dcp},
		{"megatron", prove_megatron},
		{"sharded-export", prove_index},
	};
	size_t i;
	int err;

	for (i = 0; i < ARRAY_SIZE(provers); i++) {
		if (strcmp(provers[i].rule, f->rule->name))
			continue;
		err = provers[i].prove(f, e);
		return err == -ENODATA && f->named ? 0 : err;
	}
	return f->named
		       ? 0
		       : refuse(f, ENODATA, "nothing in it tells whether all of it was written", e);
}

/* --- its files --- */

struct listing_of {
	struct foreign *f;
	struct error *e;
	struct commit_entry *entries;
	size_t nr, room;
	uint64_t files, newest_ns;
	char node[HOST_NAME_MAX + 1];
};

static int add(struct listing_of *l, const struct commit_entry *entry)
{
	struct commit_entry *e;

	if (l->nr == l->room) {
		size_t room = l->room ? 2 * l->room : 64;
		struct commit_entry *more = realloc(l->entries, room * sizeof(*more));

		if (!more)
			return refuse(l->f, ENOMEM, strerror(ENOMEM), l->e);
		l->entries = more;
		l->room = room;
	}
	e = &l->entries[l->nr];
	*e = *entry;
	e->path = strdup(entry->path);
	e->target = entry->target ? strdup(entry->target) : NULL;
	if (!e->path || (entry->target && !e->target)) {
		free((void *)e->path);
		free((void *)e->target);
		return refuse(l->f, ENOMEM, strerror(ENOMEM), l->e);
	}
	l->nr++;
	return 0;
}

static void show(void *listing, uint64_t bytes)
{
	struct listing_of *l = listing;

	l->f->digesting(l->f->arg, l->f->path, l->f->bytes + bytes);
}

static int list_file(struct listing_of *l, int dir, const char *name, const char *rel)
{
	struct foreign *f = l->f;
	__cleanup_fd int fd = openat(dir, name, OPEN_FILE);
	struct commit_entry entry = {
		.kind = COMMIT_IS_FILE, .path = rel, .node = l->node, .rank = -1};
	struct source src = source_of_fd(&fd);
	struct stat st, after;
	size_t len = strlen(name);
	int64_t age_s;
	int err = 0;

	if (fd < 0 || fstat(fd, &st))
		return refuse(f, errno, strerror(errno), l->e);
	age_s = (int64_t)(f->now_ns / NSEC_PER_SEC) - st.st_mtim.tv_sec;
	if (age_s > -QUIET_S && age_s < QUIET_S)
		return refuse(f, EBUSY, "it was written to within the last minute; try again later",
			      l->e);
	/* A .distcp file consists of many archives, one behind the other. */
	if (len < 7 || strcmp(name + len - 7, ".distcp"))
		err = structure_check(&src, rel, (uint64_t)st.st_size, l->e);
	if (err)
		return err;
	if (!f->only_look) {
		err = fsync(fd) ? -errno : 0;
		if (!err)
			err = digest_of_source(&src, (uint64_t)st.st_size, THREADS, show, l,
					       entry.xxh3);
		if (!err && (fstat(fd, &after) || after.st_size != st.st_size ||
			     stat_mtime_ns(&after) != stat_mtime_ns(&st)))
			return refuse(f, EBUSY, "it was written to while it was read", l->e);
		if (err)
			return refuse(f, -err, strerror(-err), l->e);
		entry.size = (uint64_t)st.st_size;
		err = add(l, &entry);
	}
	f->bytes += (uint64_t)st.st_size;
	l->files++;
	if (stat_mtime_ns(&st) > l->newest_ns)
		l->newest_ns = stat_mtime_ns(&st);
	return err;
}

static int list_directory(struct listing_of *l, int dir, const char *rel);

static int list_one(struct listing_of *l, int dir, const char *name, const char *rel)
{
	char target[PATH_MAX];
	struct stat st;
	ssize_t len;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW))
		return refuse(l->f, errno, strerror(errno), l->e);
	if (S_ISREG(st.st_mode))
		return list_file(l, dir, name, rel);
	if (S_ISDIR(st.st_mode)) {
		__cleanup_fd int fd = openat(dir, name, OPEN_DIR);

		return fd < 0 ? refuse(l->f, errno, strerror(errno), l->e)
			      : list_directory(l, fd, rel);
	}
	if (!S_ISLNK(st.st_mode) || l->f->only_look)
		return 0;
	len = readlinkat(dir, name, target, sizeof(target) - 1);
	if (len < 0)
		return refuse(l->f, errno, strerror(errno), l->e);
	target[len] = '\0';
	return add(l, &(struct commit_entry){
			      .kind = COMMIT_IS_SYMLINK, .path = rel, .target = target});
}

static int list_directory(struct listing_of *l, int dir, const char *rel)
{
	__cleanup_free char *path = malloc(COMMIT_PATH_MAX);
	struct dirent *entry;
	DIR *d = open_list(dir);
	bool empty = true;
	int err = 0;

	if (!d || !path) {
		if (d)
			closedir(d);
		return refuse(l->f, errno, strerror(errno), l->e);
	}
	while (!err && (entry = readdir(d))) {
		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..") ||
		    name_is_reserved(entry->d_name))
			continue;
		empty = false;
		if (snprintf(path, COMMIT_PATH_MAX, "%s%s%s", rel, *rel ? "/" : "",
			     entry->d_name) >= COMMIT_PATH_MAX)
			err = refuse(l->f, ENAMETOOLONG, strerror(ENAMETOOLONG), l->e);
		else
			err = list_one(l, dirfd(d), entry->d_name, path);
	}
	if (!err && !l->f->only_look && fsync(dirfd(d)))
		err = refuse(l->f, errno, strerror(errno), l->e);
	closedir(d);
	if (!err && empty && *rel && !l->f->only_look)
		err = add(l, &(struct commit_entry){.kind = COMMIT_IS_DIRECTORY, .path = rel});
	return err;
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct commit_entry *)a)->path,
		      ((const struct commit_entry *)b)->path);
}

/* --- its commit file --- */

static int write_some(void *file, const void *data, size_t len)
{
	return fwrite(data, 1, len, file) == len ? 0 : -EIO;
}

static int write_listing(struct listing_of *l, const char *generation, FILE *file)
{
	struct commit_header *h = calloc(1, sizeof(*h));
	struct commit_stats stats = {.node = l->node, .bytes = l->f->bytes, .files = l->files};
	struct commit_writer *w = NULL;
	size_t i;
	int err = h ? 0 : -ENOMEM;

	if (!err) {
		snprintf(h->unit, sizeof(h->unit), "%s", l->f->path);
		memcpy(h->generation, generation, COMMIT_HEX);
		snprintf(h->done, sizeof(h->done), "adopted");
		h->committed_ns = l->newest_ns;
		h->ranks = h->nodes = 1;
		err = commit_writer_create(&w, h, write_some, file);
	}
	for (i = 0; !err && i < l->nr; i++)
		err = commit_writer_add(w, &l->entries[i]);
	if (!err)
		err = commit_writer_add_stats(w, &stats);
	if (!err)
		err = commit_writer_end(w);
	if (w)
		commit_writer_destroy(w);
	free(h);
	return err ? err : fflush(file) ? -errno : 0;
}

/*
 * Writes under a hidden name first, so that the commit file appears whole or not at all. It gets
 * the directory's owner; the directory keeps its times.
 */
static int write_commit_file(struct listing_of *l)
{
	int dir = l->f->dir, fd, err;
	char hidden[STAGING_MAX];
	struct stat st;
	FILE *file;

	if (fstat(dir, &st))
		return -errno;
	err = staging_new(hidden);
	if (err)
		return err;
	fd = openat(dir, hidden, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	file = fd < 0 ? NULL : fdopen(fd, "w");
	if (!file) {
		err = -errno;
		if (fd >= 0)
			close(fd);
		return err;
	}
	err = write_listing(l, staging_id(hidden), file);
	if (!err && geteuid() == 0 && fchown(fd, st.st_uid, st.st_gid))
		err = -errno;
	if (!err && fsync(fd))
		err = -errno;
	fclose(file);
	if (err)
		unlinkat(dir, hidden, 0);
	else
		err = appear_first(dir, hidden, COMMIT_FILE);
	if (!err) {
		struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, st.st_mtim};
		__cleanup_fd int readable = openat(dir, ".", OPEN_DIR);

		if (readable >= 0)
			futimens(readable, times);
		err = readable < 0 || fsync(readable) ? -errno : 0;
	}
	return err;
}

int foreign_adopt(struct foreign *f, struct error *e)
{
	struct listing_of l = {.f = f, .e = e};
	int err = prove(f, e);

	gethostname(l.node, sizeof(l.node) - 1);
	f->bytes = 0;
	if (!err)
		err = list_directory(&l, f->dir, "");
	if (!err && !l.files)
		err = refuse(f, ENODATA, "it has no files", e);
	if (!err && !f->only_look) {
		qsort(l.entries, l.nr, sizeof(*l.entries), by_path);
		err = write_commit_file(&l);
		if (err)
			refuse(f, -err, strerror(-err), e);
	}
	while (l.nr) {
		l.nr--;
		free((void *)l.entries[l.nr].path);
		free((void *)l.entries[l.nr].target);
	}
	free(l.entries);
	return err;
}
