/* SPDX-License-Identifier: MIT */
/* ckptfs status: how a mount does. Asks its daemon, never the mount. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/json.h"
#include "engine/base/message.h"
#include "fs/cmd/cmd.h"
#include "fs/control_socket.h"
#include "fs/show.h"

#define SHOWN_FAILURES 5

static void print_bytes(const char *what, json_int_t bytes)
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
	double n = (double)bytes;
	size_t u = 0;

	while (n >= 1024 && u + 1 < ARRAY_SIZE(units)) {
		n /= 1024;
		u++;
	}
	printf("%-12s %.*f %s\n", what, u ? 1 : 0, n, units[u]);
}

static void print_age(const char *what, json_int_t since_ns)
{
	uint64_t s = (clock_wall_ns() - (uint64_t)since_ns) / NSEC_PER_SEC;

	printf("%-12s %llud %02llu:%02llu:%02llu\n", what, (unsigned long long)(s / 86400),
	       (unsigned long long)(s / 3600 % 24), (unsigned long long)(s / 60 % 60),
	       (unsigned long long)(s % 60));
}

static void print_features(const json_t *features)
{
	const char *name;
	json_t *value;

	printf("%-12s", "features");
	json_object_foreach ((json_t *)features, name, value)
		printf(" %s:%s", name, json_string_value(value) ? json_string_value(value) : "?");
	putchar('\n');
}

static void print_requests(const json_t *requests)
{
	const json_t *waiting = json_object_get(requests, "waiting"), *w;
	size_t i;

	printf("%-12s %lld in flight, %lld queued, %lld threads\n", "requests",
	       (long long)json_get_int(requests, "in_flight", 0),
	       (long long)json_get_int(requests, "queued", 0),
	       (long long)json_get_int(requests, "threads", 0));
	json_array_foreach (waiting, i, w)
		printf("  waiting    %s of '%s' by pid %lld for %.1f s\n",
		       json_get_text(w, "op", "?"), json_get_text(w, "path", "?"),
		       (long long)json_get_int(w, "pid", 0),
		       json_real_value(json_object_get(w, "age_s")));
}

static void print_failures(json_int_t total, const json_t *failures)
{
	size_t i, nr = json_array_size(failures);
	const json_t *f;

	printf("%-12s %lld\n", "failures", (long long)total);
	for (i = nr > SHOWN_FAILURES ? nr - SHOWN_FAILURES : 0; i < nr; i++) {
		f = json_array_get(failures, i);
		printf("  %4lldx      %s\n", (long long)json_get_int(f, "count", 0),
		       json_get_text(f, "message", "(another user's)"));
	}
}

/* True if @n is about tensors that are missing, and not about what is not protected. */
static bool is_of_tensors(const json_t *n)
{
	return !strcmp(json_get_text(n, "op", ""), "tensors");
}

/* Prints the notices of one of the two kinds. */
static void print_notices(const json_t *notices, const char *title, bool of_tensors)
{
	size_t i, nr = 0;
	const json_t *n;

	json_array_foreach (notices, i, n)
		nr += is_of_tensors(n) == of_tensors;
	if (nr)
		printf("%-12s %zu\n", title, nr);
	json_array_foreach (notices, i, n)
		if (is_of_tensors(n) == of_tensors)
			printf("  %s\n", json_get_text(n, "message", "(another user's)"));
}

static double mib(const json_t *part, const char *key)
{
	return (double)json_get_int(part, key, 0) / (1 << 20);
}

