/* SPDX-License-Identifier: MIT */
/* The text of a lease, and the renewal of this node's own. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/base/json.h"
#include "engine/base/log.h"
#include "engine/coord/nodes_inside.h"

static void copy_text(char *to, size_t size, const json_t *from, const char *key)
{
	const char *text = json_string_value(json_object_get(from, key));

	snprintf(to, size, "%s", text ? text : "");
}

void lease_facts_read(struct lease_facts *f, const char *text, size_t len)
{
	json_t *o = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
	json_int_t lease_s = json_integer_value(json_object_get(o, "lease_s"));

	memset(f, 0, sizeof(*f));
	f->protocol = json_integer_value(json_object_get(o, "protocol"));
	copy_text(f->label, sizeof(f->label), o, "label");
	copy_text(f->host, sizeof(f->host), o, "host");
	copy_text(f->boot, sizeof(f->boot), o, "boot");
	copy_text(f->place, sizeof(f->place), o, "place");
	copy_text(f->rules, sizeof(f->rules), o, "rules");
	if (lease_s > 0 && lease_s < 1000000)
		f->lease_ns = (uint64_t)lease_s * NSEC_PER_SEC;
	json_decref(o);
}

static char *lease_text(const struct nodes *ns)
{
	const struct lease_facts *f = &ns->self;
	json_t *o = json_pack("{s:I, s:o, s:o, s:s, s:s, s:s, s:I, s:I}", "protocol",
			      (json_int_t)f->protocol, "label", json_text(f->label), "host",
			      json_text(f->host), "boot", f->boot, "place", f->place, "rules",
			      f->rules, "lease_s", (json_int_t)(ns->lease_ns / NSEC_PER_SEC),
			      "renewal", (json_int_t)ns->renewals);
	char *text = json_dumps(o, JSON_COMPACT);

	json_decref(o);
	return text;
}

static void tell_renewal(const struct nodes *ns, int before, int now)
{
	char text[MESSAGE_MAX];

	if (!before == !now)
		return;
	if (now)
		MESSAGE(text, NODE_LEASE_FAILS, ns->backing, strerror(-now),
			(unsigned)(ns->lease_ns / NSEC_PER_SEC));
	else
		MESSAGE(text, NODE_LEASE_AGAIN, ns->backing);
	log_warn("%s", text);
}

int nodes_renew(struct nodes *ns)
{
	uint64_t since = clock_mono_ns();
	__cleanup_free char *text = NULL;
	int before, err;

	ns->renewals++;
	text = lease_text(ns);
	err = text ? ns->options.coord->lease(ns->options.coord_arg, ns->id, text, strlen(text))
		   : -ENOMEM;
	lock_take(&ns->lock);
	before = ns->renew_err;
	ns->renew_err = err;
	if (err) {
		ns->outages++;
		ns->failed_ns = clock_mono_ns();
	} else {
		ns->renewed_ns = since;
	}
	lock_drop(&ns->lock);
	if (ns->renewals > 1) /* nodes_create reports the first one */
		tell_renewal(ns, before, err);
	return err;
}
