/* SPDX-License-Identifier: Apache-2.0 */
/* cli/verb/reward_live.c - `ron reward` against the running rewarder: submit, list, show, payouts,
 * emit. What needs no service is in reward.c. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/base/cli.h"
#include "cli/verb/reward_live.h"
#include "rewarder/offline/tool.h"
#include "ron/base/assert.h"
#include "ron/base/macros.h"
#include "ron/io/linux_env.h"

enum { PATH_SIZE = 768, NAME_SIZE = 192, RUN_MS = 120000, FILE_MAX = 8 << 20 };

#define CLI_WORD(name_, value_, help_, text_) CLI_CHOICE(name_, value_, help_, text_, NULL)

/* ---- a run ----------------------------------------------------------------------------------- */

#define READER_MAGIC 0x434c5452u /* "CLTR" */

struct text_reader {
    uint32_t magic;
    struct ron_str text;
    size_t at;
};

static enum ron_rc read_text(void *arg, void *bytes, size_t size, size_t *ret_len,
                             struct ron_err *err)
{
    struct text_reader *r = RON_OBJ(arg, struct text_reader, READER_MAGIC);
    size_t n = RON_MIN(size, r->text.len - r->at);

    (void)err;
    memcpy(bytes, r->text.ptr + r->at, n);
    r->at += n;
    *ret_len = n;
    return RON_OK;
}

/* The value of a line "name   value" of a tool's listing. */
static bool value_of(const char *listing, const char *name, char *out, size_t size)
{
    size_t len = strlen(name);

    for (const char *line = listing; line != NULL && *line != '\0';) {
        const char *end = strchr(line, '\n');

        if (strncmp(line, name, len) == 0 && line[len] == ' ') {
            const char *at = line + len + strspn(line + len, " ");
            int n = end == NULL ? (int)strlen(at) : (int)(end - at);

            return snprintf(out, size, "%.*s", n, at) < (int)size;
        }
        line = end == NULL ? NULL : end + 1;
    }
    return false;
}

struct stored {
    struct ron_str inputs_cid;
    uint64_t present;
};

static int store_inputs(struct cli_client *c, struct ron_str snapshot, char *ret_cid, size_t size)
{
    static const struct ron_json_field fields[] = {
        RON_JSON_FIELD(struct stored, inputs_cid, STRING, .required = true),
    };
    struct ron_json_shape shape = RON_JSON_SHAPE(struct stored, fields, present);
    struct stored s = {0};
    struct ron_json_error bad;
    struct cli_answer a = {0};
    int code =
        cli_call(c,
                 &(struct cli_call){.service = "rewarder",
                                    .path = "/rewarder/inputs",
                                    .method = RON_HTTP_PUT,
                                    .body = snapshot,
                                    .content_type = snapshot.len > 0 && memchr(snapshot.ptr, '[',
                                                                               snapshot.len) == NULL
                                                        ? "application/x-ndjson"
                                                        : "application/json",
                                    .timeout_ms = RUN_MS},
                 &a);

    shape.allow_unknown = true;
    if (code == CLI_OK) {
        if (ron_json_scan((char *)(uintptr_t)ron_buf_text(&a.body), ron_buf_len(&a.body), &shape,
                          NULL, &s, &bad) != RON_OK ||
            snprintf(ret_cid, size, "%.*s", (int)s.inputs_cid.len, s.inputs_cid.ptr) >= (int)size) {
            fprintf(stderr, "ron %s: unexpected response from the rewarder: missing inputs_cid\n",
                    c->verb);
            code = CLI_FAILED;
        }
    }
    cli_answer_done(&a);
    return code;
}

int cli_reward_run(struct cli_client *c, const char *epoch, struct ron_str snapshot,
                   struct ron_str policy, const char *policy_key, struct cli_answer *ret_answer)
{
    struct text_reader reader = {.magic = READER_MAGIC, .text = policy};
    const struct rwd_tool_in in = {.name = "policy", .read = read_text, .arg = &reader};
    char cid[NAME_SIZE];
    char hash[NAME_SIZE];
    char id[NAME_SIZE];
    char name[PATH_SIZE / 2];
    char path[PATH_SIZE];
    struct ron_json_writer w;
    struct ron_buf text;
    struct ron_err err = {0};
    bool known;
    int code;

