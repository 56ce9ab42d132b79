/* SPDX-License-Identifier: MIT */
/*
 * Steps of the fuzz target ioctls: what programs ask by their sessions, and the grants that they
 * get.
 */
#ifndef TESTS_FUZZ_IOCTLS_SESSION_H
#define TESTS_FUZZ_IOCTLS_SESSION_H

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "tests/fuzz/ioctls_file.h"

/* --- sessions --- */

static bool on_control(struct step *s, bool given_up, unsigned cmd, const void *arg)
{
	return send_ioctl(CONTROL_CTL_ID, s->t->fh, s->uid, given_up, cmd, arg);
}

/* What a session of its own, or another, is called by. */
static uint64_t get_session(struct step *s)
{
	uint8_t kind = get8(s->in);

	if (kind < 240)
		return s->t->id;
	return kind < 250 ? w.trainers[kind % SESSIONS].id : get_wild(s->in);
}

static void fetch_arena(struct trainer *t, const char *name)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	char byte;
	struct iovec iov = {&byte, 1};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = &control,
			   .msg_controllen = sizeof(control)};
	int to = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), fd;
	bool connected;
	ssize_t n;

	REQUIRE(to >= 0 && snprintf(at.sun_path, sizeof(at.sun_path), "%s/control/%s", w.top,
				    name) < (int)sizeof(at.sun_path));
	/* The daemon asks the kernel who it is: as the user whose session it is. */
	REQUIRE(!t->uid || !chmod(at.sun_path, 0777));
	REQUIRE(!t->uid || !syscall(SYS_setresuid, -1, t->uid, -1));
	connected = !connect(to, (struct sockaddr *)&at, sizeof(at));
	REQUIRE(!t->uid || !syscall(SYS_setresuid, -1, 0, -1));
	REQUIRE(connected);
	do
		n = recvmsg(to, &m, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR); /* the fuzzer's own timer */
	REQUIRE(n == 1 && CMSG_FIRSTHDR(&m));
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(fd));
	t->arena = mmap(NULL, t->arena_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	REQUIRE(t->arena != MAP_FAILED);
	close(fd);
	close(to);
}

static void step_hello(struct step *s)
{
	struct ckptfs_hello h = {.abi = s->how % 16 ? CKPTFS_ABI_VERSION : get8(s->in),
				 .rank = (int)(get8(s->in) % 4) - 1,
				 .world = get8(s->in) % 4,
				 .local_world = get8(s->in) % 4};
	struct trainer *t = s->t;
	struct fuse_open_in open = {.flags = O_RDONLY};
	uint8_t kind = get8(s->in);
	char path[PATH_MAX + 64];

	if (t->begun)
		return;
	h.arena_bytes = kind < 200 ? (kind % 5) * CHUNK : get_wild(s->in);
	if (kind >= 250)
		h.local_rank = (int)get_wild(s->in);
	if (!t->open) {
		REQUIRE(ask_plainly(FUSE_OPEN, CONTROL_CTL_ID, &open, sizeof(open)));
		t->fh = ((const struct fuse_open_out *)(void *)w.body)->fh;
		t->open = true;
	}
	t->uid = s->uid;
	if (!on_control(s, s->given_up, CKPTFS_IOC_HELLO, &h))
		return;
	memcpy(&h, ioctl_answer(sizeof(h)), sizeof(h));
	if (((const struct fuse_ioctl_out *)(void *)w.body)->result)
		return;
	REQUIRE(h.slot_bytes == CHUNK && h.nr_slots >= 2 && h.nr_slots <= MAX_SLOTS);
	t->begun = true;
	t->id = h.session;
	t->nr_slots = h.nr_slots;
	t->arena_bytes = (size_t)h.slot_bytes * h.nr_slots;
	if (s->how % 8 != 7 && t->uid == geteuid()) /* others are turned away */
		fetch_arena(t, h.socket);
	snprintf(path, sizeof(path), "%s/control/%s", w.top, h.socket);
	unlink(path);
}

static void close_control(struct trainer *t)
{
	struct fuse_release_in r = {.fh = t->fh};

	if (t->arena)
		munmap(t->arena, t->arena_bytes);
	if (t->open)
		REQUIRE(ask_plainly(FUSE_RELEASE, CONTROL_CTL_ID, &r, sizeof(r)));
	memset(t, 0, sizeof(*t));
}

static void step_close_control(struct step *s)
{
	if (s->how % 4 == 0)
		close_control(s->t);
}

static void step_bye(struct step *s)
{
	struct ckptfs_bye b = {.session = get_session(s)};

	if (s->t->open && s->how % 4 == 0)
		on_control(s, s->given_up, CKPTFS_IOC_BYE, &b);
}

