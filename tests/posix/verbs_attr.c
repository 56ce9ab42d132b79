// SPDX-License-Identifier: MIT
/* Verbs on attributes: mode, owner, times, extended attributes, ACL. */
#include "posixcmp.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#define XATTR_BUF    (80 << 10)
#define NOW_WITHIN_S 300

static const struct flag xattr_flags[] = {
	{"CREATE", XATTR_CREATE},
	{"REPLACE", XATTR_REPLACE},
	{NULL, 0},
};

static void v_chmod(struct ctx *c, char **w)
{
	say_ret(c, chmod(w[0], arg_mode(c, w[1])));
}

static void v_fchmod(struct ctx *c, char **w)
{
	say_ret(c, fchmod(arg_fd(c, w[0]), arg_mode(c, w[1])));
}

static void v_chown(struct ctx *c, char **w)
{
	say_ret(c, chown(w[0], arg_num(c, w[1]), arg_num(c, w[2])));
}

static void v_lchown(struct ctx *c, char **w)
{
	say_ret(c, lchown(w[0], arg_num(c, w[1]), arg_num(c, w[2])));
}

static void v_fchown(struct ctx *c, char **w)
{
	say_ret(c, fchown(arg_fd(c, w[0]), arg_num(c, w[1]), arg_num(c, w[2])));
}

static void v_access(struct ctx *c, char **w)
{
	static const struct flag modes[] = {
		{"F", F_OK}, {"R", R_OK}, {"W", W_OK}, {"X", X_OK}, {NULL, 0},
	};

	say_ret(c,
		faccessat(AT_FDCWD, w[0], arg_flags(c, modes, w[1]), arg_flags(c, at_flags, w[2])));
}

/* ---- times ---- */

static void arg_time(struct ctx *c, const char *w, struct timespec *ts)
{
	char *end;

	ts->tv_sec = 0;
	ts->tv_nsec = 0;
	if (!strcmp(w, "now")) {
		ts->tv_nsec = UTIME_NOW;
	} else if (!strcmp(w, "omit")) {
		ts->tv_nsec = UTIME_OMIT;
	} else {
		ts->tv_sec = strtoll(w, &end, 10);
		if (*end == '.')
			ts->tv_nsec = strtol(end + 1, &end, 10);
		if (*end) {
			say(c, "[not a time: %s]", w);
			c->bad = true;
		}
	}
}

static void v_utimens(struct ctx *c, char **w)
{
	struct timespec ts[2];

	if (!strcmp(w[1], "null")) {
		say_ret(c, utimensat(AT_FDCWD, w[0], NULL, 0));
		return;
	}
	arg_time(c, w[1], &ts[0]);
	arg_time(c, w[2] ? w[2] : "?", &ts[1]);
	say_ret(c, utimensat(AT_FDCWD, w[0], ts, arg_flags(c, at_flags, w[2] ? w[3] : NULL)));
}

static void v_futimens(struct ctx *c, char **w)
{
	struct timespec ts[2];

	arg_time(c, w[1], &ts[0]);
	arg_time(c, w[2], &ts[1]);
	say_ret(c, futimens(arg_fd(c, w[0]), ts));
}

static void say_time(struct ctx *c, const char *what, struct timespec ts)
{
	time_t now = time(NULL);

	if (ts.tv_sec > now - NOW_WITHIN_S && ts.tv_sec < now + NOW_WITHIN_S)
		say(c, "%s=now ", what);
	else
		say(c, "%s=%lld.%09ld ", what, (long long)ts.tv_sec, ts.tv_nsec);
}

static void v_times(struct ctx *c, char **w)
{
	struct stat st;

	if (lstat(w[0], &st)) {
		say_ret(c, -1);
		return;
	}
	say_time(c, "atime", st.st_atim);
	say_time(c, "mtime", st.st_mtim);
	say_time(c, "ctime", st.st_ctim);
}

static int mark_get(const char *path, struct statx *sx)
{
	return statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS, sx);
}

static void v_mark(struct ctx *c, char **w)
{
	/* longer than a tick of the clock that time stamps are taken from */
	struct timespec ts = {.tv_nsec = 12000000};

	say_ret(c, mark_get(w[0], &c->mark));
	nanosleep(&ts, NULL);
}

static void say_change(struct ctx *c, const char *what, struct statx_timestamp a,
		       struct statx_timestamp b)
{
	bool same = a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;

	say(c, "%s %s ", what, same ? "kept" : "changed");
}

static void changed(struct ctx *c, const char *path, bool atime)
{
	struct statx now;

	if (mark_get(path, &now)) {
		say_ret(c, -1);
		return;
	}
	if (atime)
		say_change(c, "atime", c->mark.stx_atime, now.stx_atime);
	say_change(c, "mtime", c->mark.stx_mtime, now.stx_mtime);
	say_change(c, "ctime", c->mark.stx_ctime, now.stx_ctime);
}

static void v_changed(struct ctx *c, char **w)
{
	changed(c, w[0], false);
}

static void v_changed_atime(struct ctx *c, char **w)
{
	changed(c, w[0], true);
}

/* ---- extended attributes ---- */

/* "@N" is a value of N bytes. */
static void *arg_value(struct ctx *c, const char *w, size_t *len)
{
	char *p;

	*len = w[0] == '@' ? (size_t)arg_num(c, w + 1) : strlen(w);
	p = malloc(*len + 1);
	if (w[0] == '@')
		memset(p, 'v', *len);
	else
		memcpy(p, w, *len);
	return p;
}

