/* SPDX-License-Identifier: MIT */
/*
 * Writes safetensors files whose tensors are captured later and whose objects come one by one. The
 * places of tensors are planned at the beginning. The header is put together as names become known,
 * and is written at the end. What the header has taken always fits into the room that was left for
 * it, so that the end cannot fail for that. The lock of a file is not held during I/O.
 */
#include <fcntl.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/header.h"
#include "client/io.h"
#include "client/plan.h"
#include "client/session.h"

#define LENGTH_BYTES 8u
#define OFFSET_MAX   ((uint64_t)INT64_MAX - CKPT_PLAN_PAGE)

struct range {
	uint64_t begin, end;
};

struct place {
	uint64_t id, file_off, bytes;
	const char *name;      /* owned by @names */
	struct range *written; /* lock; sorted */
	size_t nr, room;
};

struct ckptfs_file {
	struct ckptfs_session *session; /* NULL: none */
	pid_t pid;
	int fd;
	char *path;
	struct place *places; /* sorted by id */
	size_t nr_places;
	uint64_t data_off;    /* where the data begins: 8 bytes and the header */
	pthread_mutex_t lock; /* for all that follows */
	uint64_t end;
	void *names, *keys; /* trees of strings, which they own */
	struct ckpt_header header;
	int err; /* -errno: a part of the file is missing for good */
};

static unsigned long long ull(uint64_t n)
{
	return n;
}

/* --- unique names --- */