static void step_register(struct step *s)
{
	static struct ckptfs_register r;
	unsigned nr = s->how % 4, i;
	size_t at = nr * sizeof(struct ckptfs_tensor);

	if (!s->t->open)
		return;
	memset(&r, 0, sizeof(r));
	r.session = get_session(s);
	for (i = 0; i < nr; i++) {
		struct ckptfs_tensor one = {.id = get8(s->in) % IDS + 1,
					    .bytes = get_below(s->in, NEAR),
					    .dtype = "U8",
					    .memory = get8(s->in) % 4,
					    .kind = CKPTFS_TENSOR,
					    .name_len = 1};

		if (get8(s->in) >= 240) {
			unsigned off =
				(unsigned)get_below(s->in, sizeof(one)) % (unsigned)sizeof(one);

			((char *)&one)[off] = (char)get8(s->in);
		}
		memcpy(r.data + i * sizeof(one), &one, sizeof(one));
		r.data[at++] = "abc\n"[get8(s->in) % 4];
	}
	r.nr = nr;
	r.bytes = (uint32_t)at;
	if (get8(s->in) >= 240) {
		r.nr = (uint32_t)get_wild(s->in);
		r.bytes = (uint32_t)get_wild(s->in);
	}
	on_control(s, false, CKPTFS_IOC_REGISTER, &r);
}

static void step_unregister(struct step *s)
{
	static struct ckptfs_unregister u;
	unsigned i;

	u = (struct ckptfs_unregister){.session = get_session(s), .nr = s->how % 4};
	for (i = 0; i < u.nr; i++)
		u.ids[i] = get8(s->in) % (IDS + 1);
	if (get8(s->in) >= 240)
		u.nr = (uint32_t)get_wild(s->in);
	if (s->t->open)
		on_control(s, false, CKPTFS_IOC_UNREGISTER, &u);
}

static void step_write(struct step *s)
{
	static struct ckptfs_write wr;
	struct trainer *t = s->t;
	unsigned nr = s->how % 4 + 1, i;
	bool given_up = s->given_up;

	open_file(s);
	if (!t->begun || !w.files[s->file].open)
		return;
	wr = (struct ckptfs_write){.session = get_session(s), .nr = nr};
	for (i = 0; i < nr; i++) {
		struct ckptfs_capture *c = &wr.captures[i];

		*c = (struct ckptfs_capture){.seq = t->last_seq + 1 + i,
					     .id = get8(s->in) % IDS + 1,
					     .file_off = get_below(s->in, NEAR),
					     .len = get_below(s->in, NEAR / 3)};
		if (get8(s->in) >= 200)
			c->src_off = get_below(s->in, NEAR);
		if (get8(s->in) >= 250)
			c->seq = get_wild(s->in);
	}
	if (get8(s->in) >= 250)
		wr.nr = (uint32_t)get_wild(s->in);
	for (i = 0; i < nr; i++)
		given_up = given_up || is_promised_at(wr.captures[i].file_off, wr.captures[i].len);
	if (!send_ioctl(w.files[s->file].node, w.files[s->file].fh, s->uid, given_up,
			CKPTFS_IOC_WRITE, &wr))
		return;
	REQUIRE(wr.session == t->id && wr.nr == nr);
	for (i = 0; i < nr; i++) {
		const struct ckptfs_capture *c = &wr.captures[i];

		REQUIRE(c->seq == ++t->last_seq);
		if (c->seq < MAX_CAPTURES)
			t->written[c->seq] = (struct written){
				.file_off = c->file_off, .src_off = c->src_off, .len = c->len};
	}
}

/* --- grants --- */

static bool is_void(const struct trainer *t, uint64_t seq)
{
	return seq < MAX_CAPTURES && t->written[seq].failed;
}

/* A piece that is to be copied: all bytes of it are copied here and now. */
static void take_piece(struct trainer *t, const struct ckptfs_grant *g)
{
	unsigned slot = (unsigned)(g->arena_off / CHUNK);
	const struct written *c = &t->written[g->seq < MAX_CAPTURES ? g->seq : 0];

	REQUIRE(g->arena_off % CHUNK == 0 && slot < t->nr_slots && g->len <= CHUNK);
	REQUIRE(!t->slots[slot].nr || is_void(t, t->slots[slot].seq));
	t->slots[slot].nr = g->nr;
	t->slots[slot].seq = g->seq;
	if (g->seq >= MAX_CAPTURES)
		return;
	REQUIRE(!c->failed && g->src_off >= c->src_off && g->src_off - c->src_off < c->len &&
		g->len <= c->len - (g->src_off - c->src_off));
	if (t->arena)
		fill(t->arena + g->arena_off, c->file_off + (g->src_off - c->src_off), g->len);
}

static void take_grants(struct trainer *t, const struct ckptfs_next *n)
{
	REQUIRE(n->nr_grants <= CKPTFS_GRANTS_MAX);
	for (unsigned i = 0; i < n->nr_grants; i++) {
		const struct ckptfs_grant *g = &n->grants[i];

		REQUIRE(g->nr > t->last_grant && g->seq && g->seq <= t->last_seq);
		t->last_grant = g->nr;
		if (g->len) {
			take_piece(t, g);
			continue;
		}
		REQUIRE(g->err && g->err < 4096);
		if (g->seq < MAX_CAPTURES)
			t->written[g->seq].failed = true;
	}
}

