/* SPDX-License-Identifier: MIT */
/*
 * What a daemon may answer to libckptfs: any greeting, any grants (places, lengths and numbers of
 * all kinds, of captures that there are and that there are not), and any error, while a trainer
 * registers, writes, waits and leaves. In the end the daemon is gone.
 *
 * Kept: nothing is written outside the arena (which has guards around it), nothing read outside a
 * tensor (AddressSanitizer sees it), only what was granted is reported, every call returns, and no
 * memory, thread or descriptor is left.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <signal.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"

static void *guarded_mmap(void *at, size_t len, int prot, int flags, int fd, off_t off);
static int guarded_munmap(void *at, size_t len);
#define mmap   guarded_mmap
#define munmap guarded_munmap
#include "client/session_open.c"
#undef mmap
#undef munmap

#define GUARD	   ((size_t)1 << 20)
#define SLOT	   4096u
#define SLOTS	   4u
#define TENSORS	   4
#define SEQS_KEPT  64
#define GRANTS_MAX 4096
#define MAX_STEPS  40

struct input {
	const uint8_t *at, *end;
};

static struct {
	char top[64];
	int listener, arena, data;
	pthread_t giver;
	/* of one input */
	pthread_mutex_t lock; /* all below; the trainer's part and the daemon's share the input */
	struct input in;
	struct ckptfs_capture captures[SEQS_KEPT]; /* as they were written, by number */
	uint64_t last_nr, granted[GRANTS_MAX];
	unsigned nr_granted;
	struct ckptfs_session *session;
	char *tensors[TENSORS]; /* each of as many bytes as it was registered with */
	size_t bytes[TENSORS];
} w;

/* --- the input --- */

static uint8_t get8_locked(void)
{
	return w.in.at < w.in.end ? *w.in.at++ : 0;
}

static uint64_t get_number_locked(uint64_t below)
{
	static const uint64_t odd[] = {
		0,	   1,	       SLOT - 1,  SLOT,	      SLOT + 1,	  SLOTS * SLOT,
		INT32_MAX, UINT32_MAX, INT64_MAX, UINT64_MAX, 1ull << 63, UINT64_MAX - SLOT + 1};
	uint8_t kind = get8_locked();

	if (kind >= 224)
		return odd[kind % (sizeof(odd) / sizeof(*odd))];
	return ((uint64_t)kind << 8 | get8_locked()) % below;
}

static uint8_t get8(void)
{
	uint8_t n;

	pthread_mutex_lock(&w.lock);
	n = get8_locked();
	pthread_mutex_unlock(&w.lock);
	return n;
}

static uint64_t get_number(uint64_t below)
{
	uint64_t n;

	pthread_mutex_lock(&w.lock);
	n = get_number_locked(below);
	pthread_mutex_unlock(&w.lock);
	return n;
}

/* --- guards --- */

static void *guarded_mmap(void *at, size_t len, int prot, int flags, int fd, off_t off)
{
	char *all = mmap(NULL, len + 2 * GUARD, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)at;
	REQUIRE(all != MAP_FAILED);
	return mmap(all + GUARD, len, prot, flags | MAP_FIXED, fd, off);
}

static int guarded_munmap(void *at, size_t len)
{
	return munmap((char *)at - GUARD, len + 2 * GUARD);
}

/* --- the daemon --- */

static int answer_hello_locked(struct ckptfs_hello *h)
{
	uint8_t how = get8_locked();

	h->session = 7;
	h->slot_bytes = SLOT;
	h->nr_slots = SLOTS;
	h->check = how % 3;
	strcpy(h->socket, "arena");
	if (how >= 240) {
		h->slot_bytes = (uint32_t)get_number_locked(UINT32_MAX);
		h->nr_slots = (uint32_t)get_number_locked(UINT32_MAX);
	} else if (how >= 232) {
		memset(h->socket, how, sizeof(h->socket));
	} else if (how >= 228) {
		h->check = (uint32_t)get_number_locked(UINT32_MAX);
	}
	return 0;
}

static bool was_granted_locked(uint64_t nr)
{
	for (unsigned i = 0; i < w.nr_granted; i++)
		if (w.granted[i] == nr)
			return true;
	return false;
}

