#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# On a mount of root's users make what belongs to them; setgid directories, sticky directories and access by a
# supplementary group alone are as on a plain directory.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/fs/faults.bash"

needs_fuse
needs setpriv
mount_ckptfs
status_is "s['features']['act_as_caller'] == 'yes'" || skip "the daemon cannot act as its callers here"
mkdir "$TEST_TMP/plain"
cat >"$TEST_TMP/use.sh" <<'END'
umask 027
make() {
	touch "$1/file" && mkdir "$1/dir" && ln -s x "$1/link" && mkfifo "$1/fifo" && mkdir "$1/dir/sub"
	echo "$?"
}
case $1 in
open) make open ;;
setgid) make setgid ;;
group) make group; cat group/secret; cp open/none group/copy; chgrp 1003 group/file; chmod 2750 group/dir
	rm group/fifo; mv group/file group/moved ;;
sticky) rm -f sticky/roots sticky/other; mv sticky/other sticky/mine; touch sticky/new && mv sticky/new sticky/newer && rm sticky/newer ;;
esac 2>&1 | sed 's/cannot //'
END
for top in "$TEST_TMP/plain" "$MNT"; do
	cd "$top" || die "no $top"
	mkdir -m 777 open
	mkdir setgid
	chown 0:1003 setgid
	chmod 2777 setgid
	mkdir group
	echo secret >group/secret
	chown -R 0:1003 group
	chmod 770 group
	chmod 640 group/secret
	mkdir sticky
	chmod 1777 sticky
	touch sticky/roots sticky/other
	chown 1002:1002 sticky/other
	cd "$TEST_TMP" || die "no $TEST_TMP"
	log=$TEST_TMP/log.${top##*/}
	{
		cd "$top" || die "no $top"
		as_user 1001 sh "$TEST_TMP/use.sh" open
		as_user 1001 sh "$TEST_TMP/use.sh" setgid
		as_user 1002 sh "$TEST_TMP/use.sh" group
		as_user_groups 1001 1003,1004 sh "$TEST_TMP/use.sh" group
		as_user 1001 sh "$TEST_TMP/use.sh" sticky
		as_user_groups 1001 1003 chgrp 1003 open/file
		as_user_groups 1001 1003 chgrp 1004 open/file 2>&1
		as_user 1001 chown 1002 open/file 2>&1
		as_user 1002 chmod 777 open/file 2>&1
		find . -path ./.ckptfs -prune -o -printf '%P %y %m %U %G\n' | sed 's/^ d .*//' | sort
	} >"$log" 2>&1
	cd /
done
diff "$TEST_TMP/log.plain" "$TEST_TMP/log.mnt" || die "plain (<) and mount (>) differ"
assert_contains "$(cat "$TEST_TMP/log.mnt")" "group/moved f 640 1001 1003"
assert_contains "$(cat "$TEST_TMP/log.mnt")" "open/dir d 750 1001 1001"
umount_ckptfs
