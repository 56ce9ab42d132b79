/* SPDX-License-Identifier: MIT */
#include "engine/liveness/job_key.h"

#include <stdio.h>
#include <string.h>

#define VALUE_MAX 200 /* bytes of RUN or HOST */
#define SLURM	  "slurm/"

/* --- writing --- */

static bool escape(const char *text, size_t len, char out[VALUE_MAX + 1])
{
	size_t i, n = 0;

	for (i = 0; i < len && n + 3 <= VALUE_MAX; i++) {
		unsigned char c = (unsigned char)text[i];
		bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
			     (c >= 'A' && c <= 'Z') || strchr("-_.:[]", c);

		n += (size_t)snprintf(out + n, VALUE_MAX + 1 - n, plain ? "%c" : "%%%02X", c);
	}
	return len && i == len;
}

void job_key_slurm(char key[JOB_KEY_MAX], uid_t uid, uint32_t job, const char *step,
		   uint32_t starts, bool torchrun)
{
	snprintf(key, JOB_KEY_MAX, "%u/" SLURM "%u.%s/r%u%s", (unsigned)uid, (unsigned)job, step,
		 (unsigned)starts, torchrun ? "+" : "");
}

bool job_key_elastic(char key[JOB_KEY_MAX], uid_t uid, const char *run, size_t len)
{
	char text[VALUE_MAX + 1];

	if (!escape(run, len, text))
		return false;
	snprintf(key, JOB_KEY_MAX, "%u/elastic/%s", (unsigned)uid, text);
	return true;
}

bool job_key_master(char key[JOB_KEY_MAX], uid_t uid, const char *host, size_t len, uint16_t port,
		    const char *boot_id)
{
	char text[VALUE_MAX + 1];

	if (!escape(host, len, text))
		return false;
	snprintf(key, JOB_KEY_MAX, "%u/master/%s:%u%s%s", (unsigned)uid, text, (unsigned)port,
		 boot_id ? "@" : "", boot_id ? boot_id : "");
	return true;
}

void job_key_session(char key[JOB_KEY_MAX], uid_t uid, pid_t session, const char *boot_id)
{
	snprintf(key, JOB_KEY_MAX, "%u/session/%d@%s", (unsigned)uid, (int)session, boot_id);
}

void job_key_unknown(char key[JOB_KEY_MAX], uid_t uid)
{
	snprintf(key, JOB_KEY_MAX, "%u/unknown", (unsigned)uid);
}

/* --- reading --- */

/* What follows UID, or NULL. */
static const char *behind_uid(const char *key)
{
	const char *slash = strchr(key, '/');

	return slash ? slash + 1 : NULL;
}

static bool is_slurm(const char *kind)
{
	return kind && !strncmp(kind, SLURM, strlen(SLURM));
}

bool job_key_is_of_host(const char *key)
{
	return strchr(key, '@');
}

const char *job_key_starts(const char *key)
{
	const char *nr = strrchr(key, '/');

	return is_slurm(behind_uid(key)) && nr[1] == 'r' && nr[2] ? nr + 2 : NULL;
}

bool job_key_counts_all(const char *starts)
{
	return !strchr(starts, '+');
}

/* --- names that people use --- */

/* True if @name is @whole, or its beginning up to one of @ends. */
static bool begins(const char *whole, const char *name, const char *ends)
{
	size_t len = strlen(name);

	return len && !strncmp(whole, name, len) && (!whole[len] || strchr(ends, whole[len]));
}

bool job_is(const char *key, const char *name)
{
	const char *kind = behind_uid(key), *ends;

	if (!kind)
		return false;
	ends = is_slurm(kind) ? "/." : "/"; /* JOB.STEP */
	if (strchr(name, '/'))
		return begins(key, name, ends) || begins(kind, name, ends);
	return is_slurm(kind) && begins(kind + strlen(SLURM), name, ends);
}

bool job_name_ok(const char *name)
{
	size_t digits = strspn(name, "0123456789");

	if (strchr(name, '/'))
		return name[0] != '/';
	return digits && (!name[digits] || (name[digits] == '.' && name[digits + 1]));
}
