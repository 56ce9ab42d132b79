/* SPDX-License-Identifier: MIT */
/*
 * Inside of a session.
 *
 * Threads: those of the trainer, which register, write and wait; the pump, which alone asks the
 * daemon for grants, and tells it what is done and what failed; those of devices, which copy. A
 * trainer's thread calls the daemon only to register and to write, which do not wait for storage: a
 * barrier ends in time even if the daemon does not answer.
 *
 * Lock order: tensors_order, writes_order, lock. The first two are held over an ioctl, lock never
 * is.
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
	pthread_t toucher; /* faults the arena in */
	bool touches;
	uint64_t arena_bytes;
	uint32_t slot_bytes; /* no piece crosses one */
	enum ckptfs_check check;
	struct ckpt_bound_device {
		const struct ckpt_device *ops;
		void *state;
	} devices[CKPT_DEVICES];
	pthread_t pump;

	pthread_mutex_t tensors_order; /* one thread registers at a time */
	pthread_mutex_t writes_order;  /* numbers of captures reach the daemon in order */

	pthread_mutex_t lock; /* for all that follows */
	pthread_cond_t work;  /* wakes the pump */
	pthread_cond_t ended; /* a capture is over, or has begun */
	struct ckpt_tensors tensors;
	uint64_t to_touch; /* bytes of the arena that saves will need */
	bool touched_enough;
	pthread_cond_t touch; /* wakes the toucher */

	/* Captures by number, [base, next_seq); those that are over are NULL. */
	struct ckpt_capture **window;
	size_t window_size; /* a power of 2 */
	uint64_t base, safe, next_seq;
	struct ckpt_capture *failures; /* that the daemon is to be told of */
	size_t nr_held;		       /* captures that the daemon may hold */
	size_t nr_ungranted;	       /* captures that lack grants */
	size_t nr_out;		       /* pieces that devices have */
	struct ckpt_pieces done;       /* to be reported */
	bool asked; /* something was written since the last question for grants */
	uint64_t last_grant;
	struct ckptfs_barrier reports[CKPT_REPORTS];
	unsigned nr_reports;
	bool stop; /* the pump ends when it has told all */

	int dead;	/* -errno: the daemon does not know this session any more */
	int unreported; /* -errno: the first failed capture that no barrier has reported yet */
	char unreported_text[CKPTFS_TEXT_MAX];
	struct ckptfs_session_stats stats;
};

/*
 * 0, or why @s cannot be used here: -ECHILD, -ENOTCONN and the like. Every call begins with this.
 */
int ckpt_session_enter(struct ckptfs_session *s);

/* Says why a call with @s (NULL: one without a session) fails; returns @err. */
__attribute__((format(printf, 3, 4))) int ckpt_error(const struct ckptfs_session *s, int err,
						     const char *format, ...);

/* An ioctl on ctl (or a data file), repeated if a signal came. */
int ckpt_session_ioctl(int fd, unsigned long request, void *arg);

/* Starts a thread of the library, which has the name and gets no signals. */
int ckpt_thread_start(pthread_t *t, const char *name, void *(*run)(void *), void *arg);

/* The device for memory of this kind; NULL: none here. */
struct ckpt_bound_device *ckpt_session_device(struct ckptfs_session *s, enum ckptfs_memory memory);

/* A save may need @bytes of the arena. */
void ckpt_session_touch_locked(struct ckptfs_session *s, uint64_t bytes);

void *ckpt_pump_run(void *session);

uint64_t ckpt_now_ns(void);

#endif
