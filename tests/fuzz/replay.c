/* SPDX-License-Identifier: MIT */
/*
 * Feeds a fuzz target the files named, and those in the directories named: no fuzzer needed. With
 * MUTATE=N, it feeds N inputs that are made of these by chance (SEED), which is ten times faster
 * than a fuzzer that also looks at which code each input reaches. What breaks is left in MUTANT.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"

#define MUTANT_MAX 65536

static struct input {
	uint8_t *data;
	size_t size;
} * inputs;
static unsigned nr_files;

/* Keeps @data, which it takes over, to make others of it. */
static void keep(uint8_t *data, size_t size)
{
	inputs = realloc(inputs, (nr_files + 1) * sizeof(*inputs));
	REQUIRE(inputs);
	inputs[nr_files] = (struct input){data, size};
}

static bool replay_file(const char *path, size_t size)
{
	FILE *f = fopen(path, "r");
	uint8_t *data = malloc(size ? size : 1);
	bool ok = f && data && fread(data, 1, size, f) == size;

	if (f)
		fclose(f);
	if (ok) {
		LLVMFuzzerTestOneInput(data, size);
		keep(data, size);
		nr_files++;
	} else {
		perror(path);
		free(data);
	}
	return ok;
}

static bool replay(const char *path)
{
	struct stat st;
	struct dirent *entry;
	bool ok = true;
	DIR *d;

	if (stat(path, &st)) {
		perror(path);
		return false;
	}
	if (!S_ISDIR(st.st_mode))
		return replay_file(path, (size_t)st.st_size);
	d = opendir(path);
	while (d && (entry = readdir(d))) {
		char below[4096];

		snprintf(below, sizeof(below), "%s/%s", path, entry->d_name);
		if (entry->d_name[0] != '.' && !replay(below))
			ok = false;
	}
	if (d)
		closedir(d);
	return ok;
}

static uint64_t state;

/* xorshift64* */
static size_t random_below(size_t limit)
{
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return limit ? (size_t)((state * 2685821657736338717ull) >> 33) % limit : 0;
}

static size_t change(uint8_t *at, size_t size)
{
	static const uint8_t edges[] = {0, 1, 0x7f, 0x80, 0xff, '(', '.', '}', 'R', 'b', 'u', 't'};
	size_t i = random_below(size), n = 1 + random_below(16);
	const struct input *other = &inputs[random_below(nr_files)];

	switch (size ? random_below(6) : 5) {
	case 0:
		at[i] ^= (uint8_t)(1u << random_below(8));
		return size;
	case 1:
		at[i] = (uint8_t)random_below(256);
		return size;
	case 2:
		at[i] = edges[random_below(sizeof(edges))];
		return size;
	case 3: /* a part goes */
		n = n < size - i ? n : size - i;
		memmove(at + i, at + i + n, size - i - n);
		return size - n;
	case 4: /* a part of it comes twice */
		n = n < size - i ? n : size - i;
		if (size + n > MUTANT_MAX)
			return size;
		memmove(at + i + n, at + i, size - i);
		return size + n;
	default: /* the rest is that of another */
		n = random_below(other->size);
		if (i + other->size - n > MUTANT_MAX)
			return size;
		memcpy(at + i, other->data + n, other->size - n);
		return i + other->size - n;
	}
}

/* The input is in a file that is mapped, so it is there if the target ends the program. */
static uint8_t *map_mutant(void)
{
	const char *path = getenv("MUTANT");
	int fd = open(path ? path : "/dev/zero", path ? O_RDWR | O_CREAT : O_RDWR, 0600);
	void *at;

	REQUIRE(fd >= 0 && (!path || !ftruncate(fd, MUTANT_MAX + 16)));
	at = mmap(NULL, MUTANT_MAX + 16, PROT_READ | PROT_WRITE, path ? MAP_SHARED : MAP_PRIVATE,
		  fd, 0);
	REQUIRE(at != MAP_FAILED);
	close(fd);
	return at;
}

/* The mutant is @at, behind its size as text. */
static void mutate(unsigned long long nr)
{
	char *head = (char *)map_mutant();
	uint8_t *at = (uint8_t *)head + 16;

	for (unsigned long long k = 0; k < nr; k++) {
		const struct input *in = &inputs[random_below(nr_files)];
		size_t size = in->size < MUTANT_MAX ? in->size : MUTANT_MAX;
		size_t times = 1 + random_below(4);
		uint8_t *exact;

		memcpy(at, in->data, size);
		while (times-- > 0)
			size = change(at, size);
		snprintf(head, 16, "%zu", size);
		exact = malloc(size ? size : 1); /* what is read beyond it is found by tools */
		REQUIRE(exact);
		memcpy(exact, at, size);
		LLVMFuzzerTestOneInput(exact, size);
		free(exact);
	}
	printf("%llu mutants\n", nr);
}

int main(int argc, char **argv)
{
	bool ok = argc > 1;
	int i;

	for (i = 1; i < argc; i++)
		if (!replay(argv[i]))
			ok = false;
	printf("%u inputs\n", nr_files);
	state = strtoull(getenv("SEED") ? getenv("SEED") : "1", NULL, 0) | 1;
	if (ok && nr_files && getenv("MUTATE"))
		mutate(strtoull(getenv("MUTATE"), NULL, 0));
	for (unsigned k = 0; k < nr_files; k++)
		free(inputs[k].data);
	free(inputs);
	return ok && nr_files ? 0 : 1;
}
