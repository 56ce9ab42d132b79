/* SPDX-License-Identifier: MIT */
#include "fs/control_drain.h"

#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/json.h"
#include "engine/commit/report.h"
#include "engine/flush/flush.h"

json_t *control_drain(struct fs *fs, uid_t uid, const json_t *request)
{
	struct engine *en = fs->engine;
	uint64_t now = clock_mono_ns();
	struct drain d = {
		.job = json_get_text(request, "job", NULL),
		.uid = uid,
		.all_users = uid == 0 || uid == geteuid(),
		.since_ns = (uint64_t)json_get_int(request, "since_ns", (json_int_t)now),
	};
	json_int_t limit_ms = json_get_int(request, "limit_ms", 0);
	json_t *answer, *flush;

	if (!en->units) /* read-only: nothing is ever saved */
		return json_pack("{s:i, s:[], s:[], s:i}", "nr_left", 0, "left", "failed",
				 "committed", 0);
	units_drain_of(en->units, &d, now + (uint64_t)limit_ms * NSEC_PER_MSEC);
	answer = units_drain_to_json(en->units, &d);
	flush = flush_to_json(en->flush);
	json_object_set_new(answer, "since_ns", json_integer((json_int_t)d.since_ns));
	json_object_set(answer, "flushed_bytes", json_object_get(flush, "bytes"));
	json_decref(flush);
	return answer;
}
