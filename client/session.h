/* SPDX-License-Identifier: MIT */
/*
 * Inside of a session.
 *
 * Threads: those of the trainer, which register, write and wait; the pump, which alone asks the
 * daemon for grants, tells it what was done and what failed; those of devices, which copy. A
 * trainer's thread calls the daemon only to register and to write, which do not wait for storage: a
 * barrier ends in time even if the daemon does not answer.
 *
 * Locks, in the order in which they are taken: tensors_order, writes_order, lock. The first two are
 * held over an ioctl, lock never is.
 */
#ifndef CLIENT_SESSION_H
#define CLIENT_SESSION_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "client/capture.h"
#include "client/ckptfs.h"
#include "client/device.h"
#include "client/tensor.h"

#define CKPT_NSEC_PER_SEC 1000000000ull
#define CKPT_DEVICES	  2
#define CKPT_REPORTS	  64

struct ckpt_pieces {
	struct ckpt_piece *first, **end;
};

struct ckptfs_session {
	/* const once it is open */
	pid_t pid;
	int ctl;
	char rank_text[24]; /* " (rank 5)", for messages; "": the rank is unknown */
	uint64_t id;
	char *arena;
	pthread_t toucher; /* faults it in */
	bool touches;
	atomic_bool touched_enough;
	uint64_t arena_bytes;
	uint32_t slot_bytes; /* no piece lies in two of them */
	enum ckptfs_check check;
	struct ckpt_bound_device {
		const struct ckpt_device *ops;
		void *state;
	} devices[CKPT_DEVICES];
	pthread_t pump;

	pthread_mutex_t tensors_order; /* one registers at a time */
	pthread_mutex_t writes_order;  /* numbers of captures reach the daemon in order */

	pthread_mutex_t lock; /* of all that follows */
	pthread_cond_t work;  /* for the pump */
	pthread_cond_t ended; /* a capture is over, or has begun: for who waits */
	struct ckpt_tensors tensors;

	/* Captures that are not over, by number: [base, next_seq); those that are over are NULL. */
	struct ckpt_capture **window;
	size_t window_size; /* a power of 2 */
	uint64_t base, safe, next_seq;
	struct ckpt_capture *failures; /* the daemon must be told of */
	size_t nr_held;		       /* captures that the daemon may hold */
	size_t nr_ungranted;	       /* of which pieces are missing */
	size_t nr_out;		       /* pieces that devices have */
	struct ckpt_pieces done;       /* to report */
	bool asked; /* something was written since the last question for grants */
	uint64_t last_grant;
	struct ckptfs_barrier reports[CKPT_REPORTS];
	unsigned nr_reports;
	bool stop; /* the pump ends when it has told all */

	int dead;	/* -errno: the daemon does not know us any more */
	int unreported; /* -errno: the first capture that failed since a barrier told of one */
	char unreported_text[CKPTFS_TEXT_MAX];
	struct ckptfs_session_stats stats;
};

/*
 * 0, or why nothing can be done with @s here: -ECHILD, -ENOTCONN and the like. Every call begins
 * with it.
 */
int ckpt_session_enter(struct ckptfs_session *s);

/* Says why a call with @s (NULL: an open) fails; returns @err. */
__attribute__((format(printf, 3, 4))) int ckpt_error(const struct ckptfs_session *s, int err,
						     const char *format, ...);

/* An ioctl on ctl (or a data file), again if a signal came between. */
int ckpt_session_ioctl(int fd, unsigned long request, void *arg);

/* Starts a thread of the library: it has the name, and gets no signals. */
int ckpt_thread_start(pthread_t *t, const char *name, void *(*run)(void *), void *arg);

/* The device that has memory of this kind; NULL: none here. */
struct ckpt_bound_device *ckpt_session_device(struct ckptfs_session *s, enum ckptfs_memory memory);

void *ckpt_pump_run(void *session);

uint64_t ckpt_now_ns(void);

#endif
