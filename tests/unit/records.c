/* SPDX-License-Identifier: MIT */
/*
 * The text of each record, letter by letter, and what is read of it: a backing, or a node, may have
 * it from another version. Of most there is more elsewhere: decision, digest_record and commit in
 * tests/fuzz, events.c, nodes.c, format.c.
 */
#include "tests/unit/unit.h"

#include "engine/base/cleanup.h"
#include "engine/base/json.h"
#include "engine/coord/agreement.h"
#include "engine/format/names.h"
#include "engine/record/left.h"
#include "engine/record/open_record.h"
#include "engine/record/refusal.h"
#include "engine/record/told.h"
#include "engine/record/vote.h"

#define NODE "0123456789abcdef0123456789abcdef"
#define ID   "00112233445566778899aabbccddeeff"

/* Frees @text. */
static void is_text(char *text, const char *wanted)
{
	assert_non_null(text);
	assert_string_equal(text, wanted);
	free(text);
}

/* --- names --- */

static void reserved_names_are_as_they_were(void **state)
{
	char name[TRASH_MAX];

	(void)state;
	staging_name(name, ID);
	assert_string_equal(name, ".ckptfs-" ID);
	assert_string_equal(staging_id(name), ID);
	assert_true(name_is_staging(name) && name_is_reserved(name) && !name_is_trash(name));
	trash_name(name, ID);
	assert_string_equal(name, ".ckptfs-trash-" ID);
	assert_true(name_is_trash(name) && name_is_reserved(name) && !name_is_staging(name));
	vote_name(name, 17);
	assert_string_equal(name, ".ckptfs-vote-17");
	assert_true(name_is_of_agreement(name) && !name_is_staging(name));
	own_commit_name(name, NODE);
	assert_string_equal(name, ".ckptfs-commit-" NODE);
	assert_true(name_is_of_agreement(name) && !name_is_staging(name));
	assert_true(!staging_new(name) && name_is_staging(name));
	assert_false(name_is_of_agreement(".ckptfs-commit.json") ||
		     name_is_trash(".ckptfs-trash-") || name_is_staging(".ckptfs-" ID "0") ||
		     name_is_reserved(".ckptfs"));
}

static void names_of_records_are_as_they_were(void **state)
{
	char name[COORD_NAME_MAX], kind[COORD_KIND_MAX], gen[COORD_GEN_MAX], uid[COORD_UID_MAX];
	static const char *const kinds[] = {"name", "open", "prepare", "next", "decision"};
	static const char *const no_uids[] = {"",   "x",	  "01",		 "+1",
					      " 1", "4294967295", "99999999999", "-1"};
	uid_t owner;
	size_t i;

	(void)state;
	coord_log_kind(kind, 17, 3);
	assert_string_equal(kind, "log.17.3");
	assert_true(coord_kind_ok(kind) && coord_is_log(kind) && !coord_is_log("logs"));
	coord_record_name(name, ID, kind);
	assert_string_equal(name, ID ".log.17.3");
	assert_string_equal(coord_parse_record(name, gen), "log.17.3");
	assert_string_equal(gen, ID);
	assert_null(coord_parse_record(ID, gen));
	assert_null(coord_parse_record("short.open", gen));
	assert_null(coord_parse_record("00112233445566778899AABBCCDDEEFF.open", gen));
	for (i = 0; i < ARRAY_SIZE(kinds); i++)
		assert_true(coord_kind_ok(kinds[i]) && !coord_is_log(kinds[i]));
	coord_uid_name(uid, 1000);
	assert_string_equal(uid, "1000");
	assert_int_equal(coord_parse_uid("1000/" ID, &owner), 4);
	assert_int_equal(owner, 1000);
	assert_true(coord_parse_uid("0", &owner) == 1 && owner == 0);
	for (i = 0; i < ARRAY_SIZE(no_uids); i++)
		assert_int_equal(coord_parse_uid(no_uids[i], &owner), 0);
}

