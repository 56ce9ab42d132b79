/* SPDX-License-Identifier: MIT */
#include "fs/late_call.h"

#include <errno.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/lock.h"
#include "engine/base/wait.h"

void late_call_began(struct tree *t, uint64_t id)
{
	struct node *n = node_get(t, id); /* kept until late_call_ended */

	if (n)
		atomic_fetch_add(&n->late, 1);
}

void late_call_ended(struct tree *t, uint64_t id)
{
	struct node *n = node_get(t, id);

	if (!n)
		return;
	{
		LOCK_SCOPE(tree_lock(t));
		atomic_fetch_sub(&n->late, 1);
		waitq_wake_all(tree_late(t));
	}
	node_put(t, n); /* the reference of late_call_began */
	node_put(t, n);
}

void late_call_keep_error(struct tree *t, struct node *n, int err)
{
	LOCK_SCOPE(tree_lock(t));
	if (!atomic_load(&n->late_error))
		atomic_store(&n->late_error, err);
}

bool late_call_any(struct tree *t, uint64_t id)
{
	struct node *n = node_get(t, id);
	bool any = n && atomic_load(&n->late);

	node_put(t, n);
	return any;
}

void late_call_wait_out(struct tree *t, struct node *n)
{
	LOCK_SCOPE(tree_lock(t));
	while (atomic_load(&n->late))
		wait_out(tree_late(t), CLOCK_NEVER);
}

int late_call_wait(struct tree *t, struct node *n)
{
	if (!atomic_load(&n->late))
		return 0;
	LOCK_SCOPE(tree_lock(t));
	while (atomic_load(&n->late))
		if (wait_on(tree_late(t), CLOCK_NEVER))
			return -EINTR;
	return 0;
}

int late_call_settle(struct tree *t, struct node *n)
{
	int err = late_call_wait(t, n);

	if (err || !atomic_load(&n->late_error))
		return err;
	return atomic_exchange(&n->late_error, 0);
}
