/* SPDX-License-Identifier: MIT */
/*
 * ckptfs completion: prints a script by which a shell completes verbs, options and mount options.
 */
#include <stdio.h>
#include <string.h>

#include "engine/config/config.h"
#include "fs/cmd/cmd.h"

/* Prints the options of @v. @with_value: only those with a value, with "|" between. */
static void print_options(const struct verb *v, bool with_value)
{
	const struct option *o;
	bool first = true;

	for (o = v->longs; o->name; o++) {
		if (with_value && (!o->has_arg || !strcmp(o->name, "options")))
			continue;
		printf("%s--%s", first ? "" : with_value ? "|" : " ", o->name);
		first = false;
	}
}

static void print_verbs(void)
{
	const struct verb *v;
	size_t i;

	for (i = 0; (v = verb_at(i)); i++)
		printf("%s ", v->name);
	printf("help");
}

static void print_mount_options(void)
{
	enum key k;

	for (k = 0; k < NR_KEYS; k++)
		if (key_table[k].type != KEY_JSON)
			printf("%s%s ", key_table[k].name,
			       key_table[k].type == KEY_BOOL ? "" : "=");
	printf("config= ro noatime nonempty remount");
}

/* Prints the words of each verb, for `case VERB in`. */
static void print_cases(const char *indent)
{
	const struct verb *v;
	size_t i;

	for (i = 0; (v = verb_at(i)); i++) {
		printf("%s%s) options='", indent, v->name);
		print_options(v, false);
		printf("' valued='");
		print_options(v, true);
		printf("' ;;\n");
	}
	printf("%shelp) options='", indent);
	print_verbs();
	printf("' ;;\n");
}

static void print_bash(void)
{
	printf("# bash completion for ckptfs, made by `ckptfs completion bash`\n"
	       "_ckptfs()\n{\n"
	       "\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
	       "\tlocal options='' valued=''\n\n"
	       "\tCOMPREPLY=()\n"
	       "\tif [ \"$COMP_CWORD\" = 1 ]; then\n"
	       "\t\tmapfile -t COMPREPLY < <(compgen -W '--help --version ");
	print_verbs();
	printf("' -- \"$cur\")\n\t\treturn\n\tfi\n"
	       "\tcase ${COMP_WORDS[1]} in\n");
	print_cases("\t");
	printf("\tesac\n"
	       "\tcase $prev in\n"
	       "\t-o | --options)\n"
	       "\t\tlocal before=\n"
	       "\t\t[[ $cur != *,* ]] || before=${cur%%,*},\n"
	       "\t\tmapfile -t COMPREPLY < <(compgen -P \"$before\" -W '");
	print_mount_options();
	printf("' -- \"${cur##*,}\")\n"
	       "\t\tcompopt -o nospace 2>/dev/null\n"
	       "\t\treturn\n\t\t;;\n"
	       "\t--*) [[ \"|$valued|\" != *\"|$prev|\"* ]] || return ;;\n"
	       "\tesac\n"
	       "\tif [[ $cur == -* || ${COMP_WORDS[1]} == help ]]; then\n"
	       "\t\tmapfile -t COMPREPLY < <(compgen -W \"$options\" -- \"$cur\")\n"
	       "\telse\n"
	       "\t\tmapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
	       "\t\tcompopt -o filenames 2>/dev/null\n"
	       "\tfi\n}\n"
	       "complete -F _ckptfs ckptfs\n");
}

static void print_zsh(void)
{
	const struct verb *v;
	size_t i;

	printf("#compdef ckptfs\n"
	       "# zsh completion for ckptfs, made by `ckptfs completion zsh`\n"
	       "_ckptfs()\n{\n"
	       "\tlocal options='' valued=''\n"
	       "\tlocal -a verbs\n\n"
	       "\tverbs=(\n");
	for (i = 0; (v = verb_at(i)); i++)
		printf("\t\t'%s:%s'\n", v->name, v->summary);
	printf("\t\t'help:tell how to use a verb'\n\t)\n"
	       "\tif (( CURRENT == 2 )); then\n"
	       "\t\t_describe verb verbs\n\t\treturn\n\tfi\n"
	       "\tcase $words[2] in\n");
	print_cases("\t");
	printf("\tesac\n"
	       "\tif [[ $words[CURRENT-1] == (-o|--options) ]]; then\n"
	       "\t\tcompset -P '*,'\n"
	       "\t\tcompadd -S '' -- ");
	print_mount_options();
	printf("\n\telif [[ \"|$valued|\" == *\"|$words[CURRENT-1]|\"* ]]; then\n"
	       "\t\treturn 1\n"
	       "\telif [[ $PREFIX == -* || $words[2] == help ]]; then\n"
	       "\t\tcompadd -- ${=options}\n"
	       "\telse\n\t\t_files\n\tfi\n}\n"
	       "_ckptfs \"$@\"\n");
}

static const struct option longs[] = {{"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};

static int run_completion(const struct verb *v, int argc, char **argv)
{
	int c = getopt_long(argc, argv, "h", longs, NULL);

	if (c == 'h')
		return verb_help(v);
	if (c != -1)
		return option_error(v, argv);
	if (argc - optind == 1 && !strcmp(argv[optind], "bash"))
		print_bash();
	else if (argc - optind == 1 && !strcmp(argv[optind], "zsh"))
		print_zsh();
	else
		return usage_error(v, "give the shell: bash or zsh");
	return EXIT_DONE;
}

const struct verb verb_completion = {
	.name = "completion",
	.args = "bash|zsh",
	.summary = "print a script that completes verbs and options in a shell",
	.help = "`make install` puts it where the shell finds it. To have it in this shell only:\n"
		"\n"
		"  eval \"$(ckptfs completion bash)\"\n",
	.longs = longs,
	.run = run_completion,
};
