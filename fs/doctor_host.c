/* SPDX-License-Identifier: MIT */
/* doctor: checks the kernel, its limits, and what this process may do. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "engine/backing/backing.h"
#include "engine/base/cleanup.h"
#include "engine/base/json.h"
#include "engine/base/message.h"
#include "engine/cache/cache.h"
#include "engine/liveness/writer.h"
#include "fs/doctor.h"
#include "fs/requests.h"
#include "fs/show.h"

#define SHARED_HUGE_PAGES "/sys/kernel/mm/transparent_hugepage/shmem_enabled"

void doctor_say(struct doctor *d, const char *name, enum verdict verdict, const char *remedy,
		const char *format, ...)
{
	static const char *const words[] = {"ok", "warn", "fail"};
	char found[MESSAGE_MAX];
	va_list ap;

	va_start(ap, format);
	vsnprintf(found, sizeof(found), format, ap);
	va_end(ap);
	if (verdict == CHECK_FAIL)
		d->failed = true;
	if (d->checks) {
		json_array_append_new(d->checks, json_pack("{s:s, s:s, s:o, s:s?}", "name", name,
							   "result", words[verdict], "found",
							   json_text(found), "remedy", remedy));
		return;
	}
	printf("%-14s %-4s  %s\n", name, words[verdict], found);
	if (remedy)
		printf("%-14s %-4s  -> %s\n", "", "", remedy);
	fflush(stdout);
}

/* The number at the beginning of the file @path, or -1. */
static long long read_number(const char *path)
{
	__cleanup_file FILE *f = fopen(path, "re");
	long long n;

	return f && fscanf(f, "%lld", &n) == 1 ? n : -1;
}

static bool may(unsigned capability)
{
	struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct data[2];

	return !syscall(SYS_capget, &head, data) &&
	       data[CAP_TO_INDEX(capability)].effective & CAP_TO_MASK(capability);
}

/* --- kernel and FUSE --- */

static void check_kernel(struct doctor *d)
{
	static const struct {
		int major, minor;
		const char *what;
	} since[] = {
		{6, 6, "shared mappings of files open for writing (6.6)"},
		{6, 9, "passthrough of reads (6.9)"},
		{6, 15, "exit statuses by pidfd (6.15)"},
	};
	char text[512] = "";
	struct utsname u;
	int major = 0, minor = 0, pass;
	bool lacks = false;
	size_t i, len = 0;

	uname(&u);
	sscanf(u.release, "%d.%d", &major, &minor);
	if (major < 5 || (major == 5 && minor < 14)) {
		doctor_say(d, "kernel", CHECK_FAIL, "run Linux 5.14 or later",
			   "Linux %s is too old", u.release);
		return;
	}
	for (pass = 1; pass >= 0; pass--) { /* what it has, then what it lacks */
		const char *before = pass ? "with " : "without ";

		for (i = 0; i < ARRAY_SIZE(since); i++) {
			bool has = major > since[i].major ||
				   (major == since[i].major && minor >= since[i].minor);

			if (has != pass)
				continue;
			len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s",
						len ? ", " : "", before);
			len += (size_t)snprintf(text + len, sizeof(text) - len, "%s",
						since[i].what);
			before = "";
			lacks |= !has;
		}
	}
	doctor_say(d, "kernel", lacks ? CHECK_WARN : CHECK_OK,
		   lacks ? "it works without these; a later kernel has them" : NULL, "Linux %s, %s",
		   u.release, text);
}

static void check_device(struct doctor *d)
{
	__cleanup_fd int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	const char *remedy = "let this user open it (chmod 666 /dev/fuse is usual), or mount as "
			     "root";

	if (fd >= 0) {
		doctor_say(d, "/dev/fuse", CHECK_OK, NULL, "can be opened");
		return;
	}
	if (errno == ENOENT || errno == ENODEV || errno == ENXIO)
		remedy = "modprobe fuse; in a container, pass the device in (docker run "
			 "--device /dev/fuse)";
	doctor_say(d, "/dev/fuse", CHECK_FAIL, remedy, "cannot be opened: %s", strerror(errno));
}

