/* SPDX-License-Identifier: Apache-2.0 */
/* cli/verb/money.c - the wallet from the command line: issue, transfer, burn, hold, capture,
 * release, balance, history, tx.
 *
 * Every write has an idempotency key. One is made when none is given, and printed in any
 * case: after a lost answer the same command with --key is applied once. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/base/cli.h"
#include "cli/base/money.h"
#include "cli/base/net.h"
#include "ron/base/arena.h"
#include "ron/base/macros.h"
#include "ron/conf/value.h"
#include "ron/io/linux_env.h"

enum { BODY_MAX = 4096, PATH_SIZE = 1024, WORDS_MAX = 4, PAGE_MAX = 1000 };

#define CLI_WORD(name_, value_, help_, text_) CLI_CHOICE(name_, value_, help_, text_, NULL)

/* ---- writes ---------------------------------------------------------------------------------- */

struct op {
    const char *name;
    const char *members[WORDS_MAX]; /* of the words, in their order; the last is the amount */
    size_t words;
    const char *done;
    const char *summary;
};

static const struct op ops[] = {
    {"issue",
     {"to", "amount_minor"},
     2,
     "issued",
     "Creates AMOUNT new units on the account TO. Amounts are whole minor units.\n"
     "\nexamples:\n  ron issue alice 500\n  ron issue alice 500 --asset gold --memo gift"},
    {"transfer",
     {"from", "to", "amount_minor"},
     3,
     "transferred",
     "Moves AMOUNT units from the account FROM to the account TO.\n"
     "\nexamples:\n  ron transfer alice bob 40\n"
     "  ron transfer alice bob 40 --key lunch-1    # repeated: same receipt, one transfer"},
    {"burn",
     {"from", "amount_minor"},
     2,
     "burnt",
     "Destroys AMOUNT units of the account FROM.\n\nexample:\n  ron burn bob 5"},
    {"hold",
     {"from", "amount_minor"},
     2,
     "held",
     "Reserves AMOUNT units of the account FROM. The printed txid identifies the hold for\n"
     "capture and release. With --expires, the remainder is released automatically.\n"
     "\nexample:\n  ron hold alice 100 --expires 1h"},
    {"capture",
     {"hold", "from", "to", "amount_minor"},
     4,
     "captured",
     "Pays AMOUNT units from the hold HOLD (its txid) of FROM to the account TO.\n"
     "\nexample:\n  ron capture tx_7277a17837fe26d0a69d1ba2d9db9c5d alice hotel 80"},
    {"release",
     {"hold", "from", "amount_minor"},
     3,
     "released",
     "Releases AMOUNT units of the hold HOLD (its txid) to FROM.\n"
     "\nexample:\n  ron release tx_7277a17837fe26d0a69d1ba2d9db9c5d alice 20"},
};

struct write_opts {
    const char *asset;
    const char *memo;
    const char *key;
    const char *expires;
    uint64_t nonce;
    bool dry_run;
};

static bool amount_good(const char *text)
{
    size_t len = strspn(text, "0123456789");

    return len > 0 && len < 40 && text[len] == '\0' && text[0] != '0';
}

static int make_body(const struct op *op, const char **words, const struct write_opts *w,
                     struct ron_buf *body)
{
    struct ron_json_writer j;

    ron_json_begin(&j, body);
    ron_json_open(&j, NULL, '{');
    for (size_t i = 0; i < op->words; i++) {
        ron_json_text(&j, op->members[i], words[i]);
    }
    if (w->asset != NULL) {
        ron_json_text(&j, "asset", w->asset);
    }
    if (w->memo != NULL) {
        ron_json_text(&j, "memo", w->memo);
    }
    if (w->nonce > 0) {
        ron_json_u64(&j, "nonce", w->nonce);
    }
    if (w->expires != NULL) {
        struct ron_err err = {0};
        int64_t ms = 0;

        if (strcmp(op->name, "hold") != 0 ||
            ron_conf_parse_duration(w->expires, strlen(w->expires), &ms, &err) != RON_OK) {
            fprintf(stderr,
                    "ron %s: invalid --expires: only for holds, expected a time such as 30s, 15m "
                    "or 1h\n",
                    op->name);
            return CLI_USAGE;
        }
        ron_json_u64(&j, "expires_at", ron_env_wall_ms(ron_env_linux()) + (uint64_t)ms);
    }
    ron_json_close(&j, '}');
    if (ron_buf_error(body) != RON_OK) {
        fprintf(stderr, "ron %s: arguments too long\n", op->name);
        return CLI_USAGE;
    }
    return CLI_OK;
}

