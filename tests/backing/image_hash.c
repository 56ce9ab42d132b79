/* SPDX-License-Identifier: MIT */
/* The hash of an image: sums, where there is no order. */
#include <sys/stat.h>

#include "tests/backing/image_inside.h"
#include "tests/backing/util.h"

static uint64_t hash_name(const char *name)
{
	uint64_t h = 0;

	while (*name)
		h = mix(h, (unsigned char)*name++);
	return h;
}

static uint64_t hash_inode(const struct image *im, int nr)
{
	const struct inode *inode = &im->inodes[nr];
	const struct record_attr *a = &inode->attr;
	uint64_t h = mix(mix(mix((uint64_t)nr, a->mode), a->uid), a->gid);
	size_t i;

	if (!S_ISDIR(a->mode) || inode->timed)
		h = mix(h, mix((uint64_t)a->mtime.tv_sec, (uint64_t)a->mtime.tv_nsec));
	h = mix(h, (uint64_t)inode->size);
	for (i = 0; i < im->log->inodes[nr].blocks; i++)
		if (inode->pages[i])
			h += mix(inode->pages[i]->id, i);
	for (i = 0; i < inode->nr_xattrs; i++)
		if (inode->xattrs[i].op)
			h += mix(hash_name(inode->xattrs[i].name),
				 (uint64_t)(inode->xattrs[i].op - im->log->ops));
	for (i = 0; i < inode->nr_entries; i++)
		if (inode->entries[i].inode >= 0)
			h += mix(hash_name(inode->entries[i].name),
				 hash_inode(im, inode->entries[i].inode));
	return h;
}

uint64_t image_hash(const struct image *im)
{
	return hash_inode(im, 0);
}