static void v_setx(struct ctx *c, char **w)
{
	size_t len;
	void *p = arg_value(c, w[2], &len);

	say_ret(c, setxattr(w[0], w[1], p, len, arg_flags(c, xattr_flags, w[3])));
	free(p);
}

static void v_lsetx(struct ctx *c, char **w)
{
	size_t len;
	void *p = arg_value(c, w[2], &len);

	say_ret(c, lsetxattr(w[0], w[1], p, len, arg_flags(c, xattr_flags, w[3])));
	free(p);
}

static void v_fsetx(struct ctx *c, char **w)
{
	size_t len;
	void *p = arg_value(c, w[2], &len);

	say_ret(c, fsetxattr(arg_fd(c, w[0]), w[1], p, len, 0));
	free(p);
}

static void v_getx(struct ctx *c, char **w)
{
	size_t size = w[2] ? arg_num(c, w[2]) : XATTR_BUF;
	char *buf = calloc(1, XATTR_BUF);
	ssize_t n = lgetxattr(w[0], w[1], buf, size);

	say_ret(c, n);
	if (n >= 0 && size)
		say_bytes(c, buf, n);
	free(buf);
}

static void v_rmx(struct ctx *c, char **w)
{
	say_ret(c, lremovexattr(w[0], w[1]));
}

static int name_cmp(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void v_listx(struct ctx *c, char **w)
{
	size_t size = w[1] ? arg_num(c, w[1]) : XATTR_BUF, nr = 0, i;
	char *buf = calloc(1, XATTR_BUF), *names[256], *p;
	ssize_t n = llistxattr(w[0], buf, size);

	say_ret(c, n);
	for (p = buf; size && n > 0 && p < buf + n && nr < 256; p += strlen(p) + 1)
		names[nr++] = p;
	qsort(names, nr, sizeof(*names), name_cmp);
	for (i = 0; i < nr; i++)
		say(c, " %s", names[i]);
	free(buf);
}

/* cap_net_raw=ep, the way the kernel stores it */
static void v_setcap(struct ctx *c, char **w)
{
	uint32_t v[5] = {htole32(0x02000001), htole32(1 << 13)};

	say_ret(c, setxattr(w[0], "security.capability", v, sizeof(v), 0));
}

struct acl_entry {
	uint16_t tag, perm;
	uint32_t id;
};

/* user::rw- user:1002:rw- group::--- mask::rw- other::--- */
static void v_setacl(struct ctx *c, char **w)
{
	static const struct acl_entry entries[] = {
		{0x01, 6, ~0U}, {0x02, 6, 1002}, {0x04, 0, ~0U}, {0x10, 6, ~0U}, {0x20, 0, ~0U},
	};
	char blob[4 + sizeof(entries)], name[64];
	uint32_t version = htole32(2);
	struct acl_entry e;
	size_t i;

	memcpy(blob, &version, 4);
	for (i = 0; i < ARRAY_SIZE(entries); i++) {
		e.tag = htole16(entries[i].tag);
		e.perm = htole16(entries[i].perm);
		e.id = htole32(entries[i].id);
		memcpy(blob + 4 + i * sizeof(e), &e, sizeof(e));
	}
	snprintf(name, sizeof(name), "system.posix_acl_%s", w[1]);
	say_ret(c, setxattr(w[0], name, blob, sizeof(blob), 0));
}

static void v_statfs(struct ctx *c, char **w)
{
	struct statvfs s;

	if (statvfs(w[0], &s)) {
		say_ret(c, -1);
		return;
	}
	say(c, "namemax=%lu", s.f_namemax);
	say(c, s.f_blocks && s.f_bfree <= s.f_blocks && s.f_bsize ? " blocks make sense"
								  : " blocks make no sense");
}

const struct verb attr_verbs[] = {
	{"chmod", "PATH MODE", "", v_chmod},
	{"fchmod", "SLOT MODE", "", v_fchmod},
	{"chown", "PATH UID GID", "-1 leaves it", v_chown},
	{"lchown", "PATH UID GID", "", v_lchown},
	{"fchown", "SLOT UID GID", "", v_fchown},
	{"access", "PATH F|R|W|X [FLAGS]", "EACCESS NOFOLLOW", v_access},
	{"utimens", "PATH ATIME [MTIME] [FLAGS]", "now, omit, SECONDS.NANOSECONDS; null",
	 v_utimens},
	{"futimens", "SLOT ATIME MTIME", "", v_futimens},
	{"times", "PATH", "recent ones are said as \"now\"", v_times},
	{"mark", "PATH", "note its times", v_mark},
	{"changed", "PATH", "mtime, ctime since the mark", v_changed},
	{"changed-a", "PATH", "atime too", v_changed_atime},
	{"setx", "PATH NAME VALUE [FLAGS]", "VALUE @N: N bytes", v_setx},
	{"lsetx", "PATH NAME VALUE [FLAGS]", "", v_lsetx},
	{"fsetx", "SLOT NAME VALUE", "", v_fsetx},
	{"getx", "PATH NAME [SIZE]", "", v_getx},
	{"rmx", "PATH NAME", "", v_rmx},
	{"listx", "PATH [SIZE]", "", v_listx},
	{"setcap", "PATH", "security.capability", v_setcap},
	{"setacl", "PATH access|default", "user2 may read and write", v_setacl},
	{"statfs", "PATH", "f_namemax", v_statfs},
	{NULL, NULL, NULL, NULL},
};
