// SPDX-License-Identifier: MIT
/* Verbs between processes and memory: locks, mmap, sockets, exec, limits. */
#include "posixcmp.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- locks ---- */

static const struct flag lock_types[] = {
	{"RD", F_RDLCK},
	{"WR", F_WRLCK},
	{"UN", F_UNLCK},
	{NULL, 0},
};

static void v_flock(struct ctx *c, char **w)
{
	static const struct flag ops[] = {
		{"SH", LOCK_SH},
		{"EX", LOCK_EX},
		{"UN", LOCK_UN},
		{NULL, 0},
	};

	say_ret(c, flock(arg_fd(c, w[0]), arg_flags(c, ops, w[1]) | LOCK_NB));
}

static struct flock arg_lock(struct ctx *c, char **w)
{
	struct flock fl = {
		.l_type = arg_flags(c, lock_types, w[1]),
		.l_whence = SEEK_SET,
		.l_start = arg_num(c, w[2]),
		.l_len = arg_num(c, w[3]),
	};

	return fl;
}

static void v_lock(struct ctx *c, char **w)
{
	struct flock fl = arg_lock(c, w);

	say_ret(c, fcntl(arg_fd(c, w[0]), F_SETLK, &fl));
}

static void v_ofdlock(struct ctx *c, char **w)
{
	struct flock fl = arg_lock(c, w);

	say_ret(c, fcntl(arg_fd(c, w[0]), F_OFD_SETLK, &fl));
}

static void getlock(struct ctx *c, char **w, int cmd)
{
	struct flock fl = arg_lock(c, w);
	const struct flag *t = lock_types;

	if (fcntl(arg_fd(c, w[0]), cmd, &fl)) {
		say_ret(c, -1);
		return;
	}
	while (t->name && t->value != (unsigned long)fl.l_type)
		t++;
	say(c, "%s", t->name ? t->name : "?");
	if (fl.l_type != F_UNLCK)
		say(c, " from %ld len %ld, pid %s", (long)fl.l_start, (long)fl.l_len,
		    fl.l_pid == -1			 ? "-1"
		    : fl.l_pid > 0 && !kill(fl.l_pid, 0) ? "of a process"
							 : "of nobody");
}

static void v_getlock(struct ctx *c, char **w)
{
	getlock(c, w, F_GETLK);
}

static void v_ofdgetlock(struct ctx *c, char **w)
{
	getlock(c, w, F_OFD_GETLK);
}

/* ---- mmap ---- */

static sigjmp_buf fault_jmp;
static volatile sig_atomic_t fault_sig;

static void on_fault(int sig)
{
	fault_sig = sig;
	siglongjmp(fault_jmp, 1);
}

static void faults_catch(void (*handler)(int))
{
	signal(SIGBUS, handler);
	signal(SIGSEGV, handler);
}

/* Copies from or to memory that may not be there. */
static bool copy_guarded(struct ctx *c, void *dst, const void *src, size_t n)
{
	volatile unsigned char *d = dst;
	const volatile unsigned char *s = src;
	size_t i;

	if (sigsetjmp(fault_jmp, 1)) {
		faults_catch(SIG_DFL);
		c->failed = true;
		say(c, fault_sig == SIGBUS ? "SIGBUS" : "SIGSEGV");
		return false;
	}
	faults_catch(on_fault);
	for (i = 0; i < n; i++)
		d[i] = s[i];
	faults_catch(SIG_DFL);
	return true;
}

static void v_mmap(struct ctx *c, char **w)
{
	static const struct flag prots[] = {
		{"R", PROT_READ},    {"W", PROT_WRITE}, {"X", PROT_EXEC},
		{"NONE", PROT_NONE}, {NULL, 0},
	};
	static const struct flag kinds[] = {
		{"SHARED", MAP_SHARED},
		{"PRIVATE", MAP_PRIVATE},
		{"VALIDATE", MAP_SHARED_VALIDATE},
		{"SYNC", MAP_SYNC},
		{NULL, 0},
	};
	struct mapping *m = &c->map[arg_slot(c, w[0])];
	void *p;

	m->len = arg_num(c, w[2]);
	p = mmap(NULL, m->len, arg_flags(c, prots, w[3]), arg_flags(c, kinds, w[4]),
		 arg_fd(c, w[1]), w[5] ? arg_num(c, w[5]) : 0);
	m->addr = p == MAP_FAILED ? NULL : p;
	if (m->addr)
		say(c, "ok");
	else
		say_ret(c, -1);
}

static char *arg_map(struct ctx *c, const char *w)
{
	char *p = c->map[arg_slot(c, w)].addr;

	if (!p) {
		say(c, "not mapped");
		c->failed = true;
	}
	return p;
}

static void v_peek(struct ctx *c, char **w)
{
	char *p = arg_map(c, w[0]), buf[64];
	size_t n = arg_num(c, w[2]) & 63;

	if (p && copy_guarded(c, buf, p + arg_num(c, w[1]), n))
		say_bytes(c, buf, n);
}

static void v_poke(struct ctx *c, char **w)
{
	char *p = arg_map(c, w[0]);

	if (p && copy_guarded(c, p + arg_num(c, w[1]), w[2], strlen(w[2])))
		say(c, "ok");
}

static void v_msync(struct ctx *c, char **w)
{
	struct mapping *m = &c->map[arg_slot(c, w[0])];

	say_ret(c, msync(m->addr, m->len, MS_SYNC));
}

static void v_munmap(struct ctx *c, char **w)
{
	struct mapping *m = &c->map[arg_slot(c, w[0])];

	say_ret(c, munmap(m->addr, m->len));
	m->addr = NULL;
}

