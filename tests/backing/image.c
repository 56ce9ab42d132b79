/* SPDX-License-Identifier: MIT */
#include "tests/backing/image.h"

#include <stdlib.h>
#include <string.h>

#include "tests/backing/image_inside.h"
#include "tests/backing/util.h"

/* --- data --- */

static bool takes_block(struct taken taken, size_t nr)
{
	switch (taken.how) {
	case TAKE_ALL:
		return true;
	case TAKE_FIRST:
		return nr < taken.blocks;
	case TAKE_SOME:
		return mix(taken.seed, nr) & 1;
	default:
		return false;
	}
}

/* Bytes [from, to) of block @at, from @data (NULL: zeros). @id tells this op from others. */
static void set_block(struct inode *inode, size_t at, size_t from, size_t to,
		      const unsigned char *data, uint64_t id)
{
	bool whole = from == 0 && to == IMAGE_BLOCK;
	unsigned char *bytes;
	struct page *p;

	if (whole) {
		page_set(&inode->pages[at], data ? page_of(data, mix(id, at)) : NULL);
		return;
	}
	if (!data && !inode->pages[at])
		return;
	p = page_like(inode->pages[at], mix(id, at), &bytes);
	if (data)
		memcpy(bytes + from, data, to - from);
	else
		memset(bytes + from, 0, to - from);
	page_set(&inode->pages[at], p);
}

static bool apply_write(struct image *im, const struct image_step *step, struct taken taken)
{
	const struct record_op *op = step->op;
	struct inode *inode = &im->inodes[op->inode];
	off_t end = op->off + (off_t)op->len, at = op->off, next;
	uint64_t id = (uint64_t)(op - im->log->ops) + 1;
	bool all = true;
	size_t nr = 0;

	for (; at < end; at = next, nr++) {
		size_t block = (size_t)(at / IMAGE_BLOCK), from = (size_t)(at % IMAGE_BLOCK), to;

		next = (off_t)(block + 1) * IMAGE_BLOCK;
		if (next > end)
			next = end;
		to = from + (size_t)(next - at);
		if (!takes_block(taken, nr) ||
		    (inode->missed[block] && !step->durable && to - from < IMAGE_BLOCK)) {
			inode->missed[block] = true;
			all = false;
			continue;
		}
		set_block(inode, block, from, to,
			  op->data ? (unsigned char *)op->data + (at - op->off) : NULL, id);
		inode->missed[block] = false;
		if (inode->size < next)
			inode->size = next;
	}
	if (taken.how == TAKE_ZEROS && inode->size < end)
		inode->size = end;
	return all;
}

static bool apply_truncate(struct image *im, const struct image_step *step, bool take)
{
	const struct record_op *op = step->op;
	struct inode *inode = &im->inodes[op->inode];
	size_t nr_blocks = im->log->inodes[op->inode].blocks, first, block;

	first = (size_t)(op->off / IMAGE_BLOCK);
	if (!take) {
		for (block = first; (size_t)op->off < op->len && block < nr_blocks; block++)
			inode->missed[block] = true;
		return false;
	}
	inode->size = op->off;
	if (op->off % IMAGE_BLOCK && first < nr_blocks) {
		set_block(inode, first, (size_t)(op->off % IMAGE_BLOCK), IMAGE_BLOCK, NULL,
			  (uint64_t)(op - im->log->ops) + 1);
		first++;
	}
	for (block = first; block < nr_blocks; block++) {
		page_set(&inode->pages[block], NULL);
		inode->missed[block] = false;
	}
	return true;
}

/* --- attributes --- */

/* @op NULL: removed; its place stays, and is skipped. */
static void set_xattr(struct inode *inode, const char *name, const struct record_op *op)
{
	size_t i;

	for (i = 0; i < inode->nr_xattrs; i++)
		if (!strcmp(inode->xattrs[i].name, name))
			break;
	if (i == inode->nr_xattrs) {
		inode->xattrs = grow(inode->xattrs, &inode->max_xattrs, i, sizeof(*inode->xattrs));
		inode->nr_xattrs++;
	}
	inode->xattrs[i] = (struct xattr){name, op};
}

static bool apply_attr(struct image *im, const struct image_step *step, bool take)
{
	const struct record_op *op = step->op;
	struct inode *inode = &im->inodes[op->inode];

	if (!take)
		return false;
	switch (op->kind) {
	case RECORD_CHOWN:
		inode->attr.uid = op->attr.uid;
		inode->attr.gid = op->attr.gid;
		inode->attr.mode = op->attr.mode; /* setuid goes */
		break;
	case RECORD_CHMOD:
		inode->attr.mode = op->attr.mode;
		break;
	case RECORD_SET_XATTR:
		set_xattr(inode, op->name, op);
		if (op->attr.mode) /* an ACL sets it; 0: it was there from the first */
			inode->attr.mode = op->attr.mode;
		break;
	case RECORD_REMOVE_XATTR:
		set_xattr(inode, op->name, NULL);
		break;
	default: /* RECORD_UTIMENS */
		inode->attr.atime = op->attr.atime;
		inode->attr.mtime = op->attr.mtime;
		inode->timed = true;
		break;
	}
	return true;
}

/* --- names --- */

