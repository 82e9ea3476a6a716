/* SPDX-License-Identifier: Apache-2.0 */
/* cli/base/verbs.h - every verb of the program, in one table.
 *
 * Dispatch, `ron help`, the lists of a group, the words of shell completion and the section VERBS
 * of the man page are all made from these rows; a verb that is not here does not exist.
 *
 *     V("path", function, GROUP, "arguments", "imperative summary without a full stop")
 *     G("path", GROUP, "what its verbs are about", "example")   a word that only has verbs below
 *
 * The path is the words after `ron`, joined by a blank. A function is given its last word as
 * argv[0]. A row of the group SERVICE runs until it is stopped and has a man page of its own,
 * ron-PATH(1). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* X(NAME, "title in the list of verbs") */
#define CLI_GROUPS(X)                                                                              \
    X(SYSTEM, "instance")                                                                          \
    X(MONEY, "money")                                                                              \
    X(PROOF, "proofs")                                                                             \
    X(REWARD, "rewards")                                                                           \
    X(BRIDGE, "webhooks and mailbox")                                                              \
    X(CONTENT, "maps and files")                                                                   \
    X(TOKEN, "capabilities")                                                                       \
    X(SERVICE, "single services")                                                                  \
    X(OFFLINE, "offline tools")                                                                    \
    X(OTHER, "other")

