/* SPDX-License-Identifier: MIT */
#include "tests/model/model.h"

#include <stdlib.h>
#include <string.h>

static const char *const in_unit[NAMES_IN_UNIT] = {
	"",	      "/__0_0.distcp", "/__1_0.distcp", "/__2_0.distcp", "/.metadata.tmp",
	"/.metadata", "/sub",	       "/sub/a",	"/note.txt",	 "/other.txt",
};

static const char *const beside[] = {"run/log.txt", "run/plain.txt", "run/x.pt", "run/x.pt.tmp",
				     "run/free"};

const char *name_of(unsigned path)
{
	static char text[NR_UNITS * NAMES_IN_UNIT][PATH_LEN];

	if (path >= NAME_LOG)
		return beside[path - NAME_LOG];
	if (!*text[path])
		snprintf(text[path], PATH_LEN, "run/step-%u%s", path / NAMES_IN_UNIT + 1,
			 in_unit[path % NAMES_IN_UNIT]);
	return text[path];
}

int unit_of(unsigned path)
{
	return path < NAME_LOG ? (int)path / NAMES_IN_UNIT : -1;
}

int unit_of_path(const char *path)
{
	return strncmp(path, "run/step-", 9) ? -1 : atoi(path + 9) - 1;
}

static const char *const of_the_mount[NR_OP_KINDS] = {
	[OP_PASS] = "quiet_s passes",
	[OP_SETTLE] = "all that can be committed is",
	[OP_REMOUNT] = "umount, mount",
	[OP_CRASH] = "the daemon crashes; mount",
};

static void describe_start(const struct op *op, char *buf, size_t size)
{
	if (op->job)
		snprintf(buf, size, "p%u starts: rank %u of %u, job %u", op->who, op->rank,
			 op->world, op->job);
	else
		snprintf(buf, size, "p%u starts: a person's", op->who);
}

static void describe_in_open(const struct op *op, char *buf, size_t size)
{
	switch ((enum op_kind)op->kind) {
	case OP_WRITE:
		snprintf(buf, size, "write #%u [%u, %u) of '%c'", op->slot, op->off,
			 op->off + op->len, op->byte);
		break;
	case OP_CUT:
		snprintf(buf, size, "ftruncate #%u to %u", op->slot, op->off);
		break;
	case OP_FSYNC:
		snprintf(buf, size, "fsync #%u", op->slot);
		break;
	case OP_CLOSE:
		snprintf(buf, size, "close #%u", op->slot);
		break;
	default:
		break;
	}
}

static void describe_pointer(const struct op *op, const char *path, char *buf, size_t size)
{
	if (op->kind == OP_LINK)
		snprintf(buf, size, "p%u links last.ckpt to %s", op->who, path);
	else
		snprintf(buf, size, "p%u writes %s to latest%s", op->who, path,
			 op->flag ? " (by a rename)" : "");
}

void op_describe(const struct op *op, char *buf, size_t size)
{
	const char *path = op->path < NR_NAMES ? name_of(op->path) : "?";

	switch ((enum op_kind)op->kind) {
	case OP_START:
		describe_start(op, buf, size);
		break;
	case OP_EXIT:
		snprintf(buf, size, "p%u exits with 0", op->who);
		break;
	case OP_KILL:
		snprintf(buf, size, "p%u is killed", op->who);
		break;
	case OP_MKDIR:
		snprintf(buf, size, "p%u mkdir %s", op->who, path);
		break;
	case OP_OPEN:
		snprintf(buf, size, "p%u open %s%s as #%u", op->who, path,
			 op->flag ? " (O_TRUNC)" : "", op->slot);
		break;
	case OP_WRITE:
	case OP_CUT:
	case OP_FSYNC:
	case OP_CLOSE:
		describe_in_open(op, buf, size);
		break;
	case OP_CUT_PATH:
		snprintf(buf, size, "p%u truncate %s to %u", op->who, path, op->off);
		break;
	case OP_RENAME:
		snprintf(buf, size, "p%u rename %s %s", op->who, path, name_of(op->to));
		break;
	case OP_UNLINK:
		snprintf(buf, size, "p%u unlink %s", op->who, path);
		break;
	case OP_RMDIR:
		snprintf(buf, size, "p%u rmdir %s", op->who, path);
		break;
	case OP_RMTREE:
		snprintf(buf, size, "p%u rm -r %s", op->who, path);
		break;
	case OP_COMMIT:
		snprintf(buf, size, "ckptfs commit %s", path);
		break;
	case OP_POINT:
	case OP_LINK:
		describe_pointer(op, path, buf, size);
		break;
	case OP_PASS:
	case OP_SETTLE:
	case OP_REMOUNT:
	case OP_CRASH:
		snprintf(buf, size, "%s", of_the_mount[op->kind]);
		break;
	case NR_OP_KINDS:
		break;
	}
}