static void digest_files_are_as_they_were(void **state)
{
	char name[DIGEST_FILE_MAX];

	(void)state;
	digest_file_dir(name, 1000);
	assert_string_equal(name, "1000");
	digest_file_name(name, 0x2f);
	assert_string_equal(name, "2f");
	assert_int_equal(digest_file_check(ID " 17 4\n", 38), 37);
	assert_int_equal(digest_file_check(ID " 17 4", 37), -EINVAL);
	assert_string_equal(DIGEST_XATTR, "user.ckptfs.xxh3");
}

/* --- the agreement --- */

static void entries_of_logs_are_as_they_were(void **state)
{
	static const char *const words[] = {"join", "report", "vote", "closed", "heir"};
	char head[AGREE_HEAD_MAX], text[AGREE_HEAD_MAX], node[COORD_NODE_MAX];
	enum agree_entry what, read;
	const char *payload;
	uint32_t slot;

	(void)state;
	for (what = AGREE_JOIN; what <= AGREE_HEIR; what++) {
		snprintf(text, sizeof(text), "%s 17 " NODE, words[what]);
		agreement_write_entry(head, what, 17, NODE);
		assert_string_equal(head, text);
		assert_true(agreement_read_entry(text, &read, &slot, node, &payload));
		assert_true(read == what && slot == 17 && !*payload);
		assert_string_equal(node, NODE);
	}
	is_text(agreement_text("vote 0 " NODE, "{}"), "vote 0 " NODE " {}");
	assert_true(agreement_read_entry("vote 0 " NODE " {}", &read, &slot, node, &payload));
	assert_string_equal(payload, "{}");
	assert_false(agreement_read_entry("vote 0 " NODE "{}", &read, &slot, node, &payload) ||
		     agreement_read_entry("votes 0 " NODE, &read, &slot, node, &payload) ||
		     agreement_read_entry("vote -1 ?", &read, &slot, node, &payload));
}

static void open_is_as_it_was(void **state)
{
	static const char text[] = "{\"gid\":100,\"inherits\":true,\"job\":\"0/elastic/a\","
				   "\"label\":\"n1\",\"node\":\"" NODE "\"}";
	static const char *const bad[] = {"", "{}", "{\"node\":\"x\",\"job\":\"a\"}",
					  "{\"node\":\"" NODE "\"}",
					  "{\"node\":\"" NODE "\",\"job\":\"\"}"};
	struct open_record o = {NODE, "n1", "0/elastic/a", 100, true, false}, r, same = o;
	size_t i;

	(void)state;
	is_text(open_record_write(&o), text);
	assert_int_equal(open_record_read(text, strlen(text), &r), 0);
	assert_string_equal(r.node, NODE);
	assert_string_equal(r.label, "n1");
	assert_string_equal(r.job, "0/elastic/a");
	assert_true(r.gid == 100 && r.inherits && !r.follows);
	for (i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(open_record_read(bad[i], strlen(bad[i]), &o), -EPERM);
	assert_memory_equal(&o, &same, sizeof(o));
}

static void an_end_is_read_as_it_was_written(void **state)
{
	const struct agree_prepare all[] = {
		{NODE, 0, 0, false},
		{NODE, 17, 0xffff, true},
		{"ab", AGREE_SLOT_MAX - 1, 5, false},
	};
	static const char *const texts[] = {"prepare " NODE " 0 0 ended",
					    "prepare " NODE " 17 ffff died",
					    "prepare ab 1999999999 5 ended"};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(all) / sizeof(*all); i++) {
		char text[AGREE_HEAD_MAX];
		struct agree_prepare p;

		agreement_write_prepare(text, &all[i]);
		assert_string_equal(text, texts[i]);
		assert_true(agreement_read_prepare(text, &p));
		assert_string_equal(p.node, all[i].node);
		assert_int_equal(p.length, all[i].length);
		assert_int_equal(p.voted, all[i].voted);
		assert_int_equal(p.died, all[i].died);
	}
}