static bool find_program(const char *name, char *path, size_t size, struct stat *st)
{
	const char *given = getenv("PATH");
	__cleanup_free char *list = strdup(given && *given ? given : "/usr/bin:/bin");
	char *rest = list, *dir;

	while (list && (dir = strsep(&rest, ":"))) {
		snprintf(path, size, "%s/%s", *dir ? dir : ".", name);
		if (!stat(path, st) && S_ISREG(st->st_mode) && st->st_mode & 0111)
			return true;
	}
	return false;
}

static void check_fusermount(struct doctor *d)
{
	char path[PATH_MAX];
	struct stat st;

	if (geteuid() == 0) {
		doctor_say(d, "fusermount3", CHECK_OK, NULL, "not needed by root");
		return;
	}
	if (!find_program("fusermount3", path, sizeof(path), &st))
		doctor_say(d, "fusermount3", CHECK_FAIL, "install it (package fuse3)",
			   "is not in PATH, and an ordinary user cannot mount without it");
	else if (st.st_uid || !(st.st_mode & S_ISUID))
		doctor_say(d, "fusermount3", CHECK_FAIL,
			   "as root: chown root and chmod 4755, or install package fuse3 anew",
			   "%s is not set-user-ID root, so it may not mount", path);
	else if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1)
		doctor_say(d, "fusermount3", CHECK_FAIL,
			   "mount outside of this session or container, or without its "
			   "no_new_privs",
			   "%s cannot become root: this process may not gain privileges "
			   "(no_new_privs)",
			   path);
	else
		doctor_say(d, "fusermount3", CHECK_OK, NULL, "%s, set-user-ID root", path);
}

/* Checks the time-out, in seconds, that the kernel gives a mount which asks for none. */
static void check_timeouts(struct doctor *d)
{
	long long by_default = read_number("/proc/sys/fs/fuse/default_request_timeout");
	long long most = read_number("/proc/sys/fs/fuse/max_request_timeout");
	long long s = by_default > 0 ? by_default : most;

	if (most > 0 && s > most)
		s = most;
	if (s > 0)
		doctor_say(d, "fuse timeouts", CHECK_WARN,
			   "sysctl -w fs.fuse.default_request_timeout=0 "
			   "fs.fuse.max_request_timeout=0; ckptfs bounds waits by itself",
			   "the kernel cuts off a mount in which one call takes longer than %lld s "
			   "(default_request_timeout %lld, max_request_timeout %lld): a slow "
			   "backing is enough",
			   s, by_default > 0 ? by_default : 0, most > 0 ? most : 0);
	else
		doctor_say(d, "fuse timeouts", CHECK_OK, NULL,
			   "none, the kernel lets a mount wait for its backing");
}

/* Checks how much of a program's write the kernel sends to the daemon at once. */
static void check_requests(struct doctor *d)
{
	const long long most = WRITE_MAX_BYTES / 4096;
	long long pages = read_number(REQUEST_PAGES_LIMIT);
	char text[SHOW_MAX];

	if (pages >= most)
		doctor_say(d, "fuse requests", CHECK_OK, NULL, "have up to %s of a write",
			   show_size(text, WRITE_MAX_BYTES));
	else if (pages < 0)
		doctor_say(d, "fuse requests", CHECK_WARN, "Linux 6.13 or later",
			   "have up to 1 MiB of a write; saves take less time with more");
	else
		doctor_say(d, "fuse requests", CHECK_WARN,
			   "sysctl -w fs.fuse.max_pages_limit=1024, then mount; a file in "
			   "/etc/sysctl.d keeps it",
			   "have up to %s of a write (fs.fuse.max_pages_limit is %lld); saves by "
			   "unmodified programs take less time with 1024",
			   show_size(text, (double)pages * 4096), pages);
}

/* --- memory --- */

/*
 * The limit of this process's group in the memory controller of cgroup v1, which the default of
 * host_cache_size ignores. 0: none.
 */
static uint64_t limit_v1(char *path, size_t size)
{
	__cleanup_file FILE *f = fopen("/proc/self/cgroup", "re");
	char line[PATH_MAX], *group, *rest;
	long long n;

	while (f && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = '\0';
		rest = strchr(line, ':');
		group = rest ? strchr(rest + 1, ':') : NULL;
		if (!group || strncmp(rest, ":memory:", 8))
			continue;
		snprintf(path, size, "/sys/fs/cgroup/memory%s/memory.limit_in_bytes",
			 strcmp(group + 1, "/") ? group + 1 : "");
		n = read_number(path);
		return n > 0 && n < INT64_MAX / 4096 * 4096 ? (uint64_t)n : 0;
	}
	return 0;
}

