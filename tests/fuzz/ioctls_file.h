/* SPDX-License-Identifier: MIT */
/* Steps of the fuzz target ioctls: plain calls on the files that captures are written to. */
#ifndef TESTS_FUZZ_IOCTLS_FILE_H
#define TESTS_FUZZ_IOCTLS_FILE_H

#include "tests/fuzz/ioctls_ask.h"

/* --- plain calls --- */

static void forget_node(unsigned i)
{
	struct fuse_forget_in f = {.nlookup = w.files[i].lookups};

	if (w.files[i].node)
		ask(FUSE_FORGET, w.files[i].node, 0, false, &f, sizeof(f), NULL, 0);
	w.files[i].node = w.files[i].lookups = 0;
}

static void open_file(struct step *s)
{
	struct fuse_create_in in = {.flags = O_RDWR | O_CREAT, .mode = 0666};
	const char *name = file_names[s->file];
	struct fuse_entry_out e;
	/* What was closed is opened again when its captures have come. */
	bool given_up = w.files[s->file].closed && is_promised_at(0, UINT64_MAX);

	if (w.files[s->file].open ||
	    !ask(FUSE_CREATE, NODE_ROOT, 0, given_up, &in, sizeof(in), name, strlen(name) + 1))
		return;
	memcpy(&e, w.body, sizeof(e));
	w.files[s->file].open = true;
	w.files[s->file].fh =
		((const struct fuse_open_out *)(const void *)(w.body + sizeof(e)))->fh;
	if (w.files[s->file].node != e.nodeid)
		forget_node(s->file); /* that one has failed, or was removed */
	w.files[s->file].node = e.nodeid;
	w.files[s->file].lookups++;
}

static void check_bytes(const char *bytes, uint64_t off, size_t len)
{
	for (size_t i = 0; i < len; i++)
		REQUIRE(!bytes[i] || bytes[i] == byte_at(off + i));
}

static void read_file(struct step *s)
{
	struct fuse_read_in in = {.fh = w.files[s->file].fh,
				  .offset = get_below(s->in, 2 * NEAR),
				  .size = 4096 * (1 + get8(s->in) % 4)};

	if (in.offset <= (uint64_t)INT64_MAX - in.size &&
	    ask(FUSE_READ, w.files[s->file].node, 0, is_promised_at(in.offset, in.size), &in,
		sizeof(in), NULL, 0)) {
		REQUIRE(w.len <= in.size && w.len <= sizeof(w.body));
		check_bytes(w.body, in.offset, w.len);
	}
}

static void write_file(struct step *s)
{
	static char data[16384];
	struct fuse_write_in in = {.fh = w.files[s->file].fh,
				   .offset = get_below(s->in, NEAR),
				   .size = 1 + get8(s->in) * 64u,
				   .flags = O_RDWR};

	if (in.offset > (uint64_t)INT64_MAX - in.size)
		return;
	fill(data, in.offset, in.size);
	ask(FUSE_WRITE, w.files[s->file].node, 0, is_promised_at(in.offset, in.size), &in,
	    sizeof(in), data, in.size);
}

static void sync_file(struct step *s, uint32_t opcode)
{
	struct fuse_fsync_in in = {.fh = w.files[s->file].fh};

	ask(opcode, w.files[s->file].node, 0, is_promised_at(0, UINT64_MAX), &in, sizeof(in), NULL,
	    0);
}

static void cut_file(struct step *s)
{
	struct fuse_setattr_in in = {.valid = FATTR_SIZE | FATTR_FH,
				     .fh = w.files[s->file].fh,
				     .size = get_below(s->in, NEAR)};

	if (in.size > FILE_MAX && in.size <= INT64_MAX)
		in.size = FILE_MAX; /* all of it would be digested */
	ask(FUSE_SETATTR, w.files[s->file].node, 0, is_promised_at(0, UINT64_MAX), &in, sizeof(in),
	    NULL, 0);
}

static void close_file(unsigned i)
{
	struct fuse_flush_in flush = {.fh = w.files[i].fh};
	struct fuse_release_in release = {.fh = w.files[i].fh, .flags = O_RDWR};

	if (!w.files[i].open)
		return;
	/* After an fsync without a rank it waits until the file is published. */
	ask(FUSE_FLUSH, w.files[i].node, 0, is_promised_at(0, UINT64_MAX), &flush, sizeof(flush),
	    NULL, 0);
	REQUIRE(ask_plainly(FUSE_RELEASE, w.files[i].node, &release, sizeof(release)));
	w.files[i].open = false;
	w.files[i].closed = true;
}

static void forget_file(unsigned i)
{
	close_file(i);
	forget_node(i);
}

static void unlink_file(unsigned i)
{
	ask_plainly(FUSE_UNLINK, NODE_ROOT, file_names[i], strlen(file_names[i]) + 1);
}

static void step_plain(struct step *s)
{
	open_file(s);
	if (!w.files[s->file].open)
		return;
	switch (s->how % 8) {
	case 0:
	case 1:
		read_file(s);
		break;
	case 2:
		write_file(s);
		break;
	case 3:
		sync_file(s, FUSE_FSYNC);
		break;
	case 4:
		cut_file(s);
		break;
	case 5:
		close_file(s->file);
		break;
	case 6:
		unlink_file(s->file);
		forget_file(s->file);
		break;
	default:
		break;
	}
}

#endif
