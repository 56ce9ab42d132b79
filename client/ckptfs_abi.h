/* SPDX-License-Identifier: MIT */
/*
 * What ckptfs and the programs beside it agree on: versions, names, and the ioctls by which a
 * trainer hands over tensors instead of bytes (libckptfs uses them; ckptfs.h is for people). The
 * only header that clients, engine and filesystem share; it includes nothing of theirs.
 *
 * A trainer opens MOUNT/.ckptfs/ctl and says HELLO. It then has a session, which lives as long as
 * its process, and is lent memory, the arena, of nr_slots slots. It registers tensors, and writes
 * them by handle: WRITE, on the descriptor of a file, says which bytes of which tensor go where.
 * The file has its size at once, and its bytes follow: a thread of the trainer asks by NEXT for
 * grants, copies each piece of a tensor to the place in the arena that its grant says, and reports
 * it with the following NEXT. The daemon flushes the bytes from there. So it never sees a pointer,
 * a device or another process's memory.
 *
 * All structs have fixed widths and no unnamed padding; what is reserved is 0. An argument that is
 * out of range is EINVAL. One of another session, or of none, is ENOENT (the session) or EBADF (the
 * tensor, the capture). All ioctls are for the descriptor of ctl, except WRITE, QUERY and COMMIT.
 */
#ifndef CKPTFS_ABI_H
#define CKPTFS_ABI_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define CKPTFS_VERSION	   "0.1.0"
#define CKPTFS_ABI_VERSION 1

/* Shown by mountinfo as fuse.ckptfs. */
#define CKPTFS_FSTYPE "fuse.ckptfs"

/*
 * Eight bytes in the place of a safetensors header's length, until the header is written. No reader
 * takes them for a length.
 */
#define CKPTFS_UNFINISHED "ckptfs?\377"

/* The control directory, below the top of every mount, and the endpoint in it. */
#define CKPTFS_CONTROL_DIR ".ckptfs"
#define CKPTFS_CTL	   "ctl"

#define CKPTFS_SOCKET_MAX   48	  /* with the NUL */
#define CKPTFS_TEXT_MAX	    512	  /* with the NUL */
#define CKPTFS_NAME_MAX	    1024  /* bytes of the name of a tensor */
#define CKPTFS_TENSORS_MAX  65536 /* registered at a time, by one session */
#define CKPTFS_CAPTURES_MAX 65536 /* written and not landed yet, of one session */
#define CKPTFS_BATCH_BYTES  16128 /* an ioctl is at most 16383 */

enum ckptfs_memory { CKPTFS_HOST, CKPTFS_HOST_PINNED, CKPTFS_CUDA, CKPTFS_CUDA_MANAGED };
enum ckptfs_kind { CKPTFS_STORAGE, CKPTFS_TENSOR, CKPTFS_OBJECT };
/* An object of this name is in no list of tensors: small pieces that are of no use alone. */
#define CKPTFS_UNLISTED "what lies between tensors"
enum ckptfs_check { CKPTFS_CHECK_OFF, CKPTFS_CHECK_SAMPLE, CKPTFS_CHECK_ALL };

/*
 * In: abi, which must stay first for good, is that of the client; EPROTO (with abi set to the
 * daemon's): the daemon has another. rank and world are as the launcher says, -1 and 0: unknown.
 * arena_bytes: how much the client can use, 0: its whole share. EUSERS: the user, or all users,
 * have too many sessions with this mount. Out: the session. The descriptor of the arena comes over
 * the unix socket `socket` in the control directory. That is a stream socket, which takes one
 * connection, of this process, within 10 s. slot_bytes * nr_slots is the arena's size.
 */
struct ckptfs_hello {
	__u32 abi, flags;
	__s32 rank, world;
	__s32 local_rank, local_world;
	__u64 arena_bytes;
	__u64 session;
	__u32 slot_bytes, nr_slots;
	__u32 check; /* enum ckptfs_check, as the mount was told */
	__u32 reserved;
	char socket[CKPTFS_SOCKET_MAX];
};

/*
 * A tensor and its layout; its address stays with the client, which notes it at each write. @id is
 * the session's own, unique, not 0. The names follow all structs of the batch, without NULs, each
 * name_len bytes, 1 or more. EEXIST: the id is registered with another layout.
 */