static void print_cache(const json_t *s)
{
	const json_t *cache = json_object_get(s, "cache"), *flush = json_object_get(s, "flush");
	const char *unlocked = json_get_text(cache, "not_locked", "");
	static const struct {
		const char *key, *text;
	} parts[] = {{"dirty", "to be flushed"},
		     {"flying", "being flushed"},
		     {"clean", "on the backing too, kept for readers"},
		     {"lent", "lent to trainers"}};
	size_t i;

	if (!cache)
		return;
	printf("%-12s %.0f MiB, %.0f free", "cache", mib(cache, "size"), mib(cache, "free"));
	if (mib(cache, "untouched") > 0)
		printf(" (%.0f MiB not touched yet)", mib(cache, "untouched"));
	putchar('\n');
	for (i = 0; i < ARRAY_SIZE(parts); i++)
		if (mib(cache, parts[i].key) > 0)
			printf("  %7.0f MiB %s\n", mib(cache, parts[i].key), parts[i].text);
	if (*unlocked)
		printf("  %s\n", unlocked);
	printf("%-12s %.1f MiB by %s, %lld in flight, %lld tried again; %lld writes waited for "
	       "room, "
	       "%.1f s in all\n",
	       "flushed", mib(flush, "bytes"), json_get_text(flush, "engine", "?"),
	       (long long)json_get_int(flush, "in_flight", 0),
	       (long long)json_get_int(flush, "retrying", 0),
	       (long long)json_get_int(cache, "stalls", 0),
	       json_real_value(json_object_get(cache, "stalled_s")));
	if (!json_is_true(json_object_get(s, "exit_status_readable")))
		printf("  how other users' processes end cannot be read here: one that ends with a "
		       "file open\n  counts as killed (`ckptfs doctor` tells more)\n");
}

static void print_pending(const json_t *pending)
{
	char shared[1024];
	const json_t *p;
	size_t i;

	if (json_array_size(pending))
		printf("%-12s %zu not yet published\n", "saves", json_array_size(pending));
	json_array_foreach (pending, i, p) {
		printf("  %-9s  '%s' for %.1f s: %s\n", json_get_text(p, "state", "?"),
		       json_get_text(p, "path", "?"), json_real_value(json_object_get(p, "age_s")),
		       json_get_text(p, "waits_for", "?"));
		if (json_object_get(p, "job"))
			printf("             of job %s\n", json_get_text(p, "job", ""));
		if (json_object_get(p, "shared"))
			printf("             %s\n",
			       show_shared(shared, sizeof(shared), json_object_get(p, "shared")));
		if (json_object_get(p, "note"))
			printf("             %s\n", json_get_text(p, "note", ""));
	}
}

static void print_removals(const json_t *removals)
{
	const json_t *r;
	size_t i;

	if (json_array_size(removals))
		printf("%-12s %zu of committed checkpoints not yet on the backing\n", "removals",
		       json_array_size(removals));
	json_array_foreach (removals, i, r)
		printf("  %-9s  '%s' for %.1f s: %s\n", json_get_text(r, "state", "?"),
		       json_get_text(r, "path", "?"), json_real_value(json_object_get(r, "age_s")),
		       json_get_text(r, "waits_for", "?"));
}

static void print_sessions(const json_t *sessions)
{
	const json_t *one;
	size_t i;

	if (json_array_size(sessions))
		printf("%-12s %zu trainers write tensors by handle\n", "sessions",
		       json_array_size(sessions));
	json_array_foreach (sessions, i, one)
		printf("  rank %-4lld  pid %lld: %lld tensors; %.1f MiB captured, %.1f still to "
		       "be; "
		       "%lld barriers took %.2f s\n",
		       (long long)json_get_int(one, "rank", -1),
		       (long long)json_get_int(one, "pid", 0),
		       (long long)json_get_int(one, "tensors", 0), mib(one, "captured_bytes"),
		       mib(one, "pending_bytes"), (long long)json_get_int(one, "barriers", 0),
		       json_real_value(json_object_get(one, "blocked_s")));
}

/* Prints how nodes agree, and which others there are. */
static void print_coord(const json_t *coord)
{
	const json_t *others = json_object_get(coord, "others"), *o;
	const char *why = json_get_text(coord, "why", "");
	size_t i;

	if (!coord)
		return;
	printf("%-12s %s, %s%s%s\n", "coord", json_get_text(coord, "backend", "?"),
	       json_get_text(coord, "state", "?"), *why ? ": " : "", why);
	if (!strcmp(json_get_text(coord, "lease", "?"), "failing"))
		printf("  the lease of this node cannot be renewed: other nodes will take it for "
		       "dead\n");
	json_array_foreach (others, i, o)
		printf("  %-7s  node %s of host %s\n", json_get_text(o, "state", "?"),
		       json_get_text(o, "label", "?"), json_get_text(o, "host", "?"));
}

