/* SPDX-License-Identifier: MIT */
#include "engine/tensors/types.h"

#include <string.h>

#include "engine/base/cleanup.h"

static const struct type {
	const char *name, *torch, *storage;
	unsigned bits;
} types[] = {
	{"F32", "float32", "FloatStorage", 32},
	{"BF16", "bfloat16", "BFloat16Storage", 16},
	{"F16", "float16", "HalfStorage", 16},
	{"F64", "float64", "DoubleStorage", 64},
	{"I64", "int64", "LongStorage", 64},
	{"I32", "int32", "IntStorage", 32},
	{"I16", "int16", "ShortStorage", 16},
	{"I8", "int8", "CharStorage", 8},
	{"U8", "uint8", "ByteStorage", 8},
	{"BOOL", "bool", "BoolStorage", 8},
	{"U16", "uint16", NULL, 16},
	{"U32", "uint32", NULL, 32},
	{"U64", "uint64", NULL, 64},
	{"C64", "complex64", "ComplexFloatStorage", 64},
	{"C128", "complex128", "ComplexDoubleStorage", 128},
	{"C32", "complex32", NULL, 32},
	{"F8_E4M3", "float8_e4m3fn", NULL, 8},
	{"F8_E5M2", "float8_e5m2", NULL, 8},
	{"F8_E4M3FNUZ", "float8_e4m3fnuz", NULL, 8},
	{"F8_E5M2FNUZ", "float8_e5m2fnuz", NULL, 8},
	{"F8_E8M0", "float8_e8m0fnu", NULL, 8},
	{"F6_E2M3", NULL, NULL, 6},
	{"F6_E3M2", NULL, NULL, 6},
	{"F4", NULL, NULL, 4},
};

static bool is(const char *name, const char *text, size_t len)
{
	return name && strlen(name) == len && !memcmp(name, text, len);
}

const char *type_of_safetensors(const char *name, size_t len)
{
	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if (is(types[i].name, name, len))
			return types[i].name;
	return NULL;
}

const char *type_of_torch(const char *name, size_t len)
{
	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if (is(types[i].torch, name, len))
			return types[i].name;
	return NULL;
}

const char *type_of_storage(const char *name, size_t len)
{
	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if (is(types[i].storage, name, len))
			return types[i].name;
	return NULL;
}

static const struct type *find(const char *type)
{
	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if (!strcmp(types[i].name, type))
			return &types[i];
	return NULL;
}

const char *type_torch_name(const char *type)
{
	const struct type *t = find(type);

	return t ? t->torch : NULL;
}

const char *type_storage_name(const char *type)
{
	const struct type *t = find(type);

	return t ? t->storage : NULL;
}

unsigned type_bits(const char *type)
{
	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if (!strcmp(types[i].name, type))
			return types[i].bits;
	return 0;
}

bool type_bytes(const char *type, uint64_t nr, uint64_t *bytes)
{
	uint64_t bits;

	if (__builtin_mul_overflow(nr, (uint64_t)type_bits(type), &bits) || bits % 8)
		return false;
	*bytes = bits / 8;
	return true;
}

bool shape_volume(const uint64_t *shape, unsigned ndim, uint64_t *nr)
{
	*nr = 1;
	for (unsigned i = 0; i < ndim; i++)
		if (__builtin_mul_overflow(*nr, shape[i], nr))
			return false;
	return true;
}