    *ret_answer = (struct cli_answer){0};
    ron_buf_init(&text, FILE_MAX);
    known = rwd_tool_policy_show(&in, policy_key, &text, &err) == RON_OK &&
            value_of(ron_buf_text(&text), "hash", hash, sizeof hash) &&
            value_of(ron_buf_text(&text), "id", id, sizeof id);
    ron_buf_done(&text);
    if (!known || !cli_url_escape(epoch, name, sizeof name)) {
        fprintf(stderr, "ron %s: policy: %s\n", c->verb,
                err.msg[0] != '\0' ? err.msg : "missing id or hash");
        return CLI_FAILED;
    }
    code = store_inputs(c, snapshot, cid, sizeof cid);
    if (code != CLI_OK) {
        return code;
    }
    ron_buf_init(&text, FILE_MAX);
    ron_json_begin(&w, &text);
    ron_json_open(&w, NULL, '{');
    ron_json_text(&w, "inputs_cid", cid);
    ron_json_text(&w, "policy_id", id);
    ron_json_text(&w, "policy_hash", hash);
    ron_json_raw(&w, "policy", policy);
    ron_json_close(&w, '}');
    (void)snprintf(path, sizeof path, "/rewarder/epochs/%s/compute?wait=true", name);
    code = cli_call(c,
                    &(struct cli_call){.service = "rewarder",
                                       .path = path,
                                       .method = RON_HTTP_POST,
                                       .body = {ron_buf_text(&text), ron_buf_len(&text)},
                                       .timeout_ms = RUN_MS},
                    ret_answer);
    ron_buf_done(&text);
    return code;
}

static int read_file(const char *verb, const char *path, struct ron_buf *out)
{
    struct ron_err err = {0};

    ron_buf_init(out, FILE_MAX);
    if (ron_file_read_all(ron_env_linux(), path, out, &err) != RON_OK) {
        fprintf(stderr, "ron %s: %s\n", verb, err.msg);
        return CLI_FAILED;
    }
    while (ron_buf_len(out) > 0 && ron_buf_data(out)[ron_buf_len(out) - 1] == '\n') {
        out->len--; /* a document of JSON may be part of another */
    }
    return CLI_OK;
}

int cli_reward_submit(int argc, char **argv)
{
    struct cli_client c = {0};
    const char *epoch = NULL;
    const char *snapshot = NULL;
    const char *policy = NULL;
    const char *policy_key = NULL;
    struct cli_words words = {.words = &epoch, .min = 1, .max = 1};
    struct ron_buf rows = {0};
    struct ron_buf rules = {0};
    struct cli_answer a = {0};
    bool done = false;
    const struct cli_option options[] = {
        CLI_WORD("snapshot", "FILE", "usage snapshot as JSON or NDJSON, at most 8 MiB", &snapshot),
        CLI_WORD("policy", "FILE", "policy file, bare or signed", &policy),
        CLI_WORD("policy-key", "ID=HEX", "public key of a signed policy", &policy_key),
        CLI_CLIENT_OPTIONS(&c),
    };
    int code = cli_parse_words(
        "reward submit",
        "Computes, publishes and settles an epoch with the running rewarder. A repeated request\n"
        "returns the same bytes and pays nothing twice. Different inputs are refused.\n"
        "\nexample:\n  ron reward submit 2026-w46 --snapshot usage.json --policy policy.json",
        options, RON_ARRAY_LEN(options), &words, argc, argv, &done);

    if (code != CLI_OK || done) {
        return code;
    }
    if (snapshot == NULL || policy == NULL) {
        fprintf(stderr, "ron reward submit: missing --snapshot or --policy\n");
        return CLI_USAGE;
    }
    code = read_file("reward submit", snapshot, &rows);
    if (code == CLI_OK) {
        code = read_file("reward submit", policy, &rules);
    }
    if (code == CLI_OK) {
        code = cli_client_open(&c, "reward submit");
    }
    if (code == CLI_OK) {
        code = cli_reward_run(&c, epoch, (struct ron_str){ron_buf_text(&rows), ron_buf_len(&rows)},
                              (struct ron_str){ron_buf_text(&rules), ron_buf_len(&rules)},
                              policy_key, &a);
    }
    if (code == CLI_OK && c.json) {
        code = cli_print_body(&c, &a);
    } else if (code == CLI_OK) {
        printf("epoch %s is sealed; follow the settlement with `ron reward show %s`\n", epoch,
               epoch);
    }
    cli_answer_done(&a);
    cli_client_done(&c);
    ron_buf_done(&rows);
    ron_buf_done(&rules);
    return code;
}

/* ---- looking --------------------------------------------------------------------------------- */

struct settlement {
    struct ron_str epoch_id;
    struct ron_str state;
    struct ron_str reason;
    struct ron_str payout_minor_units;
    struct ron_str residual_minor_units;
    uint64_t intents;
    uint64_t intents_done;
    uint64_t ledger_seq_first;
    uint64_t ledger_seq_last;
    uint64_t present;
};

static const struct ron_json_field settlement_fields[] = {
    RON_JSON_FIELD(struct settlement, epoch_id, STRING, .required = true),
    RON_JSON_FIELD(struct settlement, state, STRING, .required = true),
    RON_JSON_FIELD(struct settlement, reason, STRING, .nullable = true),
    RON_JSON_FIELD(struct settlement, payout_minor_units, STRING, .nullable = true),
    RON_JSON_FIELD(struct settlement, residual_minor_units, STRING, .nullable = true),
    RON_JSON_FIELD(struct settlement, intents, U64, .nullable = true),
    RON_JSON_FIELD(struct settlement, intents_done, U64, .nullable = true),
    RON_JSON_FIELD(struct settlement, ledger_seq_first, U64, .nullable = true),
    RON_JSON_FIELD(struct settlement, ledger_seq_last, U64, .nullable = true),
};
static const struct ron_json_shape settlement_shape = {
    .fields = settlement_fields,
    .count = RON_ARRAY_LEN(settlement_fields),
    .present_offset = offsetof(struct settlement, present),
    .allow_unknown = true,
};

