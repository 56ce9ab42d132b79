/* SPDX-License-Identifier: MIT */
/*
 * Nodes that mount together: who is refused, who is waited for, whom a restart takes away; and what
 * a lease says.
 */
#include "tests/unit/unit.h"

#include <sys/mman.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/coord/nodes_inside.h"
#include "engine/format/format.h"
#include "engine/rule/rule.h"
#include "tests/backing/faults.h"

#define LEASE_S 30
#define LEASE	(LEASE_S * NSEC_PER_SEC)
#define OTHER	"fedcba9876543210fedcba9876543210"

static struct backing b;
static struct error e;
static uint64_t now;
static unsigned waited;
static bool renews; /* the other one does, while it is waited for */

static uint64_t get_now(void *arg)
{
	(void)arg;
	return now;
}

/* Who sleeps does so in no time. */
static void sleep_through(void)
{
	now += NSEC_PER_SEC / 10;
}

static const struct clock_source by_test = {.mono_ns = get_now, .wall_ns = get_now};

static int setup(void **state)
{
	char path[PATH_MAX];

	(void)state;
	if (backing_open(&b, scratch_dir(path), &e) || format_init(b.root_fd, path, &e))
		return -1;
	features_probe(b.features, b.root_fd, true);
	now = NSEC_PER_SEC;
	waited = 0;
	renews = false;
	clock_set_source(&by_test);
	wait_observe(sleep_through);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	wait_observe(NULL);
	clock_set_source(NULL);
	backing_close(&b);
	return 0;
}

static void lease_of_other(const char *format, unsigned n)
{
	char text[512];

	snprintf(text, sizeof(text), format, n);
	assert_int_equal(coord_dir_ops.lease(&b, OTHER, text, strlen(text)), 0);
}

static const char *other_text; /* with %u, for the renewal */

static void waits(void *arg)
{
	(void)arg;
	waited++;
	now += LEASE / 10;
	if (renews)
		lease_of_other(other_text, waited);
}

static const struct coord_ops *coord = &coord_dir_ops;

static int mount_as(struct nodes **ns, const char *label, bool given, const char *place)
{
	return nodes_create(ns,
			    &(struct nodes_options){.coord = coord,
						    .coord_arg = &b,
						    .backing = "/pfs",
						    .label = label,
						    .label_given = given,
						    .place = place,
						    .rules = "aa",
						    .lease_s = LEASE_S,
						    .waits = waits,
						    .by_hand = true},
			    &e);
}

/* Another one has left @text, and renews it or not: may we mount? */
static int meet(const char *text, bool lives, const char *place)
{
	struct nodes *ns;
	int err;

	other_text = text;
	renews = lives;
	waited = 0;
	lease_of_other(text, 0);
	err = mount_as(&ns, "gpu7", true, place);
	if (!err)
		nodes_destroy(ns);
	return err;
}

static bool other_is_there(void)
{
	char buf[COORD_LEASE_MAX];

	return coord_dir_ops.lease_read(&b, OTHER, buf, sizeof(buf)) >= 0;
}

#define SAME	    "\"protocol\":7,\"rules\":\"aa\",\"lease_s\":30,\"n\":%u"
#define LEASED(...) "{" __VA_ARGS__ "}"

static void those_alike_work_together(void **state)
{
	(void)state;
	assert_int_equal(
		meet(LEASED(SAME ",\"label\":\"gpu8\",\"host\":\"h\",\"boot\":\"0\""), true, ""),
		0);
	assert_int_equal(waited, 0); /* for nobody */
	assert_true(other_is_there());
}

static void those_that_differ_are_refused_if_they_live(void **state)
{
	static const struct {
		const char *text, *says;
	} odd[] = {
		{LEASED("\"protocol\":8,\"label\":\"new\",\"host\":\"h\",\"n\":%u"),
		 "by protocol 8"},
		{LEASED("\"protocol\":7,\"rules\":\"ab\",\"label\":\"x\",\"host\":\"h\",\"n\":%u"),
		 "'x' of host h, which has /pfs mounted, goes by other rules"},
		{LEASED(SAME ",\"label\":\"gpu7\",\"host\":\"far\",\"boot\":\"0\""),
		 "'gpu7' is in use by a live mount on host far"},
		{"no JSON %u", "'" OTHER "' of host ?"},
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(odd); i++) {
		assert_true(meet(odd[i].text, true, "") < 0);
		assert_contains(e.text, odd[i].says);
		assert_contains(e.text, "Nothing was mounted");
		assert_true(other_is_there());
		assert_int_equal(meet(odd[i].text, false, ""), 0);
		assert_in_range(waited, 10, 13);
		assert_true(other_is_there()); /* it may only have been held up */
	}
}

