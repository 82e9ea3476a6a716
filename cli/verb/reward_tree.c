/* SPDX-License-Identifier: Apache-2.0 */
/* cli/verb/reward_tree.c - `ron reward tree`: trees that contracts pay from.
 *
 *     ron reward tree oz|rocketpool --run DIR|--csv FILE --out FILE
 *     ron reward tree check FILE
 *     ron reward tree proof FILE --address A
 *
 * Exit codes: 0 done or good, 1 failed or wrong, 2 used wrongly. */
#include <stdio.h>

#include "cli/base/cli.h"
#include "rewarder/offline/tree.h"
#include "ron/base/macros.h"

#define CLI_WORD(name_, value_, help_, text_) CLI_CHOICE(name_, value_, help_, text_, NULL)

enum { OUT_MAX = 1 << 20 }; /* some hundred leaves of one address with their proofs */

/* Prints what was said, or why not. */
static int told(const char *verb, enum ron_rc rc, const struct ron_err *err, struct ron_buf *out)
{
    if (rc != RON_OK) {
        fprintf(stderr, "ron %s: %s\n", verb, err->msg[0] != '\0' ? err->msg : ron_rc_doc(rc));
    } else if (fwrite(ron_buf_data(out), 1, ron_buf_len(out), stdout) != ron_buf_len(out) ||
               fflush(stdout) != 0) {
        fprintf(stderr, "ron %s: cannot write to standard output\n", verb);
        rc = RON_IO;
    }
    ron_buf_done(out);
    return rc == RON_OK ? CLI_OK : CLI_FAILED;
}

static int make(const char *verb, struct rwd_tool_tree *t)
{
    struct ron_err err = {0};
    struct ron_buf out;

    if ((t->run_dir == NULL) == (t->csv_path == NULL) || t->out_path == NULL) {
        fprintf(stderr, "ron %s: missing --out, or --run or --csv; see 'ron %s --help'\n", verb,
                verb);
        return CLI_USAGE;
    }
    ron_buf_init(&out, OUT_MAX);
    return told(verb, rwd_tool_tree_make(t, &out, &err), &err, &out);
}

int cli_reward_tree_oz(int argc, char **argv)
{
    struct rwd_tool_tree t = {.types = "address,uint256"};
    bool done = false;
    const struct cli_option options[] = {
        CLI_WORD("run", "DIR", "directory of a run whose payees are addresses", &t.run_dir),
        CLI_WORD("csv", "FILE", "CSV file, one line of values per leaf", &t.csv_path),
        CLI_WORD("types", "LIST", "types of the values (default: address,uint256)", &t.types),
        CLI_FLAG("header", "the CSV file has a header line", &t.csv_header),
        CLI_WORD("out", "FILE", "output file", &t.out_path),
    };
    int code = cli_parse("reward tree oz",
                         "Builds a tree for OpenZeppelin's merkle-tree package (standard-v1) and\n"
                         "prints its root.\n\nexample:\n"
                         "  ron reward tree oz --run runs/2026-w46 --out claims.json",
                         options, RON_ARRAY_LEN(options), argc, argv, &done);

    return code != CLI_OK || done ? code : make("reward tree oz", &t);
}

int cli_reward_tree_rocketpool(int argc, char **argv)
{
    static const char *const assets[] = {"rpl", "eth", NULL};
    struct rwd_tool_tree t = {.rocket_pool = true};
    const char *asset = "rpl";
    bool done = false;
    const struct cli_option options[] = {
        CLI_WORD("run", "DIR", "directory of a run whose payees are addresses", &t.run_dir),
        CLI_WORD("csv", "FILE", "CSV file of address,network,RPL,ETH in wei", &t.csv_path),
        CLI_FLAG("header", "the CSV file has a header line", &t.csv_header),
        CLI_NUMBER("network", "N", "network on which payees of a run claim", &t.network, 0,
                   UINT64_MAX),
        CLI_CHOICE("asset", "rpl|eth", "asset that a run pays (default: rpl)", &asset, assets),
        CLI_WORD("out", "FILE", "output file", &t.out_path),
    };
    int code =
        cli_parse("reward tree rocketpool",
                  "Builds a Rocket Pool rewards tree and prints its root.\n\n"
                  "example:\n  ron reward tree rocketpool --csv nodes.csv --out rewards.json",
                  options, RON_ARRAY_LEN(options), argc, argv, &done);

    t.as_eth = asset[0] == 'e';
    return code != CLI_OK || done ? code : make("reward tree rocketpool", &t);
}

/* Takes a leading FILE out of the arguments; NULL when there is none. */
static const char *leading_file(int *argc, char **argv)
{
    const char *file = NULL;

    if (*argc > 1 && argv[1][0] != '-') {
        file = argv[1];
        for (int i = 1; i + 1 < *argc; i++) {
            argv[i] = argv[i + 1];
        }
        (*argc)--;
    }
    return file;
}

int cli_reward_tree_check(int argc, char **argv)
{
    const char *file = leading_file(&argc, argv);
    struct ron_err err = {0};
    struct ron_buf out;
    bool done = false;
    int code =
        cli_parse("reward tree check",
                  "Recomputes every hash of the tree in FILE. Exit status 0 if all match.\n\n"
                  "example:\n  ron reward tree check claims.json",
                  NULL, 0, argc, argv, &done);

    if (code != CLI_OK || done) {
        return code;
    }
    if (file == NULL) {
        fprintf(stderr, "ron reward tree check: missing FILE\n");
        return CLI_USAGE;
    }
    ron_buf_init(&out, OUT_MAX);
    return told("reward tree check", rwd_tool_tree_check(file, &out, &err), &err, &out);
}

int cli_reward_tree_proof(int argc, char **argv)
{
    const char *file = leading_file(&argc, argv);
    const char *address = NULL;
    struct ron_err err = {0};
    struct ron_buf out;
    bool done = false;
    const struct cli_option options[] = {
        CLI_WORD("address", "A", "payee address: 0x and 40 hex digits", &address),
    };
    int code = cli_parse("reward tree proof",
                         "Verifies the tree in FILE, then prints one line of JSON with the proof\n"
                         "of each leaf of the address.\n\nexample:\n"
                         "  ron reward tree proof claims.json --address 0x8b0e...27b3",
                         options, RON_ARRAY_LEN(options), argc, argv, &done);

    if (code != CLI_OK || done) {
        return code;
    }
    if (file == NULL || address == NULL) {
        fprintf(stderr, "ron reward tree proof: missing FILE or --address\n");
        return CLI_USAGE;
    }
    ron_buf_init(&out, OUT_MAX);
    return told("reward tree proof", rwd_tool_tree_prove(file, address, &out, &err), &err, &out);
}
