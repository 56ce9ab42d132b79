/* SPDX-License-Identifier: MIT */
#include "engine/cluster/others.h"

#include <string.h>

#include "engine/base/json.h"
#include "engine/coord/agreement.h"
#include "engine/coord/nodes.h"
#include "engine/save/accord.h"
#include "engine/save/units.h"

#define NODES_NAMED 4 /* in one report, and in one message */
#define RANKS_NAMED 8 /* of each node */

static const char *label_of(const struct checkpoint *cp, const char *id, char buf[NODES_LABEL_MAX])
{
	return nodes_label(cp->units->nodes, id, buf);
}

static const char *own_label(const struct checkpoint *cp, char buf[NODES_LABEL_MAX])
{
	return label_of(cp, nodes_id(cp->units->nodes), buf);
}

static const char *root_label(const struct checkpoint *cp, char buf[NODES_LABEL_MAX])
{
	const struct agreement *a = accord_agreement(cp);

	return agreement_is_root(a) ? own_label(cp, buf) : label_of(cp, a->above[0], buf);
}

/* --- open files --- */

static void add_rank(json_t *ranks, int rank)
{
	size_t i;

	for (i = 0; i < json_array_size(ranks); i++)
		if (json_integer_value(json_array_get(ranks, i)) == rank)
			return;
	if (rank >= 0 && i < RANKS_NAMED)
		json_array_append_new(ranks, json_integer(rank));
}

json_t *others_open(struct checkpoint *cp)
{
	const struct agreement *a = accord_agreement(cp);
	json_t *all = json_array(), *ranks = json_array();
	char label[NODES_LABEL_MAX];
	const struct list *l;
	bool open = cp->nr_changing; /* such as one that makes a file right now */
	unsigned k;
	size_t i;

	list_for_each (l, &cp->files) {
		const struct generation *g = container_of(l, struct generation, beside);

		if (g->state != GENERATION_OPEN)
			break;
		open = true;
		add_rank(ranks, g->rank);
	}
	if (open)
		json_array_append_new(all,
				      json_pack("{s:o, s:O}", "node",
						json_text(own_label(cp, label)), "ranks", ranks));
	json_decref(ranks);
	for (k = 0; a && k < a->nr_children; k++) {
		const json_t *below = accord_open_below(cp, k);

		for (i = 0; i < json_array_size(below) && json_array_size(all) < NODES_NAMED; i++)
			json_array_append(all, json_array_get(below, i));
	}
	return all;
}

/* Says one entry of others_open, which may be malformed. */
static void say_open_on(const json_t *one, struct text *t, const char *before)
{
	const json_t *ranks = json_object_get(one, "ranks");
	size_t nr = json_array_size(ranks), i;

	text_say(t, "%snode %s", before, json_get_text(one, "node", "?"));
	for (i = 0; i < nr && i < RANKS_NAMED; i++)
		text_say(t, "%s%lld",
			 i	  ? ", "
			 : nr > 1 ? " (ranks "
				  : " (rank ",
			 (long long)json_integer_value(json_array_get(ranks, i)));
	if (nr)
		text_say(t, ")");
}

unsigned others_say_open(const struct checkpoint *cp, struct text *t, const char *before)
{
	const struct agreement *a = accord_agreement(cp);
	unsigned nr = 0, k;
	size_t i;

	for (k = 0; a && k < a->nr_children; k++) {
		const json_t *below = accord_open_below(cp, k);

		for (i = 0; i < json_array_size(below); i++, nr++) {
			if (nr < NODES_NAMED)
				say_open_on(json_array_get(below, i), t, nr ? ", " : before);
			else if (nr == NODES_NAMED)
				text_say(t, ", ...");
		}
	}
	return nr;
}

/* --- what is waited for --- */

