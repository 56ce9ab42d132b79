/* SPDX-License-Identifier: MIT */
#include "fs/catalog.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/json.h"
#include "engine/base/message.h"
#include "engine/base/source.h"
#include "engine/format/names.h"
#include "engine/rule/rule.h"
#include "fs/control_socket.h"
#include "fs/leftovers.h"
#include "fs/mountinfo.h"
#include "fs/nearest.h"
#include "fs/record.h"

#define LOOKS_MAX 8 /* walks until no save begins or ends during one; then the last counts */

struct walk_arg {
	struct catalog *c;
	const char *top; /* the walked path, as the user wrote it */
	unsigned flags;
	bool only_hidden;
	void (*complain)(const char *text);
	int err; /* -ENOMEM, or 0 */
};

/* --- entries --- */

/* Takes over @path. NULL: no memory. */
static struct unit_entry *add(struct catalog *c, char *path, enum unit_state state,
			      const char *word)
{
	struct unit_entry *u;

	if (path && c->nr == c->room) {
		size_t room = c->room ? 2 * c->room : 64;
		struct unit_entry *list = reallocarray(c->list, room, sizeof(*list));

		if (list) {
			c->list = list;
			c->room = room;
		}
	}
	if (!path || c->nr == c->room) {
		free(path);
		return NULL;
	}
	u = &c->list[c->nr++];
	*u = (struct unit_entry){.path = path, .state = state, .word = word};
	return u;
}

/* "@top/@below"; either may be empty. */
static char *join(const char *top, const char *below)
{
	size_t len = strlen(top);
	char *path;

	if (!*below)
		return strdup(top);
	while (len && top[len - 1] == '/')
		len--;
	return asprintf(&path, "%.*s/%s", (int)len, top, below) < 0 ? NULL : path;
}

/* Sorts by path; an entry that is being saved comes before what the walk found at its path. */
static int by_path(const void *pa, const void *pb)
{
	const struct unit_entry *a = pa, *b = pb;
	int order = strcmp(a->path, b->path);

	return order ? order : (b->state == UNIT_SAVING) - (a->state == UNIT_SAVING);
}

/* Sorts, and keeps the first entry of each path. */
static void sort(struct catalog *c)
{
	size_t i, nr = 0;

	if (c->nr)
		qsort(c->list, c->nr, sizeof(*c->list), by_path);
	for (i = 0; i < c->nr; i++) {
		if (nr && !strcmp(c->list[nr - 1].path, c->list[i].path))
			free(c->list[i].path);
		else
			c->list[nr++] = c->list[i];
	}
	c->nr = nr;
}

void catalog_finish(struct catalog *c)
{
	while (c->nr)
		free(c->list[--c->nr].path);
	free(c->list);
	json_decref(c->pending);
	json_decref(c->removals);
}

/* --- directories that are units --- */

static int add_up(void *arg, const struct commit_entry *entry)
{
	struct unit_entry *u = arg;

	u->size += entry->kind == COMMIT_IS_FILE ? entry->size : 0;
	u->nr_files += entry->kind == COMMIT_IS_FILE;
	return 0;
}

