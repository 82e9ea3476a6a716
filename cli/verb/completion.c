/* SPDX-License-Identifier: Apache-2.0 */
/* cli/verb/completion.c - `ron completion`: scripts that let a shell complete verbs and options,
 * and the section VERBS of the man page.
 *
 * Verbs come from the table of base/verbs.h and are written into the script. Options are asked for
 * when they are needed, from `ron VERB --help`, so they are always those of the program at hand;
 * the settings of services come the same way. */
#include <stdio.h>
#include <string.h>

#include "cli/base/cli.h"
#include "ron/base/macros.h"

/* Takes the options out of a help text, and the keys of a service, which are options too. */
#define OPTIONS                                                                                    \
    "sed -nE 's/^  (--[a-z0-9_.-]+).*/\\1/p; /^keys/,$s/^  ([a-z][a-z0-9_.]*) .*/--\\1/p'"

static const char *last_word(const char *path)
{
    const char *blank = strrchr(path, ' ');

    return blank == NULL ? path : blank + 1;
}

/* The inside of a string in single quotes. In bash and zsh nothing is special there, so a quote is
 * written outside of the string; fish knows two escapes. */
static void print_quoted(const char *text, bool fish_rules)
{
    for (; *text != '\0'; text++) {
        if (*text == '\'') {
            fputs(fish_rules ? "\\'" : "'\\''", stdout);
        } else if (*text == '\\' && fish_rules) {
            fputs("\\\\", stdout);
        } else {
            fputc(*text, stdout);
        }
    }
}

static bool has_below(const char *path)
{
    for (size_t i = 0; i < cli_program()->count; i++) {
        if (cli_verb_below(&cli_program()->verbs[i], path)) {
            return true;
        }
    }
    return false;
}

/* One line of a case statement for each path that has verbs below it. */
static void print_cases(void)
{
    for (size_t i = 0; i <= cli_program()->count; i++) {
        const char *path = i == 0 ? "" : cli_program()->verbs[i - 1].path;

        if (!has_below(path)) {
            continue;
        }
        printf("    '");
        print_quoted(path, false);
        printf("') echo '");
        for (size_t k = 0; k < cli_program()->count; k++) {
            if (cli_verb_below(&cli_program()->verbs[k], path)) {
                printf(" ");
                print_quoted(last_word(cli_program()->verbs[k].path), false);
            }
        }
        printf("' ;;\n");
    }
}

static void bash(void)
{
    printf("# bash completion for ron; load it with: source <(ron completion bash)\n"
           "_ron_below()\n{\n    case \"$1\" in\n");
    print_cases();
    printf("    esac\n}\n\n"
           "_ron()\n{\n"
           "    local word path=\"\" i below\n"
           "    COMPREPLY=()\n"
           "    word=${COMP_WORDS[COMP_CWORD]}\n"
           "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
           "        below=\" $(_ron_below \"$path\") \"\n"
           "        case \"$below\" in\n"
           "        *\" ${COMP_WORDS[i]} \"*) path=${path:+$path }${COMP_WORDS[i]} ;;\n"
           "        *) break ;;\n"
           "        esac\n"
           "    done\n"
           "    if [[ $word == -* && -n $path ]]; then\n"
           "        # The path is words of this table, so it may be split.\n"
           "        # shellcheck disable=SC2086,SC2207\n"
           "        COMPREPLY=($(compgen -W \"$(\"${COMP_WORDS[0]}\" $path --help 2>/dev/null |\n"
           "            " OPTIONS ")\" -- \"$word\"))\n"
           "        return\n"
           "    fi\n"
           "    # shellcheck disable=SC2207\n"
           "    COMPREPLY=($(compgen -W \"$(_ron_below \"$path\")\" -- \"$word\"))\n"
           "    [[ ${#COMPREPLY[@]} -gt 0 ]] || compopt -o default 2>/dev/null || true\n"
           "}\n"
           "complete -F _ron ron\n");
}

static void zsh(void)
{
    printf("#compdef ron\n# zsh completion for ron; save it as _ron in a folder of $fpath\n"
           "_ron_below()\n{\n    case \"$1\" in\n");
    print_cases();
    printf("    esac\n}\n\n"
           "_ron()\n{\n"
           "    local path_=\"\" i below\n"
           "    for ((i = 2; i < CURRENT; i++)); do\n"
           "        below=\" $(_ron_below \"$path_\") \"\n"
           "        [[ \"$below\" == *\" ${words[i]} \"* ]] || break\n"
           "        path_=${path_:+$path_ }${words[i]}\n"
           "    done\n"
           "    if [[ ${words[CURRENT]} == -* && -n $path_ ]]; then\n"
           "        compadd -- $(${words[1]} ${=path_} --help 2>/dev/null |\n"
           "            " OPTIONS ")\n"
           "        return\n"
           "    fi\n"
           "    below=$(_ron_below \"$path_\")\n"
           "    if [[ -n $below ]]; then\n"
           "        compadd -- ${=below}\n"
           "    else\n"
           "        _files\n"
           "    fi\n"
           "}\n"
           "_ron \"$@\"\n");
}