#define CLI_VERBS(V, G)                                                                            \
    V("up", cli_up, SYSTEM, "", "start all services and supervise them")                           \
    V("down", cli_down, SYSTEM, "", "stop all services")                                           \
    V("status", cli_status, SYSTEM, "", "show running services and their readiness")               \
    V("topology", cli_topology, SYSTEM, "[SERVICE]", "show queues and tasks of running services")  \
    V("logs", cli_logs, SYSTEM, "", "print the merged log of all services")                        \
    V("doctor", cli_doctor, SYSTEM, "", "check an instance and suggest fixes")                     \
    V("demo", cli_demo, SYSTEM, "", "generate sample traffic")                                     \
    V("bench", cli_bench, SYSTEM, "", "measure transfers per second against the running instance") \
    V("console link", cli_console_link, SYSTEM, "", "create a one-time link to the console")       \
    V("issue", cli_issue, MONEY, "TO AMOUNT", "create new units on an account")                    \
    V("transfer", cli_transfer, MONEY, "FROM TO AMOUNT", "move units from one account to another") \
    V("burn", cli_burn, MONEY, "FROM AMOUNT", "destroy units of an account")                       \
    V("hold", cli_hold, MONEY, "FROM AMOUNT", "reserve units of an account")                       \
    V("capture", cli_capture, MONEY, "HOLD FROM TO AMOUNT", "pay from a hold")                     \
    V("release", cli_release, MONEY, "HOLD FROM AMOUNT", "release units of a hold")                \
    V("balance", cli_balance, MONEY, "ACCOUNT", "print the balance of an account")                 \
    V("history", cli_history, MONEY, "ACCOUNT", "list entries of an account, newest first")        \
    V("tx", cli_tx, MONEY, "TXID", "print the wallet receipt of an operation")                     \
    V("root", cli_root, PROOF, "", "print the last entry and the tree root of the ledger")         \
    V("receipt", cli_receipt, PROOF, "TXID|SEQ", "print an offline proof for an entry")            \
    V("verify", cli_verify, PROOF, "FILE", "verify a receipt offline")                             \
    V("audit", cli_audit, PROOF, "[DIR]", "recompute a journal with the independent auditor")      \
    V("export", cli_export, PROOF, "", "export the journal of the running ledger as text")         \
    V("import", cli_import, PROOF, "FILE", "import an export into a new data directory")           \
    G("reward", REWARD, "compute epoch payouts from files, verify published runs, check proofs",   \
      "ron reward submit 2026-w46 --snapshot usage.ndjson --policy policy.json")                   \
    V("reward submit", cli_reward_submit, REWARD, "EPOCH",                                         \
      "compute and settle an epoch with the running rewarder")                                     \
    V("reward list", cli_reward_list, REWARD, "", "list the epochs of the running rewarder")       \
    V("reward show", cli_reward_show, REWARD, "EPOCH", "show the progress of an epoch")            \
    V("reward payouts", cli_reward_payouts, REWARD, "EPOCH", "list the payouts of an epoch")       \
    V("reward emit", cli_reward_emit, REWARD, "EPOCH", "settle an epoch now")                      \
    V("reward compute", cli_reward_compute, REWARD, "",                                            \
      "compute the payouts of an epoch from files")                                                \
    V("reward verify", cli_reward_verify, REWARD, "", "recompute a published run and compare")     \
    V("reward proof", cli_reward_proof, REWARD, "", "write the payout proof of one payee")         \
    V("reward check-proof", cli_reward_check_proof, REWARD, "FILE",                                \
      "verify a payout proof offline")                                                             \
    G("reward key", REWARD, "create and show keys that sign runs and policies",                    \
      "ron reward key new reward.key --key-id rewarder-2026")                                      \
    V("reward key new", cli_reward_key_new, REWARD, "FILE", "create a key file")                   \
    V("reward key show", cli_reward_key_show, REWARD, "FILE",                                      \
      "print the public key of a key file")                                                        \
    G("reward policy", REWARD, "sign and show policies",                                           \
      "ron reward policy sign --key gov.key policy.json > signed.json")                            \
    V("reward policy sign", cli_reward_policy_sign, REWARD, "FILE", "sign a policy")               \
    V("reward policy show", cli_reward_policy_show, REWARD, "FILE",                                \
      "print hash and members of a policy")                                                        \
    V("reward snapshot", cli_reward_snapshot, REWARD, "FILE",                                      \
      "write the canonical form of a snapshot")                                                    \
    G("reward tree", REWARD, "build, verify and prove payout trees for contracts",                 \
      "ron reward tree check tree.json")                                                           \
    V("reward tree oz", cli_reward_tree_oz, REWARD, "",                                            \
      "build a tree for OpenZeppelin's merkle-tree (standard-v1)")                                 \
    V("reward tree rocketpool", cli_reward_tree_rocketpool, REWARD, "",                            \
      "build a Rocket Pool rewards file")                                                          \
    V("reward tree check", cli_reward_tree_check, REWARD, "FILE",                                  \
      "recompute every hash of a tree")                                                            \
    V("reward tree proof", cli_reward_tree_proof, REWARD, "FILE",                                  \
      "print the proofs of one address")                                                           \
    G("webhook", BRIDGE, "send signed sample webhooks", "ron webhook send demo_github")            \
    V("webhook send", cli_webhook_send, BRIDGE, "PROVIDER",                                        \
      "send a sample event, signed as by its provider")                                            \
    G("mailbox", BRIDGE, "durable message queue", "ron mailbox recv builds --ack")                 \
    V("mailbox send", cli_mailbox_send, BRIDGE, "TOPIC [TEXT]", "send a message to a topic")       \
    V("mailbox recv", cli_mailbox_recv, BRIDGE, "TOPIC", "receive messages under a lease")         \
    V("mailbox ack", cli_mailbox_ack, BRIDGE, "TOPIC RECEIPT...", "acknowledge received messages") \
    V("mailbox nack", cli_mailbox_nack, BRIDGE, "TOPIC RECEIPT...",                                \
      "return received messages to the queue")                                                     \
    V("mailbox dead", cli_mailbox_dead, BRIDGE, "TOPIC", "list, replay or purge dead letters")     \
    V("mailbox list", cli_mailbox_list, BRIDGE, "[TOPIC]", "list topics and their message counts") \
    V("edge packs", cli_edge_packs, CONTENT, "", "list the packs of the running edge")             \
    V("edge purge", cli_edge_purge, CONTENT, "PATH|ID",                                            \
      "remove cached responses from the running edge")                                             \
    V("edge verify", cli_edge_verify, CONTENT, "FILE...", "verify whole packs")                    \
    V("edge tile", cli_edge_tile, CONTENT, "FILE Z/X/Y", "extract a tile from a pack")             \
    V("edge sample", cli_edge_sample, CONTENT, "FILE", "write the sample pack")                    \
    G("cap", TOKEN, "create keys; mint, attenuate and show capability tokens",                     \
      "ron cap show --in ron-data/operator.token")                                                 \
    G("cap key", TOKEN, "create, list and retire root keys", "ron cap key list")                   \
    V("cap key new", cli_cap_key_new, TOKEN, "", "add a key; new tokens use it")                   \
    V("cap key list", cli_cap_key_list, TOKEN, "", "list the keys")                                \
    V("cap key retire", cli_cap_key_retire, TOKEN, "", "remove a key and invalidate its tokens")   \
    V("cap mint", cli_cap_mint, TOKEN, "", "mint a token")                                         \
    V("cap attenuate", cli_cap_attenuate, TOKEN, "", "attenuate a token")                          \
    V("cap show", cli_cap_show, TOKEN, "", "show the caveats of a token")                          \
    V("ledger", cli_ledger, SERVICE, "", "run the ledger: entries, proofs, receipts")              \
    V("wallet", cli_wallet, SERVICE, "",                                                           \
      "run the wallet: issue, transfer, burn and hold over HTTP")                                  \
    V("rewarder", cli_rewarder, SERVICE, "",                                                       \
      "run the rewarder: epoch payouts, settled exactly once")                                     \
    V("edge", cli_edge, SERVICE, "", "run the edge: map packs and files for browsers")             \
    V("interop", cli_interop, SERVICE, "",                                                         \
      "run the bridge: webhooks, mailbox, objects by content id")                                  \
    V("console", cli_console, SERVICE, "", "run the web console")                                  \
    V("ledger verify", cli_ledger_verify, OFFLINE, "",                                             \
      "verify a whole journal without changing it")                                                \
    V("ledger rebuild", cli_ledger_rebuild, OFFLINE, "",                                           \
      "rebuild index, hashes and images from the log")                                             \
    V("ledger export", cli_ledger_export, OFFLINE, "", "write a journal to standard output")       \
    V("ledger import", cli_ledger_import, OFFLINE, "",                                             \
      "import an NDJSON export into an empty ledger")                                              \
    V("interop verify", cli_interop_verify, OFFLINE, "FILE",                                       \
      "verify an audit trail of the bridge")                                                       \
    V("completion", cli_completion, OTHER, "bash|zsh|fish|man", "print a shell completion script") \
    V("version", cli_version, OTHER, "", "print version and build")                                \
    V("help", cli_help, OTHER, "[VERB...]", "list the verbs, or explain one")

