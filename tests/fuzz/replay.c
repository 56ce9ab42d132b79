/* SPDX-License-Identifier: MIT */
/* Feeds a fuzz target the files named, and those in the directories named: no fuzzer
 * needed. */
#include <dirent.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "tests/fuzz/fuzz.h"

static unsigned nr_files;

static bool replay_file(const char *path, size_t size)
{
	FILE *f = fopen(path, "r");
	uint8_t *data = malloc(size ? size : 1);
	bool ok = f && data && fread(data, 1, size, f) == size;

	if (f)
		fclose(f);
	if (ok) {
		LLVMFuzzerTestOneInput(data, size);
		nr_files++;
	} else {
		perror(path);
	}
	free(data);
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

int main(int argc, char **argv)
{
	bool ok = argc > 1;
	int i;

	for (i = 1; i < argc; i++)
		if (!replay(argv[i]))
			ok = false;
	printf("%u inputs\n", nr_files);
	return ok && nr_files ? 0 : 1;
}
