// SPDX-License-Identifier: MIT
/* Cases on open files: reading, writing, size, space. */
#include "posixcmp.h"

#define END \
	{ \
		NULL, NULL, NULL \
	}

const struct posix_case file_cases[] = {
	/* read and write */
	{"write/basic", "r12",
	 "+r:chmod . 777;open 0 f RDWR|CREAT|EXCL 640;"
	 "write 0 hello;seek 0 0 SET;read 0 3;read 0 9;read 0 9;fstat 0;"
	 "close 0;close 0;cat f"},
	{"write/overwrite-middle", "1",
	 "+creat f 644 0123456789;"
	 "open 0 f RDWR;pwrite 0 AB 4;pread 0 4 3;seek 0 0 CUR;cat f"},
	{"write/hole", "1",
	 "open 0 f RDWR|CREAT 644;pwrite 0 x 100000;"
	 "fstat 0;pread 0 5 50000;pread 0 9 99998;pread 0 9 100001;cat f"},
	{"write/blocks", "1",
	 "open 0 f RDWR|CREAT 644;fill 0 300000;cat f;"
	 "pread 0 100 131000;fill 0 5000 4095;cat f;pread 0 4097 4090;stat f"},
	{"write/odd-pieces", "1",
	 "open 0 f RDWR|CREAT 644;fill 0 1 0;"
	 "fill 0 4097 1;fill 0 8191 4098;fill 0 131073 12289;fill 0 7 143362;"
	 "cat f;fstat 0;pread 0 20 143355"},
	{"write/through-two-fds", "1",
	 "+creat f 644 abcdef;open 0 f RDWR;"
	 "open 1 f RDWR;pwrite 0 X 1;pread 1 9 0;pwrite 1 Y 7;pread 0 9 0;"
	 "fstat 0;ftruncate 1 2;pread 0 9 0;fstat 0"},
	{"write/two-processes", "1",
	 "+creat f 644 abcdef;open 0 f RDWR;"
	 "b:open 0 f RDWR;write 0 XY;b:read 0 9;b:pwrite 0 Z 10;fstat 0;"
	 "pread 0 20 0;b:ftruncate 0 3;pread 0 20 0;stat f"},
	{"write/dup-shares-offset", "1",
	 "+creat f 644 abcdef;open 0 f RDWR;"
	 "dup 1 0;read 0 2;read 1 2;write 0 XX;seek 1 0 CUR;close 0;"
	 "pread 1 9 0"},
	{"write/empty", "1",
	 "+creat f 644 abc;open 0 f RDWR;write 0 '';"
	 "pwrite 0 '' 100;read 0 0;pread 0 0 50;fstat 0;close 0;"
	 "open 0 f RDONLY;write 0 '';read 0 0"},
	{"write/wrong-mode", "r1",
	 "+1:creat f 644 abc;open 0 f RDONLY;"
	 "write 0 x;pwrite 0 x 0;writev 0 a b;ftruncate 0 0;"
	 "fallocate 0 0 0 10;open 1 f WRONLY;read 1 3;pread 1 3 0;readv 1 3;"
	 "seek 1 0 END;fsync 0;fdatasync 0"},
	{"write/negative-offset", "1",
	 "+creat f 644 abc;open 0 f RDWR;"
	 "pwrite 0 x -1;pread 0 3 -1;pwrite 0 x 9223372036854775807;"
	 "pread 0 3 9223372036854775807;fstat 0"},
	{"write/bad-address", "1",
	 "+creat f 644 abcdefghijkl;open 0 f RDWR;"
	 "badbuf 0;fstat 0;pread 0 20 0"},
	{"write/iovecs", "1",
	 "open 0 f RDWR|CREAT 644;writev 0 a bcd ef;"
	 "writev 0 '' x '';writev-n 0 0;seek 0 0 SET;readv 0 1 0 2 5;readv 0 0 0;"
	 "writev-n 0 1024;writev-n 0 1025;writev-n 0 -1;fstat 0"},
	{"write/closed-slot", "1",
	 "write 5 x;read 5 3;fstat 5;fsync 5;"
	 "seek 5 0 SET;ftruncate 5 0;fchmod 5 600"},
	{"write/sync-flags", "1",
	 "open 0 f RDWR|CREAT|SYNC 644;write 0 hi;"
	 "open 1 f WRONLY|DSYNC|APPEND;write 1 more;cat f"},
	{"write/dir-fd", "1",
	 "+mkdir d 755;open 0 d RDONLY;read 0 10;"
	 "write 0 x;ftruncate 0 0;fsync 0;fdatasync 0;pread 0 5 0;"
	 "fallocate 0 0 0 10"},
	{"write/fsize-limit", "1",
	 "open 0 f RDWR|CREAT 644;fsize 10;"
	 "write 0 12345678;write 0 abcdef;write 0 x;pwrite 0 x 10;"
	 "pwrite 0 x 100;ftruncate 0 11;ftruncate 0 10;truncate f 20;"
	 "fallocate 0 0 0 20;fstat 0;cat f"},
	{"write/past-max-size", "1",
	 "open 0 f RDWR|CREAT 644;"
	 "ftruncate 0 9223372036854775807;pwrite 0 x 9223372036854775806;"
	 "fstat 0"},

	/* append */
	{"append/basic", "1",
	 "+creat f 644 abc;open 0 f RDWR|APPEND;"
	 "write 0 d;seek 0 0 CUR;seek 0 0 SET;write 0 e;seek 0 0 CUR;"
	 "pwrite 0 XY 0;cat f;fstat 0"},
	{"append/two-processes", "1",
	 "+creat f 644;"
	 "open 0 f WRONLY|APPEND;b:open 0 f WRONLY|APPEND;write 0 aa;"
	 "b:write 0 bbb;write 0 c;b:write 0 d;cat f"},
	{"append/two-users", "1",
	 "+creat f 666;+chmod f 666;"
	 "open 0 f WRONLY|APPEND;2:open 0 f WRONLY|APPEND;write 0 aa;"
	 "2:write 0 bbb;write 0 c;cat f"},
	{"append/after-truncate", "1",
	 "+creat f 644 abcdef;"
	 "open 0 f RDWR|APPEND;write 0 g;truncate f 2;write 0 h;cat f"},
	{"append/setfl", "1",
	 "+creat f 644 abc;open 0 f RDWR;setfl 0 APPEND;"
	 "write 0 d;setfl 0 0;write 0 e;pwrite 0 Z 0;cat f;seek 0 0 CUR"},
	{"append/and-truncate-flag", "1",
	 "+creat f 644 abc;"
	 "open 0 f WRONLY|APPEND|TRUNC;write 0 x;cat f;"
	 "open 1 f RDWR|CREAT|APPEND|TRUNC;write 1 yy;cat f"},

	/* lseek */
	{"seek/basic", "1",
	 "+creat f 644 0123456789;open 0 f RDWR;"
	 "seek 0 -1 SET;seek 0 5 SET;seek 0 -6 CUR;seek 0 -5 CUR;"
	 "seek 0 -3 END;read 0 9;seek 0 -11 END;seek 0 100 END;read 0 5;"
	 "write 0 x;fstat 0;seek 0 0 99;seek 0 1T SET;seek 0 1 CUR"},
	{"seek/data-and-hole", "1",
	 "+creat f 644 0123456789;open 0 f RDWR;"
	 "seek 0 0 DATA;seek 0 0 HOLE;seek 0 9 DATA;seek 0 9 HOLE;"
	 "seek 0 10 DATA;seek 0 10 HOLE;seek 0 11 DATA;seek 0 11 HOLE;"
	 "seek 0 -1 DATA;seek 0 -1 HOLE"},
	{"seek/sparse", "1",
	 "open 0 f RDWR|CREAT 644;ftruncate 0 1M;"
	 "fill 0 4096 524288;fsync 0;seek 0 0 DATA;seek 0 524288 HOLE;"
	 "seek 0 600000 DATA;seek 0 0 HOLE;read 0 5"},
	{"seek/empty-file", "1",
	 "+creat f 644;open 0 f RDWR;seek 0 0 DATA;"
	 "seek 0 0 HOLE;seek 0 0 END"},

	/* truncate */
	{"truncate/sizes", "1",
	 "+creat f 644 0123456789;truncate f 5;cat f;"
	 "truncate f 8;cat f;truncate f 0;stat f;truncate f 100000;stat f;"
	 "cat f;truncate f 1G;stat f;truncate f 3;cat f"},
	{"truncate/errors", "r12",
	 "+1:creat f 644 abc;+1:creat ro 444 abc;"
	 "+1:mkdir d 777;+1:mknod p fifo 666;truncate f -1;truncate d 0;"
	 "truncate p 0;truncate no 0;truncate ro 0;truncate f 1;"
	 "truncate d/x 0;truncate f/x 0;1:stat f;1:stat ro"},
	{"truncate/fd", "1",
	 "+creat f 644 abc;open 0 f RDONLY;ftruncate 0 0;"
	 "open 1 f WRONLY;ftruncate 1 -1;ftruncate 1 2;fstat 1;"
	 "ftruncate 1 2;open 2 . RDONLY;ftruncate 2 0;cat f"},
	{"truncate/fd-after-chmod", "1",
	 "+creat f 644 abcdef;open 0 f RDWR;"
	 "chmod f 000;ftruncate 0 3;write 0 X;pread 0 9 0;truncate f 1;"
	 "fstat 0"},
	{"truncate/zeroes-the-tail", "1",
	 "open 0 f RDWR|CREAT 644;"
	 "fill 0 10000;ftruncate 0 4500;ftruncate 0 10000;pread 0 20 4490;"
	 "cat f"},
	{"truncate/write-then-grow", "1",
	 "open 0 f RDWR|CREAT 644;"
	 "write 0 abc;ftruncate 0 10;pwrite 0 z 9;cat f;ftruncate 0 4;cat f;"
	 "pwrite 0 q 8;cat f"},
	{"truncate/open-flag-while-open", "1",
	 "+creat f 644 abcdef;"
	 "open 0 f RDWR;pread 0 9 0;b:open 0 f WRONLY|TRUNC;pread 0 9 0;"
	 "fstat 0;write 0 x;cat f"},

	/* fallocate */
	{"fallocate/plain", "1",
	 "open 0 f RDWR|CREAT 644;"
	 "fallocate 0 0 0 10000;fstat 0;fallocate 0 0 5000 100;fstat 0;"
	 "fallocate 0 0 20000 1;fstat 0;pread 0 5 19990"},
	{"fallocate/errors", "1",
	 "open 0 f RDWR|CREAT 644;fallocate 0 0 0 0;"
	 "fallocate 0 0 -1 10;fallocate 0 0 0 -1;"
	 "fallocate 0 PUNCH_HOLE 0 10;"
	 "fallocate 0 0 9223372036854775807 10;open 1 f RDONLY;"
	 "fallocate 1 0 0 10;mknod p fifo 644;open 2 p RDWR;"
	 "fallocate 2 0 0 10;fstat 0"},
	{"fallocate/keep-size", "1",
	 "+creat f 644 abc;open 0 f RDWR;"
	 "fallocate 0 KEEP_SIZE 0 100000;fstat 0;cat f"},
	{"fallocate/punch-hole", "1",
	 "open 0 f RDWR|CREAT 644;fill 0 50000;"
	 "fallocate 0 PUNCH_HOLE|KEEP_SIZE 5000 20000;cat f;fstat 0;"
	 "pread 0 10 4995;pread 0 10 24995;"
	 "fallocate 0 PUNCH_HOLE|KEEP_SIZE 45000 20000;fstat 0;cat f"},
	{"fallocate/zero-range", "1",
	 "open 0 f RDWR|CREAT 644;fill 0 50000;"
	 "fallocate 0 ZERO_RANGE 5000 20000;cat f;"
	 "fallocate 0 ZERO_RANGE 49000 5000;fstat 0;cat f;"
	 "fallocate 0 ZERO_RANGE|KEEP_SIZE 53000 5000;fstat 0"},
	{"fallocate/collapse-range", "1",
	 "open 0 f RDWR|CREAT 644;"
	 "fill 0 131072;fallocate 0 COLLAPSE_RANGE 0 65536;fstat 0;cat f"},
	{"fallocate/insert-range", "1",
	 "open 0 f RDWR|CREAT 644;"
	 "fill 0 131072;fallocate 0 INSERT_RANGE 65536 65536;fstat 0;cat f"},

	/* O_TMPFILE */
	{"open/tmpfile", "r12",
	 "+1:mkdir d 755;open 0 d RDWR|TMPFILE 640;"
	 "fstat 0;write 0 hi;linkfd 0 d/f;r:stat d/f;r:ls d"},
	{"open/tmpfile-errors", "1",
	 "+creat f 644;open 0 f RDWR|TMPFILE 600;"
	 "open 0 . RDONLY|TMPFILE 600;open 0 no RDWR|TMPFILE 600;ls ."},
	{"open/bad-flags", "1",
	 "+creat f 644;open 0 f 0x3;fstat 0;read 0 1;"
	 "write 0 x;open 1 f WRONLY|CREAT|EXCL 0;open 1 g RDONLY|CREAT 7777;"
	 "stat g"},
	{"open/create-mode-000", "r12",
	 "+r:chmod . 777;"
	 "open 0 f RDWR|CREAT 000;write 0 hi;pread 0 5 0;open 1 f RDONLY;"
	 "r:stat f"},
	{"open/create-suid", "r1",
	 "open 0 f RDWR|CREAT 6755;fstat 0;"
	 "write 0 x;fstat 0"},
	{"open/fds-keep-rights", "1",
	 "+creat f 644 abc;open 0 f RDWR;"
	 "chmod f 000;read 0 3;write 0 x;open 1 f RDONLY;reopen 2 0 RDONLY;"
	 "fsync 0;cat f"},
	{"open/rights-taken-by-root", "1",
	 "+creat f 644 abc;open 0 f RDWR;"
	 "r:chown f 0 0;r:chmod f 600;write 0 x;pread 0 5 0;ftruncate 0 2;"
	 "fchmod 0 644;r:stat f"},

	/* files without a name */
	{"unlinked/use", "1",
	 "open 0 f RDWR|CREAT 644;write 0 hello;"
	 "unlink f;fstat 0;pread 0 9 0;write 0 more;ftruncate 0 7;"
	 "pread 0 20 0;fchmod 0 600;fstat 0;fsync 0;stat f;close 0;ls ."},
	{"unlinked/reopen", "1",
	 "open 0 f RDWR|CREAT 644;write 0 hello;"
	 "unlink f;reopen 1 0 RDONLY;read 1 9;reopen 2 0 RDWR|TRUNC;fstat 0;"
	 "write 2 x;pread 0 5 0"},
	{"unlinked/link-back", "r1",
	 "open 0 f RDWR|CREAT 644;write 0 hello;"
	 "unlink f;linkfd 0 g;ls ."},
	{"unlinked/attributes", "1",
	 "open 0 f RDWR|CREAT 644;unlink f;"
	 "fsetx 0 user.a one;futimens 0 1000 2000;fchown 0 -1 1001;fstat 0;"
	 "fallocate 0 0 0 100;fstat 0"},
	{"unlinked/rename-over-open", "1",
	 "+creat f 644 old;+creat g 644 new;"
	 "open 0 f RDWR;rename g f;fstat 0;pread 0 5 0;pwrite 0 X 0;"
	 "reopen 1 0 RDONLY;read 1 5;cat f"},
	{"unlinked/two-processes", "1",
	 "+creat f 644 hello;open 0 f RDWR;"
	 "b:open 0 f RDWR;unlink f;b:write 0 HE;pread 0 9 0;close 0;"
	 "b:fstat 0;b:pread 0 9 0;ls ."},
	{"unlinked/dir-fd", "1",
	 "+mkdir d 755;open 0 d RDONLY|DIRECTORY;"
	 "rmdir d;fstat 0;openat 1 0 f RDWR|CREAT 644;openat 1 0 . RDONLY;"
	 "fchmod 0 700;fsync 0"},
	{"reopen/basic", "12",
	 "+1:creat f 644 hello;open 0 f RDONLY;"
	 "reopen 1 0 RDWR;write 1 HE;reopen 2 0 WRONLY|APPEND;write 2 x;"
	 "reopen 3 0 RDONLY|NOFOLLOW;open 4 f PATH;reopen 5 4 RDONLY;"
	 "read 5 9"},

	/* copies inside the kernel */
	{"copyrange/basic", "1",
	 "+creat f 644 0123456789;open 0 f RDONLY;"
	 "open 1 g RDWR|CREAT 644;copyrange 0 1 4;copyrange 0 1 100;"
	 "copyrange 0 1 5;cat g;copyrange 0 1 3 2 20;cat g;fstat 1"},
	{"copyrange/errors", "1",
	 "+creat f 644 0123456789;open 0 f RDWR;"
	 "open 1 g RDWR|CREAT 644;open 2 f RDWR|APPEND;open 3 . RDONLY;"
	 "open 4 f WRONLY;open 5 f RDONLY;copyrange 0 2 3;copyrange 3 1 3;"
	 "copyrange 0 3 3;copyrange 4 1 3;copyrange 0 5 3;"
	 "copyrange 0 0 5 0 2;copyrange 0 0 3 0 5;copyrange 0 1 3 -1 0;"
	 "copyrange 0 1 3 50 0;cat f;cat g"},
	{"copyrange/large", "1",
	 "open 0 f RDWR|CREAT 644;fill 0 300000;"
	 "open 1 g RDWR|CREAT 644;copyrange 0 1 250000 1000 77;cat g;"
	 "fstat 1"},
	{"copyrange/suid", "12",
	 "+1:creat f 644 abc;+1:creat g 666;"
	 "+1:chmod g 6777;open 0 f RDONLY;open 1 g RDWR;copyrange 0 1 3;"
	 "1:stat g;1:cat g"},
	{"sendfile/basic", "1",
	 "+creat f 644 0123456789;open 0 f RDONLY;"
	 "open 1 g RDWR|CREAT 644;sendfile 0 1 4;sendfile 0 1 100;cat g;"
	 "sendfile 1 0 4;open 2 g WRONLY|APPEND;sendfile 0 2 3"},
	{"splice/basic", "1",
	 "+creat f 644 0123456789;open 0 f RDONLY;"
	 "open 1 g RDWR|CREAT 644;splice 0 1 4;splice 0 1 100;cat g;"
	 "splice 1 0 4;open 2 g WRONLY|APPEND;splice 0 2 3"},
	{"splice/large", "1",
	 "open 0 f RDWR|CREAT 644;fill 0 60000;"
	 "seek 0 0 SET;open 1 g RDWR|CREAT 644;splice 0 1 60000;cat g"},

	{"statfs/name-max", "r12",
	 "+1:creat f 644;statfs .;statfs f;"
	 "statfs no;statfs f/x"},

	/* only with --big */
	{"big/read-2g", "1",
	 "open 0 f RDWR|CREAT 644;ftruncate 0 3G;"
	 "bigread 0 0x7fffffff;seek 0 0 CUR;bigread 0 0x7fffffff;"
	 "seek 0 0 CUR;bigread 0 10"},
	{"big/offsets", "1",
	 "open 0 f RDWR|CREAT 644;pwrite 0 x 4294967295;"
	 "pwrite 0 y 5G;pread 0 3 4294967294;fstat 0;seek 0 0 END;"
	 "write 0 end;pread 0 9 5368709119;ftruncate 0 4G;fstat 0"},
	END};