struct ckptfs_tensor {
	__u64 id, bytes;
	__u64 global_shape[8], shard_offset[8],
		shard_shape[8]; /* in elements; a shard lies in its tensor */
	char dtype[16];		/* printable; as in safetensors: "F32" */
	__u32 ndim, kind, memory, flags;
	__u32 name_len, reserved;
};

#define CKPTFS_TENSORS_BYTES (CKPTFS_BATCH_BYTES - 16)
struct ckptfs_register {
	__u64 session;
	__u32 nr, bytes; /* tensors; bytes of all that follows */
	__u8 data[CKPTFS_TENSORS_BYTES];
};

/* Captures of these tensors that are still to come are made all the same. */
#define CKPTFS_IDS_MAX 1024
struct ckptfs_unregister {
	__u64 session;
	__u32 nr, reserved;
	__u64 ids[CKPTFS_IDS_MAX];
};

/*
 * One capture: bytes [src_off, src_off + len) of tensor @id go to file_off. @seq numbers the
 * captures of a session, from 1 on, without gaps. All of a batch or none is taken. EOPNOTSUPP:
 * ckptfs does not stage the file (it is no checkpoint's), or has published it; write the bytes
 * instead. EAGAIN: more than CKPTFS_CAPTURES_MAX wait, which passes. The ioctl waits for captures
 * of the same bytes that are still to come; EINTR: nothing is taken.
 */
struct ckptfs_capture {
	__u64 seq, id, file_off, src_off, len;
};

#define CKPTFS_WRITES_MAX 400
struct ckptfs_write {
	__u64 session;
	__u32 nr, reserved;
	struct ckptfs_capture captures[CKPTFS_WRITES_MAX];
};

/*
 * A grant: copy [src_off, src_off + len) of capture @seq, as counted in its tensor, to arena_off.
 * The numbers of a session's grants rise. A piece that is done is reported by the number of its
 * grant, in any order, once or more often; from then on its place in the arena is the daemon's.
 * @len 0: no more of the capture is granted, since its file has failed or is gone; @err (a positive
 * errno) says why. What was granted of it before keeps its place until it is reported.
 */
struct ckptfs_grant {
	__u64 nr, seq, src_off, arena_off;
	__u32 len, err;
};

struct ckptfs_done {
	__u64 nr;
	__u64 begin_ns, end_ns; /* of the copy; monotonic clock */
};

/*
 * In: what is done; the daemon knows it when this returns 0. Out: new grants; none after wait_ms.
 * Waits, interruptibly, only if nothing is reported, and only until another call of the session
 * begins to wait.
 *
 * EINVAL: nr_done is above CKPTFS_GRANTS_MAX, or nr_grants or reserved is not 0; nothing was taken.
 * ENOENT: the user has no such session, or the session is over. It may end during the wait; then
 * nothing was granted.
 * EINTR: a signal ended the call before it granted anything, so no grant is lost. The daemon may
 * have taken the reports. The client calls again with the same reports, which does no harm.
 */
#define CKPTFS_GRANTS_MAX 400
struct ckptfs_next {
	__u64 session;
	__u32 nr_done, nr_grants;
	__u32 wait_ms, reserved;
	union {
		struct ckptfs_done done[CKPTFS_GRANTS_MAX];
		struct ckptfs_grant grants[CKPTFS_GRANTS_MAX];
	};
};

/*
 * A capture that cannot be made: its file, and the checkpoint of the file, fail with @err (a
 * positive errno) and the text, which should name the cause. @seq 0: all captures that have not
 * landed. Grants of it are void, reported or not: the client copies nothing of it any more.
 */
struct ckptfs_fail {
	__u64 session, seq;
	__s32 err;
	__u32 reserved;
	char text[CKPTFS_TEXT_MAX];
};

/* A barrier has ended: how long it blocked the trainer. For metrics and trace only. */
struct ckptfs_barrier {
	__u64 session, blocked_ns;
	__u32 timed_out, reserved;
};

struct ckptfs_stats {
	__u64 session;
	__u64 captures, captured_bytes, landed_bytes, failed; /* since the session began */
	__u64 pending, pending_bytes, granted_bytes;	      /* now */
	__u64 arena_bytes, free_bytes;			      /* of the arena */
	__u64 reserved[8];
};

