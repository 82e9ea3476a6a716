/* SPDX-License-Identifier: Apache-2.0 */
/* cli/main.c - the program `ron`: its verbs, from the table in base/verbs.h. */
#include "cli/base/cli.h"
#include "cli/base/verbs.h"
#include "ron/base/macros.h"

int main(int argc, char **argv)
{
    static const struct cli_verb verbs[] = {
#define V(path, fn, group, args, summary) {path, fn, CLI_GROUP_##group, args, summary, NULL},
#define G(path, group, summary, example) {path, NULL, CLI_GROUP_##group, "VERB", summary, example},
        CLI_VERBS(V, G)
#undef V
#undef G
    };
    static const struct cli_program ron = {
        .name = "ron",
        .verbs = verbs,
        .count = RON_ARRAY_LEN(verbs),
        .examples = "  ron up                        start all services\n"
                    "  ron issue alice 500           in another terminal\n"
                    "  ron transfer alice bob 40\n"
                    "  ron help transfer\n",
    };

    return cli_main(&ron, argc, argv);
}
