// SPDX-License-Identifier: MIT
/* Cases that are combinations: kinds of files x calls x modes x users. */
#include "posixcmp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How user1 makes a thing called "%1$s". */
struct kind {
	const char *name;
	const char *make;
};

static const struct kind kinds[] = {
	{"missing", ""},
	{"file", "+1:creat %1$s 644 hello;"},
	{"dir", "+1:mkdir %1$s 755;"},
	{"full-dir", "+1:mkdir %1$s 755;+1:creat %1$s/in 644 in;"},
	{"symlink", "+1:creat to-%1$s 644 hi;+1:symlink to-%1$s %1$s;"},
	{"symlink-to-dir", "+1:mkdir to-%1$s 755;+1:symlink to-%1$s %1$s;"},
	{"dangling", "+1:symlink nowhere %1$s;"},
	{"loop", "+1:symlink %1$s %1$s;"},
	{"fifo", "+1:mknod %1$s fifo 644;"},
	{"socket", "+1:mknod %1$s socket 644;"},
	{NULL, NULL},
};

static const struct kind file_modes[] = {
	{"file-0600", "+1:creat %1$s 600 hello;"},
	{"file-0444", "+1:creat %1$s 444 hello;"},
	{"file-0222", "+1:creat %1$s 222 hello;"},
	{"file-0666", "+1:creat %1$s 666 hello;"},
	{"file-0000", "+1:creat %1$s 000 hello;"},
	{"file-04755", "+1:creat %1$s 4755 hello;"},
	{"file-02777", "+1:creat %1$s 2777 hello;"},
	{"others-0644", "+2:creat %1$s 644 hello;"},
	{"roots-0600", "+r:creat %1$s 600 hello;"},
	{"group3-0660", "+r:creat %1$s 660 hello;+r:chown %1$s 0 1003;"},
	{"others-group-0604", "+2:creat %1$s 604 hello;"
			      "+r:chown %1$s 1002 1001;"},
	{"dir-0000", "+1:mkdir %1$s 000;"},
	{"dir-0444", "+1:mkdir %1$s 444;"},
	{NULL, NULL},
};

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
static void make_text(char *out, size_t size, const struct kind *k, const char *name)
{
	snprintf(out, size, k->make, name);
}
#pragma GCC diagnostic pop

/* ---- open ---- */

static const char *const access_modes[] = {"RDONLY", "WRONLY", "RDWR"};

static const char *const open_extras[] = {
	"",
	"CREAT",
	"CREAT|EXCL",
	"TRUNC",
	"CREAT|TRUNC",
	"APPEND",
	"DIRECTORY",
	"NOFOLLOW",
	"DIRECTORY|NOFOLLOW",
	"PATH",
	"PATH|NOFOLLOW",
	"PATH|DIRECTORY",
	"NOATIME",
	"CREAT|NOFOLLOW",
	"CREAT|DIRECTORY",
	"TRUNC|NOFOLLOW",
	"EXCL",
	"SYNC",
	NULL,
};

/* Those that meet permissions. */
static const char *const permission_extras[] = {
	"", "CREAT", "TRUNC", "PATH", "NOATIME", NULL,
};

/* Flags that mean the same for every way of access: tried with one. */
static bool one_access_is_enough(const char *extra)
{
	return strstr(extra, "PATH") || strstr(extra, "CREAT|") || !strcmp(extra, "EXCL") ||
	       !strcmp(extra, "SYNC");
}

static void add_open(struct job_list *l, const struct kind *k, const char *access,
		     const char *extra, const char *who)
{
	char name[256], script[2048], make[512];

	make_text(make, sizeof(make), k, "x");
	snprintf(name, sizeof(name), "open/%s/%s%s%s", k->name, access, *extra ? "|" : "", extra);
	/* NONBLOCK, or a fifo would wait for its other end */
	snprintf(script, sizeof(script),
		 "+r:chmod . 1777;%sopen 0 x %s|%s%sNONBLOCK 640;fstat 0;"
		 "write 0 HE;read 0 5;close 0;r:lstat x;r:cat x",
		 make, access, extra, *extra ? "|" : "");
	jobs_add(l, name, who, script);
}

