/* SPDX-License-Identifier: MIT */
/*
 * Failures that a test asks for: rules in FAKE_CUDA_INJECT, and in the file FAKE_CUDA_DIR/inject,
 * which may change at any time (put it in place by rename). A rule is
 *
 * 	FUNCTION:N=WHAT		the Nth call of FUNCTION (cuMemcpyDtoHAsync_v2, say) in this process
 * 	FUNCTION:N+=WHAT	that and all later ones
 *
 * separated by blanks, and WHAT is
 * 	CODE		it returns this CUresult and does nothing; sticky if it is of that kind
 * 	delay=US	it takes so much longer
 * 	hang		it does not return, as long as the rule is there
 * 	kill		SIGKILL
 * and for what is queued on a stream by a copy
 * 	late=CODE	it fails with this, sticky, when its turn comes
 * 	stall		it never ends, as long as the rule is there
 * 	flip		one bit is wrong in what is copied
 *
 * A rule that makes no sense aborts: a test that asks for nothing would pass.
 */
#include "tests/fakecuda/fake.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/cleanup.h"

#define MAX_RULES 32
#define MAX_TEXT  4096
#define POLL_NS	  1000000

static const char *const functions[] = {
#define NAME(field, symbol, arguments) #symbol,
	CUDA_DRIVER_REQUIRED(NAME) CUDA_DRIVER_OPTIONAL(NAME) CUDA_TRAINER_FUNCTIONS(NAME)
		CUDA_POOL_FUNCTIONS(NAME)
#undef NAME
};

struct rule {
	int function;
	unsigned int n;
	bool onward;
	enum { CODE, DELAY, HANG, KILL, LATE, STALL, FLIP } what;
	unsigned int value;
};

static struct {
	pthread_mutex_t lock;
	unsigned int calls[ARRAY_SIZE(functions)];
	struct rule rules[MAX_RULES];
	int n_rules;
	struct timespec read; /* the file's time when it was */
	bool begun;
} injected = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int function_index(const char *name, size_t len)
{
	for (size_t i = 0; i < ARRAY_SIZE(functions); i++)
		if (strlen(functions[i]) == len && !memcmp(functions[i], name, len))
			return (int)i;
	return -1;
}

static bool parse_what(const char *text, struct rule *rule)
{
	static const struct {
		const char *format;
		int what;
	} kinds[] = {
		{"%u%n", CODE},	     {"delay=%u%n", DELAY}, {"hang%n", HANG}, {"kill%n", KILL},
		{"late=%u%n", LATE}, {"stall%n", STALL},    {"flip%n", FLIP},
	};

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		int end = -1;

		if (strchr(kinds[i].format, 'u'))
			sscanf(text, kinds[i].format, &rule->value, &end);
		else
			sscanf(text, kinds[i].format, &end);
		rule->what = kinds[i].what;
		if (end > 0 && !text[end])
			return true;
	}
	return false;
}

static void parse_rule(const char *text)
{
	struct rule *rule = &injected.rules[injected.n_rules];
	const char *colon = strchr(text, ':');
	int end = 0;

	if (injected.n_rules < MAX_RULES && colon &&
	    (rule->function = function_index(text, colon - text)) >= 0 &&
	    sscanf(colon, ":%u%n", &rule->n, &end) == 1) {
		rule->onward = colon[end] == '+';
		end += rule->onward;
		if (colon[end] == '=' && parse_what(colon + end + 1, rule)) {
			injected.n_rules++;
			return;
		}
	}
	fprintf(stderr, "fake libcuda: cannot make sense of the rule '%s'\n", text);
	abort();
}

static void parse_rules(char *text)
{
	char *rest;

	for (char *rule = strtok_r(text, " \t\n", &rest); rule;
	     rule = strtok_r(NULL, " \t\n", &rest))
		parse_rule(rule);
}

static void read_rules(void)
{
	const char *dir = getenv("FAKE_CUDA_DIR"), *from_env = getenv("FAKE_CUDA_INJECT");
	char path[MAX_TEXT], text[MAX_TEXT];
	struct stat st = {0};
	ssize_t len;

	snprintf(path, sizeof(path), "%s/inject", dir ? dir : "");
	if (stat(path, &st) < 0)
		st.st_mtim = (struct timespec){0};
	if (injected.begun && !memcmp(&st.st_mtim, &injected.read, sizeof(injected.read)))
		return;
	injected.begun = true;
	injected.read = st.st_mtim;
	injected.n_rules = 0;
	snprintf(text, sizeof(text), "%s", from_env ? from_env : "");
	parse_rules(text);
	__cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	len = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
	text[len > 0 ? len : 0] = '\0';
	parse_rules(text);
}

/* The rule for call @call of @function; @rule.function is negative if there is none. */
static struct rule rule_for(int function, unsigned int call)
{
	MUTEX_SCOPE(&injected.lock);
	read_rules();
	for (int i = 0; i < injected.n_rules; i++) {
		struct rule rule = injected.rules[i];

		if (rule.function == function && (rule.n == call || (rule.onward && rule.n < call)))
			return rule;
	}
	return (struct rule){.function = -1};
}

static bool still(int function, unsigned int call, int what)
{
	struct rule rule = rule_for(function, call);

	return rule.function >= 0 && (int)rule.what == what && !fake.exited;
}

/* Both of a call in one number, since a thread remembers its last: see inject_stall. */
static unsigned int pack(int function, unsigned int call)
{
	return call * ARRAY_SIZE(functions) + function;
}

void inject_stall(unsigned int packed)
{
	while (still(packed % ARRAY_SIZE(functions), packed / ARRAY_SIZE(functions), STALL))
		sleep_until(now_ns() + POLL_NS);
}

static unsigned int count(int function)
{
	MUTEX_SCOPE(&injected.lock);
	return ++injected.calls[function];
}

CUresult inject(const char *name)
{
	int function = function_index(name, strlen(name));
	struct rule rule;
	unsigned int call;

	if (function < 0)
		return CUDA_SUCCESS;
	call = count(function);
	rule = rule_for(function, call);
	if (rule.function < 0)
		return CUDA_SUCCESS;
	call_log("injected %s:%u", name, call);
	switch (rule.what) {
	case CODE:
		return rule.value;
	case DELAY:
		sleep_until(now_ns() + rule.value * 1000ull);
		break;
	case HANG:
		while (still(function, call, HANG))
			sleep_until(now_ns() + POLL_NS);
		break;
	case KILL:
		raise(SIGKILL);
		break;
	case LATE:
		fake_thread.effect.late = rule.value;
		break;
	case STALL:
		fake_thread.effect.stall = pack(function, call);
		break;
	case FLIP:
		fake_thread.effect.flip = true;
		break;
	}
	return CUDA_SUCCESS;
}