enum cli_group {
#define X(name, title) CLI_GROUP_##name,
    CLI_GROUPS(X)
#undef X
        CLI_GROUP_COUNT
};

struct cli_verb {
    const char *path;
    int (*run)(int argc, char **argv); /* NULL: it only has verbs below it */
    enum cli_group group;
    const char *args;
    const char *summary;
    const char
        *example; /* of a word that only has verbs below it, else NULL: the verb has its own */
};

/* A program that has verbs. */
struct cli_program {
    const char *name; /* in messages */
    const struct cli_verb *verbs;
    size_t count;
    const char *examples; /* lines at the end of the list of all verbs */
};

/* Runs the verb that the words name, or prints a list of verbs; returns the exit status. */
int cli_main(const struct cli_program *program, int argc, char **argv);
/* The program that cli_main was given. */
const struct cli_program *cli_program(void);

const char *cli_group_title(enum cli_group group);
/* The row of a path, or NULL. */
const struct cli_verb *cli_verb_find(const char *path);
/* Whether the row lies directly below the path: `cap key` below `cap`, `cap key new` not. With ""
 * those of one word. */
bool cli_verb_below(const struct cli_verb *verb, const char *path);

#define CLI_VERB_DECLARE(path, fn, ...) int fn(int argc, char **argv);
#define CLI_VERB_NOTHING(...)
CLI_VERBS(CLI_VERB_DECLARE, CLI_VERB_NOTHING)