/* A lease is made, then its text is written: a mount that looks between the two warns of nobody. */
static void who_mounts_just_now_is_no_stranger(void **state)
{
	char said[MESSAGE_MAX] = "";
	int log = memfd_create("log", MFD_CLOEXEC), saved = dup(STDERR_FILENO), fd;
	struct nodes *ns;
	int err;

	(void)state;
	assert_true(log >= 0 && saved >= 0);
	fd = openat(b.root_fd, FORMAT_DIR "/" FORMAT_NODES "/" OTHER, O_WRONLY | O_CREAT, 0644);
	assert_true(fd >= 0);
	close(fd);
	other_text = LEASED(SAME ",\"label\":\"gpu8\",\"host\":\"h\",\"boot\":\"0\"");
	renews = true;
	dup2(log, STDERR_FILENO);
	err = mount_as(&ns, "gpu7", true, "");
	dup2(saved, STDERR_FILENO);
	close(saved);
	assert_true(pread(log, said, sizeof(said) - 1, 0) >= 0);
	close(log);
	assert_int_equal(err, 0);
	assert_int_equal(waited, 1);
	assert_string_equal(said, "");
	nodes_destroy(ns);
}

/* One whose lease is longer may be silent for longer. */
static void the_longer_lease_counts(void **state)
{
	(void)state;
	assert_int_equal(meet(LEASED("\"protocol\":8,\"lease_s\":90,\"n\":%u"), false, ""), 0);
	assert_in_range(waited, 30, 34);
}

/* It held the lock of our label, which we hold now. */
static void who_was_here_before_is_dead(void **state)
{
	char boot[BOOT_MAX] = "", text[256];
	struct nodes *ns;
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY);

	(void)state;
	assert_int_equal(read(fd, boot, BOOT_MAX - 1), BOOT_MAX - 1);
	close(fd);
	other_text = text;
	renews = false;
	snprintf(text, sizeof(text),
		 LEASED("\"protocol\":7,\"rules\":\"ab\",\"label\":\"gpu7\",\"boot\":\"%s\","
			"\"place\":\"5:6\"") "%%.0u",
		 boot);
	lease_of_other(text, 0);
	waited = 0;
	assert_int_equal(mount_as(&ns, "gpu7", true, "5:6"), 0);
	assert_int_equal(waited, 0);
	assert_false(nodes_alive(ns, OTHER));
	assert_true(other_is_there()); /* until it is known what it has left */
	nodes_end_before(ns);
	assert_false(other_is_there());
	nodes_destroy(ns);
	assert_true(meet(text, true, "5:7") < 0 || waited); /* its lock is elsewhere */
}

static void look(struct nodes *ns)
{
	LOCK_SCOPE(&ns->lock);
	nodes_look_locked(ns);
}

static void watch(struct nodes *ns, unsigned seconds)
{
	unsigned i;

	for (i = 0; i < seconds; i++) {
		now += NSEC_PER_SEC;
		assert_int_equal(nodes_renew(ns), 0);
		look(ns);
	}
}

static void the_silent_are_dead_and_may_come_back(void **state)
{
	struct nodes *ns;

	(void)state;
	lease_of_other(LEASED(SAME), 1);
	assert_int_equal(mount_as(&ns, "n", false, ""), 0);
	assert_true(nodes_hold(ns));
	assert_true(nodes_alive(ns, OTHER));
	assert_true(nodes_alive(ns, nodes_id(ns)));
	watch(ns, LEASE_S - 2);
	assert_true(nodes_alive(ns, OTHER));
	lease_of_other(LEASED(SAME), 2);
	watch(ns, LEASE_S - 2);
	assert_true(nodes_alive(ns, OTHER));
	watch(ns, 5);
	assert_false(nodes_alive(ns, OTHER));
	lease_of_other(LEASED(SAME), 3);
	watch(ns, 1);
	assert_true(nodes_alive(ns, OTHER));
	assert_int_equal(coord_dir_ops.lease_end(&b, OTHER), 0);
	watch(ns, 1);
	assert_false(nodes_alive(ns, OTHER)); /* at once */
	assert_false(nodes_alive_now(ns, OTHER));
	lease_of_other(LEASED(SAME), 4);
	assert_false(nodes_alive(ns, OTHER)); /* not looked at since */
	assert_true(nodes_alive_now(ns, OTHER));
	now += LEASE;
	assert_false(nodes_hold(ns));
	nodes_destroy(ns);
}

