/* SPDX-License-Identifier: MIT */
/* The inodes of the filesystem in memory, and the descriptors that stand for them. */
#include "tests/backing/memory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "tests/backing/memory_inside.h"
#include "tests/backing/record_inside.h"
#include "tests/backing/util.h"

/* --- tokens: kept while there is a filesystem, as a new memfd costs more than all else --- */

enum { BUCKETS = 1024 };

static pthread_mutex_t tokens_lock = PTHREAD_MUTEX_INITIALIZER;
static struct mem_token *buckets[BUCKETS], *free_tokens;
static dev_t tokens_dev;
static unsigned nr_memories; /* tokens_lock, as all of the above */

/* A new description of the memfd @fd; -1 with errno. */
static int reopen(int fd, int flags)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, flags | O_CLOEXEC);
}

/* tokens_lock held. */
static struct mem_token *token_make(void)
{
	struct mem_token *t = must(calloc(1, sizeof(*t)));
	struct stat st;

	t->fd = memfd_create("ckptfs-memory", MFD_CLOEXEC);
	t->path_fd = t->fd < 0 ? -1 : reopen(t->fd, O_PATH);
	if (t->path_fd < 0 || fstat(t->fd, &st)) {
		perror("tests/backing: a descriptor that stands for an inode");
		abort();
	}
	t->number = st.st_ino;
	tokens_dev = st.st_dev;
	t->next = buckets[t->number % BUCKETS];
	buckets[t->number % BUCKETS] = t;
	return t;
}

static struct mem_token *token_get(struct memory *m, struct mem_node *n)
{
	struct mem_token *t;
	MUTEX_SCOPE(&tokens_lock);

	t = free_tokens;
	if (t)
		free_tokens = t->next_free;
	else
		t = token_make();
	t->memory = m;
	t->node = n;
	return t;
}

static void token_put(struct mem_token *t)
{
	MUTEX_SCOPE(&tokens_lock);
	t->memory = NULL;
	t->node = NULL;
	t->next_free = free_tokens;
	free_tokens = t;
}

static void begin_memory(void)
{
	MUTEX_SCOPE(&tokens_lock);
	nr_memories++;
}

static void end_memory(void)
{
	size_t i;

	MUTEX_SCOPE(&tokens_lock);
	if (--nr_memories)
		return;
	for (i = 0; i < BUCKETS; i++) {
		while (buckets[i]) {
			struct mem_token *t = buckets[i];

			buckets[i] = t->next;
			close(t->fd);
			close(t->path_fd);
			free(t);
		}
	}
	free_tokens = NULL;
}

/* NULL: @fd is no descriptor of @m. */
static struct mem_node *node_of_fd(struct memory *m, int fd)
{
	struct mem_token *t;
	struct stat st;

	if (fstat(fd, &st))
		return NULL;
	MUTEX_SCOPE(&tokens_lock);
	if (st.st_dev != tokens_dev)
		return NULL;
	for (t = buckets[st.st_ino % BUCKETS]; t; t = t->next)
		if (t->number == st.st_ino)
			return t->memory == m ? t->node : NULL;
	return NULL;
}

int mem_node_of(struct memory *m, int fd, struct mem_node **n)
{
	*n = node_of_fd(m, fd);
	if (!*n)
		return -EBADF;
	return (*n)->lost ? -ESTALE : 0;
}

int mem_node_open(struct memory *m, struct mem_node *n, int flags)
{
	const int kept = O_ACCMODE | O_PATH | O_APPEND | O_NONBLOCK | O_SYNC | O_DSYNC;
	int fd;

	if (!n->token)
		n->token = token_get(m, n);
	/*
	 * An O_PATH descriptor has no position, no lock and no mode of its own: a copy will do, and
	 * costs a tenth.
	 */
	if (flags & O_PATH)
		fd = fcntl(n->token->path_fd, F_DUPFD_CLOEXEC, 0);
	else
		fd = reopen(n->token->fd, flags & kept);
	return fd < 0 ? -errno : fd;
}

uint64_t memory_changes(struct memory *m)
{
	return m->changes;
}

size_t memory_descriptors(struct memory *m)
{
	DIR *d = must(opendir("/proc/self/fd"));
	struct dirent *entry;
	size_t nr = 0, i;

	MUTEX_SCOPE(&m->lock);
	while ((entry = readdir(d)))
		nr += *entry->d_name != '.' && node_of_fd(m, atoi(entry->d_name));
	closedir(d);
	for (i = 0; i < m->nr_nodes; i++)
		nr -= m->nodes[i] && m->nodes[i]->token ? 2 : 0;
	return nr;
}

/* --- inodes --- */

struct timespec mem_now(void)
{
	uint64_t ns = clock_wall_ns();

	return (struct timespec){.tv_sec = (time_t)(ns / NSEC_PER_SEC),
				 .tv_nsec = (long)(ns % NSEC_PER_SEC)};
}

void mem_touch(struct mem_node *n, bool modified)
{
	n->ctime = mem_now();
	if (modified)
		n->mtime = n->ctime;
}

struct mem_node *mem_node_make(struct memory *m, mode_t mode, ino_t ino)
{
	struct mem_node *n = must(calloc(1, sizeof(*n)));

