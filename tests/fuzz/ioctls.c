/* SPDX-License-Identifier: MIT */
/*
 * Sequences of the ioctls of client/ckptfs_abi.h, as FUSE requests, against a whole engine over a directory: several
 * sessions, of two users, that register, write, fetch grants, report, fail and leave at any time and with any
 * numbers, beside plain calls on the same files. Where a call would wait for what this program itself is to do, it
 * was given up before it is served.
 *
 * Kept: each request is answered once; a grant lies in the arena and in its capture, and its place is nobody else's
 * until it is reported or void; a byte of a file is 0 or what was captured to or written at that place; when all is
 * closed, no session, slot, promise, generation, file or descriptor is left, and the cache is whole.
 */
#include <ftw.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "tests/fuzz/fuzz.h"

static ssize_t take_reply(int fd, const struct iovec *iov, int count);
#define writev take_reply
#include "fs/requests.c"
#include "fs/requests_current.c"
#undef writev

#define slot lent_slot /* fs/ has another */
#include "engine/capture/session.h"
#undef slot
#include "engine/unit/internal.h"
#include "fs/control_dir.h"

#define SESSIONS     3
#define FILES	     3
#define MAX_STEPS    64
#define MAX_CAPTURES (4 * MAX_STEPS + 1)
#define MAX_SLOTS    64
#define CHUNK	     (64u << 10)
#define FILE_MAX     (4u << 20)
#define IDS	     6
#define NEAR	     (6 * CHUNK)	/* most offsets and lengths are below this */
#define PATIENCE_NS  (8 * NSEC_PER_SEC) /* less than a session waits for its process */

struct input {
	const uint8_t *at, *end;
};

struct written {
	uint64_t file_off, src_off, len;
	bool failed;
};

struct trainer {
	bool open, begun; /* the control file; HELLO was answered by a session */
	uint64_t fh, id;
	uint32_t uid;
	char *arena;
	size_t arena_bytes;
	unsigned nr_slots;
	uint64_t last_seq, last_grant;
	struct written written
		[MAX_CAPTURES]; /* by number, from 1 on; what does not fit is not looked at */
	struct {
		uint64_t nr, seq; /* of the grant that has the slot; 0: none */
	} slots[MAX_SLOTS];
};

static struct {
	char top[PATH_MAX]; /* holds "root", the backing, and "control" */
	struct engine engine;
	struct fs fs;
	int lowest_fd; /* what open returns when nothing is left open */
	/* of one input */
	struct trainer trainers[SESSIONS];
	struct {
		bool open, closed;
		uint64_t node, lookups, fh;
	} files[FILES];
	/* of one request */
	pthread_t asking;
	uint64_t unique;
	unsigned replies;
	int error;
	size_t len;
	char body[sizeof(struct fuse_ioctl_out) + 16384];
} w;

static const char *const file_names[FILES] = {"x.pt", "y.pt", "notes.txt"};

/* --- the input --- */

static uint8_t get8(struct input *in)
{
	return in->at < in->end ? *in->at++ : 0;
}

static uint64_t get_wild(struct input *in)
{
	static const uint64_t odd[] = {0,
				       1,
				       CHUNK - 1,
				       CHUNK,
				       CHUNK + 1,
				       INT32_MAX,
				       UINT32_MAX,
				       INT64_MAX,
				       INT64_MAX - CHUNK,
				       UINT64_MAX,
				       1ull << 62,
				       1ull << 63,
				       UINT64_MAX - CHUNK + 1};
	uint8_t kind = get8(in);
	uint64_t n = 0;

	if (kind < 128)
		return odd[kind % ARRAY_SIZE(odd)];
	for (kind = kind % 8 + 1; kind; kind--)
		n = n << 8 | get8(in);
	return n;
}

/* Mostly below @below. */
static uint64_t get_below(struct input *in, uint64_t below)
{
	uint8_t kind = get8(in);
	uint64_t n;

	if (kind >= 240)
		return get_wild(in);
	n = (uint64_t)kind << 16 | (uint64_t)get8(in) << 8 | get8(in);
	return kind & 1 ? n % below : n % below / 4096 * 4096;
}

/* --- what is in files --- */

