/* SPDX-License-Identifier: MIT */
/*
 * The payload of a vote, {"nodes":3,"list":[...]} with what for_heir.h adds, and the lines of its
 * list. Only this module writes and reads these. A line is of a file that is durable on a node; of
 * a tensor in the file whose line is the last before it; of a file that has taken the name of
 * another node's (engine/content/overwrites.h); or of what follows the commit (left.h):
 *
 *	{"ino":7,"btime_ns":9,"size":4096,"mtime_ns":17,"rank":3,"xxh3":"9bc4...","by_handle":true,
 *	 "node":"n1"}
 *	{"name":"w","dtype":"F32","shape":[2],"offset":[0],"length":[2],"at":72,"bytes":8,
 *	 "xxh3":"9bc4..."}
 *	{"ino":7,"btime_ns":9,"over":[5,8]}
 *
 * No state and no lock.
 */
#ifndef ENGINE_RECORD_VOTE_H
#define ENGINE_RECORD_VOTE_H

#include <jansson.h>

#include "engine/content/filed.h"
#include "engine/content/overwrites.h"
#include "engine/format/commit.h"
#include "engine/record/for_heir.h"

/*
 * @nodes take part in the vote; @list is the list, or NULL, and so may @for_heir be. The text is
 * for the caller to free; NULL: no memory.
 */
char *vote_compose(unsigned nodes, json_t *list, const struct for_heir *for_heir);

/*
 * Reads the payload, which may be malformed. *@list is for the caller to release. *@for_heir
 * (@for_heir may be NULL) is for the caller to free. Returns the number of nodes.
 */
unsigned vote_parse(const char *payload, json_t **list, const struct rules *rules,
		    struct for_heir **for_heir);

/* Lines, for the caller to release. NULL: no memory. @own: the label of this node. */
json_t *vote_line_of_file(const struct filed *f, const char *own);
json_t *vote_line_of_tensor(const struct tensor_place *place);
json_t *vote_line_of_overwrite(const struct overwrite *r);

/* What is neither is the line of a file. */
bool vote_line_is_tensor(const json_t *line);
bool vote_line_is_overwrite(const json_t *line);

/* False: it is no such line. Inodes are on @dev. The label of @f lies in @label. */
bool vote_parse_file(const json_t *line, dev_t dev, struct filed *f, char label[NAME_MAX + 1]);
bool vote_parse_tensor(const json_t *line, struct commit_tensor *t,
		       struct commit_tensor_room *room);

/* What is missing in it is 0. */
struct overwrite vote_parse_overwrite(const json_t *line, dev_t dev);

#endif
