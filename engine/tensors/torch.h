/* SPDX-License-Identifier: MIT */
/*
 * A file that torch.save has written in its zip form: a pickle, `data.pkl`, and a member for each
 * storage. A tensor in the pickle says which elements of which storage it has. Nothing of the
 * pickle is run. One thread uses it.
 */
#ifndef ENGINE_TENSORS_TORCH_H
#define ENGINE_TENSORS_TORCH_H

#include "engine/tensors/pickle.h"
#include "engine/tensors/types.h"
#include "engine/tensors/zip.h"

#define TORCH_PICKLE_MAX ((size_t)1 << 30)

struct torch_file {
	struct tree_part part;
	struct zip zip;
	char *data; /* the pickle */
	struct pickle *pickle;
	char prefix[256]; /* of the members: "archive/" */
};

/*
 * Opens @size bytes at @at of @f. The struct must stay where it is. 0; -EBADMSG with *@why: it is
 * no such file; -ENOMEM, or the errno of a read. torch_close accepts zeros.
 */
int torch_open(struct torch_file *tf, struct tree *t, const struct tree_file *f, uint64_t at,
	       uint64_t size, const char **why);
void torch_close(struct torch_file *tf);

struct torch_tensor {
	const char *dtype;
	unsigned ndim;
	uint64_t shape[TYPE_DIMS], stride[TYPE_DIMS];
	uint64_t at; /* in the file of @tf->part.file */
	uint64_t bytes;
	pickle_ref storage; /* the key of its storage */
	uint64_t first;	    /* its first element there */
	bool requires_grad;
};

/*
 * Reads the tensor that @r stands for. 0; 1: it stands for something else; -EBADMSG with *@why: its
 * bytes cannot be described; -ENOMEM, or the errno of a read.
 */
int torch_tensor(struct torch_file *tf, pickle_ref r, struct torch_tensor *out, const char **why);

#define TORCH_LOCAL_PART " (local part)" /* behind the name of what a rank holds of a tensor */

/*
 * The @nr-th tensor that this rank holds of one that is spread over ranks: a DTensor, or a
 * ShardedTensor. 0: @r stands for none, or for fewer.
 */
pickle_ref torch_local_part(const struct torch_file *tf, pickle_ref r, size_t nr);

/* The numbers of a torch.Size or of a tuple or list. False: it is none, or has too many. */
bool torch_numbers(const struct pickle *p, pickle_ref r, uint64_t *list, unsigned *nr);

/* The type that a torch.dtype in a pickle stands for; NULL: none. */
const char *torch_dtype(const struct pickle *p, pickle_ref r);

#endif
