/* SPDX-License-Identifier: MIT */
/* doctor: reports what was found of a backing, and what a save to it will cost. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "engine/backing/backing.h"
#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/message.h"
#include "fs/doctor.h"
#include "fs/mountinfo.h"
#include "fs/show.h"

#define POLL_NS	   (50 * NSEC_PER_MSEC)
#define SAVE_BYTES ((double)(10ull << 30))

/* --- the rows --- */

static void say_backing(struct doctor *d, const struct probe *p)
{
	const char *path = p->backing.path;

	if (p->format_error.err)
		doctor_say(d, "backing", CHECK_FAIL, NULL, "%s", p->format_error.text);
	else if (p->space.f_flag & ST_RDONLY)
		doctor_say(d, "backing", CHECK_FAIL, "mount its filesystem writable, or use -o ro",
			   "%s is read-only", path);
	else if (p->made && !geteuid())
		doctor_say(d, "backing", CHECK_WARN,
			   "if users may write below it, all is well, since the daemon acts as "
			   "them; run doctor as one of them, with a directory of theirs",
			   "%s: root cannot make a file there (root_squash?): %s", path,
			   strerror(-p->made));
	else if (p->made)
		doctor_say(d, "backing", CHECK_FAIL,
			   "name a directory of yours, or have its owner give you the right",
			   "%s: you cannot make a file there: %s", path, strerror(-p->made));
	else if (p->format.present)
		doctor_say(d, "backing", CHECK_OK, NULL, "%s is ready, uuid %s", path,
			   p->format.uuid);
	else
		doctor_say(d, "backing", CHECK_OK, NULL,
			   "%s can be written to; the first mount, or ckptfs init, makes it ready",
			   path);
	if (!p->made && p->owner != geteuid())
		doctor_say(d, "ownership", CHECK_WARN,
			   "files keep their owners only if the server does not map them",
			   "a file made by uid %u there belongs to uid %u", (unsigned)geteuid(),
			   (unsigned)p->owner);
}

static void say_filesystem(struct doctor *d, const struct probe *p)
{
	struct mount_entry m;
	bool known = mountinfo_find_device(major(p->backing.dev), minor(p->backing.dev), &m);
	const char *type = known ? m.type : "of a kind that mountinfo does not tell";

	if (known && (!strcmp(type, "tmpfs") || !strcmp(type, "ramfs")))
		doctor_say(d, "filesystem", CHECK_WARN, "use storage that lasts",
			   "%s: what is saved there is gone when the host restarts", type);
	else if (known && !strcmp(type, "overlay"))
		doctor_say(d, "filesystem", CHECK_WARN, "use a directory that is not on overlayfs",
			   "overlay: in a container, gone with it; no passthrough of reads");
	else
		doctor_say(d, "filesystem", CHECK_OK, NULL, "%s%s%s (0x%x)", type,
			   known ? ", from " : "", known ? m.source : "", p->fs_magic);
}

static void say_space(struct doctor *d, const struct probe *p)
{
	const struct statvfs *s = &p->space;
	double bytes = (double)s->f_bavail * (double)s->f_frsize;
	char text[SHOW_MAX], cache[SHOW_MAX];
	bool few = s->f_files && s->f_favail < 1000;

	show_size(text, bytes);
	if (!s->f_blocks)
		doctor_say(d, "free space", CHECK_OK, NULL, "this filesystem does not tell");
	else if (bytes < (double)d->cache_bytes || few)
		doctor_say(d, "free space", CHECK_WARN, "remove old checkpoints",
			   "%s and %llu files are left, the cache alone has %s", text,
			   (unsigned long long)s->f_favail,
			   show_size(cache, (double)d->cache_bytes));
	else
		doctor_say(d, "free space", CHECK_OK, NULL, "%s of %s", text,
			   show_size(cache, (double)s->f_blocks * (double)s->f_frsize));
	if (p->project)
		doctor_say(d, "quota", CHECK_OK, NULL,
			   "project %u ends at this directory's border; a save stays in the "
			   "directory of its file, so it never crosses one",
			   p->project);
}

static void say_feature(struct doctor *d, const char *name, enum found found, const char *yes,
			const char *remedy, const char *no)
{
	if (found == PRESENT)
		doctor_say(d, name, CHECK_OK, NULL, "%s", yes);
	else if (found == TURNED_OFF)
		doctor_say(d, name, CHECK_WARN, "unset CKPTFS_FEATURES_OFF",
			   "turned off by CKPTFS_FEATURES_OFF");
	else if (found == ABSENT)
		doctor_say(d, name, CHECK_WARN, remedy, "%s", no);
}

