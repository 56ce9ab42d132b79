/* SPDX-License-Identifier: MIT */
/*
 * What ckptfs and the programs beside it agree on: versions and names. The only header that
 * clients, engine and filesystem share; it includes nothing of theirs.
 */
#ifndef CKPTFS_ABI_H
#define CKPTFS_ABI_H

#define CKPTFS_VERSION	   "0.1.0"
#define CKPTFS_ABI_VERSION 1

/* Shown by mountinfo as fuse.ckptfs. */
#define CKPTFS_FSTYPE "fuse.ckptfs"

/* The control directory, below the top of every mount. */
#define CKPTFS_CONTROL_DIR ".ckptfs"

#endif