static struct entry *entry_of(struct image *im, int dir, const char *name)
{
	struct inode *d = &im->inodes[dir];
	size_t i;

	for (i = 0; i < d->nr_entries; i++)
		if (!strcmp(d->entries[i].name, name))
			return &d->entries[i];
	d->entries = grow(d->entries, &d->max_entries, d->nr_entries, sizeof(*d->entries));
	d->entries[d->nr_entries] = (struct entry){.name = name, .inode = -1};
	return &d->entries[d->nr_entries++];
}

static bool missed(struct image *im, int dir, const char *name)
{
	return entry_of(im, dir, name)->missed;
}

static void set_name(struct image *im, int dir, const char *name, int inode)
{
	struct entry *e = entry_of(im, dir, name);

	e->inode = inode;
	e->missed = false;
}

static void make_inode(struct image *im, const struct record_op *op)
{
	im->inodes[op->inode].attr = op->attr;
	im->inodes[op->inode].target = op->data;
}

static bool apply_name(struct image *im, const struct image_step *step, bool take)
{
	const struct record_op *op = step->op;
	bool old = step->part != IMAGE_NEW_NAME;
	bool new = op->kind == RECORD_RENAME && step->part != IMAGE_OLD_NAME;

	/* A file that has no name can be written; its attributes must be right if it gets one. */
	if (op->kind == RECORD_MAKE)
		make_inode(im, op);
	if (!step->durable && take)
		take = !(old && missed(im, op->dir, op->name)) &&
		       !(new &&missed(im, op->new_dir, op->new_name));
	/* The old name never goes without the new one having come. */
	if (step->part == IMAGE_OLD_NAME && !im->new_name_came)
		take = false;
	if (step->part == IMAGE_NEW_NAME)
		im->new_name_came = take;
	if (!take) {
		if (old)
			entry_of(im, op->dir, op->name)->missed = true;
		if (new)
			entry_of(im, op->new_dir, op->new_name)->missed = true;
		return false;
	}
	if (op->kind == RECORD_MAKE || op->kind == RECORD_LINK) {
		set_name(im, op->dir, op->name, op->inode);
		return true;
	}
	if (new)
		set_name(im, op->new_dir, op->new_name, op->inode);
	if (old)
		set_name(im, op->dir, op->name, op->flags & RENAME_EXCHANGE ? op->other : -1);
	return true;
}

bool image_apply(struct image *im, const struct image_step *step, struct taken taken, bool times)
{
	const struct record_op *op = step->op;
	bool take = taken.how == TAKE_ALL, done;

	switch (op->kind) {
	case RECORD_SYNC:
	case RECORD_MARK:
		return true;
	case RECORD_MAKE:
	case RECORD_LINK:
	case RECORD_REMOVE:
	case RECORD_RENAME:
		return apply_name(im, step, take);
	case RECORD_WRITE:
		done = apply_write(im, step, taken);
		break;
	case RECORD_TRUNCATE:
		done = apply_truncate(im, step, take);
		break;
	default:
		return apply_attr(im, step, take);
	}
	if (done && times) {
		im->inodes[op->inode].attr.atime = op->attr.atime;
		im->inodes[op->inode].attr.mtime = op->attr.mtime;
	}
	return done;
}

/* --- images --- */

struct image *image_create(const struct record *log)
{
	struct image *im = must(calloc(1, sizeof(*im)));
	size_t i;

	im->log = log;
	im->inodes = must(calloc(log->nr_inodes, sizeof(*im->inodes)));
	for (i = 0; i < log->nr_inodes; i++) {
		im->inodes[i].pages =
			must(calloc(log->inodes[i].blocks + 1, sizeof(struct page *)));
		im->inodes[i].missed = must(calloc(log->inodes[i].blocks + 1, sizeof(bool)));
	}
	im->inodes[0].attr = log->top;
	return im;
}

struct image *image_copy(const struct image *im)
{
	struct image *copy = image_create(im->log);
	size_t i, block;

	for (i = 0; i < im->log->nr_inodes; i++) {
		const struct inode *from = &im->inodes[i];
		struct inode *to = &copy->inodes[i];
		size_t nr_blocks = im->log->inodes[i].blocks;
		struct page **pages = to->pages;
		bool *missed = to->missed;

		*to = *from;
		to->pages = pages;
		to->missed = missed;
		memcpy(missed, from->missed, nr_blocks * sizeof(*missed));
		for (block = 0; block < nr_blocks; block++)
			pages[block] = page_get(from->pages[block]);
		to->max_entries = from->nr_entries;
		to->entries = copy_of(from->entries, from->nr_entries * sizeof(*from->entries));
		to->max_xattrs = from->nr_xattrs;
		to->xattrs = copy_of(from->xattrs, from->nr_xattrs * sizeof(*from->xattrs));
	}
	return copy;
}

void image_destroy(struct image *im)
{
	size_t i, block;

	for (i = 0; i < im->log->nr_inodes; i++) {
		for (block = 0; block < im->log->inodes[i].blocks; block++)
			page_put(im->inodes[i].pages[block]);
		free(im->inodes[i].pages);
		free(im->inodes[i].missed);
		free(im->inodes[i].entries);
		free(im->inodes[i].xattrs);
	}
	free(im->inodes);
	free(im);
}
