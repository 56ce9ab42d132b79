/* SPDX-License-Identifier: MIT */
/*
 * All messages for people, in one table, so that the wording is consistent and tests/run can check
 * after the whole suite that each message was provoked.
 *
 * A message says what happened, what is still safe, what happens next and what the reader can do. A
 * message is never an errno alone.
 */
#ifndef ENGINE_BASE_MESSAGES_H
#define ENGINE_BASE_MESSAGES_H

/* clang-format off */

/* Options and the config file */
#define MSG_OPTION_UNKNOWN "unknown option '%s'%s Nothing was mounted. `ckptfs mount --help` lists every option"
#define MSG_OPTION_COMMA "unknown option '%s': a comma ends the value before it. A comma inside a value has a backslash: -o '%s\\,%s'. Nothing was mounted"
#define MSG_OPTION_VALUE "option %s=%s is not valid: expected %s. Nothing was mounted"
#define MSG_OPTION_NO_EFFECT "option %s is accepted but has no effect yet in ckptfs %s"
#define MSG_CONFIG_UNREADABLE "cannot read the config file %s: %s. Nothing was mounted; correct the path in config=FILE"
#define MSG_CONFIG_SYNTAX "%s:%d: %s. Nothing was mounted; the config file is one JSON object of option names and values"
#define MSG_CONFIG_KEY "%s: unknown key '%s'%s Nothing was mounted"
#define MSG_CONFIG_VALUE "%s: key %s is not valid: expected %s. Nothing was mounted"
#define MSG_KEY_REMOVED "%s: the %s '%s' does not exist any more. It never had an effect: leave it out; %s. Nothing was mounted"
#define MSG_RULE_KEY "%s: %s has the unknown key '%s'; did you mean '%s'? Nothing was mounted"
#define MSG_RULE_VALUE "%s: %s: key %s is not valid: expected %s. Nothing was mounted; ckptfs-rules(5) has the form of rules"
#define MSG_RULE_EVIDENCE "%s: %s: unknown evidence '%s' in done; did you mean '%s'? Nothing was mounted"
#define MSG_RULE_NAME_TWICE "%s: two rules have the name '%s'. Nothing was mounted; give each a name of its own"

#define MSG_RULE_BARE "%s: rule '%s' says of no end that it comes after all ranks are done (after_all), and asks for no file of every rank (every_rank). So a rank that dies before the end is seen fails the checkpoint, even if that rank had finished its part; what was committed before stays whole. If the framework ends a checkpoint only after all ranks are done, add \"after_all\" to that alternative of done: ckptfs-rules(5)"

/* mount: the backing */
#define MSG_BACKING_MISSING "the backing directory %s does not exist. Nothing was changed; create it with: mkdir -p %s"
#define MSG_BACKING_REMOTE "%s is no directory of this host. Nothing was changed; ckptfs works on a filesystem that is mounted: mount that first, then name its directory"
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
#define MSG_MOUNTPOINT_MISSING "the mount point %s does not exist. Nothing was changed; make it with: mkdir -p %s"
#define MSG_BOTH_MISSING "neither the backing directory %s nor the mount point %s exists. Nothing was changed; make both with: mkdir -p %s %s"
#define MSG_MOUNTPOINT_NOT_EMPTY "the mount point %s is not empty: the mount would hide %s. Nothing was changed; mount at an empty directory, or hide what is there with -o nonempty"
#define MSG_MOUNT_SWAPPED "the mount point %s is not empty: the mount would hide %s. Nothing was changed; did you swap BACKING and MOUNTPOINT? Then: ckptfs mount %s %s. Otherwise hide what is there with -o nonempty"
#define MSG_MOUNTPOINT_INSIDE "the mount point %s lies inside the backing %s: the filesystem would contain itself. Nothing was changed; choose a mount point outside"
#define MSG_ALREADY_MOUNTED "%s is a live ckptfs mount already (of %s, daemon pid %d). Nothing was changed; to mount anew, first run: ckptfs umount %s"
#define MSG_STALE_CLEARED "%s held the remains of a dead ckptfs daemon; cleared them"
#define MSG_REMOUNT_OPTION "the option %s of %s cannot be changed while it is mounted, only ro and rw can. Nothing was changed; unmount it, then mount it anew"
#define MSG_REMOUNT_SAVING "%s stays writable: it is saving %zu checkpoints, of which '%s' is one. Nothing was changed; wait for them with `ckptfs drain %s`, then try again"
#define MSG_REMOUNT_BUSY "%s stays writable: a file in it is open for writing; the mount is in use%s. Nothing was changed; end those programs, then try again"
#define MSG_REMOUNT_NO_CACHE "%s was mounted with -o ro, and its daemon has no cache to save with. It stays read-only; to write there: ckptfs umount %s, then mount it without ro"
#define MSG_REMOUNT_FAILED "cannot remount %s: %s. Nothing was changed; only root may remount, others unmount it and mount it anew"
#define MSG_NOATIME_DENIED "noatime has no effect on %s: %s. Only a daemon of root can read without changing the access times of files; reads change them as they do on the backing"
#define MSG_FUSE_UNAVAILABLE "cannot use /dev/fuse: %s. Nothing was mounted; %s"
#define MSG_MOUNT_REFUSED "the kernel or fusermount3 refused to mount at %s%s%s. Nothing was changed"
#define MSG_MOUNT_SILENT "the daemon (pid %d) has not answered at %s within %d s; it was told to stop. See the system log"
#define MSG_MOUNT_DIED "the daemon ended while mounting %s; see the system log, or run ckptfs mount -f to watch it"
#define MSG_LABEL_IN_USE "the node label '%s' is in use by another live mount of this host. Nothing was mounted; leave out -o node= for an automatic label, or choose another"
#define MSG_RUN_DIR "the run directory %s cannot be used: %s. Nothing was mounted; set CKPTFS_RUN_DIR to a directory that only you can write"