struct receipt {
    struct ron_str txid;
    struct ron_str op;
    struct ron_str from;
    struct ron_str to;
    struct ron_str asset;
    struct ron_str amount_minor;
    struct ron_str idem;
    uint64_t ts;
    uint64_t ledger_seq_start;
    struct ron_str settlement_status;
    uint64_t present;
};

static const struct ron_json_field receipt_fields[] = {
    RON_JSON_FIELD(struct receipt, txid, STRING, .required = true),
    RON_JSON_FIELD(struct receipt, op, STRING, .required = true),
    RON_JSON_FIELD(struct receipt, from, STRING, .nullable = true),
    RON_JSON_FIELD(struct receipt, to, STRING, .nullable = true),
    RON_JSON_FIELD(struct receipt, asset, STRING, .required = true),
    RON_JSON_FIELD(struct receipt, amount_minor, STRING, .required = true),
    RON_JSON_FIELD(struct receipt, idem, STRING, .required = true),
    RON_JSON_FIELD(struct receipt, ts, U64, .nullable = true),
    RON_JSON_FIELD(struct receipt, ledger_seq_start, U64, .nullable = true),
    RON_JSON_FIELD(struct receipt, settlement_status, STRING, .required = true),
};
static const struct ron_json_shape receipt_shape = {
    .fields = receipt_fields,
    .count = RON_ARRAY_LEN(receipt_fields),
    .present_offset = offsetof(struct receipt, present),
    .allow_unknown = true,
};

static int print_receipt(struct cli_client *c, const char *done, struct cli_answer *a)
{
    struct receipt r = {0};
    struct ron_json_error bad;

    if (c->json) {
        return cli_print_body(c, a);
    }
    if (ron_json_scan((char *)(uintptr_t)ron_buf_text(&a->body), ron_buf_len(&a->body),
                      &receipt_shape, NULL, &r, &bad) != RON_OK) {
        fprintf(stderr, "ron %s: unexpected response from the wallet: not a receipt\n", c->verb);
        return CLI_FAILED;
    }
    printf("%s %.*s %.*s", done, (int)r.amount_minor.len, r.amount_minor.ptr, (int)r.asset.len,
           r.asset.ptr);
    if (r.from.len > 0) {
        printf(" from %.*s", (int)r.from.len, r.from.ptr);
    }
    if (r.to.len > 0) {
        printf(" to %.*s", (int)r.to.len, r.to.ptr);
    }
    printf("\n  txid  %.*s\n  key   %.*s\n", (int)r.txid.len, r.txid.ptr, (int)r.idem.len,
           r.idem.ptr);
    if (r.ledger_seq_start > 0) {
        printf("  entry %" PRIu64 "\n", r.ledger_seq_start);
    } else {
        printf("  nothing was changed: %.*s\n", (int)r.settlement_status.len,
               r.settlement_status.ptr);
    }
    return CLI_OK;
}

