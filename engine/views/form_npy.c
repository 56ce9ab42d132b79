/* SPDX-License-Identifier: MIT */
/*
 * A file of NumPy for each tensor (its format, version 1.0). NumPy has no BF16 and no F8: these are
 * raw bytes there, as ml_dtypes writes them. In the name of a file '%2F' stands for '/'.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/tensors/types.h"
#include "engine/views/making.h"

#define ALIGN 64
#define MAGIC "\x93NUMPY\x01"
#define FIXED 10 /* magic, version and length */

static void descr_of(const char *dtype, char *out, size_t size)
{
	unsigned bytes = type_bits(dtype) / 8;
	char kind = !strcmp(dtype, "BF16") || !strncmp(dtype, "F8", 2) ? 'V'
		    : !strcmp(dtype, "BOOL")			       ? 'b'
		    : *dtype == 'F'				       ? 'f'
		    : *dtype == 'I'				       ? 'i'
		    : *dtype == 'U'				       ? 'u'
								       : 'c';

	snprintf(out, size, "%c%c%u", bytes == 1 || kind == 'V' ? '|' : '<', kind, bytes);
}

/* Writes the header; @buf has room for one of TYPE_DIMS lengths. */
static size_t header_of(const struct view_tensor *t, char *buf, size_t room)
{
	char descr[16], *text = buf + FIXED;
	size_t size, len;

	descr_of(t->dtype, descr, sizeof(descr));
	room -= FIXED;
	len = (size_t)snprintf(text, room, "{'descr': '%s', 'fortran_order': False, 'shape': (",
			       descr);
	for (unsigned d = 0; d < t->ndim; d++)
		len += (size_t)snprintf(text + len, room - len, "%s%" PRIu64, d ? ", " : "",
					t->shape[d]);
	len += (size_t)snprintf(text + len, room - len, "%s), }", t->ndim == 1 ? "," : "");
	size = (FIXED + len + 1 + ALIGN - 1) / ALIGN * ALIGN;
	memset(text + len, ' ', size - FIXED - len);
	buf[size - 1] = '\n';
	memcpy(buf, MAGIC, sizeof(MAGIC)); /* with the 0 behind */
	buf[8] = (char)((size - FIXED) & 255);
	buf[9] = (char)((size - FIXED) >> 8);
	return size;
}

/* False: it is too long for a file. */
static bool name_of(const char *tensor, char name[NAME_MAX + 1])
{
	size_t len = 0;

	for (; *tensor && len + 8 < NAME_MAX; tensor++)
		if (*tensor == '/' || *tensor == '%')
			len += (size_t)sprintf(name + len, "%%%02X", (unsigned)*tensor);
		else
			name[len++] = *tensor;
	strcpy(name + len, ".npy");
	return !*tensor;
}

int view_form_npy(struct making *m)
{
	struct view *v = m->v;
	char head[2048], name[NAME_MAX + 1];
	int err = 0;

	v->files = calloc(m->nr + 1, sizeof(*v->files));
	if (!v->files)
		return -ENOMEM;
	for (size_t i = 0; i < m->nr && !err; i++) {
		const struct view_tensor *t = &m->tensors[i];
		struct view_file *f = &v->files[v->nr_files];

		if (!name_of(t->name, name)) {
			making_tell(m, t->name, "its name is too long for a file");
			v->nr_tensors--;
			continue;
		}
		err = file_begin(m, f, name, head, header_of(t, head, sizeof(head)), 1);
		file_add(f, t);
		v->nr_files++;
	}
	return err;
}
