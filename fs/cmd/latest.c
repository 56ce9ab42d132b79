/* SPDX-License-Identifier: MIT */
/* ckptfs latest: the newest checkpoint below a directory. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "fs/catalog.h"
#include "fs/cmd/cmd.h"
#include "fs/verify.h"

struct latest {
	struct catalog catalog;
	bool verify, json;
};

/* Changes to a directory are commits of their own; what was changed in a file is in none. */
static bool is_committed(const struct unit_entry *u)
{
	return u->state == UNIT_COMMITTED || (u->state == UNIT_MODIFIED && u->is_dir);
}

static int by_parent(const struct unit_entry *a, const struct unit_entry *b)
{
	size_t la = path_parent(a->path), lb = path_parent(b->path);
	int order = memcmp(a->path, b->path, la < lb ? la : lb);

	return order ? order : (la > lb) - (la < lb);
}

/* The directories of one parent beside each other, the newest last. */
static int by_parent_and_sequence(const void *pa, const void *pb)
{
	const struct unit_entry *a = pa, *b = pb;
	int order = by_parent(a, b);

	if (!order)
		order = (a->is_dir > b->is_dir) - (a->is_dir < b->is_dir);
	if (!order && a->is_dir)
		order = (a->sequence > b->sequence) - (a->sequence < b->sequence);
	if (!order)
		order = (a->time_ns > b->time_ns) - (a->time_ns < b->time_ns);
	return order ? order : strcmp(a->path, b->path);
}

/*
 * The newest: beside each other the sequence decides, which no clock can spoil; so only the last
 * directory of each parent is compared by time with others, and every file.
 */
static struct unit_entry *newest_committed(const struct catalog *c)
{
	struct unit_entry *best = NULL, *last = NULL;
	size_t i;

	for (i = 0; i <= c->nr; i++) {
		struct unit_entry *u = i < c->nr ? &c->list[i] : NULL;

		if (u && !is_committed(u))
			continue;
		/* @last is no more than a candidate if a sibling outdoes it. */
		if (last && !(u && u->is_dir && last->is_dir && !by_parent(u, last)) &&
		    (!best || last->time_ns >= best->time_ns))
			best = last;
		last = u;
	}
	return best;
}

static struct unit_entry *newest_foreign(const struct catalog *c)
{
	struct unit_entry *best = NULL;
	size_t i;

	for (i = 0; i < c->nr; i++) {
		struct unit_entry *u = &c->list[i];

		if (u->state == UNIT_FOREIGN && (!best || u->time_ns >= best->time_ns))
			best = u;
	}
	return best;
}

/* --- does it verify? --- */

static void ignore_file(void *arg, const struct verified *f)
{
	(void)arg, (void)f;
}

static void ignore_unit(void *arg, const char *path, const struct listing *l, bool ok,
			unsigned nr_unlisted)
{
	(void)arg, (void)path, (void)l, (void)ok, (void)nr_unlisted;
}

static bool verifies(const struct unit_entry *u)
{
	struct verify v = {.file = ignore_file, .unit = ignore_unit, .complain = complain};

	verify_start(&v);
	return verify_path(&v, u->path) && verify_is_ok(&v);
}

/* Those that do not verify are passed over, and told. */
static struct unit_entry *newest_that_verifies(struct catalog *c)
{
	char text[MESSAGE_MAX];
	struct unit_entry *u;

	while ((u = newest_committed(c))) {
		if (verifies(u))
			return u;
		MESSAGE(text, LATEST_SKIPPED, u->path);
		complain(text);
		u->state = UNIT_DAMAGED;
	}
	return NULL;
}

/* --- the verb --- */

static void print_answer(const struct latest *l, const struct unit_entry *u, const char *message)
{
	json_t *o;

	if (!l->json) {
		if (u)
			printf("%s\n", u->path);
		return;
	}
	o = json_pack("{s:b, s:o?}", "ok", u != NULL, "message",
		      message ? json_text(message) : NULL);
	if (u) {
		show_path_json(o, u->path);
		json_object_set_new(o, "state", json_string(u->word));
		json_object_set_new(o, "kind", json_string(u->is_dir ? "directory" : "file"));
		json_object_set_new(o, "time_ns", json_integer((json_int_t)u->time_ns));
		json_object_set_new(o, "verified", json_boolean(l->verify));
	}
	if (u && u->is_dir) {
		json_object_set_new(o, "generation", json_string(u->generation));
		json_object_set_new(o, "sequence", json_integer((json_int_t)u->sequence));
	}
	json_dumpf(o, stdout, JSON_INDENT(2));
	putchar('\n');
	json_decref(o);
}

static int do_latest(struct latest *l, const char *path)
{
	struct catalog *c = &l->catalog;
	struct unit_entry *u = NULL;
	struct error e = {0};

	if (catalog_read(c, path, 0, complain, &e)) {
		complain(e.text);
		print_answer(l, NULL, e.text);
		return EXIT_NO;
	}
	if (c->nr)
		qsort(c->list, c->nr, sizeof(*c->list), by_parent_and_sequence);
	u = l->verify ? newest_that_verifies(c) : newest_committed(c);
	if (!u && !l->verify) {
		u = newest_foreign(c);
		if (u)
			MESSAGE(e.text, LATEST_FOREIGN, u->path, path);
	}
	if (!u && l->verify)
		MESSAGE(e.text, LATEST_UNVERIFIED, path);
	else if (!u)
		MESSAGE(e.text, LATEST_NONE, path);
	if (*e.text)
		complain(e.text);
	print_answer(l, u, *e.text ? e.text : NULL);
	return u ? EXIT_DONE : EXIT_NO;
}

static int run_latest(const struct verb *v, int argc, char **argv)
{
	static const struct option longs[] = {{"help", no_argument, NULL, 'h'},
					      {"json", no_argument, NULL, 'j'},
					      {"verify", no_argument, NULL, 'v'},
					      {NULL, 0, NULL, 0}};
	struct latest l = {0};
	int c, status;

	while ((c = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
		if (c == 'h')
			return verb_help(v);
		if (c == '?')
			return usage_error(v, "cannot use these options");
		if (c == 'j')
			l.json = true;
		else
			l.verify = true;
	}
	if (argc - optind != 1)
		return usage_error(v, "give one directory");
	status = do_latest(&l, argv[optind]);
	catalog_finish(&l.catalog);
	return status;
}

const struct verb verb_latest = {
	.name = "latest",
	.args = "[--verify] [--json] DIR",
	.summary = "the newest committed checkpoint below DIR",
	.help = "Prints the path of the newest checkpoint at any depth: of directories beside each "
		"other\n"
		"the one with the highest sequence number in its commit file, otherwise the one\n"
		"committed last; files by their last write. One that is being saved, or was "
		"changed\n"
		"since, does not count. If none is committed: the newest checkpoint file (*.pt "
		"*.pth\n"
		"*.ckpt *.safetensors *.keras) that ckptfs did not write, which is said on "
		"standard\n"
		"error. Exit 1 if there is nothing to name.\n"
		"\n"
		"  --verify             the newest that `ckptfs verify` finds to be ok\n"
		"  --json               for machines\n",
	.run = run_latest,
};
