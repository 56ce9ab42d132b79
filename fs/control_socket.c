/* SPDX-License-Identifier: MIT */
#include "fs/control_socket.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/backing/backing.h"
#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/json.h"
#include "engine/base/list.h"
#include "engine/base/lock.h"
#include "engine/base/log.h"
#include "engine/base/message.h"
#include "engine/base/wait.h"
#include "engine/base/worker.h"
#include "engine/config/config.h"
#include "engine/metrics/failures.h"
#include "fs/control_dir.h"
#include "fs/control_drain.h"
#include "fs/control_file.h"
#include "fs/rundir.h"

#define REQUEST_MAX	 4096
#define ANSWER_MAX	 (4 << 20)
#define MAX_CONNECTIONS	 64
#define SERVER_TIMEOUT_S 2
#define PROBE_MS	 500
#define ANSWER_MS	 300
#define AGAIN_MS	 20

struct control {
	struct fs *fs;
	int listen_fd;
	int (*umount)(struct fs *fs, struct error *e);
	struct worker thread;
	struct lock lock;
	struct waitq changed;
	int connections;    /* lock */
	struct list asking; /* lock; connections without a request yet, oldest first */
	bool finishing;	    /* lock */
};

struct connection {
	struct list link; /* lock; on control->asking */
	struct control *control;
	int fd;
};

/* --- both sides: one line of text --- */

static int send_line(int fd, const json_t *value)
{
	__cleanup_free char *text = json_dumps(value, JSON_COMPACT);
	size_t len, done = 0;

	if (!text)
		return -ENOMEM;
	len = strlen(text);
	text[len++] = '\n'; /* replaces the terminator */
	while (done < len) {
		ssize_t n = send(fd, text + done, len - done, MSG_NOSIGNAL);

		if (n < 0)
			return -errno;
		done += (size_t)n;
	}
	return 0;
}

/* Reads up to the newline, at most @max bytes, until @deadline_ns. */
static int receive_line(int fd, size_t max, uint64_t deadline_ns, json_t **value)
{
	__cleanup_free char *buf = malloc(max);
	size_t len = 0;

	*value = NULL;
	while (buf && len < max) {
		uint64_t now = clock_mono_ns();
		struct pollfd p = {.fd = fd, .events = POLLIN};
		ssize_t n;

		/*
		 * Data that arrived by the deadline counts, even if this thread got no CPU until
		 * later.
		 */
		if (poll(&p, 1,
			 now < deadline_ns ? (int)((deadline_ns - now) / NSEC_PER_MSEC) + 1 : 0) ==
		    0)
			return -ETIMEDOUT;
		n = recv(fd, buf + len, max - len, MSG_DONTWAIT);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			continue;
		if (n <= 0)
			return n ? -errno : -ECONNRESET;
		len += (size_t)n;
		if (buf[len - 1] == '\n') {
			*value = json_loadb(buf, len, 0, NULL);
			return json_is_object(*value) ? 0 : -EPROTO;
		}
	}
	return buf ? -EMSGSIZE : -ENOMEM;
}

/* --- the daemon's side --- */

static json_t *refusal(int err, const char *message)
{
	return json_pack("{s:s, s:o}", "error", strerrorname_np(err), "message",
			 json_text(message));
}

/* The messages about checkpoints since @since_ns, one for each that is left uncommitted. */
static json_t *left_since(const json_t *failures, json_int_t since_ns)
{
	json_t *left = json_array();
	size_t i;

	for (i = 0; i < json_array_size(failures); i++) {
		const json_t *x = json_array_get(failures, i);

		if (json_get_int(x, "last_ns", 0) >= since_ns &&
		    !strcmp(json_get_text(x, "op", ""), "checkpoint"))
			json_array_append_new(left, json_text(json_get_text(x, "message", "?")));
	}
	return left;
}

static json_t *serve_umount(struct control *s, uid_t uid, json_int_t limit_ms)
{
	json_t *failures, *last, *answer;
	uint64_t failed = failures_total(s->fs->engine->failures);
	json_int_t since_ns = (json_int_t)clock_wall_ns();
	struct error e;
	bool in_use, unmounted;
	int drained;

	if (uid != 0 && uid != geteuid()) {
		FAIL(&e, EPERM, UMOUNT_DENIED, s->fs->mountpoint, (unsigned)geteuid());
		return refusal(e.err, e.text);
	}
	/*
	 * While files are open, refuses at once, unless the unmount works or they are just being
	 * closed. Otherwise all goes to the backing first.
	 */
	in_use = s->fs->engine->metrics.open_handles;
	unmounted = in_use && !s->umount(s->fs, &e);
	if (in_use && !unmounted && s->fs->engine->metrics.open_handles)
		return refusal(e.err, e.text);
	/* Slightly less, so that the answer arrives within the verb's limit. */
	limit_ms -= limit_ms > 2 * ANSWER_MS ? ANSWER_MS : limit_ms / 2;
	drained = engine_drain(s->fs->engine, clock_mono_ns() + (uint64_t)limit_ms * NSEC_PER_MSEC);
	if (drained == -ETIMEDOUT && !unmounted) {
		FAIL(&e, EBUSY, DRAIN_TIMEOUT, s->fs->mountpoint);
		return refusal(e.err, e.text);
	}
	if (!unmounted && s->umount(s->fs, &e))
		return refusal(e.err, e.text);
	engine_no_more_calls(s->fs->engine, s->fs->mountpoint);
	failures = failures_to_json(s->fs->engine->failures, uid, true);
	last = json_array_get(failures, json_array_size(failures) - 1);
	answer = json_pack("{s:b, s:o, s:b, s:o}", "ok", 1, "left", left_since(failures, since_ns),
			   "failed", failures_total(s->fs->engine->failures) != failed,
			   "last_failure", json_text(json_get_text(last, "message", "?")));
	json_decref(failures);
	return answer;
}

