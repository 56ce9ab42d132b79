/* SPDX-License-Identifier: MIT */
/*
 * Nodes by the thousand, of one checkpoint, for one or two daemons that are real: all that these
 * hear and read of others is there, made by the code that daemons run themselves (agreement.c,
 * vote.c), on the backing of their mounts.
 *
 * 	crowd BACKING GENERATION NODES FILES PATTERN RULE DAEMONS
 *
 * Of NODES nodes in all DAEMONS are the daemons, which have joined: the root, and who was the first
 * to join it. The others join, and wait for all; then each, with one rank, puts FILES files into
 * the staging directory, called by PATTERN, whose %d are the rank and the number of the file; then
 * it votes. Says "joined", "written" (and all of that was reported), "committed" or "aborted".
 */
#include <err.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/json.h"
#include "engine/cluster/accord_impl.h"
#include "engine/content/digest.h"
#include "engine/coord/agreement.h"
#include "engine/coord/nodes.h"
#include "engine/format/names.h"
#include "engine/record/events.h"
#include "engine/record/vote.h"
#include "tests/crowd/records.h"

#define PAUSE_NS (10 * NSEC_PER_MSEC) /* as accord_report.c */

struct member {
	struct agreement a;
	bool written, over, said_open, more;
	bool open[AGREE_FANOUT];      /* as a child said last */
	unsigned nodes[AGREE_FANOUT]; /* as it voted */
	json_t *lists[AGREE_FANOUT];  /* with which it did; or NULL */
	json_t *list;		      /* its own */
	json_t *events;		      /* to be reported */
	unsigned said;
	uint64_t said_ns;
	struct filed *filed;
};

static struct {
	struct backing backing;
	struct contents contents;
	struct units units;
	struct checkpoint checkpoint;
	unsigned nodes, files, daemons;
	const char *pattern, *rule;
	struct member *members;
	unsigned nr_joined, nr_written, nr_over;
	char root[COORD_NODE_MAX];
} w;

/* What is durable here does not have to outlive a crash; that is not what is measured. */
static int no_sync(void *arg, int fd, enum backing_sync what)
{
	(void)arg;
	(void)fd;
	(void)what;
	return 0;
}

static unsigned index_of(const struct member *m)
{
	return w.daemons + (unsigned)(m - w.members);
}

static const char *label_of(const struct member *m)
{
	static char label[NODES_LABEL_MAX];

	snprintf(label, sizeof(label), "crowd%05u", index_of(m));
	return label;
}

/* --- files --- */

static ssize_t read_text(void *text, void *buf, size_t len, uint64_t off)
{
	memcpy(buf, (char *)text + off, len);
	return (ssize_t)len;
}

static void write_file(struct filed *f, int rank, const char *name)
{
	char text[64], record[DIGEST_RECORD_MAX];
	struct source src = {.read = read_text, .arg = text};
	int dir = w.checkpoint.fd, len, fd;
	struct statx stx;

	len = snprintf(text, sizeof(text), "of rank %d", rank);
	fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (fd < 0 || write(fd, text, (size_t)len) != len || backing_stat(&w.backing, fd, &stx))
		err(1, "%s", name);
	f->id = inode_id_of(&stx);
	f->size = stx.stx_size;
	f->mtime_ns = (uint64_t)stx.stx_mtime.tv_sec * NSEC_PER_SEC + stx.stx_mtime.tv_nsec;
	f->rank = rank;
	if (digest_of_source(&src, f->size, 1, NULL, NULL, f->xxh3))
		errx(1, "%s: no digest", name);
	len = digest_record_format(record, sizeof(record), f->xxh3, f->size, f->mtime_ns);
	if (backing_setxattr(&w.backing, fd, DIGEST_XATTR, record, (size_t)len, 0))
		err(1, "%s: its digest", name);
	close(fd);
}

static void write_files(struct member *m)
{
	int rank = (int)index_of(m);
	char name[NAME_MAX + 1];
	unsigned i;

	m->filed = calloc(w.files, sizeof(*m->filed));
	if (!m->filed)
		err(1, "files");
	for (i = 0; i < w.files; i++) {
		snprintf(name, sizeof(name), w.pattern, rank, i);
		write_file(&m->filed[i], rank, name);
		/* The rule of those that do has a file of every rank as its evidence. */
		if (strcmp(w.rule, "torch-dcp"))
			json_array_append_new(m->events,
					      json_pack("[i, s, i]", EVIDENCE_CLOSE, name, rank));
	}
	m->written = true;
	w.nr_written++;
}

/* --- what is said --- */

static bool is_open(const struct member *m)
{
	unsigned i;

	for (i = 0; i < m->a.nr_children; i++)
		if (m->open[i])
			return true;
	return !m->written;
}

static unsigned nodes_below(const struct member *m)
{
	unsigned i, nr = 1;

	for (i = 0; i < m->a.nr_children; i++)
		nr += m->nodes[i];
	return nr;
}

