/* SPDX-License-Identifier: MIT */
/* timeout: 120 */
/* An etcd that speaks TLS, asks for certificates, and for a user and password. */
#include "tests/unit/etcd.h"

static struct server server;
static char dir[PATH_MAX];

/* A certificate authority, and what it signs: in @dir. */
static const char script[] =
	"set -e; cd \"$0\"; exec 2>openssl.log\n"
	"printf 'subjectAltName=IP:127.0.0.1\\nextendedKeyUsage=serverAuth,clientAuth\\n' >ext\n"
	"for ca in ca other-ca; do openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=$ca -days 2"
	" -keyout $ca.key -out $ca.crt; done\n"
	"make() { openssl req -newkey rsa:2048 -nodes -subj /O=ckptfs -keyout $1.key -out $1.csr &&"
	" openssl x509 -req -in $1.csr -CA $2.crt -CAkey $2.key -CAcreateserial -days 2 -extfile "
	"ext"
	" -out $1.crt; }\n"
	"make server ca; make client ca; make stranger other-ca\n";

static const char *in_dir(const char *name)
{
	static char paths[8][PATH_MAX + 64];
	static unsigned nr;
	char *path = paths[nr++ % 8];

	snprintf(path, PATH_MAX + 64, "%s/%s", dir, name);
	return path;
}

/* Writes the file @name for coord; NULLs are left out. */
static const char *spec_of(const char *name, const char *ca, const char *client, const char *user,
			   const char *password)
{
	json_t *o = json_pack("{s:[s]}", "endpoints", server.url);
	char file[64];

	if (ca)
		json_object_set_new(o, "ca", json_string(in_dir(ca)));
	if (client) {
		snprintf(file, sizeof(file), "%s.crt", client);
		json_object_set_new(o, "cert", json_string(in_dir(file)));
		snprintf(file, sizeof(file), "%s.key", client);
		json_object_set_new(o, "key", json_string(in_dir(file)));
	}
	if (user) {
		json_object_set_new(o, "user", json_string(user));
		json_object_set_new(o, "password", json_string(password));
	}
	assert_int_equal(json_dump_file(o, in_dir(name), 0), 0);
	assert_int_equal(chmod(in_dir(name), 0600), 0);
	json_decref(o);
	return in_dir(name);
}

static int setup_server(void **state)
{
	static char args[6][PATH_MAX + 64];
	const char *const given[] = {"--cert-file", "server.crt",	 "--key-file",
				     "server.key",  "--trusted-ca-file", "ca.crt"};
	size_t i;

	(void)state;
	scratch_dir(dir);
	if (!fork()) {
		execlp("sh", "sh", "-c", script, dir, (char *)NULL);
		_exit(127);
	}
	wait(NULL);
	assert_int_equal(access(in_dir("stranger.crt"), R_OK), 0);
	server_init(&server, "only", "https");
	for (i = 0; i < ARRAY_SIZE(given); i++) {
		snprintf(args[i], sizeof(args[i]), "%s", i % 2 ? in_dir(given[i]) : given[i]);
		server.args[i] = args[i];
	}
	server.args[i] = "--client-cert-auth";
	server_start_alone(&server);
	return 0;
}

static int teardown_server(void **state)
{
	(void)state;
	server_kill(&server);
	return 0;
}

static void refused(const char *spec, const char *why)
{
	struct coord_etcd *ce;
	struct error e;

	assert_int_not_equal(coord_etcd_open(&ce, spec, UUID, LEASE_S, &e), 0);
	assert_contains(e.text, why);
	assert_null(strstr(e.text, "secret"));
}

static void a_certificate_is_shown_and_seen(void **state)
{
	struct coord_etcd *ce = open_soon(spec_of("good", "ca.crt", "client", NULL, NULL), UUID);
	struct coord_key key = key_of(GEN, "open");

	(void)state;
	assert_int_equal(record(ce, GEN, "open", "x"), 1);
	assert_true(read_is(ce, GEN, "open", "x"));
	assert_int_equal(coord_etcd_ops.wait(ce, &key, 1, -1, in_s(1000)), 1);
	coord_etcd_close(ce);
	refused(server.url, "certificate"); /* whom should it trust */
	refused(spec_of("bad", "other-ca.crt", "client", NULL, NULL), "certificate"); /* a liar */
	refused(spec_of("bad", "ca.crt", NULL, NULL, NULL), "etcd at https"); /* whom should etcd */
	refused(spec_of("bad", "ca.crt", "stranger", NULL, NULL), "etcd at https");
	make_file(AT_FDCWD, in_dir("empty"), "");
	refused(spec_of("bad", "empty", "client", NULL, NULL), "etcd at https");
}

static void ask(struct etcd *etcd, const char *path, const char *fmt, const char *key)
{
	char *body, *base = etcd_base64(key, strlen(key));

	assert_true(asprintf(&body, fmt, base) > 0);
	ask_etcd(etcd, path, body);
	free(body);
	free(base);
}