static void add_open_kinds(struct job_list *l, const struct kind *k, const char *const *extra,
			   const char *who)
{
	const char *const *e;
	size_t a;

	for (; k->name; k++)
		for (e = extra; *e; e++)
			for (a = 0; a < ARRAY_SIZE(access_modes); a++)
				if (!a || !one_access_is_enough(*e))
					add_open(l, k, access_modes[a], *e, who);
}

/* The same as one user alone can do it: a few flags of each kind. */
static void add_open_own(struct job_list *l)
{
	char name[256], script[2048], make[512];
	const struct kind *k;
	size_t e;

	for (k = kinds; k->name; k++)
		for (e = 0; open_extras[e]; e++) {
			make_text(make, sizeof(make), k, "x");
			snprintf(name, sizeof(name), "open-own/%s/%s", k->name,
				 *open_extras[e] ? open_extras[e] : "RDWR");
			snprintf(script, sizeof(script),
				 "%sopen 0 x RDWR|%s|NONBLOCK 640;fstat 0;"
				 "write 0 HE;close 0;lstat x;cat x",
				 make, *open_extras[e] ? open_extras[e] : "RDWR");
			jobs_add(l, name, "1", script);
		}
}

/* ---- rename ---- */

static const char *const rename_flag_sets[] = {
	"",
	"NOREPLACE",
	"EXCHANGE",
	NULL,
};

static const char *const rename_names[] = {"plain", "noreplace", "exchange"};

static bool in_rename_matrix(const struct kind *k)
{
	return strcmp(k->name, "loop") && strcmp(k->name, "symlink-to-dir") &&
	       strcmp(k->name, "dangling");
}

static void add_rename(struct job_list *l, const struct kind *from, const struct kind *to, size_t f)
{
	char name[256], script[2048], make[512], make_to[512];

	make_text(make, sizeof(make), from, "a");
	make_text(make_to, sizeof(make_to), to, "b");
	snprintf(name, sizeof(name), "rename/%s/%s-over-%s", rename_names[f], from->name, to->name);
	snprintf(script, sizeof(script),
		 "%s%srename a b %s;1:lstat a;1:lstat b;1:ls .;"
		 "1:cat a;1:cat b;1:ls b",
		 make, make_to, rename_flag_sets[f]);
	jobs_add(l, name, "r12", script);
}

static void add_renames(struct job_list *l)
{
	const struct kind *from, *to;
	size_t f;

	for (from = kinds; from->name; from++)
		for (to = kinds; to->name; to++)
			for (f = 0; rename_flag_sets[f]; f++)
				if (in_rename_matrix(from) && in_rename_matrix(to))
					add_rename(l, from, to, f);
}

/* ---- one call on every kind ---- */

