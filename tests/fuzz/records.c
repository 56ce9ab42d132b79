/* SPDX-License-Identifier: MIT */
/*
 * What another node may have recorded: any text is read as something, or is refused, and what was
 * read reads the same again once it is written. The first letter says as what the rest is read.
 */
#include "tests/fuzz/fuzz.h"

#include <errno.h>

#include "engine/base/json.h"
#include "engine/coord/agreement.h"
#include "engine/coord/nodes_inside.h"
#include "engine/format/names.h"
#include "engine/record/events.h"
#include "engine/record/left.h"
#include "engine/record/open_record.h"
#include "engine/record/refusal.h"
#include "engine/record/told.h"
#include "engine/record/vote.h"

#define NODE  "0123456789abcdef0123456789abcdef"
#define OTHER "00112233445566778899aabbccddeeff"

static void is_name(const char *name)
{
	REQUIRE(backing_name_ok(name) && !name_is_reserved(name));
}

/* --- lines of a vote --- */

static void pointer_again(const struct left_pointer *p)
{
	json_t *line = left_line_of_pointer(p);
	struct left *l = calloc(1, sizeof(*l));

	is_name(p->name);
	REQUIRE(line && l && coord_node_ok(p->node));
	REQUIRE(left_take_line(l, line) && l->nr_pointers == 1 &&
		!memcmp(&l->pointers[0], p, sizeof(*p)));
	json_decref(line);
	free(l);
}

static void removal_again(const struct left_removal *r)
{
	json_t *line = left_line_of_removal(r);
	struct left *l = calloc(1, sizeof(*l));

	is_name(r->what.name);
	REQUIRE(line && l && coord_node_ok(r->node));
	REQUIRE(left_take_line(l, line) && l->nr_removals == 1 &&
		!strcmp(l->removals[0].what.name, r->what.name));
	json_decref(line);
	free(l);
}

static void file_again(const json_t *line)
{
	struct filed f, again;
	char label[NAME_MAX + 1], label_again[NAME_MAX + 1];
	json_t *o;

	if (!vote_parse_file(line, 1, &f, label))
		return;
	REQUIRE(*f.node && f.rank >= -1 && commit_is_hex(f.xxh3));
	o = vote_line_of_file(&f, "none");
	REQUIRE(o && vote_parse_file(o, 1, &again, label_again));
	REQUIRE(same_inode(&f.id, &again.id) && f.size == again.size && f.rank == again.rank &&
		!strcmp(f.node, again.node));
	json_decref(o);
}

static void read_lines(const json_t *list)
{
	struct left *l = calloc(1, sizeof(*l));
	struct commit_tensor_room room;
	struct commit_tensor t;
	json_t *line;
	size_t i;

	REQUIRE(l);
	json_array_foreach (list, i, line) {
		if (left_has_line(line))
			left_take_line(l, line);
		else if (vote_line_is_overwrite(line))
			vote_parse_overwrite(line, 1);
		else if (vote_line_is_tensor(line))
			vote_parse_tensor(line, &t, &room);
		else
			file_again(line);
	}
	REQUIRE(l->nr_pointers <= LEFT_MAX && l->nr_removals <= LEFT_MAX);
	for (i = 0; i < l->nr_pointers; i++)
		pointer_again(&l->pointers[i]);
	for (i = 0; i < l->nr_removals; i++)
		removal_again(&l->removals[i]);
	free(l);
}

static void read_vote(const char *text)
{
	static struct rules *rules;
	struct error e;
	struct for_heir *h;
	json_t *list, *again;
	unsigned nodes;
	char *written;

	REQUIRE(rules || !rules_create(&rules, NULL, "", &e));
	nodes = vote_parse(text, &list, rules, &h);
	REQUIRE(h && nodes > 0);
	read_lines(list);
	written = vote_compose(nodes, list, h->decides ? h : NULL);
	REQUIRE(written && vote_parse(written, &again, rules, NULL) == nodes);
	REQUIRE(json_equal(list, again) || !list);
	free(written);
	free(h);
	json_decref(list);
	json_decref(again);
}

/* --- other records --- */

