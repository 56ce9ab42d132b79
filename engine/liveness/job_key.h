/* SPDX-License-Identifier: MIT */
/*
 * The key of a job: ASCII without blanks, for people, in records, and for comparison (epoch.h).
 * Only this module writes and reads it. One of these forms:
 *
 *	UID/slurm/JOB.STEP/rSTARTS	STARTS counts the starts; with a "+" if torchrun restarts
 *					the job, too, which is not counted
 *	UID/elastic/RUN			of torchrun
 *	UID/master/HOST:PORT		"HOST:PORT@BOOT_ID" if all of the job is on this host
 *	UID/session/SID@BOOT_ID		of the session of the process, which nobody else may share
 *	UID/unknown			the process could not be read
 *
 * RUN and HOST come from users: what is not a letter, a digit or one of -_.:[] stands as %XX. No
 * state and no lock.
 */
#ifndef ENGINE_LIVENESS_JOB_KEY_H
#define ENGINE_LIVENESS_JOB_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define JOB_KEY_MAX 320

/* @step: its number, or a word. @torchrun: torchrun starts the job, below Slurm. */
void job_key_slurm(char key[JOB_KEY_MAX], uid_t uid, uint32_t job, const char *step,
		   uint32_t starts, bool torchrun);
/*
 * @run and @host have @len bytes. False: that is nothing, or more than a key has room for, and @key
 * is as it was. It is not cut, since two could become equal. @boot_id: of this host if all of the
 * job is there; else NULL.
 */
bool job_key_elastic(char key[JOB_KEY_MAX], uid_t uid, const char *run, size_t len);
bool job_key_master(char key[JOB_KEY_MAX], uid_t uid, const char *host, size_t len, uint16_t port,
		    const char *boot_id);
void job_key_session(char key[JOB_KEY_MAX], uid_t uid, pid_t session, const char *boot_id);
void job_key_unknown(char key[JOB_KEY_MAX], uid_t uid);

/* True if no process of another host has the key. */
bool job_key_is_of_host(const char *key);

/* The count of starts, for strverscmp, with what follows it in @key; NULL: the key has none. */
const char *job_key_starts(const char *key);

/* True if @starts, by job_key_starts, counts every start of the job. */
bool job_key_counts_all(const char *starts);

/*
 * True if @name is a name that people use for the job of @key. That is the key, the key from its
 * second part on, or a beginning of either up to a `/`. For a Slurm job it is also the job number,
 * with or without the step, which an epilog knows.
 */
bool job_is(const char *key, const char *name);

/* True if @name has the form of such a name. */
bool job_name_ok(const char *name);

#endif