static const struct posix_case calls[] = {
	{"unlink", "r12", "unlink x;1:ls ."},
	{"unlink-slash", "1", "unlink x/;ls ."},
	{"unlink-dot", "1", "unlink x/.;unlink x/..;ls ."},
	{"rmdir", "r12", "rmdir x;1:ls ."},
	{"rmdir-slash", "1", "rmdir x/;ls ."},
	{"rmdir-dot", "1", "rmdir x/.;rmdir x/..;rmdir .;ls ."},
	{"unlinkat", "1", "unlinkat x REMOVEDIR;unlinkat x 0x1;ls ."},
	{"mkdir", "r12", "mkdir x 750;1:lstat x"},
	{"mkdir-slash", "1", "mkdir x/ 750;lstat x"},
	{"mknod-fifo", "r12", "mknod x fifo 640;1:lstat x"},
	{"mknod-file", "r1", "mknod x file 640;1:lstat x"},
	{"symlink", "r12", "symlink t x;1:lstat x;1:readlink x"},
	{"symlink-slash", "1", "symlink t x/;lstat x"},
	{"link-from", "r12", "link x y;1:lstat x;1:lstat y"},
	{"link-from-follow", "1", "link x y FOLLOW;lstat x;lstat y"},
	{"link-onto", "r1", "+1:creat y 644;link y x;1:lstat x;1:lstat y"},
	{"link-slash", "1", "link x/ y;ls ."},
	{"readlink", "12", "readlink x;readlink x 3;readlink x/"},
	{"stat", "r12",
	 "stat x;lstat x;stat x/;lstat x/;stat x/.;"
	 "stat x/..;stat x/y"},
	{"chmod", "r12", "chmod x 640;1:lstat x"},
	{"chmod-slash", "1", "chmod x/ 750;lstat x"},
	{"chown-group", "r12", "chown x -1 1001;1:lstat x"},
	{"chown-owner", "r12", "chown x 1002 -1;r:lstat x"},
	{"lchown", "r12", "lchown x 1001 1001;1:lstat x"},
	{"lchown-other", "r12", "lchown x 1002 1002;r:lstat x"},
	{"truncate", "r12", "truncate x 3;1:lstat x;truncate x/ 3"},
	{"truncate-negative", "1", "truncate x -1;lstat x"},
	{"utimens", "r12",
	 "utimens x 1000.5 2000.000000007;"
	 "1:access x F;utimens x now omit;utimens x null"},
	{"utimens-nofollow", "r12", "utimens x 1000 2000 NOFOLLOW;utimens x omit omit NOFOLLOW"},
	{"access", "r12",
	 "access x F;access x R;access x W;access x X;"
	 "access x R|W|X;access x/ F;access x F NOFOLLOW"},
	{"opendir", "12", "ls x;ls x/"},
	{"rename-self", "1",
	 "rename x x;rename x x NOREPLACE;"
	 "rename x x EXCHANGE;lstat x"},
	{"rename-slash", "1", "rename x y/;ls .;rename x/ y;ls ."},
	{"rename-to-slash", "1", "+mkdir d 755;rename d x/;ls ."},
	{"rename-dot", "1",
	 "rename x/. y;rename x/.. y;rename . y;"
	 "rename y x/.;ls ."},
	{"xattr", "r12",
	 "setx x user.a one;getx x user.a;listx x;"
	 "rmx x user.a"},
	{"lxattr", "r12", "lsetx x user.a one;getx x user.a;listx x"},
	{"lxattr-trusted", "r1",
	 "lsetx x trusted.a one;"
	 "getx x trusted.a;listx x"},
	{"chdir", "12", "chdir x;cwd"},
	{"exec", "1", "exec x"},
	{"statfs", "1", "statfs x"},
	{"fd", "1",
	 "open 0 x RDONLY|NONBLOCK;seek 0 0 CUR;seek 0 2 SET;"
	 "ftruncate 0 0;fchmod 0 600;fsync 0;fdatasync 0;"
	 "fallocate 0 0 0 10;pread 0 2 0;fstat 0"},
	{"path-fd", "1",
	 "open 0 x PATH|NOFOLLOW;fstat 0;read 0 5;write 0 x;"
	 "fchmod 0 600;ftruncate 0 0;seek 0 0 CUR;fsync 0;"
	 "reopen 1 0 RDONLY|NONBLOCK;fstat 1;linkfd 0 y;lstat y"},
	{"as-parent", "1",
	 "open 0 x/y RDWR|CREAT 644;mkdir x/z 755;"
	 "unlink x/q;symlink a x/l;link x x/h;rename x/in x/out;ls x"},
	{NULL, NULL, NULL},
};

static void add_calls(struct job_list *l)
{
	char name[256], script[2048], make[512];
	const struct posix_case *call;
	const struct kind *k;

	for (call = calls; call->name; call++)
		for (k = kinds; k->name; k++) {
			make_text(make, sizeof(make), k, "x");
			snprintf(name, sizeof(name), "%s/%s", call->name, k->name);
			snprintf(script, sizeof(script), "%s%s", make, call->script);
			jobs_add(l, name, call->who, script);
		}
}

/* ---- modes ---- */