static void what_is_no_end_is_refused(void **state)
{
	static const char *const texts[] = {"",
					    "prepare",
					    "prepare " NODE,
					    "prepare " NODE " 5",
					    "prepare " NODE " 5 1",
					    "prepare XY 5 1 ended",
					    "prepare " NODE " 5 1 lost",
					    "commit " NODE " 5 1 ended",
					    "prepare " NODE " 4000000000 1 ended"};
	struct agree_prepare p;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		assert_false(agreement_read_prepare(texts[i], &p));
}

static void a_decision_has_its_payload(void **state)
{
	struct agree_decision d;
	char head[AGREE_HEAD_MAX];

	(void)state;
	agreement_write_decision(head, true, NODE);
	assert_string_equal(head, "commit " NODE);
	assert_true(agreement_read_decision(head, &d) && d.commit);
	assert_string_equal(d.node, NODE);
	assert_string_equal(d.payload, "");
	agreement_write_decision(head, false, NODE);
	assert_string_equal(head, "abort " NODE);
	assert_true(agreement_read_decision("abort " NODE " {}", &d) && !d.commit);
	assert_string_equal(d.node, NODE);
	assert_string_equal(d.payload, "{}");
	assert_true(agreement_read_decision("abort ?", &d));
	assert_string_equal(d.node, "");
	assert_false(agreement_read_decision("prepare " NODE, &d));
}

static void a_reason_is_read_as_it_was_written(void **state)
{
	const struct refusal all[] = {
		{.err = EIO, .reason = "rank 3 has died", .node = "n1", .age_us = 12345},
		{.err = ECANCELED, .reason = "it was removed", .node = "n2", .dropped = true},
		{.err = 0, .reason = "it is ordinary", .node = "n\"3", .ordinary = true},
	};
	static const char *const texts[] = {
		"{\"err\":5,\"reason\":\"rank 3 has died\",\"node\":\"n1\",\"age_us\":12345}",
		"{\"err\":125,\"reason\":\"it was removed\",\"node\":\"n2\",\"dropped\":true}",
		"{\"err\":0,\"reason\":\"it is ordinary\",\"node\":\"n\\\"3\",\"ordinary\":true}",
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(all) / sizeof(*all); i++) {
		char *text = refusal_write(&all[i]);
		struct refusal r;

		assert_non_null(text);
		assert_string_equal(text, texts[i]);
		refusal_read(&r, text);
		assert_int_equal(r.err, all[i].err);
		assert_string_equal(r.reason, all[i].reason);
		assert_string_equal(r.node, all[i].node);
		assert_int_equal(r.dropped, all[i].dropped);
		assert_int_equal(r.ordinary, all[i].ordinary);
		assert_int_equal(r.age_us, all[i].age_us);
		refusal_finish(&r);
		free(text);
	}
}

/* Anybody may have recorded it. */
static void what_is_no_reason_is_a_failure(void **state)
{
	static const char *const texts[] = {NULL,
					    "",
					    "{",
					    "[]",
					    "5",
					    "{\"err\": -3}",
					    "{\"err\": 99999999999}",
					    "{\"reason\": 5}"};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		struct refusal r;

		refusal_read(&r, texts[i]);
		assert_int_equal(r.err, EIO);
		assert_true(*r.reason && *r.node);
		assert_false(r.dropped || r.ordinary);
		refusal_finish(&r);
	}
}

/* --- the payloads --- */

static struct decision *a_decision(void)
{
	struct decision *d = calloc(1, sizeof(*d));

