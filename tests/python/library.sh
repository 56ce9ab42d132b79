#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Where the Python package finds libckptfs: CKPTFS_LIB, its source tree, itself, the system, beside the command, the tree that
# pip has installed it from. Without the library it says where it looked and how to have it; of one of another release what
# that lacks. Its structs are those of the header. Importing it imports neither torch nor the library.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/python/python.bash"

program <<'END'
import sys
import ckptfs
from ckptfs import _lib
assert "torch" not in sys.modules and "numpy" not in sys.modules and _lib._loaded is None
assert set(ckptfs.__all__) >= {"save", "load", "Session", "barrier", "wait", "latest"}
try:
	ckptfs.nothing
except AttributeError as error:
	assert "'nothing'" in str(error)
else:
	raise AssertionError
END

cat >found.py <<'END'
import sys
from ckptfs import _lib, LibraryNotFound
try:
	_lib.library()
except LibraryNotFound as error:
	print(error)
	sys.exit(1)
print("loaded", [line.split()[-1] for line in open("/proc/self/maps") if "libckptfs" in line][0])
END
library=$(readlink -f "$BUILD/lib/libckptfs.so.1")
for told in "$BUILD/lib" "$library"; do
	expect_ok env CKPTFS_LIB="$told" python3 found.py
	assert_eq "$OUT" "loaded $library"
done
unset CKPTFS_LIB