static void say_features(struct doctor *d, const struct probe *p)
{
	char no_xattr[256];

	say_feature(d, "O_DIRECT", p->direct, "can be used",
		    "nothing need be done where the cost below is acceptable",
		    "not on this filesystem: the flush goes through its page cache, which takes "
		    "memory and CPU");
	snprintf(no_xattr, sizeof(no_xattr),
		 "none can be set (%s): saves have no digest that `ckptfs verify` could compare, "
		 "and there are no ACLs",
		 strerror(-p->xattr_err));
	say_feature(d, "user xattrs", p->xattr, "can be set",
		    "mount the filesystem with user_xattr (Lustre), or as NFS 4.2 of a server with "
		    "Linux 5.9",
		    no_xattr);
	say_feature(d, "rename", p->noreplace, "has RENAME_NOREPLACE",
		    "nothing need be done: programs that ask for it get EINVAL",
		    "has no RENAME_NOREPLACE");
	say_feature(d, "exchange", p->exchange, "has RENAME_EXCHANGE",
		    "nothing need be done: programs that ask for it get EINVAL",
		    "has no RENAME_EXCHANGE");
	say_feature(d, "birth times", p->btime, "are told",
		    "nothing need be done: files are known by device and inode number alone",
		    "are not told");
}

static void say_coord(struct doctor *d, const struct probe *p)
{
	static const char remedy[] =
		"save from one node at a time here, or mount with coord=etcd:URL";

	if (p->coord > 0)
		doctor_say(d, "coord=dir", CHECK_WARN, remedy, "not safe: %s", p->coord_why);
	else if (p->coord)
		doctor_say(d, "coord=dir", CHECK_WARN, "see the log of the storage",
			   "cannot be tried: %s", strerror(-p->coord));
	else
		doctor_say(d, "coord=dir", CHECK_OK, NULL,
			   "safe, as far as one node can tell: several can agree by files here");
}

static void say_small(struct doctor *d, const struct probe *p)
{
	if (!p->nr_small)
		doctor_say(d, "small files", CHECK_WARN, "see the log of the storage",
			   "could not be saved: %s", strerror(-p->small_err));
	else
		doctor_say(d, "small files", p->small_s > 0.1 ? CHECK_WARN : CHECK_OK,
			   p->small_s > 0.1 ? "many small files take that long each: see to the "
					      "metadata servers"
					    : NULL,
			   "4 KiB are on the backing under their name after %.1f ms (median of %u)",
			   p->small_s * 1000, p->nr_small);
}

static void say_bandwidth(struct doctor *d, const struct probe *p)
{
	char median[SHOW_MAX], least[SHOW_MAX], most[SHOW_MAX];

	if (p->flush.median > 0)
		doctor_say(d, "bandwidth", CHECK_OK, NULL,
			   "%s/s, written in order%s, synced (median of 3: %s to %s)",
			   show_size(median, p->flush.median),
			   p->direct == PRESENT ? " with O_DIRECT" : "",
			   show_size(least, p->flush.least), show_size(most, p->flush.most));
	else
		doctor_say(d, "bandwidth", CHECK_WARN,
			   p->big_err == -ENOSPC ? "free 1 GiB there"
						 : "see the log of the storage",
			   "not measured: %s", strerror(-p->big_err));
}

/* Other work on this host makes every time longer. */
static void say_load(struct doctor *d)
{
	__cleanup_file FILE *f = fopen("/proc/loadavg", "re");
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	double load;

	if (!f || fscanf(f, "%lf", &load) != 1)
		return;
	if (load > (double)cpus)
		doctor_say(d, "load", CHECK_WARN, "run doctor again while the host is quiet",
			   "others use this host (load %.1f, %ld CPUs): the times below are longer "
			   "than on a quiet one",
			   load, cpus);
	else
		doctor_say(d, "load", CHECK_OK, NULL, "%.1f on %ld CPUs", load, cpus);
}

/*
 * Estimates one save in three ways. The flush begins with the copy; a writer waits when it is a
 * cache ahead of the flush.
 */
