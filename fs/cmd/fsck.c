/* SPDX-License-Identifier: MIT */
/* ckptfs fsck: finds what unfinished saves left in a backing that nobody has mounted. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <linux/magic.h>
#include <mntent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "client/ckptfs_abi.h"
#include "engine/base/cleanup.h"
#include "engine/content/digest.h"
#include "engine/content/structure.h"
#include "engine/engine.h"
#include "fs/cmd/cmd.h"
#include "fs/control_socket.h"
#include "fs/foreign.h"
#include "fs/leftovers.h"
#include "fs/listing.h"
#include "fs/record.h"
#include "fs/show.h"

#define THREADS 8
/* What was written so lately may be being written. */
#define QUIET_S 60

enum mode { REPORT, ADOPT, DISCARD, DRY_RUN };

static const char *const kinds[NR_LEFTOVER_KINDS] = {
	[LEFT_UNFINISHED] = "unfinished", [LEFT_UNPUBLISHED] = "unpublished",
	[LEFT_TRASH] = "trash",		  [LEFT_FOREIGN] = "foreign",
	[LEFT_UNKNOWN] = "unknown",	  [LEFT_MOUNT] = "mount",
	[LEFT_UNREADABLE] = "unreadable", [LEFT_DECIDED] = "decided",
	[LEFT_FOREIGN_UNIT] = "foreign",
}; /* of what is left */

struct fsck {
	enum mode mode;
	json_t *list; /* --json: of what was found; or NULL */
	struct backing backing;
	struct format format;
	struct config config;
	struct coord coord;
	struct leftovers walk;
	struct progress progress;
	uint64_t now_ns;
	unsigned nr[NR_LEFTOVER_KINDS];
	unsigned nr_removed, nr_adopted, nr_left; /* left: of what is not as it should be */
	unsigned nr_redone;			  /* of what was decided before a crash */
	unsigned nr_given;			  /* names to whole checkpoints */
	struct rules *rules;
	char *const *named; /* foreign directories that somebody vouches for, as given */
	int nr_named;
	bool *met;	/* of each: it was one */
	char **waiting; /* staging names of what was decided, but could not be redone */
	size_t nr_waiting;
	uint64_t bytes_removed, bytes_left; /* of staging and trash */
	const char *digesting;
	uint64_t digest_size;
};

static volatile sig_atomic_t ended_by;

/* --- a mount that is alive --- */

static bool is_below(const char *path, const char *top)
{
	size_t len = strlen(top);

	return !strcmp(top, "/") || (!strncmp(path, top, len) && (!path[len] || path[len] == '/'));
}

/* Has the daemon of @m, which may have reached it by another path, the backing @uuid? */
static bool serves(const struct mount_entry *m, const char *backing, const char *uuid)
{
	bool same = is_below(m->source, backing) || is_below(backing, m->source);
	struct error e;
	json_t *status;
	int err = control_ask(m, "status", CONTROL_ASK_MS, &status, NULL, NULL, &e);

	if (!err && *uuid && !strcmp(json_get_text(status, "uuid", ""), uuid))
		same = true;
	json_decref(status);
	return same && err != -ECONNREFUSED; /* no daemon: nobody writes */
}

/* Mounts of this host, in this mount namespace, that serve @backing. */
static bool find_live(const char *backing, const char *uuid, struct mount_entry *m)
{
	FILE *f = setmntent("/proc/self/mounts", "re");
	char text[3 * PATH_MAX];
	struct mntent entry;
	bool found = false;

	while (f && !found && getmntent_r(f, &entry, text, sizeof(text))) {
		if (strcmp(entry.mnt_type, CKPTFS_FSTYPE))
			continue;
		/* One that another covers cannot be asked. */
		if (!mountinfo_find_at(entry.mnt_dir, m) || strcmp(m->type, CKPTFS_FSTYPE)) {
			snprintf(m->path, sizeof(m->path), "%s", entry.mnt_dir);
			found = is_below(entry.mnt_fsname, backing) ||
				is_below(backing, entry.mnt_fsname);
		} else {
			found = serves(m, backing, uuid);
		}
	}
	if (f)
		endmntent(f);
	return found;
}

