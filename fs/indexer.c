/* SPDX-License-Identifier: MIT */
#include "fs/indexer.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/base/json.h"
#include "engine/base/lock.h"
#include "engine/base/log.h"
#include "engine/base/message.h"
#include "engine/engine.h"
#include "engine/metrics/failures.h"
#include "engine/save/checkpoint.h"
#include "engine/tensors/stored.h"

#define ANSWER_MAX 8192

/* What such a process is given. */
struct task {
	int dir, answer; /* answer: the writing end of a pipe */
	int out;	 /* for the index; -1: it is kept */
	uid_t uid;
	gid_t gid;
};

/* Starts the process. -errno. */
static int spawn(const struct task *t, pid_t *pid)
{
	char uid[16], gid[16], show[] = "show", name[] = INDEX_PROCESS;
	char *argv[] = {name, uid, gid, t->out >= 0 ? show : NULL, NULL};
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t none;
	int err;

	snprintf(uid, sizeof(uid), "%u", (unsigned)t->uid);
	snprintf(gid, sizeof(gid), "%u", (unsigned)t->gid);
	sigemptyset(&none);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, t->answer, 1);
	posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, t->dir, INDEX_DIR_FD);
	if (t->out >= 0)
		posix_spawn_file_actions_adddup2(&actions, t->out, INDEX_OUT_FD);
	err = posix_spawn(pid, "/proc/self/exe", &actions, &attr, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attr);
	return -err;
}

/* Reads the answer to its end. The process ends soon: it has a deadline. */
static void read_answer(int fd, char *answer, size_t size)
{
	size_t len = 0;
	ssize_t n;

	while (len + 1 < size && (n = read(fd, answer + len, size - len - 1)) > 0)
		len += (size_t)n;
	answer[len] = '\0';
}

/* Its process id stays its own until it is waited for. */
static void reap(struct indexer *x)
{
	siginfo_t info;
	pid_t child;

	while (waitid(P_PID, (id_t)x->child, &info, WEXITED | WNOWAIT) && errno == EINTR)
		;
	LOCK_SCOPE(&x->lock);
	child = x->child;
	x->child = 0;
	waitpid(child, NULL, 0);
}

static void tell(struct indexer *x, const struct committed *c, const char *answer)
{
	json_t *o = json_loads(answer, 0, NULL);
	json_int_t nr = json_get_int(o, "tensors", -1), missing = json_get_int(o, "missing", 0);
	const char *slash = strrchr(c->path, '/');
	char text[MESSAGE_MAX], dir[PATH_MAX] = ".";

	if (slash)
		snprintf(dir, sizeof(dir), "%.*s", (int)(slash - c->path), c->path);
	if (nr < 0)
		log_debug("'%s' has no index: %s", c->path,
			  json_get_text(o, "error", "its reader was ended"));
	else
		log_debug("'%s' has %lld tensors, %lld parts are missing", c->path, (long long)nr,
			  (long long)missing);
	if (missing > 0) {
		MESSAGE(text, TENSORS_MISSING, c->path, json_get_text(o, "first", ""),
			(long long)missing);
		failures_notice(x->engine->notices, c->owner.uid, "tensors", dir, text);
	}
	json_decref(o);
}

/* Starts the process for @c, unless the thread is to end. */
static int spawn_for(struct indexer *x, const struct committed *c, int answer)
{
	struct task t = {.dir = c->fd,
			 .answer = answer,
			 .out = -1,
			 .uid = c->owner.uid,
			 .gid = c->owner.gid};
	int err;
	LOCK_SCOPE(&x->lock);

	err = x->ending ? -ECANCELED : spawn(&t, &x->child);
	if (err)
		x->child = 0;
	return err;
}

static int index_one(struct indexer *x, const struct committed *c)
{
	char answer[ANSWER_MAX];
	int fds[2], err;

	if (pipe2(fds, O_CLOEXEC))
		return -errno;
	err = spawn_for(x, c, fds[1]);
	close(fds[1]);
	if (!err) {
		read_answer(fds[0], answer, sizeof(answer));
		close(fds[0]); /* it cannot wait for a reader any more */
		reap(x);
		tell(x, c, answer);
		return 0;
	}
	close(fds[0]);
	return err;
}

/* What the answer says: 0 or -errno. */
static int error_of(const char *answer)
{
	json_t *o = json_loads(answer, 0, NULL);
	int err = o ? -(int)json_get_int(o, "errno", json_object_get(o, "tensors") ? 0 : EIO)
		    : -ETIMEDOUT; /* it was ended */

	json_decref(o);
	return err;
}

/* Fills *@out from the file @fd, which the process has written. */
static int parse(int fd, struct index **out, size_t *bytes)
{
	off_t size = lseek(fd, 0, SEEK_END);
	FILE *in = lseek(fd, 0, SEEK_SET) ? NULL : fdopen(dup(fd), "r");
	int err = size > INDEX_TEXT_MAX ? -EFBIG : in ? index_create(out) : -ENOMEM;

	*bytes = (size_t)size;
	if (!err)
		err = index_parse(*out, in);
	if (in)
		fclose(in);
	return err == -EBADMSG ? -EIO : err;
}

int indexer_read(int dir, uid_t uid, gid_t gid, struct index **out, size_t *bytes)
{
	__cleanup_fd int text = memfd_create("ckptfs-index", MFD_CLOEXEC);
	struct task t = {.dir = dir, .out = text, .uid = uid, .gid = gid};
	char answer[ANSWER_MAX];
	int fds[2], err;
	pid_t pid;

	*out = NULL;
	if (text < 0 || pipe2(fds, O_CLOEXEC))
		return -errno;
	t.answer = fds[1];
	err = spawn(&t, &pid);
	close(fds[1]);
	if (!err) {
		read_answer(fds[0], answer, sizeof(answer));
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
		err = error_of(answer);
	}
	close(fds[0]);
	if (!err)
		err = parse(text, out, bytes);
	if (err) {
		index_destroy(*out);
		*out = NULL;
	}
	return err;
}

static void *indexer_main(void *arg)
{
	struct indexer *x = arg;
	struct committed *c;

	while (!committed_take(x->engine->units, &c)) {
		int err = index_one(x, c);

		if (err && err != -ECANCELED)
			log_warn("'%s' has no index: its reader cannot be started: %s", c->path,
				 strerror(-err));
		committed_free(c);
	}
	return NULL;
}

int indexer_start(struct indexer *x, struct engine *en)
{
	x->engine = en;
	lock_init(&x->lock, LOCK_INDEXER);
	return en->units ? worker_start(&x->worker, "ckptfs-indexer", indexer_main, x) : 0;
}

void indexer_stop(struct indexer *x)
{
	if (!x->worker.runs)
		return;
	committed_stop(x->engine->units);
	{
		LOCK_SCOPE(&x->lock);
		x->ending = true;
		if (x->child)
			kill(x->child, SIGKILL);
	}
	worker_join(&x->worker);
	lock_finish(&x->lock);
}