/* Who was cut off and is back joins something before caches show that he renews his lease. */
static void who_is_heard_of_lives(void **state)
{
	struct nodes *ns;

	(void)state;
	lease_of_other(LEASED(SAME), 1);
	assert_int_equal(mount_as(&ns, "n", false, ""), 0);
	nodes_heard(ns, OTHER); /* whom nobody has asked for */
	assert_true(nodes_alive(ns, OTHER));
	watch(ns, LEASE_S + 2);
	assert_false(nodes_alive_now(ns, OTHER));
	nodes_heard(ns, OTHER);
	assert_true(nodes_alive(ns, OTHER));
	watch(ns, LEASE_S - 2);
	assert_true(nodes_alive_now(ns, OTHER));
	watch(ns, 5);
	assert_false(nodes_alive_now(ns, OTHER));
	nodes_destroy(ns);
}

/* Caches remember what was not there. */
static void who_was_never_seen_is_given_longer(void **state)
{
	struct nodes *ns;

	(void)state;
	assert_int_equal(mount_as(&ns, "n", false, ""), 0);
	assert_true(nodes_alive(ns, OTHER));
	watch(ns, LEASE_S + NODES_UNSEEN_S - 2);
	assert_true(nodes_alive(ns, OTHER));
	watch(ns, 5);
	assert_false(nodes_alive(ns, OTHER));
	nodes_destroy(ns);
}

static struct nodes *looker;
static unsigned looks_left;

/* While one thread reads the lease others read it, too, and know it first. */
static ssize_t read_beside_others(void *arg, const char *node, char *buf, size_t size)
{
	ssize_t n = coord_dir_ops.lease_read(arg, node, buf, size);

	now += 5 * NSEC_PER_MSEC;
	if (looks_left && looks_left--)
		nodes_alive_now(looker, OTHER);
	return n;
}

static void many_first_looks_are_one(void **state)
{
	struct coord_ops ops = coord_dir_ops;

	(void)state;
	ops.lease_read = read_beside_others;
	coord = &ops;
	assert_int_equal(mount_as(&looker, "n", false, ""), 0);
	lease_of_other(LEASED(SAME), 1);
	looks_left = 10;
	assert_true(nodes_alive_now(looker, OTHER));
	assert_int_equal(looks_left, 0);
	assert_true(nodes_alive(looker, OTHER));
	nodes_destroy(looker);
	coord = &coord_dir_ops;
}

/* A service has none: what it does not have is over. */
static void who_is_missing_in_a_service_is_dead(void **state)
{
	struct coord_ops service = coord_dir_ops;
	struct nodes *ns;

	(void)state;
	service.lease_is_sure = true;
	coord = &service;
	assert_int_equal(mount_as(&ns, "n", false, ""), 0);
	assert_false(nodes_alive_now(ns, OTHER));
	lease_of_other(LEASED(SAME), 1);
	assert_true(nodes_alive_now(ns, OTHER));
	nodes_destroy(ns);
	coord = &coord_dir_ops;
}

static void an_outage_makes_nobody_dead(void **state)
{
	struct faults *f = faults_attach(&b);
	struct nodes *ns;
	unsigned i;

	(void)state;
	lease_of_other(LEASED(SAME), 1);
	assert_int_equal(mount_as(&ns, "n", false, ""), 0);
	assert_true(nodes_alive(ns, OTHER));
	watch(ns, LEASE_S - 2);
	faults_add(f, &(struct fault){.calls = CALL_ANY, .err = EIO});
	for (i = 0; i < 600; i++) {
		now += NSEC_PER_SEC;
		assert_int_equal(nodes_renew(ns), -EIO);
		look(ns);
		assert_true(nodes_alive(ns, OTHER));
	}
	faults_clear(f);
	watch(ns, 1); /* what was between counts for nothing */
	assert_true(nodes_alive(ns, OTHER));
	lease_of_other(LEASED(SAME), 2);
	watch(ns, LEASE_S - 2);
	assert_true(nodes_alive(ns, OTHER));
	now += 1000 *
	       NSEC_PER_SEC; /* we were frozen: of that a third of the lease counts, at most */
	assert_int_equal(nodes_renew(ns), 0);
	lease_of_other(LEASED(SAME), 3);
	look(ns);
	assert_true(nodes_alive(ns, OTHER));
	now += 1000 * NSEC_PER_SEC;
	assert_int_equal(nodes_renew(ns), 0);
	look(ns);
	assert_true(nodes_alive(ns, OTHER));
	faults_detach(f);
	nodes_destroy(ns);
}

