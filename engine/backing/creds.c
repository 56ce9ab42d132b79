/* SPDX-License-Identifier: MIT */
#include "engine/backing/creds.h"

#include <errno.h>
#include <grp.h>
#include <pthread.h>
#include <pwd.h>
#include <sched.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/lock.h"

#define MAX_GROUPS     65536 /* NGROUPS_MAX of Linux */
#define GROUPS_KEPT_NS NSEC_PER_SEC
#define REMEMBERED     1024

/* The groups that a process had when they were last needed; slot pid % REMEMBERED. */
struct remembered {
	struct caller whose;
	gid_t *groups;
	size_t nr;
	uint64_t until; /* monotonic; the process may change them */
};

static struct lock memory_lock = LOCK_INIT(LOCK_CREDS);
static struct remembered memory[REMEMBERED]; /* memory_lock */

static bool can_switch;	       /* const after creds_init */
static uid_t daemon_uid;       /* const after creds_init */
static gid_t daemon_gid;       /* const after creds_init */
static __thread uid_t now_uid; /* what this thread is; valid once `known` */
static __thread gid_t now_gid;
static __thread pid_t now_pid; /* as whom it acts, if that is not the daemon */
static __thread bool known, has_groups;
static __thread struct caller grouped;	/* who needed groups last */
static __thread uint64_t grouped_until; /* monotonic: until then that one has them from the start */
static __thread struct caller behalf;
static __thread bool for_somebody; /* behalf is set */

static void drop_sys_resource(void)
{
	struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct data[2];

	if (syscall(SYS_capget, &head, data))
		return;
	data[CAP_TO_INDEX(CAP_SYS_RESOURCE)].effective &= ~CAP_TO_MASK(CAP_SYS_RESOURCE);
	data[CAP_TO_INDEX(CAP_SYS_RESOURCE)].permitted &= ~CAP_TO_MASK(CAP_SYS_RESOURCE);
	syscall(SYS_capset, &head, data);
}

bool creds_init(bool wanted)
{
	daemon_uid = geteuid();
	daemon_gid = getegid();
	if (wanted && daemon_uid == 0 && !setgroups(0, NULL)) {
		/* setfsuid reports nothing but the previous value: try, look, go back. */
		setfsuid(65534);
		can_switch = setfsuid((uid_t)-1) == 65534;
		setfsuid(daemon_uid);
	}
	drop_sys_resource();
	return can_switch;
}

static void set_ids(uid_t uid, gid_t gid)
{
	if (!known) {
		/* A new thread starts as whoever its maker was acting for. */
		syscall(SYS_setfsuid, daemon_uid);
		syscall(SYS_setfsgid, daemon_gid);
		syscall(SYS_setgroups, 0, NULL);
		now_uid = daemon_uid;
		now_gid = daemon_gid;
		known = true;
	}
	if (now_gid != gid) {
		syscall(SYS_setfsgid, gid);
		now_gid = gid;
	}
	if (now_uid != uid) {
		syscall(SYS_setfsuid, uid);
		now_uid = uid;
	}
}

static void drop_groups(void)
{
	if (has_groups)
		syscall(SYS_setgroups, 0, NULL);
	has_groups = false;
}

static bool same_caller(const struct caller *a, const struct caller *b)
{
	return a->uid == b->uid && a->gid == b->gid && a->pid == b->pid;
}

/* One process usually makes many calls in a row: the first of them alone is refused before it has its groups. */
static bool needed_groups(const struct caller *c)
{
	return grouped_until && same_caller(c, &grouped) && clock_mono_ns() < grouped_until;
}

/* One process usually makes many calls in a row: keep its groups, but not for ever. */
static bool keep_groups(const struct caller *c)
{
	return has_groups && now_uid == c->uid && now_gid == c->gid && needed_groups(c);
}

void creds_become(const struct caller *c)
{
	if (c->uid == (uid_t)-1 || c->gid == (gid_t)-1) { /* nobody's request */
		creds_restore();
		return;
	}
	if (!can_switch || keep_groups(c))
		return;
	drop_groups();
	set_ids(c->uid, c->gid);
	now_pid = c->pid;
}

void creds_restore(void)
{
	if (!can_switch)
		return;
	drop_groups();
	set_ids(daemon_uid, daemon_gid);
}

