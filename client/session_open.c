/* SPDX-License-Identifier: MIT */
/* A session, from the search for the mount, the greeting and the arena, to its end. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/session.h"
#include "client/wire.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define TOUCH_BYTES ((uint64_t)2 << 20)

#define THREADS_DEFAULT 2
#define THREADS_MAX	64

/* Opens the control directory and ctl of the mount with the top @top. -ENOENT: it is none. */
static int open_ctl(const char *top, dev_t dev, int *dir, int *ctl)
{
	char path[PATH_MAX + sizeof(CKPTFS_CONTROL_DIR) + 1];
	struct stat st;
	int err;

	snprintf(path, sizeof(path), "%s/" CKPTFS_CONTROL_DIR, top);
	*dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (*dir < 0) /* a daemon that has ended is not a missing directory */
		return errno == ENOTCONN || errno == ECONNABORTED ? -errno : -ENOENT;
	*ctl = openat(*dir, CKPTFS_CTL, O_RDONLY | O_CLOEXEC);
	err = *ctl < 0 ? -errno : 0;
	/* A backing has such a directory, too, and @top may be in an outer mount. */
	if (!err && (fstat(*ctl, &st) || st.st_dev != dev || !ckpt_wire->is_ckptfs(*ctl))) {
		close(*ctl);
		err = -ENOENT;
	}
	if (err) {
		close(*dir);
		*dir = *ctl = -1;
	}
	return err;
}

static int find_mount(const char *path, int *dir, int *ctl)
{
	char top[PATH_MAX];
	struct stat st;
	int err;

	if (!realpath(path, top) || stat(top, &st))
		return ckpt_error(NULL, -errno, "%s: %s", path, strerror(errno));
	for (;;) {
		char *end = strrchr(top, '/');

		err = open_ctl(top, st.st_dev, dir, ctl);
		if (err != -ENOENT || end == NULL)
			break;
		*end = '\0';
	}
	if (err == -ENOENT)
		return ckpt_error(NULL, -ENOTTY,
				  "%s: lies in no mount of ckptfs that takes sessions", path);
	return err ? ckpt_error(NULL, err, "%s/" CKPTFS_CONTROL_DIR "/" CKPTFS_CTL ": %s", top,
				strerror(-err))
		   : 0;
}

/* --- greeting --- */

static int number_of(const char *name, int otherwise)
{
	const char *text = getenv(name);
	char *end;
	long n;

	if (!text || !*text)
		return otherwise;
	n = strtol(text, &end, 10);
	return *end || n < 0 || n > INT_MAX ? otherwise : (int)n;
}

/* The daemon reads ranks in the same way: all programs of a batch script have Slurm's variables. */
static bool in_slurm_step(void)
{
	return number_of("SLURM_STEP_ID", -1) >= 0 && number_of("SLURM_NTASKS", 0) > 1;
}

/* The most tasks that Slurm has on a node of this step, as "4(x2),3" says; 0: unknown. */
static int tasks_on_a_node(void)
{
	const char *at = getenv("SLURM_STEP_TASKS_PER_NODE");
	int most = 0;

	for (; at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
		long n = strtol(at, NULL, 10);

		if (n > most && n <= INT_MAX)
			most = (int)n;
	}
	return most;
}

static void say_rank(struct ckptfs_hello *h, const struct ckptfs_options *o)
{
	bool slurm = number_of("RANK", -1) < 0 && in_slurm_step();

	h->rank = o->rank;
	h->world = o->world;
	h->local_rank = o->local_rank;
	h->local_world = o->local_world;
	if (h->rank < 0) {
		h->rank = number_of(slurm ? "SLURM_PROCID" : "RANK", -1);
		h->world = number_of(slurm ? "SLURM_NTASKS" : "WORLD_SIZE", 0);
	}
	if (h->local_rank < 0) {
		h->local_rank = number_of(slurm ? "SLURM_LOCALID" : "LOCAL_RANK", -1);
		h->local_world = slurm ? tasks_on_a_node() : number_of("LOCAL_WORLD_SIZE", 0);
	}
}

