/* SPDX-License-Identifier: MIT */
#include "engine/tensors/stored.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "engine/base/cleanup.h"
#include "engine/base/json.h"
#include "engine/format/commit.h"
#include "engine/format/names.h"
#include "engine/tensors/types.h"

#define DIGEST_LINE "\"digest\": \""
#define DIMS_MAX    64
#define HEX_SIZE    COMMIT_HEX

static void to_hex(XXH128_hash_t hash, char hex[HEX_SIZE])
{
	XXH128_canonical_t c;

	XXH128_canonicalFromHash(&c, hash);
	for (size_t i = 0; i < sizeof(c); i++)
		sprintf(hex + 2 * i, "%02x", c.digest[i]);
}

/* --- writing --- */

static const char *const part_names[] = {"model", "optimizer", "other"};

static json_t *numbers(const uint64_t *list, unsigned nr)
{
	json_t *a = json_array();

	for (unsigned i = 0; i < nr; i++)
		json_array_append_new(a, json_integer((json_int_t)list[i]));
	return a;
}

static json_t *piece_to_json(const struct index_tensor *t, const struct index_piece *p)
{
	json_t *o = json_object();

	json_set_path(o, "path", "path_hex", p->path);
	json_object_set_new(o, "at", json_integer((json_int_t)p->at));
	json_object_set_new(o, "bytes", json_integer((json_int_t)p->bytes));
	if (p->from)
		json_object_set_new(o, "from", json_integer((json_int_t)p->from));
	if (p->unreachable)
		json_object_set_new(o, "unreachable", json_string(p->unreachable));
	json_object_set_new(o, "offset", numbers(p->box, t->ndim));
	json_object_set_new(o, "length", numbers(p->box + t->ndim, t->ndim));
	return o;
}

static json_t *tensor_to_json(const struct index_tensor *t)
{
	json_t *o = json_object(), *pieces = json_array();

	json_object_set_new(o, "name", json_text(t->name));
	if (*t->scope)
		json_object_set_new(o, "scope", json_text(t->scope));
	json_object_set_new(o, "dtype", json_string(t->dtype));
	json_object_set_new(o, "shape", numbers(t->shape, t->ndim));
	if (t->inferred)
		json_object_set_new(o, "inferred", json_true());
	json_object_set_new(o, "part", json_string(part_names[t->part]));
	if (t->requires_grad)
		json_object_set_new(o, "requires_grad", json_true());
	if (t->opaque)
		json_object_set_new(o, "opaque", json_true());
	if (t->alias)
		json_object_set_new(o, "alias", json_text(t->alias));
	json_object_set_new(o, "state", json_text(index_state(t)));
	if (t->digest)
		json_object_set_new(o, "xxh3", json_string(t->digest));
	for (const struct index_piece *p = t->pieces; p; p = p->next)
		json_array_append_new(pieces, piece_to_json(t, p));
	json_object_set_new(o, "pieces", pieces);
	return o;
}

/* Prints @o, which it takes over, as an element of a list. Returns the length of its line. */
static size_t print_element(json_t *o, bool first, FILE *out)
{
	char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
	size_t len = text ? strlen(text) : 0;

	fprintf(out, "%s\n%s", first ? "" : ",", text ? text : "null");
	free(text);
	json_decref(o);
	return len;
}

static size_t max_size(size_t a, size_t b)
{
	return a > b ? a : b;
}

static json_t *opaque_to_json(const struct index_opaque *o)
{
	json_t *j = json_object();

	json_set_path(j, "path", "path_hex", o->path);
	json_object_set_new(j, "reason", json_text(o->reason));
	if (*o->name)
		json_object_set_new(j, "name", json_text(o->name));
	if (o->missing)
		json_object_set_new(j, "missing", json_true());
	return j;
}

/*
 * All but the end of the object. @key tells what it is of: "unit" or "commit". Returns the length
 * of the longest line.
 */
static size_t print_members(const struct index *ix, const char *key, const char *value, FILE *out)
{
	json_t *text = json_text(value);
	char *quoted = text ? json_dumps(text, JSON_ENCODE_ANY) : NULL;
	size_t longest = 0;

	fprintf(out, "{\n\"format\": \"" INDEX_FORMAT "\",\n\"version\": %d,\n\"%s\": %s,\n",
		INDEX_VERSION, key, quoted ? quoted : "\"\"");
	fputs("\"tensors\": [", out);
	for (size_t i = 0; i < ix->nr; i++)
		longest = max_size(longest, print_element(tensor_to_json(ix->tensors[i]), !i, out));
	fputs("\n],\n\"opaque\": [", out);
	for (const struct index_opaque *o = ix->opaque; o; o = o->next)
		print_element(opaque_to_json(o), o == ix->opaque, out);
	fputs("\n]", out);
	free(quoted);
	json_decref(text);
	return longest;
}

