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
	uint64_t until; /* monotonic; the process may change its groups */
};

static struct lock memory_lock = LOCK_INIT(LOCK_CREDS);
static struct remembered memory[REMEMBERED]; /* memory_lock */

static bool can_switch;	 /* const after creds_init */
static uid_t daemon_uid; /* const after creds_init */
static gid_t daemon_gid; /* const after creds_init */

/* A cache: it saves calls that would be refused, and changes no result. */
static __thread struct caller grouped;	/* the last user that needed groups in this thread */
static __thread uint64_t grouped_until; /* monotonic: until then that user starts with groups */

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
		/* setfsuid only reports the previous value: set, read back, restore. */
		setfsuid(65534);
		can_switch = setfsuid((uid_t)-1) == 65534;
		setfsuid(daemon_uid);
	}
	drop_sys_resource();
	return can_switch;
}

static bool same_caller(const struct caller *a, const struct caller *b)
{
	return a->uid == b->uid && a->gid == b->gid && a->pid == b->pid;
}

/*
 * True if this thread just needed groups for @c. A process usually makes many calls in a row, so
 * only its first call is refused before the thread has the groups.
 */
static bool needed_groups(const struct caller *c)
{
	return grouped_until && same_caller(c, &grouped) && clock_mono_ns() < grouped_until;
}

/* Parses a "Groups:" line into @groups. Returns the number of groups, at most @max. */
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
 * Reads the groups of @c from /proc. The file must name the ids that the kernel gave us, so that a
 * pid that another process reuses lends no group. /proc/PID/status takes none of the locks that
 * block on a process inside execve or mmap (those of stat and environ do).
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

/* The groups that the system gives the user. Returns their number. */
static ssize_t groups_of_user(uid_t uid, gid_t *groups)
{
	char buf[4096];
	struct passwd pw, *found;
	int nr = MAX_GROUPS;

	if (getpwuid_r(uid, &pw, buf, sizeof(buf), &found) || !found)
		return 0;
	return getgrouplist(pw.pw_name, pw.pw_gid, groups, &nr) < 0 ? 0 : nr;
}

/* Returns the number of groups; -1: the process has ended. */
static ssize_t read_groups_of(const struct caller *c, gid_t *groups)
{
	return c->pid == NO_PROCESS ? groups_of_user(c->uid, groups)
				    : read_groups(c, groups, MAX_GROUPS);
}

/* Sets the remembered groups. 1: set; 0: there are none; -1: they must be read first. */
static int set_remembered(const struct caller *c, bool old_too)
{
	const struct remembered *m = place_of(c);
	LOCK_SCOPE(&memory_lock);

	if (!same_caller(&m->whose, c) || (!old_too && clock_mono_ns() >= m->until))
		return -1;
	return m->nr && !syscall(SYS_setgroups, m->nr, m->groups);
}

/*
 * True if this thread, which is the daemon, now has the groups of @c. Called only after a call was
 * refused without groups: the kernel has checked the caller's permission already, most files belong
 * to their user, and reading /proc costs more than most operations.
 */
static bool set_groups(const struct caller *c)
{
	__cleanup_free gid_t *groups = NULL;
	int set = set_remembered(c, false);
	ssize_t nr;

	if (set >= 0)
		return set;
	groups = calloc(MAX_GROUPS, sizeof(*groups));
	nr = groups ? read_groups_of(c, groups) : -1;
	if (nr < 0) /* work on the files of a process goes on after it has ended */
		return set_remembered(c, true) > 0;
	remember(c, groups, (size_t)nr);
	return nr && !syscall(SYS_setgroups, (size_t)nr, groups);
}

/* --- one call --- */

enum step { AS_DAEMON, AS_USER, WITH_GROUPS, NO_MORE };

/* The order in which a call is tried as different users. */
static const enum step orders[][4] = {
	[WHO_DAEMON] = {AS_DAEMON, AS_USER, WITH_GROUPS, NO_MORE},
	[WHO_CALLER] = {AS_USER, WITH_GROUPS, NO_MORE},
	[WHO_OWNER] = {AS_USER, WITH_GROUPS, AS_DAEMON, NO_MORE},
};

static enum step step_of(const struct acting *a)
{
	return orders[a->who->kind][a->step];
}

/* Changes ids. Skips equal ones: a switch costs more than many a call on the backing. */
static void switch_ids(uid_t uid_from, gid_t gid_from, uid_t uid, gid_t gid)
{
	if (gid != gid_from)
		syscall(SYS_setfsgid, gid);
	if (uid != uid_from)
		syscall(SYS_setfsuid, uid);
}

static void be_daemon(struct acting *a)
{
	const struct caller *user = &a->who->user;

	if (step_of(a) != AS_DAEMON)
		switch_ids(user->uid, user->gid, daemon_uid, daemon_gid);
	if (a->has_groups)
		syscall(SYS_setgroups, 0, NULL);
	a->has_groups = false;
}

static void be_user(const struct caller *user)
{
	switch_ids(daemon_uid, daemon_gid, user->uid, user->gid);
}

/* True if the thread has the groups of @user now. */
static bool add_groups(struct acting *a, const struct caller *user)
{
	if (!user->pid || user->uid == daemon_uid)
		return false;
	a->has_groups = set_groups(user);
	if (!a->has_groups)
		return false;
	grouped = *user;
	grouped_until = clock_mono_ns() + GROUPS_KEPT_NS;
	return true;
}

/* Starts step a->step from the daemon's ids. Returns false if the step would change nothing. */
static bool begin_step(struct acting *a)
{
	const struct caller *user = &a->who->user;
	bool others = user->uid != daemon_uid;

	switch (step_of(a)) {
	case AS_DAEMON:
		return !a->step || others;
	case AS_USER:
		if (a->step && !others)
			return false;
		if ((a->who->groups || needed_groups(user)) && add_groups(a, user))
			a->step++;
		be_user(user);
		return true;
	case WITH_GROUPS:
		if (!add_groups(a, user))
			return false;
		be_user(user);
		return true;
	case NO_MORE:
		break;
	}
	return false;
}

static bool is_nobody(const struct caller *c)
{
	return c->uid == (uid_t)-1 || c->gid == (gid_t)-1;
}

void acting_begin(struct acting *a, const struct who *who)
{
	static const struct who daemon = {.kind = WHO_DAEMON};

	/* A request that no process made belongs to nobody: the daemon serves it. */
	*a = (struct acting){.who = is_nobody(&who->user) ? &daemon : who};
	if (can_switch)
		begin_step(a);
}

bool acting_again(struct acting *a, long result)
{
	bool refused = result == -EACCES || result == -EPERM;

	if (!can_switch)
		return false;
	be_daemon(a);
	while (refused && step_of(a) != NO_MORE) {
		a->step++;
		if (begin_step(a))
			return true;
	}
	return false;
}

/* All threads share the umask of the process until a thread asks for its own. */
static bool has_own_umask(void)
{
	static __thread bool tried, own;

	if (!tried)
		own = !unshare(CLONE_FS);
	tried = true;
	return own;
}

mode_t creds_mask(const struct who *who, mode_t mode, mode_t *before)
{
	*before = (mode_t)-1;
	if (!has_own_umask())
		return mode & ~who->umask;
	*before = umask(who->umask);
	return mode;
}

void creds_unmask(mode_t before)
{
	if (before != (mode_t)-1)
		umask(before);
}