/* umount, status and other commands that ask the daemon */
#define MSG_NOT_A_MOUNT "%s is not on a ckptfs mount; `ckptfs status` lists the mounts of this host"
#define MSG_ON_BACKING "%s lies in the backing of the ckptfs mount %s. Nothing was done; name that mount instead"
#define MSG_UMOUNT_INSIDE "%s lies inside the ckptfs mount %s. Nothing was unmounted; the mount as a whole goes with: ckptfs umount %s"
#define MSG_NOTHING_MOUNTED "no ckptfs is mounted on this host. To mount one: ckptfs mount BACKING MOUNTPOINT"
#define MSG_DAEMON_DEAD "the daemon of %s is not running. What was published, or fsynced and closed, is on the backing; a file whose save was under way shows what it was before. Clear the mount point with: ckptfs umount %s"
#define MSG_DAEMON_ELSEWHERE "%s is mounted and answers, but its daemon's socket is not where this command looks. Set CKPTFS_RUN_DIR as it was set for the mount"
#define MSG_DAEMON_SILENT "the daemon of %s (pid %d) does not answer. Programs that use the mount wait; to cut them loose (they get errors): ckptfs umount --force %s"
#define MSG_DAEMON_REPLY "the daemon of %s gave an answer that this command cannot read: %s. Is it another version? `ckptfs version` and `ckptfs status` tell"
#define MSG_UMOUNT_BUSY "%s is in use%s. It stays mounted and nothing is lost; end those programs and try again, or use --force (they get errors)"
#define MSG_UMOUNT_DENIED "%s was mounted by uid %u; only that user and root may unmount it"
#define MSG_UMOUNT_FAILED "cannot unmount %s: %s"
#define MSG_UMOUNT_COVERED "another filesystem (%s) is mounted over %s. Nothing was changed; first unmount that one: umount %s"
#define MSG_UMOUNT_REMAINS "%s is unmounted, but the same filesystem is also mounted at %s, so its daemon (pid %d) goes on"
#define MSG_UMOUNT_SLOW "the daemon of %s (pid %d) has been unmounting it for %d s and goes on with that; nothing is lost. `ckptfs status` tells what it waits for; to cut programs loose that use the mount (they get errors): ckptfs umount --force %s"
#define MSG_UMOUNT_WAITS "%s is unmounted here; waiting until its daemon (pid %d) ends: %s"
#define MSG_UMOUNT_TIMEOUT "%s is unmounted here, but its daemon (pid %d) has not ended within %d s: %s. Nothing that was acknowledged is lost"
#define MSG_DRAIN_TIMEOUT "%s still has data that is not on the backing, and the time is up. It stays mounted and goes on with that; nothing is lost. `ckptfs status` shows what is left"
#define MSG_DRAIN_FAILED "%s is unmounted, but not everything could be saved: %s"
#define MSG_DRAIN_LEFT "the checkpoint '%s' of job %s is not committed, and nothing has moved for %d s: %s. It stays as it is, and is committed if that comes; `ckptfs why '%s/%s'` tells more"
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

