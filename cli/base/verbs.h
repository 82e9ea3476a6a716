/* SPDX-License-Identifier: Apache-2.0 */
/* cli/base/verbs.h - every verb of the program, in one table.
 *
 * Dispatch, `ron help`, the lists of a group, the words of shell completion and the section VERBS
 * of the man page are all made from these rows; a verb that is not here does not exist.
 *
 *     V("path", function, GROUP, "arguments", "what it does, without a full stop")
 *     G("path", GROUP, "what its verbs are about", "example")   a word that only has verbs below
 *
 * The path is the words after `ron`, joined by a blank. A function is given its last word as
 * argv[0]. A row of the group SERVICE runs until it is told to stop and has a man page of its own,
 * ron-PATH(1). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* X(NAME, "title in the list of verbs") */
#define CLI_GROUPS(X)                                                                              \
    X(SYSTEM, "the system")                                                                        \
    X(MONEY, "money")                                                                              \
    X(PROOF, "proofs")                                                                             \
    X(REWARD, "rewards")                                                                           \
    X(BRIDGE, "the bridge to the outside")                                                         \
    X(CONTENT, "maps and files")                                                                   \
    X(TOKEN, "capabilities")                                                                       \
    X(SERVICE, "services, one by one")                                                             \
    X(OFFLINE, "journals and trails, while no service runs")                                       \
    X(OTHER, "other")