/* @path lies in the mount @m. */
static int refuse_mount(const struct mount_entry *m, const char *path, struct error *e)
{
	json_t *status;
	int err = control_ask(m, "status", CONTROL_ASK_MS, &status, NULL, NULL, e);

	json_decref(status);
	if (err == -ECONNREFUSED) /* the remains of one */
		return err;
	if (!strcmp(m->source, m->path)) /* mounted over itself */
		return FAIL(e, EBUSY, FSCK_MOUNTED, path, m->path, m->path);
	return FAIL(e, EBUSY, BACKING_IS_MOUNT, path, m->path);
}

/* Which has no locks that could tell. */
static bool is_nfs(const struct backing *b)
{
	struct statfs sf;

	return !fstatfs(b->root_fd, &sf) && sf.f_type == NFS_SUPER_MAGIC;
}

static int open_backing(struct fsck *f, const char *path, struct error *e)
{
	char resolved[PATH_MAX];
	struct mount_entry m;
	int err;

	if (!mountinfo_resolve(path, resolved) && mountinfo_find_ckptfs(resolved, &m))
		return refuse_mount(&m, path, e);
	err = backing_open(&f->backing, path, e);
	if (!err)
		err = format_check_nested(f->backing.root_fd, f->backing.path, e);
	if (!err)
		err = format_read(f->backing.root_fd, f->backing.path, &f->format, e);
	if (!err && find_live(f->backing.path, f->format.uuid, &m))
		err = FAIL(e, EBUSY, FSCK_MOUNTED, f->backing.path, m.path, m.path);
	if (!err && backing_lock(&f->backing, f->backing.root_fd, true) && !is_nfs(&f->backing))
		err = FAIL(e, EBUSY, FSCK_IN_USE, f->backing.path);
	if (!err && f->mode == ADOPT && fgetxattr(f->backing.root_fd, DIGEST_XATTR, NULL, 0) < 0 &&
	    errno == EOPNOTSUPP)
		err = FAIL(e, EOPNOTSUPP, FSCK_NO_XATTRS, f->backing.path);
	if (!err)
		err = coord_choose(
			&f->coord,
			&(struct coord_choice){
				.option = config_text(&f->config, OPT_COORD),
				.backing = &f->backing,
				.format = &f->format,
				.lease_s = (unsigned)config_number(&f->config, OPT_LEASE_S),
			},
			e);
	return err;
}

/* --- one find --- */

static void tell(struct fsck *f, const struct leftover *l, const char *action, const char *hex,
		 const char *message)
{
	double age_s = ((double)f->now_ns - (double)l->mtime_ns) / NSEC_PER_SEC;
	bool has_age = l->mtime_ns;
	char size[SHOW_MAX] = "", age[SHOW_MAX] = "", path[PATH_MAX];

	progress_hide(&f->progress);
	if (f->list) {
		json_t *o = json_pack("{s:s, s:I, s:f, s:s, s:s?, s:o?}", "kind", kinds[l->kind],
				      "size", (json_int_t)l->size, "age_s", has_age ? age_s : 0.0,
				      "action", action, "xxh3", hex, "message",
				      message ? json_text(message) : NULL);

		show_path_json(o, l->path);
		json_array_append_new(f->list, o);
	} else {
		if (has_age) {
			show_size(size, (double)l->size);
			show_age(age, age_s);
		}
		printf("%-11s %10s %8s  %-12s  %s\n", kinds[l->kind], size, age, action,
		       show_name(path, sizeof(path), l->path));
	}
	fflush(stdout);
	if (message)
		complain(message);
}

static void discard(struct fsck *f, const struct leftover *l)
{
	char text[MESSAGE_MAX], path[PATH_MAX];
	int err;

	progress_show(&f->progress, "removing %s", show_name(path, sizeof(path), l->path));
	err = leftover_remove(l);
	if (!err || err == -ENOENT) {
		f->nr_removed++;
		f->bytes_removed += l->size;
		tell(f, l, "removed", NULL, NULL);
		return;
	}
	f->nr_left++;
	f->bytes_left += l->size;
	MESSAGE(text, FSCK_REMOVE, show_name(path, sizeof(path), l->path), strerror(-err));
	tell(f, l, "failed", NULL, text);
}