/* The commit file of a checkpoint that is a directory */
#define MSG_COMMIT_UNREADABLE "cannot read the commit file %s: %s. Nothing was changed, and nothing is known of the checkpoint that it lists; run this as a user who may read it, or see to the storage"
#define MSG_COMMIT_DAMAGED "the commit file %s is damaged (line %u: %s), so nothing vouches for the checkpoint that it lists. Its files are as they are; take an earlier checkpoint or a copy that verifies, and see to the storage"
#define MSG_COMMIT_NEWER "the commit file %s has format %lld, this ckptfs knows up to %d. Nothing was changed, and the files that it lists can be read as ever; use a newer ckptfs"

/* The content of files */
#define MSG_STRUCTURE_BROKEN "%s is not a whole file. %s. Nothing of it was changed; do not load it, save it again or take an earlier one"
#define MSG_STRUCTURE_UNREADABLE "cannot read %s to see whether it is whole: %s. Nothing of it was changed"
#define MSG_VERIFY_DAMAGED "%s is damaged: its content has the digest %s, that which was saved had %s, and by its size and time of change nobody wrote to it since. Do not load it; take an earlier checkpoint or a copy that verifies, and see to the storage"
#define MSG_VERIFY_CHANGED "%s was changed since its digest was recorded: %s. That need not be damage, but nothing vouches for its content now; save it again through a mount, or remove the record: setfattr -x user.ckptfs.xxh3 '%s'"
#define MSG_VERIFY_NO_RECORD "%s has no digest recorded (extended attribute user.ckptfs.xxh3), so its content cannot be judged. A save through a mount under a name that a rule claims records one; cp -a and rsync -aX keep it in copies"
#define MSG_VERIFY_BAD_RECORD "the extended attribute user.ckptfs.xxh3 of %s is not a record of ckptfs, so its content cannot be judged. Save it again through a mount, or remove the attribute: setfattr -x user.ckptfs.xxh3 '%s'"
#define MSG_VERIFY_UNIT_MISSING "%s is missing: the commit file of %s lists it, so that checkpoint is not whole. Do not load it; take an earlier checkpoint, or put the file back from a copy that verifies"
#define MSG_VERIFY_UNIT_CHANGED "%s was changed since its checkpoint was committed: %s. That need not be damage, but nothing vouches for its content now; take an earlier checkpoint, or put the file back from a copy that verifies"
#define MSG_VERIFY_UNIT_TORN "a change to %s was cut off before it was committed: its pending commit file is not whole. It is of no effect; the checkpoint is verified as it was committed before"
#define MSG_VERIFY_UNREADABLE "cannot verify %s: %s. Name a regular file or a directory, run this as a user who may read it, or see to the storage"
#define MSG_VERIFY_NOTHING "%s holds nothing to verify: no file below it has a digest recorded or the name of a checkpoint file (*.pt *.pth *.ckpt *.safetensors *.keras). Name the file itself"

