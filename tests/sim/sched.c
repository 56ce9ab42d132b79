/* SPDX-License-Identifier: MIT */
#include "tests/sim/sched.h"

#include <errno.h>
#include <link.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "engine/base/list.h"

#define STACK_SIZE ((size_t)1 << 20)
#define TASKS_MAX  1024
#define START_NS   1000000000000ull	  /* of the monotonic clock: nothing takes 0 for a time */
#define WALL_NS	   1750000000000000000ull /* 2025 */

enum task_state { TASK_READY, TASK_WAITS, TASK_DONE };

struct task {
	enum task_state state;
	unsigned node, slot, locks;
	const void *on; /* WAITS: for what */
	uint64_t until_ns;
	bool woken, started, joinable;
	void *(*main)(void *);
	void *arg, *result;
	char name[16];
	int err; /* errno */
	void *tls;
	void *stack;
	jmp_buf context;
};

static struct {
	uint64_t random;
	unsigned jitter;
	uint64_t now, steps;
	struct task *tasks[TASKS_MAX]; /* the first nr are set */
	unsigned nr;
	struct task *current, *root;
	jmp_buf loop;
	ucontext_t begin;
	bool paused[SCHED_NODES];
	int64_t shift[SCHED_NODES];
	char stuck[4096];
	void *tls, *tls_first; /* of this program; as a thread begins with it */
	size_t tls_size;
	void *stacks[TASKS_MAX]; /* of tasks that have ended */
	unsigned nr_stacks;
} s;

/* --- what is drawn --- */

static uint64_t next(void)
{
	uint64_t z = (s.random += 0x9E3779B97F4A7C15ull);

	z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
	z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
	return z ^ (z >> 31);
}

uint64_t sched_draw(uint64_t n)
{
	return next() % n;
}

/* --- tasks --- */

static int find_tls(struct dl_phdr_info *info, size_t size, void *arg)
{
	int i;

	(void)size;
	(void)arg;
	for (i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_TLS)
			s.tls_size = info->dlpi_phdr[i].p_memsz;
	s.tls = info->dlpi_tls_data;
	return 1; /* the first is the program itself */
}

void sched_init(uint64_t seed, unsigned jitter)
{
	memset(&s, 0, sizeof(s));
	s.random = seed;
	s.jitter = jitter;
	s.now = START_NS;
	dl_iterate_phdr(find_tls, NULL);
	if (!s.tls)
		s.tls_size = 0;
	s.tls_first = malloc(s.tls_size + 1);
	if (s.tls_size)
		memcpy(s.tls_first, s.tls, s.tls_size);
}

static void *take_stack(void)
{
	void *stack;

	if (s.nr_stacks)
		return s.stacks[--s.nr_stacks];
	stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
	if (stack == MAP_FAILED)
		abort();
	return stack;
}

struct task *sched_start(unsigned node, void *(*main)(void *), void *arg, bool joinable)
{
	struct task *t = calloc(1, sizeof(*t));

	if (!t || s.nr == TASKS_MAX)
		abort();
	t->node = node;
	t->main = main;
	t->arg = arg;
	t->joinable = joinable;
	t->stack = take_stack();
	t->tls = malloc(s.tls_size + 1);
	memcpy(t->tls, s.tls_first, s.tls_size);
	t->slot = s.nr;
	s.tasks[s.nr++] = t;
	return t;
}

static void destroy(struct task *t)
{
	s.tasks[t->slot] = s.tasks[--s.nr];
	s.tasks[t->slot]->slot = t->slot;
	s.stacks[s.nr_stacks++] = t->stack;
	free(t->tls);
	free(t);
}

/* Back to the loop; returns when the task is to go on. */
static void leave(void)
{
	struct task *t = s.current;

	t->err = errno;
	if (!_setjmp(t->context))
		_longjmp(s.loop, 1);
	errno = t->err;
}

static void begin(void)
{
	struct task *t = s.current;

	t->result = t->main(t->arg);
	t->state = TASK_DONE;
	sched_wake_all(t);
	leave();
	abort();
}

static void enter(struct task *t)
{
	s.current = t;
	memcpy(s.tls, t->tls, s.tls_size);
	if (_setjmp(s.loop)) {
		t = s.current;
		memcpy(t->tls, s.tls, s.tls_size);
		s.current = NULL;
		return;
	}
	if (t->started)
		_longjmp(t->context, 1);
	t->started = true;
	getcontext(&s.begin);
	s.begin.uc_stack.ss_sp = t->stack;
	s.begin.uc_stack.ss_size = STACK_SIZE;
	s.begin.uc_link = NULL;
	makecontext(&s.begin, begin, 0);
	setcontext(&s.begin);
}

/* --- the loop --- */

static bool can_run(const struct task *t)
{
	return t->state == TASK_READY && !s.paused[t->node];
}

static struct task *pick(void)
{
	unsigned i, nr = 0, at;

	for (i = 0; i < s.nr; i++)
		nr += can_run(s.tasks[i]);
	if (!nr)
		return NULL;
	at = (unsigned)sched_draw(nr);
	for (i = 0;; i++)
		if (can_run(s.tasks[i]) && !at--)
			return s.tasks[i];
}