static bool has_news(const struct member *m)
{
	return !m->said || m->said_open != is_open(m) || json_array_size(m->events);
}

static bool may_say(const struct member *m)
{
	return m->more || clock_mono_ns() - m->said_ns >= agreement_pause(m->said) * PAUSE_NS;
}

/* And takes out of the events what is in it. */
static char *compose_report(struct member *m)
{
	json_t *events, *o;
	size_t nr = events_tell(m->events, COORD_TEXT_MAX - 8192, &events);
	char *text;

	m->more = nr < json_array_size(m->events);
	while (nr--)
		json_array_remove(m->events, 0);
	m->said_open = is_open(m);
	o = json_pack("{s:b, s:b, s:o, s:s}", "open", m->said_open, "writers", true, "events",
		      events, "rule", w.rule);
	if (m->said_open)
		json_object_set_new(o, "open_on",
				    json_pack("[{s:s, s:[i]}]", "node", label_of(m), "ranks",
					      (int)index_of(m)));
	text = json_dumps(o, JSON_COMPACT);
	json_decref(o);
	m->said++;
	m->said_ns = clock_mono_ns();
	return text;
}

static void take_news(struct member *m, const struct agree_news *news)
{
	json_t *o, *events;

	if (!news->any || news->entry == AGREE_JOIN)
		return;
	o = json_loads(news->payload, 0, NULL);
	if (news->entry == AGREE_REPORT) {
		m->open[news->child] = json_is_true(json_object_get(o, "open"));
		events = events_heard(json_object_get(o, "events"));
		json_array_extend(m->events, events);
		json_decref(events);
	} else {
		m->open[news->child] = false;
		m->nodes[news->child] = (unsigned)json_get_int(o, "nodes", 1);
		m->lists[news->child] = json_incref(json_object_get(o, "list"));
	}
	json_decref(o);
}

/* Once for all: nobody waits so long for another one. */
static void show_life(const struct member *m)
{
	json_t *o = json_pack("{s:i, s:s, s:s, s:s, s:s, s:s, s:i, s:i}", "protocol",
			      NODES_PROTOCOL, "label", label_of(m), "host", "crowd", "boot", "",
			      "place", "", "rules", "", "lease_s", 100000, "renewal", 1);
	char *text = json_dumps(o, JSON_COMPACT);

	if (coord_dir_ops.lease(&w.backing, m->a.node, text, strlen(text)))
		errx(1, "no lease for %s", m->a.node);
	free(text);
	json_decref(o);
}

/* --- one step --- */

static void perform(struct member *m, const struct agree_op *op)
{
	bool joining = m->a.state == AGREE_JOINING, had_joined = m->a.joined, ours = false;
	struct agree_news news;
	char *payload = NULL, *text = NULL;
	const char *stands;

	if (op->what == AGREE_READ) {
		stands = records_read(op->kind);
	} else {
		if (op->payload == AGREE_OF_REPORT)
			payload = compose_report(m);
		else if (op->payload == AGREE_OF_VOTE)
			payload = vote_compose(nodes_below(m), m->list, NULL);
		if (asprintf(&text, "%s%s%s", op->head, payload ? " " : "",
			     payload ? payload : "") < 0)
			err(1, "record");
		stands = records_make(op->kind, text, &ours);
		if (!ours && op->payload == AGREE_OF_REPORT) { /* the next place it is, then */
			json_t *o = json_loads(payload, 0, NULL), *events;

			events = events_heard(json_object_get(o, "events"));
			json_array_extend(events, m->events);
			json_decref(m->events);
			m->events = events;
			json_decref(o);
		}
	}
	agreement_answer(&m->a, op, ours, stands, &news);
	take_news(m, &news);
	if (!had_joined && m->a.joined && (m->a.slot - 1) / AGREE_FANOUT < w.daemons)
		show_life(m);
	w.nr_joined += joining && m->a.state == AGREE_OPEN;
	free(payload);
	free(text);
}

static void list_files(struct member *m)
{
	struct checkpoint *cp = &w.checkpoint;
	struct vote_list lists[AGREE_FANOUT];
	unsigned i;
	int err;

	for (i = 0; i < m->a.nr_children; i++)
		lists[i] = (struct vote_list){m->a.slot * AGREE_FANOUT + 1 + i, m->lists[i]};
	for (i = 0; i < w.files; i++)
		checkpoint_add_filed(cp, &m->filed[i]);
	w.units.node = label_of(m);
	err = vote_list_write(cp, m->a.slot, NULL, lists, m->a.nr_children, &m->list);
	if (err)
		errx(1, "vote: %s", strerror(-err));
	for (i = 0; i < m->a.nr_children; i++)
		json_decref(m->lists[i]);
	free(m->filed);
	m->filed = NULL;
	filed_finish(&cp->filed);
}

