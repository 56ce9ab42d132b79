/* SPDX-License-Identifier: MIT */
#include "client/dtype.h"

#include <errno.h>
#include <string.h>

/* The types of safetensors 0.8. */
static const struct {
	const char *name;
	unsigned bits;
} dtypes[] = {
	{"BOOL", 8},	    {"F4", 4},	    {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
	{"I8", 8},	    {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
	{"F8_E5M2FNUZ", 8}, {"I16", 16},    {"U16", 16},    {"F16", 16},    {"BF16", 16},
	{"I32", 32},	    {"U32", 32},    {"F32", 32},    {"C64", 64},    {"F64", 64},
	{"I64", 64},	    {"U64", 64},
};

unsigned ckpt_dtype_bits(const char *dtype)
{
	for (unsigned i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); i++)
		if (!strcmp(dtypes[i].name, dtype))
			return dtypes[i].bits;
	return 0;
}

int ckpt_dtype_bytes(unsigned bits, const uint64_t *shape, unsigned ndim, uint64_t *bytes)
{
	uint64_t n = 1;

	for (unsigned i = 0; i < ndim; i++)
		if (__builtin_mul_overflow(n, shape[i], &n))
			return -EOVERFLOW;
	if (__builtin_mul_overflow(n, (uint64_t)bits, &n))
		return -EOVERFLOW;
	*bytes = n / 8;
	return n % 8 ? -EINVAL : 0;
}