static void add_mode_sets(struct job_list *l)
{
	static const char *const from[] = {"644", "4755", "2755", "6777", "1777", "000", NULL};
	static const char *const to[] = {"600", "4711", "2711", "1755", "6775", "7777", NULL};
	char name[256], script[1024];
	int f, t, dir;

	for (f = 0; from[f]; f++)
		for (t = 0; to[t]; t++)
			for (dir = 0; dir < 2; dir++) {
				snprintf(name, sizeof(name), "chmod-%s/0%s-to-0%s",
					 dir ? "dir" : "file", from[f], to[t]);
				snprintf(script, sizeof(script),
					 "+1:%s x %s;+1:chmod x %s;chmod x %s;"
					 "1:stat x",
					 dir ? "mkdir" : "creat", from[f], from[f], to[t]);
				jobs_add(l, name, "r12", script);
			}
}

/* Who may give what to whom, and what becomes of suid and sgid. */
static void add_chowns(struct job_list *l)
{
	static const struct kind owners[] = {
		{"nobody", "-1 -1"},   {"user1", "1001 -1"},	      {"user2", "1002 -1"},
		{"root", "0 -1"},      {"group1", "-1 1001"},	      {"group2", "-1 1002"},
		{"group3", "-1 1003"}, {"user1-group3", "1001 1003"}, {"user2-group2", "1002 1002"},
		{NULL, NULL},
	};
	static const char *const modes[] = {"755", "6755", "6644", "6654", NULL};
	char name[256], script[1024];
	int o, m, dir;

	for (o = 0; owners[o].name; o++)
		for (m = 0; modes[m]; m++)
			for (dir = 0; dir < 2; dir++) {
				snprintf(name, sizeof(name), "chown-%s/0%s-to-%s",
					 dir ? "dir" : "file", modes[m], owners[o].name);
				snprintf(script, sizeof(script),
					 "+1:%s x %s;+1:chmod x %s;+r:stat x;"
					 "chown x %s;r:stat x",
					 dir ? "mkdir" : "creat", modes[m], modes[m],
					 owners[o].make);
				jobs_add(l, name, "r12g", script);
			}
}

/* Deleting and moving in directories of every mode. */
static void add_dir_modes(struct job_list *l)
{
	static const char *const modes[] = {"755", "777",  "1777", "555", "333",
					    "444", "1755", "000",  NULL};
	static const struct kind acts[] = {
		{"unlink", "unlink d/f"},
		{"rename", "rename d/f d/z"},
		{"rename-out", "rename d/f f"},
		{"rename-over", "rename d/f d/g"},
		{"rename-dir-out", "rename d/sub sub2"},
		{"exchange", "rename d/f d/g EXCHANGE"},
		{"create", "creat d/new 644"},
		{"mkdir", "mkdir d/new 755"},
		{"symlink", "symlink x d/l"},
		{"link", "link d/f d/l"},
		{"rmdir", "rmdir d/sub"},
		{"stat", "stat d/f"},
		{"ls", "ls d"},
		{"stat-dot", "stat d/."},
		{"cat", "cat d/f"},
		{"access", "access d/f R"},
		{NULL, NULL},
	};
	char name[256], script[1024];
	int m, a;

	for (m = 0; modes[m]; m++)
		for (a = 0; acts[a].name; a++) {
			snprintf(name, sizeof(name), "dir-mode/0%s/%s", modes[m], acts[a].name);
			snprintf(script, sizeof(script),
				 "+r:chmod . 777;+1:mkdir d 777;"
				 "+1:creat d/f 666 hi;+2:creat d/g 666 hi;"
				 "+1:mkdir d/sub 755;+1:chmod d %s;%s;"
				 "+1:chmod d 755;1:ls d;1:stat d",
				 modes[m], acts[a].make);
			jobs_add(l, name, "r12", script);
		}
}

void jobs_add_matrices(struct job_list *l)
{
	add_open_kinds(l, kinds, open_extras, "r12");
	add_open_kinds(l, file_modes, permission_extras, "r12g");
	add_open_own(l);
	add_renames(l);
	add_calls(l);
	add_mode_sets(l);
	add_chowns(l);
	add_dir_modes(l);
}