/* What was granted, wrongly or rightly, once or twice. */
static void say_done(struct step *s, struct ckptfs_next *n, unsigned nr)
{
	struct trainer *t = s->t;

	for (unsigned i = 0; i < nr; i++) {
		uint8_t kind = get8(s->in);
		unsigned slot = t->nr_slots ? kind % t->nr_slots : 0;

		if (kind >= 250)
			n->done[i].nr = get_wild(s->in);
		else if (kind >= 240)
			n->done[i].nr = t->last_grant + kind % 4;
		else
			n->done[i].nr = t->slots[slot].nr;
	}
	n->nr_done = nr;
}

static void step_next(struct step *s)
{
	static struct ckptfs_next n;
	struct trainer *t = s->t;
	unsigned nr = s->how % 16, i, slot;

	if (!t->open)
		return;
	memset(&n, 0, sizeof(n));
	n.session = get_session(s);
	say_done(s, &n, nr);
	if (get8(s->in) >= 248)
		n.nr_done = (uint32_t)get_wild(s->in);
	n.wait_ms = get8(s->in) < 250 ? 0 : (uint32_t)get_wild(s->in);
	if (get8(s->in) >= 253)
		n.nr_grants = 1;
	if (!on_control(s, s->given_up || n.wait_ms, CKPTFS_IOC_NEXT, &n)) {
		/* Whatever it was told, what it took is not ours any more. */
		for (i = 0; i < nr && n.session == t->id; i++)
			for (slot = 0; slot < t->nr_slots; slot++)
				if (t->slots[slot].nr == n.done[i].nr)
					t->slots[slot].nr = 0;
		return;
	}
	if (n.session != t->id)
		return;
	for (i = 0; i < nr; i++)
		for (slot = 0; slot < t->nr_slots; slot++)
			if (t->slots[slot].nr == n.done[i].nr)
				t->slots[slot].nr = 0;
	memcpy(&n, ioctl_answer(sizeof(n)), sizeof(n));
	take_grants(t, &n);
}

static void step_fail(struct step *s)
{
	static struct ckptfs_fail f;
	struct trainer *t = s->t;
	uint64_t seq;

	f = (struct ckptfs_fail){.session = get_session(s), .err = EIO, .text = "\n\x1b[2Jx"};
	f.seq = get8(s->in) % (t->last_seq + 2);
	if (get8(s->in) >= 240) {
		f.seq = get_wild(s->in);
		f.err = (int)get_wild(s->in);
		memset(f.text, get8(s->in), sizeof(f.text));
	}
	if (!t->open || s->how % 4)
		return;
	if (!on_control(s, false, CKPTFS_IOC_FAIL, &f) || f.session != t->id)
		return;
	for (seq = f.seq ? f.seq : 1; seq <= t->last_seq && seq < MAX_CAPTURES; seq++) {
		t->written[seq].failed = true;
		if (f.seq)
			break;
	}
}

static void step_tell(struct step *s)
{
	struct ckptfs_barrier b = {.session = get_session(s), .blocked_ns = get_wild(s->in)};
	struct ckptfs_stats st = {.session = b.session};

	if (!s->t->open)
		return;
	if (s->how % 2) {
		on_control(s, false, CKPTFS_IOC_BARRIER, &b);
		return;
	}
	if (!on_control(s, false, CKPTFS_IOC_STATS, &st))
		return;
	memcpy(&st, ioctl_answer(sizeof(st)), sizeof(st));
	REQUIRE(st.free_bytes <= st.arena_bytes && st.granted_bytes <= st.arena_bytes);
	REQUIRE(st.landed_bytes <= st.captured_bytes && (st.pending || !st.pending_bytes));
}

/* Any command, on any node, as long as the kernel would pass it on like that. */
static void step_raw(struct step *s)
{
	static const unsigned known[] = {
		CKPTFS_IOC_HELLO,   CKPTFS_IOC_REGISTER, CKPTFS_IOC_UNREGISTER,
		CKPTFS_IOC_WRITE,   CKPTFS_IOC_NEXT,	 CKPTFS_IOC_FAIL,
		CKPTFS_IOC_BARRIER, CKPTFS_IOC_STATS,	 CKPTFS_IOC_BYE};
	static char arg[16384];
	uint8_t what = get8(s->in);
	struct fuse_ioctl_in in = {.cmd = known[what % ARRAY_SIZE(known)]};
	bool control = what & 16;
	uint64_t node = control ? CONTROL_CTL_ID : w.files[s->file].node;

	if (control ? !s->t->open : !w.files[s->file].open)
		return;
	in.fh = control ? s->t->fh : w.files[s->file].fh;
	if (what & 32)
		in.cmd = (unsigned)get_wild(s->in);
	if (what & 64)
		in.flags = get8(s->in) % 8;
	in.in_size = what & 128 ? (uint32_t)get_wild(s->in) % sizeof(arg) : _IOC_SIZE(in.cmd);
	for (size_t at = 0; at < in.in_size; at += 8)
		arg[at] = (char)get8(s->in);
	/* NEXT would wait; HELLO would begin a session that nobody knows. */
	ask(FUSE_IOCTL, node, s->uid, true, &in, sizeof(in), arg, in.in_size);
}

#endif
