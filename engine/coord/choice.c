/* SPDX-License-Identifier: MIT */
#include "engine/coord/choice.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/backing/creds.h"
#include "engine/base/appear.h"
#include "engine/base/cleanup.h"
#include "engine/base/json.h"
#include "engine/coord/etcd_config.h"

#define DIR_WAY	 "dir"
#define ETCD	 "etcd:"
#define MAX_SIZE 4096

static bool is_dir(const char *option)
{
	return !*option || !strcmp(option, DIR_WAY);
}

int coord_check(const char *option, struct error *e)
{
	struct etcd_config config;
	int err;

	if (is_dir(option))
		return 0;
	if (strncmp(option, ETCD, strlen(ETCD)))
		return FAIL(e, EINVAL, COORD_VALUE, "", option, "there is no such way");
	err = etcd_config_read(&config, option + strlen(ETCD), e);
	etcd_config_finish(&config);
	return err;
}

/* --- the recorded choice --- */

const char *coord_parse_choice(const char *text, size_t len, char way[64])
{
	json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
	const char *kind = json_get_text(root, "coord", "");
	const char *cluster = json_get_text(root, "cluster", "");
	const char *problem = NULL;

	if (!root)
		problem = "not JSON";
	else if (strcmp(kind, "etcd"))
		problem = "it names no way that this ckptfs knows";
	else if (!*cluster || strlen(cluster) > 20 || cluster[strspn(cluster, "0123456789")])
		problem = "it names no cluster";
	else
		snprintf(way, 64, "etcd cluster %s", cluster);
	json_decref(root);
	return problem;
}

/* Reads .ckptfs/coord.json into @way; "dir" if there is none. */
static int read_way(const struct coord_choice *o, int dir, char way[64], struct error *e)
{
	char text[MAX_SIZE];
	const char *path = o->backing->path, *problem;
	__cleanup_fd int fd =
		openat(dir, CHOICE_FILE, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof(text));

	if (fd < 0 && errno == ENOENT) {
		snprintf(way, 64, DIR_WAY);
		return 0;
	}
	if (len < 0)
		return FAIL(e, errno, COORD_CHOICE_BROKEN, path, strerror(errno));
	problem = coord_parse_choice(text, (size_t)len, way);
	return problem ? FAIL(e, EINVAL, COORD_CHOICE_BROKEN, path, problem) : 0;
}

/* Makes coord.json. A mount that comes second finds the file of the first. */
static int write_way(int top, uint64_t cluster)
{
	char tmp[64], text[128];
	unsigned nr;
	int len = snprintf(text, sizeof(text), "{\"coord\": \"etcd\", \"cluster\": \"%llu\"}\n",
			   (unsigned long long)cluster);
	__cleanup_fd int dir = openat(top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd = -1;
	int err = 0;

	if (dir < 0)
		return -errno;
	if (getrandom(&nr, sizeof(nr), 0) != sizeof(nr))
		return -EIO;
	snprintf(tmp, sizeof(tmp), "%s.%08x", CHOICE_FILE, nr);
	fd = openat(dir, tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (fd < 0)
		return -errno;
	if (write(fd, text, (size_t)len) != len || fchmod(fd, 0644) || fsync(fd))
		err = errno ? -errno : -EIO;
	if (err)
		unlinkat(dir, tmp, 0);
	else
		err = appear_first(dir, tmp, CHOICE_FILE);
	return err && err != -EEXIST ? err : fsync(dir) ? -errno : 0;
}

/* As the daemon; where that is refused, as the owner of the directory. */
static int write_as_any(int dir, uint64_t cluster)
{
	struct caller owner = {.pid = NO_PROCESS};
	struct who who;
	struct stat st;
	int err = write_way(dir, cluster);

	if ((err != -EACCES && err != -EPERM) || fstat(dir, &st))
		return err;
	owner.uid = st.st_uid;
	owner.gid = st.st_gid;
	who = who_as(&owner);
	return ACT_AS(&who, write_way(dir, cluster));
}

static int agree(const struct coord_choice *o, uint64_t cluster, struct error *e)
{
	const char *path = o->backing->path;
	__cleanup_fd int dir = openat(o->backing->root_fd, FORMAT_DIR,
				      O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	char way[64], ours[64] = DIR_WAY;
	int err;

	if (dir < 0)
		return !cluster && (errno == ENOENT || errno == ENOTDIR)
			       ? 0
			       : FAIL(e, errno, COORD_CHOICE_BROKEN, path, strerror(errno));
	if (cluster)
		snprintf(ours, sizeof(ours), "etcd cluster %llu", (unsigned long long)cluster);
	err = read_way(o, dir, way, e);
	if (!err && cluster && !strcmp(way, DIR_WAY) && o->writes) {
		err = write_as_any(dir, cluster);
		if (err)
			return FAIL(e, -err, COORD_CHOICE_UNWRITTEN, path, strerror(-err));
		err = read_way(o, dir, way, e);
	}
	if (err || !strcmp(way, ours) || (!strcmp(way, DIR_WAY) && !o->writes))
		return err;
	return FAIL(e, EBUSY, COORD_DIFFERS, path, way, path, ours);
}

/* --- the choice --- */

int coord_choose(struct coord *c, const struct coord_choice *o, struct error *e)
{
	int err = coord_check(o->option, e);

	*c = (struct coord){.ops = &coord_dir_ops, .arg = o->backing};
	if (err)
		return err;
	if (is_dir(o->option))
		return agree(o, 0, e);
	if (!o->format->present)
		return FAIL(e, ENOENT, COORD_NO_FORMAT, o->backing->path, o->backing->path);
	err = coord_etcd_open(&c->etcd, o->option + strlen(ETCD), o->format->uuid, o->lease_s, e);
	if (!err)
		err = agree(o, coord_etcd_cluster(c->etcd), e);
	if (err) {
		coord_close(c);
		return err;
	}
	c->ops = &coord_etcd_ops;
	c->arg = c->etcd;
	return 0;
}

int coord_still_dir(struct backing *b, struct error *e)
{
	return agree(&(struct coord_choice){.backing = b}, 0, e);
}

void coord_close(struct coord *c)
{
	coord_etcd_close(c->etcd);
	memset(c, 0, sizeof(*c));
}
