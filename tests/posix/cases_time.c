// SPDX-License-Identifier: MIT
/* Cases on time stamps: setting them, and which calls change which. */
#include "posixcmp.h"

#define END \
	{ \
		NULL, NULL, NULL \
	}

const struct posix_case time_cases[] = {
	/* setting */
	{"utimens/values", "1",
	 "+creat f 644;utimens f 1000.5 2000.000000001;"
	 "times f;utimens f 3 omit;times f;utimens f omit 4.999999999;"
	 "times f;utimens f now omit;times f;utimens f omit omit;times f;"
	 "utimens f null;times f"},
	{"utimens/before-1970", "1",
	 "+creat f 644;utimens f -1 -5.5;times f;"
	 "utimens f -86400.123456789 -2000000000;times f"},
	{"utimens/far", "1",
	 "+creat f 644;utimens f 2147483648 4294967296;"
	 "times f;utimens f 10000000000 8589934592.25;times f"},
	{"utimens/bad", "1",
	 "+creat f 644;utimens f 5.1000000000 5;"
	 "utimens f 5 5.1999999999;utimens no 5 5;utimens f/x 5 5;"
	 "utimens f 1 1 0x8000;times f"},
	{"utimens/who", "r12g",
	 "+1:creat a 600;+1:creat b 666;+1:chmod b 666;"
	 "+1:creat c 444;+r:creat d 660;+r:chown d 0 1003;utimens a 5 6;"
	 "utimens a null;utimens b 5 6;utimens b null;utimens b now now;"
	 "utimens b now omit;utimens b omit 5;utimens b omit omit;"
	 "utimens c null;utimens c 5 6;utimens d null;utimens d 5 6"},
	{"utimens/fd", "12",
	 "+1:creat f 666;+1:chmod f 666;open 0 f RDONLY;"
	 "futimens 0 5 6;futimens 0 now now;open 1 f WRONLY;futimens 1 7 8;"
	 "futimens 1 now now;open 2 f PATH;futimens 2 5 5"},
	{"utimens/symlink", "1",
	 "+creat f 644;+symlink f l;"
	 "utimens l 5.5 6.5 NOFOLLOW;times l;utimens l 7 8;times l;times f"},
	{"utimens/dir", "1",
	 "+mkdir d 755;utimens d 5 6.000000007;times d;"
	 "open 0 d RDONLY;futimens 0 9 8;times d"},
	{"utimens/kept-by-close", "1",
	 "open 0 f RDWR|CREAT 644;write 0 abc;"
	 "futimens 0 1000 2000.5;close 0;times f;stat f"},
	{"utimens/kept-by-fsync", "1",
	 "open 0 f RDWR|CREAT 644;fill 0 20000;"
	 "utimens f 1000 2000.5;fsync 0;times f;close 0;times f"},
	{"utimens/write-after", "1",
	 "open 0 f RDWR|CREAT 644;"
	 "futimens 0 1000 2000;write 0 abc;times f;close 0;times f"},
	{"utimens/kept-by-rename", "1",
	 "+creat f 644 hi;"
	 "utimens f 1000 2000.000000003;rename f g;times g;link g h;times h"},

	/* what changes what, of a file */
	{"times/write", "1",
	 "+creat f 644 abc;open 0 f RDWR;mark f;"
	 "write 0 X;changed f;close 0;changed f"},
	{"times/write-nothing", "1",
	 "+creat f 644 abc;open 0 f RDWR;mark f;"
	 "write 0 '';changed f"},
	{"times/read", "1",
	 "+creat f 644 abc;open 0 f RDWR;mark f;read 0 3;"
	 "changed f"},
	{"times/open-close", "1",
	 "+creat f 644 abc;mark f;open 0 f RDWR;"
	 "close 0;changed f"},
	{"times/chmod", "1", "+creat f 644 abc;mark f;chmod f 600;changed f"},
	{"times/chmod-same", "1", "+creat f 644;mark f;chmod f 644;changed f"},
	{"times/chmod-refused", "2",
	 "+1:creat f 644;mark f;chmod f 600;"
	 "changed f"},
	{"times/chown-nothing", "1",
	 "+creat f 644;mark f;chown f -1 -1;"
	 "changed f"},
	{"times/chown-same", "1",
	 "+creat f 644;mark f;chown f 1001 1001;"
	 "changed f"},
	{"times/rename", "1", "+creat f 644 abc;mark f;rename f g;changed g"},
	{"times/rename-onto-itself", "1",
	 "+creat f 644 abc;mark f;"
	 "rename f f;changed f"},
	{"times/link", "1",
	 "+creat f 644 abc;mark f;link f g;changed f;"
	 "mark f;unlink g;changed f"},
	{"times/truncate-shorter", "1",
	 "+creat f 644 abc;mark f;"
	 "truncate f 1;changed f"},
	{"times/truncate-longer", "1",
	 "+creat f 644 abc;mark f;"
	 "truncate f 10;changed f"},
	{"times/truncate-same", "1",
	 "+creat f 644 abc;mark f;truncate f 3;"
	 "changed f"},
	{"times/ftruncate-same", "1",
	 "+creat f 644 abc;open 0 f RDWR;mark f;"
	 "ftruncate 0 3;changed f"},
	{"times/open-trunc", "1",
	 "+creat f 644 abc;mark f;"
	 "open 0 f RDWR|TRUNC;changed f"},
	{"times/open-trunc-empty", "1",
	 "+creat f 644;mark f;"
	 "open 0 f RDWR|TRUNC;changed f"},
	{"times/fallocate", "1",
	 "+creat f 644 abc;open 0 f RDWR;mark f;"
	 "fallocate 0 0 0 1000;changed f"},
	{"times/punch-hole", "1",
	 "+creat f 644 abcdef;open 0 f RDWR;mark f;"
	 "fallocate 0 PUNCH_HOLE|KEEP_SIZE 1 2;changed f"},
	{"times/setxattr", "1",
	 "+creat f 644 abc;mark f;setx f user.a x;"
	 "changed f;mark f;rmx f user.a;changed f"},
	{"times/utimens", "1",
	 "+creat f 644 abc;+utimens f 5 6;mark f;"
	 "utimens f 5 6;changed f;mark f;utimens f omit omit;changed f"},
	{"times/mmap-store", "1",
	 "+creat f 644 abc;open 0 f RDWR;"
	 "mmap 0 0 4096 R|W SHARED;mark f;poke 0 0 X;msync 0;changed f"},
	{"times/mmap-load", "1",
	 "+creat f 644 abc;open 0 f RDWR;"
	 "mmap 0 0 4096 R SHARED;mark f;peek 0 0 3;changed f"},
	{"times/copyrange", "1",
	 "+creat f 644 abc;+creat g 644;"
	 "open 0 f RDWR;open 1 g RDWR;mark g;copyrange 0 1 3;changed g"},
	{"times/fsync", "1",
	 "+creat f 644;open 0 f RDWR;write 0 x;mark f;"
	 "fsync 0;changed f;close 0;changed f"},
	{"times/other-process-sees", "1",
	 "+creat f 644 abc;open 0 f RDWR;"
	 "b:mark f;write 0 X;b:changed f;close 0;b:changed f"},
	{"times/unlinked", "1",
	 "+creat f 644;+link f g;mark g;unlink f;"
	 "changed g"},
	{"times/suid-lost", "2",
	 "+1:creat f 777 abc;+1:chmod f 6777;"
	 "open 0 f RDWR;mark f;write 0 x;changed f"},

	/* access time; mount options of both sides matter */
	{"times/atime-read", "1",
	 "+creat f 644 abc;+utimens f 1000 2000;"
	 "open 0 f RDONLY;mark f;read 0 3;changed-a f"},
	{"times/atime-read-noatime", "1",
	 "+creat f 644 abc;"
	 "+utimens f 1000 2000;open 0 f RDONLY|NOATIME;mark f;read 0 3;"
	 "changed-a f"},
	{"times/atime-read-at-end", "1",
	 "+creat f 644 abc;"
	 "+utimens f 1000 2000;open 0 f RDONLY;mark f;pread 0 3 100;"
	 "changed-a f;pread 0 0 0;changed-a f"},
	{"times/atime-recent", "1",
	 "+creat f 644 abc;open 0 f RDONLY;mark f;"
	 "read 0 1;mark f;read 0 1;changed-a f"},
	{"times/atime-readlink", "1",
	 "+symlink x l;"
	 "+utimens l 1000 2000 NOFOLLOW;mark l;readlink l;changed-a l"},
	{"times/atime-readdir", "1",
	 "+mkdir d 755;+utimens d 1000 2000;"
	 "mark d;ls d;changed-a d"},

	/* of a directory */
	{"times/dir-create", "1",
	 "+mkdir d 755;mark d;creat d/f 644;"
	 "changed d"},
	{"times/dir-mkdir", "1",
	 "+mkdir d 755;mark d;mkdir d/e 755;"
	 "changed d"},
	{"times/dir-unlink", "1",
	 "+mkdir d 755;+creat d/f 644;mark d;"
	 "unlink d/f;changed d"},
	{"times/dir-rmdir", "1",
	 "+mkdir d 755;+mkdir d/e 755;mark d;"
	 "rmdir d/e;changed d"},
	{"times/dir-symlink-mknod", "1",
	 "+mkdir d 755;mark d;"
	 "symlink x d/l;changed d;mark d;mknod d/p fifo 644;changed d"},
	{"times/dir-link", "1",
	 "+mkdir d 755;+creat f 644;mark d;"
	 "link f d/l;changed d"},
	{"times/dir-rename-within", "1",
	 "+mkdir d 755;+creat d/f 644;mark d;"
	 "rename d/f d/g;changed d"},
	{"times/dir-rename-out", "1",
	 "+mkdir d 755;+creat d/f 644;mark d;"
	 "rename d/f g;changed d"},
	{"times/dir-rename-in", "1",
	 "+mkdir d 755;+creat f 644;mark d;"
	 "rename f d/g;changed d"},
	{"times/dir-moved", "1",
	 "+mkdir d 755;+mkdir e 755;mark d;"
	 "rename d e/d;changed e/d"},
	{"times/dir-write-inside", "1",
	 "+mkdir d 755;+creat d/f 644;"
	 "open 0 d/f RDWR;mark d;write 0 x;close 0;chmod d/f 600;changed d"},
	{"times/dir-failed-create", "1",
	 "+mkdir d 755;+creat d/f 644;mark d;"
	 "mkdir d/f 755;unlink d/no;changed d"},
	{"times/dir-exchange", "1",
	 "+mkdir d 755;+creat d/f 644;"
	 "+creat d/g 644;mark d;rename d/f d/g EXCHANGE;changed d"},
	{"times/dir-chmod", "1", "+mkdir d 755;mark d;chmod d 700;changed d"},
	END};