static bool look(struct member *m)
{
	char kinds[AGREE_AWAITS][COORD_KIND_MAX];
	unsigned nr = agreement_awaits(&m->a, kinds), i;
	struct agree_news news;
	const char *text;

	for (i = 0; i < nr; i++) {
		text = records_read(kinds[i]);
		if (!text)
			continue;
		agreement_saw(&m->a, kinds[i], text, &news);
		take_news(m, &news);
		return true;
	}
	return false;
}

/* False: there is nothing to do right now. */
static bool step(struct member *m)
{
	struct agree_op op;

	agreement_next(&m->a, &op);
	if (op.what != AGREE_IDLE) {
		perform(m, &op);
		return true;
	}
	if (m->a.state == AGREE_OPEN && !m->written && w.nr_joined == w.nodes - w.daemons) {
		write_files(m);
		return true;
	}
	if (m->a.state <= AGREE_PREPARED && m->a.reports == m->a.reported && has_news(m) &&
	    may_say(m)) {
		agreement_report(&m->a);
		return true;
	}
	if (m->written && agreement_may_vote(&m->a)) {
		list_files(m);
		agreement_vote(&m->a);
		return true;
	}
	return look(m);
}

/* --- all of them --- */

static bool all_said(void)
{
	unsigned i;

	for (i = 0; i < w.nodes - w.daemons; i++)
		if (has_news(&w.members[i]))
			return false;
	return true;
}

static void say(const char *what)
{
	puts(what);
	fflush(stdout);
}

static void play(void)
{
	unsigned nr = w.nodes - w.daemons, i, told = 0;

	while (w.nr_over < nr) {
		bool any = false;

		records_refresh();
		for (i = 0; i < nr; i++) {
			struct member *m = &w.members[i];

			while (!m->over && step(m))
				any = true;
			if (!m->over && agreement_is_over(&m->a)) {
				m->over = true;
				w.nr_over++;
			}
		}
		if (!told && w.nr_joined == nr) {
			say("joined");
			told++;
		} else if (told == 1 && w.nr_written == nr && all_said()) {
			say("written");
			told++;
		}
		if (!any)
			usleep(1000);
	}
	say(w.members[0].a.state == AGREE_COMMIT ? "committed" : "aborted");
}

/* What the root has heard. */
static void tell_load(void)
{
	char kind[COORD_KIND_MAX];
	const char *text;
	size_t bytes = 0;
	unsigned nr;

	for (nr = 0; snprintf(kind, sizeof(kind), "log.0.%u", nr), text = records_read(kind); nr++)
		bytes += strlen(text);
	printf("%u records, %zu bytes\n", nr, bytes);
}

static void begin(const char *backing, const char *gen)
{
	static struct backing_ops ops;
	char path[PATH_MAX];
	struct caller self = {.uid = getuid(), .gid = getgid(), .pid = getpid()};
	struct error e;
	const char *text;
	json_t *o;
	unsigned i;

	if (backing_open(&w.backing, backing, &e))
		errx(1, "%s", e.text);
	features_probe(w.backing.features, w.backing.root_fd, true);
	ops = *w.backing.ops;
	ops.sync = no_sync;
	w.backing.ops = &ops;
	w.contents.backing = &w.backing;
	w.units.contents = &w.contents;
	lock_init(&w.units.lock, LOCK_UNITS);
	w.checkpoint.units = &w.units;
	w.checkpoint.owner = self;
	snprintf(path, sizeof(path), "%s/" STAGING_PREFIX "%s", backing, gen);
	w.checkpoint.fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (w.checkpoint.fd < 0)
		err(1, "%s", path);
	records_begin(&w.backing, &self, gen, w.daemons, 64 * w.nodes);
	text = records_read("open");
	o = text ? json_loads(text, 0, NULL) : NULL;
	snprintf(w.root, sizeof(w.root), "%s", json_get_text(o, "node", ""));
	if (!coord_node_ok(w.root))
		errx(1, "the generation %s is not begun", gen);
	json_decref(o);
	w.members = calloc(w.nodes, sizeof(*w.members));
	for (i = 0; w.members && i < w.nodes - w.daemons; i++) {
		char id[COORD_NODE_MAX];

		snprintf(id, sizeof(id), "%032x", i + 1);
		agreement_begin(&w.members[i].a, id, w.root, AGREE_FANOUT);
		w.members[i].events = json_array();
	}
}

int main(int argc, char **argv)
{
	if (argc != 8)
		errx(2, "usage: crowd BACKING GENERATION NODES FILES PATTERN RULE DAEMONS");
	w.nodes = (unsigned)atoi(argv[3]);
	w.files = (unsigned)atoi(argv[4]);
	w.pattern = argv[5];
	w.rule = argv[6];
	w.daemons = (unsigned)atoi(argv[7]);
	begin(argv[1], argv[2]);
	play();
	tell_load();
	return 0;
}