/* Nobody has asked, so nobody looks. */
static void the_idle_look_at_nobody(void **state)
{
	struct faults *f = faults_attach(&b);
	struct nodes *ns;
	uint64_t calls;

	(void)state;
	lease_of_other(LEASED(SAME), 1);
	assert_int_equal(mount_as(&ns, "n", false, ""), 0);
	lease_of_other(LEASED(SAME), 2);
	look(ns); /* it lives: that was to be known */
	look(ns);
	calls = faults_count(f, CALL_ANY);
	now += 10 * LEASE;
	look(ns);
	assert_int_equal(faults_count(f, CALL_ANY), calls);
	lock_take(&ns->lock);
	assert_true(nodes_idle_locked(ns));
	lock_drop(&ns->lock);
	faults_detach(f);
	nodes_destroy(ns);
}

static void one_that_comes_is_seen(void **state)
{
	struct nodes *ns;

	(void)state;
	assert_int_equal(mount_as(&ns, "gpu7", false, ""), 0);
	assert_true(nodes_seem_alone(ns));
	lease_of_other(LEASED(SAME ",\"label\":\"gpu8\",\"host\":\"h\",\"boot\":\"0\""), 0);
	assert_true(nodes_seem_alone(ns)); /* as when it was looked last */
	now += NODES_LOOK_NS;
	assert_false(nodes_seem_alone(ns));
	assert_int_equal(coord_dir_ops.lease_end(&b, OTHER), 0);
	now += NODES_LOOK_NS;
	assert_true(nodes_seem_alone(ns));
	nodes_destroy(ns);
}

static void what_cannot_be_used_is_told(void **state)
{
	struct faults *f = faults_attach(&b);
	struct nodes *ns;
	json_t *told;

	(void)state;
	faults_add(f, &(struct fault){.calls = CALL_SYNC, .err = EIO});
	assert_int_equal(mount_as(&ns, "n", false, ""), -EIO);
	assert_contains(e.text,
			"the leases in /pfs/.ckptfs/nodes, by which nodes know of each other, "
			"cannot be used: Input/output error. Nothing was mounted");
	faults_clear(f);
	faults_add(f, &(struct fault){.calls = CALL_CREATE, .err = EROFS});
	assert_int_equal(mount_as(&ns, "n", false, ""), 0);
	assert_true(nodes_alone(ns));
	assert_false(nodes_hold(ns));
	told = nodes_to_json(ns);
	assert_contains(json_string_value(json_object_get(told, "why")), "Read-only file system");
	json_decref(told);
	faults_detach(f);
	nodes_destroy(ns);
}

static void rules_are_told_apart(void **state)
{
	static const char *const texts[] = {
		"[]",
		"[{\"name\": \"own\", \"match\": [\"a-*\"], \"done\": [[{\"close\": \"done\"}]]}]",
		"[{\"name\": \"own\", \"match\": [\"b-*\"], \"done\": [[{\"close\": \"done\"}]]}]"};
	/* The same as the second, written otherwise. */
	static const char again[] =
		"[{\"done\": [[{\"close\":\"done\"}]], \"match\":[\"a-*\"], \"name\": \"own\"}]";
	char hex[4][33];
	size_t i;

	(void)state;
	for (i = 0; i < 4; i++) {
		json_t *own = json_loads(i < 3 ? texts[i] : again, 0, NULL);
		struct rules *rs;

		assert_int_equal(rules_create(&rs, own, "here", &e), 0);
		rules_digest(rs, hex[i]);
		rules_destroy(rs);
		json_decref(own);
		assert_int_equal(strspn(hex[i], "0123456789abcdef"), 32);
	}
	assert_string_not_equal(hex[0], hex[1]);
	assert_string_not_equal(hex[1], hex[2]);
	assert_string_equal(hex[1], hex[3]);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(those_alike_work_together),
		T(those_that_differ_are_refused_if_they_live),
		T(who_mounts_just_now_is_no_stranger),
		T(the_longer_lease_counts),
		T(who_was_here_before_is_dead),
		T(the_silent_are_dead_and_may_come_back),
		T(who_is_heard_of_lives),
		T(who_was_never_seen_is_given_longer),
		T(who_is_missing_in_a_service_is_dead),
		T(many_first_looks_are_one),
		T(an_outage_makes_nobody_dead),
		T(the_idle_look_at_nobody),
		T(one_that_comes_is_seen),
		T(what_cannot_be_used_is_told),
		T(rules_are_told_apart),
	};

	umask(0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