/* The cache and the flush */
#define MSG_CACHE_NO_MEMORY "cannot take %zu MiB of memory for the cache: %s. Nothing was mounted; set a smaller one with -o host_cache_size="
#define MSG_CACHE_TOO_SMALL "host_cache_size of %zu KiB is too small: the least is %zu KiB, %d chunks. Nothing was mounted; make it larger, or chunk_size smaller"
#define MSG_CACHE_ABOVE_HOST "host_cache_size of %zu MiB is more than nine tenths of the %llu MiB of memory of this host. Nothing was mounted; largest possible here: %llu%c"
#define MSG_CACHE_ABOVE_CGROUP "host_cache_size of %zu MiB is more than nine tenths of the %llu MiB that the cgroup of this process may use (%s). Nothing was mounted; largest possible here: %llu%c, or raise that limit"
#define MSG_CACHE_NOT_LOCKED "the cache is not locked in memory: %s. It works, but may be swapped out; raise RLIMIT_MEMLOCK (ulimit -l, LimitMEMLOCK=) or set pin_host_cache=false"
#define MSG_CHUNK_SIZE "chunk_size of %zu bytes is not valid: it is a power of two from 64 KiB to 8 MiB. Nothing was mounted"
#define MSG_IO_THREADS "cannot start the threads that write to the backing: %s. Nothing was mounted; raise the limit on processes (ulimit -u, pids.max of the cgroup), or free memory"
#define MSG_FLUSH_FAILED "'%s' could not be written to the backing: %s. The file that had the name before is whole and still has it; the writer gets the error, and what it saved is lost: free space or see to the storage, then save '%s' again"
#define MSG_FILE_FLUSH_FAILED "'%s' could not be written to the backing: %s. What was written since the last successful fsync or close may be missing from it; the next write, fsync or close gets the error"

#define MSG_FILE_UNREADABLE "'%s' cannot be looked at: %s. Nothing can be said of its save until that is mended; `ckptfs status` tells of failures that are known"
#define MSG_WAIT_DIRECTORY "%s is a directory that no rule claims, and is never committed as a whole. Wait for the checkpoints in it, which `ckptfs ls` lists, or for all that is being saved: ckptfs drain %s"
#define MSG_WAIT_ORDINARY "%s is an ordinary file: no rule claims this name, so nothing of it is committed. It is on the backing once it is closed, and durable after an fsync; call it *.pt or *.safetensors, or add a rule (ckptfs-rules(5)), to save it as a checkpoint"
#define MSG_WAIT_FOREIGN "%s has no digest: no mount saved it as a checkpoint, or it was changed in place since, so nothing vouches that it is whole. There is nothing to wait for; `ckptfs fsck --adopt` records digests of what can be shown to be whole"
#define MSG_PATH_ABSENT "%s does not exist%s%s. `ckptfs ls` of a directory lists the checkpoints below it"
#define MSG_LATEST_PASSED "%s is newer, but %s: it is passed over until it is committed. `ckptfs why` tells more"
#define MSG_VERIFY_UNPUBLISHED "%s is still being saved: first, ckptfs wait %s"
#define MSG_WAIT_TIMEOUT "'%s' is not there after %g s: %s. Nothing is lost by waiting no longer; `ckptfs why` tells more"
#define MSG_WAIT_DROPPED "the save of '%s' that was waited for is %s: a program removed or replaced it before it was published"

