/* SPDX-License-Identifier: MIT */
/*
 * Every message that a person may meet, in one table, so that the wording is consistent and a
 * test can demand that each was provoked once (tests/run checks it after the whole suite).
 *
 * A message says what happened, what is still safe, what happens next and what the reader can
 * do. It never consists of an errno alone.
 */
#ifndef ENGINE_BASE_MESSAGES_H
#define ENGINE_BASE_MESSAGES_H

/* clang-format off */

/* Options and the config file */
#define MSG_OPTION_UNKNOWN "unknown option '%s'; did you mean '%s'? Nothing was mounted. `ckptfs mount --help` lists every option"
#define MSG_OPTION_VALUE "option %s=%s is not valid: expected %s. Nothing was mounted"
#define MSG_OPTION_NO_EFFECT "option %s is accepted but has no effect yet in ckptfs %s"
#define MSG_CONFIG_UNREADABLE "cannot read the config file %s: %s. Nothing was mounted; correct the path in config=FILE"
#define MSG_CONFIG_SYNTAX "%s:%d: %s. Nothing was mounted; the config file is one JSON object of option names and values"
#define MSG_CONFIG_KEY "%s: unknown key '%s'; did you mean '%s'? Nothing was mounted"
#define MSG_CONFIG_VALUE "%s: key %s is not valid: expected %s. Nothing was mounted"

/* mount: the backing */
#define MSG_BACKING_MISSING "the backing directory %s does not exist. Nothing was changed; create it with: mkdir -p %s"
#define MSG_BACKING_NOT_DIR "the backing %s is not a directory. Nothing was changed; name the directory to mount"
#define MSG_BACKING_UNUSABLE "the backing directory %s cannot be opened: %s. Nothing was changed"
#define MSG_BACKING_NESTED "%s lies inside %s, which is the backing of a ckptfs filesystem already (it has .ckptfs/version.json). Nested backings would journal each other; mount %s itself, or use a directory outside it"
#define MSG_BACKING_IS_MOUNT "%s lies inside the ckptfs mount %s. Nothing was changed; name the backing directory of that mount instead"
#define MSG_FORMAT_NEWER "%s/.ckptfs/version.json has format %lld, this ckptfs knows up to %d. Nothing was changed; use a newer ckptfs"
#define MSG_FORMAT_BROKEN "%s/.ckptfs/version.json is damaged: %s. No file of yours is affected; move it away and run: ckptfs init %s"
#define MSG_FORMAT_LINK "%s/.ckptfs is a symbolic link, which ckptfs does not follow. Nothing was changed; remove the link, then run: ckptfs init %s"
#define MSG_INIT_FAILED "cannot make %s/.ckptfs: %s. Nothing else was changed; run ckptfs init as a user who may write there"

/* mount: the mount point and FUSE */
#define MSG_MOUNTPOINT_UNUSABLE "the mount point %s cannot be used: %s. Nothing was changed; make the directory, or name another"
#define MSG_MOUNTPOINT_INSIDE "the mount point %s lies inside the backing %s: the filesystem would contain itself. Nothing was changed; choose a mount point outside"
#define MSG_ALREADY_MOUNTED "%s is a live ckptfs mount already (of %s, daemon pid %d). Nothing was changed; to mount anew, first run: ckptfs umount %s"
#define MSG_STALE_CLEARED "%s held the remains of a dead ckptfs daemon; cleared them"
#define MSG_FUSE_UNAVAILABLE "cannot use /dev/fuse: %s. Nothing was mounted; %s"
#define MSG_MOUNT_REFUSED "the kernel or fusermount3 refused to mount at %s%s%s. Nothing was changed"
#define MSG_MOUNT_SILENT "the daemon (pid %d) has not answered at %s within %d s; it was told to stop. See the system log"
#define MSG_MOUNT_DIED "the daemon ended while mounting %s; see the system log, or run ckptfs mount -f to watch it"
#define MSG_LABEL_IN_USE "the node label '%s' is in use by another live mount of this host. Nothing was mounted; leave out -o node= for an automatic label, or choose another"
#define MSG_RUN_DIR "the run directory %s cannot be used: %s. Nothing was mounted; set CKPTFS_RUN_DIR to a directory that only you can write"

/* umount, status and other verbs that ask the daemon */
#define MSG_NOT_A_MOUNT "%s is not on a ckptfs mount; `grep ckptfs /proc/self/mountinfo` lists the mounts of this host"
#define MSG_DAEMON_DEAD "the daemon of %s is not running. Every write that returned is on the backing; clear the mount point with: ckptfs umount %s"
#define MSG_DAEMON_ELSEWHERE "%s is mounted and answers, but its daemon's socket is not where this command looks. Set CKPTFS_RUN_DIR as it was set for the mount"
#define MSG_DAEMON_SILENT "the daemon of %s (pid %d) does not answer. Programs that use the mount wait; to cut them loose (they get errors): ckptfs umount --force %s"
#define MSG_DAEMON_REPLY "the daemon of %s gave an answer that this command cannot read: %s. Is it another version? `ckptfs version` and `ckptfs status` tell"
#define MSG_UMOUNT_BUSY "%s is in use%s. It stays mounted and nothing is lost; end those programs and try again, or use --force (they get errors)"
#define MSG_UMOUNT_DENIED "%s was mounted by uid %u; only that user and root may unmount it"
#define MSG_UMOUNT_FAILED "cannot unmount %s: %s"
#define MSG_UMOUNT_COVERED "another filesystem (%s) is mounted over %s. Nothing was changed; first unmount that one: umount %s"
#define MSG_UMOUNT_REMAINS "%s is unmounted, but the same filesystem is also mounted at %s, so its daemon (pid %d) goes on"
#define MSG_UMOUNT_SLOW "the daemon of %s (pid %d) has been unmounting it for %d s and goes on with that; nothing is lost. `ckptfs status` tells what it waits for; to cut programs loose that use the mount (they get errors): ckptfs umount --force %s"
#define MSG_UMOUNT_TIMEOUT "%s is unmounted here, but its daemon (pid %d) has not ended within %d s: it waits for the backing, or another mount namespace (a container) still has the mount. Nothing that was acknowledged is lost"
#define MSG_SOCKET_REQUEST "request refused: %s"

/* While the filesystem runs */
#define MSG_BACKING_ERROR "%s of '%s' failed on the backing: %s. The caller (pid %d, uid %u) got the error; what other calls acknowledged is unaffected; see to the backing %s"
#define MSG_OP_ABANDONED "%s of '%s' (pid %d) was interrupted after waiting %.1f s for the backing; the caller got EINTR. The operation may still take effect when the backing answers"
#define MSG_OP_LATE "%s of '%s', given up earlier, ended after %.1f s: %s"
#define MSG_OP_STUCK "%s of '%s' (pid %d) has waited %.0f s for the backing %s; the caller can be interrupted or killed meanwhile. Is the storage reachable?"
#define MSG_RESERVED_NAME "'%s' is reserved for the control directory; uid %u cannot create, replace or remove it"
#define MSG_PASSTHROUGH_OFF "kernel passthrough is off: %s. Reads go through the daemon instead, more slowly"
#define MSG_DETACHED "asked to stop while %s is in use%s: detached it; the daemon ends when the last open file is closed"
#define MSG_THREADS "cannot start another thread: %s. Requests queue; nothing is lost"

/* clang-format on */

#endif
