// SPDX-License-Identifier: MIT
/* Cases between processes and memory: locks, mmap, sockets, fifos. */
#include "posixcmp.h"

#define END \
	{ \
		NULL, NULL, NULL \
	}

const struct posix_case proc_cases[] = {
	/* flock */
	{"flock/conflict", "1",
	 "+creat f 644;open 0 f RDWR;b:open 0 f RDWR;"
	 "flock 0 SH;b:flock 0 SH;flock 0 EX;b:flock 0 UN;flock 0 EX;"
	 "b:flock 0 SH;b:flock 0 EX;flock 0 UN;b:flock 0 EX"},
	{"flock/released-by-close", "1",
	 "+creat f 644;open 0 f RDWR;"
	 "b:open 0 f RDONLY;flock 0 EX;b:flock 0 EX;dup 1 0;close 0;"
	 "b:flock 0 EX;close 1;b:flock 0 EX"},
	{"flock/two-fds-of-a-process", "1",
	 "+creat f 644;open 0 f RDWR;"
	 "open 1 f RDWR;flock 0 EX;flock 1 EX;flock 1 SH;flock 0 UN;"
	 "flock 1 SH"},
	{"flock/read-only-fd", "12",
	 "+1:creat f 644;open 0 f RDONLY;"
	 "flock 0 EX;1:open 1 f RDWR;1:flock 1 EX;flock 0 UN;1:flock 1 EX"},
	{"flock/directory", "1",
	 "+mkdir d 755;open 0 d RDONLY;"
	 "b:open 0 d RDONLY;flock 0 EX;b:flock 0 EX;close 0;b:flock 0 EX"},
	{"flock/survives-rename-unlink", "1",
	 "+creat f 644;open 0 f RDWR;"
	 "flock 0 EX;rename f g;b:open 0 g RDWR;b:flock 0 EX;unlink g;"
	 "b:flock 0 EX;flock 0 UN;b:flock 0 EX"},
	{"flock/path-fd", "1", "+creat f 644;open 0 f PATH;flock 0 EX"},

	/* POSIX locks */
	{"lock/conflict", "1",
	 "+creat f 644 0123456789;open 0 f RDWR;"
	 "b:open 0 f RDWR;lock 0 WR 2 3;b:lock 0 WR 0 2;b:lock 0 WR 2 1;"
	 "b:lock 0 RD 4 1;b:lock 0 WR 5 1;b:getlock 0 WR 0 0;"
	 "b:getlock 0 RD 2 1;getlock 0 WR 0 2;getlock 0 WR 2 3;"
	 "lock 0 UN 3 1;b:lock 0 WR 3 1;b:lock 0 WR 4 1"},
	{"lock/shared", "1",
	 "+creat f 644;open 0 f RDWR;b:open 0 f RDWR;"
	 "lock 0 RD 0 0;b:lock 0 RD 0 0;b:lock 0 WR 0 0;b:getlock 0 WR 0 0;"
	 "b:getlock 0 RD 0 0;lock 0 WR 0 0;b:lock 0 UN 0 0;lock 0 WR 0 0"},
	{"lock/closed-by-any-fd", "1",
	 "+creat f 644;open 0 f RDWR;"
	 "b:open 0 f RDWR;lock 0 WR 0 0;b:lock 0 WR 0 0;open 1 f RDONLY;"
	 "close 1;b:lock 0 WR 0 0"},
	{"lock/same-process", "1",
	 "+creat f 644;open 0 f RDWR;open 1 f RDWR;"
	 "lock 0 WR 0 10;lock 1 WR 0 10;getlock 1 WR 0 10;lock 1 UN 0 0;"
	 "b:open 0 f RDWR;b:lock 0 WR 0 0"},
	{"lock/wrong-mode", "1",
	 "+creat f 644;open 0 f RDONLY;lock 0 WR 0 0;"
	 "lock 0 RD 0 0;open 1 f WRONLY;lock 1 RD 0 0;lock 1 WR 0 0"},
	{"lock/ranges", "1",
	 "+creat f 644;open 0 f RDWR;lock 0 WR -1 5;"
	 "lock 0 WR 10 -5;b:open 0 f RDWR;b:getlock 0 WR 0 0;lock 0 WR 0 -1;"
	 "lock 0 WR 9223372036854775807 5;lock 0 WR 9223372036854775806 1;"
	 "b:getlock 0 WR 100 0"},
	{"lock/two-users", "1",
	 "+creat f 666;+chmod f 666;open 0 f RDWR;"
	 "2:open 0 f RDWR;lock 0 WR 0 0;2:lock 0 WR 0 0;2:getlock 0 RD 0 5;"
	 "lock 0 UN 0 0;2:lock 0 WR 0 0"},
	{"lock/and-flock-are-apart", "1",
	 "+creat f 644;open 0 f RDWR;"
	 "b:open 0 f RDWR;flock 0 EX;b:lock 0 WR 0 0;lock 0 WR 0 0;"
	 "b:flock 0 EX"},

	/* OFD locks */
	{"ofd-lock/conflict", "1",
	 "+creat f 644;open 0 f RDWR;open 1 f RDWR;"
	 "ofdlock 0 WR 0 10;ofdlock 1 WR 5 1;ofdlock 1 WR 10 1;"
	 "ofdgetlock 1 WR 0 0;ofdgetlock 0 WR 0 5;ofdlock 0 UN 0 0;"
	 "ofdlock 1 WR 5 1"},
	{"ofd-lock/kept-by-other-close", "1",
	 "+creat f 644;open 0 f RDWR;"
	 "ofdlock 0 WR 0 0;open 1 f RDWR;close 1;b:open 0 f RDWR;"
	 "b:ofdlock 0 WR 0 0;dup 1 0;close 0;b:ofdlock 0 WR 0 0;close 1;"
	 "b:ofdlock 0 WR 0 0"},
	{"ofd-lock/against-posix", "1",
	 "+creat f 644;open 0 f RDWR;"
	 "b:open 0 f RDWR;ofdlock 0 WR 0 0;b:lock 0 WR 0 0;"
	 "b:getlock 0 WR 0 0;ofdlock 0 UN 0 0;b:lock 0 WR 0 0;"
	 "ofdlock 0 RD 0 0;ofdgetlock 0 RD 0 0"},

	/* mmap */
	{"mmap/shared", "1",
	 "+creat f 644 hello-world;open 0 f RDWR;"
	 "mmap 0 0 4096 R|W SHARED;peek 0 0 11;poke 0 0 HELLO;pread 0 11 0;"
	 "cat f;pwrite 0 W 6;peek 0 0 11;msync 0;munmap 0;cat f;stat f"},
	{"mmap/private", "1",
	 "+creat f 644 hello;open 0 f RDONLY;"
	 "mmap 0 0 4096 R|W PRIVATE;poke 0 0 XX;peek 0 0 5;pread 0 5 0;"
	 "munmap 0;cat f"},
	{"mmap/shared-read-only", "1",
	 "+creat f 644 hello;open 0 f RDONLY;"
	 "open 1 f WRONLY;mmap 0 0 4096 R SHARED;peek 0 0 5;pwrite 1 J 0;"
	 "peek 0 0 5;poke 0 0 X;mprotect 0"},
	{"mmap/errors", "r1",
	 "+1:creat f 644 hello;open 0 f RDONLY;"
	 "open 1 f WRONLY;open 2 f RDWR;open 3 . RDONLY;open 4 f PATH;"
	 "mmap 0 0 4096 R|W SHARED;mmap 0 1 4096 R SHARED;"
	 "mmap 0 1 4096 W SHARED;mmap 0 1 4096 W PRIVATE;"
	 "mmap 0 2 0 R SHARED;mmap 0 2 4096 R SHARED 1;mmap 0 3 4096 R SHARED;"
	 "mmap 0 4 4096 R SHARED;mmap 0 9 4096 R SHARED;mmap 0 2 4096 R 0;"
	 "mmap 0 2 4096 R VALIDATE;mmap 0 2 4096 R VALIDATE|SYNC"},
	{"mmap/beyond-end", "1",
	 "+creat f 644 hello;open 0 f RDWR;"
	 "mmap 0 0 12288 R|W SHARED;peek 0 0 10;peek 0 4090 5;peek 0 4096 1;"
	 "poke 0 8000 x;poke 0 100 tail;pread 0 200 0;fstat 0"},
	{"mmap/empty-file", "1",
	 "+creat f 644;open 0 f RDWR;"
	 "mmap 0 0 4096 R|W SHARED;peek 0 0 1;write 0 hi;peek 0 0 5"},
	{"mmap/truncate-under", "1",
	 "open 0 f RDWR|CREAT 644;fill 0 12288;"
	 "mmap 0 0 12288 R|W SHARED;peek 0 8192 3;ftruncate 0 4096;"
	 "peek 0 4095 1;peek 0 4096 1;ftruncate 0 12288;peek 0 4096 3;"
	 "poke 0 4096 new;pread 0 5 4096"},
	{"mmap/tail-is-zeroed", "1",
	 "+creat f 644 hello;open 0 f RDWR;"
	 "mmap 0 0 4096 R|W SHARED;poke 0 10 junk;msync 0;ftruncate 0 20;"
	 "pread 0 20 0;munmap 0;cat f"},
	{"mmap/two-processes", "1",
	 "+creat f 644 hello;open 0 f RDWR;"
	 "b:open 0 f RDWR;mmap 0 0 4096 R|W SHARED;b:mmap 0 0 4096 R SHARED;"
	 "poke 0 0 J;b:peek 0 0 5;b:pwrite 0 X 4;peek 0 0 5;b:pread 0 5 0"},
	{"mmap/after-close", "1",
	 "+creat f 644 hello;open 0 f RDWR;"
	 "mmap 0 0 4096 R|W SHARED;close 0;poke 0 0 J;peek 0 0 5;cat f;"
	 "munmap 0;cat f"},
	{"mmap/after-unlink", "1",
	 "+creat f 644 hello;open 0 f RDWR;"
	 "mmap 0 0 4096 R|W SHARED;unlink f;close 0;poke 0 0 J;peek 0 0 5;"
	 "msync 0;munmap 0;ls ."},
	{"mmap/store-then-truncate-open", "1",
	 "+creat f 644 hello;"
	 "open 0 f RDWR;mmap 0 0 4096 R|W SHARED;poke 0 0 J;"
	 "b:open 0 f RDWR|TRUNC;peek 0 0 1;b:write 0 new;peek 0 0 3;cat f"},
	{"mmap/second-page", "1",
	 "open 0 f RDWR|CREAT 644;fill 0 20000;"
	 "mmap 0 0 4096 R|W SHARED 8192;peek 0 0 8;poke 0 4090 Z;"
	 "pread 0 8 12280;cat f"},
	{"mmap/append-visible", "1",
	 "+creat f 644 abc;open 0 f RDWR|APPEND;"
	 "mmap 0 0 8192 R SHARED;peek 0 0 5;fill 0 5000;peek 0 5000 3"},
	{"mmap/execute", "1",
	 "+creat f 644 abc;open 0 f RDONLY;"
	 "mmap 0 0 4096 R|X PRIVATE;peek 0 0 3"},

	/* sockets and fifos */
	{"socket/exchange", "1",
	 "listen 0 s;stat s;b:connect 0 s;"
	 "accept 1 0;write 1 x;b:read 0 1;b:write 0 y;read 1 1;listen 2 s;"
	 "close 0;b:connect 1 s;unlink s;b:connect 1 s;open 3 s RDONLY"},
	{"socket/permission", "12",
	 "+1:listen 0 s;+1:chmod s 600;"
	 "connect 1 s;1:chmod s 222;connect 1 s;1:chmod s 444;connect 1 s"},
	{"socket/not-a-socket", "1",
	 "+creat f 644;+mknod s socket 644;"
	 "connect 0 f;connect 0 s;connect 0 no;connect 0 .;listen 0 f;"
	 "listen 0 no/s;open 1 s RDONLY;open 1 s RDWR"},
	{"socket/rename", "1",
	 "listen 0 s;rename s t;b:connect 0 t;"
	 "b:connect 1 s;link t u;b:connect 2 u"},
	{"fifo/exchange", "1",
	 "mknod p fifo 644;b:open 0 p RDONLY|NONBLOCK;"
	 "open 0 p WRONLY;b:read 0 5;write 0 hello;b:read 0 9;b:fstat 0;"
	 "close 0;b:read 0 5"},
	{"fifo/no-reader", "1",
	 "mknod p fifo 644;open 0 p WRONLY|NONBLOCK;"
	 "open 0 p RDONLY|NONBLOCK;read 0 1;open 1 p WRONLY|NONBLOCK;"
	 "write 1 a;read 0 5;close 0;write 1 b;seek 1 0 SET"},
	{"fifo/two-users", "2",
	 "+1:mknod p fifo 622;+1:chmod p 622;"
	 "+1:open 0 p RDWR|NONBLOCK;open 0 p RDONLY|NONBLOCK;"
	 "open 1 p WRONLY|NONBLOCK;write 1 hi;1:read 0 5"},
	{"fifo/rename-unlink-open", "1",
	 "mknod p fifo 644;"
	 "open 0 p RDWR|NONBLOCK;rename p q;open 1 q WRONLY|NONBLOCK;"
	 "write 1 x;read 0 5;unlink q;write 1 y;read 0 5;fstat 0"},
	END};

/* What one user alone can be refused: run on a mount of that user too. */
const struct posix_case perm_cases[] = {
	{"own/file-modes", "1",
	 "+creat a 000 x;+creat b 400 x;"
	 "+creat c 200 x;cat a;cat b;cat c;open 0 a WRONLY;open 0 b WRONLY;"
	 "open 0 c WRONLY;truncate b 0;truncate c 0;access a R;access b W;"
	 "access c W;chmod a 600;cat a"},
	{"own/dir-modes", "1",
	 "+mkdir d 755;+creat d/f 644 x;chmod d 500;"
	 "creat d/g 644;unlink d/f;rename d/f g;chmod d 300;ls d;cat d/f;"
	 "creat d/g 644;chmod d 600;ls d;cat d/f;stat d/f;chmod d 000;ls d;"
	 "stat d/f;chmod d 755;ls d"},
	{"own/not-root", "1",
	 "+creat f 644;chown f 0 -1;chown f -1 0;"
	 "mknod c char 666;mknod b block 666;setx f trusted.a x;"
	 "setcap f;ls ."},
	{"own/default-umask", "1",
	 "umask 022;mkdir d 777;"
	 "open 0 f RDWR|CREAT 666;stat d;stat f"},
	END};
