/* SPDX-License-Identifier: MIT */
#include "fs/has_commit_file.h"

#include <errno.h>

#include "engine/backing/backing.h"
#include "engine/base/clock.h"
#include "engine/format/commit.h"
#include "engine/save/checkpoint.h"
#include "fs/fs.h"

#define TRUSTED_NS NSEC_PER_SEC

static int look(struct fs *fs, const struct caller *c, struct node *n)
{
	struct backing b = fs_for(fs, c);
	struct node_fd nf;
	struct statx stx;
	int err = tree_fd(fs->tree, &b, n, &nf);

	if (!err) {
		/* A staging directory has none, even if it changes a committed unit. */
		err = nf.checkpoint ? -EINPROGRESS : backing_stat_at(&b, nf.fd, COMMIT_FILE, &stx);
		tree_fd_put(fs->tree, &nf);
	}
	if (!err)
		return 1;
	return err == -ENOENT || err == -ESTALE || err == -ENOTDIR ? 0 : err;
}

int has_commit_file(struct fs *fs, const struct caller *c, struct node *n)
{
	/* Read before the look, which a publish meanwhile makes worthless. */
	unsigned published = checkpoints_published(fs->engine->units);
	uint64_t now = clock_mono_ns();
	int has;

	if (atomic_load(&n->no_commit_file_as_of) == published &&
	    now < atomic_load(&n->no_commit_file_until_ns))
		return 0;
	has = look(fs, c, n);
	if (!has) {
		atomic_store(&n->no_commit_file_as_of, published);
		atomic_store(&n->no_commit_file_until_ns, now + TRUSTED_NS);
	}
	return has;
}
