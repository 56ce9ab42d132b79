/* SPDX-License-Identifier: MIT */
/*
 * Opens the backing for `ckptfs fsck`, and refuses one that a mount serves: one of this host, in
 * this mount namespace, or any that holds its lock. On NFS no lock tells of other hosts.
 */
#include <errno.h>
#include <limits.h>
#include <linux/magic.h>
#include <mntent.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>
#include <sys/xattr.h>

#include "client/ckptfs_abi.h"
#include "engine/backing/backing.h"
#include "engine/base/json.h"
#include "engine/base/message.h"
#include "engine/config/config.h"
#include "engine/content/digest.h"
#include "engine/coord/choice.h"
#include "engine/format/digest_record.h"
#include "engine/format/format.h"
#include "fs/cmd/fsck_inside.h"
#include "fs/control_socket.h"

static bool is_below(const char *path, const char *top)
{
	size_t len = strlen(top);

	return !strcmp(top, "/") || (!strncmp(path, top, len) && (!path[len] || path[len] == '/'));
}

/* True if the daemon of @m serves the backing @uuid, which it may have reached by another path. */
static bool serves(const struct mount_entry *m, const char *backing, const char *uuid)
{
	bool same = is_below(m->source, backing) || is_below(backing, m->source);
	struct error e;
	json_t *status;
	int err = control_ask(m, "status", CONTROL_ASK_MS, &status, NULL, NULL, &e);

	if (!err && *uuid && !strcmp(json_get_text(status, "uuid", ""), uuid))
		same = true;
	json_decref(status);
	return same && err != -ECONNREFUSED; /* no daemon, no writes */
}

/* True if a mount of this host, in this mount namespace, serves @backing: @m. */
static bool find_live(const char *backing, const char *uuid, struct mount_entry *m)
{
	FILE *f = setmntent("/proc/self/mounts", "re");
	char text[3 * PATH_MAX];
	struct mntent entry;
	bool found = false;

	while (f && !found && getmntent_r(f, &entry, text, sizeof(text))) {
		if (strcmp(entry.mnt_type, CKPTFS_FSTYPE))
			continue;
		/* A mount that another one covers cannot be asked. */
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

/* Refuses @path, which lies in the mount @m. */
static int refuse_mount(const struct mount_entry *m, const char *path, struct error *e)
{
	json_t *status;
	int err = control_ask(m, "status", CONTROL_ASK_MS, &status, NULL, NULL, e);

	json_decref(status);
	if (err == -ECONNREFUSED) /* the remains of a mount */
		return err;
	if (!strcmp(m->source, m->path)) /* mounted over itself */
		return FAIL(e, EBUSY, FSCK_MOUNTED, path, m->path, m->path);
	return FAIL(e, EBUSY, BACKING_IS_MOUNT, path, m->path);
}

bool fsck_is_nfs(const struct backing *b)
{
	struct statfs sf;

	return !fstatfs(b->root_fd, &sf) && sf.f_type == NFS_SUPER_MAGIC;
}

int fsck_open_backing(struct fsck *f, const char *path, struct error *e)
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
	if (!err && backing_lock(&f->backing, f->backing.root_fd, true) &&
	    !fsck_is_nfs(&f->backing))
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