static void grant_locked(struct ckptfs_grant *g)
{
	uint8_t how = get8_locked();
	const struct ckptfs_capture *c = &w.captures[how % 8];

	*g = (struct ckptfs_grant){.nr = w.last_nr + 1,
				   .seq = c->seq,
				   .src_off = c->src_off,
				   .arena_off = how / 8 % SLOTS * SLOT,
				   .len = c->len < SLOT ? (uint32_t)c->len : SLOT};
	if (how & 64)
		g->src_off += get_number_locked(c->len + 1);
	if (how & 32)
		g->len = (uint32_t)get_number_locked(2 * SLOT);
	if (how >= 224) {
		g->seq = get_number_locked(SEQS_KEPT);
		g->src_off = get_number_locked(4 * SLOT);
		g->arena_off = get_number_locked(SLOTS * SLOT);
		g->nr = get_number_locked(w.last_nr + 3);
		g->err = (uint32_t)get_number_locked(200);
	}
	if (g->nr > w.last_nr)
		w.last_nr = g->nr;
	if (w.nr_granted < GRANTS_MAX)
		w.granted[w.nr_granted++] = g->nr;
}

static int answer_next_locked(struct ckptfs_next *n)
{
	uint8_t how = get8_locked();

	REQUIRE(n->session == 7 && n->nr_done <= CKPTFS_GRANTS_MAX && !n->nr_grants);
	for (unsigned i = 0; i < n->nr_done && w.nr_granted < GRANTS_MAX; i++)
		REQUIRE(was_granted_locked(n->done[i].nr));
	n->nr_grants = how % 8;
	for (unsigned i = 0; i < n->nr_grants; i++)
		grant_locked(&n->grants[i]);
	if (how >= 250)
		n->nr_grants = (uint32_t)get_number_locked(UINT32_MAX);
	return 0;
}

static void note_writes_locked(const struct ckptfs_write *wr)
{
	REQUIRE(wr->session == 7 && wr->nr && wr->nr <= CKPTFS_WRITES_MAX);
	for (unsigned i = 0; i < wr->nr; i++)
		w.captures[wr->captures[i].seq % 8] = wr->captures[i];
}

static int answer_error_locked(void)
{
	static const int errors[] = {EINTR, EOPNOTSUPP, EAGAIN, EIO, ENOENT, EBADF, ENOSPC, EINVAL};
	uint8_t how = get8_locked();

	return how < 230 ? 0 : -errors[how % 8];
}

/* Once all is said, the daemon is gone. */
static int answer(int fd, unsigned long request, void *arg)
{
	int err;

	(void)fd;
	pthread_mutex_lock(&w.lock);
	err = w.in.at < w.in.end ? answer_error_locked() : -ENOTCONN;
	if (request == CKPTFS_IOC_WRITE && (!err || err == -EINTR))
		note_writes_locked(arg);
	if (!err && request == CKPTFS_IOC_HELLO)
		err = answer_hello_locked(arg);
	else if (!err && request == CKPTFS_IOC_NEXT)
		err = answer_next_locked(arg);
	pthread_mutex_unlock(&w.lock);
	return err;
}

static bool is_ckptfs(int fd)
{
	(void)fd;
	return true;
}

/* Gives the arena to whoever comes. */
static void *give(void *arg)
{
	char control[CMSG_SPACE(sizeof(int))] = {0}, byte = 0;
	struct iovec iov = {.iov_base = &byte, .iov_len = 1};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control,
			   .msg_controllen = sizeof(control)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &w.arena, sizeof(int));
	for (;;) {
		int to = accept4(w.listener, NULL, NULL, SOCK_CLOEXEC);

		if (to < 0)
			return arg;
		sendmsg(to, &m, MSG_NOSIGNAL);
		close(to);
	}
}

/* --- the trainer --- */

static void do_register(uint8_t how)
{
	struct ckptfs_tensor_info t = {.id = how % TENSORS + 1,
				       .name = "a tensor",
				       .kind = CKPTFS_TENSOR,
				       .memory = how & 64 ? CKPTFS_HOST_PINNED : CKPTFS_HOST,
				       .eager = how >= 240};
	unsigned i = how % TENSORS;

	if (!w.tensors[i]) {
		w.bytes[i] = get8() * 64u + get8();
		w.tensors[i] = malloc(w.bytes[i] ? w.bytes[i] : 1);
		REQUIRE(w.tensors[i]);
		memset(w.tensors[i], how, w.bytes[i]);
	}
	t.bytes = w.bytes[i];
	ckptfs_register(w.session, &t, 1);
}

