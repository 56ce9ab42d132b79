/* SPDX-License-Identifier: MIT */
/* The trash thread, which removes what lies in trash (trash_queue.h). */
#ifndef ENGINE_COMMIT_TRASH_THREAD_H
#define ENGINE_COMMIT_TRASH_THREAD_H

#include "engine/save/generation.h"

/* The thread, which also makes room (room.h) and repeats recovery (recover_mount.c). */
void *trash_main(void *units);

#endif