int index_print(const struct index *ix, const char *unit, FILE *out)
{
	print_members(ix, "unit", unit, out);
	fputs("\n}\n", out);
	return ferror(out) ? -EIO : 0;
}

/* A stream whose bytes are digested on their way to a file. */
struct digested {
	int fd;
	XXH3_state_t *state;
};

static ssize_t write_digested(void *arg, const char *buf, size_t len)
{
	struct digested *d = arg;
	ssize_t n = write(d->fd, buf, len);

	if (n > 0)
		XXH3_128bits_update(d->state, buf, (size_t)n);
	return n < 0 ? 0 : n; /* 0: an error, by fopencookie */
}

/* Writes the index of the commit @commit to @fd, and makes it durable. */
static int write_kept(const struct index *ix, const char *commit, int fd)
{
	static const cookie_io_functions_t ops = {.write = write_digested};
	struct digested d = {.fd = fd, .state = XXH3_createState()};
	FILE *out = d.state ? fopencookie(&d, "w", ops) : NULL;
	char hex[HEX_SIZE];
	int err = 0;

	if (out) {
		XXH3_128bits_reset(d.state);
		if (print_members(ix, "commit", commit, out) + 2 > INDEX_LINE_MAX)
			err = -EFBIG;
		fputs(",\n", out);
		err = err ? err : fflush(out) || ferror(out) ? -EIO : 0;
		to_hex(XXH3_128bits_digest(d.state), hex);
		fprintf(out, DIGEST_LINE "%s\"\n}\n", hex);
		if (fclose(out) && !err)
			err = -EIO;
	}
	XXH3_freeState(d.state);
	return !out ? -ENOMEM : err ? err : fsync(fd) ? -errno : 0;
}

