/* SPDX-License-Identifier: MIT */
/*
 * Parts of the FUSE wire protocol (linux/fuse.h) that are newer than the headers and the libfuse
 * of the oldest supported distribution. Values are kernel ABI.
 */
#ifndef FS_WIRE_H
#define FS_WIRE_H

#include <linux/fuse.h>
#include <stdint.h>

/* INIT flags, upper word (flags2); protocol 7.36 introduced the word. */
#define WIRE_INIT_EXT		   (1u << 30) /* in flags: flags2 is valid */
#define WIRE2_DIRECT_IO_ALLOW_MMAP (1u << 4)  /* bit 36, kernel 6.6 */
#define WIRE2_PASSTHROUGH	   (1u << 5)  /* bit 37, kernel 6.9 */
#define WIRE_PASSTHROUGH_MINOR	   40

/* Flags of an OPEN or CREATE reply. */
#define WIRE_FOPEN_PASSTHROUGH (1u << 7)

/* fuse_init_out as of 7.40; same size as always. */
struct wire_init_out {
	uint32_t major, minor;
	uint32_t max_readahead;
	uint32_t flags;
	uint16_t max_background, congestion_threshold;
	uint32_t max_write;
	uint32_t time_gran;
	uint16_t max_pages, map_alignment;
	uint32_t flags2;
	uint32_t max_stack_depth;
	uint32_t unused[6];
};
_Static_assert(sizeof(struct wire_init_out) == 64, "fuse_init_out is 64 bytes");

/* fuse_open_out as of 7.40: the last word was padding before. */
struct wire_open_out {
	uint64_t fh;
	uint32_t open_flags;
	int32_t backing_id;
};
_Static_assert(sizeof(struct wire_open_out) == 16, "fuse_open_out is 16 bytes");

struct wire_backing_map {
	int32_t fd;
	uint32_t flags;
	uint64_t padding;
};
#define WIRE_DEV_IOC_BACKING_OPEN  _IOW(229, 1, struct wire_backing_map)
#define WIRE_DEV_IOC_BACKING_CLOSE _IOW(229, 2, uint32_t)

/* Length of what precedes the data of a WRITE: fuse_in_header + fuse_write_in. */
#define WIRE_WRITE_HEADER 80
_Static_assert(sizeof(struct fuse_in_header) + sizeof(struct fuse_write_in) == WIRE_WRITE_HEADER,
	       "data of a WRITE starts at byte 80");

#endif
