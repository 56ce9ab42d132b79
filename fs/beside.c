/* SPDX-License-Identifier: MIT */
#include "fs/beside.h"

#include <fcntl.h>
#include <unistd.h>

#include "engine/base/cleanup.h"

#define POINTER_MAX 4096 /* who writes more does not mean a name */

/* The file @name in @dir, which @fd is some descriptor of, says what it points to. */
static void tell_pointed(struct fs *fs, const struct node *dir, const char *name, int fd)
{
	struct backing *b = &fs->engine->backing;
	struct inode_id dir_id = node_inode(dir);
	char content[POINTER_MAX], target[NAME_MAX + 1];
	int r = backing_reopen(b, fd, O_RDONLY | O_NONBLOCK);
	ssize_t len = r < 0 ? r : backing_read(b, r, content, sizeof(content), 0);

	if (r >= 0)
		close(r);
	if (len > 0 && rules_pointer_names(fs->engine->rules, name, content, (size_t)len, target))
		checkpoints_note_pointed(fs->engine->units, &dir_id, target, name);
}

void beside_renamed(struct fs *fs, struct node *dir, int at, const char *name)
{
	struct inode_id id = node_inode(dir);
	int pin;

	checkpoints_note_beside(fs->engine->units, &id, EVIDENCE_RENAME, name);
	if (!rules_is_pointer(fs->engine->rules, name))
		return;
	creds_restore();
	pin = backing_pin(&fs->engine->backing, at, name);
	if (pin < 0)
		return;
	tell_pointed(fs, dir, name, pin);
	close(pin);
}

void beside_unlinked(struct fs *fs, const struct node *dir, const char *name)
{
	struct inode_id id = node_inode(dir);

	checkpoints_note_beside(fs->engine->units, &id, EVIDENCE_UNLINK, name);
}