/* Checkpoints that are one file */
#define MSG_WRITER_KILLED "a process that was writing '%s' was killed by signal %d (%s), so the file is not complete and was not published. What had the name '%s' before is whole and still has it"
#define MSG_WRITER_EXITED "a process that was writing '%s' ended with exit status %d while it had the file open, so it was not published. What had the name '%s' before is whole and still has it"
#define MSG_WRITER_VANISHED "a process that was writing '%s' ended while it had the file open, and its exit status cannot be read here, so it was not published. What had the name '%s' before is whole and still has it. `ckptfs doctor` tells why the status is unreadable"
#define MSG_CAPTURE_FAILED "'%s' is not complete and was not published: %s. What had the name before is whole and still has it; the writer gets the error"
#define MSG_CAPTURE_SESSION_ENDED "the tensor '%s' was still to be captured when process %d%s %s"
#define MSG_JOBS_UNWATCHED "cannot watch the processes that write checkpoints: %s. Nothing was mounted; raise the limits on open files and processes (ulimit -n, ulimit -u, pids.max of the cgroup), or free memory"
#define MSG_CHECKPOINT_BUSY "'%s' is being written by another job (%s), and a checkpoint has one at a time. This call of %s got EBUSY, nothing was changed. Write to another path, or wait until that job has ended"
#define MSG_CHECKPOINT_KILLED "the checkpoint '%s' is not complete: process %d%s, which was writing it, was killed by signal %d (%s) before its end was seen. It was not committed and is hidden; what had the name '%s' before is whole and still has it"
#define MSG_CHECKPOINT_EXITED "the checkpoint '%s' is not complete: process %d%s, which was writing it, ended with exit status %d before its end was seen. It was not committed and is hidden; what had the name '%s' before is whole and still has it"
#define MSG_CHECKPOINT_MISSING "the checkpoint '%s' was not committed: its end had begun, and then nothing came for %llu s (commit_timeout_s) of what is missing: %s. It is hidden; what had the name '%s' before is whole and still has it. Look after who did not write, or raise commit_timeout_s, and save it again"
#define MSG_CHECKPOINT_LEFT "the checkpoint '%s' was not committed, because its end had not been seen when %s was unmounted (%s). What is of it stays in the backing, hidden, as %s; `ckptfs fsck` lists it, `ckptfs fsck --discard` removes it"
#define MSG_COMMIT_FAILED "the checkpoint '%s' was not committed: %s failed: %s. What had the name before is whole and still has it; see to the backing, then save '%s' again"
#define MSG_COMMIT_STUCK "the checkpoint '%s' is whole on the backing, and %s fails: %s. Nothing is lost, and what had the name before still has it. It is tried again until it succeeds, by this mount or, where it is recorded, the next; see to the backing. Until then the backing hides it, as %s"
#define MSG_RECOVERY_WAITS "the checkpoint '%s' was committed before a crash, but cannot get its name: %s. It lies whole on the backing, hidden, as %s; mounts, and `ckptfs fsck`, try again"
#define MSG_RECOVERY_FOLLOWS "'%s' was to be %s when '%s' was committed, before a crash, but that cannot be done: %s. It is as it was, and the checkpoint is whole; mounts, and `ckptfs fsck`, try again"
#define MSG_POINTER_DROPPED "'%s' was to name the checkpoint '%s', which %s, so this write of it is not applied: it still names what it named before. Nothing else is affected; write '%s' again to name another"
#define MSG_COMMIT_NOTHING "'%s' is no checkpoint that is being written, so there is nothing to commit. `ckptfs ls` lists the checkpoints, `ckptfs why` tells what a path is"
#define MSG_COMMIT_DENIED "the checkpoint '%s' is uid %u's; only that user and root may commit or abandon it"
#define MSG_COMMIT_EMPTY "the checkpoint '%s' has no files yet, and an empty one is never committed. Nothing was changed"
#define MSG_CHECKPOINT_ABANDONED "the checkpoint '%s' was abandoned by uid %u. It was not committed and is hidden; what had the name '%s' before is whole and still has it"
#define MSG_REMOVAL_KEPT "'%s' was removed, but no newer checkpoint of that job was committed beside it, so it is kept as the last good one, and is seen again. Remove it once more if it is not wanted: without a job that saves there, it goes at once"
#define MSG_REMOVAL_CUT_SHORT "'%s' was being removed by process %d, which %s in the middle. What it had removed is seen again, and the checkpoint is whole. Remove it once more if it is not wanted"
#define MSG_CHECKPOINT_SUPERSEDED "the checkpoint '%s' of %s was not complete when its last writer was gone, and %s begins it anew. The incomplete one is hidden, and never committed"
#define MSG_CHECKPOINT_FORMER "'%s' was saved by a later start of this job (%s). This call of %s, which is of a former start, got EBUSY, nothing was changed. End what is left of the former start"
#define MSG_CHECKPOINT_BUSY_ELSEWHERE "'%s' is being written by another job (%s) on node %s, and a checkpoint has one at a time. This call of %s got EBUSY, nothing was changed. Write to another path, or wait until that job has ended"
#define MSG_CHECKPOINT_LOST "'%s' is being written by node %s, but what it has of it so far, the hidden directory %s beside that, is not to be found here, and was waited for in vain. If somebody has removed it: `ckptfs commit --abandon` of '%s' on that node makes the name free. Nothing was changed by this call"
#define MSG_CHECKPOINT_NODE_DEAD "the checkpoint '%s' is not complete: node %s, which was writing it, shows no life. It was not committed and is hidden; what had the name '%s' before is whole and still has it"
#define MSG_CHECKPOINT_OVERWRITTEN "'%s' was written by node %s and by node %s, with different content, and a checkpoint has one file of a name: that of node %s is kept. Nothing else of the checkpoint is affected. Have one rank write it, or give each one a name of its own"
#define MSG_CHECKPOINT_NO_VOTE "the checkpoint '%s' was not committed: its end was seen, and then nothing came for %llu s (commit_timeout_s) of what these nodes have of it: %s. It is hidden; what had the name '%s' before is whole and still has it. Look after those nodes, or raise commit_timeout_s, and save it again"
#define MSG_CHECKPOINT_VOTE_FAILED "the checkpoint '%s' was not committed: this node could not list what it has written of it: %s. It is hidden; what had the name '%s' before is whole and still has it"
#define MSG_CHECKPOINT_CASUALTY "the checkpoint '%s' of this job has failed (%s), for the reason that is told beside this. Each of its processes that would save on gets that error, once; what it saves then is saved as ever"
#define MSG_CHECKPOINT_FAILED_ELSEWHERE "the checkpoint '%s' failed, as node %s has recorded: %s"
#define MSG_FILE_HELD_ELSEWHERE "'%s' cannot be opened here, but to be emptied (O_TRUNC): another node has it open for writing, and nothing has come of it for %llu s (commit_timeout_s). The save goes on. Have it closed there (`ckptfs why` of the checkpoint, on the node that began it, names who has files open); and what serves as a lock between nodes belongs elsewhere: no lock holds between nodes here"
#define MSG_CHECKPOINT_AWAY "the checkpoint '%s' was decided without this node, which was held up for too long. Nothing that it wrote since is part of it; what has the name '%s' is whole"
#define MSG_CHECKPOINT_STALE "a process wrote to a file of the checkpoint '%s' through a descriptor or a mapping that it had since before the commit. That was refused (ESTALE), and what is committed is as it was; to change it, open the file again"
#define MSG_RECOVERY_DAMAGED "the checkpoint '%s' was committed before a crash, but what lies on the backing as %s is not what was committed: its commit file is missing or damaged. It got no name; what had the name before is whole and still has it. See to the storage; `ckptfs fsck --discard` removes %s"
#define MSG_PUBLISH_FAILED "'%s' was not published: %s failed: %s. What had the name before is whole and still has it; see to the backing, then save '%s' again"
#define MSG_PUBLISH_UNSYNCED "'%s' has its new content, whole, but that may not survive a crash of the backing: syncing its directory failed: %s. After such a crash it is the new file or the one before, whole; see to the backing, then save '%s' again"
#define MSG_PUBLISH_CONFLICT "'%s' was changed behind the mount while a new version of it was being saved. Nothing was replaced; the new version is beside it on the backing, as %s"