	assert_non_null(d);
	d->commit = d->replaces = true;
	strcpy(d->unit, "run/step-\xff");
	d->ino = 5;
	d->btime_ns = 6;
	d->order.nr_pointers = d->order.nr_removals = 1;
	strcpy(d->order.pointers[0].name, "latest");
	staging_name(d->order.pointers[0].staging, ID);
	strcpy(d->order.pointers[0].was, "nothing");
	strcpy(d->order.removals[0].name, "step-1");
	strcpy(d->order.removals[0].generation, ID);
	return d;
}

static void a_decision_is_as_it_was(void **state)
{
	static const char text[] =
		"{\"decision\":\"commit\",\"pointers\":[{\"name\":\"latest\",\"staged\":\"" ID
		"\",\"was\":\"nothing\"}],\"removals\":[{\"generation\":\"" ID
		"\",\"name\":\"step-1\"}],\"replaces\":{\"btime_ns\":6,\"ino\":5},"
		"\"unit_hex\":\"72756e2f737465702dff\"}";
	__cleanup_free struct decision *d = a_decision(), *r = malloc(sizeof(*r));

	(void)state;
	is_text(decision_write(d), text);
	assert_int_equal(decision_parse(text, strlen(text), r), 0);
	assert_memory_equal(d, r, sizeof(*d));
	memset(d, 0, sizeof(*d));
	strcpy(d->unit, "a");
	d->ordinary = true;
	is_text(decision_write(d),
		"{\"decision\":\"abort\",\"ordinary\":true,\"replaces\":null,\"unit\":\"a\"}");
	d->replaces = true;
	strcpy(d->generation, ID);
	is_text(decision_write(d), "{\"decision\":\"abort\",\"ordinary\":true,\"replaces\":"
				   "{\"generation\":\"" ID "\"},\"unit\":\"a\"}");
}

static void a_vote_is_as_it_was(void **state)
{
	static const char text[] =
		"{\"nodes\":3,\"list\":[],\"done\":\"rename .metadata\",\"ranks\":8,\"decision\":"
		"{\"decision\":\"commit\",\"replaces\":null,\"unit\":\"run/step-9\"},"
		"\"rule\":\"torch-dcp\",\"judged\":true}";
	__cleanup_free struct for_heir *h = calloc(1, sizeof(*h)), *r = NULL;
	struct rules *rules;
	json_t *list = json_array(), *read;
	struct error e;

	(void)state;
	assert_int_equal(rules_create(&rules, NULL, "", &e), 0);
	h->rule = rules_find(rules, "torch-dcp");
	assert_non_null(h->rule);
	strcpy(h->done, "rename .metadata");
	h->ranks = 8;
	h->judged = h->decides = h->decision.commit = true;
	strcpy(h->decision.unit, "run/step-9");
	is_text(vote_compose(3, list, h), text);
	assert_int_equal(vote_parse(text, &read, rules, &r), 3);
	assert_non_null(r);
	assert_memory_equal(h, r, sizeof(*h));
	assert_true(json_is_array(read));
	json_decref(read);
	json_decref(list);

	is_text(vote_compose(1, NULL, NULL), "{\"nodes\":1}");
	assert_int_equal(vote_parse("{\"nodes\":-1}", &read, rules, NULL), 1);
	assert_null(read);
	rules_destroy(rules);
}