/* "two, three": the nodes whose votes have not come; returns their number. */
static unsigned others_without_vote(const struct checkpoint *cp, struct text *t)
{
	const struct agreement *a = accord_agreement(cp);
	char label[NODES_LABEL_MAX];
	unsigned nr = 0, k;

	for (k = 0; k < a->nr_children; k++)
		if (!a->children[k].voted)
			text_say(t, "%s%s", nr++ ? ", " : "",
				 label_of(cp, a->children[k].node, label));
	return nr;
}

static void say_votes(struct checkpoint *cp, struct text *t)
{
	char who[256] = "";
	struct text words = {who, sizeof(who), 0};
	unsigned nr = others_without_vote(cp, &words);

	if (!checkpoint_is_flushed_locked(cp))
		text_say(t, "; files of it are still being flushed");
	if (nr)
		text_say(t, "; the vote%s of node%s %s", nr > 1 ? "s" : "", nr > 1 ? "s" : "", who);
	else if (checkpoint_is_flushed_locked(cp))
		text_say(t, "; nothing but the turn of this node");
}

bool others_missing(struct checkpoint *cp, char *buf, size_t size)
{
	const struct agreement *a = accord_agreement(cp);
	char root[NODES_LABEL_MAX];
	struct text t = {buf, size, 0};

	if (!a || agreement_is_over(a) ||
	    (cp->state != GENERATION_OPEN && cp->state != GENERATION_SEALED))
		return false;
	root_label(cp, root);
	if (cp->state == GENERATION_OPEN && accord_has_dead_writer(cp)) {
		text_say(&t, "a process that wrote to it has died: it fails in a moment, unless "
			     "it had ended by that, as other nodes tell");
	} else if (a->state == AGREE_VOTED && !agreement_is_root(a)) {
		text_say(&t, "the decision, which node %s makes: this node has voted", root);
	} else if (a->state == AGREE_PREPARED && cp->state == GENERATION_SEALED) {
		text_say(&t, "its end was seen%s%s", agreement_is_root(a) ? "" : " by node ",
			 agreement_is_root(a) ? "" : root);
		say_votes(cp, &t);
	} else if (a->state == AGREE_OPEN && !agreement_is_root(a)) {
		text_say(&t, "its end, which is seen by node %s (`ckptfs why` there tells more)",
			 root);
	} else if (a->state == AGREE_PREPARED) {
		text_say(&t, "its end was seen by node %s; the close of what is open here", root);
	} else {
		return false;
	}
	return true;
}

/* --- for programs --- */

static json_t *child_to_json(const struct checkpoint *cp, unsigned k)
{
	const struct agree_child *child = &accord_agreement(cp)->children[k];
	const json_t *below = accord_open_below(cp, k);
	char label[NODES_LABEL_MAX];
	json_t *o = json_pack("{s:o, s:s}", "node", json_text(label_of(cp, child->node, label)),
			      "state",
			      child->voted				    ? "voted"
			      : !nodes_alive(cp->units->nodes, child->node) ? "dead"
			      : below					    ? "writing"
									    : "closed");

	if (json_array_size(below))
		json_object_set_new(o, "open", json_deep_copy(below));
	return o;
}

json_t *others_to_json(const struct checkpoint *cp)
{
	static const char *const states[] = {"joining",	  "open",    "ending", "voted",
					     "committed", "aborted", "late"};
	const struct agreement *a = accord_agreement(cp);
	char own[NODES_LABEL_MAX], root[NODES_LABEL_MAX];
	enum agree_state state;
	json_t *others;
	unsigned k;

	if (!a)
		return NULL;
	state = a->root_voted && a->state == AGREE_PREPARED ? AGREE_VOTED : a->state;
	others = json_array();
	for (k = 0; a->state != AGREE_JOINING && k < a->nr_children; k++)
		json_array_append_new(others, child_to_json(cp, k));
	return json_pack("{s:o, s:o, s:s, s:o}", "node", json_text(own_label(cp, own)), "sees_end",
			 json_text(root_label(cp, root)), "state", states[state], "others", others);
}