/* Accepted but not protected: said once per directory */
#define MSG_NAME_UNCLAIMED "'%s' looks like a checkpoint (%s), but no rule claims this name. It is an ordinary file: a crash can leave a part of it, and it has no digest. Nothing was refused. Call it *.pt or *.safetensors, or add a rule for it: ckptfs-rules(5)"
#define MSG_LAYOUT_UNKNOWN "'%s' and '%s' were saved into '%s' by one job, and no rule says that they belong together. Each is whole, but a crash can leave a new one beside an old one. Nothing was refused. If they are one checkpoint, add a rule for its directory: ckptfs-rules(5)"

/* Coordination */
#define MSG_COORD_DISTRUSTED "%s is not believed: %s. Nothing was changed. What of uid %u is being saved and needs it there will not be committed, and what was published before is whole; have it looked at and removed by somebody who may: rm -r %s"
#define MSG_COORD_OUTAGE "what the nodes agree by, %s/.ckptfs, cannot be read: %s. Nothing is lost: commits wait until it can, and it is tried again and again; have the filesystem and the way to it looked at"
#define MSG_COORD_OUTAGE_OVER "what the nodes agree by, %s/.ckptfs, can be read again, and commits go on"
#define MSG_COORD_VALUE "option coord=%s%s is not valid: %s. Nothing was changed; it is dir, etcd:URL[,URL...] (in -o each comma is \\,), or etcd:/FILE.json, which has room for certificates and a password: ckptfs-coordination(7)"
#define MSG_COORD_NO_FORMAT "option coord=etcd needs %s/.ckptfs, which is not there and could not be made. Nothing was changed; as a user who may write there, run: ckptfs init %s"
#define MSG_COORD_CHOICE_BROKEN "%s/.ckptfs/coord.json, which says how nodes agree, cannot be used: %s. Nothing was changed; see to it before anything is saved there, since nodes that differ in this would make two decisions"
#define MSG_COORD_CHOICE_UNWRITTEN "cannot make %s/.ckptfs/coord.json, which says how nodes agree: %s. Nothing was changed; let the first mount with this option be that of a user who may write there"
#define MSG_COORD_DIFFERS "nodes that save to %s agree by: %s (%s/.ckptfs/coord.json), and not by: %s. Two ways would make two decisions. Nothing was changed; give option coord as it was. To change it: unmount it on all nodes, run `ckptfs fsck -o coord=...` with the option as it was, and remove that file"
#define MSG_ETCD_FILE "%s, which option coord names, cannot be used: %s. Nothing was changed; ckptfs-coordination(7) has its form"
#define MSG_ETCD_FILE_KEY "%s, which option coord names, has the unknown key '%s'; did you mean '%s'? Nothing was changed"
#define MSG_ETCD_UNUSABLE "the coordination service cannot be used: %s. Nothing was changed; start it, or correct option coord"
#define MSG_CURL_MISSING "option coord=etcd needs libcurl, which this host lacks: %s. Nothing was changed; install it (Debian and Ubuntu: apt-get install libcurl4), or leave out coord=etcd if the nodes have not agreed by etcd before"
#define MSG_ETCD_OUTAGE "the coordination service cannot be used: %s. Checkpoints that need it wait, and what is committed is not affected; it is tried again, and this is not repeated"
#define MSG_ETCD_BACK "the coordination service is back, by %s, after %.0f s"
#define MSG_ETCD_NO_RECORD "what etcd has as %s is no record of ckptfs, so it is not believed. Nothing was changed. The checkpoint that needs it there will not be committed; have it looked at, and removed by: etcdctl del, and see who else may write to /ckptfs/"