# A source tree has its build directory, before what is installed.
mkdir -p tree/client/python tree/build/lib tree/system
cp "$SRC"/client/*.h tree/client
cp -r "$SRC/client/python/ckptfs" tree/client/python
cp "$library" tree/build/lib
cp "$library" tree/system
export PYTHONPATH=$TEST_TMP/tree/client/python LD_LIBRARY_PATH=$TEST_TMP/tree/system
expect_ok python3 found.py
assert_eq "$OUT" "loaded $TEST_TMP/tree/build/lib/libckptfs.so.1"
rm tree/build/lib/*
expect_ok python3 found.py
assert_eq "$OUT" "loaded $TEST_TMP/tree/system/libckptfs.so.1"
# A copy in the package comes before the system's.
cp "$library" tree/client/python/ckptfs
expect_ok python3 found.py
assert_eq "$OUT" "loaded $TEST_TMP/tree/client/python/ckptfs/libckptfs.so.1"
rm tree/system/* tree/client/python/ckptfs/libckptfs.so.1

# Beside the command, as `make install` into any prefix leaves it, whatever the linker's cache knows.
unset LD_LIBRARY_PATH
search=$PATH
mkdir -p prefix/bin prefix/lib64 python/ckptfs-0.1.0.dist-info
touch prefix/bin/ckptfs
chmod +x prefix/bin/ckptfs
cp "$library" prefix/lib64
cp -r tree/client/python/ckptfs python
export PYTHONPATH=$TEST_TMP/python PATH=$TEST_TMP/prefix/bin:/usr/bin:/bin
if ! /sbin/ldconfig -p 2>/dev/null | grep -q libckptfs && ! ls /usr/local/lib*/libckptfs* /usr/lib*/libckptfs* 2>/dev/null; then
	expect_ok python3 found.py
	assert_eq "$OUT" "loaded $TEST_TMP/prefix/lib64/libckptfs.so.1"
	rm -r prefix
	# pip notes where it has installed it from.
	printf 'Metadata-Version: 2.1\nName: ckptfs\nVersion: 0.1.0\n' >python/ckptfs-0.1.0.dist-info/METADATA
	printf '{"dir_info": {}, "url": "file://%s/client/python"}' "$TEST_TMP/tree" >python/ckptfs-0.1.0.dist-info/direct_url.json
	cp "$library" tree/build/lib
	expect_ok python3 found.py
	assert_eq "$OUT" "loaded $TEST_TMP/tree/build/lib/libckptfs.so.1"
	rm tree/build/lib/*
	expect_fail python3 found.py
	for place in "$TEST_TMP/python/ckptfs/libckptfs.so.1: not there" "libckptfs.so.1: the system's loader does not know it" \
		"/usr/local/lib/libckptfs.so.1: not there" "/usr/lib/libckptfs.so.1: not there" "$TEST_TMP/tree/build/lib/libckptfs.so.1: not there" \
		'To have it: install it (`make install` in the source tree of ckptfs), then run `sudo ldconfig`; or set CKPTFS_LIB'; do
		assert_contains "$OUT" "$place"
	done
fi
export PATH=$search PYTHONPATH=$TEST_TMP/tree/client/python
# What is told counts alone; and what is no libckptfs is none.
expect_fail env CKPTFS_LIB=/nowhere/libckptfs.so.1 LD_LIBRARY_PATH="$BUILD/lib" python3 found.py
assert_contains "$OUT" "no libckptfs: /nowhere/libckptfs.so.1: not there. To have it: correct or unset CKPTFS_LIB"
expect_fail env CKPTFS_LIB="$(/sbin/ldconfig -p | sed -n 's/.*libm\.so\.6.* => //p' | head -n 1)" python3 found.py
assert_contains "$OUT" "it is no libckptfs"

needs cc
echo 'const char *ckptfs_version(void) { return "0.0.9"; } int ckptfs_open(void) { return 0; }' >old.c
expect_ok cc -shared -fPIC -o old.so old.c
expect_fail env CKPTFS_LIB="$TEST_TMP/old.so" python3 found.py
assert_contains "$OUT" "it is of release 0.0.9 and lacks ckptfs_close, and this package is of release 0.1.0: use those of one release"

cat >sizes.c <<'END'
#include <stdio.h>
#include "client/ckptfs.h"
#define S(c, python) printf("assert ctypes.sizeof(_lib.%s) == %zu, '%s'\n", #python, sizeof(struct c), #c)
#define O(c, python, field) printf("assert _lib.%s.%s.offset == %zu, '%s'\n", #python, #field, offsetof(struct c, field), #c "." #field)
int main(void)
{
	S(ckptfs_options, Options);
	O(ckptfs_options, Options, arena_bytes);
	O(ckptfs_options, Options, threads);
	S(ckptfs_tensor_info, TensorInfo);
	O(ckptfs_tensor_info, TensorInfo, dtype);
	O(ckptfs_tensor_info, TensorInfo, global_shape);
	O(ckptfs_tensor_info, TensorInfo, bytes);
	O(ckptfs_tensor_info, TensorInfo, eager);
	S(ckptfs_write_op, WriteOp);
	O(ckptfs_write_op, WriteOp, addr);
	O(ckptfs_write_op, WriteOp, pitch);
	S(ckptfs_session_stats, SessionStats);
	O(ckptfs_session_stats, SessionStats, arena_bytes);
	printf("assert (_lib.HOST, _lib.HOST_PINNED, _lib.CUDA, _lib.CUDA_MANAGED) == (%d, %d, %d, %d)\n", CKPTFS_HOST,
	       CKPTFS_HOST_PINNED, CKPTFS_CUDA, CKPTFS_CUDA_MANAGED);
	printf("assert (_lib.STORAGE, _lib.TENSOR, _lib.OBJECT) == (%d, %d, %d)\n", CKPTFS_STORAGE, CKPTFS_TENSOR, CKPTFS_OBJECT);
	printf("assert (_lib.CAPTURED, _lib.DURABLE, _lib.COMMITTED) == (%d, %d, %d)\n", CKPTFS_CAPTURED, CKPTFS_DURABLE,
	       CKPTFS_COMMITTED);
	printf("assert (_lib.VERIFY, _lib.STRUCTURE) == (%u, %u)\n", CKPTFS_LATEST_VERIFY, CKPTFS_LATEST_STRUCTURE);
	printf("assert _lib.library().ckptfs_version() == b'%s'\n", CKPTFS_VERSION);
	printf("assert _lib.LANDED == %u\n", CKPTFS_BARRIER_LANDED);
	printf("assert ckptfs.__version__ == '%s'\n", CKPTFS_VERSION);
	return 0;
}
END
expect_ok cc -I"$SRC" -o sizes sizes.c
export PYTHONPATH=$SRC/client/python CKPTFS_LIB=$BUILD/lib
(echo "import ctypes, ckptfs; from ckptfs import _lib" && ./sizes) | program
