// SPDX-License-Identifier: MIT
/* Cases on modes, owners, extended attributes. */
#include "posixcmp.h"

#define END \
	{ \
		NULL, NULL, NULL \
	}

const struct posix_case attr_cases[] = {
	/* chmod, chown beside the matrices */
	{"chmod/fd", "r12",
	 "+1:creat f 666;+1:chmod f 666;open 0 f RDWR;"
	 "fchmod 0 600;1:stat f;open 1 f RDONLY;fchmod 1 644;1:stat f;"
	 "open 2 f PATH;fchmod 2 600;open 3 . RDONLY;fchmod 3 700;1:stat ."},
	{"chmod/sgid-of-foreign-group", "r12g",
	 "+1:creat f 644;"
	 "+r:chown f 1001 1003;+1:mkdir d 755;+r:chown d 1001 1003;"
	 "chmod f 2755;1:stat f;chmod d 2755;1:stat d;chmod f 6755;1:stat f"},
	{"chmod/sticky-file", "r1",
	 "+1:creat f 644;chmod f 1644;stat f;"
	 "chmod . 1755;stat ."},
	{"chown/fd", "r12g",
	 "+1:creat f 644;open 0 f RDONLY;fchown 0 -1 -1;"
	 "fchown 0 1001 -1;fchown 0 -1 1003;1:stat f;fchown 0 1002 -1;"
	 "r:stat f"},
	{"chown/symlink", "r1g",
	 "+1:creat f 644;+1:symlink f l;"
	 "lchown l -1 1003;r:lstat l;r:lstat f;chown l -1 1003;r:lstat l;"
	 "r:lstat f;lchown l 1002 1002;r:lstat l"},
	{"chown/of-others", "12g",
	 "+r:creat f 666;+r:chown f 0 1003;"
	 "chown f -1 1003;chown f -1 -1;chown f 1001 1003;chmod f 666;"
	 "chmod f 777;r:stat f"},
	{"chown/large-ids", "r",
	 "+creat f 644;chown f 4294967294 4294967294;"
	 "stat f;chown f 65536 100000;stat f"},
	{"chown/missing", "r1",
	 "chown no 0 0;lchown no 0 0;+symlink no l;"
	 "chown l -1 -1;lchown l -1 -1;chown l/x 0 0"},

	/* suid and sgid go when others write */
	{"suid/write", "r12",
	 "+1:creat f 777 abc;+1:chmod f 6777;"
	 "open 0 f RDWR;fstat 0;write 0 X;fstat 0;1:stat f"},
	{"suid/pwrite-past-end", "r12",
	 "+1:creat f 777 abc;+1:chmod f 6777;"
	 "open 0 f WRONLY;pwrite 0 X 100;1:stat f"},
	{"suid/append", "r12",
	 "+1:creat f 777 abc;+1:chmod f 6777;"
	 "open 0 f WRONLY|APPEND;write 0 X;1:stat f"},
	{"suid/write-nothing", "12",
	 "+1:creat f 777 abc;+1:chmod f 6777;"
	 "open 0 f WRONLY;write 0 '';1:stat f"},
	{"suid/sgid-not-executable", "r12",
	 "+1:creat f 666 abc;"
	 "+1:chmod f 6666;open 0 f WRONLY;write 0 X;1:stat f;1:chmod f 2660;"
	 "r:write 0 Y;1:stat f"},
	{"suid/group-write", "g",
	 "+r:creat f 777;+r:chown f 0 1003;"
	 "+r:chmod f 6770;open 0 f RDWR;write 0 X;r:stat f"},
	{"suid/truncate", "r12",
	 "+1:creat f 777 abc;+1:chmod f 6777;"
	 "truncate f 1;1:stat f"},
	{"suid/truncate-to-same", "r12",
	 "+1:creat f 777 abc;"
	 "+1:chmod f 6777;truncate f 3;1:stat f"},
	{"suid/ftruncate", "r12",
	 "+1:creat f 777 abc;+1:chmod f 6777;"
	 "open 0 f RDWR;ftruncate 0 1;1:stat f"},
	{"suid/ftruncate-fd-kept", "12",
	 "+1:creat f 777 abc;open 0 f RDWR;"
	 "1:chmod f 6777;ftruncate 0 10;1:stat f;1:chmod f 6777;write 0 x;"
	 "1:stat f"},
	{"suid/open-trunc", "r12",
	 "+1:creat f 777 abc;+1:chmod f 6777;"
	 "open 0 f RDWR|TRUNC;1:stat f"},
	{"suid/open-only", "r12",
	 "+1:creat f 777 abc;+1:chmod f 6777;"
	 "open 0 f RDWR;close 0;1:stat f"},
	{"suid/fallocate", "r12",
	 "+1:creat f 777 abc;+1:chmod f 6777;"
	 "open 0 f RDWR;fallocate 0 0 0 1000;1:stat f"},
	{"suid/punch-hole", "12",
	 "+1:creat f 777 abcdef;+1:chmod f 6777;"
	 "open 0 f RDWR;fallocate 0 PUNCH_HOLE|KEEP_SIZE 1 2;1:stat f"},
	{"suid/mmap-store", "12",
	 "+1:creat f 777 abcdef;+1:chmod f 6777;"
	 "open 0 f RDWR;mmap 0 0 4096 R|W SHARED;poke 0 0 X;msync 0;"
	 "munmap 0;1:cat f"},
	{"suid/sendfile", "12",
	 "+1:creat f 777 abcdef;+1:chmod f 6777;"
	 "+1:creat in 644 xyz;open 0 f RDWR;open 1 in RDONLY;sendfile 1 0 3;"
	 "1:stat f"},
	{"suid/rename-link-utimens", "1",
	 "+creat f 755;+chmod f 6755;"
	 "rename f g;stat g;link g h;stat h;utimens h 5 5;stat h;"
	 "setx h user.a b;stat h"},

	/* sgid directories */
	{"sgid-dir/inherit", "r12g",
	 "+r:mkdir d 777;+r:chown d 0 1003;"
	 "+r:chmod d 2777;open 0 d/f RDWR|CREAT 644;mkdir d/d 755;"
	 "mknod d/p fifo 644;symlink x d/l;listen 1 d/s;r:stat d/f;"
	 "r:stat d/d;r:stat d/p;r:lstat d/l;r:stat d/s;mkdir d/d/e 700;"
	 "r:stat d/d/e"},
	{"sgid-dir/file-with-sgid", "r12g",
	 "+r:mkdir d 777;"
	 "+r:chown d 0 1003;+r:chmod d 2777;open 0 d/f RDWR|CREAT 2755;"
	 "r:stat d/f;open 1 d/g RDWR|CREAT 6770;r:stat d/g;"
	 "mknod d/h file 2711;r:stat d/h;mkdir d/i 2700;r:stat d/i;"
	 "open 2 d/j RDWR|CREAT 2644;r:stat d/j"},
	{"sgid-dir/rename-into", "1",
	 "+r:mkdir d 777;+r:chown d 0 1003;"
	 "+r:chmod d 2777;+creat f 644;rename f d/f;stat d/f;link d/f g;"
	 "stat g"},

	/* supplementary groups */
	{"groups/file", "12g",
	 "+r:creat f 660 hi;+r:chown f 0 1003;cat f;"
	 "open 0 f WRONLY;write 0 HO;access f R;access f W;access f X;"
	 "truncate f 1;r:stat f"},
	{"groups/dir", "12g",
	 "+r:mkdir d 770;+r:creat d/f 640 hi;"
	 "+r:chown d/f 0 1003;+r:chown d 0 1003;ls d;cat d/f;"
	 "open 0 d/n RDWR|CREAT 644;mkdir d/m 755;unlink d/f;rename d/n d/o;"
	 "symlink x d/l;r:ls d;access d R|W|X"},
	{"groups/search-only", "12g",
	 "+r:mkdir d 710;+r:creat d/f 644 hi;"
	 "+r:chown d 0 1003;ls d;cat d/f;creat d/n 644"},
	{"groups/chown-own", "1g",
	 "+1:creat f 644;chown f -1 1003;r:stat f;"
	 "chown f 1001 1003;chmod f 2770;r:stat f;chown f -1 1001;r:stat f"},
	{"groups/deny-group", "12g",
	 "+r:creat f 604 hi;+r:chown f 0 1003;"
	 "cat f;access f R"},
	{"groups/link-and-utimens", "g",
	 "+r:creat f 660 hi;"
	 "+r:chown f 0 1003;link f l;utimens f null;utimens f 5 5;r:ls ."},

	/* access */
	{"access/modes", "r12g",
	 "+1:creat a 000;+1:creat b 700;"
	 "+1:creat c 070;+1:creat d 007;+1:creat e 111;+1:creat g 444;"
	 "access a R;access a W;access a X;access b R;access b W;access b X;"
	 "access c R;access c X;access d R;access d W;access d X;access e R;"
	 "access e X;access g R;access g W;access g X;access a F"},
	{"access/effective", "r12g",
	 "+1:creat a 640;+r:creat b 640;"
	 "+r:chown b 0 1003;access a R EACCESS;access a W EACCESS;"
	 "access b R EACCESS;access b W EACCESS;access a X EACCESS"},
	{"access/dirs", "r12",
	 "+1:mkdir a 700;+1:creat a/f 666;"
	 "+1:mkdir b 711;+1:creat b/f 644;access a R;access a X;access a/f F;"
	 "access a/f R;access b R;access b X;access b/f R;access b/f W"},
	{"access/path-search", "12",
	 "+1:mkdir a 755;+1:mkdir a/b 755;"
	 "+1:creat a/b/f 644 hi;+1:chmod a 700;cat a/b/f;stat a/b/f;stat a;"
	 "stat a/b;stat a/no;chdir a;1:chmod a 000;1:cat a/b/f;stat a"},
	{"access/cwd-loses-search", "2",
	 "+1:mkdir a 755;+1:creat a/f 644 hi;"
	 "+chdir a;1:chmod a 700;cat f;stat .;stat ..;ls .;"
	 "1:chmod a 755;cat f"},
	{"access/after-change-by-other", "2",
	 "+1:creat f 600 hi;cat f;"
	 "1:chmod f 644;cat f;1:chmod f 600;cat f;r:chown f 1002 1002;cat f;"
	 "stat f"},

	/* running programs */
	{"exec/program", "r12", "+1:program p 755;exec p;stat p"},
	{"exec/modes", "r12g",
	 "+1:program a 644;+1:program b 700;"
	 "+1:program c 711;+1:program d 000;+r:program e 710;"
	 "+r:chown e 0 1003;exec a;exec b;exec c;exec d;exec e"},
	{"exec/script", "12",
	 "+1:script s 755;+1:script t 644;"
	 "+1:script u 711;exec s;exec t;exec u"},
	{"exec/others", "1",
	 "+creat f 755 junk;+creat e 755;+mkdir d 755;"
	 "exec f;exec e;exec d;exec no;exec f/x"},
	{"exec/busy", "1",
	 "+program p 755;start p;open 0 p WRONLY;"
	 "open 0 p RDWR|TRUNC;truncate p 0;open 1 p RDONLY;unlink p;ls ."},
	{"exec/being-written", "1",
	 "+program p 755;open 0 p RDWR;exec p;"
	 "close 0;exec p"},
	{"exec/renamed", "1",
	 "+program p 755;rename p q;exec q;exec p;"
	 "chmod q 644;exec q"},

	/* extended attributes */
	{"xattr/basic", "r12",
	 "+1:creat f 644;+1:mkdir d 755;"
	 "setx f user.a one;getx f user.a;setx f user.b two;listx f;"
	 "setx f user.a longer-value;getx f user.a;rmx f user.a;rmx f user.a;"
	 "getx f user.a;listx f;setx d user.a one;getx d user.a"},
	{"xattr/flags", "1",
	 "+creat f 644;setx f user.a x REPLACE;"
	 "setx f user.a x CREATE;setx f user.a y CREATE;"
	 "setx f user.a z REPLACE;getx f user.a;setx f user.a q 0x80;"
	 "setx f user.a q CREATE|REPLACE;getx f user.a"},
	{"xattr/empty-value", "1",
	 "+creat f 644;setx f user.a '';"
	 "getx f user.a;listx f;setx f user.b 'x;getx f user.b 0"},
	{"xattr/sizes", "1",
	 "+creat f 644;+setx f user.abc 0123456789;"
	 "getx f user.abc 0;getx f user.abc 9;getx f user.abc 10;listx f 0;"
	 "listx f 3;listx f 9"},
	{"xattr/large", "1",
	 "+creat f 644;setx f user.a @1000;"
	 "getx f user.a;setx f user.b @65536;getx f user.b;"
	 "setx f user.c @65537;listx f"},
	{"xattr/names", "r1",
	 "+1:creat f 644;setx f '' x;setx f noname x;"
	 "setx f user. x;setx f user x;setx f {n255} x;setx f user.{n250} x;"
	 "setx f user.{n251} x;getx f user.{n251};getx f nospace.a;"
	 "rmx f nospace.a;setx f system.a x;getx f system.a;getx f '';"
	 "setx f user.{raw} x;listx f"},
	{"xattr/trusted", "r12",
	 "+1:creat f 644;+r:setx f trusted.a one;"
	 "getx f trusted.a;listx f;setx f trusted.b two;rmx f trusted.a;"
	 "r:listx f"},
	{"xattr/other-kinds", "r1",
	 "+1:symlink no l;+1:mknod p fifo 644;"
	 "+1:mknod s socket 644;lsetx l user.a x;getx l user.a;listx l;"
	 "setx p user.a x;getx p user.a;setx s user.a x;listx s;"
	 "setx l user.a x"},
	{"xattr/permissions", "r12g",
	 "+1:creat f 600;+1:setx f user.a one;"
	 "+1:creat g 646;+1:chmod g 646;+1:setx g user.a one;"
	 "+r:creat h 660;+r:chown h 0 1003;getx f user.a;listx f;"
	 "setx f user.a x;rmx f user.a;getx g user.a;setx g user.a x;"
	 "getx h user.a;setx h user.a y;r:getx h user.a"},
	{"xattr/sticky-dir", "r12",
	 "+1:mkdir d 1777;setx d user.a x;"
	 "1:getx d user.a"},
	{"xattr/read-only-file", "r1",
	 "+1:creat f 444;setx f user.a x;"
	 "getx f user.a;open 0 f RDONLY;fsetx 0 user.b y;listx f;"
	 "rmx f user.b"},
	{"xattr/survives-rename", "1",
	 "+creat f 644;+setx f user.a one;"
	 "rename f g;getx g user.a;link g h;getx h user.a;unlink g;listx h;"
	 "creat f 644;listx f"},
	{"xattr/capability", "r12",
	 "+1:creat f 777 abc;+1:chmod f 777;"
	 "+r:setcap f;getx f security.capability;open 0 f RDWR;write 0 x;"
	 "r:getx f security.capability;r:stat f"},
	{"xattr/capability-truncate", "r12",
	 "+1:creat f 777 abc;"
	 "+1:chmod f 777;+r:setcap f;truncate f 1;"
	 "r:getx f security.capability"},
	{"xattr/capability-chown", "r",
	 "+creat f 755 abc;+setcap f;"
	 "chown f 1001 1001;getx f security.capability"},
	{"xattr/capability-by-user", "12",
	 "+1:creat f 755;setcap f;"
	 "rmx f security.capability;r:listx f"},
	{"xattr/security-by-user", "1",
	 "+creat f 644;"
	 "setx f security.other x;getx f security.other"},

	/* POSIX ACLs */
	{"acl/set-access", "r12",
	 "+1:creat f 600 hi;setacl f access;"
	 "2:cat f;1:stat f;1:chmod f 600;2:cat f"},
	{"acl/set-default", "1",
	 "+mkdir d 755;setacl d default;"
	 "creat d/f 666;stat d/f;2:access d/f R"},
	{"acl/none", "1",
	 "+creat f 644;getx f system.posix_acl_access;"
	 "listx f"},
	END};