static void print_status(const json_t *s, const json_t *failures)
{
	const json_t *bytes = json_object_get(s, "bytes");

	printf("%-12s %s%s\n", "mount", json_get_text(s, "mountpoint", "?"),
	       json_is_true(json_object_get(s, "read_only")) ? " (read-only)" : "");
	printf("%-12s %s\n", "backing", json_get_text(s, "backing", "?"));
	printf("%-12s %s, daemon pid %lld, version %s\n", "node", json_get_text(s, "node", "?"),
	       (long long)json_get_int(s, "pid", 0), json_get_text(s, "version", "?"));
	print_coord(json_object_get(s, "coord"));
	print_age("up", json_get_int(s, "started_ns", 0));
	print_bytes("read", json_get_int(bytes, "read", 0));
	print_bytes("written", json_get_int(bytes, "written", 0));
	printf("%-12s %lld files and directories, %lld known\n", "open",
	       (long long)json_get_int(s, "open_handles", 0),
	       (long long)json_get_int(s, "nodes", 0));
	print_cache(s);
	print_sessions(json_object_get(s, "sessions"));
	print_pending(json_object_get(s, "pending"));
	print_removals(json_object_get(s, "removals"));
	print_requests(json_object_get(s, "requests"));
	print_features(json_object_get(s, "features"));
	print_notices(json_object_get(s, "notices"), "unprotected", false);
	print_notices(json_object_get(s, "notices"), "incomplete", true);
	print_failures(json_get_int(s, "failures", 0), failures);
}

static void print_trouble(const struct mount_entry *m, const struct error *e, int pid, bool json)
{
	json_t *answer;

	complain(e->text);
	if (!json)
		return;
	answer = json_pack("{s:s, s:o, s:o, s:i, s:o}", "state",
			   e->err == ETIMEDOUT ? "silent" : "dead", "mountpoint",
			   json_text(m->path), "backing", json_text(m->source), "pid", pid,
			   "message", json_text(e->text));
	put_json(answer);
	json_decref(answer);
}

/* Prints of a unit what `why` says. -1: it is none. */
static int file_status(const struct given_path *p, bool json)
{
	struct error e;
	json_t *file;

	if (!*p->below || place_ask(p, NULL, &file, &e))
		return -1;
	if (strcmp(json_get_text(file, "kind", ""), "unit")) {
		json_decref(file);
		return -1;
	}
	if (json) {
		put_json(file);
	} else {
		print_file(file);
	}
	json_decref(file);
	return EXIT_DONE;
}

static int do_status(const char *path, bool json)
{
	json_t *status, *failures = NULL;
	struct mount_entry m;
	struct given_path p;
	struct error e;
	int pid, done;

	if (place_find(&p, path, &e))
		return fail_verb(json, e.err, e.text);
	m = p.mount;
	if (!p.mounted) {
		FAIL(&e, EINVAL, NOT_A_MOUNT, path);
		done = file_status(&p, json);
		return done < 0 ? fail_verb(json, e.err, e.text) : done;
	}
	if (control_ask(&m, "status", CONTROL_ASK_MS, &status, &pid, NULL, &e)) {
		print_trouble(&m, &e, pid, json);
		return EXIT_NO;
	}
	done = file_status(&p, json);
	if (done >= 0) {
		json_decref(status);
		return done;
	}
	if (json) {
		put_json(status);
	} else {
		if (json_get_int(status, "failures", 0) &&
		    control_ask(&m, "failures", CONTROL_ASK_MS, &failures, NULL, NULL, &e))
			complain(e.text);
		print_status(status, json_object_get(failures, "failures"));
	}
	json_decref(failures);
	json_decref(status);
	return EXIT_DONE;
}

static int run_status(const struct verb *v, int argc, char **argv)
{
	bool json;
	int status;

	if (!take_help_or_json(v, argc, argv, &json, &status))
		return status;
	if (argc == optind)
		return list_mounts(json);
	if (argc - optind != 1)
		return usage_error(v, "give one path in a mount, or none");
	return do_status(argv[optind], json);
}

const struct verb verb_status = {
	.name = "status",
	.args = "[--json] [PATH]",
	.summary = "show all mounts, one, or a checkpoint",
	.help = "Without PATH: each mount of this host, with its daemon, the checkpoints that are\n"
		"not committed yet and the failures. Of a checkpoint: its state, and what it "
		"waits\n"
		"for. Of any other path, the mount: backing, throughput, requests that wait and\n"
		"what for, failures, features. Answers within two seconds also when the mount\n"
		"hangs; exit 1 when a daemon is dead or silent, or nothing is mounted.\n"
		"\n"
		"  --json               for machines\n",
	.longs = help_or_json,
	.run = run_status,
};