static int greet(struct ckptfs_session *s, const struct ckptfs_options *o, struct ckptfs_hello *h)
{
	int err;

	*h = (struct ckptfs_hello){.abi = CKPTFS_ABI_VERSION, .arena_bytes = o->arena_bytes};
	say_rank(h, o);
	if (h->rank >= 0)
		snprintf(s->rank_text, sizeof(s->rank_text), " (rank %d)", h->rank);
	err = ckpt_session_ioctl(s->ctl, CKPTFS_IOC_HELLO, h);
	if (err == -EPROTO)
		return ckpt_error(
			NULL, err,
			"the daemon speaks version %u of the ABI, this library version %u: "
			"use those of one release, and mount anew",
			h->abi, CKPTFS_ABI_VERSION);
	if (err == -ENOTTY || err == -ENOSYS)
		return ckpt_error(NULL, -EPROTO,
				  "the daemon is of a release that knows no sessions");
	if (err == -EUSERS)
		return ckpt_error(NULL, err,
				  "too many sessions with this mount: a process needs one, so "
				  "close the others (`ckptfs status` lists them)");
	if (err == -ENOMEM)
		return ckpt_error(
			NULL, err,
			"the cache has no room to lend to this process: other processes' "
			"sessions have it, or what is being saved (a larger host_cache_size)");
	if (err)
		return ckpt_error(NULL, err, "the daemon refuses the session: %s", strerror(-err));
	s->id = h->session;
	s->check = h->check;
	h->socket[sizeof(h->socket) - 1] = '\0';
	return 0;
}

/* --- the arena --- */

/* True if the memory cannot shrink: else a missing page would end us by SIGBUS. */
static int arena_is_sound(int fd, uint64_t bytes)
{
	int wanted = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	struct stat st;

	return bytes && !fstat(fd, &st) && (uint64_t)st.st_size == bytes &&
	       (fcntl(fd, F_GET_SEALS) & wanted) == wanted;
}