static int write_op(const struct op *op, int argc, char **argv)
{
    struct cli_client c = {0};
    struct write_opts w = {0};
    const char *given[WORDS_MAX];
    struct cli_words words = {.words = given, .min = op->words, .max = op->words};
    char key[CLI_KEY_SIZE];
    char path[64];
    char memory[BODY_MAX];
    struct ron_buf body;
    struct cli_answer a;
    bool done = false;
    const struct cli_option options[] = {
        CLI_WORD("asset", "NAME", "asset (default: roc)", &w.asset),
        CLI_WORD("memo", "TEXT", "note, at most 256 bytes", &w.memo),
        CLI_WORD("key", "KEY", "idempotency key (default: generated and printed)", &w.key),
        CLI_WORD("expires", "TIME", "lifetime of a hold", &w.expires),
        CLI_NUMBER("nonce", "N", "expected next nonce of the account", &w.nonce, 0,
                   (UINT64_C(1) << 62) - 1),
        CLI_FLAG("dry-run", "check without changing anything", &w.dry_run),
        CLI_CLIENT_OPTIONS(&c),
    };
    int code = cli_parse_words(op->name, op->summary, options, RON_ARRAY_LEN(options), &words, argc,
                               argv, &done);

    if (code != CLI_OK || done) {
        return code;
    }
    if (!amount_good(given[op->words - 1])) {
        fprintf(stderr,
                "ron %s: invalid amount '%s': expected a whole number above 0, in minor units\n",
                op->name, given[op->words - 1]);
        return CLI_USAGE;
    }
    if (w.key == NULL) {
        cli_new_key(key);
        w.key = key;
    }
    ron_buf_init_over(&body, memory, sizeof memory);
    code = make_body(op, given, &w, &body);
    if (code == CLI_OK) {
        code = cli_client_open(&c, op->name);
    }
    if (code != CLI_OK) {
        cli_client_done(&c);
        return code;
    }
    (void)snprintf(path, sizeof path, "/v1/%s%s", op->name, w.dry_run ? "?dry_run=true" : "");
    code = cli_call(&c,
                    &(struct cli_call){.service = "wallet",
                                       .path = path,
                                       .method = RON_HTTP_POST,
                                       .body = {ron_buf_text(&body), ron_buf_len(&body)},
                                       .idem = w.key},
                    &a);
    if (code == CLI_OK) {
        code = print_receipt(&c, op->done, &a);
    } else if (code == CLI_RETRY || code == CLI_UNREACHABLE) {
        fprintf(stderr, "  outcome unknown; to apply it exactly once, retry with --key %s\n",
                w.key);
    }
    cli_answer_done(&a);
    cli_client_done(&c);
    return code;
}

#define WRITE_VERB(index, name)                                                                    \
    int cli_##name(int argc, char **argv)                                                          \
    {                                                                                              \
        return write_op(&ops[index], argc, argv);                                                  \
    }
WRITE_VERB(0, issue)
WRITE_VERB(1, transfer)
WRITE_VERB(2, burn)
WRITE_VERB(3, hold)
WRITE_VERB(4, capture)
WRITE_VERB(5, release)

/* ---- reads ----------------------------------------------------------------------------------- */

/* Asks the wallet for PREFIX WORD SUFFIX and hands the answer to `show`, or prints it. */
static int read_wallet(struct cli_client *c, const char *verb, const char *prefix, const char *word,
                       const char *suffix, int (*show)(struct cli_client *, struct cli_answer *))
{
    char escaped[PATH_SIZE / 2];
    char path[PATH_SIZE];
    struct cli_answer a = {0};
    int code = cli_client_open(c, verb);

    if (code == CLI_OK && !cli_url_escape(word, escaped, sizeof escaped)) {
        fprintf(stderr, "ron %s: '%.40s...' too long\n", verb, word);
        code = CLI_USAGE;
    }
    if (code == CLI_OK) {
        (void)snprintf(path, sizeof path, "%s%s%s", prefix, escaped, suffix);
        code = cli_call(
            c, &(struct cli_call){.service = "wallet", .path = path, .method = RON_HTTP_GET}, &a);
    }
    if (code == CLI_OK) {
        code = c->json ? cli_print_body(c, &a) : show(c, &a);
    }
    cli_answer_done(&a);
    cli_client_done(c);
    return code;
}

static int bad_answer(const struct cli_client *c)
{
    fprintf(stderr, "ron %s: unexpected response\n", c->verb);
    return CLI_FAILED;
}

struct balance {
    struct ron_str account;
    struct ron_str asset;
    struct ron_str amount_minor;
    struct ron_str held_minor;
    uint64_t as_of_seq;
    uint64_t present;
};