static void lines_of_a_vote_are_as_they_were(void **state)
{
	static const char of_file[] = "{\"ino\":7,\"btime_ns\":9,\"size\":4096,\"mtime_ns\":17,"
				      "\"rank\":3,\"xxh3\":\"" ID "\",\"by_handle\":true,"
				      "\"node\":\"n1\"}";
	static const struct filed f = {.id = {5, 7, 9},
				       .size = 4096,
				       .mtime_ns = 17,
				       .rank = 3,
				       .by_handle = true,
				       .xxh3 = ID};
	const struct overwrite r = {{5, 7, 9}, {5, 8, 10}};
	struct ckptfs_tensor w = {.ndim = 1, .kind = CKPTFS_TENSOR, .name_len = 1, .dtype = "F32"};
	struct tensor_place place = {.at = 72, .bytes = 8, .xxh3 = ID};
	json_t *file = vote_line_of_file(&f, "n1"), *over = vote_line_of_overwrite(&r), *tensor;
	struct commit_tensor_room room;
	char label[NAME_MAX + 1];
	struct commit_tensor t;
	struct overwrite over_read;
	struct filed read;

	(void)state;
	w.global_shape[0] = w.shard_shape[0] = 2;
	place.tensor = tensor_make(&w, "w");
	tensor = vote_line_of_tensor(&place);
	tensor_put(place.tensor);
	is_text(json_dumps(file, JSON_COMPACT), of_file);
	is_text(json_dumps(over, JSON_COMPACT), "{\"ino\":7,\"btime_ns\":9,\"over\":[8,10]}");
	is_text(json_dumps(tensor, JSON_COMPACT),
		"{\"name\":\"w\",\"dtype\":\"F32\",\"shape\":[2],\"offset\":[0],\"length\":[2],"
		"\"at\":72,\"bytes\":8,\"xxh3\":\"" ID "\"}");
	assert_false(vote_line_is_tensor(file) || vote_line_is_overwrite(file));
	assert_true(vote_line_is_tensor(tensor) && !vote_line_is_overwrite(tensor));
	assert_true(vote_line_is_overwrite(over) && !vote_line_is_tensor(over));

	assert_true(vote_parse_file(file, 5, &read, label));
	assert_string_equal(read.node, "n1");
	read.node = NULL;
	assert_memory_equal(&read, &f, sizeof(f));
	over_read = vote_parse_overwrite(over, 5);
	assert_memory_equal(&over_read, &r, sizeof(r));
	assert_true(vote_parse_tensor(tensor, &t, &room));
	assert_true(!strcmp(t.name, "w") && !strcmp(t.xxh3, ID) && t.at == 72 && t.bytes == 8);
	json_object_set_new(file, "node", json_string(""));
	json_object_del(tensor, "name");
	assert_false(vote_parse_file(file, 5, &read, label));
	assert_false(vote_parse_tensor(tensor, &t, &room));
	json_decref(file);
	json_decref(over);
	json_decref(tensor);
}

/* Takes the line @text, or refuses it. */
static bool left_takes(struct left *l, const char *text)
{
	json_t *line = json_loads(text, 0, NULL);
	bool ok = left_has_line(line) && left_take_line(l, line);

	json_decref(line);
	return ok;
}

static void what_is_left_is_as_it_was(void **state)
{
	static const char pointer[] =
		"{\"link\":false,\"mode\":420,\"written_ns\":17,"
		"\"by\":\"" ID "\",\"pointer\":\"latest\",\"text\":\"step-9\\n\"}",
			  link[] = "{\"link\":true,\"mode\":511,\"written_ns\":18,"
				   "\"by\":\"" ID "\",\"pointer_hex\":\"ff\",\"text\":\"step-9\"}",
			  removal[] = "{\"generation\":\"" ID "\",\"by\":\"" ID
				      "\",\"removal\":\"step-1\"}";
	static const struct left_pointer p = {ID, "latest", "step-9\n", false, 0644, 17, false},
					 q = {ID, "\xff", "step-9", true, 0777, 18, false};
	static const struct left_removal r = {ID, {"step-1", ID}, false};
	struct left l = {0};
	json_t *lines[] = {left_line_of_pointer(&p), left_line_of_pointer(&q),
			   left_line_of_removal(&r)};
	size_t i;

	(void)state;
	is_text(json_dumps(lines[0], JSON_COMPACT), pointer);
	is_text(json_dumps(lines[1], JSON_COMPACT), link);
	is_text(json_dumps(lines[2], JSON_COMPACT), removal);
	for (i = 0; i < ARRAY_SIZE(lines); i++) {
		assert_true(left_has_line(lines[i]) && left_take_line(&l, lines[i]));
		assert_false(vote_line_is_tensor(lines[i]) || vote_line_is_overwrite(lines[i]));
		json_decref(lines[i]);
	}
	assert_true(l.nr_pointers == 2 && l.nr_removals == 1);
	assert_memory_equal(&l.pointers[0], &p, sizeof(p));
	assert_memory_equal(&l.pointers[1], &q, sizeof(q));
	assert_memory_equal(&l.removals[0], &r, sizeof(r));
}