/* Staging and trash. */
static void found_leftover(struct fsck *f, const struct leftover *l)
{
	char text[MESSAGE_MAX], path[PATH_MAX];
	const char *message = NULL;

	if (f->mode == DISCARD) {
		discard(f, l);
		return;
	}
	if (l->kind == LEFT_UNPUBLISHED) {
		show_name(path, sizeof(path), l->path);
		MESSAGE(text, FSCK_UNPUBLISHED, path);
		message = text;
	}
	f->nr_left++;
	f->bytes_left += l->size;
	tell(f, l, f->mode == ADOPT ? "left" : "would remove", NULL, message);
}

/* --- what was decided before a crash --- */

static void keep_waiting(struct fsck *f, const char *staging)
{
	char **more = realloc(f->waiting, (f->nr_waiting + 1) * sizeof(*more));

	if (!more)
		return;
	f->waiting = more;
	more[f->nr_waiting] = strdup(staging);
	f->nr_waiting += more[f->nr_waiting] != NULL;
}

static void redone(void *arg, const struct caller *owner, const char *unit, const char *staging,
		   int err)
{
	struct fsck *f = arg;
	struct leftover l = {.kind = LEFT_DECIDED, .path = unit, .is_dir = true};
	char text[MESSAGE_MAX], path[PATH_MAX];

	(void)owner;
	f->nr[LEFT_DECIDED]++;
	show_name(path, sizeof(path), unit);
	if (err == -EBUSY)
		MESSAGE(text, PUBLISH_CONFLICT, path, staging);
	else if (err == -EBADMSG)
		MESSAGE(text, RECOVERY_DAMAGED, path, staging, staging);
	else if (err)
		MESSAGE(text, RECOVERY_WAITS, path, strerror(-err), staging);
	if (err && err != -EBUSY && err != -EBADMSG)
		keep_waiting(f, staging);
	f->nr_left += err || f->mode == DRY_RUN;
	f->nr_redone += !err && f->mode != DRY_RUN;
	tell(f, &l,
	     err		  ? "left"
	     : f->mode == DRY_RUN ? "would redo"
				  : "redone",
	     NULL, err ? text : NULL);
}

/* What was to follow a commit that was decided. */
static void followed(void *arg, const struct caller *owner, const char *path, bool removed,
		     const char *unit, int err)
{
	struct fsck *f = arg;
	struct leftover l = {.kind = LEFT_DECIDED, .path = path, .is_dir = removed};
	char text[MESSAGE_MAX], shown[PATH_MAX], unit_shown[PATH_MAX];

	(void)owner;
	f->nr[LEFT_DECIDED]++;
	if (err)
		MESSAGE(text, RECOVERY_FOLLOWS, show_name(shown, sizeof(shown), path),
			removed ? "removed" : "changed",
			show_name(unit_shown, sizeof(unit_shown), unit), strerror(-err));
	f->nr_left += err || f->mode == DRY_RUN;
	f->nr_redone += !err && f->mode != DRY_RUN;
	tell(f, &l,
	     err		  ? "left"
	     : f->mode == DRY_RUN ? (removed ? "would remove" : "would point")
	     : removed		  ? "removed"
				  : "pointed",
	     NULL, err ? text : NULL);
}

static void replaced(void *arg, const struct caller *owner, int dir, const char *id)
{
	char name[sizeof(TRASH_PREFIX) + 32];
	struct leftover l = {.dir = dir, .name = name, .is_dir = true};

	(void)arg;
	(void)owner;
	snprintf(name, sizeof(name), "%s%s", TRASH_PREFIX, id);
	leftover_remove(&l); /* or the walk finds it */
}

static int redo_decided_by(struct fsck *f, const struct coord_ops *coord, void *coord_arg,
			   bool alone)
{
	struct rules *rules; /* the built-in ones: own ones were asked when it was decided */
	struct error e;
	int err = rules_create(&rules, NULL, "", &e);
	struct recovery r = {.backing = &f->backing,
			     .coord = coord,
			     .rules = rules,
			     .coord_arg = coord_arg,
			     .only_look = f->mode == DRY_RUN,
			     .alone = alone,
			     .redone = redone,
			     .followed = followed,
			     .trashed = replaced,
			     .arg = f};

	if (err)
		return err;
	progress_show(&f->progress, "what was decided before a crash");
	err = recover_decided(&r);
	if (!err && f->mode != DRY_RUN && (alone || coord != &coord_dir_ops))
		err = recover_names(&r);
	rules_destroy(rules);
	return err;
}

