/* SPDX-License-Identifier: MIT */
#include "fs/unclaimed.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "engine/backing/backing.h"
#include "engine/base/cleanup.h"
#include "engine/base/message.h"
#include "engine/metrics/failures.h"
#include "engine/rule/rule.h"
#include "fs/fs.h"
#include "fs/route.h"
#include "fs/tree.h"

#define HEAD_MAX 256 /* of a zip file: contains the name of its first entry */

static bool begins_with(const char *data, size_t size, const char *magic, size_t len)
{
	return size >= len && !memcmp(data, magic, len);
}

static bool has_word(const char *data, size_t size, const char *word)
{
	return memmem(data, size < HEAD_MAX ? size : HEAD_MAX, word, strlen(word));
}

/* The kind of a file that begins so; NULL: unknown. */
static const char *kind_of(const char *data, size_t size)
{
	if (begins_with(data, size, "PK\3\4", 4) && has_word(data, size, "data.pkl"))
		return "torch.save";
	if (begins_with(data, size, "PK\3\4", 4) && has_word(data, size, ".npy"))
		return "numpy.savez";
	if (begins_with(data, size, "\x89HDF\r\n\x1a\n", 8))
		return "HDF5";
	if (size > 10 && !data[5] && !data[6] && !data[7] && !memcmp(data + 8, "{\"", 2))
		return "safetensors";
	if (size > 2 && data[0] == '\x80' && data[1] >= 2 && data[1] <= 5)
		return "pickle";
	return NULL;
}

/* True if a program that writes such a name gives the file another one when it is whole. */
static bool is_temporary(const char *name)
{
	size_t len = strlen(name);

	return *name == '.' || strcasestr(name, "tmp") || strcasestr(name, "temp") ||
	       (len > 5 && !strcmp(name + len - 5, ".part")) || (len && name[len - 1] == '~');
}

/* Reports the file @path, unless its name is temporary, or a rule's. */
static void say(struct fs *fs, const struct caller *c, char *path, const char *kind)
{
	char text[MESSAGE_MAX], *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

	/* A rule's name gets here if its checkpoint is committed already. */
	if (is_temporary(name) || rules_single(fs->engine->rules, name))
		return;
	MESSAGE(text, NAME_UNCLAIMED, path, kind);
	if (slash)
		*slash = '\0';
	failures_notice(fs->engine->notices, c->uid, "unclaimed", slash ? path : ".", text);
}

void unclaimed_notice(struct fs *fs, const struct caller *c, const struct handle *h,
		      const char *data, size_t size, off_t off)
{
	const char *kind = off || h->generation || !fs->engine->units ? NULL : kind_of(data, size);
	char path[PATH_MAX];

	if (!kind)
		return;
	tree_path(fs->tree, h->node->id, NULL, path, sizeof(path));
	say(fs, c, path, kind);
}

void unclaimed_renamed(struct fs *fs, const struct caller *c, const char *from,
		       const struct entry_name *to)
{
	struct backing b = fs_for(fs, c);
	char path[PATH_MAX], head[HEAD_MAX];
	__cleanup_fd int pin = -1, fd = -1;
	const char *kind;
	ssize_t len;

	/* What a rule calls temporary was staged: the file is whole, and has a digest. */
	if (!is_temporary(from) || rules_single(fs->engine->rules, from))
		return;
	pin = backing_pin(&b, to->at, to->name);
	fd = pin < 0 ? pin : backing_reopen(&b, pin, O_RDONLY | O_NONBLOCK);
	len = fd < 0 ? fd : backing_read(&b, fd, head, sizeof(head), 0);
	kind = len > 0 ? kind_of(head, (size_t)len) : NULL;
	if (!kind)
		return;
	tree_path(fs->tree, to->dir->id, to->name, path, sizeof(path));
	say(fs, c, path, kind);
}