/* Of two pointers of one name the last written counts, of too many the first ones. */
static void of_what_is_left_each_name_counts_once(void **state)
{
	struct left l = {0};
	char text[256];
	unsigned i;

	(void)state;
	assert_true(left_takes(
		&l, "{\"pointer\":\"a\",\"text\":\"old\",\"written_ns\":5,\"by\":\"" ID "\"}"));
	assert_true(left_takes(
		&l, "{\"pointer\":\"a\",\"text\":\"new\",\"written_ns\":6,\"by\":\"" ID "\"}"));
	assert_true(left_takes(
		&l, "{\"pointer\":\"a\",\"text\":\"old\",\"written_ns\":4,\"by\":\"" ID "\"}"));
	assert_int_equal(l.nr_pointers, 1);
	assert_string_equal(l.pointers[0].text, "new");
	for (i = 0; i < 2 * LEFT_MAX; i++) {
		snprintf(text, sizeof(text),
			 "{\"pointer\":\"p%u\",\"text\":\"x\",\"by\":\"" ID "\"}", i);
		assert_true(left_takes(&l, text));
		snprintf(text, sizeof(text),
			 "{\"removal\":\"r%u\",\"generation\":\"" ID "\",\"by\":\"" ID "\"}",
			 i / 2);
		assert_true(left_takes(&l, text));
		assert_true(left_takes(&l, text));
	}
	assert_int_equal(l.nr_pointers, LEFT_MAX);
	assert_int_equal(l.nr_removals, LEFT_MAX);
	assert_string_equal(l.removals[LEFT_MAX - 1].what.name, "r31");
}

static void what_cannot_be_left_is_not_taken(void **state)
{
	static const char *const texts[] = {
		"{\"pointer\":\"a\",\"by\":\"" ID "\"}",
		"{\"pointer\":\"a/b\",\"text\":\"x\",\"by\":\"" ID "\"}",
		"{\"pointer\":\"..\",\"text\":\"x\",\"by\":\"" ID "\"}",
		"{\"pointer\":\".ckptfs-x\",\"text\":\"x\",\"by\":\"" ID "\"}",
		"{\"pointer\":7,\"text\":\"x\",\"by\":\"" ID "\"}",
		"{\"removal\":\"a\",\"by\":\"" ID "\"}",
		"{\"removal\":\"..\",\"generation\":\"" ID "\",\"by\":\"" ID "\"}",
		"{\"removal\":\"a\",\"generation\":\"x\",\"by\":\"" ID "\"}",
		"{\"removal_hex\":\"2f\",\"generation\":\"" ID "\",\"by\":\"" ID "\"}",
		"{\"pointer\":\"a\",\"text\":\"x\"}",
		"{\"pointer\":\"a\",\"text\":\"x\",\"by\":\"x\"}",
		"{\"removal\":\"a\",\"generation\":\"" ID "\"}",
		"{\"ino\":7}",
		"[]"};
	struct left l = {0};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(texts); i++)
		assert_false(left_takes(&l, texts[i]));
	assert_true(!l.nr_pointers && !l.nr_removals);
}