static int compare(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* Adds a copy of @what to the tree, and returns it. NULL: *err is -EEXIST or -ENOMEM. */
static const char *tree_add(void **tree, const char *what, int *err)
{
	char *copy;
	void *node;

	*err = -EEXIST;
	if (tfind(what, tree, compare))
		return NULL;
	*err = -ENOMEM;
	copy = strdup(what);
	node = copy ? tsearch(copy, tree, compare) : NULL;
	if (!node) {
		free(copy);
		return NULL;
	}
	*err = 0;
	return copy;
}

static void tree_remove(void **tree, const char *what)
{
	char *copy = *(char **)tfind(what, tree, compare);

	tdelete(what, tree, compare);
	free(copy);
}

/* Writes the text and then its length, so that the file has no header before it has all of it. */
static int write_header(struct ckptfs_file *f)
{
	unsigned char length[LENGTH_BYTES];
	struct ckpt_text t = {0};
	int err = ckpt_header_text(&f->header, &t);

	for (unsigned i = 0; i < LENGTH_BYTES; i++)
		length[i] = (unsigned char)(f->header.room >> 8 * i);
	if (!err)
		err = ckpt_write_all(f->fd, t.data, t.len, LENGTH_BYTES);
	ckpt_text_free(&t);
	if (!err)
		err = ckpt_write_all(f->fd, length, LENGTH_BYTES, 0);
	return err ? ckpt_error(f->session, err, "%s: its header cannot be written: %s", f->path,
				strerror(-err))
		   : 0;
}

/* --- the plan --- */

static int by_id(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	return x->id < y->id ? -1 : x->id > y->id;
}

static int place_one(struct ckptfs_file *f, const struct ckpt_layout *l, struct place *p)
{
	struct range data = {.begin = f->end};
	int err;

	if (__builtin_add_overflow(data.begin, l->info->bytes, &data.end) || data.end > OFFSET_MAX)
		return ckpt_error(f->session, -EFBIG, "%s: %s: ends behind the largest offset",
				  f->path, l->info->name);
	*p = (struct place){.id = l->info->id, .file_off = data.begin, .bytes = l->info->bytes};
	p->name = tree_add(&f->names, l->info->name, &err);
	if (!p->name)
		return ckpt_error(f->session, err, "%s: %s: %s", f->path, l->info->name,
				  err == -EEXIST ? "two tensors have this name" : strerror(-err));
	err = ckpt_header_tensor(&f->header,
				 &(struct ckpt_header_tensor){.name = p->name,
							      .dtype = l->dtype,
							      .ndim = l->ndim,
							      .shape = l->shape,
							      .shard_offset = l->shard_offset,
							      .global_shape = l->global_shape,
							      .begin = data.begin,
							      .end = data.end});
	if (err)
		return ckpt_error(f->session, err, "%s: no memory for its header", f->path);
	f->end = data.end;
	return 0;
}

/* Where the data begins is known only once all names are. */
static int place_data(struct ckptfs_file *f, uint64_t spare)
{
	uint64_t len = ckpt_header_len(&f->header) + LENGTH_BYTES;

	if (spare <= CKPT_HEADER_MAX)
		len += (spare ? spare : CKPTFS_FILE_SPARE) + CKPT_PLAN_PAGE - 1;
	len -= len % CKPT_PLAN_PAGE;
	if (spare > CKPT_HEADER_MAX || len > CKPT_HEADER_MAX || f->end > OFFSET_MAX - len)
		return ckpt_error(f->session, -EFBIG,
				  "%s: its header would have %llu bytes with a spare of %llu; use "
				  "several files",
				  f->path, ull(len), ull(spare));
	f->header.room = len - LENGTH_BYTES;
	f->data_off = len;
	f->end += len;
	for (size_t i = 0; i < f->nr_places; i++)
		f->places[i].file_off += len;
	qsort(f->places, f->nr_places, sizeof(*f->places), by_id);
	for (size_t i = 1; i < f->nr_places; i++)
		if (f->places[i].id == f->places[i - 1].id)
			return ckpt_error(f->session, -EINVAL, "%s: %s and %s have one id, %llu",
					  f->path, f->places[i - 1].name, f->places[i].name,
					  ull(f->places[i].id));
	return 0;
}

static int plan(struct ckptfs_file *f, const struct ckptfs_tensor_info *t, size_t n, uint64_t spare)
{
	struct ckpt_layout *all = calloc(n + 1, sizeof(*all));
	int err = 0;

	f->places = calloc(n + 1, sizeof(*f->places));
	if (!all || !f->places) {
		free(all);
		return ckpt_error(f->session, -ENOMEM, "%s: no memory for %zu tensors", f->path, n);
	}
	for (size_t i = 0; i < n && !err; i++) {
		err = ckpt_layout_init(&all[i], f->session, f->path, &t[i]);
		f->header.sharded |= all[i].part;
	}
	ckpt_layouts_sort(all, err ? 0 : n);
	for (; f->nr_places < n && !err; f->nr_places++)
		err = place_one(f, &all[f->nr_places], &f->places[f->nr_places]);
	free(all);
	return err ? err : place_data(f, spare);
}

/* --- creating and ending --- */

static void file_free(struct ckptfs_file *f)
{
	for (size_t i = 0; i < f->nr_places; i++)
		free(f->places[i].written);
	free(f->places);
	if (f->fd >= 0)
		close(f->fd);
	tdestroy(f->names, free);
	tdestroy(f->keys, free);
	pthread_mutex_destroy(&f->lock);
	ckpt_header_free(&f->header);
	free(f->path);
	free(f);
}

/* Begins every call: from here on an error text is of this call. */
static int enter(struct ckptfs_session *s)
{
	ckpt_error(NULL, 0, "%s", "");
	return s ? ckpt_session_enter(s) : 0;
}

static int enter_file(struct ckptfs_file *f)
{
	if (f->pid != getpid())
		return ckpt_error(f->session, -ECHILD,
				  "%s: is written by process %d; a child has no part in that",
				  f->path, (int)f->pid);
	return enter(f->session);
}

static int check_memory(struct ckptfs_file *f, const struct ckptfs_tensor_info *t, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (t[i].memory != CKPTFS_HOST && t[i].memory != CKPTFS_HOST_PINNED)
			return ckpt_error(NULL, -EOPNOTSUPP,
					  "%s: %s: lies on a device, which needs a session",
					  f->path, t[i].name);
	return 0;
}

static int file_open(struct ckptfs_file *f)
{
	f->fd = open(f->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (f->fd < 0)
		return ckpt_error(f->session, -errno, "%s: %s", f->path, strerror(errno));
	/* If this fails, so does the write of the header, which is reported. */
	ckpt_write_all(f->fd, CKPTFS_UNFINISHED, LENGTH_BYTES, 0);
	return 0;
}

int ckptfs_file_create(struct ckptfs_session *s, const char *path,
		       const struct ckptfs_tensor_info *t, size_t n, uint64_t spare,
		       struct ckptfs_file **file)
{
	struct ckptfs_file *f;
	int err = enter(s);

	*file = NULL;
	if (err)
		return err;
	f = calloc(1, sizeof(*f));
	if (!f)
		return ckpt_error(s, -ENOMEM, "%s: no memory", path);
	f->session = s;
	f->pid = getpid();
	f->fd = -1;
	pthread_mutex_init(&f->lock, NULL);
	ckpt_header_init(&f->header);
	f->path = strdup(path);
	if (!f->path)
		err = ckpt_error(s, -ENOMEM, "%s: no memory", path);
	if (!err)
		err = plan(f, t, n, spare);
	if (!err)
		err = s ? ckptfs_register(s, t, n) : check_memory(f, t, n);
	if (!err)
		err = file_open(f);
	if (err)
		file_free(f);
	else
		*file = f;
	return err;
}

static int check_written(struct ckptfs_file *f)
{
	for (size_t i = 0; i < f->nr_places; i++) {
		const struct place *p = &f->places[i];
		uint64_t at = 0;

		for (size_t r = 0; r < p->nr && p->written[r].begin == at; r++)
			at = p->written[r].end;
		if (at < p->bytes)
			return ckpt_error(
				f->session, -ENODATA,
				"%s: %s was not written in full: byte %llu of %llu is missing; "
				"the file has no header, and its checkpoint will fail",
				f->path, p->name, ull(at), ull(p->bytes));
	}
	return 0;
}

int ckptfs_file_close(struct ckptfs_file *f)
{
	int err = enter_file(f);

	if (!err && f->err)
		err = ckpt_error(f->session, f->err, "%s: a part of it could not be written: %s",
				 f->path, strerror(-f->err));
	if (!err)
		err = check_written(f);
	if (!err)
		err = write_header(f);
	if (!err) {
		int fd = f->fd;

		f->fd = -1;
		if (close(fd))
			err = ckpt_error(f->session, -errno, "%s: %s", f->path, strerror(errno));
	}
	file_free(f);
	return err;
}

void ckptfs_file_abandon(struct ckptfs_file *f)
{
	if (f)
		file_free(f);
}

/* --- tensors --- */

static struct place *find_place(struct ckptfs_file *f, uint64_t id)
{
	struct place wanted = {.id = id};

	return bsearch(&wanted, f->places, f->nr_places, sizeof(*f->places), by_id);
}

/* The index of the first range that ends behind @begin. */
static size_t range_at(const struct place *p, uint64_t begin)
{
	size_t lo = 0, hi = p->nr;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (p->written[mid].end <= begin)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static int mark_locked(struct ckptfs_file *f, struct place *p, const struct range *r)
{
	size_t at = range_at(p, r->begin);

	if (at < p->nr && p->written[at].begin < r->end)
		return ckpt_error(f->session, -EEXIST,
				  "%s: %s: bytes %llu to %llu were written before", f->path,
				  p->name, ull(r->begin), ull(r->end));
	if (p->nr == p->room) {
		size_t room = p->room ? p->room * 2 : 1;
		struct range *more = reallocarray(p->written, room, sizeof(*more));

		if (!more)
			return ckpt_error(f->session, -ENOMEM, "%s: no memory", f->path);
		p->written = more;
		p->room = room;
	}
	memmove(&p->written[at + 1], &p->written[at], (p->nr++ - at) * sizeof(*r));
	p->written[at] = *r;
	return 0;
}

static void unmark_locked(struct place *p, uint64_t begin)
{
	size_t at = range_at(p, begin);

	memmove(&p->written[at], &p->written[at + 1], (--p->nr - at) * sizeof(*p->written));
}

static void unmark(struct ckptfs_file *f, const struct ckptfs_write_op *ops, size_t n)
{
	pthread_mutex_lock(&f->lock);
	for (size_t i = 0; i < n; i++)
		if (ops[i].len)
			unmark_locked(find_place(f, ops[i].id), ops[i].src_off);
	pthread_mutex_unlock(&f->lock);
}

/* Sets the place of @op in the file, and marks its bytes as written. */
static int take_op(struct ckptfs_file *f, struct ckptfs_write_op *op)
{
	struct place *p = find_place(f, op->id);
	struct range r = {.begin = op->src_off};
	int err = 0;

	if (!p)
		return ckpt_error(f->session, -EBADF, "%s: holds no tensor %llu", f->path,
				  ull(op->id));
	if (__builtin_add_overflow(op->src_off, op->len, &r.end) || r.end > p->bytes)
		return ckpt_error(f->session, -EINVAL,
				  "%s: %s: has %llu bytes, and %llu from byte %llu on are written",
				  f->path, p->name, ull(p->bytes), ull(op->len), ull(op->src_off));
	op->file_off = p->file_off + op->src_off;
	if (op->len) {
		pthread_mutex_lock(&f->lock);
		err = mark_locked(f, p, &r);
		pthread_mutex_unlock(&f->lock);
	}
	return err;
}

/* Without a session: writes from memory of the host before it returns. */
static int write_plainly(struct ckptfs_file *f, const struct ckptfs_write_op *op)
{
	const struct place *p = find_place(f, op->id);
	struct ckpt_capture c = {.file_off = op->file_off,
				 .src_off = op->src_off,
				 .len = op->len,
				 .source = {.addr = op->addr,
					    .rows = op->rows,
					    .row_bytes = op->row_bytes,
					    .pitch = op->pitch}};
	uint64_t bytes;
	int err;

	if (!op->len)
		return 0;
	if (!op->addr)
		return ckpt_error(NULL, -EFAULT, "%s: %s: is written without an address", f->path,
				  p->name);
	if (op->rows && (__builtin_mul_overflow(op->rows, op->row_bytes, &bytes) ||
			 bytes != p->bytes || op->pitch < op->row_bytes))
		return ckpt_error(NULL, -EINVAL, "%s: %s: its rows are not its %llu bytes", f->path,
				  p->name, ull(p->bytes));
	err = ckpt_device_host.write(NULL, &c, f->fd);
	return err ? ckpt_error(NULL, err, "%s: %s: %s", f->path, p->name, strerror(-err)) : 0;
}

static int write_ops(struct ckptfs_file *f, const struct ckptfs_write_op *ops, size_t n)
{
	int err = 0;

	if (f->session)
		return ckptfs_write(f->session, f->fd, ops, n);
	for (size_t i = 0; i < n && !err; i++)
		err = write_plainly(f, &ops[i]);
	return err;
}

int ckptfs_file_write(struct ckptfs_file *f, const struct ckptfs_write_op *ops, size_t n)
{
	struct ckptfs_write_op *own;
	int err = enter_file(f);
	size_t nr = 0;

	if (err || !n)
		return err;
	own = reallocarray(NULL, n, sizeof(*own));
	if (!own)
		return ckpt_error(f->session, -ENOMEM, "%s: no memory for %zu tensors", f->path, n);
	memcpy(own, ops, n * sizeof(*own));
	for (; nr < n && !err; nr += !err)
		err = take_op(f, &own[nr]);
	if (!err)
		err = write_ops(f, own, n);
	if (err)
		unmark(f, own, nr);
	free(own);
	return err;
}

/* --- objects and metadata --- */

/* Says why the header did not take @name. */
static int refused(struct ckptfs_file *f, const char *name, int err)
{
	if (err != -ENOSPC)
		return ckpt_error(f->session, err, "%s: %s: %s", f->path, name,
				  err == -EEXIST ? "is in the file already" : strerror(-err));
	return ckpt_error(
		f->session, err,
		"%s: %s: the header has no room for it: %llu of its %llu bytes are taken; "
		"create the file with a larger spare",
		f->path, name, ull(ckpt_header_len(&f->header)), ull(f->header.room));
}

static int add_object_locked(struct ckptfs_file *f, const char *name, uint64_t len, uint64_t *off)
{
	static const uint64_t beginning = 0;
	struct ckpt_header_tensor t = {.name = name,
				       .dtype = "U8",
				       .ndim = 1,
				       .shape = &len,
				       .shard_offset = &beginning,
				       .global_shape = &len,
				       .begin = f->end - f->data_off};
	int err;

	*off = f->end;
	if (len > OFFSET_MAX || f->end > OFFSET_MAX - len)
		return ckpt_error(f->session, -EFBIG, "%s: %s: ends behind the largest offset",
				  f->path, name);
	if (!tree_add(&f->names, name, &err))
		return refused(f, name, err);
	t.end = t.begin + len;
	err = ckpt_header_tensor(&f->header, &t);
	if (err) {
		tree_remove(&f->names, name);
		return refused(f, name, err);
	}
	f->end += len;
	return 0;
}

int ckptfs_file_object(struct ckptfs_file *f, const char *name, const void *bytes, uint64_t len)
{
	uint64_t off;
	int err = enter_file(f);

	if (!err)
		err = ckpt_plan_check_text(f->session, f->path, name);
	if (!err && !strcmp(name, CKPT_HEADER_METADATA))
		err = ckpt_error(f->session, -EINVAL, "%s: safetensors uses the name %s itself",
				 f->path, name);
	if (!err && len && !bytes)
		err = ckpt_error(f->session, -EFAULT, "%s: %s: has no address", f->path, name);
	if (err)
		return err;
	pthread_mutex_lock(&f->lock);
	err = add_object_locked(f, name, len, &off);
	pthread_mutex_unlock(&f->lock);
	if (err)
		return err;
	err = ckpt_write_all(f->fd, bytes, len, off);
	if (!err)
		return 0;
	pthread_mutex_lock(&f->lock);
	if (!f->err)
		f->err = err;
	pthread_mutex_unlock(&f->lock);
	return ckpt_error(f->session, err, "%s: %s: %s", f->path, name, strerror(-err));
}

int ckptfs_file_metadata(struct ckptfs_file *f, const char *key, const char *value)
{
	int err = enter_file(f);

	if (!err)
		err = ckpt_plan_check_text(f->session, f->path, key);
	if (!err)
		err = ckpt_plan_check_text(f->session, f->path, value);
	if (!err && (!strcmp(key, CKPT_HEADER_SHARDS) || !strcmp(key, CKPT_HEADER_VERSION)))
		err = ckpt_error(f->session, -EINVAL, "%s: %s is written where it is needed",
				 f->path, key);
	if (err)
		return err;
	pthread_mutex_lock(&f->lock);
	if (tree_add(&f->keys, key, &err)) {
		err = ckpt_header_pair(&f->header, key, value);
		if (err)
			tree_remove(&f->keys, key);
	}
	if (err)
		refused(f, key, err);
	pthread_mutex_unlock(&f->lock);
	return err;
}
