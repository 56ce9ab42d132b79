// SPDX-License-Identifier: MIT
/* Cases on names: long and odd ones, rename, link, readdir. */
#include "posixcmp.h"

#define END \
	{ \
		NULL, NULL, NULL \
	}

const struct posix_case name_cases[] = {
	/* names */
	{"name/255-bytes", "1",
	 "creat {n255} 644 hi;stat {n255};cat {n255};"
	 "rename {n255} b;link b {n255};mkdir d 755;creat d/{n255} 600;"
	 "unlink {n255};ls ."},
	{"name/256-bytes", "r1",
	 "+creat f 644;+mkdir d 755;"
	 "open 0 {n256} RDWR|CREAT 644;open 0 {n256} RDONLY;mkdir {n256} 755;"
	 "rename f {n256};rename {n256} f;link f {n256};symlink x {n256};"
	 "unlink {n256};rmdir {n256};stat {n256};mknod {n256} fifo 644;"
	 "chmod {n256} 600;truncate {n256} 0;stat {n256}/x;ls .;"
	 "access {n256} F;readlink {n256}"},
	{"name/path-max", "1",
	 "stat {deep};open 0 {deep} RDWR|CREAT 644;"
	 "mkdir {deep} 755;rename {deep} x;symlink {deep} x;unlink {deep};"
	 "link {deep} x;access {deep} F;truncate {deep} 0;ls ."},
	{"name/symlink-target-4095", "1",
	 "symlink {n4095} l;lstat l;"
	 "readlink l;stat l;symlink {n4096} m;lstat m"},
	{"name/symlink-target-short", "1",
	 "symlink {n59} a;symlink {n60} b;"
	 "symlink {n61} c;lstat a;lstat b;lstat c;readlink c"},
	{"name/empty", "r1",
	 "stat '';open 0 '' RDONLY;"
	 "open 0 '' RDWR|CREAT 644;mkdir '' 755;unlink '';rmdir '';"
	 "rename '' x;rename x '';link '' x;symlink x '';symlink '' x;"
	 "access '' F;chmod '' 600;truncate '' 0;readlink '';chdir '';"
	 "mknod '' fifo 644"},
	{"name/not-utf8", "1",
	 "creat {raw} 644 hi;stat {raw};cat {raw};ls .;"
	 "rename {raw} x{raw};mkdir d{raw} 755;symlink {raw} l;readlink l;"
	 "ls .;unlink x{raw};rmdir d{raw};ls ."},
	{"name/odd-characters", "1",
	 "creat a\\b 644;creat :* 644;"
	 "creat ~ 644;creat -rf 644;creat ... 644;creat .hidden 644;"
	 "creat tab\001x 644;ls .;unlink ...;stat .hidden;stat A\\b;ls ."},
	{"name/case-is-kept", "1",
	 "creat File 644 one;creat file 644 two;"
	 "cat File;cat file;ls ."},
	{"name/dots", "1",
	 "+mkdir d 755;creat d/. 644;creat d/.. 644;"
	 "mkdir . 755;mkdir d/.. 755;stat d/.;stat d/../d/./../d;"
	 "rename d/. e;rename d d/..;link d/. x"},
	{"name/many-slashes", "1",
	 "+mkdir d 755;+creat d/f 644 x;stat d///f;"
	 "cat .//d/./f;stat d///;stat ///{cwd}//d"},
	{"name/file-as-directory", "r1",
	 "+creat f 644;stat f/x;"
	 "open 0 f/x RDWR|CREAT 644;mkdir f/x 755;unlink f/x;rmdir f/x;"
	 "rename f/x y;rename f f/x;link f f/x;symlink x f/x;stat f/;"
	 "stat f/.;stat f/..;access f/x F;truncate f/x 0;ls f"},
	{"name/missing-parent", "r1",
	 "open 0 no/x RDWR|CREAT 644;"
	 "mkdir no/x 755;unlink no/x;rmdir no/x;rename no/x y;link no/x y;"
	 "symlink t no/x;mknod no/x fifo 644;stat no/x;chmod no/x 600;"
	 "+creat f 644;rename f no/x;link f no/x"},
	{"name/open-slash", "1",
	 "+creat f 644;+mkdir d 755;"
	 "open 0 f/ RDONLY;open 0 new/ RDWR|CREAT 644;open 0 d/ RDONLY;"
	 "open 0 d/ RDWR|CREAT 644;open 0 f/ RDWR|CREAT 644;ls ."},
	{"name/symlink-chain-40", "1",
	 "+creat f 644 hi;+symlink f l1;"
	 "+symlink l1 l2;+symlink l2 l3;+symlink l3 l4;+symlink l4 l5;cat l5;"
	 "stat l5;symlink loop2 loop1;symlink loop1 loop2;cat loop1;"
	 "stat loop1/x;open 0 loop1 RDWR|CREAT 644"},
	{"name/create-through-symlink", "r12",
	 "+r:chmod . 777;"
	 "+1:symlink t l;open 0 l RDWR|CREAT 640;write 0 x;r:ls .;r:stat t;"
	 "open 0 l RDWR|CREAT|EXCL 640"},
	{"name/absolute-symlink", "1",
	 "+mkdir d 755;+creat d/f 644 hi;"
	 "+symlink {cwd}/d l;cat l/f;stat l/;lstat l/.;creat l/g 644;ls d"},

	/* mkdir, rmdir, unlink */
	{"mkdir/modes", "r12",
	 "+r:chmod . 777;mkdir a 777;mkdir b 1777;"
	 "mkdir c 2755;mkdir d 4755;mkdir e 000;stat a;stat b;stat c;stat d;"
	 "stat e"},
	{"mkdir/links", "1",
	 "+mkdir d 755;stat d;mkdir d/a 755;"
	 "mkdir d/b 755;stat d;rmdir d/a;stat d;rename d/b b;stat d;stat ."},
	{"umask/all", "r1",
	 "umask 027;mkdir d 777;open 0 f RDWR|CREAT 666;"
	 "mknod p fifo 666;listen 1 s;symlink x l;stat d;stat f;stat p;"
	 "stat s;lstat l;umask 777;mkdir z 777;stat z;"
	 "open 2 y RDWR|CREAT 666;write 2 hi;stat y"},
	{"umask/mknod-file", "1", "umask 077;mknod f file 777;stat f"},
	{"rmdir/not-empty", "r1",
	 "+1:mkdir d 755;+1:creat d/f 644;rmdir d;"
	 "unlinkat d REMOVEDIR;unlink d/f;rmdir d;ls ."},
	{"rmdir/hidden-entry", "1", "+mkdir d 755;+creat d/.x 644;rmdir d"},
	{"unlink/one-of-two-links", "1",
	 "+creat a 644 hi;+link a b;stat a;"
	 "unlink a;stat b;cat b;link b a;same a b;unlink b;stat a"},
	{"unlink/parent-of-cwd", "1",
	 "+mkdir d 755;+mkdir d/e 755;"
	 "+chdir d/e;rmdir ../../d;rmdir ../e;creat f 644;mkdir x 755;ls .;"
	 "stat .;stat ..;symlink a b;rename ../../d z;cwd;"
	 "open 0 . RDONLY|DIRECTORY"},
	{"unlink/create-again", "1",
	 "+creat f 600 old;open 0 f RDWR;"
	 "unlink f;creat f 644 newer;fstat 0;stat f;pread 0 9 0;cat f"},

	/* rename */
	{"rename/into-itself", "r1",
	 "+1:mkdir d 755;+1:mkdir d/e 755;"
	 "rename d d/e;rename d d/e/x;rename d d/x;rename d d/x NOREPLACE;"
	 "rename d d/e EXCHANGE;rename d/e d;ls d"},
	{"rename/ancestor", "1",
	 "+mkdir d 755;+mkdir d/e 755;"
	 "+creat d/e/f 644;rename d/e d;rename d/e/f d;rename d/e/f d/e;"
	 "rename d/e/f d/e NOREPLACE;ls d"},
	{"rename/hard-links", "1",
	 "+creat a 644 hi;+link a b;rename a b;"
	 "ls .;stat a;stat b;rename a b NOREPLACE;rename a b EXCHANGE;ls .;"
	 "same a b"},
	{"rename/bad-flags", "1",
	 "+creat a 644;+creat b 644;"
	 "rename a b NOREPLACE|EXCHANGE;rename a b 0x80;rename a c EXCHANGE;"
	 "rename c a EXCHANGE;ls ."},
	{"rename/exchange-directories", "1",
	 "+mkdir a 755;+mkdir b 700;"
	 "+creat a/in-a 644;+mkdir b/in-b 755;+mkdir p 755;rename a p/a;"
	 "rename p/a b EXCHANGE;ls b;ls p/a;stat b;stat p/a;stat p;stat ."},
	{"rename/exchange-file-and-dir", "1",
	 "+mkdir d 755;+mkdir p 755;"
	 "+creat p/f 644 hi;rename d p/f EXCHANGE;cat d;ls p;stat p;stat .;"
	 "ls p/f"},
	{"rename/keeps-inode", "1",
	 "+creat a 644 hi;+link a old;"
	 "+creat b 644 other;rename a b;same b old;cat b;stat b"},
	{"rename/open-file", "1",
	 "+creat a 644 aaa;+creat b 644 bbb;"
	 "open 0 a RDWR;open 1 b RDWR;rename a b;fstat 0;fstat 1;write 0 X;"
	 "write 1 Y;cat b;pread 1 9 0;fsync 0;fsync 1;close 1;close 0;"
	 "cat b"},
	{"rename/open-dir", "1",
	 "+mkdir d 755;+creat d/f 644 hi;"
	 "open 0 d RDONLY|DIRECTORY;rename d e;openat 1 0 f RDONLY;"
	 "pread 1 9 0;openat 2 0 g RDWR|CREAT 644;write 2 new;cat e/g;"
	 "openat 3 0 ../e/g RDONLY;ls e"},
	{"rename/dir-while-cwd", "1",
	 "+mkdir d 755;+mkdir x 755;+chdir d;"
	 "rename ../d ../x/y;creat f 644 hi;cwd;stat ..;ls ..;chdir ..;cwd"},
	{"rename/dir-to-other-parent", "1",
	 "+mkdir a 755;+mkdir b 755;"
	 "+mkdir a/d 755;+creat a/d/f 644 hi;stat a;stat b;rename a/d b/d;"
	 "stat a;stat b;stat b/d/..;cat b/d/f;ls a"},
	{"rename/not-own-dir-to-other-parent", "12",
	 "+r:mkdir a 777;"
	 "+r:mkdir b 777;+1:mkdir a/d 755;rename a/d b/d;1:ls b;"
	 "1:chmod b/d 777;1:chmod a/d 777;rename a/d b/d;rename b/d a/d;"
	 "1:ls a;1:ls b"},
	{"rename/sticky", "r12",
	 "+r:mkdir s 1777;+1:creat s/f1 666 a;"
	 "+2:creat s/f2 666 b;+r:creat s/f0 666 c;rename s/f1 s/f2;"
	 "rename s/f2 s/x;rename s/f1 s/f0 EXCHANGE;rename s/f0 s/y;r:ls s"},
	{"rename/sticky-from-outside", "12",
	 "+r:mkdir s 1777;+r:mkdir o 777;"
	 "+1:creat s/f1 666 a;+1:creat o/g1 666;+2:creat o/g2 666;"
	 "rename o/g1 s/f1;rename o/g2 s/f1;r:ls s;r:ls o"},
	{"rename/replaces-open-dir", "1",
	 "+mkdir a 755;+mkdir b 700;"
	 "open 0 b RDONLY|DIRECTORY;rename a b;fstat 0;"
	 "openat 1 0 x RDWR|CREAT 644;stat b"},
	{"rename/slash-on-new-dir", "1",
	 "+mkdir d 755;+creat f 644;"
	 "rename d e/;rename f g/;ls ."},

	/* sticky directories */
	{"sticky/unlink", "r12g",
	 "+r:mkdir s 1777;+1:creat s/f1 666;"
	 "+2:creat s/f2 666;+r:creat s/f0 666;unlink s/f1;unlink s/f2;"
	 "unlink s/f0;r:ls s"},
	{"sticky/own-directory", "12",
	 "+1:mkdir s 1777;+2:creat s/f2 666;"
	 "+1:creat s/f1 666;+2:mkdir s/d2 755;unlink s/f2;unlink s/f1;"
	 "rmdir s/d2;r:ls s"},
	{"sticky/rmdir", "r12",
	 "+r:mkdir s 1777;+1:mkdir s/d 777;rmdir s/d;"
	 "r:ls s"},
	{"sticky/write-others", "12",
	 "+r:mkdir s 1777;+1:creat s/f 666 hi;"
	 "open 0 s/f RDWR;write 0 HO;open 1 s/f RDWR|TRUNC;"
	 "open 2 s/f RDWR|CREAT 666;1:stat s/f"},
	{"sticky/follow-link", "r12",
	 "+r:mkdir s 1777;+1:creat s/f 666 hi;"
	 "+1:symlink f s/l;cat s/l;stat s/l;lstat s/l"},
	{"sticky/fifo", "r12",
	 "+r:mkdir s 1777;+1:mknod s/p fifo 666;"
	 "+1:chmod s/p 666;open 0 s/p RDWR|NONBLOCK;"
	 "open 1 s/p RDWR|CREAT|NONBLOCK 666"},

	/* link */
	{"link/basic", "1",
	 "+creat a 644 hi;+mkdir d 755;link a d/b;stat a;"
	 "same a d/b;open 0 a WRONLY|APPEND;write 0 more;cat d/b;"
	 "link a d/b;link a no/b;link no b;link d e"},
	{"link/others-file", "r12g",
	 "+r:chmod . 777;+1:creat own 600;"
	 "+2:creat theirs 600;+2:creat open 666;+2:chmod open 666;"
	 "+r:creat roots 644;link own o1;link theirs t1;link open p1;"
	 "link roots r1;r:ls .;r:stat theirs"},
	{"link/suid-and-unreadable", "12",
	 "+r:chmod . 777;"
	 "+1:creat s 755;+1:chmod s 4755;+1:creat u 000;link s l;link u k;"
	 "r:ls ."},
	{"link/symlink", "1",
	 "+creat f 644 hi;+symlink f l;link l h;lstat h;"
	 "link l g FOLLOW;lstat g;lstat f;readlink h"},
	{"link/unlinked-by-fd", "r1",
	 "+1:creat f 644 hi;open 0 f RDWR;"
	 "linkfd 0 g;stat g;unlink f;unlink g;fstat 0;linkfd 0 h;stat h"},

	/* mknod */
	{"mknod/all", "r12",
	 "+r:chmod . 777;mknod p fifo 644;"
	 "mknod s socket 644;mknod f file 640;mknod u untyped 600;"
	 "mknod c char 666;mknod b block 666;mknod d dir 755;r:stat p;"
	 "r:stat s;r:stat f;r:stat u;r:stat c;r:stat b;r:ls ."},
	{"mknod/file-is-usable", "1",
	 "mknod f file 644;open 0 f RDWR;"
	 "write 0 hello;cat f;mknod f file 600;stat f"},
	{"mknod/device-rename", "r",
	 "mknod c char 666;rename c d;stat d;"
	 "link d e;stat e;chmod e 600;chown e 1001 1001;stat d;unlink d;"
	 "stat e"},

	/* reading directories */
	{"readdir/types", "1",
	 "+mkdir d 755;+creat d/f 644;+mkdir d/d 755;"
	 "+symlink x d/l;+mknod d/p fifo 644;+mknod d/s socket 644;ls d"},
	{"readdir/empty", "1", "+mkdir d 755;ls d;seekcheck d"},
	{"readdir/many", "1", "+mkdir d 755;+many d 700;seekcheck d;ls d"},
	{"readdir/delete-while-reading", "1",
	 "+mkdir d 755;+many d 700;"
	 "empty d;ls d;rmdir d"},
	{"readdir/rewind-sees-changes", "1",
	 "+mkdir d 755;+creat d/a 644;"
	 "opendir 0 d;rest 0;rest 0;creat d/b 644;unlink d/a;rewinddir 0;"
	 "rest 0"},
	{"readdir/other-user-adds", "1",
	 "+mkdir d 777;opendir 0 d;rest 0;"
	 "2:creat d/b 644;rewinddir 0;rest 0;ls d"},
	{"readdir/removed-directory", "1",
	 "+mkdir d 755;opendir 0 d;"
	 "rmdir d;rest 0;rewinddir 0;rest 0"},
	{"readdir/after-rename", "1",
	 "+mkdir d 755;+creat d/a 644;"
	 "opendir 0 d;skip 0 1;rename d e;rewinddir 0;rest 0;"
	 "rename e/a e/b;rewinddir 0;rest 0"},
	{"readdir/permission", "r12g",
	 "+1:mkdir a 311;+1:creat a/f 644;"
	 "+1:mkdir b 444;+r:mkdir c 770;+r:chown c 0 1003;ls a;cat a/f;"
	 "ls b;stat b/x;ls c;creat c/x 644;r:ls c"},
	END};
