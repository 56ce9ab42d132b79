/* SPDX-License-Identifier: MIT */
/* The identity of an inode on the backing, which no other inode has at the same time. */
#ifndef ENGINE_BACKING_INODE_H
#define ENGINE_BACKING_INODE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

struct inode_id {
	dev_t dev;
	uint64_t ino;
	uint64_t btime_ns; /* 0 if the backing does not tell */
};

bool same_inode(const struct inode_id *a, const struct inode_id *b);
struct inode_id inode_id_of(const struct statx *stx);

/* Hashes for any table of inodes, and of names in directories. */
uint64_t hash_inode(const struct inode_id *id);
uint64_t hash_name(const struct inode_id *dir, const char *name);

#endif