/* The digest of the commit file in @dir. -ENODATA: there is none. */
static int digest_commit(int dir, char hex[HEX_SIZE])
{
	__cleanup_fd int fd = openat(dir, COMMIT_FILE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	__cleanup_free char *buf = malloc(COMMIT_LINE_MAX);
	XXH3_state_t *state = XXH3_createState();
	ssize_t n = -1;

	if (fd >= 0 && buf && state) {
		XXH3_128bits_reset(state);
		while ((n = read(fd, buf, COMMIT_LINE_MAX)) > 0)
			XXH3_128bits_update(state, buf, (size_t)n);
		to_hex(XXH3_128bits_digest(state), hex);
	}
	XXH3_freeState(state);
	if (fd < 0)
		return errno == ENOENT ? -ENODATA : -errno;
	return !buf || !state ? -ENOMEM : n < 0 ? -errno : 0;
}

/*
 * A new file in @dir. It has no name yet, so that nobody who lists @dir sees one come and go: @name
 * is empty. Where the filesystem has no such files, or one is replaced, @name is a hidden one.
 */
static int create_temp(int dir, char name[STAGING_MAX], mode_t mode)
{
	bool replaces = !faccessat(dir, INDEX_FILE, F_OK, AT_SYMLINK_NOFOLLOW);
	int fd = replaces ? -1 : openat(dir, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, mode);

	name[0] = '\0';
	if (fd >= 0)
		return fd;
	if (staging_new(name)) /* fsck removes what a crash leaves */
		return -EIO;
	fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
	return fd < 0 ? -errno : fd;
}

/* Gives the file of create_temp its name. -EEXIST: another has kept one meanwhile. */
static int give_name(int dir, int fd, const char *name)
{
	char path[32];

	if (*name)
		return renameat(dir, name, dir, INDEX_FILE) ? -errno : 0;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return linkat(AT_FDCWD, path, dir, INDEX_FILE, AT_SYMLINK_FOLLOW) ? -errno : 0;
}

int index_keep(const struct index *ix, int dir)
{
	char commit[HEX_SIZE], name[STAGING_MAX];
	__cleanup_fd int fd = -1;
	struct stat st;
	int err = digest_commit(dir, commit);

	if (!err && fstat(dir, &st))
		err = -errno;
	if (err)
		return err;
	fd = create_temp(dir, name, st.st_mode & 0666);
	if (fd < 0)
		return fd;
	err = write_kept(ix, commit, fd);
	if (!err)
		err = give_name(dir, fd, name);
	if (err && *name)
		unlinkat(dir, name, 0);
	futimens(dir, (const struct timespec[2]){{.tv_nsec = UTIME_OMIT}, st.st_mtim});
	return err;
}

/* --- reading --- */

/* What is read of the kept text, a line at a time. */
struct loading {
	struct index *ix;
	const struct tree *tree; /* NULL: the text says what is there */
	XXH3_state_t *state;	 /* of index_load */
	FILE *in;
	char *line; /* without its newline */
	size_t room;
	char commit[HEX_SIZE];
};

static bool read_numbers(const json_t *o, const char *key, unsigned ndim, uint64_t *out)
{
	const json_t *a = json_object_get(o, key);

	if (!json_is_array(a) || json_array_size(a) != ndim)
		return false;
	for (unsigned i = 0; i < ndim; i++) {
		const json_t *v = json_array_get(a, i);

		if (!json_is_integer(v) || json_integer_value(v) < 0)
			return false;
		out[i] = (uint64_t)json_integer_value(v);
	}
	return true;
}

/* A number that is not negative; absent: 0. */
static bool read_number(const json_t *o, const char *key, uint64_t *out)
{
	json_int_t nr = json_get_int(o, key, json_object_get(o, key) ? -1 : 0);

	*out = (uint64_t)nr;
	return nr >= 0;
}

static int load_piece(struct loading *l, struct index_tensor *t, const json_t *o)
{
	uint64_t box[2 * DIMS_MAX];
	char path[COMMIT_PATH_MAX];
	const struct tree_file *f;
	const char *why;
	struct index_piece p = {.path = path, .box = box};

	if (!json_get_path(o, "path", "path_hex", path, sizeof(path)) ||
	    !read_number(o, "at", &p.at) || !read_number(o, "bytes", &p.bytes) ||
	    !read_number(o, "from", &p.from) || !read_numbers(o, "offset", t->ndim, box) ||
	    !read_numbers(o, "length", t->ndim, box + t->ndim))
		return -EBADMSG;
	for (unsigned i = 0; i < t->ndim; i++)
		if (box[i] > INT64_MAX - box[t->ndim + i])
			return -EBADMSG;
	if (!l->tree) {
		why = json_get_text(o, "unreachable", NULL);
		p.unreachable = why ? index_text(l->ix, why, strlen(why)) : NULL;
		return why && !p.unreachable ? -ENOMEM : index_add_piece(l->ix, t, &p);
	}
	f = tree_find(l->tree, path);
	if (!f)
		p.unreachable = "is missing";
	else if (p.at > f->size || p.bytes > f->size - p.at)
		p.unreachable = "is cut off";
	return index_add_piece(l->ix, t, &p);
}

static int load_tensor(struct loading *l, const json_t *o)
{
	const char *name = json_get_text(o, "name", NULL), *digest = json_get_text(o, "xxh3", NULL);
	const char *scope = json_get_text(o, "scope", ""), *type = json_get_text(o, "dtype", "");
	const json_t *shape = json_object_get(o, "shape"), *pieces = json_object_get(o, "pieces");
	const char *dtype = type_of_safetensors(type, strlen(type));
	unsigned ndim = (unsigned)json_array_size(shape);
	bool inferred = json_is_true(json_object_get(o, "inferred"));
	struct index_tensor *t;
	uint64_t dims[DIMS_MAX];
	int err;

	if (!name || !dtype || ndim > DIMS_MAX || !read_numbers(o, "shape", ndim, dims) ||
	    !json_is_array(pieces) || (digest && !commit_is_hex(digest)) ||
	    index_find(l->ix, scope, name))
		return -EBADMSG;
	err = index_add(l->ix, scope, name, dtype, ndim, inferred ? NULL : dims, &t);
	if (!err && inferred && ndim)
		memcpy(t->shape, dims, ndim * sizeof(*dims));
	for (size_t i = 0; i < json_array_size(pieces) && !err; i++)
		err = load_piece(l, t, json_array_get(pieces, i));
	if (err)
		return err;
	t->opaque = json_is_true(json_object_get(o, "opaque"));
	t->requires_grad = json_is_true(json_object_get(o, "requires_grad"));
	t->digest = digest ? index_text(l->ix, digest, strlen(digest)) : NULL;
	return digest && !t->digest ? -ENOMEM : 0;
}

static int load_opaque(struct loading *l, const json_t *o)
{
	const char *name = json_get_text(o, "name", ""), *reason = json_get_text(o, "reason", "");
	char path[COMMIT_PATH_MAX];

	if (!json_get_path(o, "path", "path_hex", path, sizeof(path)))
		return -EBADMSG;
	if (json_is_true(json_object_get(o, "missing")))
		return index_add_missing(l->ix, path, name, "%s", reason);
	return index_add_opaque(l->ix, path, name, "%s", reason);
}

/* Reads the next line. The bytes of all lines but that of the digest are digested. */
static int next_line(struct loading *l)
{
	ssize_t len = getline(&l->line, &l->room, l->in);

	if (len <= 0 || (size_t)len > INDEX_LINE_MAX || l->line[len - 1] != '\n')
		return ferror(l->in) ? -EIO : -EBADMSG;
	if (l->state && strncmp(l->line, DIGEST_LINE, strlen(DIGEST_LINE)))
		XXH3_128bits_update(l->state, l->line, (size_t)len);
	l->line[len - 1] = '\0';
	return strlen(l->line) == (size_t)len - 1 ? 0 : -EBADMSG;
}

static int expect(struct loading *l, const char *text)
{
	int err = next_line(l);

	return err ? err : strcmp(l->line, text) ? -EBADMSG : 0;
}

/* The lines of a section, up to the one that closes it and has @end. */
static int load_section(struct loading *l, int (*load)(struct loading *l, const json_t *o),
			const char *end)
{
	int err;

	while (!(err = next_line(l)) && *l->line == '{') {
		size_t len = strlen(l->line);
		json_t *o = json_loadb(l->line, len - (l->line[len - 1] == ','), 0, NULL);

		err = json_is_object(o) ? load(l, o) : -EBADMSG;
		json_decref(o);
		if (err)
			return err;
	}
	return err ? err : strcmp(l->line, end) ? -EBADMSG : 0;
}

/* The two lists, of which the second ends with @end. */
static int load_lists(struct loading *l, const char *end)
{
	int err = expect(l, "\"tensors\": [");

	if (!err)
		err = load_section(l, load_tensor, "],");
	if (!err)
		err = expect(l, "\"opaque\": [");
	return err ? err : load_section(l, load_opaque, end);
}

int index_parse(struct index *ix, FILE *in)
{
	struct loading l = {.ix = ix, .in = in};
	int err = expect(&l, "{");

	for (unsigned i = 0; i < 3 && !err; i++) /* format, version, unit */
		err = next_line(&l);
	if (!err)
		err = load_lists(&l, "]");
	free(l.line);
	return err ? err : index_finish(ix);
}

/* All that stands there, by the order of lines that index_keep writes. */
static int load_lines(struct loading *l)
{
	char text[128], hex[HEX_SIZE];
	int err = expect(l, "{");

	if (!err)
		err = expect(l, "\"format\": \"" INDEX_FORMAT "\",");
	snprintf(text, sizeof(text), "\"version\": %d,", INDEX_VERSION);
	if (!err && expect(l, text))
		return -ENODATA; /* of another version */
	snprintf(text, sizeof(text), "\"commit\": \"%s\",", l->commit);
	if (!err && expect(l, text))
		return -ENODATA; /* of another commit */
	if (!err)
		err = load_lists(l, "],");
	to_hex(XXH3_128bits_digest(l->state), hex);
	snprintf(text, sizeof(text), DIGEST_LINE "%s\"", hex);
	return err ? err : expect(l, text);
}

int index_load(struct index *ix, const struct tree *t)
{
	struct loading l = {.ix = ix, .tree = t};
	int fd, err = t->single ? -ENODATA : digest_commit(t->dir, l.commit);
	struct stat st;

	if (err)
		return err;
	fd = openat(t->dir, INDEX_FILE, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -ENODATA : -errno;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size > INDEX_FILE_MAX) {
		close(fd);
		return -EBADMSG;
	}
	l.in = fdopen(fd, "r");
	l.state = XXH3_createState();
	err = l.in && l.state ? 0 : -ENOMEM;
	if (!err) {
		XXH3_128bits_reset(l.state);
		err = load_lines(&l);
	}
	XXH3_freeState(l.state);
	free(l.line);
	if (l.in)
		fclose(l.in);
	else
		close(fd);
	return err ? err : index_finish(ix);
}