static char byte_at(uint64_t off)
{
	return (char)(off * 0x9E3779B97F4A7C15ull >> 56 | 1);
}

static void fill(char *to, uint64_t off, size_t len)
{
	size_t i;

	for (i = 0; i < len; i++)
		to[i] = byte_at(off + i);
}

/* --- one request --- */

/* Also what other threads tell the kernel, which is nothing that was asked for. */
static ssize_t take_reply(int fd, const struct iovec *iov, int count)
{
	const struct fuse_out_header *out = iov[0].iov_base;
	size_t len = 0, at = 0;
	int i;

	(void)fd;
	for (i = 0; i < count; i++)
		len += iov[i].iov_len;
	REQUIRE(iov[0].iov_len == sizeof(*out) && out->len == len);
	if (!out->unique)
		return (ssize_t)len;
	REQUIRE(pthread_equal(w.asking, pthread_self()) && out->unique == w.unique);
	REQUIRE(out->error <= 0 && out->error > -1000);
	REQUIRE(!out->error || len == sizeof(*out));
	w.replies++;
	w.error = out->error;
	w.len = len - sizeof(*out);
	for (i = 1; i < count && at < sizeof(w.body); i++) {
		size_t n = sizeof(w.body) - at;

		n = iov[i].iov_len < n ? iov[i].iov_len : n;
		memcpy(w.body + at, iov[i].iov_base, n);
		at += n;
	}
	return (ssize_t)len;
}

/* True when it succeeded and was answered. The body follows @head. */
static bool ask(uint32_t opcode, uint64_t node, uint32_t uid, bool given_up, const void *head,
		size_t head_len, const void *body, size_t len)
{
	struct requests *rs = w.fs.requests;
	struct request *r = take_buffer_locked(rs);
	struct fuse_in_header *in;

	REQUIRE(r);
	in = (void *)r->mem;
	*in = (struct fuse_in_header){.len = (uint32_t)(sizeof(*in) + head_len + len),
				      .opcode = opcode,
				      .unique = ++w.unique * 2,
				      .nodeid = node,
				      .uid = uid,
				      .gid = uid};
	w.unique = in->unique;
	w.asking = pthread_self();
	memcpy(in + 1, head, head_len);
	if (len)
		memcpy((char *)(in + 1) + head_len, body, len);
	note_header(r, in->len);
	w.replies = 0;
	w.error = 0;
	rs->in_flight++;
	activate_locked(rs, r);
	if (given_up) {
		wait_interrupt(&r->call);
		r->abandoned = true;
		atomic_store(&r->answered, true);
	}
	serve(rs, r);
	creds_restore();
	REQUIRE(!request_current && list_empty(&rs->active) && !rs->in_flight);
	open_extra.set = false;
	REQUIRE(w.replies == (opcode == FUSE_FORGET || given_up ? 0 : 1));
	return w.replies && !w.error;
}

static bool ask_plainly(uint32_t opcode, uint64_t node, const void *head, size_t len)
{
	return ask(opcode, node, 0, false, head, len, NULL, 0);
}

/* Would a call that wants these bytes, of whichever file, wait for a capture? */
static bool is_promised_at(uint64_t off, uint64_t len)
{
	struct contents *all = w.engine.contents;
	LOCK_SCOPE(&w.engine.cache->lock);

	for (size_t i = 0; i < all->nr_buckets; i++)
		for (struct content *ct = all->hash[i]; ct; ct = ct->next_in_hash) {
			const struct list *l;

			list_for_each (l, &ct->promises) {
				const struct promise *p = container_of(l, struct promise, link);

				if (off < p->off + p->len &&
				    (len > UINT64_MAX - off || p->off < off + len))
					return true;
			}
		}
	return false;
}

static bool send_ioctl(uint64_t node, uint64_t fh, uint32_t uid, bool given_up, unsigned cmd,
		       const void *arg)
{
	struct fuse_ioctl_in in = {
		.fh = fh, .cmd = cmd, .in_size = _IOC_SIZE(cmd), .out_size = _IOC_SIZE(cmd)};

	return ask(FUSE_IOCTL, node, uid, given_up, &in, sizeof(in), arg, in.in_size);
}

static const void *ioctl_answer(size_t size)
{
	REQUIRE(w.len == sizeof(struct fuse_ioctl_out) + size);
	return w.body + sizeof(struct fuse_ioctl_out);
}