static void what_is_no_legacy_is_not_taken(void **state)
{
	static const char *const texts[] = {
		"", "[]", "{\"decision\":5,\"ranks\":-1,\"rule\":\"?\",\"done\":3}"};
	struct rules *rules;
	struct error e;
	size_t i;

	(void)state;
	assert_int_equal(rules_create(&rules, NULL, "", &e), 0);
	for (i = 0; i < ARRAY_SIZE(texts); i++) {
		__cleanup_free struct for_heir *r = NULL;
		json_t *list;

		assert_int_equal(vote_parse(texts[i], &list, rules, &r), 1);
		assert_non_null(r);
		assert_true(!list && !r->rule && !r->decides && !r->ranks && !*r->done &&
			    !r->judged);
	}
	rules_destroy(rules);
}

static void a_report_is_as_it_was(void **state)
{
	static const char text[] =
		"{\"open\":true,\"writers\":false,\"events\":[],\"last\":true,\"dead\":{\"reason\":"
		"\"rank 3 "
		"died\",\"unranked\":false,\"node\":\"n1\",\"age_us\":15},\"rule\":\"dcp\","
		"\"removing\":true,\"name\":\"step-9\",\"open_on\":[]}";
	struct told t = {.open = true,
			 .last = true,
			 .removing = true,
			 .died = true,
			 .rule = "dcp",
			 .name = "step-9",
			 .events = json_array(),
			 .open_on = json_array(),
			 .death = {"rank 3 died", "n1", false, 15}};
	struct told r;

	(void)state;
	is_text(told_write(&t), text);
	told_read(&r, text);
	assert_true(r.open && !r.writers && r.last && r.removing && r.died && !r.death.unranked);
	assert_string_equal(r.rule, "dcp");
	assert_string_equal(r.name, "step-9");
	assert_string_equal(r.death.reason, "rank 3 died");
	assert_string_equal(r.death.node, "n1");
	assert_int_equal(r.death.age_us, 15);
	assert_true(json_is_array(r.events) && json_is_array(r.open_on));
	told_finish(&r);
	t = (struct told){.events = t.events, .open_on = t.open_on};
	json_decref(t.open_on);
	t.open_on = NULL;
	is_text(told_write(&t), "{\"open\":false,\"writers\":false,\"events\":[],\"last\":false}");
	json_decref(t.events);
}

static void what_is_no_report_tells_nothing(void **state)
{
	static const char *const texts[] = {"", "[]", "5", "{\"name\":\"a/b\"}",
					    "{\"open\":1,\"dead\":[],\"rule\":5,\"name\":\"..\"}"};
	struct told t;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(texts); i++) {
		told_read(&t, texts[i]);
		assert_false(t.open || t.writers || t.last || t.removing || t.died || t.rule ||
			     t.name || t.events || t.open_on);
		told_finish(&t);
	}
	told_read(&t, "{\"dead\":{}}");
	assert_true(t.died && *t.death.reason && *t.death.node);
	told_finish(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reserved_names_are_as_they_were),
		cmocka_unit_test(names_of_records_are_as_they_were),
		cmocka_unit_test(digest_files_are_as_they_were),
		cmocka_unit_test(entries_of_logs_are_as_they_were),
		cmocka_unit_test(open_is_as_it_was),
		cmocka_unit_test(an_end_is_read_as_it_was_written),
		cmocka_unit_test(what_is_no_end_is_refused),
		cmocka_unit_test(a_decision_has_its_payload),
		cmocka_unit_test(a_reason_is_read_as_it_was_written),
		cmocka_unit_test(what_is_no_reason_is_a_failure),
		cmocka_unit_test(a_decision_is_as_it_was),
		cmocka_unit_test(a_vote_is_as_it_was),
		cmocka_unit_test(lines_of_a_vote_are_as_they_were),
		cmocka_unit_test(what_is_left_is_as_it_was),
		cmocka_unit_test(of_what_is_left_each_name_counts_once),
		cmocka_unit_test(what_cannot_be_left_is_not_taken),
		cmocka_unit_test(what_is_no_legacy_is_not_taken),
		cmocka_unit_test(a_report_is_as_it_was),
		cmocka_unit_test(what_is_no_report_tells_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
