/* SPDX-License-Identifier: MIT */
/* Any config file is applied, or refused with a message. */
#include "tests/fuzz/fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

#include "engine/config/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = memfd_create("config", MFD_CLOEXEC), err;
	struct error e = {0};
	struct config c;
	char path[64], *text;
	json_t *root;

	REQUIRE(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	config_init(&c);
	err = config_apply_file(&c, path, &e);
	REQUIRE(err <= 0 && err == -e.err);
	REQUIRE(!err == !e.text[0]);
	root = config_to_json(&c);
	text = json_dumps(root, 0);
	REQUIRE(text);
	free(text);
	json_decref(root);
	config_finish(&c);
	close(fd);
	return 0;
}