/* To the next deadline of a task. False: there is none. */
static bool pass_time(void)
{
	uint64_t first = SCHED_FOREVER;
	unsigned i;

	for (i = 0; i < s.nr; i++)
		if (s.tasks[i]->state == TASK_WAITS && !s.paused[s.tasks[i]->node] &&
		    s.tasks[i]->until_ns < first)
			first = s.tasks[i]->until_ns;
	if (first == SCHED_FOREVER)
		return false;
	if (first > s.now)
		s.now = first;
	for (i = 0; i < s.nr; i++)
		if (s.tasks[i]->state == TASK_WAITS && s.tasks[i]->until_ns <= s.now)
			s.tasks[i]->state = TASK_READY;
	return true;
}

static void tell_stuck(const char *why)
{
	size_t len = (size_t)snprintf(s.stuck, sizeof(s.stuck), "%s", why);
	unsigned i;

	for (i = 0; i < s.nr && len < sizeof(s.stuck) - 64; i++)
		if (s.tasks[i]->state == TASK_WAITS && s.tasks[i]->until_ns == SCHED_FOREVER)
			len += (size_t)snprintf(s.stuck + len, sizeof(s.stuck) - len, " %s@%u",
						*s.tasks[i]->name ? s.tasks[i]->name : "?",
						s.tasks[i]->node);
}

bool sched_run(void *(*main)(void *), void *arg, bool (*step)(void), uint64_t most_steps)
{
	struct task *t;

	s.root = sched_start(0, main, arg, true);
	snprintf(s.root->name, sizeof(s.root->name), "world");
	while (s.root->state != TASK_DONE) {
		t = pick();
		if (!t && pass_time())
			continue;
		if (!t || ++s.steps > most_steps) {
			tell_stuck(t ? "the schedule does not end; these wait for ever:"
				     : "every task waits for another:");
			return false;
		}
		enter(t);
		if (t->state == TASK_DONE && !t->joinable)
			destroy(t);
		if (!step())
			return true;
	}
	return true;
}

const char *sched_stuck(void)
{
	return s.stuck;
}

uint64_t sched_steps(void)
{
	return s.steps;
}

struct task *sched_current(void)
{
	return s.current;
}

unsigned sched_node(void)
{
	return s.current ? s.current->node : 0;
}

void sched_name(const char *name)
{
	snprintf(s.current->name, sizeof(s.current->name), "%s", name);
}

/* --- waits --- */

void sched_yield_now(void)
{
	if (s.current)
		leave();
}

void sched_locks(void)
{
	if (s.current && !s.current->locks++ && sched_draw(256) < s.jitter)
		leave();
}

void sched_unlocked(void)
{
	if (s.current)
		s.current->locks--;
}

bool sched_wait(const void *on, uint64_t until_ns)
{
	struct task *t = s.current;

	t->state = TASK_WAITS;
	t->on = on;
	t->until_ns = until_ns;
	t->woken = false;
	leave();
	t->on = NULL;
	return t->woken;
}

void sched_sleep(uint64_t ns)
{
	if (s.current)
		sched_wait(NULL, s.now + ns);
}

static bool waits_on(const struct task *t, const void *on)
{
	return t->state == TASK_WAITS && t->on == on;
}

static void wake(struct task *t)
{
	t->state = TASK_READY;
	t->woken = true;
}

void sched_wake_all(const void *on)
{
	unsigned i;

	for (i = 0; i < s.nr; i++)
		if (waits_on(s.tasks[i], on))
			wake(s.tasks[i]);
}

void sched_wake_one(const void *on)
{
	unsigned i, nr = 0, at;

	for (i = 0; i < s.nr; i++)
		nr += waits_on(s.tasks[i], on);
	if (!nr)
		return;
	at = nr == 1 ? 0 : (unsigned)sched_draw(nr);
	for (i = 0; i < s.nr; i++)
		if (waits_on(s.tasks[i], on) && !at--)
			wake(s.tasks[i]);
}

bool sched_join(struct task *t, uint64_t until_ns, void **result)
{
	while (t->state != TASK_DONE)
		if (!sched_wait(t, until_ns) && t->state != TASK_DONE)
			return false;
	if (result)
		*result = t->result;
	destroy(t);
	return true;
}

void sched_detach(struct task *t)
{
	t->joinable = false;
	if (t->state == TASK_DONE)
		destroy(t);
}

/* --- nodes --- */

void sched_pause(unsigned node, bool paused)
{
	s.paused[node] = paused;
}

bool sched_paused(unsigned node)
{
	return s.paused[node];
}

void sched_kill(unsigned node)
{
	unsigned i;

	s.paused[node] = false;
	for (i = s.nr; i--;)
		if (s.tasks[i]->node == node && s.tasks[i] != s.current)
			destroy(s.tasks[i]);
}

uint64_t sched_now(void)
{
	return s.now;
}

uint64_t sched_wall(void)
{
	return WALL_NS + s.now + (uint64_t)s.shift[sched_node()];
}

void sched_shift_wall(unsigned node, int64_t ns)
{
	s.shift[node] += ns;
}