static void say_save(struct doctor *d, const struct probe *p)
{
	double speed = p->flush.median, cache = (double)d->cache_bytes;
	double plain_s = SAVE_BYTES / p->plain.median + p->small_s;
	double copy_s = SAVE_BYTES / p->copy_bytes_per_s, blocked_s = copy_s;
	double capture_s = SAVE_BYTES / p->capture_bytes_per_s;
	double durable_s = SAVE_BYTES / speed + p->small_s;
	char text[SHOW_MAX], by_default[128] = "";

	if (durable_s < copy_s)
		durable_s = copy_s;
	if (cache < SAVE_BYTES && (SAVE_BYTES - cache) / speed > blocked_s)
		blocked_s = (SAVE_BYTES - cache) / speed;
	if (cache < SAVE_BYTES)
		snprintf(by_default, sizeof(by_default), ", about %.1f s with the default of %s",
			 blocked_s, show_size(text, cache));
	doctor_say(
		d, "save, plain", CHECK_OK, NULL,
		"10 GiB into this directory, synced, without ckptfs: training waits about %.1f s "
		"(%s/s)",
		plain_s, show_size(text, p->plain.median));
	doctor_say(d, "save, mount", CHECK_OK, NULL,
		   "10 GiB by an unmodified program on a mount: training waits about %.1f s (copy "
		   "into the cache, %s/s) if host_cache_size >= 10 GiB%s; on the backing after "
		   "about %.1f s",
		   copy_s, show_size(text, p->copy_bytes_per_s), by_default, durable_s);
	doctor_say(d, "save, lazy", CHECK_OK, NULL,
		   "10 GiB by ckptfs.save: training waits some milliseconds, if the next update of "
		   "the weights is %.1f s or more later (copied in the background, %s/s)",
		   capture_s, show_size(text, p->capture_bytes_per_s));
	d->save = json_pack("{s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "bytes",
			    (json_int_t)SAVE_BYTES, "durable_s", durable_s, "blocked_s", copy_s,
			    "blocked_default_cache_s", blocked_s, "plain_s", plain_s, "capture_s",
			    capture_s, "backing_bytes_per_s", speed, "plain_bytes_per_s",
			    p->plain.median, "copy_bytes_per_s", p->copy_bytes_per_s,
			    "capture_bytes_per_s", p->capture_bytes_per_s, "small_file_s",
			    p->small_s);
}

static void say_all(struct doctor *d, const struct probe *p)
{
	if (p->error.err) {
		doctor_say(d, "backing", CHECK_FAIL, NULL, "%s", p->error.text);
		return;
	}
	say_backing(d, p);
	say_filesystem(d, p);
	say_space(d, p);
	say_features(d, p);
	if (p->made)
		return;
	say_coord(d, p);
	say_small(d, p);
	say_bandwidth(d, p);
	if (p->flush.median > 0 && p->copy_bytes_per_s > 0 && p->capture_bytes_per_s > 0)
		say_save(d, p);
}

/* --- waiting for the probe --- */

static atomic_int ended_by;

static void note_signal(int sig)
{
	ended_by = sig;
}

/* A second signal of a kind acts as by default: the backing may hold this process for good. */
static void catch_signals(void)
{
	struct sigaction sa = {.sa_handler = note_signal, .sa_flags = SA_RESETHAND | SA_RESTART};

	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGHUP, &sa, NULL);
}

static void *probe_main(void *arg)
{
	probe_run(arg);
	return NULL;
}

static bool ended(pthread_t thread)
{
	struct timespec until;
	uint64_t ns = clock_wall_ns() + POLL_NS;

	until.tv_sec = (time_t)(ns / NSEC_PER_SEC);
	until.tv_nsec = (long)(ns % NSEC_PER_SEC);
	return pthread_timedjoin_np(thread, NULL, &until) == 0;
}

static void run_and_show(struct probe *p)
{
	struct progress progress;
	pthread_t thread;

	progress_start(&progress);
	if (pthread_create(&thread, NULL, probe_main, p)) {
		probe_run(p);
		return;
	}
	while (!ended(thread)) {
		uint64_t written = p->written;

		if (written)
			progress_show(&progress, "%s: %s, %llu MiB", p->path, p->doing,
				      (unsigned long long)written >> 20);
		else
			progress_show(&progress, "%s: %s", p->path, p->doing);
	}
	progress_hide(&progress);
}

int doctor_backing(struct doctor *d, const char *path)
{
	struct probe p = {.path = path, .doing = "", .signal = &ended_by};
	char resolved[PATH_MAX];
	struct mount_entry m;

	/* A mount may hang, so it is not touched. */
	if (!mountinfo_resolve(path, resolved) && mountinfo_find_ckptfs(resolved, &m)) {
		FAIL(&p.error, EBUSY, BACKING_IS_MOUNT, path, m.path);
		say_all(d, &p);
		return 0;
	}
	say_load(d); /* before the probe adds its own */
	catch_signals();
	p.backing.root_fd = p.backing.proc_fd = -1;
	run_and_show(&p);
	if (!ended_by)
		say_all(d, &p);
	backing_close(&p.backing);
	return ended_by;
}