static int map_arena(struct ckptfs_session *s, int dir, const struct ckptfs_hello *h)
{
	int fd = ckpt_wire_receive(dir, h->socket), err = 0;

	if (fd < 0)
		return ckpt_error(NULL, fd, "the daemon does not hand over memory: %s",
				  strerror(-fd));
	s->slot_bytes = h->slot_bytes;
	s->arena_bytes = (uint64_t)h->slot_bytes * h->nr_slots;
	if (!arena_is_sound(fd, s->arena_bytes)) {
		close(fd);
		return ckpt_error(NULL, -EPROTO,
				  "the memory that the daemon hands over is not as it says");
	}
	s->arena = mmap(NULL, s->arena_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (s->arena == MAP_FAILED) {
		err = -errno;
		s->arena = NULL;
	}
	close(fd);
	if (err)
		return ckpt_error(NULL, err, "cannot map the memory that the daemon lends: %s",
				  strerror(-err));
	madvise(s->arena, s->arena_bytes, MADV_HUGEPAGE); /* where the host has them */
	madvise(s->arena, s->arena_bytes, MADV_DONTFORK);
	return 0;
}

/*
 * Faults in as much of the arena as there are tensors, while the program goes on, so that most
 * captures need not: a large arena takes a second. In small steps, since the program can map
 * nothing during one. Kernels before 5.14 cannot. The daemon grants the first slots first.
 */
static void *touch_run(void *session)
{
	struct ckptfs_session *s = session;
	uint64_t at = 0, bytes;
	int err = 0;

	pthread_mutex_lock(&s->lock);
	while (!s->touched_enough && !err) {
		if (at >= s->to_touch) {
			pthread_cond_wait(&s->touch, &s->lock);
			continue;
		}
		bytes = s->arena_bytes - at < TOUCH_BYTES ? s->arena_bytes - at : TOUCH_BYTES;
		pthread_mutex_unlock(&s->lock);
		err = madvise(s->arena + at, bytes, MADV_POPULATE_WRITE);
		at += bytes;
		pthread_mutex_lock(&s->lock);
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

/* --- opening and closing --- */

static struct ckptfs_session *session_create(void)
{
	struct ckptfs_session *s = calloc(1, sizeof(*s));
	pthread_condattr_t attr;

	if (!s)
		return NULL;
	s->pid = getpid();
	s->ctl = -1;
	s->base = s->safe = s->next_seq = 1;
	s->done.end = &s->done.first;
	pthread_mutex_init(&s->tensors_order, NULL);
	pthread_mutex_init(&s->writes_order, NULL);
	pthread_mutex_init(&s->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&s->work, &attr);
	pthread_cond_init(&s->ended, &attr);
	pthread_cond_init(&s->touch, &attr);
	pthread_condattr_destroy(&attr);
	return s;
}

static void free_captures(struct ckptfs_session *s)
{
	for (struct ckpt_piece *p = s->done.first, *next; p; p = next) {
		next = p->next;
		if (p->capture)
			ckpt_capture_put_locked(p->capture);
		free(p);
	}
	s->done.first = NULL;
	while (s->failures) {
		struct ckpt_capture *c = s->failures;

		s->failures = c->next;
		ckpt_capture_put_locked(c);
	}
	for (uint64_t seq = s->base; seq < s->next_seq; seq++) {
		struct ckpt_capture *c = ckpt_capture_find_locked(s, seq);

		if (c)
			ckpt_capture_put_locked(c);
	}
	free(s->window);
	s->window = NULL;
	s->base = s->next_seq;
}

/* A child of the session's process may do this, too: it touches memory of its own only. */
static void free_memory(struct ckptfs_session *s)
{
	free_captures(s);
	ckpt_tensors_free(&s->tensors);
	free(s);
}

static void session_free(struct ckptfs_session *s)
{
	/* The captures are freed first: each gives what was bound to it back to its device. */
	pthread_mutex_lock(&s->lock);
	free_captures(s);
	pthread_mutex_unlock(&s->lock);
	for (unsigned i = 0; i < CKPT_DEVICES; i++)
		if (s->devices[i].ops)
			s->devices[i].ops->close(s->devices[i].state);
	pthread_mutex_lock(&s->lock);
	s->touched_enough = true;
	pthread_cond_signal(&s->touch);
	pthread_mutex_unlock(&s->lock);
	if (s->touches)
		pthread_join(s->toucher, NULL);
	if (s->arena)
		munmap(s->arena, s->arena_bytes);
	if (s->ctl >= 0)
		close(s->ctl);
	pthread_cond_destroy(&s->touch);
	pthread_cond_destroy(&s->ended);
	pthread_cond_destroy(&s->work);
	pthread_mutex_destroy(&s->lock);
	pthread_mutex_destroy(&s->writes_order);
	pthread_mutex_destroy(&s->tensors_order);
	free_memory(s);
}

static int start(struct ckptfs_session *s, unsigned threads)
{
	int err;

	if (!threads)
		threads = THREADS_DEFAULT;
	err = ckpt_device_host.open(s, threads < THREADS_MAX ? threads : THREADS_MAX,
				    &s->devices[0].state);
	if (!err)
		s->devices[0].ops = &ckpt_device_host;
	if (!err)
		err = ckpt_device_cuda.open(s, threads, &s->devices[1].state);
	if (!err)
		s->devices[1].ops = &ckpt_device_cuda;
	if (!err)
		err = ckpt_thread_start(&s->pump, "ckptfs-pump", ckpt_pump_run, s);
	if (!err) /* else the captures fault it in */
		s->touches = !ckpt_thread_start(&s->toucher, "ckptfs-touch", touch_run, s);
	return err ? ckpt_error(NULL, err, "cannot start threads: %s", strerror(-err)) : 0;
}

static void say_bye(struct ckptfs_session *s)
{
	struct ckptfs_bye bye = {.session = s->id};

	ckpt_session_ioctl(s->ctl, CKPTFS_IOC_BYE, &bye);
}

int ckptfs_open(const char *path, const struct ckptfs_options *o, struct ckptfs_session **session)
{
	static const struct ckptfs_options otherwise = {.rank = -1, .local_rank = -1};
	struct ckptfs_hello hello;
	struct ckptfs_session *s;
	int dir = -1, err;

	*session = NULL;
	ckpt_error(NULL, 0, "%s", "");
	if (!o)
		o = &otherwise;
	s = session_create();
	if (!s)
		return ckpt_error(NULL, -ENOMEM, "no memory for a session");
	err = find_mount(path, &dir, &s->ctl);
	if (!err)
		err = greet(s, o, &hello);
	if (!err) {
		err = map_arena(s, dir, &hello);
		if (!err)
			err = start(s, o->threads);
		if (err)
			say_bye(s);
	}
	if (dir >= 0)
		close(dir);
	if (err) {
		session_free(s);
		return err;
	}
	s->stats.arena_bytes = s->arena_bytes;
	*session = s;
	return 0;
}

void ckptfs_close(struct ckptfs_session *s)
{
	if (!s)
		return;
	if (s->pid != getpid()) {
		free_memory(s);
		return;
	}
	ckptfs_barrier(s, NULL, 0, CKPTFS_BARRIER_LANDED, 0);
	pthread_mutex_lock(&s->lock);
	for (uint64_t seq = s->base; seq < s->next_seq; seq++) {
		struct ckpt_capture *c = ckpt_capture_find_locked(s, seq);

		if (c)
			ckpt_capture_fail_locked(s, c, -ECANCELED,
						 "the session was closed before it was captured");
	}
	s->stop = true;
	pthread_cond_broadcast(&s->work);
	pthread_mutex_unlock(&s->lock);
	pthread_join(s->pump, NULL);
	say_bye(s);
	session_free(s);
}
