/* SPDX-License-Identifier: MIT */
#include "engine/calls/provider.h"

#include <errno.h>

#include "engine/calls/generation_impl.h"

int provided_begin(struct provided *p, struct generation *g, uint64_t key, uint64_t off,
		   uint64_t len)
{
	int err = generation_write(g, key);

	if (err)
		return err == -EEXIST ? -EOPNOTSUPP : err;
	generation_get(g);
	*p = (struct provided){.generation = g, .promise = {.off = off, .len = len}};
	list_init(&p->promise.link);
	err = len ? content_promise(generation_content(g), &p->promise) : 0;
	if (err)
		provided_end(p);
	return err;
}

void provided_certain(struct provided *p, const struct tensor_place *at)
{
	content_promised(generation_content(p->generation), &p->promise, at);
}

void provided_fail(struct provided *p, int err, const char *why)
{
	generation_give_up(p->generation, err, why);
}

void provided_end(struct provided *p)
{
	content_kept(generation_content(p->generation), &p->promise);
	generation_changed(p->generation);
	generation_put(p->generation);
}
