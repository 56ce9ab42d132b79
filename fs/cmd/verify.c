/* SPDX-License-Identifier: MIT */
/* ckptfs verify: checks that files have the content that they had when they were saved. */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/base/json.h"
#include "engine/format/digest_record.h"
#include "fs/cmd/cmd.h"
#include "fs/verify.h"

static const struct {
	const char *word, *json;
} verdicts[NR_VERDICTS] = {
	[FILE_OK] = {"ok", "ok"},
	[FILE_DAMAGED] = {"DAMAGED", "damaged"},
	[FILE_CHANGED] = {"changed since", "changed"},
	[FILE_MISSING] = {"MISSING", "missing"},
	[FILE_UNLISTED] = {"unlisted", "unlisted"},
	[FILE_NO_RECORD] = {"no record", "no_record"},
	[FILE_UNREADABLE] = {"unreadable", "unreadable"},
};

/* Where findings go; both NULL: to people. */
struct output {
	json_t *files, *units;
};

static json_t *file_to_json(const struct verified *f)
{
	const struct record *r = &f->record;
	json_t *record = NULL;

	if (r->hex[0])
		record = json_pack("{s:s, s:I, s:I}", "xxh3", r->hex, "size", (json_int_t)r->size,
				   "mtime_ns", (json_int_t)r->mtime_ns);
	return json_pack("{s:o, s:s, s:I, s:I, s:s?, s:o?, s:o?}", "path", json_text(f->path),
			 "state", verdicts[f->verdict].json, "size", (json_int_t)f->size,
			 "mtime_ns", (json_int_t)f->mtime_ns, "xxh3", f->hex[0] ? f->hex : NULL,
			 "record", record, "message", f->message[0] ? json_text(f->message) : NULL);
}

static void print_file_found(void *arg, const struct verified *f)
{
	struct output *out = arg;

	if (out->files)
		json_array_append_new(out->files, file_to_json(f));
	else
		printf("%-13s %15" PRIu64 "  %s\n", verdicts[f->verdict].word, f->size, f->path);
	fflush(stdout);
	if (f->message[0])
		complain(f->message);
}

static void print_unit_found(void *arg, const char *path, const struct listing *l, bool ok,
			     unsigned nr_unlisted)
{
	struct output *out = arg;

	if (out->units)
		json_array_append_new(
			out->units,
			json_pack("{s:o, s:b, s:s, s:I, s:I, s:I, s:I, s:b}", "path",
				  json_text(path), "ok", ok, "generation", l->header.generation,
				  "sequence", (json_int_t)l->header.sequence, "entries",
				  (json_int_t)l->nr, "size", (json_int_t)l->bytes, "unlisted",
				  (json_int_t)nr_unlisted, "pending", l->pending));
	else
		printf("%-13s %15" PRIu64 "  %s (%zu listed)\n", ok ? "ok" : "NOT WHOLE", l->bytes,
		       path, l->nr);
	fflush(stdout);
}

static void print_sum(const struct verify *v, unsigned nr)
{
	enum verdict o;

	printf("%u files:", nr);
	for (o = 0; o < NR_VERDICTS; o++)
		if (v->nr[o] || o == FILE_OK)
			printf("%s %u %s", o == FILE_OK ? "" : ",", v->nr[o], verdicts[o].word);
	putchar('\n');
}

static int do_verify(struct verify *v, struct output *out, char **paths, int nr_paths)
{
	bool nothing = false, ok;
	unsigned nr = 0;
	int i;

	verify_start(v);
	for (i = 0; i < nr_paths; i++)
		if (!verify_path(v, paths[i]))
			nothing = true;
	for (i = 0; i < NR_VERDICTS; i++)
		nr += v->nr[i];
	ok = verify_is_ok(v) && !nothing;
	if (out->files) {
		json_t *answer = json_pack("{s:b, s:O, s:O}", "ok", ok, "files", out->files,
					   "units", out->units);

		put_json(answer);
		json_decref(answer);
	} else if (nr > 1) {
		print_sum(v, nr);
	}
	return ok ? EXIT_DONE : EXIT_NO;
}

static const struct option longs[] = {
	{"help", no_argument, NULL, 'h'}, {"json", no_argument, NULL, 'j'}, {NULL, 0, NULL, 0}};

static int run_verify(const struct verb *v, int argc, char **argv)
{
	struct output out = {NULL, NULL};
	struct verify verify = {.file = print_file_found,
				.unit = print_unit_found,
				.complain = complain,
				.arg = &out};
	bool json = false;
	int c, status;

	while ((c = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
		if (c == 'h')
			return verb_help(v);
		if (c != 'j')
			return option_error(v, argv);
		json = true;
	}
	if (optind == argc)
		return usage_error(v, "give files or directories");
	out.files = json ? json_array() : NULL;
	out.units = json ? json_array() : NULL;
	status = do_verify(&verify, &out, argv + optind, argc - optind);
	json_decref(out.files);
	json_decref(out.units);
	return status;
}

const struct verb verb_verify = {
	.name = "verify",
	.args = "[--json] PATH...",
	.summary = "compare files with their recorded digests",
	.help = "Reads each file and compares its digest with the one recorded when it was "
		"saved.\n"
		"PATH is a checkpoint: a directory that has a commit file (.ckptfs-commit.json), "
		"or a\n"
		"file, whose digest lies in the extended attribute " DIGEST_XATTR "; or a\n"
		"directory: then all of these that are below it, and files that have the name of "
		"a\n"
		"checkpoint (*.pt *.pth *.ckpt *.safetensors *.keras). It may lie in a mount, or\n"
		"anywhere; in a mount, what is still cached is read from memory: to check the\n"
		"storage, give the path on the backing. Each is one of\n"
		"\n"
		"  ok                   the content that was saved\n"
		"  DAMAGED              another, although nobody wrote to it since\n"
		"  changed since        it was written to or replaced: nothing is known\n"
		"  MISSING              the commit file lists it, and it is not there\n"
		"  unlisted             it is there, and the commit file does not list it: no "
		"fault\n"
		"  no record            nothing is known\n"
		"  unreadable           it could not be read\n"
		"\n"
		"Of a directory with a commit file, only what is not ok is told of each file. Exit "
		"0\n"
		"if nothing is damaged, changed, missing, unreadable or without record, else 1.\n"
		"\n"
		"  --json               for machines\n",
	.longs = longs,
	.run = run_verify,
};
