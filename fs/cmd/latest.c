/* SPDX-License-Identifier: MIT */
/* ckptfs latest: prints the newest checkpoint below a directory. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/base/json.h"
#include "engine/base/message.h"
#include "fs/catalog.h"
#include "fs/cmd/cmd.h"
#include "fs/verify.h"

struct latest {
	struct catalog catalog;
	bool verify, structure, json; /* structure: verify reads no content */
	/* for libckptfs: prints an empty line if there is none; no line at all proves nothing */
	bool say_none;
};

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

/* Names what is newer than @best and uncommitted: the user sees why it was passed over. */
static void say_passed_over(const struct catalog *c, const struct unit_entry *best)
{
	const struct unit_entry *newest = NULL;
	char text[MESSAGE_MAX];
	size_t i;

	for (i = 0; i < c->nr; i++) {
		const struct unit_entry *u = &c->list[i];

		if (u != best && u->state != UNIT_COMMITTED && u->state != UNIT_FOREIGN &&
		    u->state != UNIT_HIDDEN && u->time_ns > best->time_ns &&
		    (!newest || u->time_ns > newest->time_ns))
			newest = u;
	}
	if (!newest)
		return;
	MESSAGE(text, LATEST_PASSED, newest->path, newest->word);
	complain(text);
}

/* --- verification --- */

static void ignore_file(void *arg, const struct verified *f)
{
	(void)arg, (void)f;
}

static void ignore_unit(void *arg, const char *path, const struct listing *l, bool ok,
			unsigned nr_unlisted)
{
	(void)arg, (void)path, (void)l, (void)ok, (void)nr_unlisted;
}

static bool verifies(const struct unit_entry *u, bool structure_only)
{
	struct verify v = {.file = ignore_file,
			   .unit = ignore_unit,
			   .complain = complain,
			   .structure_only = structure_only};

	verify_start(&v);
	return verify_path(&v, u->path) && verify_is_ok(&v);
}

/* Skips each one that does not verify, with a complaint; sets *skipped then. */
static struct unit_entry *newest_that_verifies(struct catalog *c, bool structure_only,
					       bool *skipped)
{
	char text[MESSAGE_MAX];
	struct unit_entry *u;

	while ((u = newest_committed(c))) {
		if (verifies(u, structure_only))
			return u;
		MESSAGE(text, LATEST_SKIPPED, u->path);
		complain(text);
		u->state = UNIT_DAMAGED;
		*skipped = true;
	}
	return NULL;
}

/* --- the verb --- */

static void print_answer(const struct latest *l, const struct unit_entry *u, int err,
			 const char *message)
{
	json_t *o;

	if (!l->json) {
		if (u)
			printf("%s\n", u->path);
		else if (l->say_none && err == ENOENT)
			putchar('\n');
		return;
	}
	o = json_pack("{s:b, s:o?}", "ok", u != NULL, "message",
		      message ? json_text(message) : NULL);
	if (!u)
		json_object_set_new(o, "error", error_to_json(err, message));
	if (u) {
		show_path_json(o, u->path);
		json_object_set_new(o, "state", json_string(u->word));
		json_object_set_new(o, "kind", json_string(u->is_dir ? "directory" : "file"));
		json_object_set_new(o, "time_ns", json_integer((json_int_t)u->time_ns));
		json_object_set_new(o, "verified", json_boolean(l->verify && !l->structure));
	}
	if (u && u->is_dir) {
		json_object_set_new(o, "generation", json_string(u->generation));
		json_object_set_new(o, "sequence", json_integer((json_int_t)u->sequence));
	}
	put_json(o);
	json_decref(o);
}

static int do_latest(struct latest *l, const char *path)
{
	struct catalog *c = &l->catalog;
	struct unit_entry *u = NULL;
	struct error e = {0};
	bool skipped = false;

	if (catalog_read(c, path, 0, complain, &e)) {
		complain(e.text);
		print_answer(l, NULL, e.err, e.text);
		return e.err == ENOENT || e.err == ENOTDIR ? EXIT_NO : EXIT_UNKNOWN;
	}
	u = l->verify ? newest_that_verifies(c, l->structure, &skipped) : newest_committed(c);
	/* A foreign one has no digests, but its structure is as good as any file's. */
	if (!u && !skipped && (!l->verify || l->structure)) {
		u = newest_foreign(c);
		if (u)
			MESSAGE(e.text, LATEST_FOREIGN, u->path, path);
	}
	if (u && u->state != UNIT_FOREIGN && !skipped)
		say_passed_over(c, u);
	if (!u && (skipped || (l->verify && !l->structure)))
		MESSAGE(e.text, LATEST_UNVERIFIED, path);
	else if (!u)
		MESSAGE(e.text, LATEST_NONE, path);
	/* Not "there is none": a job that gets that answer starts from scratch. */
	if ((!u || u->state == UNIT_FOREIGN) && c->nr_unseen) {
		MESSAGE(e.text, LATEST_UNSEEN, path, c->nr_unseen);
		complain(e.text);
		print_answer(l, NULL, EIO, e.text);
		return EXIT_UNKNOWN;
	}
	if (*e.text)
		complain(e.text);
	print_answer(l, u, ENOENT, *e.text ? e.text : NULL);
	return u ? EXIT_DONE : EXIT_NO;
}

static const struct option longs[] = {{"help", no_argument, NULL, 'h'},
				      {"json", no_argument, NULL, 'j'},
				      {"say-none", no_argument, NULL, 'n'},
				      {"verify", optional_argument, NULL, 'v'},
				      {NULL, 0, NULL, 0}};

/* Takes HOW of --verify[=HOW]. False: there is no such word. */
static bool take_how(struct latest *l, const char *how)
{
	l->structure = how && !strcmp(how, "structure");
	l->verify = !how || l->structure || !strcmp(how, "full");
	return l->verify || !strcmp(how, "none");
}

static int run_latest(const struct verb *v, int argc, char **argv)
{
	struct latest l = {0};
	int c, status;

	while ((c = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
		if (c == 'h')
			return verb_help(v);
		if (c == '?')
			return option_error(v, argv);
		if (c == 'j')
			l.json = true;
		else if (c == 'n')
			l.say_none = true;
		else if (!take_how(&l, optarg))
			return usage_error(v, "--verify takes structure, full or none");
	}
	if (argc - optind != 1)
		return usage_error(v, "give one directory");
	status = do_latest(&l, argv[optind]);
	catalog_finish(&l.catalog);
	return status;
}

const struct verb verb_latest = {
	.name = "latest",
	.args = "[--verify[=HOW]] [--json] DIR",
	.summary = "print the path of the newest good checkpoint",
	.help = "Prints the path of the newest checkpoint at any depth: of directories beside each "
		"other\n"
		"the one with the highest sequence number in its commit file, otherwise the one\n"
		"committed last; files by their last write. One that is being saved, or was "
		"changed\n"
		"since, does not count. If none is committed: the newest checkpoint file (*.pt "
		"*.pth\n"
		"*.ckpt *.safetensors *.keras) that ckptfs did not write, which is said on "
		"standard\n"
		"error. Exit 1 if there is nothing to name, 3 if a part of DIR cannot be looked "
		"at and\n"
		"nothing committed was found in the rest.\n"
		"\n"
		"  --verify[=full]      the newest whose bytes have the digests of the save; reads "
		"all of it\n"
		"  --verify=structure   the newest whose files are all there with their sizes; "
		"reads "
		"no content\n"
		"  --verify=none        the newest, unchecked (default)\n"
		"  --json               for machines\n",
	.longs = longs,
	.run = run_latest,
};
