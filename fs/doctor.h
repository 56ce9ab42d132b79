/* SPDX-License-Identifier: MIT */
/*
 * What `ckptfs doctor` checks, on this host and in a backing. Needs no mount, leaves nothing
 * behind. The probe of a backing has a thread of its own; while it runs, others read only its
 * atomic fields.
 */
#ifndef FS_DOCTOR_H
#define FS_DOCTOR_H

#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/statvfs.h>

#include "engine/backing/backing.h"
#include "engine/base/message.h"
#include "engine/coord/coord.h"
#include "engine/format/format.h"

enum verdict {
	CHECK_OK,
	CHECK_WARN, /* works, but less well or for fewer */
	CHECK_FAIL, /* does not work */
};

struct doctor {
	json_t *checks; /* for --json: {name, result, found, remedy}; NULL: each is printed */
	json_t *save;	/* what a save will cost; NULL: unknown */
	bool failed;
	uint64_t cache_bytes; /* host_cache_size where it is not given */
};

/* Reports one row. @remedy: NULL if nothing need be done. */
void doctor_say(struct doctor *d, const char *name, enum verdict verdict, const char *remedy,
		const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Sets cache_bytes, too. */
void doctor_host(struct doctor *d);

/* Takes some seconds. Returns the signal that ended it, after cleaning up, or 0. */
int doctor_backing(struct doctor *d, const char *path);

/* --- between doctor_backing.c and doctor_probe.c --- */

enum found { NOT_TRIED, ABSENT, PRESENT, TURNED_OFF };

/* Bytes a second: median, slowest and fastest of several rounds. 0: not measured. */
struct speed {
	double median, least, most;
};

/* A backing that is tried by a thread of its own, since it may hang. */
struct probe {
	const char *path; /* as given */
	/* progress, while it runs */
	_Atomic(const char *) doing;
	_Atomic uint64_t written;
	atomic_int *signal; /* not 0: the probe stops */
	/* results */
	struct error error;	   /* the backing cannot be used at all */
	struct error format_error; /* its version.json or its place is wrong */
	struct format format;
	struct backing backing;
	struct statvfs space;
	unsigned fs_magic;
	unsigned project; /* id of its quota project; 0: none */
	int may_write;	  /* 0 or -errno */
	int made;	  /* 0 or -errno of making a file in it */
	uid_t owner;	  /* of that file */
	enum found direct, xattr, noreplace, exchange, btime;
	int xattr_err;
	int coord;		       /* 0: fit for coord=dir, 1: not, or -errno */
	char coord_why[COORD_WHY_MAX]; /* why not */
	double small_s;		 /* to make a small file durable under its name; 0: not measured */
	unsigned nr_small;	 /* how often that was tried */
	int small_err;		 /* 0 or -errno */
	struct speed flush;	 /* as the daemon writes */
	struct speed plain;	 /* as a program writes and syncs without ckptfs */
	int big_err;		 /* -errno: why these are not measured */
	double copy_bytes_per_s; /* by write(2) into memory; 0: not measured */
	double capture_bytes_per_s; /* from memory to memory, as a lazy save; 0: not measured */
};

/* Runs all of it; blocks as long as the backing does. */
void probe_run(struct probe *p);

#endif