void creds_on_behalf(const struct caller *c)
{
	for_somebody = c && c->uid != (uid_t)-1 && c->gid != (gid_t)-1 && c->uid != daemon_uid;
	if (for_somebody)
		behalf = *c;
}

const struct caller *creds_behalf(void)
{
	bool is_daemon = !known || now_uid == daemon_uid;

	return can_switch && for_somebody && is_daemon ? &behalf : NULL;
}

/* Parses a "Groups:" line. Returns how many, at most @max. */
static size_t parse_groups(const char *line, gid_t *groups, size_t max)
{
	size_t nr = 0;
	char *end;

	for (; nr < max; line = end, nr++) {
		groups[nr] = (gid_t)strtoul(line, &end, 10);
		if (end == line)
			break;
	}
	return nr;
}

/*
 * The groups of @c from /proc. The file must name the very ids the kernel gave us, so that a pid
 * used again by somebody else lends no group. /proc/PID/status takes none of the locks that block
 * on a process inside execve or mmap (those of stat and environ do).
 */
static ssize_t read_groups(const struct caller *c, gid_t *groups, size_t max)
{
	char path[64];
	__cleanup_free char *line = NULL;
	bool uid_ok = false, gid_ok = false;
	size_t size = 0;
	__cleanup_file FILE *f = NULL;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)c->pid);
	f = fopen(path, "re");
	while (f && getline(&line, &size, f) > 0) {
		unsigned r, e, s, fs;

		if (sscanf(line, "Uid: %u %u %u %u", &r, &e, &s, &fs) == 4)
			uid_ok = fs == c->uid;
		else if (sscanf(line, "Gid: %u %u %u %u", &r, &e, &s, &fs) == 4)
			gid_ok = fs == c->gid;
		else if (!strncmp(line, "Groups:", 7))
			return uid_ok && gid_ok ? (ssize_t)parse_groups(line + 7, groups, max) : -1;
	}
	return -1;
}

static struct remembered *place_of(const struct caller *c)
{
	return &memory[(unsigned)c->pid % REMEMBERED];
}

static void remember(const struct caller *c, const gid_t *groups, size_t nr)
{
	gid_t *copy = nr ? malloc(nr * sizeof(*copy)) : NULL;
	struct remembered *m = place_of(c);
	LOCK_SCOPE(&memory_lock);

	if (copy)
		memcpy(copy, groups, nr * sizeof(*copy));
	free(m->groups);
	*m = (struct remembered){.whose = *c,
				 .groups = copy,
				 .nr = copy ? nr : 0,
				 .until = clock_mono_ns() + GROUPS_KEPT_NS};
}

/* As the system knows them. How many. */
static ssize_t groups_of_user(uid_t uid, gid_t *groups)
{
	char buf[4096];
	struct passwd pw, *found;
	int nr = MAX_GROUPS;

	if (getpwuid_r(uid, &pw, buf, sizeof(buf), &found) || !found)
		return 0;
	return getgrouplist(pw.pw_name, pw.pw_gid, groups, &nr) < 0 ? 0 : nr;
}

/* How many; -1: the process has ended. */
static ssize_t read_groups_of(const struct caller *c, gid_t *groups)
{
	return c->pid == NO_PROCESS ? groups_of_user(c->uid, groups)
				    : read_groups(c, groups, MAX_GROUPS);
}

/* Gives this thread, which is the daemon, those that are remembered. 1, 0: none, or -1: they have to be read. */
static int set_remembered(const struct caller *c, bool old_too)
{
	const struct remembered *m = place_of(c);
	LOCK_SCOPE(&memory_lock);

	if (!same_caller(&m->whose, c) || (!old_too && clock_mono_ns() >= m->until))
		return -1;
	return m->nr && !syscall(SYS_setgroups, m->nr, m->groups);
}

/* Gives this thread, which is the daemon, the groups of @c. False: there are none. */
static bool set_groups(const struct caller *c)
{
	__cleanup_free gid_t *groups = NULL;
	int set = set_remembered(c, false);
	ssize_t nr;

	if (set >= 0)
		return set;
	groups = calloc(MAX_GROUPS, sizeof(*groups));
	nr = groups ? read_groups_of(c, groups) : -1;
	if (nr < 0) /* what it made is worked on when it has ended, too */
		return set_remembered(c, true) > 0;
	remember(c, groups, (size_t)nr);
	return nr && !syscall(SYS_setgroups, (size_t)nr, groups);
}