static void check_memory(struct doctor *d)
{
	char host_text[SHOW_MAX], free_text[SHOW_MAX], limit_text[SHOW_MAX], cache_text[SHOW_MAX];
	char path_v1[PATH_MAX + 64], limited[PATH_MAX + 128] = "";
	__cleanup_free char *path = NULL;
	uint64_t limit = cache_memory_limit(&path), v1 = limit_v1(path_v1, sizeof(path_v1));
	uint64_t host = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t available = cache_memory_available();
	enum verdict verdict = CHECK_OK;
	const char *remedy = NULL;

	d->cache_bytes = cache_default_size();
	show_size(cache_text, (double)d->cache_bytes);
	if (limit)
		snprintf(limited, sizeof(limited), "; %s allows %s", path,
			 show_size(limit_text, (double)limit));
	if (v1 && v1 < host) {
		snprintf(limited, sizeof(limited),
			 "; %s allows %s, which the default does not consider", path_v1,
			 show_size(limit_text, (double)v1));
		remedy = "set host_cache_size to an eighth of that, or to what one save writes "
			 "here if there is room";
		verdict = CHECK_WARN;
	}
	if (available < d->cache_bytes) {
		remedy = "free memory, or set a smaller host_cache_size";
		verdict = CHECK_WARN;
	}
	doctor_say(d, "memory", verdict, remedy,
		   "%s, of which %s are available%s; host_cache_size is %s unless it is given",
		   show_size(host_text, (double)host), show_size(free_text, (double)available),
		   limited, cache_text);
}

/* Checks what lent memory is made of, which the first lazy save of a process has to fault in. */
static void check_huge_pages(struct doctor *d)
{
	__cleanup_file FILE *f = fopen(SHARED_HUGE_PAGES, "re");
	char line[256] = "", *word, *end;

	word = f && fgets(line, sizeof(line), f) ? strchr(line, '[') : NULL;
	end = word ? strchr(word, ']') : NULL;
	if (!end) {
		doctor_say(d, "huge pages", CHECK_WARN, NULL,
			   "this kernel has none for shared memory");
		return;
	}
	*end = '\0';
	if (!strcmp(word + 1, "never") || !strcmp(word + 1, "deny"))
		doctor_say(d, "huge pages", CHECK_WARN,
			   "echo advise >" SHARED_HUGE_PAGES "; the kernel option "
			   "transparent_hugepage_shmem=advise keeps it (6.13)",
			   "are refused to shared memory (%s); the first lazy save of each process "
			   "takes longer",
			   word + 1);
	else
		doctor_say(d, "huge pages", CHECK_OK, NULL, "shared memory may have them (%s)",
			   word + 1);
}

static void check_memlock(struct doctor *d)
{
	char limit_text[SHOW_MAX], cache_text[SHOW_MAX];
	struct rlimit rl = {0};

	getrlimit(RLIMIT_MEMLOCK, &rl);
	show_size(cache_text, (double)d->cache_bytes);
	if (may(CAP_IPC_LOCK))
		doctor_say(d, "memlock", CHECK_OK, NULL,
			   "not limited: this process may lock any memory (CAP_IPC_LOCK)");
	else if (rl.rlim_cur == RLIM_INFINITY)
		doctor_say(d, "memlock", CHECK_OK, NULL, "not limited");
	else if (rl.rlim_cur >= d->cache_bytes)
		doctor_say(d, "memlock", CHECK_OK, NULL, "%s may be locked, the cache needs %s",
			   show_size(limit_text, (double)rl.rlim_cur), cache_text);
	else
		doctor_say(d, "memlock", CHECK_WARN,
			   "ulimit -l unlimited (memlock in /etc/security/limits.conf, "
			   "LimitMEMLOCK=infinity in a systemd unit), or -o pin_host_cache=false",
			   "%s may be locked, the cache needs %s: it works unlocked, but may be "
			   "swapped out",
			   show_size(limit_text, (double)rl.rlim_cur), cache_text);
}

/* --- what the engine may use --- */