/* root, who is needed; `ckptfs`, who may write to /ckptfs/; `guest`, who may only read there. */
static void enable_auth(void)
{
	struct etcd *etcd = reach(in_dir("good"));
	static const char *const roles[][2] = {{"ckptfs", "READWRITE"}, {"guest", "READ"}};
	char text[512];
	size_t i;

	ask_etcd(etcd, "auth/user/add", "{\"name\": \"root\", \"password\": \"root-secret\"}");
	ask_etcd(etcd, "auth/role/add", "{\"name\": \"root\"}");
	ask_etcd(etcd, "auth/user/grant", "{\"user\": \"root\", \"role\": \"root\"}");
	for (i = 0; i < ARRAY_SIZE(roles); i++) {
		snprintf(text, sizeof(text), "{\"name\": \"%s\", \"password\": \"secret\"}",
			 roles[i][0]);
		ask_etcd(etcd, "auth/user/add", text);
		snprintf(text, sizeof(text), "{\"name\": \"%s\"}", roles[i][0]);
		ask_etcd(etcd, "auth/role/add", text);
		snprintf(text, sizeof(text), /* /ckptfs/ to /ckptfs0 */
			 "{\"name\": \"%s\", \"perm\": {\"permType\": \"%s\", \"key\": \"%%s\","
			 " \"range_end\": \"L2NrcHRmczA=\"}}",
			 roles[i][0], roles[i][1]);
		ask(etcd, "auth/role/grant", text, "/ckptfs/");
		snprintf(text, sizeof(text), "{\"user\": \"%s\", \"role\": \"%s\"}", roles[i][0],
			 roles[i][0]);
		ask_etcd(etcd, "auth/user/grant", text);
	}
	ask_etcd(etcd, "auth/enable", "{}");
	etcd_destroy(etcd);
}

/* What the first answer is: @result. */
static void watch(struct etcd *etcd, const char *body, int result)
{
	struct etcd_stream *s = etcd_stream_open(etcd, "watch", body);
	struct etcd_answer a;
	int r = etcd_stream_next(s, -1, in_s(1000), &a);

	assert_int_equal(r == 1 && a.canceled ? -EPIPE : r, result);
	etcd_answer_finish(&a);
	etcd_stream_close(s);
}

static void users_and_passwords(void **state)
{
	struct coord_etcd *early =
		open_soon(spec_of("user", "ca.crt", "client", "ckptfs", "secret"), UUID);
	struct coord_etcd *ce, *nobody = open_soon(in_dir("good"), UUID);
	struct coord_key key = key_of(GEN, "log.1.1");
	struct etcd *etcd;
	char why[512] = "";

	(void)state;
	assert_int_equal(record(early, GEN, "next", "x"), 1); /* it is not asked yet */
	enable_auth();
	assert_int_equal(record(early, GEN, "log.1.0", "x"), 1); /* from here on it is */
	assert_int_equal(record(nobody, GEN, "log.1.7", "x"), -EHOSTDOWN);
	assert_true(coord_etcd_outage_ns(nobody, why, sizeof(why)) > 0);
	assert_contains(why, "user name is empty");
	coord_etcd_close(nobody);
	ce = open_soon(in_dir("user"), UUID);
	assert_int_equal(record(ce, GEN, "log.1.0", "y"), 0);
	assert_true(first_is("x"));
	assert_int_equal(
		coord_etcd_ops.wait(ce, &key, 1, -1, clock_mono_ns() + 300 * NSEC_PER_MSEC), 0);
	assert_int_equal(record(ce, GEN, "log.1.1", "x"), 1);
	assert_int_equal(coord_etcd_ops.wait(ce, &key, 1, -1, in_s(1000)), 1);
	etcd = reach(in_dir("user"));
	ask(etcd, "kv/range", "{\"key\": \"%s\"}", "/ckptfs/");
	watch(etcd,
	      "{\"create_request\": {\"key\": \"L2NrcHRmcy8=\", \"range_end\":"
	      " \"L2NrcHRmczA=\"}}",
	      1);
	watch(etcd, "{\"create_request\": {\"key\": \"Lw==\"}}", -EPIPE); /* not his */
	etcd_destroy(etcd);
	assert_int_equal(lease(ce, NODE, "x"), 0);
	assert_true(lease_is(ce, NODE, "x"));
	assert_int_equal(coord_etcd_ops.lease_end(ce, NODE), 0);
	assert_int_equal(forget(ce, GEN), 0);
	refused(spec_of("bad", "ca.crt", "client", "ckptfs", "wrong"),
		"user ckptfs: etcdserver: authentication failed");
	refused(spec_of("bad", "ca.crt", "client", "guest", "secret"), "permission denied");
	refused(in_dir("good"), "user name is empty");
	/* A new etcd does not know the tokens of the old one. */
	server_kill(&server);
	assert_int_equal(record(ce, GEN, "prepare", "x"), -EHOSTDOWN);
	server_start_alone(&server);
	WAIT_FOR(record(ce, GEN, "prepare", "x") == 1);
	key = key_of(GEN, "open");
	assert_int_equal(
		coord_etcd_ops.wait(early, &key, 1, -1, clock_mono_ns() + 300 * NSEC_PER_MSEC), 0);
	coord_etcd_close(early);
	coord_etcd_close(ce);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_certificate_is_shown_and_seen),
		cmocka_unit_test(users_and_passwords),
	};

	if (!has_etcd() || system("command -v openssl >/dev/null")) {
		puts("no etcd or no openssl here (packages etcd-server, openssl)");
		return 77;
	}
	return cmocka_run_group_tests(tests, setup_server, teardown_server);
}