/* nodes */
#define MSG_COORD_UNSAFE "the backing %s is not fit for agreeing by files on it (coord=dir): %s. What is saved on this node alone is as safe as ever; save no checkpoint from several nodes at once here, or mount with coord=etcd:URL"
#define MSG_NODE_NO_LEASE "the leases in %s/.ckptfs/nodes, by which nodes know of each other, cannot be used: %s. Nothing was mounted; have the filesystem looked at and mount again"
#define MSG_NODE_ALONE "no lease can be made in %s/.ckptfs/nodes: %s. This mount works alone, and other nodes do not know of it: save no checkpoint from here and from other nodes at once. `ckptfs init`, by who may write there, and mounting again end this"
#define MSG_NODE_LEASE_FAILS "the lease of this node in %s/.ckptfs/nodes cannot be renewed: %s. It is tried again and again, and no byte is lost; if that lasts longer than %u s other nodes take this one for dead, and what they save together with it fails"
#define MSG_NODE_LEASE_AGAIN "the lease of this node in %s/.ckptfs/nodes is renewed again"
#define MSG_NODE_WAITS "%s: node '%s' of host %s, with which this mount cannot work together, has left a lease. It is watched for up to %u s, to see whether that node lives"
#define MSG_NODE_PROTOCOL "the live node '%s' of host %s, which has %s mounted, agrees with others by protocol %lld, this ckptfs by protocol %d. Nothing was mounted; use one version of ckptfs on all nodes, or unmount there first"
#define MSG_NODE_RULES "the live node '%s' of host %s, which has %s mounted, goes by other rules of what a checkpoint is. Nothing was mounted; use the same `rules` and the same version of ckptfs on all nodes, or unmount there first"
#define MSG_NODE_LABEL_ELSEWHERE "the node label '%s' is in use by a live mount on host %s. Nothing was mounted; leave out -o node= for an automatic label, or choose another"

