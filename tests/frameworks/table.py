# SPDX-License-Identifier: MIT
"""Prints the table of the README: what the last runs of tests/frameworks have recorded, and make bench has measured."""

import glob
import json
import os

TOP = os.path.join(os.environ["BUILD"], "frameworks")


def blocked():
	"""Of each framework that make bench measures: the time for which a save stands still, against the plain disk."""
	path = os.path.join(TOP, "blocked.json")
	if not os.path.exists(path):
		return {}
	with open(path, encoding="utf-8") as file:
		return json.load(file)


ratios = blocked()
print("| framework | version | what commits a checkpoint | kills survived: rank, job, daemon |"
	" blocked, against the plain disk | what to set |")
print("|---|---|---|---|---|---|")
for path in sorted(glob.glob(os.path.join(TOP, "results/*.json"))):
	with open(path, encoding="utf-8") as file:
		row = json.load(file)
	print("| %s | %s | %s | %s | %s | %s |" % (row["name"], row["version"], row["commits"],
		", ".join(str(row["killed"][kind]) for kind in ("rank", "job", "daemon")),
		"%.2fx" % ratios[row["name"]] if row["name"] in ratios else "", row["switches"]))
