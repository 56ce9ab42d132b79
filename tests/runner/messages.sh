#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# needs: root
# A whole run fails when a message of engine/base/messages.h was never given; a part of a run does not ask.

. "${SRC:?}/tests/runner/tree.sh"

[ "$TEST_PRIVATE" = 1 ] || skip "needs namespaces"
needs_fuse
mkdir -p "$TREE/engine/base"
cat >"$TREE/engine/base/messages.h" <<'END'
#define MESSAGES_H
#define MSG_NO_SPACE "no space for %s"
#define MSG_LOST	"lost %s"
END
make_test a/one.sh <<'END'
setpriv --reuid=1001 --regid=1001 --clear-groups sh -c 'echo NO_SPACE >>"$CKPTFS_MESSAGE_LOG"'
END
run_tree
assert_contains "$OUT" "FAIL    messages/all-provoked: 1 messages that no test provokes"
assert_contains "$OUT" "never provoked: MSG_LOST"
assert_closing "1 passed, 1 failed, 0 skipped"
run_tree a
assert_closing "1 passed, 0 failed, 0 skipped"
make_test a/two.sh <<'END'
echo MSG_LOST >>"$CKPTFS_MESSAGE_LOG"
END
run_tree
assert_contains "$OUT" "ok      messages/all-provoked"
assert_closing "3 passed, 0 failed, 0 skipped"
assert_nothing_left
