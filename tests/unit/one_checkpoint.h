/* SPDX-License-Identifier: MIT */
/* A mount without FUSE whose backing fails as it is told, with one committed checkpoint. */
#ifndef TESTS_UNIT_ONE_CHECKPOINT_H
#define TESTS_UNIT_ONE_CHECKPOINT_H

#include "tests/unit/mnt.h"

#include "engine/save/units.h"
#include "tests/backing/faults.h"

#define UNIT "step-1"
#define PART "__0_0.distcp"

static struct mnt m;
static struct faults *f;

/* All that ends it, too. */
static inline int save_checkpoint(const char *name, int version)
{
	char part[PATH_MAX], temp[PATH_MAX], end[PATH_MAX];
	int err;

	snprintf(part, sizeof(part), "%s/" PART, name);
	snprintf(temp, sizeof(temp), "%s/.metadata.tmp", name);
	snprintf(end, sizeof(end), "%s/.metadata", name);
	err = save(&m, part, version, 5000, false);
	err = err ? err : save(&m, temp, version, 100, false);
	return err ? err : file_rename(&m, temp, end);
}

static inline int make_checkpoint(const char *name, int version)
{
	int err = dir_make(&m, name);

	return err ? err : save_checkpoint(name, version);
}

/* @more: options; "" or ",KEY=VALUE". The committed one has version 3. */
static inline int setup_with(const char *more)
{
	char path[PATH_MAX], options[256];

	snprintf(options, sizeof(options), SMALL_CACHE "," LEAST_TIMEOUT "%s", more);
	mnt_open(&m, scratch_dir(path), options);
	f = faults_attach(&m.en.backing);
	mnt_start(&m);
	assert_int_equal(make_checkpoint(UNIT, 3), 0);
	assert_int_equal(checkpoint_wait(&m, UNIT), 0);
	return 0;
}

static inline int teardown(void **state)
{
	(void)state;
	faults_clear(f);
	engine_stop(&m.en);
	faults_detach(f);
	mnt_close(&m);
	return 0;
}

/* What is not committed of that name in the top directory, referenced, or NULL. */
static inline struct checkpoint *pending(const char *name)
{
	struct inode_id dir = node_inode(m.root);

	return checkpoints_find(m.en.units, &dir, name);
}

#endif
