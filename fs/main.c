/* SPDX-License-Identifier: MIT */
/* The command: a table of verbs. */
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/ckptfs_abi.h"
#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/message.h"
#include "fs/cmd/cmd.h"

static const struct verb *const verbs[] = {
	&verb_mount, &verb_umount, &verb_drain,	 &verb_init, &verb_status,
	&verb_ls,    &verb_latest, &verb_verify, &verb_wait, &verb_commit,
	&verb_why,   &verb_top,	   &verb_doctor, &verb_fsck, &verb_version,
};

void complain(const char *text)
{
	fprintf(stderr, "ckptfs: %s\n", text);
}

static void print_usage(FILE *f, const struct verb *v)
{
	fprintf(f, "usage: ckptfs %s%s%s\n", v->name, *v->args ? " " : "", v->args);
}

int verb_help(const struct verb *v)
{
	print_usage(stdout, v);
	printf("\n%s.\n\n%s", v->summary, v->help);
	return EXIT_DONE;
}

int usage_error(const struct verb *v, const char *format, ...)
{
	va_list ap;

	fprintf(stderr, "ckptfs %s: ", v->name);
	va_start(ap, format);
	vfprintf(stderr, format, ap);
	va_end(ap);
	fputc('\n', stderr);
	print_usage(stderr, v);
	fprintf(stderr, "`ckptfs %s --help` tells more\n", v->name);
	return EXIT_USAGE;
}

bool whole_seconds(const char *text, int *s)
{
	char *end;
	long n = strtol(text, &end, 10);

	if (!*text || *end || n < 0 || n > 1000000)
		return false;
	*s = (int)n;
	return true;
}

#define PATIENCE_NS (2 * NSEC_PER_SEC)

struct progress_line progress_line_start(bool quiet)
{
	uint64_t now = clock_mono_ns();

	return (struct progress_line){.start_ns = now, .shown_ns = now, .quiet = quiet};
}

void progress_line_show(struct progress_line *l, const char *format, ...)
{
	uint64_t now = clock_mono_ns();
	va_list ap;

	if (l->quiet || now - l->start_ns < PATIENCE_NS || now - l->shown_ns < NSEC_PER_SEC)
		return;
	if (l->shown && isatty(2))
		fputs("\r\033[K", stderr);
	va_start(ap, format);
	vfprintf(stderr, format, ap);
	va_end(ap);
	if (!isatty(2))
		fputc('\n', stderr);
	l->shown_ns = now;
	l->shown = true;
}

void progress_line_end(struct progress_line *l)
{
	if (l->shown && isatty(2))
		fputc('\n', stderr);
}

bool find_mount(const char *path, struct mount_entry *m)
{
	char resolved[PATH_MAX], text[MESSAGE_MAX];

	if (!mountinfo_resolve(path, resolved) && mountinfo_find_ckptfs(resolved, m))
		return true;
	MESSAGE(text, NOT_A_MOUNT, path);
	complain(text);
	return false;
}

static int print_overview(FILE *f)
{
	size_t i;

	fprintf(f, "usage: ckptfs VERB [OPTIONS] [ARGUMENTS]\n"
		   "\n"
		   "A filesystem for the checkpoints of training jobs: it is mounted over a "
		   "directory of\n"
		   "a parallel filesystem, and what programs write to it are plain files there.\n"
		   "\n"
		   "  ckptfs mount /pfs/ckpt /ckpt     mount the directory /pfs/ckpt at /ckpt\n"
		   "  ckptfs status /ckpt              how it does\n"
		   "  ckptfs umount /ckpt              unmount it\n"
		   "\n"
		   "Verbs:\n");
	for (i = 0; i < ARRAY_SIZE(verbs); i++)
		fprintf(f, "  %-10s %s\n", verbs[i]->name, verbs[i]->summary);
	fprintf(f, "\n"
		   "`ckptfs VERB --help` tells more; so does the manual page ckptfs(1).\n"
		   "Exit status: 0 done, 1 the answer is no or it failed, 2 usage.\n");
	return EXIT_DONE;
}

/* A caller may have closed its standard descriptors; files opened later must not get their numbers. */
static void open_standard_fds(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

int main(int argc, char **argv)
{
	size_t i;

	open_standard_fds();
	if (argc < 2) {
		print_overview(stderr);
		return EXIT_USAGE;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help"))
		return print_overview(stdout);
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V"))
		argv[1] = "version";
	for (i = 0; i < ARRAY_SIZE(verbs); i++) {
		if (strcmp(verbs[i]->name, argv[1]))
			continue;
		return verbs[i]->run(verbs[i], argc - 1, argv + 1);
	}
	fprintf(stderr, "ckptfs: there is no verb '%s'; `ckptfs --help` lists them\n", argv[1]);
	return EXIT_USAGE;
}