/* --- sessions --- */

struct step {
	struct input *in;
	uint8_t how;
	struct trainer *t;
	unsigned file;
	uint32_t uid;
	bool given_up;
};

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

/* --- plain calls --- */

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

/* --- the world --- */

static int remove_all(const char *path, const struct stat *st, int type, struct FTW *where)
{
	(void)st;
	(void)type;
	(void)where;
	remove(path);
	return 0;
}

static void clean_up(void)
{
	nftw(w.top, remove_all, 16, FTW_DEPTH | FTW_PHYS);
}

static void make_top(void)
{
	const char *tmp = getenv("TMPDIR");
	char path[PATH_MAX + 16];

	/* Nothing of it is to be kept: memory is faster. */
	if (!access("/dev/shm", W_OK))
		tmp = "/dev/shm";
	snprintf(w.top, sizeof(w.top), "%s/fuzz-ioctls-XXXXXX", tmp ? tmp : "/tmp");
	REQUIRE(mkdtemp(w.top));
	atexit(clean_up);
	REQUIRE(!chmod(w.top, 0755));
	snprintf(path, sizeof(path), "%s/root", w.top);
	REQUIRE(!mkdir(path, 0777) && !chmod(path, 0777));
	snprintf(path, sizeof(path), "%s/control", w.top);
	REQUIRE(!mkdir(path, 0777));
}

static void start_engine(void)
{
	char path[PATH_MAX + 16];
	struct config config;
	struct stat st;
	struct error e;

	snprintf(path, sizeof(path), "%s/root", w.top);
	config_init(&config);
	REQUIRE(!config_apply_options(&config,
				      "log_level=error,pin_host_cache=false,chunk_size=64K,"
				      "host_cache_size=1M,io_retry_s=1,stall_timeout_s=1",
				      &e));
	REQUIRE(!engine_open(&w.engine, &config, path, &e));
	REQUIRE(!engine_start(&w.engine, "n1", request_decide, &e));
	w.fs = (struct fs){.engine = &w.engine, .mountpoint = "/mnt", .label = "n1"};
	snprintf(path, sizeof(path), "%s/control", w.top);
	REQUIRE(!stat(path, &st));
	captures_mounted(w.engine.captures, path, st.st_dev);
}

static int lowest_free_fd(void)
{
	int fd = dup(w.fs.requests->fd);

	REQUIRE(fd >= 0);
	close(fd);
	return fd;
}

static void set_up(void)
{
	static struct fuse_lowlevel_ops ops;
	struct fuse_init_in in = {.major = 7, .minor = 36, .max_readahead = 1 << 20, .flags = ~0u};
	char *argv[] = {"fuzz", NULL};
	struct fuse_args args = FUSE_ARGS_INIT(1, argv);
	struct rlimit limit = {FILE_MAX, FILE_MAX};
	int fd;

	make_top();
	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &limit);
	start_engine();
	w.fs.requests = requests_create(&w.fs);
	ops_name(&ops);
	ops_attr(&ops);
	ops_file(&ops);
	ops_ioctl(&ops);
	w.fs.session = fuse_session_new(&args, &ops, sizeof(ops), &w.fs);
	REQUIRE(w.fs.requests && w.fs.session);
	fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	REQUIRE(!fuse_session_custom_io(w.fs.session, &requests_io, fd));
	w.fs.requests->se = w.fs.session;
	w.fs.requests->fd = fd;
	fuse_opt_free_args(&args);
	w.fs.tree = tree_create(&w.engine, 16);
	REQUIRE(w.fs.tree && ask_plainly(FUSE_INIT, 0, &in, sizeof(in)));
	tree_destroy(w.fs.tree);
	w.lowest_fd = lowest_free_fd();
}