static json_t *serve_request(struct control *s, const json_t *request, const struct caller *c)
{
	const char *verb = json_get_text(request, "verb", "");
	struct engine *en = s->fs->engine;
	uid_t uid = c->uid;
	struct error e;

	if (!strcmp(verb, "status"))
		return control_status(s->fs, uid);
	if (!strcmp(verb, "file"))
		return control_file(s->fs, c, json_get_text(request, "path", ""),
				    json_get_text(request, "generation", NULL));
	if (!strcmp(verb, "commit"))
		return control_commit(s->fs, c, json_get_text(request, "path", ""),
				      json_is_true(json_object_get(request, "abandon")));
	if (!strcmp(verb, "failures"))
		return json_pack("{s:o}", "failures",
				 failures_to_json(en->failures, uid, uid == 0 || uid == geteuid()));
	if (!strcmp(verb, "config"))
		return config_to_json(&en->config);
	if (!strcmp(verb, "drain"))
		return control_drain(s->fs, uid, request);
	if (!strcmp(verb, "umount"))
		return serve_umount(s, uid, json_get_int(request, "limit_ms", 0));
	FAIL(&e, EINVAL, SOCKET_REQUEST,
	     *verb ? "this daemon does not know that verb"
		   : "not one line with a JSON object and a verb");
	return refusal(e.err, e.text);
}

static void stop_asking(struct connection *c)
{
	LOCK_SCOPE(&c->control->lock);
	list_del(&c->link);
}

static void end_connection(struct control *s)
{
	LOCK_SCOPE(&s->lock);
	s->connections--;
	waitq_wake_all(&s->changed);
}

static void *connection_main(void *arg)
{
	struct connection *c = arg;
	struct control *s = c->control;
	struct ucred peer = {.uid = (uid_t)-1, .gid = (gid_t)-1};
	socklen_t len = sizeof(peer);
	json_t *request = NULL, *answer;
	int err = receive_line(c->fd, REQUEST_MAX,
			       clock_mono_ns() + SERVER_TIMEOUT_S * NSEC_PER_SEC, &request);

	stop_asking(c);
	getsockopt(c->fd, SOL_SOCKET, SO_PEERCRED, &peer, &len);
	if (err != -ECONNRESET && err != -ETIMEDOUT) {
		answer = serve_request(
			s, err ? NULL : request,
			&(struct caller){.uid = peer.uid, .gid = peer.gid, .pid = peer.pid});
		err = send_line(c->fd, answer);
		if (err)
			log_debug("control socket: %s", strerror(-err));
		/* The verb sees by the end of this connection that the daemon has ended. */
		if (json_object_get(answer, "ok"))
			c->fd = -1;
		json_decref(answer);
	}
	json_decref(request);
	if (c->fd >= 0)
		close(c->fd);
	free(c);
	end_connection(s);
	return NULL;
}

/* Waits for room. The oldest connection without a request ends, to keep none out. */
static void make_room_locked(struct control *s)
{
	while (s->connections == MAX_CONNECTIONS && !s->finishing) {
		if (!list_empty(&s->asking))
			shutdown(container_of(s->asking.next, struct connection, link)->fd,
				 SHUT_RDWR);
		wait_out(&s->changed, CLOCK_NEVER);
	}
}

static bool start_connection(struct control *s, int fd)
{
	struct connection *c = malloc(sizeof(*c));
	{
		LOCK_SCOPE(&s->lock);
		make_room_locked(s);
		if (!c || s->finishing) {
			free(c);
			return false;
		}
		*c = (struct connection){.control = s, .fd = fd};
		list_append(&s->asking, &c->link);
		s->connections++;
	}
	if (worker_start_detached("ckptfs-control", 0, connection_main, c))
		connection_main(c); /* no thread: serves it here */
	return true;
}

static bool is_finishing(struct control *s)
{
	LOCK_SCOPE(&s->lock);
	return s->finishing;
}

