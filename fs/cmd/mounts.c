/* SPDX-License-Identifier: MIT */
/*
 * The mounts of this host, as `status` and `top` list them without a path. A thread of its own asks
 * each daemon, so that a silent one delays no other; each has its own entry, so there is no lock.
 */
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/base/json.h"
#include "engine/base/message.h"
#include "fs/cmd/cmd.h"
#include "fs/control_socket.h"

struct mount {
	struct mount_entry entry;
	pthread_t thread;
	bool asked; /* by its thread */
	int pid;
	json_t *status; /* NULL: no answer, see error */
	struct error error;
};

struct mounts {
	struct mount **each;
	size_t nr;
	bool no_memory;
};

/* Adds a mount. Of several mounts of one filesystem (bind mounts), the first one counts. */
static void add(void *arg, const struct mount_entry *m)
{
	struct mounts *list = arg;
	struct mount *one, **grown;
	size_t i;

	for (i = 0; i < list->nr; i++)
		if (list->each[i]->entry.major == m->major &&
		    list->each[i]->entry.minor == m->minor)
			return;
	one = calloc(1, sizeof(*one));
	grown = reallocarray(list->each, list->nr + 1, sizeof(struct mount *));
	if (grown)
		list->each = grown;
	if (!one || !grown) {
		free(one);
		list->no_memory = true;
		return;
	}
	one->entry = *m;
	list->each[list->nr++] = one;
}

static void *ask(void *arg)
{
	struct mount *m = arg;

	if (control_ask(&m->entry, "status", CONTROL_ASK_MS, &m->status, &m->pid, NULL, &m->error))
		m->status = NULL;
	return NULL;
}

static void ask_all(struct mounts *list)
{
	size_t i;

	for (i = 0; i < list->nr; i++) {
		struct mount *m = list->each[i];

		m->asked = !pthread_create(&m->thread, NULL, ask, m);
		if (!m->asked)
			ask(m);
	}
	for (i = 0; i < list->nr; i++)
		if (list->each[i]->asked)
			pthread_join(list->each[i]->thread, NULL);
}

static const char *state_of(const struct mount *m)
{
	return m->status		      ? "live"
	       : m->error.err == ETIMEDOUT    ? "silent"
	       : m->error.err == ECONNREFUSED ? "dead"
					      : "unreachable";
}

static json_t *error_json(int err, const char *text)
{
	const char *name = strerrorname_np(err);

	return json_pack("{s:s, s:o}", "code", name ? name : "?", "message", json_text(text));
}

static json_t *mount_json(const struct mount *m)
{
	json_t *o =
		json_pack("{s:o, s:o, s:s, s:i}", "mountpoint", json_text(m->entry.path), "backing",
			  json_text(m->entry.source), "state", state_of(m), "pid", m->pid);

	if (m->status) {
		json_object_set_new(
			o, "read_only",
			json_boolean(json_is_true(json_object_get(m->status, "read_only"))));
		json_object_set_new(o, "pending",
				    json_integer((json_int_t)json_array_size(
					    json_object_get(m->status, "pending"))));
		json_object_set_new(o, "failures",
				    json_integer(json_get_int(m->status, "failures", 0)));
	} else {
		json_object_set_new(o, "error", error_json(m->error.err, m->error.text));
	}
	return o;
}

static void print_json(const struct mounts *list, bool ok, const char *message)
{
	json_t *o = json_pack("{s:b, s:[]}", "ok", ok, "mounts");
	size_t i;

	for (i = 0; i < list->nr; i++)
		json_array_append_new(json_object_get(o, "mounts"), mount_json(list->each[i]));
	if (message)
		json_object_set_new(o, "error", error_json(ENODEV, message));
	put_json(o);
	json_decref(o);
}

static int widest(const struct mounts *list, size_t offset, const char *title)
{
	size_t widest = strlen(title), i;

	for (i = 0; i < list->nr; i++) {
		size_t len = strlen((const char *)&list->each[i]->entry + offset);

		widest = len > widest ? len : widest;
	}
	return (int)(widest < 60 ? widest : 60);
}

static void print_table(const struct mounts *list)
{
	int points = widest(list, offsetof(struct mount_entry, path), "MOUNTPOINT");
	int sources = widest(list, offsetof(struct mount_entry, source), "BACKING");
	size_t i;

	printf("%-*s  %-*s  %-18s  %-11s  %s\n", points, "MOUNTPOINT", sources, "BACKING", "DAEMON",
	       "UNCOMMITTED", "FAILURES");
	for (i = 0; i < list->nr; i++) {
		const struct mount *m = list->each[i];
		char daemon[64];

		snprintf(daemon, sizeof(daemon), m->pid > 0 ? "%s, pid %d" : "%s", state_of(m),
			 m->pid);
		printf("%-*s  %-*s  %-18s  ", points, m->entry.path, sources, m->entry.source,
		       daemon);
		if (m->status)
			printf("%-11zu  %lld%s\n",
			       json_array_size(json_object_get(m->status, "pending")),
			       (long long)json_get_int(m->status, "failures", 0),
			       json_is_true(json_object_get(m->status, "read_only")) ? "  read-only"
										     : "");
		else
			printf("%-11s  %s\n", "?", "?");
	}
	fflush(stdout);
	for (i = 0; i < list->nr; i++)
		if (!list->each[i]->status)
			complain(list->each[i]->error.text);
}

static void free_list(struct mounts *list)
{
	size_t i;

	for (i = 0; i < list->nr; i++) {
		json_decref(list->each[i]->status);
		free(list->each[i]);
	}
	free(list->each);
}

int list_mounts(bool json)
{
	struct mounts list = {.nr = 0};
	char text[MESSAGE_MAX] = "";
	bool ok;
	size_t i;

	mountinfo_each_ckptfs(add, &list);
	ask_all(&list);
	ok = list.nr && !list.no_memory;
	for (i = 0; i < list.nr; i++)
		ok = ok && list.each[i]->status;
	if (!list.nr) {
		MESSAGE(text, NOTHING_MOUNTED);
		complain(text);
	}
	if (json)
		print_json(&list, ok, *text ? text : NULL);
	else if (list.nr)
		print_table(&list);
	free_list(&list);
	return ok ? EXIT_DONE : EXIT_NO;
}

bool find_only_mount(struct mount_entry *m)
{
	struct mounts list = {.nr = 0};
	bool only;

	mountinfo_each_ckptfs(add, &list);
	only = list.nr == 1;
	if (only)
		*m = list.each[0]->entry;
	free_list(&list);
	return only;
}