/* fsck */
#define MSG_FSCK_MOUNTED "%s is mounted at %s by a live ckptfs, whose unfinished saves look like leftovers. Nothing was changed; first run, on every node that has it mounted: ckptfs umount %s"
#define MSG_FSCK_IN_USE "%s is in use by a daemon that serves it elsewhere, or still saves to it after its mount has gone, and whose unfinished saves look like leftovers. Nothing was changed; unmount it on every node, and wait until `pgrep -a ckptfs` shows no daemon of it"
#define MSG_BACKING_IN_REPAIR "`ckptfs fsck` is at work on %s. Nothing was mounted; try again when that has ended"
#define MSG_FSCK_NO_XATTRS "%s is on a filesystem without extended attributes, so no digest can be recorded there. Nothing was changed"
#define MSG_FSCK_UNPUBLISHED "%s is whole, but was not given its name before its daemon ended, and nothing tells that name. To keep it, give it one with mv; `ckptfs fsck --discard` removes it"
#define MSG_FSCK_UNPUBLISHED_UNIT "%s is the whole checkpoint '%s', which was not given that name before its daemon ended. `ckptfs fsck --adopt` gives it, `ckptfs fsck --discard` removes it"
#define MSG_FSCK_NAME_TAKEN "%s is whole, but something else has the name '%s' for which it was saved, so it was not adopted. Both are as they were; give one another name with mv, or remove it with `ckptfs fsck --discard`"
#define MSG_FSCK_NOT_GIVEN "%s is whole, but could not be given the name '%s': %s. It is as it was; run this as its owner or root, or see to the storage"
#define MSG_FSCK_STAGED_DAMAGED "%s was to become the checkpoint '%s', but is not what its commit file lists: %s. It is as it was, and hidden in a mount; `ckptfs fsck --discard` removes it"
#define MSG_FSCK_HELD "%s is held by a live daemon, which saves to it. It was left alone; unmount that first"
#define MSG_FSCK_NOT_ADOPTED "nothing records for which names the saves .ckptfs-* (%u) were, or that they are whole, so none of these was adopted. They stay where they are; what had their names before is whole and still has them. To remove them: ckptfs fsck --discard %s"
#define MSG_FSCK_UNKNOWN "%s begins like a name of ckptfs, but is none that this version makes. It was left alone; if a newer ckptfs made it, run the fsck of that one"
#define MSG_FSCK_REMOVE "cannot remove %s: %s. What is left of it is hidden in a mount and harmless, but takes room; run this as its owner or root, or see to the storage"
#define MSG_FSCK_ADOPT "no digest was recorded of %s: %s. It is as it was, and can be read as ever; `ckptfs verify` cannot judge it"
#define MSG_FOREIGN_LEFT "%s, a checkpoint (%s) that ckptfs did not write, was not adopted: %s. It is as it was, and can be read as ever. If you know that it is whole, name it behind the backing: ckptfs fsck --adopt BACKING CHECKPOINT"
#define MSG_FSCK_NOT_FOREIGN "%s is no checkpoint of many files that could be adopted: no rule knows it, it has a commit file, or it is not below the backing. Nothing was done to it"
#define MSG_FSCK_UNREADABLE "cannot look at %s: %s. What is there was not checked; run this as a user who may read it, or see to the storage"

/* ls and latest */
#define MSG_LS_COVERED "what is hidden below %s cannot be seen: it lies in %s, which a mount covers. The rest is listed; unmount it, then `ckptfs ls --all` or `ckptfs fsck` show it"
#define MSG_TENSORS_MISSING "'%s' is committed, and not all of its tensors are in its files: %s. %lld parts are missing; `ckptfs tensors` lists them. If a program means to save all, look at what each rank has written. This is told once for each directory"
#define MSG_TENSORS_NOT_KEPT "the index of %s is not kept: %s. Nothing was changed"
#define MSG_TENSORS_UNREADABLE "the tensors of %s cannot be listed: %s. Nothing was changed"
#define MSG_LATEST_NONE "there is no checkpoint at or below %s. One that is being saved does not count before it is committed: `ckptfs ls` shows it"
#define MSG_LATEST_UNSEEN "no committed checkpoint was found at or below %s, but %u places there could not be looked at: whether there is one is not known. See to these, or name the checkpoint yourself"
#define MSG_LATEST_UNVERIFIED "no checkpoint at or below %s verifies. Nothing was changed; `ckptfs ls` lists what there is, `ckptfs verify` tells what is wrong with each"
#define MSG_LATEST_SKIPPED "%s is newer, but does not verify: it was passed over. `ckptfs verify` tells more"
#define MSG_LATEST_FOREIGN "%s was not written by ckptfs, and nothing vouches for its content: it is named because there is no committed checkpoint at or below %s"

/* top */
#define MSG_TOP_UNMOUNTED "%s is not mounted any more. Every file that was closed before is on the backing, or named in the system log"

/* clang-format on */

#endif