static void *accept_main(void *arg)
{
	struct control *s = arg;

	while (!is_finishing(s)) {
		struct timeval tv = {.tv_sec = SERVER_TIMEOUT_S};
		int fd = accept4(s->listen_fd, NULL, NULL, SOCK_CLOEXEC);

		if (fd < 0) {
			if (errno == EMFILE || errno == ENFILE || errno == ENOMEM)
				poll(NULL, 0, 100); /* until a descriptor is closed */
			continue;
		}
		setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
		if (!start_connection(s, fd))
			close(fd);
	}
	return NULL;
}

struct control *control_start(struct fs *fs, int listen_fd,
			      int (*umount)(struct fs *fs, struct error *e))
{
	struct control *s = calloc(1, sizeof(*s));

	if (s) {
		s->fs = fs;
		s->listen_fd = listen_fd;
		s->umount = umount;
		list_init(&s->asking);
		lock_init(&s->lock, LOCK_CONTROL_SOCKET);
		waitq_init(&s->changed, &s->lock);
		if (!worker_start(&s->thread, "ckptfs-accept", accept_main, s))
			return s;
	}
	close(listen_fd);
	free(s);
	return NULL;
}

void control_finish(struct control *s)
{
	struct list *l;

	if (!s)
		return;
	{
		LOCK_SCOPE(&s->lock);
		s->finishing = true;
		list_for_each (l, &s->asking)
			shutdown(container_of(l, struct connection, link)->fd, SHUT_RDWR);
		/* The others end by themselves: a send has a time limit. */
		while (s->connections)
			wait_out(&s->changed, CLOCK_NEVER);
	}
	shutdown(s->listen_fd, SHUT_RDWR); /* wakes accept */
	worker_join(&s->thread);
	close(s->listen_fd);
	lock_finish(&s->lock);
	free(s);
}

/* --- the verb's side --- */

static int errno_of(const char *name)
{
	int err;

	for (err = 1; err < 200; err++)
		if (strerrorname_np(err) && !strcmp(strerrorname_np(err), name))
			return err;
	return EPROTO;
}

static int no_answer(const struct mount_entry *m, int err, int pid, struct error *e)
{
	/* The socket of a dead daemon refuses, too, if its mount had the same device number. */
	if ((err == -ENOENT || err == -ECONNREFUSED) &&
	    mountinfo_probe(m->path, PROBE_MS) == MOUNT_ALIVE)
		return FAIL(e, ENXIO, DAEMON_ELSEWHERE, m->path);
	if (err == -ECONNREFUSED || err == -ENOENT)
		return FAIL(e, ECONNREFUSED, DAEMON_DEAD, m->path, m->path);
	if (err == -ETIMEDOUT)
		return FAIL(e, ETIMEDOUT, DAEMON_SILENT, m->path, pid, m->path);
	return FAIL(e, -err, DAEMON_REPLY, m->path, strerror(-err));
}

int control_ask(const struct mount_entry *m, const char *verb, int limit_ms, json_t **answer,
		int *pid, int *keep, struct error *e)
{
	return control_request(m, json_pack("{s:s, s:i}", "verb", verb, "limit_ms", limit_ms),
			       limit_ms, answer, pid, keep, e);
}

/* Asks once. -ECONNRESET: the daemon hung up before it answered. */
static int exchange(const struct mount_entry *m, const json_t *request, uint64_t deadline,
		    json_t **answer, int *pid, int *keep)
{
	__cleanup_fd int fd = rundir_connect(m->user, m->major, m->minor);
	struct ucred peer = {.pid = 0};
	socklen_t len = sizeof(peer);
	int err;

	if (fd < 0)
		return fd;
	getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len);
	*pid = peer.pid;
	err = send_line(fd, request);
	if (!err)
		err = receive_line(fd, ANSWER_MAX, deadline, answer);
	if (err) {
		json_decref(*answer);
		*answer = NULL;
		return err == -EPIPE ? -ECONNRESET : err;
	}
	if (keep)
		*keep = take_fd(&fd);
	return 0;
}

int control_request(const struct mount_entry *m, json_t *request, int limit_ms, json_t **answer,
		    int *pid, int *keep, struct error *e)
{
	uint64_t deadline = clock_mono_ns() + (uint64_t)limit_ms * NSEC_PER_MSEC;
	int peer = 0, err;

	*answer = NULL;
	/*
	 * The daemon also hangs up on a slow request. The next connection tells whether it lives.
	 */
	while ((err = exchange(m, request, deadline, answer, &peer, keep)) == -ECONNRESET &&
	       clock_mono_ns() < deadline)
		poll(NULL, 0, AGAIN_MS);
	json_decref(request);
	if (pid)
		*pid = peer;
	if (err)
		return no_answer(m, err == -ECONNRESET ? -ETIMEDOUT : err, peer, e);
	if (json_object_get(*answer, "error")) {
		e->err = errno_of(json_get_text(*answer, "error", ""));
		snprintf(e->text, sizeof(e->text), "%s", json_get_text(*answer, "message", ""));
		json_decref(*answer);
		*answer = NULL;
		if (keep) {
			close(*keep);
			*keep = -1;
		}
		return -e->err;
	}
	return 0;
}
