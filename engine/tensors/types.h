/* SPDX-License-Identifier: MIT */
/* The types of elements, by the names of safetensors and by those of torch. */
#ifndef ENGINE_TENSORS_TYPES_H
#define ENGINE_TENSORS_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TYPE_DIMS 64 /* torch's own limit */

/* The name of an element type, as safetensors has it; a constant. NULL: none. */
const char *type_of_safetensors(const char *name, size_t len);
const char *type_of_torch(const char *name, size_t len);   /* "float32" */
const char *type_of_storage(const char *name, size_t len); /* "FloatStorage" */

/* The reverse, of a type that one of these has returned. NULL: torch has no such one. */
const char *type_torch_name(const char *type);
const char *type_storage_name(const char *type);

/* The bits of an element of @type, which one of these functions has returned. */
unsigned type_bits(const char *type);

/* Sets *@bytes to the size of @nr elements. False: it is no whole number of bytes, or too large. */
bool type_bytes(const char *type, uint64_t nr, uint64_t *bytes);

/* Sets *@nr to the product of the @ndim lengths. False: too large. */
bool shape_volume(const uint64_t *shape, unsigned ndim, uint64_t *nr);

#endif
