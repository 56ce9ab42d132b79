/* SPDX-License-Identifier: MIT */
/*
 * Trash: PARENT/.ckptfs-trash-<id>, a file or directory tree that awaits removal, hidden in the
 * mount. A thread of its own removes it, since that may take long. After a crash fsck does.
 */
#ifndef ENGINE_REDO_TRASH_H
#define ENGINE_REDO_TRASH_H

#include <stdbool.h>

#include "engine/backing/backing.h"
#include "engine/content/content.h"
#include "engine/format/names.h"

/*
 * Removes @name in @dir with everything below, with the rights of @b, also after an error. Does not
 * follow symbolic links or enter other filesystems. Drops the removed files from @cached, which may
 * be NULL. 0, or the first -errno.
 */
int trash_remove(struct backing *b, struct contents *cached, int dir, const char *name);

/*
 * Moves @name in @dir to trash, as @owner, if @is_it (@pin: a descriptor) returns true; moves back
 * something else that got the name in that moment. 1: the trash of @id has it, durably. 0: nothing
 * to move. Or -errno.
 */
int trash_put(struct backing *b, const struct caller *owner, int dir, const char *name,
	      bool (*is_it)(void *arg, int pin, const struct statx *stx), void *arg,
	      char id[STAGING_MAX]);

#endif