/* By the backing in any case: another way may have been chosen since. */
static int redo_decided(struct fsck *f)
{
	int err = redo_decided_by(f, &coord_dir_ops, &f->backing, !is_nfs(&f->backing));
	int also = f->coord.etcd ? redo_decided_by(f, f->coord.ops, f->coord.arg, false) : 0;

	return err ? err : also;
}

/* --- checkpoints of many files that lie in staging --- */

static void show_verified(void *arg, uint64_t bytes)
{
	struct fsck *f = arg;
	char path[PATH_MAX];

	progress_show(&f->progress, "%s: %.0f MB verified",
		      show_name(path, sizeof(path), f->digesting), (double)bytes / 1e6);
}

/* Is all there that its commit file lists? Else what is wrong is in @e. */
static int staged_is_whole(struct fsck *f, const struct leftover *l, int dir, struct listing *list,
			   struct error *e)
{
	const char *wrong = NULL;
	char path[PATH_MAX];
	size_t i;
	int err;

	show_name(path, sizeof(path), l->path);
	f->digesting = l->path;
	err = listing_read(list, dir, path, e);
	if (err)
		return err;
	err = listing_verify(list, dir, path, THREADS, show_verified, f);
	for (i = 0; !err && !wrong && i < list->nr; i++)
		if (list->list[i].verdict != FILE_OK)
			wrong = list->list[i].message ? list->list[i].message : list->list[i].path;
	if (!err && !wrong && strcmp(list->header.generation, l->name + strlen(STAGING_PREFIX)))
		wrong = "it is a copy of another";
	if (!err && !wrong)
		return 0;
	return FAIL(e, err ? -err : EBADMSG, FSCK_STAGED_DAMAGED, path, list->header.unit,
		    wrong ? wrong : strerror(-err));
}

