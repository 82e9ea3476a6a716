/* SPDX-License-Identifier: Apache-2.0 */
/* cli/main.c - the program `ron`: its verbs, from the table in base/verbs.h. */
#include <string.h>

#include "cli/base/cli.h"
#include "cli/base/verbs.h"
#include "ron/base/macros.h"

const struct cli_verb cli_verbs[] = {
#define V(path, fn, group, args, summary) {path, fn, CLI_GROUP_##group, args, summary, NULL},
#define G(path, group, summary, example) {path, NULL, CLI_GROUP_##group, "VERB", summary, example},
    CLI_VERBS(V, G)
#undef V
#undef G
};
const size_t cli_verb_count = RON_ARRAY_LEN(cli_verbs);

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--version") == 0) {
        return cli_print_version();
    }
    return cli_dispatch(argc, argv);
}