static void v_mprotect(struct ctx *c, char **w)
{
	struct mapping *m = &c->map[arg_slot(c, w[0])];

	say_ret(c, mprotect(m->addr, m->len, PROT_READ | PROT_WRITE));
}

/* ---- sockets ---- */

static struct sockaddr_un arg_addr(struct ctx *c, const char *w)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};

	if (strlen(w) >= sizeof(sa.sun_path)) {
		c->bad = true;
		say(c, "[too long for a socket: %s]", w);
	} else {
		strcpy(sa.sun_path, w);
	}
	return sa;
}

static int socket_slot(struct ctx *c, const char *slot)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);

	slot_set(c, arg_slot(c, slot), fd);
	return fd;
}

static void v_listen(struct ctx *c, char **w)
{
	struct sockaddr_un sa = arg_addr(c, w[1]);
	int fd = socket_slot(c, w[0]);
	int ret = bind(fd, (struct sockaddr *)&sa, sizeof(sa));

	say_ret(c, ret ? ret : listen(fd, 5));
}

static void v_connect(struct ctx *c, char **w)
{
	struct sockaddr_un sa = arg_addr(c, w[1]);

	say_ret(c, connect(socket_slot(c, w[0]), (struct sockaddr *)&sa, sizeof(sa)));
}

static void v_accept(struct ctx *c, char **w)
{
	int fd = accept(arg_fd(c, w[1]), NULL, NULL);

	slot_set(c, arg_slot(c, w[0]), fd);
	if (fd < 0)
		say_ret(c, -1);
	else
		say(c, "ok");
}

/* ---- programs and limits ---- */

static int copy_self(int to)
{
	static char buf[65536];
	int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (from < 0)
		return -1;
	while ((n = read(from, buf, sizeof(buf))) > 0)
		if (write(to, buf, n) != n)
			n = -1;
	close(from);
	return n;
}

static void v_program(struct ctx *c, char **w)
{
	int fd = open(w[0], O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
	int ret = fd;

	if (fd >= 0) {
		ret = copy_self(fd);
		if (!ret)
			ret = fchmod(fd, arg_mode(c, w[1]));
		close(fd);
	}
	say_ret(c, ret);
}

static void v_script(struct ctx *c, char **w)
{
	static const char text[] = "#!/bin/sh\nexit 9\n";
	int fd = open(w[0], O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
	ssize_t ret = fd;

	if (fd >= 0) {
		ret = write(fd, text, sizeof(text) - 1);
		if (ret > 0)
			ret = fchmod(fd, arg_mode(c, w[1]));
		close(fd);
	}
	say_ret(c, ret);
}

/* Runs it with @arg; the pipe tells an error of exec from an exit code. */
static int spawn(const char *path, const char *arg, pid_t *pid)
{
	int p[2], err = 0;

	if (pipe2(p, O_CLOEXEC))
		return -1;
	*pid = fork();
	if (*pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(STDERR_FILENO); /* a shell may complain */
		execl(path, path, arg, (char *)NULL);
		err = errno;
		if (write(p[1], &err, sizeof(err)) < 0)
			_exit(126);
		_exit(125);
	}
	close(p[1]);
	if (read(p[0], &err, sizeof(err)) <= 0)
		err = 0;
	close(p[0]);
	if (err)
		waitpid(*pid, NULL, 0);
	errno = err;
	return err ? -1 : 0;
}

static void v_exec(struct ctx *c, char **w)
{
	int status;
	pid_t pid;

	if (spawn(w[0], "--exit-7", &pid)) {
		say_ret(c, -1);
		return;
	}
	waitpid(pid, &status, 0);
	if (WIFEXITED(status))
		say(c, "ran, exit code %d", WEXITSTATUS(status));
	else
		say(c, "ran, killed by %d", WTERMSIG(status));
}

/* Starts it and leaves it running; it ends with its actor. */
static void v_start(struct ctx *c, char **w)
{
	pid_t pid;

	say_ret(c, spawn(w[0], "--wait", &pid));
}

static void v_fsize(struct ctx *c, char **w)
{
	struct rlimit rl;

	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &rl);
	rl.rlim_cur = arg_num(c, w[0]);
	say_ret(c, setrlimit(RLIMIT_FSIZE, &rl));
}

const struct verb proc_verbs[] = {
	{"flock", "SLOT SH|EX|UN", "never waits", v_flock},
	{"lock", "SLOT RD|WR|UN START LEN", "POSIX lock", v_lock},
	{"getlock", "SLOT RD|WR START LEN", "who would be in the way", v_getlock},
	{"ofdlock", "SLOT RD|WR|UN START LEN", "lock of an open file", v_ofdlock},
	{"ofdgetlock", "SLOT RD|WR START LEN", "", v_ofdgetlock},
	{"mmap", "MAP SLOT LEN PROT KIND [OFFSET]",
	 "R|W|X, SHARED PRIVATE; maps have slots of their own", v_mmap},
	{"peek", "MAP OFFSET LEN", "read memory, LEN below 64", v_peek},
	{"poke", "MAP OFFSET TEXT", "write memory", v_poke},
	{"msync", "MAP", "", v_msync},
	{"mprotect", "MAP", "make it writable", v_mprotect},
	{"munmap", "MAP", "", v_munmap},
	{"listen", "SLOT PATH", "bind a socket to it", v_listen},
	{"connect", "SLOT PATH", "", v_connect},
	{"accept", "SLOT LISTENER", "", v_accept},
	{"program", "PATH MODE", "a program that gives 7", v_program},
	{"script", "PATH MODE", "a #! script that gives 9", v_script},
	{"exec", "PATH", "run it", v_exec},
	{"start", "PATH", "run it in the background", v_start},
	{"fsize", "BYTES", "RLIMIT_FSIZE, SIGXFSZ ignored", v_fsize},
	{NULL, NULL, NULL, NULL},
};
