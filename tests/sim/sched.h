/* SPDX-License-Identifier: MIT */
/*
 * A deterministic scheduler: many threads of many nodes as coroutines on one thread, under virtual
 * time.
 *
 * What the engine calls of pthreads, clocks and waits is linked to wrap.c, which ends here. One
 * task runs at a time. A task gives way where it takes its first lock, waits or sleeps. Which task
 * goes on is drawn from the seed, so a seed is a schedule. Time stands still while any task can
 * run, and else jumps to the next deadline.
 *
 * Thread-local variables of the program belong to tasks: they are swapped with them. Nothing here
 * is thread-safe, and a task must not block outside of this module.
 */
#ifndef TESTS_SIM_SCHED_H
#define TESTS_SIM_SCHED_H

#include <stdbool.h>
#include <stdint.h>

#define SCHED_FOREVER UINT64_MAX
#define SCHED_NODES   16 /* node 0 is the world: programs that nobody pauses or kills */

struct task;

/* All that is drawn follows from @seed. @jitter: of 256 takings of a lock, how many give way. */
void sched_init(uint64_t seed, unsigned jitter);

/*
 * Runs @main as a task of node 0 until it returns, or @step, which is called after each step, says
 * false. False: it never can, since every task waits for another, or more than @most_steps switches
 * were made; sched_stuck() tells.
 */
bool sched_run(void *(*main)(void *), void *arg, bool (*step)(void), uint64_t most_steps);
const char *sched_stuck(void);
uint64_t sched_steps(void);

/* A new task of @node. It frees itself at its end, unless it is to be joined. */
struct task *sched_start(unsigned node, void *(*main)(void *), void *arg, bool joinable);
/* Waits for its end, at most until @until_ns, and frees it. False: it runs on. */
bool sched_join(struct task *t, uint64_t until_ns, void **result);
void sched_detach(struct task *t);
struct task *sched_current(void);
unsigned sched_node(void); /* of the current task */
void sched_name(const char *name);

/* Gives way. */
void sched_yield_now(void);
/*
 * The current task is about to take a lock: it gives way at one of some calls, if it holds no
 * other. So nobody is killed or paused inside the simulator's own fakes, which have locks, too.
 */
void sched_locks(void);
void sched_unlocked(void);
void sched_sleep(uint64_t ns);
/* Waits until @on is woken. False: the time came first. */
bool sched_wait(const void *on, uint64_t until_ns);
void sched_wake_one(const void *on); /* drawn from those that wait */
void sched_wake_all(const void *on);

/* A paused node's tasks do not run. A killed node's tasks are gone; what they hold stays held. */
void sched_pause(unsigned node, bool paused);
bool sched_paused(unsigned node);
void sched_kill(unsigned node);

/* Nanoseconds since the beginning. */
uint64_t sched_now(void);
/* The clock of the wall, as the current task's node has it. */
uint64_t sched_wall(void);
void sched_shift_wall(unsigned node, int64_t ns);

/* Below @n, which is not 0. */
uint64_t sched_draw(uint64_t n);

#endif