static int show_balance(struct cli_client *c, struct cli_answer *a)
{
    static const struct ron_json_field fields[] = {
        RON_JSON_FIELD(struct balance, account, STRING, .required = true),
        RON_JSON_FIELD(struct balance, asset, STRING, .required = true),
        RON_JSON_FIELD(struct balance, amount_minor, STRING, .required = true),
        RON_JSON_FIELD(struct balance, held_minor, STRING, .required = true),
        RON_JSON_FIELD(struct balance, as_of_seq, U64, .required = true),
    };
    struct ron_json_shape shape = RON_JSON_SHAPE(struct balance, fields, present);
    struct balance b = {0};
    struct ron_json_error bad;

    shape.allow_unknown = true;
    if (ron_json_scan((char *)(uintptr_t)ron_buf_text(&a->body), ron_buf_len(&a->body), &shape,
                      NULL, &b, &bad) != RON_OK) {
        return bad_answer(c);
    }
    printf("%.*s has %.*s %.*s", (int)b.account.len, b.account.ptr, (int)b.amount_minor.len,
           b.amount_minor.ptr, (int)b.asset.len, b.asset.ptr);
    if (!ron_str_is(b.held_minor, "0")) {
        printf(", and %.*s held", (int)b.held_minor.len, b.held_minor.ptr);
    }
    printf(" (entry %" PRIu64 ")\n", b.as_of_seq);
    return CLI_OK;
}

int cli_balance(int argc, char **argv)
{
    struct cli_client c = {0};
    const char *asset = "roc";
    const char *account = NULL;
    struct cli_words words = {.words = &account, .min = 1, .max = 1};
    char escaped[256];
    char suffix[512];
    bool cached = false;
    bool done = false;
    const struct cli_option options[] = {
        CLI_WORD("asset", "NAME", "asset (default: roc)", &asset),
        CLI_FLAG("cached", "accept a cached balance, at most 250 ms old", &cached),
        CLI_CLIENT_OPTIONS(&c),
    };
    int code = cli_parse_words("balance",
                               "Prints the balance of an account and the amount held.\n"
                               "\nexamples:\n  ron balance alice\n"
                               "  ron balance alice --asset gold --json",
                               options, RON_ARRAY_LEN(options), &words, argc, argv, &done);

    if (code != CLI_OK || done) {
        return code;
    }
    if (!cli_url_escape(asset, escaped, sizeof escaped)) {
        fprintf(stderr, "ron balance: asset name too long\n");
        return CLI_USAGE;
    }
    (void)snprintf(suffix, sizeof suffix, "&asset=%s%s", escaped,
                   cached ? "" : "&consistency=strong");
    return read_wallet(&c, "balance", "/v1/balance?account=", account, suffix, show_balance);
}

struct entry_text {
    uint64_t seq;
    struct ron_str id;
    struct ron_str kind;
    struct ron_str account;
    struct ron_str to;
    struct ron_str amount;
    struct ron_str asset;
    uint64_t present;
};
struct line_text {
    struct entry_text entry;
    struct ron_str side;
    struct ron_str available;
    struct ron_str held;
    uint64_t commit_ts;
    uint64_t present;
};
struct history {
    struct ron_json_items entries;
    uint64_t present;
};

static const struct ron_json_field entry_fields[] = {
    RON_JSON_FIELD(struct entry_text, seq, U64, .required = true),
    RON_JSON_FIELD(struct entry_text, id, STRING, .required = true),
    RON_JSON_FIELD(struct entry_text, kind, STRING, .required = true),
    RON_JSON_FIELD(struct entry_text, account, STRING, .required = true),
    RON_JSON_FIELD(struct entry_text, to, STRING, .nullable = true),
    RON_JSON_FIELD(struct entry_text, amount, STRING, .required = true),
    RON_JSON_FIELD(struct entry_text, asset, STRING, .required = true),
};
static const struct ron_json_shape entry_shape = {
    .fields = entry_fields,
    .count = RON_ARRAY_LEN(entry_fields),
    .present_offset = offsetof(struct entry_text, present),
    .allow_unknown = true,
};
static const struct ron_json_field line_fields[] = {
    RON_JSON_FIELD(struct line_text, entry, OBJECT, .required = true, .shape = &entry_shape),
    RON_JSON_FIELD(struct line_text, side, STRING, .required = true),
    RON_JSON_FIELD(struct line_text, available, STRING, .required = true),
    RON_JSON_FIELD(struct line_text, held, STRING, .required = true),
    RON_JSON_FIELD(struct line_text, commit_ts, U64, .required = true),
};
static const struct ron_json_shape line_shape = {
    .fields = line_fields,
    .count = RON_ARRAY_LEN(line_fields),
    .present_offset = offsetof(struct line_text, present),
    .allow_unknown = true,
};
static const struct ron_json_field history_fields[] = {
    RON_JSON_FIELD(struct history, entries, ARRAY, .required = true, .max = PAGE_MAX,
                   .item_size = sizeof(struct line_text), .shape = &line_shape),
};
static const struct ron_json_shape history_shape = {
    .fields = history_fields,
    .count = RON_ARRAY_LEN(history_fields),
    .present_offset = offsetof(struct history, present),
    .allow_unknown = true,
};