static void do_write(uint8_t how)
{
	struct ckptfs_write_op ops[4];
	unsigned nr = how / 4 % 4 + 1;

	for (unsigned i = 0; i < nr; i++) {
		unsigned t = get8() % TENSORS;

		ops[i] = (struct ckptfs_write_op){.id = t + 1,
						  .file_off = get_number(8 * SLOT),
						  .len = w.bytes[t],
						  .addr = w.tensors[t]};
		if (how & 64) {
			ops[i].src_off = get_number(w.bytes[t] + 1);
			ops[i].len = get_number(w.bytes[t] + 1);
		}
		if (how & 128 && w.bytes[t] % 64 == 0 && w.bytes[t]) {
			ops[i].rows = w.bytes[t] / 64;
			ops[i].row_bytes = ops[i].pitch = 64;
		}
	}
	ckptfs_write(w.session, w.data, ops, nr);
}

static void do_step(void)
{
	uint8_t what = get8(), how = get8();
	struct ckptfs_session_stats stats;
	uint64_t id = how % TENSORS + 1;

	switch (what % 8) {
	case 0:
	case 1:
		do_register(how);
		break;
	case 2:
	case 3:
	case 4:
		do_write(how);
		break;
	case 5:
		ckptfs_barrier(w.session, NULL, 0, how & 1, how & 2 ? 1000 : 1000000);
		break;
	case 6:
		ckptfs_unregister(w.session, &id, 1);
		break;
	default:
		ckptfs_session_stats(w.session, &stats);
	}
}

/* --- the world --- */

static void clean_up(void)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/.ckptfs/arena", w.top);
	unlink(path);
	snprintf(path, sizeof(path), "%s/.ckptfs/ctl", w.top);
	unlink(path);
	snprintf(path, sizeof(path), "%s/.ckptfs", w.top);
	rmdir(path);
	rmdir(w.top);
}

static void set_up(void)
{
	static const struct ckpt_wire wire = {.ioctl = answer, .is_ckptfs = is_ckptfs};
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	struct rlimit limit = {4 << 20, 4 << 20};
	char path[128];

	strcpy(w.top, "/tmp/fuzz-daemon-XXXXXX");
	REQUIRE(mkdtemp(w.top));
	atexit(clean_up);
	snprintf(path, sizeof(path), "%s/.ckptfs", w.top);
	REQUIRE(!mkdir(path, 0700));
	snprintf(at.sun_path, sizeof(at.sun_path), "%s/.ckptfs/arena", w.top);
	strcat(path, "/ctl");
	REQUIRE(!close(open(path, O_CREAT | O_WRONLY, 0600)));
	w.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	REQUIRE(!bind(w.listener, (struct sockaddr *)&at, sizeof(at)) && !listen(w.listener, 8));
	w.arena = memfd_create("arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	REQUIRE(!ftruncate(w.arena, SLOTS * SLOT));
	REQUIRE(!fcntl(w.arena, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL));
	w.data = memfd_create("data", MFD_CLOEXEC);
	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &limit);
	pthread_mutex_init(&w.lock, NULL);
	REQUIRE(!pthread_create(&w.giver, NULL, give, NULL));
	ckpt_wire = &wire;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ckptfs_options o = CKPTFS_OPTIONS_DEFAULT;

	if (!w.listener)
		set_up();
	w.in = (struct input){data, data + size};
	memset(w.captures, 0, sizeof(w.captures));
	w.last_nr = w.nr_granted = 0;
	o.threads = get8() % 3;
	if (!ckptfs_open(w.top, &o, &w.session)) {
		for (unsigned i = 0; i < MAX_STEPS && w.in.at < w.in.end; i++)
			do_step();
		pthread_mutex_lock(&w.lock);
		w.in.at = w.in.end;
		pthread_mutex_unlock(&w.lock);
		ckptfs_close(w.session);
	}
	for (unsigned i = 0; i < TENSORS; i++) {
		free(w.tensors[i]);
		w.tensors[i] = NULL;
		w.bytes[i] = 0;
	}
	return 0;
}
