/* SPDX-License-Identifier: MIT */
/* The calls of calls.h on files that are open. */
#include <sys/stat.h>

#include "tests/sim/calls.h"

static uint64_t key_of(const struct opened *o)
{
	return (uint64_t)o->p->who.pid;
}

int call_write(struct opened *o, const void *data, size_t len, size_t off)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n =
			data_write(&o->p->m->fs, &o->p->who, o->h, key_of(o),
				   (const char *)data + done, len - done, (off_t)(off + done), 0);

		if (n < 0)
			return (int)n;
		done += (size_t)n;
	}
	return 0;
}

size_t call_size(const struct opened *o)
{
	struct stat st;

	if (o->h->generation)
		return content_size(generation_content(o->h->generation));
	return fstat(o->h->fd, &st) ? 0 : (size_t)st.st_size;
}

int call_sync(struct opened *o)
{
	int err = data_sync(&o->p->m->fs, &o->p->who, o->h, false);

	return err;
}

int call_close(struct opened *o)
{
	struct mnt *m = o->p->m;
	int ignored, err = data_close(&m->fs, &o->p->who, o->h, key_of(o));

	if (o->h->generation)
		generation_released(o->h->generation);
	handle_put(m->fs.tree, o->h, &ignored);
	o->h = NULL;
	return err;
}
