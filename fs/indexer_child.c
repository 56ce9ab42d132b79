/* SPDX-License-Identifier: MIT */
/* The process that reads the files of one checkpoint, and keeps its index. One thread. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/base/json.h"
#include "engine/tensors/read.h"
#include "engine/tensors/stored.h"
#include "fs/indexer.h"

#define NICE 10

/* Sanitizers reserve more of the address space than any limit. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define WATCHED true
#elif defined(__has_feature)
#define WATCHED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define WATCHED false
#endif

/*
 * Gives up what the daemon has more than others: it is not spared when memory is short, it has a
 * deadline, and it ends with the daemon.
 */
static void become_small(void)
{
	struct rlimit most = {.rlim_cur = INDEX_MEMORY, .rlim_max = INDEX_MEMORY};
	__cleanup_fd int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	ssize_t ignored = fd >= 0 ? write(fd, "0", 1) : 0;

	(void)ignored;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_IO_FLUSHER, 0, 0, 0, 0);
	if (!WATCHED)
		setrlimit(RLIMIT_AS, &most);
	setpriority(PRIO_PROCESS, 0, NICE);
	alarm(INDEX_DEADLINE_S);
}

/* 0 or -errno. An ordinary user's daemon has no other rights to give up. */
static int become_owner(uid_t uid, gid_t gid)
{
	if (geteuid())
		return 0;
	if (setgroups(0, NULL) || setresgid(gid, gid, gid) || setresuid(uid, uid, uid))
		return -errno;
	/* A change of user clears it. */
	return prctl(PR_SET_PDEATHSIG, SIGKILL) ? -errno : 0;
}

/* What is missing first, in words. */
static void describe_first(const struct index *ix, char *text, size_t size)
{
	for (size_t i = 0; i < ix->nr; i++)
		if (ix->tensors[i]->hole) {
			snprintf(text, size, "%s: %s", ix->tensors[i]->name, ix->tensors[i]->hole);
			return;
		}
	for (const struct index_opaque *o = ix->opaque; o; o = o->next)
		if (o->missing) {
			snprintf(text, size, "%s%s%s: %s", o->path, *o->name ? ": " : "", o->name,
				 o->reason);
			return;
		}
}

static int make_index(struct index **ix, bool show, int *keep_err)
{
	struct tree tree;
	int err = tree_open_dir(&tree, INDEX_DIR_FD);

	if (!err)
		err = index_of(ix, &tree, !show);
	if (!err && !show)
		*keep_err = index_keep(*ix, tree.dir);
	tree_close(&tree);
	return err;
}

static int print_index(const struct index *ix)
{
	FILE *out = fdopen(INDEX_OUT_FD, "w");
	int err = out ? index_print(ix, "", out) : -EBADF;

	return out && fclose(out) ? -EIO : err;
}

int indexer_child(int argc, char **argv)
{
	bool show = argc == 4;
	int err = argc == 3 || show ? 0 : -EINVAL, keep_err = 0;
	char first[1024] = "";
	struct index *ix = NULL;
	json_t *o;

	become_small();
	if (!err)
		err = become_owner((uid_t)strtoul(argv[1], NULL, 10),
				   (gid_t)strtoul(argv[2], NULL, 10));
	if (!err)
		err = make_index(&ix, show, &keep_err);
	if (!err && show)
		err = print_index(ix);
	if (!err)
		describe_first(ix, first, sizeof(first));
	o = err ? json_pack("{s:s, s:i}", "error", strerror(-err), "errno", -err)
		: json_pack("{s:I, s:I, s:o, s:s}", "tensors", (json_int_t)ix->nr, "missing",
			    (json_int_t)index_nr_missing(ix), "first", json_text(first), "kept",
			    keep_err ? strerror(-keep_err) : "yes");
	json_dumpf(o, stdout, JSON_COMPACT);
	json_decref(o);
	index_destroy(ix);
	return fflush(stdout) || err;
}