static int show_history(struct cli_client *c, struct cli_answer *a)
{
    struct history h = {0};
    struct ron_json_error bad;
    struct ron_arena arena;
    const struct line_text *lines;

    if (ron_arena_init(&arena, PAGE_MAX * sizeof *lines + 4096) != RON_OK) {
        return CLI_FAILED;
    }
    if (ron_json_scan((char *)(uintptr_t)ron_buf_text(&a->body), ron_buf_len(&a->body),
                      &history_shape, &arena, &h, &bad) != RON_OK) {
        ron_arena_done(&arena);
        return bad_answer(c);
    }
    lines = h.entries.items;
    printf("%-8s %-20s %-9s %14s %-6s %14s  %s\n", "entry", "time", "kind", "amount", "asset",
           "available", "with");
    for (size_t i = 0; i < h.entries.count; i++) {
        const struct line_text *l = &lines[i];
        bool in = ron_str_is(l->side, "to");
        struct ron_str with = in ? l->entry.account : l->entry.to;
        char time[CLI_TIME_SIZE];

        cli_format_time(l->commit_ts, time);
        printf("%-8" PRIu64 " %-20s %-9.*s %14.*s %-6.*s %14.*s  %s%.*s\n", l->entry.seq, time,
               (int)l->entry.kind.len, l->entry.kind.ptr, (int)l->entry.amount.len,
               l->entry.amount.ptr, (int)l->entry.asset.len, l->entry.asset.ptr,
               (int)l->available.len, l->available.ptr,
               with.len == 0 ? ""
               : in          ? "from "
                             : "to ",
               (int)with.len, with.ptr);
    }
    if (h.entries.count == 0) {
        printf("no entries\n");
    }
    ron_arena_done(&arena);
    return CLI_OK;
}

int cli_history(int argc, char **argv)
{
    struct cli_client c = {0};
    const char *account = NULL;
    struct cli_words words = {.words = &account, .min = 1, .max = 1};
    uint64_t limit = 20;
    uint64_t before = 0;
    char suffix[96];
    bool done = false;
    const struct cli_option options[] = {
        CLI_NUMBER("limit", "N", "largest number of entries", &limit, 1, PAGE_MAX),
        CLI_NUMBER("before", "SEQ", "only entries before this one", &before, 0, UINT64_MAX),
        CLI_CLIENT_OPTIONS(&c),
    };
    int code = cli_parse_words("history",
                               "Lists the entries of an account, newest first.\n"
                               "\nexample:\n  ron history alice --limit 5",
                               options, RON_ARRAY_LEN(options), &words, argc, argv, &done);

    if (code != CLI_OK || done) {
        return code;
    }
    if (before > 0) {
        (void)snprintf(suffix, sizeof suffix, "/history?limit=%" PRIu64 "&before=%" PRIu64, limit,
                       before);
    } else {
        (void)snprintf(suffix, sizeof suffix, "/history?limit=%" PRIu64, limit);
    }
    return read_wallet(&c, "history", "/v1/accounts/", account, suffix, show_history);
}

static int show_tx(struct cli_client *c, struct cli_answer *a)
{
    return print_receipt(c, "committed:", a);
}

int cli_tx(int argc, char **argv)
{
    struct cli_client c = {0};
    const char *txid = NULL;
    struct cli_words words = {.words = &txid, .min = 1, .max = 1};
    bool done = false;
    const struct cli_option options[] = {CLI_CLIENT_OPTIONS(&c)};
    int code = cli_parse_words("tx",
                               "Prints the wallet receipt of an operation by its txid.\n"
                               "\nexample:\n  ron tx tx_7277a17837fe26d0a69d1ba2d9db9c5d --json",
                               options, RON_ARRAY_LEN(options), &words, argc, argv, &done);

    if (code != CLI_OK || done) {
        return code;
    }
    return read_wallet(&c, "tx", "/v1/tx/", txid, "", show_tx);
}
