/* SPDX-License-Identifier: MIT */
/* ckptfs top: shows what a mount does from moment to moment. Asks its daemon, not the mount. */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/json.h"
#include "engine/base/message.h"
#include "fs/cmd/cmd.h"
#include "fs/control_socket.h"
#include "fs/show.h"

#define MOST_INTERVAL_S 86400

/* Take the whole screen, without a cursor; and give it back. */
#define ENTER_SCREEN "\033[?1049h\033[?25l"
#define LEAVE_SCREEN "\033[?25h\033[?1049l"

struct top {
	struct mount_entry mount;
	bool json, screen;
	bool keys; /* stdin is a terminal */
	struct termios saved;
	unsigned rows, columns; /* of the screen; rows counts those left */
	/* of the previous look; at_ns 0: none */
	uint64_t at_ns;
	json_int_t started_ns, absorbed, flushed, captured;
	/* of this look; below 0: unknown */
	double absorbed_per_s, flushed_per_s, captured_per_s;
};

static volatile sig_atomic_t stopped;

static void note_signal(int sig)
{
	(void)sig;
	stopped = 1;
}

/* --- the screen --- */

static void enter(struct top *t)
{
	struct sigaction sa = {.sa_handler = note_signal};
	const char *term = getenv("TERM");
	struct termios raw;

	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGHUP, &sa, NULL);
	t->screen = !t->json && isatty(STDOUT_FILENO) && strcmp(term ? term : "", "dumb");
	if (!t->screen)
		return;
	t->keys = isatty(STDIN_FILENO) && !tcgetattr(STDIN_FILENO, &t->saved);
	if (t->keys) {
		raw = t->saved;
		raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
		raw.c_cc[VMIN] = 0;
		raw.c_cc[VTIME] = 0;
		raw.c_cc[VSUSP] = _POSIX_VDISABLE; /* or a shell would not get its screen back */
		tcsetattr(STDIN_FILENO, TCSANOW, &raw);
	}
	fputs(ENTER_SCREEN, stdout);
}

static void leave(struct top *t)
{
	if (!t->screen)
		return;
	fputs(LEAVE_SCREEN, stdout);
	fflush(stdout);
	if (t->keys)
		tcsetattr(STDIN_FILENO, TCSANOW, &t->saved);
}

static void begin_screen(struct top *t)
{
	struct winsize w = {0};

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) || !w.ws_row || !w.ws_col) {
		w.ws_row = 24;
		w.ws_col = 80;
	}
	t->rows = w.ws_row - 1u;
	t->columns = w.ws_col;
	fputs("\033[H", stdout);
}