/* Its name was free. -EEXIST: it is not any more. */
static int give_name(const struct leftover *l, const char *name)
{
	struct stat st;
	int err = renameat2(l->dir, l->name, l->dir, name, RENAME_NOREPLACE) ? -errno : 0;

	if (err == -EINVAL) { /* the filesystem has no such rename */
		if (!fstatat(l->dir, name, &st, AT_SYMLINK_NOFOLLOW))
			return -EEXIST;
		err = renameat(l->dir, l->name, l->dir, name) ? -errno : 0;
	}
	/* What looks on is a descriptor for paths. */
	if (!err) {
		__cleanup_fd int dir = openat(l->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		err = dir < 0 || fsync(dir) ? -errno : 0;
	}
	return err;
}

/* What can be said of it, or was done: in @e, unless that is all in the word that is returned. */
static const char *adopt_staged(struct fsck *f, const struct leftover *l,
				const struct listing *list, struct error *e)
{
	const char *unit = list->header.unit, *slash = strrchr(unit, '/');
	const char *name = slash ? slash + 1 : unit;
	char path[PATH_MAX], shown[PATH_MAX];
	struct stat st;
	bool is_free = !rules_reserved(name) && fstatat(l->dir, name, &st, AT_SYMLINK_NOFOLLOW) &&
		       errno == ENOENT;
	int err;

	show_name(path, sizeof(path), l->path);
	show_name(shown, sizeof(shown), unit);
	err = is_free && f->mode == ADOPT ? give_name(l, name) : 0;
	if (!is_free || err == -EEXIST) {
		FAIL(e, EEXIST, FSCK_NAME_TAKEN, path, shown);
		return "left";
	}
	if (f->mode != ADOPT) {
		FAIL(e, ENOENT, FSCK_UNPUBLISHED_UNIT, path, shown);
		return "would adopt";
	}
	if (err) {
		FAIL(e, -err, FSCK_NOT_GIVEN, path, shown, strerror(-err));
		return "left";
	}
	f->nr_given++;
	return "adopted";
}

/* Its commit is decided, so it is not to be removed. */
static bool is_waiting(const struct fsck *f, const char *name)
{
	size_t i;

	for (i = 0; i < f->nr_waiting; i++)
		if (!strcmp(f->waiting[i], name))
			return true;
	return false;
}

/* @l is a directory .ckptfs-ID. */
static void found_staged(struct fsck *f, struct leftover *l)
{
	__cleanup_fd int dir =
		openat(l->dir, l->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct listing list = {.nr = 0};
	char path[PATH_MAX];
	const char *action = "left";
	struct error e = {.err = 0};
	bool held = dir >= 0 && backing_lock(&f->backing, dir, true) &&
		    backing_has_locks(&f->backing, dir);

	if (held) {
		FAIL(&e, EBUSY, FSCK_HELD, show_name(path, sizeof(path), l->path));
	} else if (f->mode == DISCARD && !is_waiting(f, l->name)) {
		discard(f, l);
		return;
	} else if (l->kind == LEFT_UNPUBLISHED &&
		   (dir < 0 || staged_is_whole(f, l, dir, &list, &e))) {
		l->kind = LEFT_UNFINISHED;
		f->nr[LEFT_UNPUBLISHED]--;
		f->nr[LEFT_UNFINISHED]++;
		action = f->mode == ADOPT ? "left" : "would remove";
	} else if (l->kind == LEFT_UNPUBLISHED) {
		action = adopt_staged(f, l, &list, &e);
	} else if (f->mode != ADOPT) {
		action = "would remove";
	}
	if (strcmp(action, "adopted")) {
		f->nr_left++;
		f->bytes_left += l->size;
	}
	tell(f, l, action, NULL, *e.text ? e.text : NULL);
	listing_finish(&list);
}

/* --- adopting --- */

static void show_digest(void *arg, uint64_t bytes)
{
	struct fsck *f = arg;
	char path[PATH_MAX];

	if (f->digest_size)
		progress_show(&f->progress, "%s: %.0f %% of %.0f MB",
			      show_name(path, sizeof(path), f->digesting),
			      (double)bytes * 100 / (double)f->digest_size,
			      (double)f->digest_size / 1e6);
}

static bool same_content(const struct stat *a, const struct stat *b)
{
	return a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
	       a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static int cannot_adopt(const char *path, int err, const char *why, struct error *e)
{
	return FAIL(e, err, FSCK_ADOPT, path, why ? why : strerror(err));
}

/* What would be in vain after all its bytes were read is found out before. */
static int may_adopt(const struct fsck *f, const struct leftover *l, const struct stat *st,
		     const char *path, struct error *e)
{
	int64_t age_s = (int64_t)(f->now_ns / NSEC_PER_SEC) - st->st_mtim.tv_sec;

	if (!S_ISREG(st->st_mode))
		return cannot_adopt(path, EINVAL, "it is no file any more", e);
	if (age_s > -QUIET_S && age_s < QUIET_S)
		return cannot_adopt(path, EBUSY,
				    "it was written to within the last minute, and may not be "
				    "complete; try again later",
				    e);
	if (faccessat(l->dir, l->name, W_OK, AT_EACCESS))
		return cannot_adopt(path, errno, NULL, e);
	return 0;
}

/* Digests the file and records it, if it is whole and stays as it is meanwhile. */
static int adopt(struct fsck *f, const struct leftover *l, const char *path, char hex[DIGEST_HEX],
		 struct error *e)
{
	__cleanup_fd int fd =
		openat(l->dir, l->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct source src = source_of_fd(&fd);
	char record[DIGEST_RECORD_MAX];
	struct stat st, after;
	int err;

	if (fd < 0 || fstat(fd, &st))
		return cannot_adopt(path, errno, NULL, e);
	err = may_adopt(f, l, &st, path, e);
	if (!err)
		err = structure_check(&src, path, (uint64_t)st.st_size, e);
	if (err)
		return err;
	f->digesting = path;
	f->digest_size = (uint64_t)st.st_size;
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED); /* what the storage has counts */
	err = digest_of_source(&src, f->digest_size, THREADS, show_digest, f, hex);
	if (!fstat(fd, &after) && !same_content(&st, &after))
		return cannot_adopt(path, EBUSY, "it was written to while it was read", e);
	if (err)
		return cannot_adopt(path, -err, NULL, e);
	digest_record_format(record, sizeof(record), hex, (uint64_t)st.st_size, stat_mtime_ns(&st));
	if (fsetxattr(fd, DIGEST_XATTR, record, strlen(record), XATTR_CREATE) || fsync(fd))
		return cannot_adopt(path, errno, NULL, e);
	return 0;
}

static void found_foreign(struct fsck *f, const struct leftover *l)
{
	char hex[DIGEST_HEX] = "", path[PATH_MAX];
	struct error e;

	if (f->mode != ADOPT) {
		tell(f, l, "would adopt", NULL, NULL);
	} else if (adopt(f, l, show_name(path, sizeof(path), l->path), hex, &e)) {
		f->nr_left++;
		tell(f, l, "left", NULL, e.text);
	} else {
		f->nr_adopted++;
		tell(f, l, "adopted", hex, NULL);
	}
}

static void show_adopting(void *arg, const char *path, uint64_t bytes)
{
	struct fsck *f = arg;
	char shown[PATH_MAX];

	progress_show(&f->progress, "%s: %.0f MB", show_name(shown, sizeof(shown), path),
		      (double)bytes / 1e6);
}

/* Was it named on the command line? */
static bool is_named(struct fsck *f, int dir)
{
	struct stat st, named;
	bool is = false;
	int i;

	for (i = 0; i < f->nr_named; i++)
		if (!fstat(dir, &st) && !stat(f->named[i], &named) && st.st_ino == named.st_ino &&
		    st.st_dev == named.st_dev)
			is = f->met[i] = true;
	return is;
}

static void found_foreign_unit(struct fsck *f, const struct leftover *l)
{
	char path[PATH_MAX];
	struct error e = {.err = 0};
	struct foreign unit = {
		.rule = foreign_rule(f->rules, l->path, l->dir),
		.path = l->path,
		.shown = show_name(path, sizeof(path), l->path),
		.dir = l->dir,
		.named = is_named(f, l->dir),
		.only_look = f->mode != ADOPT,
		.now_ns = f->now_ns,
		.digesting = show_adopting,
		.arg = f,
	};
	int err = unit.rule ? foreign_adopt(&unit, &e) : -ENOENT;

	if (!err && f->mode == ADOPT)
		f->nr_adopted++;
	f->nr_left += err && (err != -ENODATA || unit.named);
	tell(f, l,
	     err		? "left"
	     : f->mode == ADOPT ? "adopted"
				: "would adopt",
	     NULL, err ? e.text : NULL);
}

static void found(void *arg, const struct leftover *l)
{
	char text[MESSAGE_MAX], path[PATH_MAX];
	struct fsck *f = arg;

	f->nr[l->kind]++;
	show_name(path, sizeof(path), l->path);
	switch (l->kind) {
	case LEFT_UNFINISHED:
	case LEFT_UNPUBLISHED:
		if (l->is_dir) {
			struct leftover staged = *l;

			found_staged(f, &staged);
			break;
		}
		found_leftover(f, l);
		break;
	case LEFT_TRASH:
		found_leftover(f, l);
		break;
	case LEFT_FOREIGN:
		found_foreign(f, l);
		break;
	case LEFT_FOREIGN_UNIT:
		found_foreign_unit(f, l);
		break;
	case LEFT_UNKNOWN:
		f->nr_left++;
		MESSAGE(text, FSCK_UNKNOWN, path);
		tell(f, l, "left", NULL, text);
		break;
	case LEFT_UNREADABLE:
		f->nr_left++;
		MESSAGE(text, FSCK_UNREADABLE, path, strerror(-l->err));
		tell(f, l, "left", NULL, text);
		break;
	default:
		tell(f, l, "left", NULL, NULL);
	}
}

/* --- the verb --- */

static void looking(void *arg, const char *path)
{
	struct fsck *f = arg;
	char shown[64];
	size_t len = strlen(path);

	progress_show(&f->progress, "%llu names: %s", (unsigned long long)f->walk.nr_looked,
		      show_name(shown, sizeof(shown), len > 60 ? path + len - 60 : path));
}

static bool stop(void *arg)
{
	(void)arg;
	return ended_by;
}

static void note_signal(int sig)
{
	ended_by = sig;
}

/* Between two files: nothing is left half done. The second signal of a kind acts as ever. */
static void catch_signals(void)
{
	struct sigaction sa = {.sa_handler = note_signal, .sa_flags = SA_RESETHAND | SA_RESTART};

	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGHUP, &sa, NULL);
}

/* Each level of directories takes one. */
static void raise_fd_limit(void)
{
	struct rlimit rl;

	if (!getrlimit(RLIMIT_NOFILE, &rl)) {
		rl.rlim_cur = rl.rlim_max;
		setrlimit(RLIMIT_NOFILE, &rl);
	}
}

static void print_sum(const struct fsck *f)
{
	unsigned staged = f->nr[LEFT_UNFINISHED] + f->nr[LEFT_UNPUBLISHED];
	char size[SHOW_MAX];

	printf("%llu names looked at:", (unsigned long long)f->walk.nr_looked);
	if (f->mode == DISCARD)
		printf(" %u removed (%s)", f->nr_removed,
		       show_size(size, (double)f->bytes_removed));
	else
		printf(" %u left by saves that did not end, %u trash (%s)", staged,
		       f->nr[LEFT_TRASH], show_size(size, (double)f->bytes_left));
	if (f->mode != DISCARD)
		printf(", %u without a digest", f->nr[LEFT_FOREIGN] + f->nr[LEFT_FOREIGN_UNIT]);
	if (f->mode == ADOPT)
		printf(", %u of them adopted", f->nr_adopted);
	if (f->nr_given)
		printf(", %u checkpoints given their names", f->nr_given);
	if (f->nr_redone)
		printf(", %u redone", f->nr_redone);
	else if (f->mode == REPORT || f->mode == DRY_RUN)
		printf(". Nothing was changed");
	putchar('\n');
}

static int finish(struct fsck *f, int err)
{
	unsigned staged = f->nr[LEFT_UNFINISHED] + f->nr[LEFT_UNPUBLISHED];
	static const char *const modes[] = {"report", "adopt", "discard", "dry-run"};
	char text[MESSAGE_MAX], path[PATH_MAX];
	bool ok;
	int i;

	progress_hide(&f->progress);
	for (i = 0; i < f->nr_named; i++) {
		if (f->met[i])
			continue;
		f->nr_left++;
		MESSAGE(text, FSCK_NOT_FOREIGN, show_name(path, sizeof(path), f->named[i]));
		complain(text);
	}
	ok = !err && !f->nr_left;
	if (err) {
		MESSAGE(text, FSCK_UNREADABLE, f->backing.path, strerror(-err));
		complain(text);
	}
	if (f->mode == ADOPT && staged > f->nr_given) {
		MESSAGE(text, FSCK_NOT_ADOPTED, staged - f->nr_given, f->backing.path);
		complain(text);
	}
	if (f->list) {
		json_t *answer = json_pack("{s:b, s:o, s:s, s:I, s:I, s:I, s:O}", "ok", ok,
					   "backing", json_text(f->backing.path), "mode",
					   modes[f->mode], "names", (json_int_t)f->walk.nr_looked,
					   "bytes_left", (json_int_t)f->bytes_left, "bytes_removed",
					   (json_int_t)f->bytes_removed, "found", f->list);

		json_dumpf(answer, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
		putchar('\n');
		json_decref(answer);
	} else {
		print_sum(f);
	}
	return ok ? EXIT_DONE : EXIT_NO;
}

static int refuse(const struct fsck *f, const char *path, const struct error *e)
{
	complain(e->text);
	if (f->list) {
		json_t *answer = json_pack("{s:b, s:o, s:o}", "ok", 0, "backing", json_text(path),
					   "message", json_text(e->text));

		json_dumpf(answer, stdout, JSON_INDENT(2));
		putchar('\n');
		json_decref(answer);
	}
	return EXIT_NO;
}

static int do_fsck(struct fsck *f, const char *path)
{
	struct error e;
	int err, first;

	f->backing.root_fd = f->backing.proc_fd = -1;
	progress_start(&f->progress);
	if (rules_create(&f->rules, NULL, "", &e) || open_backing(f, path, &e))
		return refuse(f, path, &e);
	raise_fd_limit();
	catch_signals();
	f->now_ns = clock_wall_ns();
	f->walk = (struct leftovers){.root_fd = f->backing.root_fd,
				     .foreign = f->mode != DISCARD,
				     .rules = f->rules,
				     .stop = stop,
				     .looking = looking,
				     .found = found,
				     .arg = f};
	first = redo_decided(f);
	err = leftovers_walk(&f->walk);
	err = err ? err : first;
	if (ended_by) {
		progress_hide(&f->progress);
		signal(ended_by, SIG_DFL);
		raise(ended_by);
	}
	return finish(f, err);
}

static const struct option longs[] = {{"help", no_argument, NULL, 'h'},
				      {"json", no_argument, NULL, 'j'},
				      {"adopt", no_argument, NULL, 'a'},
				      {"discard", no_argument, NULL, 'd'},
				      {"dry-run", no_argument, NULL, 'n'},
				      {"options", required_argument, NULL, 'o'},
				      {NULL, 0, NULL, 0}};

static int fsck_as(const struct verb *v, struct fsck *f, int argc, char **argv)
{
	struct error e;
	bool json = false;
	int c, nr_modes = 0, status;

	while ((c = getopt_long(argc, argv, "ho:", longs, NULL)) != -1) {
		if (c == 'h')
			return verb_help(v);
		if (c == '?')
			return option_error(v, argv);
		if (c == 'j') {
			json = true;
			continue;
		}
		if (c == 'o') {
			if (config_apply_options(&f->config, optarg, &e)) {
				complain(e.text);
				return EXIT_USAGE;
			}
			continue;
		}
		nr_modes++;
		f->mode = c == 'a' ? ADOPT : c == 'd' ? DISCARD : DRY_RUN;
	}
	if (nr_modes > 1)
		return usage_error(v, "give one of --adopt, --discard and --dry-run");
	if (argc - optind < 1 || (argc - optind > 1 && f->mode != ADOPT && f->mode != DRY_RUN))
		return usage_error(v, "give one backing");
	f->named = argv + optind + 1;
	f->nr_named = argc - optind - 1;
	f->met = calloc((size_t)f->nr_named + 1, sizeof(*f->met));
	if (!f->met)
		f->nr_named = 0;
	f->list = json ? json_array() : NULL;
	status = do_fsck(f, argv[optind]);
	free(f->met);
	rules_destroy(f->rules);
	json_decref(f->list);
	while (f->nr_waiting)
		free(f->waiting[--f->nr_waiting]);
	free(f->waiting);
	coord_close(&f->coord);
	backing_close(&f->backing);
	return status;
}

static int run_fsck(const struct verb *v, int argc, char **argv)
{
	struct fsck f = {.mode = REPORT};
	int status;

	config_init(&f.config);
	status = fsck_as(v, &f, argc, argv);
	config_finish(&f.config);
	return status;
}

const struct verb verb_fsck = {
	.name = "fsck",
	.args = "[--adopt|--discard|--dry-run] [-o OPTS] [--json] BACKING [CHECKPOINT...]",
	.summary = "list, or clear away, what crashes left",
	.help = "For a backing that no node has mounted; refused where this host has it mounted.\n"
		"First finishes what was decided before a crash: a committed checkpoint gets its\n"
		"name. Then reads every name below BACKING, and reports with size, age and "
		"action:\n"
		"\n"
		"  decided      a committed checkpoint that had no name yet, or what follows a "
		"commit:\n"
		"               a pointer to it, the removal of an older one\n"
		"  unfinished   .ckptfs-ID, a save that was cut off\n"
		"  unpublished  the same, but whole: only its name is missing\n"
		"  trash        .ckptfs-trash-*\n"
		"  foreign      a checkpoint file (*.pt *.pth *.ckpt *.safetensors *.keras) "
		"without a\n"
		"               digest, so that `ckptfs verify` cannot check it; or a checkpoint\n"
		"               directory without a commit file\n"
		"  unknown      begins with .ckptfs- and is none of these: left alone\n"
		"  mount        another filesystem, not read\n"
		"\n"
		"Exit 0 if nothing of the first four, unknown or unreadable is left, else 1.\n"
		"\n"
		"  --dry-run            report only, change nothing\n"
		"  --discard            remove what is unfinished, unpublished or trash\n"
		"  --adopt              record a digest of each foreign file that is whole; write "
		"a\n"
		"                       commit file into each foreign directory that is provably\n"
		"                       whole, or is named as CHECKPOINT; give unpublished\n"
		"                       directories their names where these are free; keep what "
		"is\n"
		"                       unfinished\n"
		"  -o, --options LIST   the options of its mounts, of which coord matters\n"
		"  --json               for machines\n",
	.longs = longs,
	.run = run_fsck,
};