/*
 * How far the file or checkpoint @name in a directory has come, asked on a descriptor of that
 * directory (not of the control directory). In: the name; the generation, "": the newest of that
 * name. Out: that generation, "" if none of that name is known any more; its state; err (a positive
 * errno, if it failed) and text: why it failed, or what it waits for. Waits for nothing but the
 * backing.
 */
enum ckptfs_state {
	CKPTFS_ABSENT,	  /* there is nothing of that name */
	CKPTFS_OPEN,	  /* its end was not seen yet, or captures of it are to come */
	CKPTFS_CAPTURED,  /* all of it is in the cache */
	CKPTFS_DURABLE,	  /* synced on the backing, in staging */
	CKPTFS_COMMITTED, /* all of it has its name on the backing */
	CKPTFS_FAILED,	  /* or was given up, removed or replaced before that */
	/* no checkpoint: an ordinary file or directory; or it cannot be looked at */
	CKPTFS_NEVER
};
#define CKPTFS_GENERATION_MAX 40 /* with the NUL */
struct ckptfs_query {
	char name[256];
	char generation[CKPTFS_GENERATION_MAX];
	__u32 state; /* enum ckptfs_state */
	__s32 err;
	char text[CKPTFS_TEXT_MAX];
};

/*
 * Declares the checkpoint @name in a directory whole, whatever its rule still waits for; @abandon
 * 1: it will never be, and fails. For its owner and root. Out: err (a positive errno, 0: done) and
 * text, which says why it failed.
 */
struct ckptfs_commit {
	char name[256];
	__u32 abandon, err;
	char text[CKPTFS_TEXT_MAX];
};

/* The session is over; what is not captured fails. The same happens when its process ends. */
struct ckptfs_bye {
	__u64 session;
};

#define CKPTFS_IOC_HELLO      _IOWR('K', 1, struct ckptfs_hello)
#define CKPTFS_IOC_REGISTER   _IOW('K', 2, struct ckptfs_register)
#define CKPTFS_IOC_UNREGISTER _IOW('K', 3, struct ckptfs_unregister)
#define CKPTFS_IOC_WRITE      _IOW('K', 4, struct ckptfs_write) /* on a data file */
#define CKPTFS_IOC_NEXT	      _IOWR('K', 5, struct ckptfs_next)
#define CKPTFS_IOC_FAIL	      _IOW('K', 6, struct ckptfs_fail)
#define CKPTFS_IOC_BARRIER    _IOW('K', 7, struct ckptfs_barrier)
#define CKPTFS_IOC_STATS      _IOWR('K', 8, struct ckptfs_stats)
#define CKPTFS_IOC_BYE	      _IOW('K', 9, struct ckptfs_bye)
#define CKPTFS_IOC_QUERY      _IOWR('K', 10, struct ckptfs_query)  /* on a directory */
#define CKPTFS_IOC_COMMIT     _IOWR('K', 11, struct ckptfs_commit) /* on a directory */

#ifdef __cplusplus
#define CKPTFS_ABI_ASSERT static_assert
#else
#define CKPTFS_ABI_ASSERT _Static_assert
#endif
#define CKPTFS_ABI_SIZE(type, size) \
	CKPTFS_ABI_ASSERT(sizeof(type) == (size) && sizeof(type) < 16384, "the size of " #type)

CKPTFS_ABI_SIZE(struct ckptfs_hello, 104);
CKPTFS_ABI_SIZE(struct ckptfs_tensor, 248);
CKPTFS_ABI_SIZE(struct ckptfs_register, 16128);
CKPTFS_ABI_SIZE(struct ckptfs_unregister, 8208);
CKPTFS_ABI_SIZE(struct ckptfs_capture, 40);
CKPTFS_ABI_SIZE(struct ckptfs_write, 16016);
CKPTFS_ABI_SIZE(struct ckptfs_grant, 40);
CKPTFS_ABI_SIZE(struct ckptfs_done, 24);
CKPTFS_ABI_SIZE(struct ckptfs_next, 16024);
CKPTFS_ABI_SIZE(struct ckptfs_fail, 536);
CKPTFS_ABI_SIZE(struct ckptfs_barrier, 24);
CKPTFS_ABI_SIZE(struct ckptfs_stats, 144);
CKPTFS_ABI_SIZE(struct ckptfs_bye, 8);
CKPTFS_ABI_SIZE(struct ckptfs_query, 816);
CKPTFS_ABI_SIZE(struct ckptfs_commit, 776);

#endif
