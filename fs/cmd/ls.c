/* SPDX-License-Identifier: MIT */
/* ckptfs ls: lists the checkpoints below a path, with their states. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/json.h"
#include "engine/base/message.h"
#include "fs/catalog.h"
#include "fs/cmd/cmd.h"
#include "fs/show.h"

static double age_s(const struct unit_entry *u, uint64_t now_ns)
{
	return ((double)now_ns - (double)u->time_ns) / NSEC_PER_SEC;
}

static void print_unit(const struct unit_entry *u, uint64_t now_ns)
{
	char size[SHOW_MAX] = "-", age[SHOW_MAX] = "-", ranks[16] = "-", nodes[16] = "-";
	char path[PATH_MAX];

	if (u->sized)
		show_size(size, (double)u->size);
	if (u->time_ns)
		show_age(age, age_s(u, now_ns));
	if (u->ranks)
		snprintf(ranks, sizeof(ranks), "%u", u->ranks);
	if (u->nodes)
		snprintf(nodes, sizeof(nodes), "%u", u->nodes);
	printf("%-11s %10s %6s %6s %8s  %s\n", u->word, size, ranks, nodes, age,
	       show_name(path, sizeof(path), u->path));
}

static json_t *unit_to_json(const struct unit_entry *u, uint64_t now_ns)
{
	json_t *o = json_pack("{s:s, s:s, s:f}", "state", u->word, "kind",
			      u->is_dir ? "directory" : "file", "age_s",
			      u->time_ns ? age_s(u, now_ns) : 0.0);

	show_path_json(o, u->path);
	json_object_set_new(o, "hidden", json_boolean(u->state == UNIT_HIDDEN));
	if (u->sized)
		json_object_set_new(o, "size", json_integer((json_int_t)u->size));
	if (!u->is_dir || !*u->generation)
		return o;
	if (u->sized)
		json_object_set_new(o, "files", json_integer((json_int_t)u->nr_files));
	json_object_set_new(o, "ranks", json_integer(u->ranks));
	json_object_set_new(o, "nodes", json_integer(u->nodes));
	json_object_set_new(o, "generation", json_string(u->generation));
	json_object_set_new(o, "sequence", json_integer((json_int_t)u->sequence));
	json_object_set_new(o, "committed_ns", json_integer((json_int_t)u->time_ns));
	return o;
}

/* --- the order --- */

/* In the order in which people count: the newest of a series comes last. */
static int by_name(const void *a, const void *b)
{
	return compare_natural(((const struct unit_entry *)a)->path,
			       ((const struct unit_entry *)b)->path);
}

/* The oldest first. */
static int by_age(const void *pa, const void *pb)
{
	const struct unit_entry *a = pa, *b = pb;
	int order = (a->time_ns > b->time_ns) - (a->time_ns < b->time_ns);

	return order ? order : by_name(a, b);
}

/* The smallest first. */
static int by_size(const void *pa, const void *pb)
{
	const struct unit_entry *a = pa, *b = pb;
	uint64_t sa = a->sized ? a->size : 0, sb = b->sized ? b->size : 0;

	return sa != sb ? (sa > sb) - (sa < sb) : by_name(a, b);
}

typedef int (*order)(const void *, const void *);

/* NULL: there is no such order. */
static order order_of(const char *word)
{
	return !strcmp(word, "name")   ? by_name
	       : !strcmp(word, "age")  ? by_age
	       : !strcmp(word, "size") ? by_size
				       : NULL;
}

/* --- the verb --- */

static void print_json(const struct catalog *c, const struct error *e, const char *good, bool ok,
		       uint64_t now_ns)
{
	json_t *list = json_array(), *answer;
	size_t i;

	for (i = 0; i < c->nr; i++)
		json_array_append_new(list, unit_to_json(&c->list[i], now_ns));
	answer = json_pack("{s:b, s:o}", "ok", ok, "units", list);
	if (e->err)
		json_object_set_new(answer, "error", error_to_json(e->err, e->text));
	if (good)
		json_object_set_new(answer, "newest_good", json_text(good));
	put_json(answer);
	json_decref(answer);
}