/* Fills @u from the commit file in @dir. 0 or -errno with @e filled. */
static int read_commit(struct unit_entry *u, int dir, bool sized, struct error *e)
{
	__cleanup_fd int fd =
		openat(dir, COMMIT_FILE, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct source src = source_of_fd(&fd);
	struct commit_header header;
	char *path;
	int err;

	if (fd < 0)
		return FAIL(e, errno, COMMIT_UNREADABLE, u->path, strerror(errno));
	path = join(u->path, COMMIT_FILE);
	if (!path)
		return FAIL(e, ENOMEM, COMMIT_UNREADABLE, u->path, strerror(ENOMEM));
	err = sized ? commit_read(&src, path, &header, add_up, u, e)
		    : commit_read_header(&src, path, &header, e);
	free(path);
	if (err)
		return err;
	u->sized = sized;
	u->time_ns = header.committed_ns;
	u->sequence = header.sequence;
	u->ranks = header.ranks;
	u->nodes = header.nodes;
	memcpy(u->generation, header.generation, sizeof(u->generation));
	return 0;
}

static void found_unit(struct walk_arg *w, const struct leftover *l)
{
	struct unit_entry *u = add(w->c, join(w->top, l->path), UNIT_COMMITTED, "committed");
	struct error e;
	int err;

	if (!u) {
		w->err = -ENOMEM;
		return;
	}
	u->is_dir = true;
	err = read_commit(u, l->dir, w->flags & CATALOG_SIZED, &e);
	if (err) {
		u->state = UNIT_DAMAGED;
		u->word = "damaged";
		u->sized = false;
		w->complain(e.text);
		/* Not read, so it may be whole. */
		if (err != -EBADMSG && err != -EPROTO && err != -ELOOP)
			w->c->nr_unseen++;
	} else if (!faccessat(l->dir, COMMIT_PENDING, F_OK, AT_SYMLINK_NOFOLLOW)) {
		u->state = UNIT_MODIFIED;
		u->word = "modified";
	}
}

/* --- all that the walk finds --- */

static void found_file(struct walk_arg *w, const struct leftover *l, enum unit_state state,
		       const char *word)
{
	struct unit_entry *u = add(w->c, join(w->top, l->path), state, word);

	if (!u) {
		w->err = -ENOMEM;
		return;
	}
	u->is_dir = l->is_dir;
	u->sized = true;
	u->size = l->size;
	u->nr_files = 1;
	u->time_ns = l->mtime_ns;
}

/* True if @name is the staging of a save under way, which is no leftover. */
static bool is_being_saved(const struct catalog *c, const char *name)
{
	const json_t *p;
	size_t i;

	json_array_foreach (c->pending, i, p)
		if (!strcmp(staging_id(name), json_get_text(p, "generation", "")))
			return true;
	return false;
}

static void found_hidden(struct walk_arg *w, const struct leftover *l, const char *word)
{
	if (w->flags & CATALOG_HIDDEN && !is_being_saved(w->c, l->name))
		found_file(w, l, UNIT_HIDDEN, word);
}

static void unseen(struct walk_arg *w, const char *path, int err)
{
	char text[MESSAGE_MAX];

	MESSAGE(text, FSCK_UNREADABLE, path, strerror(-err));
	w->complain(text);
	w->c->nr_unseen++;
}

static void found(void *arg, const struct leftover *l)
{
	__cleanup_free char *path = NULL;
	struct walk_arg *w = arg;

	switch (l->kind) {
	case LEFT_UNIT:
		found_unit(w, l);
		break;
	case LEFT_RECORDED:
		found_file(w, l, UNIT_COMMITTED, "committed");
		break;
	case LEFT_MODIFIED:
		found_file(w, l, UNIT_MODIFIED, "modified");
		break;
	case LEFT_FOREIGN:
	case LEFT_FOREIGN_UNIT:
		found_file(w, l, UNIT_FOREIGN, "foreign");
		break;
	case LEFT_UNFINISHED:
		found_hidden(w, l, "unfinished");
		break;
	case LEFT_UNPUBLISHED:
		found_hidden(w, l, "unpublished");
		break;
	case LEFT_TRASH:
		found_hidden(w, l, "trash");
		break;
	case LEFT_UNKNOWN:
		found_hidden(w, l, "unknown");
		break;
	case LEFT_UNREADABLE:
		path = join(w->top, l->path);
		if (path && !w->only_hidden)
			unseen(w, path, l->err);
		break;
	default: /* another filesystem is mounted there */
		break;
	}
}

static bool never(void *arg)
{
	(void)arg;
	return false;
}

static void ignore(void *arg, const char *path)
{
	(void)arg, (void)path;
}

static int walk_dir(struct walk_arg *w, int fd)
{
	struct rules *rules;
	struct error e;
	int err = rules_create(&rules, NULL, "", &e);
	struct leftovers walk = {.root_fd = fd,
				 .rules = rules,
				 .foreign = !w->only_hidden,
				 .units = !w->only_hidden,
				 .only_units = !(w->flags & CATALOG_HIDDEN),
				 .stop = never,
				 .looking = ignore,
				 .found = found,
				 .arg = w};

	if (!err)
		err = leftovers_walk(&walk);
	rules_destroy(rules);
	return err ? err : w->err;
}

/* The user named a file. */
static void look_at_file(struct walk_arg *w, int fd, const struct stat *st)
{
	const char *name = strrchr(w->top, '/');
	struct leftover l = {
		.path = "", .size = (uint64_t)st->st_size, .mtime_ns = stat_mtime_ns(st)};
	struct record record;
	int err = record_read(fd, &record);

	if (err == -ENODATA && leftovers_is_checkpoint(name ? name + 1 : w->top) &&
	    !record_is_awaited(fd))
		l.kind = LEFT_FOREIGN;
	else if (err == -ENODATA)
		return;
	else
		l.kind = !err && record_is_of(&record, st) ? LEFT_RECORDED : LEFT_MODIFIED;
	found(w, &l);
}

static int absent(const char *path, struct error *e)
{
	char near[PATH_MAX];
	bool any = nearest_path(path, near);

	return FAIL(e, ENOENT, PATH_ABSENT, path, any ? "; the nearest name there: " : "",
		    any ? near : "");
}

/* Reads what is at @path; entries are named below w->top. */
static int look_at(struct walk_arg *w, const char *path, struct error *e)
{
	__cleanup_fd int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	struct stat st;
	int err = 0;

	if (fd < 0 && errno == ENOENT && !w->only_hidden)
		return absent(path, e);
	if (fd < 0 || fstat(fd, &st))
		err = -errno;
	else if (S_ISDIR(st.st_mode))
		err = walk_dir(w, fd);
	else if (S_ISREG(st.st_mode) && !w->only_hidden)
		look_at_file(w, fd, &st);
	if (!err)
		err = w->err;
	return err ? FAIL(e, -err, FSCK_UNREADABLE, path, strerror(-err)) : 0;
}

/* --- in a mount --- */

/* The resolved @path in @m, relative to the root of that filesystem, without slashes around it. */
static void path_in_mount(const struct mount_entry *m, const char *path, char below[2 * PATH_MAX])
{
	size_t len;

	snprintf(below, 2 * PATH_MAX, "%s%s", m->root + strspn(m->root, "/"),
		 path + strlen(m->path));
	len = strspn(below, "/");
	memmove(below, below + len, strlen(below + len) + 1);
	for (len = strlen(below); len && below[len - 1] == '/'; len--)
		below[len - 1] = '\0';
}

/*
 * The directory @path is being saved. Drops the entries that the walk found below it, which are its
 * parts; and its own entry as foreign: it only has no commit file yet.
 */
static void forget_parts(struct catalog *c, const char *path)
{
	size_t i = 0, len = path ? strlen(path) : 0;

	while (path && i < c->nr) {
		const struct unit_entry *u = &c->list[i];
		bool below = !strncmp(u->path, path, len) && u->path[len] == '/';

		if (below || (u->state == UNIT_FOREIGN && u->is_dir && !strcmp(u->path, path))) {
			free(u->path);
			c->list[i] = c->list[--c->nr];
		} else {
			i++;
		}
	}
}

/* The path of @told, an item of the daemon's answer, relative to @below; NULL: not below it. */
static const char *path_below(const json_t *told, const char *below)
{
	const char *path = json_get_text(told, "path", "");
	size_t len = strlen(below);

	if (strncmp(path, below, len) || (len && path[len] && path[len] != '/'))
		return NULL;
	return path + len + strspn(path + len, "/");
}

/* Adds the saves that are pending at or below @below, which the user calls @top. 0 or -ENOMEM. */
static int add_pending(struct catalog *c, const char *top, const char *below)
{
	const json_t *p;
	size_t i;

	json_array_foreach (c->pending, i, p) {
		double age_s = json_number_value(json_object_get(p, "age_s"));
		const char *path = path_below(p, below);
		struct unit_entry *u;
		char *whole;

		if (!path || json_is_true(json_object_get(p, "part")))
			continue;
		whole = join(top, path);
		if (json_is_true(json_object_get(p, "directory")))
			forget_parts(c, whole);
		u = add(c, whole, UNIT_SAVING, json_get_text(p, "state", "?"));
		if (!u)
			return -ENOMEM;
		u->sized = true;
		u->size = (uint64_t)json_get_int(p, "size", 0);
		u->time_ns = clock_wall_ns() - (uint64_t)(age_s * NSEC_PER_SEC);
	}
	return 0;
}

/* Adds what was removed and is still on the backing. 0 or -ENOMEM. */
static int add_removed(struct catalog *c, const char *top, const char *below)
{
	const json_t *r;
	size_t i;

	json_array_foreach (c->removals, i, r) {
		double age_s = json_number_value(json_object_get(r, "age_s"));
		const char *path = path_below(r, below);
		struct unit_entry *u;

		if (!path || strcmp(json_get_text(r, "state", ""), "removed"))
			continue;
		u = add(c, join(top, path), UNIT_HIDDEN, "removed");
		if (!u)
			return -ENOMEM;
		u->is_dir = true;
		u->time_ns = clock_wall_ns() - (uint64_t)(age_s * NSEC_PER_SEC);
	}
	return 0;
}

/* Adds the names that the mount hides. Only the backing shows them, if it can be reached. */
static void add_hidden(struct walk_arg *w, const struct mount_entry *m, const char *below)
{
	char *path = join(m->source, below), resolved[PATH_MAX], text[MESSAGE_MAX];
	struct mount_entry over;
	struct error e;

	w->only_hidden = true;
	if (!path)
		w->err = -ENOMEM;
	else if (!mountinfo_resolve(path, resolved) && mountinfo_find_ckptfs(resolved, &over)) {
		MESSAGE(text, LS_COVERED, w->top, path);
		w->complain(text);
		w->c->nr_unseen++;
	} else if (look_at(w, path, &e)) {
		w->complain(e.text);
		w->c->nr_unseen++;
	}
	free(path);
}

/* One answer of the daemon about saves and removals. */
struct word {
	json_t *pending, *removals;
	json_t *counts; /* of saves that have ended */
};

static void word_finish(struct word *w)
{
	json_decref(w->pending);
	json_decref(w->removals);
	json_decref(w->counts);
	*w = (struct word){0};
}

/* 0 or -errno with @e filled. */
static int ask(const struct mount_entry *m, struct word *word, struct error *e)
{
	json_t *status;
	int err = control_ask(m, "status", CONTROL_ASK_MS, &status, NULL, NULL, e);

	if (err)
		return err;
	word->pending = json_incref(json_object_get(status, "pending"));
	word->removals = json_incref(json_object_get(status, "removals"));
	word->counts = json_incref(json_object_get(status, "units"));
	json_decref(status);
	return 0;
}

static const char *generation_at(const struct word *w, size_t i)
{
	return json_get_text(json_array_get(w->pending, i), "generation", "");
}

/* True if no save began or ended between the two answers. */
static bool same_saves(const struct word *a, const struct word *b)
{
	size_t nr = json_array_size(a->pending), i;

	if (nr != json_array_size(b->pending) ||
	    (a->counts && b->counts && !json_equal(a->counts, b->counts)))
		return false;
	for (i = 0; i < nr; i++)
		if (strcmp(generation_at(a, i), generation_at(b, i)) != 0)
			return false;
	return true;
}

/* Adds the saves that began during the last walk, as @now lists them. */
static void add_begun(struct catalog *c, const struct word *now)
{
	const json_t *p;
	size_t i;

	json_array_foreach (now->pending, i, p)
		json_array_append(c->pending, (json_t *)p);
}

/*
 * Reads the mount and asks the daemon as of one moment: if a save begins or ends meanwhile, does
 * both again. Otherwise a save that begins meanwhile would be listed as foreign, or as committed
 * too early. Where saves never pause, the last walk counts, and the saves that began during it are
 * added.
 */
static int read_mount(struct walk_arg *w, const struct mount_entry *m, struct error *e)
{
	struct word before = {0}, after = {0};
	unsigned looks = LOOKS_MAX;
	bool same = false;
	/* The daemon first: it answers even if the mount hangs. */
	int err = ask(m, &before, e);

	while (!err && !same) {
		catalog_finish(w->c);
		*w->c = (struct catalog){.pending = json_incref(before.pending),
					 .removals = json_incref(before.removals)};
		err = look_at(w, w->top, e);
		if (!err)
			err = ask(m, &after, e);
		same = !err && same_saves(&before, &after);
		if (!err && !same && !--looks) {
			add_begun(w->c, &after);
			same = true;
		}
		word_finish(&before);
		before = after;
		after = (struct word){0};
	}
	word_finish(&before);
	return err;
}

int catalog_read(struct catalog *c, const char *path, unsigned flags,
		 void (*complain)(const char *text), struct error *e)
{
	struct walk_arg w = {.c = c, .top = path, .flags = flags, .complain = complain};
	char resolved[PATH_MAX], below[2 * PATH_MAX];
	struct mount_entry m;
	int err;

	memset(c, 0, sizeof(*c));
	if (mountinfo_resolve(path, resolved) || !mountinfo_find_ckptfs(resolved, &m)) {
		err = look_at(&w, path, e);
		sort(c);
		return err;
	}
	path_in_mount(&m, resolved, below);
	w.flags &= ~(unsigned)CATALOG_HIDDEN;
	err = read_mount(&w, &m, e);
	if (!err && add_pending(c, path, below))
		err = FAIL(e, ENOMEM, FSCK_UNREADABLE, path, strerror(ENOMEM));
	w.flags = flags;
	if (!err && flags & CATALOG_HIDDEN && add_removed(c, path, below))
		err = FAIL(e, ENOMEM, FSCK_UNREADABLE, path, strerror(ENOMEM));
	if (!err && flags & CATALOG_HIDDEN)
		add_hidden(&w, &m, below);
	sort(c);
	return err;
}