/* Prints a line, cut to the width of the screen; nothing below its end. */
static void line(struct top *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void line(struct top *t, const char *format, ...)
{
	char text[2 * PATH_MAX + 64];
	va_list ap;

	if (!t->rows)
		return;
	t->rows--;
	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	printf("%.*s\033[K\n", (int)t->columns, text);
}

static void end_screen(void)
{
	fputs("\033[J", stdout);
	fflush(stdout);
}

/* --- what is shown --- */

/* "812.4 MiB/s"; "-" before the second look. */
static const char *show_rate(char buf[SHOW_MAX], double per_s)
{
	size_t len;

	if (per_s < 0) {
		strcpy(buf, "-");
		return buf;
	}
	show_size(buf, per_s);
	len = strlen(buf);
	snprintf(buf + len, SHOW_MAX - len, "/s");
	return buf;
}

static unsigned percent(const json_t *cache, const char *key)
{
	json_int_t size = json_get_int(cache, "size", 0);

	return size > 0 ? (unsigned)(json_get_int(cache, key, 0) * 100 / size) : 0;
}

#define BAR 40

/* "####>>====....": dirty, flying, clean, free. Lent memory is left out. */
static void make_bar(char bar[BAR + 1], const json_t *cache)
{
	static const struct {
		const char *key;
		char mark;
	} parts[] = {{"dirty", '#'}, {"flying", '>'}, {"clean", '='}, {"free", '.'}};
	double size = (double)json_get_int(cache, "size", 0), upto = 0;
	size_t i, at = 0;

	memset(bar, ' ', BAR);
	bar[BAR] = '\0';
	for (i = 0; size > 0 && i < ARRAY_SIZE(parts); i++) {
		upto += (double)json_get_int(cache, parts[i].key, 0);
		while (at < BAR && (double)at + 0.5 <= upto * BAR / size)
			bar[at++] = parts[i].mark;
	}
}

/* Cuts the beginning of a long path; its end tells more. */
static void pending_line(const json_t *p, char *buf, size_t size, unsigned columns)
{
	char age[SHOW_MAX], dirty[SHOW_MAX], path[PATH_MAX];
	const char *shown = show_name(path, sizeof(path), json_get_text(p, "path", "?"));
	int len = snprintf(buf, size, "  %-10s %8s %10s  ", json_get_text(p, "state", "?"),
			   show_age(age, json_number_value(json_object_get(p, "age_s"))),
			   show_size(dirty, (double)json_get_int(p, "dirty_bytes", 0)));
	size_t room = columns > (unsigned)len + 8 ? columns - (unsigned)len : 8;
	bool cut = columns && strlen(shown) > room;

	snprintf(buf + len, size - (size_t)len, "%s%s", cut ? "..." : "",
		 cut ? shown + strlen(shown) - (room - 3) : shown);
}

/* Describes the progress of the nodes that share a save. False: it is one node's. */
static bool shared_line(const json_t *p, char *buf, size_t size)
{
	const json_t *shared = json_object_get(p, "shared");
	char text[1024];

	if (shared)
		snprintf(buf, size, "  %-10s %s", "", show_shared(text, sizeof(text), shared));
	return shared;
}

/* Describes a session: its rank, what it still has to capture, how long its barriers blocked it. */
static void session_line(const json_t *s, char *buf, size_t size)
{
	char pending[SHOW_MAX], captured[SHOW_MAX], who[48];
	int rank = (int)json_get_int(s, "rank", -1), pid = (int)json_get_int(s, "pid", 0);

	if (rank >= 0)
		snprintf(who, sizeof(who), "rank %d", rank);
	else
		snprintf(who, sizeof(who), "pid %d", pid);
	snprintf(buf, size,
		 "  %-10s %10s to capture, %10s captured, %lld barriers blocked %.2f s%s", who,
		 show_size(pending, (double)json_get_int(s, "pending_bytes", 0)),
		 show_size(captured, (double)json_get_int(s, "captured_bytes", 0)),
		 (long long)json_get_int(s, "barriers", 0),
		 json_number_value(json_object_get(s, "blocked_s")),
		 json_get_int(s, "failed", 0) ? ", SOME FAILED" : "");
}

static void draw_sessions(struct top *t, const json_t *status)
{
	const json_t *sessions = json_object_get(status, "sessions"), *s;
	const json_t *sum = json_object_get(status, "captures");
	char rate[SHOW_MAX], pending[SHOW_MAX], text[256];
	size_t i;

	if (!json_get_int(sum, "captures", 0) && !json_array_size(sessions))
		return;
	line(t, "%-10s %-16s %zu sessions, %s to capture, barriers blocked %.2f s in all",
	     "captured", show_rate(rate, t->captured_per_s), json_array_size(sessions),
	     show_size(pending, (double)json_get_int(sum, "pending_bytes", 0)),
	     json_number_value(json_object_get(sum, "blocked_s")));
	json_array_foreach (sessions, i, s) {
		session_line(s, text, sizeof(text));
		line(t, "%s", text);
	}
}

static void draw_cache(struct top *t, const json_t *cache, const json_t *flush)
{
	char bar[BAR + 1], size[SHOW_MAX], untouched[40] = "";

	if (!cache) {
		line(t, "%-10s none: the mount is read-only", "cache");
		return;
	}
	make_bar(bar, cache);
	line(t, "%-10s [%s] %s", "cache", bar,
	     show_size(size, (double)json_get_int(cache, "size", 0)));
	if (percent(cache, "untouched"))
		snprintf(untouched, sizeof(untouched), " (%u %% not touched yet)",
			 percent(cache, "untouched"));
	line(t, "%-10s # %u %% dirty, > %u %% in flight, = %u %% clean, . %u %% free%s", "",
	     percent(cache, "dirty"), percent(cache, "flying"), percent(cache, "clean"),
	     percent(cache, "free"), untouched);
	line(t, "%-10s %s, %lld writes in flight, %lld tried again, %lld errors", "flush",
	     json_get_text(flush, "engine", "?"), (long long)json_get_int(flush, "in_flight", 0),
	     (long long)json_get_int(flush, "retrying", 0),
	     (long long)json_get_int(flush, "errors", 0));
	line(t, "%-10s %lld writes waited for room, %.1f s in all, %lld wait now", "stalls",
	     (long long)json_get_int(cache, "stalls", 0),
	     json_number_value(json_object_get(cache, "stalled_s")),
	     (long long)json_get_int(cache, "waiting", 0));
}

static void head(struct top *t, const char *right)
{
	char text[2 * PATH_MAX + 64];

	begin_screen(t);
	snprintf(text, sizeof(text), "ckptfs top: %s of %s", t->mount.path, t->mount.source);
	line(t, "%-*s %s", (int)t->columns - 10 > 0 ? (int)t->columns - 10 : 0, text, right);
}

static const char *clock_text(char buf[16])
{
	time_t now = time(NULL);
	struct tm tm;

	strftime(buf, 16, "%T", localtime_r(&now, &tm));
	return buf;
}

static void draw(struct top *t, const json_t *status)
{
	const json_t *pending = json_object_get(status, "pending"), *p;
	const json_t *requests = json_object_get(status, "requests");
	char absorbed[SHOW_MAX], flushed[SHOW_MAX], text[2 * PATH_MAX], now[16];
	size_t i;

	head(t, clock_text(now));
	line(t, "%-10s %-16s flushed %s", "absorbed", show_rate(absorbed, t->absorbed_per_s),
	     show_rate(flushed, t->flushed_per_s));
	draw_cache(t, json_object_get(status, "cache"), json_object_get(status, "flush"));
	line(t, "%-10s %lld in flight, %lld queued", "requests",
	     (long long)json_get_int(requests, "in_flight", 0),
	     (long long)json_get_int(requests, "queued", 0));
	line(t, "%-10s %lld", "failures", (long long)json_get_int(status, "failures", 0));
	draw_sessions(t, status);
	line(t, "%-10s %zu not yet published", "saves", json_array_size(pending));
	json_array_foreach (pending, i, p) {
		pending_line(p, text, sizeof(text), t->columns);
		line(t, "%s", text);
		if (shared_line(p, text, sizeof(text)))
			line(t, "%s", text);
	}
	if (t->keys)
		line(t, "q quits");
	end_screen();
}

static void print_lines(const struct top *t, const json_t *status)
{
	const json_t *cache = json_object_get(status, "cache"), *p;
	const json_t *pending = json_object_get(status, "pending");
	const json_t *sessions = json_object_get(status, "sessions");
	char absorbed[SHOW_MAX], flushed[SHOW_MAX], text[2 * PATH_MAX], now[16];
	size_t i;

	printf("%s  absorbed %s  flushed %s  cache dirty %u %% flying %u %% clean %u %% free %u %%"
	       "  stalls %lld waiting %lld  pending %zu  failures %lld\n",
	       clock_text(now), show_rate(absorbed, t->absorbed_per_s),
	       show_rate(flushed, t->flushed_per_s), percent(cache, "dirty"),
	       percent(cache, "flying"), percent(cache, "clean"), percent(cache, "free"),
	       (long long)json_get_int(cache, "stalls", 0),
	       (long long)json_get_int(cache, "waiting", 0), json_array_size(pending),
	       (long long)json_get_int(status, "failures", 0));
	json_array_foreach (sessions, i, p) {
		session_line(p, text, sizeof(text));
		puts(text);
	}
	json_array_foreach (pending, i, p) {
		pending_line(p, text, sizeof(text), 0);
		puts(text);
		if (shared_line(p, text, sizeof(text)))
			puts(text);
	}
	fflush(stdout);
}

static json_t *rate_json(double per_s)
{
	return per_s < 0 ? json_null() : json_real(per_s);
}

static void print_json(const struct top *t, const json_t *status, const char *trouble)
{
	json_t *o = json_pack("{s:I, s:o, s:o}", "time_ns", (json_int_t)clock_wall_ns(),
			      "mountpoint", json_text(t->mount.path), "message",
			      trouble ? json_text(trouble) : json_null());
	static const char *const keys[] = {"cache",    "flush",	   "pending", "sessions",
					   "captures", "requests", "failures"};
	size_t i;

	if (status) {
		json_object_set_new(o, "absorbed_bytes_per_s", rate_json(t->absorbed_per_s));
		json_object_set_new(o, "flushed_bytes_per_s", rate_json(t->flushed_per_s));
		json_object_set_new(o, "captured_bytes_per_s", rate_json(t->captured_per_s));
		for (i = 0; i < ARRAY_SIZE(keys); i++)
			json_object_set(o, keys[i], json_object_get(status, keys[i]));
	}
	json_dumpf(o, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
	putchar('\n');
	fflush(stdout);
	json_decref(o);
}

/* --- looking --- */

/* Sets the rates since the previous look. A daemon that was restarted counts from 0. */
static void count(struct top *t, const json_t *status)
{
	json_int_t absorbed = json_get_int(json_object_get(status, "cache"), "absorbed", 0);
	json_int_t flushed = json_get_int(json_object_get(status, "flush"), "bytes", 0);
	json_int_t captured =
		json_get_int(json_object_get(status, "captures"), "captured_bytes", 0);
	json_int_t started = json_get_int(status, "started_ns", 0);
	uint64_t now = clock_mono_ns();
	double s = (double)(now - t->at_ns) / NSEC_PER_SEC;
	bool known = t->at_ns && started == t->started_ns;

	t->absorbed_per_s = known ? (double)(absorbed - t->absorbed) / s : -1;
	t->flushed_per_s = known ? (double)(flushed - t->flushed) / s : -1;
	t->captured_per_s = known ? (double)(captured - t->captured) / s : -1;
	t->at_ns = now;
	t->started_ns = started;
	t->absorbed = absorbed;
	t->flushed = flushed;
	t->captured = captured;
}

/* Shows that the daemon has no answer; it may have one later. */
static void show_silence(struct top *t, const char *text)
{
	char now[16];

	if (t->screen) {
		head(t, clock_text(now));
		line(t, "%s", "");
		line(t, "%s", text);
		end_screen();
	} else {
		complain(text);
		if (t->json)
			print_json(t, NULL, text);
	}
}

enum answer { ANSWERED, SILENT, GONE };

/* @e: the message for a daemon that is GONE. */
static enum answer look(struct top *t, struct error *e)
{
	struct mount_entry other;
	json_t *status;

	if (!control_ask(&t->mount, "status", CONTROL_ASK_MS, &status, NULL, NULL, e)) {
		count(t, status);
		if (t->screen)
			draw(t, status);
		else if (t->json)
			print_json(t, status, NULL);
		else
			print_lines(t, status);
		json_decref(status);
		return ANSWERED;
	}
	if (!mountinfo_find_device(t->mount.major, t->mount.minor, &other)) {
		FAIL(e, ENOTCONN, TOP_UNMOUNTED, t->mount.path);
		return GONE;
	}
	if (e->err != ETIMEDOUT)
		return GONE;
	show_silence(t, e->text);
	return SILENT;
}

static int left_ms(uint64_t until_ns)
{
	uint64_t now = clock_mono_ns();

	return now < until_ns ? (int)((until_ns - now + NSEC_PER_MSEC - 1) / NSEC_PER_MSEC) : 0;
}

/* False: top has to end. */
static bool wait_until(const struct top *t, uint64_t until_ns)
{
	struct pollfd p = {.fd = t->keys ? STDIN_FILENO : -1, .events = POLLIN};
	int ms;

	while (!stopped && (ms = left_ms(until_ns))) {
		char key;
		ssize_t n;

		if (poll(&p, 1, ms) <= 0)
			continue;
		n = read(STDIN_FILENO, &key, 1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0 || key == 'q' || key == 'Q') /* 0: the terminal is gone */
			return false;
	}
	return !stopped;
}

static int do_top(struct top *t, double interval_s, unsigned long nr)
{
	uint64_t next_ns = clock_mono_ns(), interval_ns = (uint64_t)(interval_s * 1e9);
	enum answer answer = SILENT;
	struct error e = {0};
	unsigned long i;

	enter(t);
	for (i = 0; !nr || i < nr; i++) {
		answer = look(t, &e);
		next_ns += interval_ns;
		if (next_ns < clock_mono_ns()) /* after a slow answer: not two looks at once */
			next_ns = clock_mono_ns() + interval_ns;
		if (answer == GONE || i + 1 == nr || !wait_until(t, next_ns))
			break;
	}
	leave(t);
	if (answer == GONE) {
		complain(e.text);
		if (t->json)
			print_json(t, NULL, e.text);
	}
	return answer == ANSWERED ? EXIT_DONE : EXIT_NO;
}

/* --- the verb --- */

static const struct option longs[] = {{"help", no_argument, NULL, 'h'},
				      {"json", no_argument, NULL, 'j'},
				      {"interval", required_argument, NULL, 'i'},
				      {"count", required_argument, NULL, 'n'},
				      {NULL, 0, NULL, 0}};

static int run_top(const struct verb *v, int argc, char **argv)
{
	const char *interval = "1", *count = "0";
	struct top t = {.json = false};
	double interval_s;
	unsigned long nr;
	bool counted = false;
	char *end;
	int c;

	while ((c = getopt_long(argc, argv, "hi:n:", longs, NULL)) != -1) {
		if (c == 'h')
			return verb_help(v);
		else if (c == 'j')
			t.json = true;
		else if (c == 'i')
			interval = optarg;
		else if (c == 'n')
			count = optarg;
		else
			return option_error(v, argv);
		counted |= c == 'n';
	}
	interval_s = strtod(interval, &end);
	if (!*interval || *end || !(interval_s >= 0.1 && interval_s <= MOST_INTERVAL_S))
		return usage_error(v, "--interval wants seconds, at least 0.1");
	nr = strtoul(count, &end, 10);
	if (!*count || *end || *count == '-' || (counted && !nr))
		return usage_error(v, "--count wants a number of looks");
	if (argc - optind > 1)
		return usage_error(v, "give one path in a mount, or none");
	if (argc > optind && !find_mount(argv[optind], &t.mount))
		return EXIT_NO;
	if (argc == optind && !find_only_mount(&t.mount)) {
		if (list_mounts(t.json) == EXIT_DONE)
			fprintf(stderr, "ckptfs: name the one to watch: ckptfs top MOUNTPOINT\n");
		return EXIT_NO;
	}
	return do_top(&t, interval_s, nr);
}

const struct verb verb_top = {
	.name = "top",
	.args = "[--json] [--interval S] [--count N] [MOUNTPOINT]",
	.summary = "watch what a mount does, live",
	.help = "Shows once a second how fast bytes are taken in and flushed, what the cache "
		"holds,\n"
		"writes that waited for room, and the saves that are not published yet. Without\n"
		"MOUNTPOINT it shows the only mount of this host, or lists them if there are\n"
		"several. On a terminal it fills the screen, and q ends it; else it prints lines.\n"
		"It asks the daemon, so it works while the mount hangs. Exit 1 when the daemon is\n"
		"gone, or does not answer at the end.\n"
		"\n"
		"  -i, --interval S     seconds between two looks (1)\n"
		"  -n, --count N        end after N looks; rates are known from the second on\n"
		"  --json               one object a line, for machines\n",
	.longs = longs,
	.run = run_top,
};