static int do_ls(const char *path, unsigned flags, order order, bool json)
{
	const struct unit_entry *newest;
	__cleanup_free char *good = NULL;
	char shown[PATH_MAX];
	uint64_t now_ns;
	struct catalog c;
	struct error e = {0};
	int err = catalog_read(&c, path, flags, complain, &e);
	bool ok = !err && !c.nr_unseen;
	size_t i;

	now_ns = clock_wall_ns();
	newest = newest_committed(&c);
	good = newest ? strdup(newest->path) : NULL;
	if (c.nr)
		qsort(c.list, c.nr, sizeof(*c.list), order);
	if (err)
		complain(e.text);
	if (json) {
		print_json(&c, &e, good, ok, now_ns);
	} else if (c.nr) {
		printf("%-11s %10s %6s %6s %8s  %s\n", "STATE", "SIZE", "RANKS", "NODES", "AGE",
		       "PATH");
		for (i = 0; i < c.nr; i++)
			print_unit(&c.list[i], now_ns);
		printf("newest good: %s\n",
		       good ? show_name(shown, sizeof(shown), good) : "none is committed");
	}
	catalog_finish(&c);
	return ok ? EXIT_DONE : EXIT_NO;
}

static const struct option longs[] = {{"help", no_argument, NULL, 'h'},
				      {"json", no_argument, NULL, 'j'},
				      {"all", no_argument, NULL, 'a'},
				      {"sort", required_argument, NULL, 's'},
				      {NULL, 0, NULL, 0}};

static int run_ls(const struct verb *v, int argc, char **argv)
{
	order order = by_name;
	unsigned flags = CATALOG_SIZED;
	bool json = false;
	int c;

	while ((c = getopt_long(argc, argv, "ha", longs, NULL)) != -1) {
		if (c == 'h')
			return verb_help(v);
		if (c == '?')
			return option_error(v, argv);
		if (c == 'j')
			json = true;
		else if (c == 's')
			order = order_of(optarg);
		else
			flags |= CATALOG_HIDDEN;
		if (!order)
			return usage_error(v, "--sort is name, age or size, not '%s'", optarg);
	}
	if (argc - optind != 1)
		return usage_error(v, "give one path");
	return do_ls(argv[optind], flags, order, json);
}

const struct verb verb_ls = {
	.name = "ls",
	.args = "[--all] [--sort=KEY] [--json] PATH",
	.summary = "list checkpoints, with their states",
	.help = "Lists directories that have a commit file, and checkpoint files (*.pt *.pth "
		"*.ckpt\n"
		"*.safetensors *.keras) that are in none of these, and at the end the newest that "
		"is\n"
		"committed, which `ckptfs latest` names. PATH may lie in a mount, in a backing, "
		"or\n"
		"anywhere. Size, ranks and nodes of a directory are those "
		"of its "
		"commit\n"
		"file, the age is the time since the commit, or the last write. The state is\n"
		"\n"
		"  committed    whole when it was saved; `ckptfs verify` reads whether it still "
		"is\n"
		"  modified     changed since; of a directory: a change to it is not committed "
		"yet\n"
		"  damaged      its commit file is, or cannot be read\n"
		"  foreign      not written by ckptfs\n"
		"  open, sealed, durable\n"
		"               in a mount: being saved, as `ckptfs why` tells of each\n"
		"\n"
		"and with --all, of what is hidden in a mount, as `ckptfs fsck` calls it:\n"
		"unfinished, unpublished, trash, unknown. A node that has the backing mounted may "
		"be\n"
		"writing these.\n"
		"\n"
		"  --all                also what is hidden\n"
		"  --sort=KEY           name (step-2 before step-10), age (the newest last), or "
		"size\n"
		"  --json               for machines\n",
	.longs = longs,
	.run = run_ls,
};
