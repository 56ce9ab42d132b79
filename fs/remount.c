/* SPDX-License-Identifier: MIT */
#include "fs/remount.h"

#include <errno.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/base/json.h"
#include "engine/base/message.h"
#include "fs/control_socket.h"
#include "fs/unmount.h"

int remount_find(const char *point, struct mount_entry *m, struct error *e)
{
	char resolved[PATH_MAX];

	if (mountinfo_resolve(point, resolved) || !mountinfo_find_ckptfs(resolved, m) ||
	    strcmp(resolved, m->path) != 0)
		return FAIL(e, EINVAL, NOT_A_MOUNT, point);
	return 0;
}

/* True if the option @k of @wanted equals @value, which the daemon of @m has. */
static bool is_same(const struct mount_entry *m, const struct config *wanted, enum key k,
		    const json_t *value)
{
	const char *text = config_text(wanted, k);
	uint64_t number, now;
	json_t *list;
	bool same;

	if (k == OPT_ALLOW_OTHER) /* its default is not a value */
		return m->allow_other == (config_number(wanted, k) != 0);
	switch (key_table[k].type) {
	case KEY_BOOL:
		return json_is_true(value) == (config_number(wanted, k) != 0);
	case KEY_JSON:
		list = json_loads(text, 0, NULL);
		same = json_equal(list, value);
		json_decref(list);
		return same;
	case KEY_STRING:
	case KEY_ENUM:
		return json_is_string(value) && !strcmp(text, json_string_value(value));
	default:
		return json_is_string(value) && !config_parse_value(&key_table[k], text, &number) &&
		       !config_parse_value(&key_table[k], json_string_value(value), &now) &&
		       number == now;
	}
}

/* Refuses other options than those in force, which fstab and mountinfo repeat. */
static int check_options(const struct mount_entry *m, const struct config *wanted,
			 const json_t *config, struct error *e)
{
	enum key k;

	if (wanted->no_exec != m->no_exec)
		return FAIL(e, EINVAL, REMOUNT_OPTION, wanted->no_exec ? "noexec" : "exec",
			    m->path);
	if (wanted->no_atime != m->no_atime)
		return FAIL(e, EINVAL, REMOUNT_OPTION, wanted->no_atime ? "noatime" : "atime",
			    m->path);
	for (k = 0; k < NR_KEYS; k++) {
		const json_t *one = json_object_get(config, key_table[k].name);

		if (config_given(wanted, k) &&
		    !is_same(m, wanted, k, json_object_get(one, "value")))
			return FAIL(e, EINVAL, REMOUNT_OPTION, key_table[k].name, m->path);
	}
	return 0;
}

/* Refuses what cannot become read-only, or writable, now. */
static int check_state(const struct mount_entry *m, const struct config *wanted,
		       const json_t *status, struct error *e)
{
	const json_t *pending = json_object_get(status, "pending");
	const char *path = json_get_text(json_array_get(pending, 0), "path", "?");

	if (wanted->read_only && json_array_size(pending))
		return FAIL(e, EBUSY, REMOUNT_SAVING, m->path, json_array_size(pending), path,
			    m->path);
	if (!wanted->read_only && !json_object_get(status, "cache"))
		return FAIL(e, EROFS, REMOUNT_NO_CACHE, m->path, m->path);
	return 0;
}

/* Remounts: the kernel sets all flags, but keeps the access-time mode if none is given. */
static int change(const struct mount_entry *m, bool read_only, struct error *e)
{
	unsigned long flags = MS_REMOUNT | MS_NOSUID | MS_NODEV | (m->no_exec ? MS_NOEXEC : 0) |
			      (read_only ? MS_RDONLY : 0);
	char users[512];

	if (!mount(NULL, m->path, NULL, flags, NULL))
		return 0;
	if (errno != EBUSY)
		return FAIL(e, errno, REMOUNT_FAILED, m->path, strerror(errno));
	unmount_users(m->path, users, sizeof(users));
	return FAIL(e, EBUSY, REMOUNT_BUSY, m->path, users);
}

int remount(const struct mount_entry *m, const struct config *wanted, struct error *e)
{
	json_t *config = NULL, *status = NULL;
	int err = control_ask(m, "config", CONTROL_ASK_MS, &config, NULL, NULL, e);

	if (!err)
		err = control_ask(m, "status", CONTROL_ASK_MS, &status, NULL, NULL, e);
	if (!err)
		err = check_options(m, wanted, config, e);
	if (!err)
		err = check_state(m, wanted, status, e);
	if (!err)
		err = change(m, wanted->read_only, e);
	json_decref(config);
	json_decref(status);
	return err;
}