#define CLI_VERBS(V, G)                                                                            \
    V("up", cli_up, SYSTEM, "", "start all services here and look after them")                     \
    V("down", cli_down, SYSTEM, "", "stop them")                                                   \
    V("status", cli_status, SYSTEM, "", "what runs, and whether it is ready")                      \
    V("topology", cli_topology, SYSTEM, "[SERVICE]",                                               \
      "queues and tasks of the services, as they are now")                                         \
    V("logs", cli_logs, SYSTEM, "", "the merged log of all services")                              \
    V("doctor", cli_doctor, SYSTEM, "",                                                            \
      "look for what is wrong with a set-up, and say what to do")                                  \
    V("demo", cli_demo, SYSTEM, "", "fill a believable economy at a visible pace")                 \
    V("bench", cli_bench, SYSTEM, "", "how many transfers the running system takes in a second")   \
    V("console link", cli_console_link, SYSTEM, "", "a link that opens the console, once")         \
    V("issue", cli_issue, MONEY, "TO AMOUNT", "make new units on an account")                      \
    V("transfer", cli_transfer, MONEY, "FROM TO AMOUNT", "move units from one account to another") \
    V("burn", cli_burn, MONEY, "FROM AMOUNT", "destroy units of an account")                       \
    V("hold", cli_hold, MONEY, "FROM AMOUNT", "set units aside")                                   \
    V("capture", cli_capture, MONEY, "HOLD FROM TO AMOUNT", "pay from a hold")                     \
    V("release", cli_release, MONEY, "HOLD FROM AMOUNT", "give back what a hold set aside")        \
    V("balance", cli_balance, MONEY, "ACCOUNT", "what an account has")                             \
    V("history", cli_history, MONEY, "ACCOUNT", "the entries of an account, newest first")         \
    V("tx", cli_tx, MONEY, "TXID", "the receipt of an operation")                                  \
    V("root", cli_root, PROOF, "", "the last entry of the ledger and the root of its tree")        \
    V("receipt", cli_receipt, PROOF, "TXID|SEQ", "the proof that an entry is in the ledger")       \
    V("verify", cli_verify, PROOF, "FILE", "check a receipt offline")                              \
    V("audit", cli_audit, PROOF, "[DIR]",                                                          \
      "recompute a whole journal with the independent auditor")                                    \
    V("export", cli_export, PROOF, "", "write the journal of the running ledger as text")          \
    V("import", cli_import, PROOF, "FILE", "read an export into a new data directory")             \
    G("reward", REWARD, "compute epoch payouts from files, verify published runs, check proofs",   \
      "ron reward submit 2026-w46 --snapshot usage.ndjson --policy policy.json")                   \
    V("reward submit", cli_reward_submit, REWARD, "EPOCH",                                         \
      "have the running rewarder compute and settle an epoch")                                     \
    V("reward list", cli_reward_list, REWARD, "", "the epochs of the running rewarder")            \
    V("reward show", cli_reward_show, REWARD, "EPOCH", "how far an epoch is")                      \
    V("reward payouts", cli_reward_payouts, REWARD, "EPOCH", "who is paid how much")               \
    V("reward emit", cli_reward_emit, REWARD, "EPOCH", "settle an epoch now")                      \
    V("reward compute", cli_reward_compute, REWARD, "", "compute the payouts of an epoch")         \
    V("reward verify", cli_reward_verify, REWARD, "", "compute a published run anew and compare")  \
    V("reward proof", cli_reward_proof, REWARD, "", "write the proof of one payee")                \
    V("reward check-proof", cli_reward_check_proof, REWARD, "FILE", "check such a proof offline")  \
    G("reward key", REWARD, "make and show keys that sign runs and policies",                      \
      "ron reward key new reward.key --key-id rewarder-2026")                                      \
    V("reward key new", cli_reward_key_new, REWARD, "FILE", "make a key file")                     \
    V("reward key show", cli_reward_key_show, REWARD, "FILE",                                      \
      "print the public half of a key file")                                                       \
    G("reward policy", REWARD, "sign and show policies",                                           \
      "ron reward policy sign --key gov.key policy.json > signed.json")                            \
    V("reward policy sign", cli_reward_policy_sign, REWARD, "FILE", "sign a policy")               \
    V("reward policy show", cli_reward_policy_show, REWARD, "FILE",                                \
      "print hash and members of a policy")                                                        \
    V("reward snapshot", cli_reward_snapshot, REWARD, "FILE",                                      \
      "write the canonical form of a snapshot")                                                    \
    G("reward tree", REWARD, "make, check and prove with trees that contracts pay from",           \
      "ron reward tree check tree.json")                                                           \
    V("reward tree oz", cli_reward_tree_oz, REWARD, "",                                            \
      "OpenZeppelin's merkle-tree package (standard-v1)")                                          \
    V("reward tree rocketpool", cli_reward_tree_rocketpool, REWARD, "",                            \
      "a rewards file as Rocket Pool has them")                                                    \
    V("reward tree check", cli_reward_tree_check, REWARD, "FILE", "compute every hash anew")       \
    V("reward tree proof", cli_reward_tree_proof, REWARD, "FILE", "the proof of one address")      \
    G("webhook", BRIDGE, "events as their providers send them", "ron webhook send demo_github")    \
    V("webhook send", cli_webhook_send, BRIDGE, "PROVIDER",                                        \
      "send a sample event, signed as its provider would")                                         \
    G("mailbox", BRIDGE, "messages that wait until somebody ends them",                            \
      "ron mailbox recv builds --ack")                                                             \
    V("mailbox send", cli_mailbox_send, BRIDGE, "TOPIC [TEXT]", "put a message into a topic")      \
    V("mailbox recv", cli_mailbox_recv, BRIDGE, "TOPIC", "receive messages under a lease")         \
    V("mailbox ack", cli_mailbox_ack, BRIDGE, "TOPIC RECEIPT...", "end received messages")         \
    V("mailbox nack", cli_mailbox_nack, BRIDGE, "TOPIC RECEIPT...", "give received messages back") \
    V("mailbox dead", cli_mailbox_dead, BRIDGE, "TOPIC",                                           \
      "dead letters: look, receive them again, forget them")                                       \
    V("mailbox list", cli_mailbox_list, BRIDGE, "[TOPIC]", "what waits in which topic")            \
    V("edge packs", cli_edge_packs, CONTENT, "", "the packs that the running edge serves")         \
    V("edge purge", cli_edge_purge, CONTENT, "PATH|ID",                                            \
      "have the running edge forget what it stored")                                               \
    V("edge verify", cli_edge_verify, CONTENT, "FILE...", "look at whole packs and report")        \
    V("edge tile", cli_edge_tile, CONTENT, "FILE Z/X/Y", "take a tile out of a pack")              \
    V("edge sample", cli_edge_sample, CONTENT, "FILE", "write the sample pack")                    \
    G("cap", TOKEN, "make keys and capability tokens, narrow and show them",                       \
      "ron cap show --in ron-data/operator.token")                                                 \
    G("cap key", TOKEN, "make, list and retire root keys", "ron cap key list")                     \
    V("cap key new", cli_cap_key_new, TOKEN, "", "add a key, which mints from then on")            \
    V("cap key list", cli_cap_key_list, TOKEN, "", "list the keys")                                \
    V("cap key retire", cli_cap_key_retire, TOKEN, "", "take a key away and void its tokens")      \
    V("cap mint", cli_cap_mint, TOKEN, "", "make a token")                                         \
    V("cap attenuate", cli_cap_attenuate, TOKEN, "", "narrow a token")                             \
    V("cap show", cli_cap_show, TOKEN, "", "list what a token says")                               \
    V("ledger", cli_ledger, SERVICE, "", "run the ledger: entries, roots, proofs, receipts")       \
    V("wallet", cli_wallet, SERVICE, "", "run the wallet: issue, transfer, burn and hold by HTTP") \
    V("rewarder", cli_rewarder, SERVICE, "",                                                       \
      "run the rewarder: epoch payouts, published and settled once")                               \
    V("edge", cli_edge, SERVICE, "", "run the edge: map packs and files for browsers")             \
    V("interop", cli_interop, SERVICE, "",                                                         \
      "run the bridge: verified webhooks, a mailbox, objects by address")                          \
    V("console", cli_console, SERVICE, "",                                                         \
      "run the web console: what every service is doing, and a form to pay")                       \
    V("ledger verify", cli_ledger_verify, OFFLINE, "", "check a whole journal, change nothing")    \
    V("ledger rebuild", cli_ledger_rebuild, OFFLINE, "",                                           \
      "make index, hashes and images anew from the log")                                           \
    V("ledger export", cli_ledger_export, OFFLINE, "", "write a journal to standard output")       \
    V("ledger import", cli_ledger_import, OFFLINE, "",                                             \
      "read an NDJSON export into an empty ledger")                                                \
    V("interop verify", cli_interop_verify, OFFLINE, "FILE", "check an audit trail of the bridge") \
    V("completion", cli_completion, OTHER, "bash|zsh|fish|man",                                    \
      "let a shell complete verbs and options")                                                    \
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
