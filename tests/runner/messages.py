# SPDX-License-Identifier: MIT
"""The check that some test provoked every message that the engine can give.

The daemon and the command append the id of each message they give to $CKPTFS_MESSAGE_LOG, one a
line, with or without MSG_; the ids are those that engine/base/messages.h defines.
"""

import os
import re

NAME = "messages/all-provoked"


def never_provoked(root, log):
    """The ids that are not in the log; None where the header defines none."""
    header = os.path.join(root, "engine", "base", "messages.h")
    if not os.path.exists(header):
        return None
    with open(header, encoding="utf-8") as file:
        defined = re.findall(r'^#define[ \t]+MSG_(\w+)[ \t]+(?:\\\n[ \t]*)?"', file.read(), re.M)
    with open(log, encoding="utf-8", errors="replace") as file:
        seen = {re.sub("^MSG_", "", line.strip()) for line in file}
    return [name for name in defined if name not in seen] if defined else None