static int show_settlement(struct cli_client *c, struct cli_answer *a)
{
    struct settlement s = {0};
    struct ron_json_error bad;

    if (ron_json_scan((char *)(uintptr_t)ron_buf_text(&a->body), ron_buf_len(&a->body),
                      &settlement_shape, NULL, &s, &bad) != RON_OK) {
        return cli_print_body(c, a);
    }
    printf("epoch    %.*s\nstate    %.*s\n", (int)s.epoch_id.len, s.epoch_id.ptr, (int)s.state.len,
           s.state.ptr);
    if (s.reason.len > 0) {
        printf("reason   %.*s\n", (int)s.reason.len, s.reason.ptr);
    }
    printf("payout   %.*s in %" PRIu64 " payments, %" PRIu64 " done\n",
           (int)s.payout_minor_units.len, s.payout_minor_units.ptr, s.intents, s.intents_done);
    if (s.ledger_seq_first > 0) {
        printf("entries  %" PRIu64 " to %" PRIu64 "\n", s.ledger_seq_first, s.ledger_seq_last);
    }
    return CLI_OK;
}

static int print_answer(struct cli_client *c, struct cli_answer *a)
{
    return cli_print_body(c, a);
}

/* A verb with an EPOCH: asks METHOD /rewarder/epochs/EPOCH SUFFIX. */
static int epoch_verb(const char *verb, const char *summary, enum ron_http_method method,
                      const char *suffix, int (*show)(struct cli_client *, struct cli_answer *),
                      int argc, char **argv)
{
    struct cli_client c = {0};
    const char *epoch = NULL;
    struct cli_words words = {.words = &epoch, .min = 1, .max = 1};
    struct cli_answer a = {0};
    char name[PATH_SIZE / 2];
    char path[PATH_SIZE];
    bool done = false;
    const struct cli_option options[] = {CLI_CLIENT_OPTIONS(&c)};
    int code =
        cli_parse_words(verb, summary, options, RON_ARRAY_LEN(options), &words, argc, argv, &done);

    if (code != CLI_OK || done) {
        return code;
    }
    if (!cli_url_escape(epoch, name, sizeof name)) {
        fprintf(stderr, "ron %s: epoch name too long\n", verb);
        return CLI_USAGE;
    }
    (void)snprintf(path, sizeof path, "/rewarder/epochs/%s%s", name, suffix);
    code = cli_client_open(&c, verb);
    if (code == CLI_OK) {
        code = cli_call(
            &c, &(struct cli_call){.service = "rewarder", .path = path, .method = method}, &a);
    }
    if (code == CLI_OK) {
        code = c.json ? cli_print_body(&c, &a) : show(&c, &a);
    }
    cli_answer_done(&a);
    cli_client_done(&c);
    return code;
}

int cli_reward_show(int argc, char **argv)
{
    return epoch_verb("reward show",
                      "Shows the progress of an epoch and the ledger entries of its payments.\n"
                      "\nexample:\n  ron reward show 2026-w46",
                      RON_HTTP_GET, "/settlement", show_settlement, argc, argv);
}

int cli_reward_payouts(int argc, char **argv)
{
    return epoch_verb("reward payouts",
                      "Prints the payouts of an epoch, one line of JSON each.\n"
                      "\nexample:\n  ron reward payouts 2026-w46",
                      RON_HTTP_GET, "/payouts", print_answer, argc, argv);
}

int cli_reward_emit(int argc, char **argv)
{
    return epoch_verb("reward emit",
                      "Settles a sealed epoch now, or retries a withheld one immediately.\n"
                      "\nexample:\n  ron reward emit 2026-w46",
                      RON_HTTP_POST, "/emit", print_answer, argc, argv);
}

int cli_reward_list(int argc, char **argv)
{
    struct cli_client c = {0};
    struct cli_answer a = {0};
    bool done = false;
    const struct cli_option options[] = {CLI_CLIENT_OPTIONS(&c)};
    int code = cli_parse("reward list",
                         "Lists the epochs of the running rewarder as JSON.\n"
                         "\nexample:\n  ron reward list",
                         options, RON_ARRAY_LEN(options), argc, argv, &done);

    if (code != CLI_OK || done) {
        return code;
    }
    code = cli_client_open(&c, "reward list");
    if (code == CLI_OK) {
        code =
            cli_call(&c,
                     &(struct cli_call){
                         .service = "rewarder", .path = "/rewarder/epochs", .method = RON_HTTP_GET},
                     &a);
    }
    if (code == CLI_OK) {
        code = cli_print_body(&c, &a);
    }
    cli_answer_done(&a);
    cli_client_done(&c);
    return code;
}
