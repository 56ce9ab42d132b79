/* SPDX-License-Identifier: MIT */
/*
 * The reference: names and bytes as on any filesystem, and of each unit what it was when it was
 * last committed, and what it may be committed as. Knows nothing of staging, generations of files
 * or time.
 */
#ifndef TESTS_MODEL_REFERENCE_H
#define TESTS_MODEL_REFERENCE_H

#include "tests/model/model.h"

#define UNIT_ENTRIES (2 * NAMES_IN_UNIT)
#define REL_LEN	     24
#define GENERATION   40
#define PROCS_MAX    64

/* What a directory consists of, in the order of the paths. */
struct snap {
	bool there;
	unsigned nr;
	struct snap_entry {
		char rel[REL_LEN];
		bool directory;
		uint8_t len;
		char data[DATA_MAX];
	} entries[UNIT_ENTRIES];
};

bool snap_same(const struct snap *a, const struct snap *b);
void snap_print(const struct snap *s, char *buf, size_t size);

enum ended { ENDED_NO, ENDED_MAYBE, ENDED_YES };

struct unit {
	/* what has been changed since the last commit */
	bool pending, claimed, asked;
	enum ended ended; /* did its rule see the end, but for files that are open? */
	uint64_t part;	  /* processes that changed it: bits */
	/* those who did so after its end: of the next change alone, if it is committed */
	uint64_t late;
	/* those who have a part in the next change, if this was committed before they came */
	uint64_t maybe;
	unsigned job;	   /* of who began it */
	uint64_t ever;	   /* processes that have changed it before, too */
	bool partial;	   /* a part of what is committed was removed, which waits */
	bool view_unknown; /* two jobs were at it: what it shows is not predicted */
	/* on the backing */
	bool committed, may_go; /* a removal waits, or was applied */
	uint64_t removers;	/* processes that have removed it, or a part: bits */
	bool back_unknown;	/* an ordinary directory, or a removal of a part */
	struct snap old;	/* committed */
	char generation[GENERATION];
	struct snap *candidates; /* as what it may be committed */
	unsigned nr_candidates, room;
};

struct process_ref {
	bool alive, person;
	bool may_fail; /* somebody of its job died: one call gets EIO */
	bool saved;    /* has written to a unit */
	unsigned job;  /* also of a person: its own */
	unsigned world;
	pid_t pid;
};

struct open_ref {
	bool used, lost; /* what it is of has failed */
	unsigned who;
	int file;
};

struct reference {
	struct unit units[NR_UNITS];
	struct process_ref procs[PROCS_MAX];
	unsigned nr_procs;
	int at[NR_PROCS]; /* which is it that sequences call so? -1: none */
	struct open_ref opens[NR_OPENS];
};

extern struct reference ref;

void ref_begin(void);
void ref_end(void);

/* What a call would get on any filesystem. */
int ref_expect_mkdir(const char *path);
int ref_expect_open(const char *path);
int ref_expect_unlink(const char *path);
int ref_expect_rmdir(const char *path);
int ref_expect_rename(const char *from, const char *to);
int ref_expect_cut(const char *path);

/* Their effects, once they have succeeded. */
void ref_mkdir(const char *path);
void ref_open(unsigned slot, unsigned who, const char *path, bool empty);
void ref_write(unsigned slot, char byte, unsigned off, unsigned len);
void ref_cut(int file, unsigned size);
void ref_close(unsigned slot);
void ref_remove(const char *path);
void ref_rename(const char *from, const char *to);

bool ref_is_there(const char *path);
int ref_file(const char *path); /* -1: none */
/* Of an open file: the unit that it is in by name, or -1. */
int ref_unit_of_open(unsigned slot);
/* Is a file of the unit open? */
bool ref_has_open(unsigned u);

/* What the directory @path shows. */
void ref_snap(const char *path, struct snap *s);
/* From now on it shows that; what is open there is lost. */
void ref_put(const char *path, const struct snap *s);
/* For each path there is, but those in units. */
void ref_each(void (*each)(const char *path, bool directory, const char *data, unsigned len));
void ref_set(const char *path, const char *data, unsigned len);

void unit_candidate(unsigned u, const struct snap *s);
int unit_find_candidate(unsigned u, const struct snap *s);
void unit_forget_candidates(unsigned u, unsigned nr);

#endif