/* This thread becomes @c with its groups. False: it has none, and the thread is the daemon. */
static bool become_with_groups(const struct caller *c)
{
	if (!c->pid || c->uid == daemon_uid)
		return false;
	/* As the daemon: /proc/PID of another user's process, and CAP_SETGID. */
	drop_groups();
	set_ids(daemon_uid, daemon_gid);
	if (!set_groups(c))
		return false;
	has_groups = true;
	grouped = *c;
	grouped_until = clock_mono_ns() + GROUPS_KEPT_NS;
	set_ids(c->uid, c->gid);
	return true;
}

static bool add_groups(const struct caller *c)
{
	bool added = can_switch && !has_groups && become_with_groups(c);

	if (can_switch && !added)
		set_ids(c->uid, c->gid);
	return added;
}

bool creds_add_groups(const struct caller *c)
{
	return add_groups(c);
}

bool creds_add_last_groups(const struct caller *c)
{
	return add_groups(c);
}

bool creds_add_behalf_groups(void)
{
	bool is_behalf = known && for_somebody && now_uid == behalf.uid && now_gid == behalf.gid &&
			 now_pid == behalf.pid;

	return is_behalf && creds_add_last_groups(&behalf);
}

/* --- one call --- */

enum step { AS_DAEMON, AS_USER, WITH_GROUPS, NO_MORE };

/* As whom a call is tried, in turn. */
static const enum step orders[][4] = {
	[WHO_DAEMON] = {AS_DAEMON, AS_USER, WITH_GROUPS, NO_MORE},
	[WHO_CALLER] = {AS_USER, WITH_GROUPS, NO_MORE},
	[WHO_OWNER] = {AS_USER, WITH_GROUPS, AS_DAEMON, NO_MORE},
};

static void leave(const struct acting *a)
{
	drop_groups();
	if (a->was) {
		set_ids(a->before.uid, a->before.gid);
		now_pid = a->before.pid;
	} else {
		set_ids(daemon_uid, daemon_gid);
	}
}

/* True if the thread is whom @step says; false: there is no such one, or it is no other than the one before. */
static bool take(struct acting *a, enum step step)
{
	const struct caller *user = &a->who->user;

	if (step == WITH_GROUPS)
		return become_with_groups(user);
	drop_groups();
	if (step == AS_DAEMON) {
		set_ids(daemon_uid, daemon_gid);
		return true;
	}
	if (a->who->kind == WHO_DAEMON && user->uid == daemon_uid)
		return false;
	if ((a->who->groups || needed_groups(user)) && become_with_groups(user)) {
		a->step++;
		return true;
	}
	set_ids(user->uid, user->gid);
	return true;
}

static bool is_nobody(const struct caller *c)
{
	return c->uid == (uid_t)-1 || c->gid == (gid_t)-1;
}

void acting_begin(struct acting *a, const struct who *w)
{
	static const struct who daemon = {.kind = WHO_DAEMON};

	a->who = is_nobody(&w->user) ? &daemon : w;
	a->step = 0;
	a->was = known && now_uid != daemon_uid;
	a->before = (struct caller){now_uid, now_gid, now_pid};
	if (can_switch)
		take(a, orders[a->who->kind][0]);
}

bool acting_again(struct acting *a, long result)
{
	bool refused = result == -EACCES || result == -EPERM;
	enum step step = AS_DAEMON;

	if (!can_switch)
		return false;
	while (refused && (step = orders[a->who->kind][++a->step]) != NO_MORE)
		if (take(a, step))
			return true;
	leave(a);
	return false;
}

/* A umask is the process's until a thread asks for its own. */
static bool has_own_umask(void)
{
	static __thread bool tried, own;

	if (!tried)
		own = !unshare(CLONE_FS);
	tried = true;
	return own;
}

mode_t creds_mask(const struct who *w, mode_t mode, mode_t *before)
{
	*before = (mode_t)-1;
	if (!w->stated)
		return mode;
	if (!has_own_umask())
		return mode & ~w->umask;
	*before = umask(w->umask);
	return mode;
}

void creds_unmask(mode_t before)
{
	if (before != (mode_t)-1)
		umask(before);
}

mode_t creds_umask(mode_t mode, mode_t mask)
{
	if (!has_own_umask())
		return mode & ~mask;
	umask(mask);
	return mode;
}
