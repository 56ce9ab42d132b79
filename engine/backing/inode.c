/* SPDX-License-Identifier: MIT */
#include "engine/backing/inode.h"

#include <sys/sysmacros.h>

#include "engine/base/clock.h"
#include "engine/base/table.h"

bool same_inode(const struct inode_id *a, const struct inode_id *b)
{
	return a->ino == b->ino && a->dev == b->dev && a->btime_ns == b->btime_ns;
}

struct inode_id inode_id_of(const struct statx *stx)
{
	return (struct inode_id){
		.dev = makedev(stx->stx_dev_major, stx->stx_dev_minor),
		.ino = stx->stx_ino,
		.btime_ns = stx->stx_mask & STATX_BTIME
				    ? (uint64_t)stx->stx_btime.tv_sec * NSEC_PER_SEC +
					      stx->stx_btime.tv_nsec
				    : 0,
	};
}

uint64_t hash_inode(const struct inode_id *id)
{
	return (id->ino ^ (uint64_t)id->dev << 40) * 0x9E3779B97F4A7C15ull;
}

uint64_t hash_name(const struct inode_id *dir, const char *name)
{
	return hash_text(hash_inode(dir), name);
}