static void read_events(const json_t *told)
{
	json_t *heard = events_heard(told), *briefly, *again;
	struct told_event e;
	size_t i, nr;

	REQUIRE(heard);
	for (i = 0; events_get(heard, i, &e); i++)
		REQUIRE(e.path && *e.path && strlen(e.path) < COMMIT_PATH_MAX && e.rank >= -1 &&
			e.kind >= 0 && e.kind <= NR_EVIDENCE_KINDS);
	nr = events_tell(heard, COORD_TEXT_MAX, &briefly);
	REQUIRE(briefly && nr <= i && (nr || !i));
	again = events_heard(briefly);
	REQUIRE(json_array_size(again) <= i);
	json_decref(again);
	json_decref(briefly);
	json_decref(heard);
}

static void read_report(const char *text)
{
	struct told t, again;
	char *written;

	told_read(&t, text);
	REQUIRE(t.death.reason && t.death.node && (!t.name || backing_name_ok(t.name)));
	read_events(t.events);
	if (t.events) {
		written = told_write(&t);
		REQUIRE(written);
		told_read(&again, written);
		REQUIRE(t.open == again.open && t.died == again.died && !t.name == !again.name);
		told_finish(&again);
		free(written);
	}
	told_finish(&t);
}

static void read_open(const char *text, size_t len)
{
	struct open_record o = {.node = ""}, again;
	char *written;

	if (open_record_read(text, len, &o)) {
		REQUIRE(!*o.node);
		return;
	}
	REQUIRE(coord_node_ok(o.node) && *o.job);
	written = open_record_write(&o);
	REQUIRE(written && !open_record_read(written, strlen(written), &again));
	REQUIRE(!strcmp(o.job, again.job) && !strcmp(o.node, again.node) && o.gid == again.gid);
	free(written);
}

static void read_refusal(const char *text)
{
	struct refusal r, again;
	char *written;

	refusal_read(&r, text);
	REQUIRE(r.reason && r.node && r.err >= 0);
	written = refusal_write(&r);
	REQUIRE(written);
	refusal_read(&again, written);
	REQUIRE(r.err == again.err && r.dropped == again.dropped && r.ordinary == again.ordinary);
	refusal_finish(&again);
	free(written);
	refusal_finish(&r);
}

static void read_lease(const char *text, size_t len)
{
	struct lease_facts f;

	lease_facts_read(&f, text, len);
	REQUIRE(memchr(f.label, '\0', sizeof(f.label)) && memchr(f.host, '\0', sizeof(f.host)));
	REQUIRE(memchr(f.boot, '\0', sizeof(f.boot)) && memchr(f.place, '\0', sizeof(f.place)));
	REQUIRE(f.lease_ns < 1000000 * NSEC_PER_SEC);
}

/* --- the logs --- */

static void take_entry(struct agreement *a, const char *text)
{
	char kinds[AGREE_AWAITS][COORD_KIND_MAX];
	struct agree_news news = {.any = false};
	struct agree_op op;
	unsigned nr;

	agreement_next(a, &op);
	if (op.what != AGREE_IDLE) {
		/* An own record is as it was asked for. */
		bool ours = op.what == AGREE_RECORD && *text == '!';

		agreement_answer(a, &op, ours, ours ? op.head : *text ? text : NULL, &news);
	} else {
		nr = agreement_awaits(a, kinds);
		REQUIRE(nr <= AGREE_AWAITS);
		if (nr)
			agreement_saw(a, kinds[strlen(text) % nr], text, &news);
	}
	REQUIRE(a->nr_children <= AGREE_FANOUT && a->depth < AGREE_DEPTH_MAX);
	REQUIRE(a->slot <= AGREE_SLOT_MAX);
	REQUIRE(!news.any || (news.child <= AGREE_ROOT && news.payload));
}

/* Each line is the next record that stands. */
static void read_logs(char *text, const char *root)
{
	struct agreement a;
	char *line;

	agreement_begin(&a, NODE, root, 2);
	while ((line = strsep(&text, "\n")) && !agreement_is_over(&a))
		take_entry(&a, line);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size), *rest = text + !!*text;
	json_t *o;

	switch (*text) {
	case 'e':
		o = json_loads(rest, 0, NULL);
		read_events(o);
		json_decref(o);
		break;
	case 'h':
		read_lease(rest, strlen(rest));
		break;
	case 'j':
		read_logs(rest, OTHER);
		break;
	case 'l':
		read_logs(rest, NODE);
		break;
	case 'o':
		read_open(rest, strlen(rest));
		break;
	case 'r':
		read_report(rest);
		break;
	case 'v':
		read_vote(rest);
		break;
	case 'x':
		read_refusal(rest);
		break;
	}
	free(text);
	return 0;
}
