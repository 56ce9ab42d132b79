# SPDX-License-Identifier: MIT
"""Prints what the last runs of tests/frameworks have recorded, as the table of the README."""

import glob
import json
import os

print("| framework | version | what commits a checkpoint | kills survived: rank, job, daemon | what to set |")
print("|---|---|---|---|---|")
for path in sorted(glob.glob(os.path.join(os.environ["BUILD"], "frameworks/results/*.json"))):
	with open(path, encoding="utf-8") as file:
		row = json.load(file)
	print("| %s | %s | %s | %s | %s |" % (row["name"], row["version"], row["commits"],
		", ".join(str(row["killed"][kind]) for kind in ("rank", "job", "daemon")), row["switches"]))
