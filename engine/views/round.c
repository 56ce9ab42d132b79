/* SPDX-License-Identifier: MIT */
#include "engine/views/round.h"

#include <math.h>
#include <string.h>

#include "engine/tensors/types.h"

bool round_can(const char *dtype)
{
	return !strcmp(dtype, "F64") || !strcmp(dtype, "F32") || !strcmp(dtype, "F16");
}

static uint16_t round_float(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	if (isnan(value))
		return (uint16_t)(bits >> 16 | 0x40); /* a NaN whose upper bits alone are kept */
	return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/*
 * Rounding twice may go wrong where the first result is a tie. So the float in between is made odd
 * if it is not exact: then it is no tie, and lies on the same side.
 */
uint16_t round_to_bf16(double value)
{
	float f = (float)value;
	uint32_t bits;

	if (isnan(value) || isinf(f) || (double)f == value)
		return round_float(f);
	memcpy(&bits, &f, sizeof(bits));
	bits -= fabs((double)f) > fabs(value); /* the next one towards 0 */
	bits |= 1;
	memcpy(&f, &bits, sizeof(bits));
	return round_float(f);
}

/* 2 to the power of @n, which a float has. */
static float power_of_2(int n)
{
	uint32_t bits = (uint32_t)(n + 127) << 23;
	float value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

static float half_to_float(uint16_t h)
{
	unsigned exponent = h >> 10 & 31, fraction = h & 1023;
	float value = exponent == 31 ? (fraction ? NAN : INFINITY)
		      : exponent     ? (float)(fraction | 1024) * power_of_2((int)exponent - 25)
				     : (float)fraction * power_of_2(-24);

	return h & 0x8000 ? -value : value;
}

void round_numbers(uint16_t *to, const char *from, size_t nr, unsigned bits)
{
	for (size_t i = 0; i < nr; i++) {
		union {
			double d;
			float f;
			uint16_t h;
		} u;

		memcpy(&u, from + i * (bits / 8), bits / 8);
		to[i] = bits == 64   ? round_to_bf16(u.d)
			: bits == 32 ? round_float(u.f)
				     : round_float(half_to_float(u.h));
	}
}

uint64_t round_bytes(uint64_t bytes, const char *dtype)
{
	return bytes / (type_bits(dtype) / 8) * BF16_BYTES;
}