/* The condition of fish under which the words below a path are offered; inside double quotes. */
static void fish_condition(const char *path)
{
    if (path[0] == '\0') {
        printf("__fish_use_subcommand");
        return;
    }
    printf("string match -qr -- '^ron %s( -.*)?\\$' (commandline -opc | string join ' ')", path);
}

static void fish(void)
{
    printf("# fish completion for ron; load it with: ron completion fish | source\n"
           "complete -c ron -e\n");
    for (size_t i = 0; i < cli_program()->count; i++) {
        const struct cli_verb *v = &cli_program()->verbs[i];
        size_t len = (size_t)(last_word(v->path) - v->path);
        char parent[64];

        (void)snprintf(parent, sizeof parent, "%.*s", (int)(len > 0 ? len - 1 : 0), v->path);
        printf("complete -c ron -n \"");
        fish_condition(parent);
        printf("\" %s-a '", len == 0 ? "-f " : "");
        print_quoted(last_word(v->path), true);
        printf("' -d '");
        print_quoted(v->summary, true);
        printf("'\n");
    }
    printf("function __ron_options\n"
           "    set -l words (commandline -opc | string match -v -- '-*')\n"
           "    $words --help 2>/dev/null | " OPTIONS "\n"
           "end\n"
           "complete -c ron -n 'not __fish_use_subcommand' -f -a '(__ron_options)'\n");
}

/* ---- the man page ---------------------------------------------------------------------------- */

static void man_text(const char *text)
{
    for (; *text != '\0'; text++) {
        fputs(*text == '-' ? "\\-" : (char[]){*text, '\0'}, stdout);
    }
}

static void man_verb(const struct cli_verb *v)
{
    char help[] = "--help-man";
    char name[64];
    char *args[] = {name, help, NULL};

    printf(".SS \"ron ");
    man_text(v->path);
    if (v->args[0] != '\0' && v->run != NULL) {
        printf(" ");
        man_text(v->args);
    }
    printf("\"\n");
    (void)snprintf(name, sizeof name, "%s", last_word(v->path));
    if (v->group == CLI_GROUP_SERVICE) {
        printf("Runs until stopped. See\n.BR ron\\-");
        man_text(v->path);
        printf(" (1).\n");
    } else if (v->run != NULL) {
        (void)fflush(stdout);
        (void)v->run(2, args); /* prints its part and returns */
    }
}

static void man(void)
{
    for (int g = 0; g < CLI_GROUP_COUNT; g++) {
        printf(".PP\n.B ");
        man_text(cli_group_title((enum cli_group)g));
        printf("\n");
        for (size_t i = 0; i < cli_program()->count; i++) {
            const struct cli_verb *v = &cli_program()->verbs[i];

            if (v->group == (enum cli_group)g && v->run != NULL && v->run != cli_help &&
                v->run != cli_version) {
                man_verb(v);
            }
        }
    }
    printf(".SH \"EXIT STATUS\"\n");
#define X(name, number, text)                                                                      \
    printf(".TP\n.B %d\n", number);                                                                \
    man_text(text);                                                                                \
    printf("\n");
    CLI_EXIT_CODES(X)
#undef X
}

int cli_completion(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*print)(void);
    } kinds[] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}, {"man", man}};
    const char *kind = NULL;
    struct cli_words words = {.words = &kind, .min = 1, .max = 1};
    bool done = false;
    int code =
        cli_parse_words("completion",
                        "Prints a completion script for a shell; with `man`, the verbs section\n"
                        "of the man page.\n"
                        "\nexamples:\n  source <(ron completion bash)\n"
                        "  ron completion fish | source",
                        NULL, 0, &words, argc, argv, &done);

    if (code != CLI_OK || done) {
        return code;
    }
    for (size_t i = 0; i < RON_ARRAY_LEN(kinds); i++) {
        if (strcmp(kinds[i].name, kind) == 0) {
            kinds[i].print();
            return fflush(stdout) == 0 ? CLI_OK : CLI_FAILED;
        }
    }
    fprintf(stderr, "ron completion: invalid shell '%s': expected bash, zsh, fish or man\n", kind);
    return CLI_USAGE;
}