	n->ino = ino ? ino : m->nr_nodes ? m->nr_nodes : 1;
	while (m->nr_nodes <= n->ino) {
		m->nodes = grow(m->nodes, &m->max_nodes, m->nr_nodes, sizeof(struct mem_node *));
		m->nodes[m->nr_nodes++] = NULL;
	}
	n->mode = mode;
	n->uid = (uid_t)setfsuid((uid_t)-1);
	n->gid = (gid_t)setfsgid((gid_t)-1);
	n->atime = n->mtime = n->ctime = n->btime = mem_now();
	m->nodes[n->ino] = n;
	return n;
}

static void node_free(struct memory *m, struct mem_node *n)
{
	size_t i;

	for (i = 0; i < n->nr_pages; i++) {
		m->used -= n->pages[i] != NULL;
		page_put(n->pages[i]);
	}
	for (i = 0; i < n->nr_entries; i++)
		free(n->entries[i].name);
	for (i = 0; i < n->nr_xattrs; i++) {
		free(n->xattrs[i].name);
		free(n->xattrs[i].value);
	}
	if (n->token)
		token_put(n->token);
	free(n->pages);
	free(n->entries);
	free(n->xattrs);
	free(n->target);
	free(n);
}

void mem_node_drop(struct memory *m, struct mem_node *n)
{
	if (n->links || n->token)
		return;
	m->nodes[n->ino] = NULL;
	node_free(m, n);
}

static void hand_on(struct mem_node *from, struct mem_node *to)
{
	MUTEX_SCOPE(&tokens_lock);
	to->token = from->token;
	to->token->node = to;
	from->token = NULL;
}

void mem_adopt(struct memory *m, struct mem_node **before, size_t nr)
{
	uint64_t used = m->used;
	size_t i;

	for (i = 0; i < nr; i++) {
		struct mem_node *n = i < m->nr_nodes ? m->nodes[i] : NULL;

		if (!before[i])
			continue;
		if (before[i]->token && !n) {
			n = mem_node_make(m, before[i]->mode, i);
			n->lost = true;
		}
		if (before[i]->token)
			hand_on(before[i], n);
		node_free(m, before[i]);
	}
	m->used = used;
	while (m->nr_nodes < nr) { /* no number is used again */
		m->nodes = grow(m->nodes, &m->max_nodes, m->nr_nodes, sizeof(struct mem_node *));
		m->nodes[m->nr_nodes++] = NULL;
	}
	free(before);
}

/* --- the filesystem --- */

static void make_top(struct memory *m)
{
	struct mem_node *top = mem_node_make(m, S_IFDIR | 0755, 0);

	top->links = 1;
	top->parent = top;
}

void mem_clear(struct memory *m)
{
	size_t i;

	for (i = 0; i < m->nr_nodes; i++)
		if (m->nodes[i])
			node_free(m, m->nodes[i]);
	m->nr_nodes = 0;
}

static void clear(struct memory *m)
{
	if (m->log) {
		record_stop(m->log);
		record_free(m->log);
		backing_close(&m->own);
		m->log = NULL;
	}
	mem_clear(m);
	m->room = 0;
}

struct memory *memory_create(void)
{
	struct memory *m = must(calloc(1, sizeof(*m)));

	begin_memory();
	pthread_mutex_init(&m->lock, NULL);
	make_top(m);
	return m;
}

void memory_reset(struct memory *m)
{
	clear(m);
	make_top(m);
}

void memory_destroy(struct memory *m)
{
	clear(m);
	end_memory();
	free(m->nodes);
	pthread_mutex_destroy(&m->lock);
	free(m);
}

void memory_open(struct memory *m, struct backing *b)
{
	static const enum feature absent[] = {FEATURE_ODIRECT, FEATURE_IO_URING,
					      FEATURE_PASSTHROUGH};
	static const enum feature present[] = {FEATURE_OPENAT2, FEATURE_BTIME, FEATURE_XATTR,
					       FEATURE_RENAME_FLAGS};
	size_t i;

	memset(b, 0, sizeof(*b));
	b->path = must(strdup("/memory"));
	b->proc_fd = -1;
	b->dev = MEM_DEV;
	b->ino = m->nodes[1]->ino;
	b->features = must(features_new());
	for (i = 0; i < ARRAY_SIZE(absent); i++)
		features_set(b->features, absent[i], false);
	for (i = 0; i < ARRAY_SIZE(present); i++)
		features_set(b->features, present[i], true);
	b->ops = m->log ? &record_ops : &memory_ops;
	b->ops_arg = m->log ? (void *)m->log : m;
	{
		MUTEX_SCOPE(&m->lock);
		b->root_fd = mem_node_open(m, m->nodes[1], O_RDONLY);
	}
	if (b->root_fd < 0) {
		fprintf(stderr, "tests/backing: no descriptor: %s\n", strerror(-b->root_fd));
		abort();
	}
}

void memory_set_room(struct memory *m, uint64_t bytes)
{
	MUTEX_SCOPE(&m->lock);
	m->room = bytes / PAGE_BYTES;
}
