#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Everyday programs on a directory: tar, dd, cp, gzip, sed, sort, find, sha256sum, ...
#
# usage: tools.bash DIR INPUT
#
# INPUT holds data.bin (random bytes) and tree.tar (a source tree). Whatever is written
# depends on these alone, so that two runs write the same bytes.
set -eu -o pipefail
dir=$1
input=$(realpath "$2")
cd "$dir"

start=${EPOCHREALTIME/[.,]/}

mkdir tree
tar -xf "$input/tree.tar" -C tree
tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --format=gnu -cf again.tar tree
cp -a tree copy
diff -r tree copy

dd if="$input/data.bin" of=dd.bin bs=1M conv=fsync status=none
dd if="$input/data.bin" of=odd.bin bs=12345 count=300 status=none
dd if="$input/data.bin" of=odd.bin bs=777 seek=1000 count=5 conv=notrunc status=none
dd if="$input/data.bin" of=sparse.bin bs=4096 seek=1000 count=1 status=none
truncate -s 10000001 sparse.bin
cp --sparse=always sparse.bin sparse-copy.bin
cmp sparse.bin sparse-copy.bin

gzip -n -1 <odd.bin >odd.gz
gzip -dc odd.gz | cmp - odd.bin
find tree -type f | LC_ALL=C sort >names
for i in 1 2 3 4 5 6 7 8 9 10; do
	echo "line $i" >>log
done
sed -i 's/line 7/line seven/' log
ln log log.hard
ln -s log log.soft
mv names names.txt
mkdir -p "with space/deeper"
cp odd.gz "with space/deeper/caf$(printf '\303\251')"
mv "with space" moved
chmod 640 log
rm -r copy
mkfifo pipe
cat log >pipe &
cat pipe >from-pipe
wait $!
rm pipe
mkdir sums
find . -type f ! -path './sums/*' -print0 | LC_ALL=C sort -z | xargs -0 sha256sum >sums/SHA256
sha256sum --quiet -c sums/SHA256

end=${EPOCHREALTIME/[.,]/}
printf 'blocked %d.%03d\n' $(((end - start) / 1000000)) $(((end - start) / 1000 % 1000))