static void check_io_uring(struct doctor *d, const struct features *f)
{
	long long disabled = read_number("/proc/sys/kernel/io_uring_disabled");

	if (f->state[FEATURE_IO_URING] == FEATURE_YES)
		doctor_say(d, "io_uring", CHECK_OK, NULL, "can be used");
	else if (f->state[FEATURE_IO_URING] == FEATURE_TURNED_OFF)
		doctor_say(d, "io_uring", CHECK_WARN, "unset CKPTFS_FEATURES_OFF",
			   "turned off by CKPTFS_FEATURES_OFF; a pool of threads writes instead");
	else if (disabled > 0)
		doctor_say(d, "io_uring", CHECK_WARN, "sysctl -w kernel.io_uring_disabled=0",
			   "forbidden by kernel.io_uring_disabled=%lld; a pool of threads writes "
			   "instead",
			   disabled);
	else
		doctor_say(d, "io_uring", CHECK_WARN,
			   "allow io_uring_setup, io_uring_enter and io_uring_register in the "
			   "container's seccomp profile",
			   "forbidden here; a pool of threads writes instead");
}

static void check_openat2(struct doctor *d, const struct features *f)
{
	if (f->state[FEATURE_OPENAT2] == FEATURE_YES)
		doctor_say(d, "openat2", CHECK_OK, NULL, "can be used");
	else
		doctor_say(d, "openat2", CHECK_WARN,
			   "unset CKPTFS_FEATURES_OFF, or allow it in the container's seccomp "
			   "profile",
			   "not available; %s", feature_fallbacks[FEATURE_OPENAT2]);
}

static void check_exit_status(struct doctor *d)
{
	if (writer_status_readable())
		doctor_say(d, "exit status", CHECK_OK, NULL,
			   "of every process can be read: a killed writer does not pass for one "
			   "that is done");
	else if (geteuid())
		doctor_say(d, "exit status", CHECK_OK, NULL,
			   "of your own processes can be read; one of another user (allow_other) "
			   "that ends with a file open counts as killed");
	else
		doctor_say(d, "exit status", CHECK_WARN,
			   "give the daemon CAP_SYS_PTRACE, and a /proc of its own pid namespace",
			   "of other users' processes cannot be read: one that ends with a file "
			   "open counts as killed, and the file is not published");
	if (writer_pidfd_tells())
		doctor_say(d, "pidfd", CHECK_OK, NULL,
			   "tells how a process ended that is gone already");
	else
		doctor_say(d, "pidfd", CHECK_WARN, "Linux 6.15 or later",
			   "does not tell how a process ended: that is seen only of one that "
			   "still had the file open");
}

/* Inode of the initial pid namespace, by the kernel's ABI. */
#define INIT_PID_NAMESPACE 0xEFFFFFFCu

static void check_pids(struct doctor *d)
{
	struct stat st;

	if (!stat("/proc/self/ns/pid", &st) && st.st_ino == INIT_PID_NAMESPACE)
		doctor_say(d, "pids", CHECK_OK, NULL, "those of all processes of the host");
	else
		doctor_say(d, "pids", CHECK_WARN,
			   "run the daemon in the host's pid namespace (hostPID: true, --pid=host)",
			   "a pid namespace of its own: a daemon that is started here does not "
			   "know processes outside of it, nor how they end");
}

static void check_files(struct doctor *d)
{
	struct rlimit rl = {0};

	getrlimit(RLIMIT_NOFILE, &rl);
	if (may(CAP_SYS_RESOURCE) && rl.rlim_max < 1048576)
		rl.rlim_max = 1048576; /* as the daemon does */
	if (rl.rlim_max >= 65536)
		doctor_say(d, "open files", CHECK_OK, NULL, "the daemon may have %llu",
			   (unsigned long long)rl.rlim_max);
	else
		doctor_say(d, "open files", CHECK_WARN,
			   "ulimit -Hn 1048576 (nofile in /etc/security/limits.conf, LimitNOFILE= "
			   "in a systemd unit)",
			   "the daemon may have %llu, and each file that is open in the mount "
			   "takes one or more; 65536 are good",
			   (unsigned long long)rl.rlim_max);
}

void doctor_host(struct doctor *d)
{
	__cleanup_fd int root = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct features f;

	features_init(&f);
	features_probe(&f, root, false);
	check_kernel(d);
	check_device(d);
	check_fusermount(d);
	check_timeouts(d);
	check_requests(d);
	check_memory(d);
	check_huge_pages(d);
	check_memlock(d);
	check_files(d);
	check_io_uring(d, &f);
	check_openat2(d, &f);
	check_exit_status(d);
	check_pids(d);
}
