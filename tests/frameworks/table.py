# SPDX-License-Identifier: MIT
"""Prints the tables of the README: what the last runs of tests/frameworks have recorded, and make bench has measured; and
those of make check-cluster, on two nodes."""

import glob
import json
import os

TOP = os.path.join(os.environ["BUILD"], "frameworks")


def rows(where):
	for path in sorted(glob.glob(os.path.join(TOP, where, "*.json")), key=lambda path: path.replace("_on_two_nodes", "")):
		with open(path, encoding="utf-8") as file:
			yield json.load(file)


def survived(row, *kinds):
	return times(row["killed"][kind] for kind in ("rank", "job", "daemon", *kinds))


def blocked():
	"""Of each framework that make bench measures: the time for which a save stands still, against the plain disk."""
	path = os.path.join(TOP, "blocked.json")
	if not os.path.exists(path):
		return {}
	with open(path, encoding="utf-8") as file:
		return json.load(file)


def times(numbers):
	return ", ".join(map(str, numbers))


def cost(row):
	return times(row["costs"]) + ("; %d captured" % row["captured"] if row.get("captured") else "")


def to_set(row):
	said = []
	for rule in row["rules"]:
		said.append("a rule of your own for `%s`; without it: an ordinary file" % "`, `".join(rule["match"]))
	if row.get("lazily"):
		said.append(row["lazily"])
	if row["switch"]:
		said.append("%s: %s" % (row["switch"], times(row["switched"])))
	if not row["prompt"]:
		said.append("a smaller `quiet_s`, to have the last one committed sooner")
	return "; ".join(said) or "none" + (row["fsyncs"] > 0) * ": its fsyncs do not wait for the storage"


def main():
	ratios = blocked()
	print("| framework | version | what commits a checkpoint | kills survived: rank, job, daemon "
		"| blocked, against the plain disk | states written to the mount, to TMPDIR, copied in memory | what to set |")
	print("|---|---|---|---|---|---|---|")
	for row in rows("results"):
		ratio = "%.2fx" % ratios[row["name"]] if row["name"] in ratios else ""
		print("| %s | %s | %s | %s | %s | %s | %s |" % (row["name"], row["version"], row["commits"], survived(row),
			ratio, cost(row), to_set(row)))
	print("\n| on two nodes | kills survived: rank, job, daemon, node |\n|---|---|")
	for row in rows("results.nodes"):
		print("| %s | %s |" % (row["name"], survived(row, "node")))


main()