/* What threads of the engine end soon. */
#define AWAIT(condition) \
	do { \
		uint64_t until_ = clock_mono_ns() + PATIENCE_NS; \
		while (!(condition)) { \
			REQUIRE(clock_mono_ns() < until_ && "in vain: " #condition); \
			usleep(20); \
		} \
	} while (0)

static bool sessions_are_gone(void)
{
	LOCK_SCOPE(&w.engine.captures->lock);
	return !w.engine.captures->nr;
}

static bool generations_are_gone(void)
{
	struct units *us = w.engine.units;
	LOCK_SCOPE(&us->lock);

	return list_empty(&us->live.all) && list_empty(&us->litter) && list_empty(&us->trash);
}

static bool cache_is_whole(void)
{
	struct cache *c = w.engine.cache;
	LOCK_SCOPE(&c->lock);

	return !c->nr_lent && list_empty(&c->waiting) && !c->nr_flying &&
	       c->nr_free + c->nr_clean + c->nr_dirty == c->nr_chunks;
}

static unsigned nr_entries(void)
{
	char path[PATH_MAX + 16];
	struct dirent *entry;
	unsigned nr = 0;
	DIR *d;

	snprintf(path, sizeof(path), "%s/root", w.top);
	d = opendir(path);
	REQUIRE(d);
	while ((entry = readdir(d)))
		nr++;
	closedir(d);
	return nr;
}

/* Of the engine's; it has no pipes, but a sanitizer may. */
static unsigned nr_open(bool show)
{
	char path[64], target[256];
	unsigned nr = 0;

	for (int fd = w.lowest_fd; fd < w.lowest_fd + 32; fd++) {
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		n = readlink(path, target, sizeof(target) - 1);
		if (n <= 0 || !strncmp(target, "pipe:", 5))
			continue;
		nr++;
		if (show)
			fprintf(stderr, "%d %.*s\n", fd, (int)n, target);
	}
	return nr;
}

/* Those of contents go with the last chunk. */
static bool contents_are_gone(void)
{
	contents_sweep(w.engine.contents);
	return !w.engine.contents->nr;
}

static void await_descriptors(void)
{
	uint64_t until = clock_mono_ns() + PATIENCE_NS;

	while (lowest_free_fd() > w.lowest_fd && nr_open(false)) {
		if (clock_mono_ns() > until) {
			nr_open(true);
			REQUIRE(!"no descriptor is left");
		}
		usleep(20);
	}
}

static void tear_down(void)
{
	const struct session_counts *past = &w.engine.captures->past;

	for (unsigned i = 0; i < SESSIONS; i++)
		close_control(&w.trainers[i]);
	AWAIT(sessions_are_gone());
	REQUIRE(!past->stats.pending && !past->stats.pending_bytes);
	REQUIRE(!is_promised_at(0, UINT64_MAX));
	for (unsigned i = 0; i < FILES; i++) {
		unlink_file(i);
		forget_file(i);
		w.files[i].closed = false;
	}
	AWAIT(generations_are_gone());
	AWAIT(cache_is_whole());
	REQUIRE(w.engine.metrics.open_handles == 0 && w.engine.metrics.nodes == 1);
	tree_destroy(w.fs.tree);
	AWAIT(contents_are_gone());
	await_descriptors();
	REQUIRE(nr_entries() == 3); /* . .. .ckptfs */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const steps[])(struct step *) = {
		step_hello, step_register, step_register,   step_write,
		step_write, step_write,	   step_next,	    step_next,
		step_next,  step_fail,	   step_tell,	    step_plain,
		step_plain, step_raw,	   step_unregister, step_close_control};
	struct input in = {data, data + size};
	struct step s = {.in = &in};

	if (!w.fs.session)
		set_up();
	w.fs.tree = tree_create(&w.engine, 16);
	REQUIRE(w.fs.tree);
	units_set_namer(w.engine.units, tree_path_of, w.fs.tree);
	for (unsigned i = 0; i < MAX_STEPS && in.at < in.end; i++) {
		uint8_t what = get8(&in), who = get8(&in);

		s.how = get8(&in);
		s.t = &w.trainers[who % 16 < 10 ? 0 : who % SESSIONS];
		s.file = who >> 4 & 3 ? 0 : (who >> 6) % FILES;
		s.uid = s.t->begun || s.t->open ? s.t->uid : who % 5 == 4 ? 1000 : 0;
		if (what >= 240)
			s.uid ^= 1000;
		s.given_up = (what & 0xf0) == 0xe0;
		if (what == 255)
			step_bye(&s);
		else
			steps[what % 16](&s);
	}
	tear_down();
	return 0;
}
