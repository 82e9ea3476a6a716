/* SPDX-License-Identifier: Apache-2.0 */
/* cli/verb/mailbox_recv.c - receiving from the mailbox of the running bridge: recv, ack, nack.
 *
 * A received message is the receiver's for the time of its lease and comes again after it, so recv
 * prints the receipt that ends it. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/base/cli.h"
#include "cli/verb/mailbox_call.h"
#include "ron/base/alloc.h"
#include "ron/base/clock.h"
#include "ron/base/macros.h"
#include "ron/io/linux_env.h"

#define CLI_WORD(name_, value_, help_, text_) CLI_CHOICE(name_, value_, help_, text_, NULL)

enum {
    RECEIPTS_MAX = 256, /* words of one ack; the bridge takes more */
    RECV_DEFAULT = 10,
    LEASE_DEFAULT_MS = 30000,
    WAIT_MAX_MS = 86400000,
    POLL_MS = 1000, /* of one request; a longer wait is several */
};

/* ---- ack, nack ------------------------------------------------------------------------------- */

struct ack_opts {
    const char *delay;
    const char *reason;
    uint64_t delay_ms;
    bool dead;
};

static void make_ack(const struct ron_str *receipts, size_t count, const struct ack_opts *o,
                     struct ron_buf *out)
{
    struct ron_json_writer j;

    ron_json_begin(&j, out);
    ron_json_open(&j, NULL, '{');
    ron_json_open(&j, "receipts", '[');
    for (size_t i = 0; i < count; i++) {
        ron_json_str(&j, NULL, receipts[i]);
    }
    ron_json_close(&j, ']');
    if (o->delay != NULL) {
        ron_json_u64(&j, "delay_ms", o->delay_ms);
    }
    if (o->dead) {
        ron_json_bool(&j, "dead", true);
    }
    if (o->reason != NULL) {
        ron_json_text(&j, "reason", o->reason);
    }
    ron_json_close(&j, '}');
}

/* Tells what became of each receipt that did not end its message; CLI_FAILED when there is one. */
static int tell_results(const struct cli_box *b, const struct cli_box_answer *said,
                        const char **receipts)
{
    const struct ron_str *results = said->results.items;
    int code = CLI_OK;

    for (size_t i = 0; i < said->results.count; i++) {
        if (ron_str_is(results[i], "gone")) {
            fprintf(stderr, "ron %s: %s: message not found; it was already acknowledged\n", b->verb,
                    receipts[i]);
            code = CLI_FAILED;
        } else if (!ron_str_is(results[i], "ok")) {
            fprintf(stderr, "ron %s: %s: lease expired; the message was redelivered\n", b->verb,
                    receipts[i]);
            code = CLI_FAILED;
        }
    }
    return code;
}

static int ack_verb(struct cli_box *b, const char *what, const char *told, const char **given,
                    size_t count, const struct ack_opts *o)
{
    struct ron_str receipts[RECEIPTS_MAX];
    struct cli_box_answer said;
    struct ron_buf request;
    int code = cli_box_open(b);

    for (size_t i = 0; i < count; i++) {
        receipts[i] = (struct ron_str){given[i], strlen(given[i])};
    }
    ron_buf_init(&request, CLI_BOX_REQUEST_MAX);
    make_ack(receipts, count, o, &request);
    if (code == CLI_OK) {
        code = cli_box_call(b, what, &request);
    }
    if (code == CLI_OK && b->c.json) {
        code = cli_print_body(&b->c, &b->a);
    }
    if (code == CLI_OK) {
        code = cli_box_read(b, &said);
    }
    if (code == CLI_OK) {
        if (!b->c.json) {
            printf("%" PRIu64 " %s\n", said.done, told);
        }
        code = tell_results(b, &said, given);
    }
    ron_buf_done(&request);
    cli_box_done(b);
    return code;
}

int cli_mailbox_ack(int argc, char **argv)
{
    struct cli_box b = {.verb = "mailbox ack"};
    struct ack_opts o = {0};
    const char *given[RECEIPTS_MAX + 1];
    struct cli_words words = {.words = given, .min = 2, .max = RECEIPTS_MAX + 1};
    bool done = false;
    const struct cli_option options[] = {CLI_CLIENT_OPTIONS(&b.c)};
    int code = cli_parse_words(
        "mailbox ack",
        "Acknowledges messages by the receipt handles printed by `ron mailbox recv`.\n"
        "\nexample:\n  ron mailbox ack builds 12-1 13-1",
        options, RON_ARRAY_LEN(options), &words, argc, argv, &done);

    if (code != CLI_OK || done) {
        return code;
    }
    b.topic = given[0];
    return ack_verb(&b, "ack", "acknowledged", given + 1, words.count - 1, &o);
}

int cli_mailbox_nack(int argc, char **argv)
{
    struct cli_box b = {.verb = "mailbox nack"};
    struct ack_opts o = {0};
    const char *given[RECEIPTS_MAX + 1];
    struct cli_words words = {.words = given, .min = 2, .max = RECEIPTS_MAX + 1};
    bool done = false;
    const struct cli_option options[] = {
        CLI_WORD("delay", "TIME", "delay before redelivery (default: grows with each attempt)",
                 &o.delay),
        CLI_WORD("reason", "TEXT", "reason, at most 160 bytes; shown with a dead letter",
                 &o.reason),
        CLI_FLAG("dead", "move them to the dead letters immediately", &o.dead),
        CLI_CLIENT_OPTIONS(&b.c),
    };
    int code = cli_parse_words("mailbox nack",
                               "Returns messages to the queue for redelivery. After ten "
                               "delivery attempts a\nmessage becomes a dead letter.\n"
                               "\nexamples:\n  ron mailbox nack builds 12-1 --delay 30s\n"
                               "  ron mailbox nack builds 12-1 --dead --reason 'no such build'",
                               options, RON_ARRAY_LEN(options), &words, argc, argv, &done);

    if (code == CLI_OK && !done) {
        code = cli_take_time(b.verb, "delay", o.delay, &o.delay_ms);
    }
    if (code != CLI_OK || done) {
        return code;
    }
    b.topic = given[0];
    return ack_verb(&b, "nack", o.dead ? "moved to the dead letters" : "returned", given + 1,
                    words.count - 1, &o);
}

/* ---- recv ------------------------------------------------------------------------------------ */

struct recv_opts {
    uint64_t max;
    const char *lease;
    const char *wait;
    uint64_t lease_ms;
    uint64_t wait_ms;
    bool ack;
};

/* Whether the answer holds a message, without reading it: reading changes it, and --json wants it
 * as it came. */
static bool has_message(struct cli_box *b)
{
    static const char none[] = "{\"messages\":[]}";

    return ron_buf_len(&b->a.body) != sizeof none - 1 ||
           memcmp(ron_buf_text(&b->a.body), none, sizeof none - 1) != 0;
}

/* Asks until a message is there or the wait is over; the bridge itself waits shortly. */
static int recv_call(struct cli_box *b, const struct recv_opts *o)
{
    char memory[256];
    struct ron_buf request;
    uint64_t now_ns = ron_env_now_ns(ron_env_linux());
    struct ron_deadline end = ron_deadline_after_ms(now_ns, o->wait_ms);
    int code;

    do {
        uint64_t left_ms = ron_deadline_left_ms(end, now_ns);
        struct ron_json_writer j;

        ron_buf_init_over(&request, memory, sizeof memory);
        ron_json_begin(&j, &request);
        ron_json_open(&j, NULL, '{');
        ron_json_u64(&j, "max", o->max);
        ron_json_u64(&j, "visibility_ms", o->lease_ms);
        ron_json_u64(&j, "wait_ms", RON_MIN(left_ms, (uint64_t)POLL_MS));
        ron_json_close(&j, '}');
        code = cli_box_call(b, "recv", &request);
        now_ns = ron_env_now_ns(ron_env_linux());
    } while (code == CLI_OK && !has_message(b) && !ron_deadline_expired(end, now_ns));
    return code;
}

/* Ends what was received. The receipts are copied, as the answer that has them goes. */
static int ack_received(struct cli_box *b, const struct cli_box_answer *said)
{
    const struct cli_message *m = said->messages.items;
    struct ack_opts o = {0};
    struct ron_str *receipts = ron_alloc((said->messages.count + 1) * sizeof *receipts);
    struct ron_buf request;
    int code;

    if (receipts == NULL) {
        fprintf(stderr, "ron %s: out of memory\n", b->verb);
        return CLI_FAILED;
    }
    for (size_t i = 0; i < said->messages.count; i++) {
        receipts[i] = m[i].receipt;
    }
    ron_buf_init(&request, CLI_BOX_REQUEST_MAX);
    make_ack(receipts, said->messages.count, &o, &request);
    code = cli_box_call(b, "ack", &request);
    ron_buf_done(&request);
    ron_free(receipts);
    return code;
}

static int recv_it(struct cli_box *b, const struct recv_opts *o)
{
    struct cli_box_answer said;
    int code = recv_call(b, o);

    if (code == CLI_OK && b->c.json) {
        code = cli_print_body(&b->c, &b->a);
    }
    if (code == CLI_OK) {
        code = cli_box_read(b, &said);
    }
    if (code != CLI_OK) {
        return code;
    }
    if (!b->c.json) {
        const struct cli_message *m = said.messages.items;

        for (size_t i = 0; i < said.messages.count; i++) {
            cli_print_message(&m[i]);
        }
        if (said.messages.count == 0) {
            printf("nothing to receive in %s\n", b->topic);
        }
    }
    /* What is ended must have been seen: a pipe that is closed keeps its messages. */
    if (fflush(stdout) != 0) {
        fprintf(stderr, "ron %s: cannot print the messages; they will be redelivered\n", b->verb);
        return CLI_FAILED;
    }
    return o->ack && said.messages.count > 0 ? ack_received(b, &said) : CLI_OK;
}

int cli_mailbox_recv(int argc, char **argv)
{
    struct cli_box b = {.verb = "mailbox recv"};
    struct recv_opts o = {.max = RECV_DEFAULT, .lease_ms = LEASE_DEFAULT_MS};
    struct cli_words words = {.words = &b.topic, .min = 1, .max = 1};
    bool done = false;
    const struct cli_option options[] = {
        CLI_NUMBER("max", "N", "largest number of messages", &o.max, 1, CLI_BOX_PAGE_MAX),
        CLI_WORD("lease", "TIME", "visibility timeout (default: 30s)", &o.lease),
        CLI_WORD("wait", "TIME", "longest wait for the first message (default: 0)", &o.wait),
        CLI_FLAG("ack", "acknowledge them after printing", &o.ack),
        CLI_CLIENT_OPTIONS(&b.c),
    };
    int code = cli_parse_words(
        "mailbox recv",
        "Receives messages of a topic, oldest first. Unless `ron mailbox ack` acknowledges them\n"
        "by their receipt handles within the visibility timeout, they are redelivered.\n"
        "\nexamples:\n  ron mailbox recv builds\n  ron mailbox recv builds --wait 30s --ack --json",
        options, RON_ARRAY_LEN(options), &words, argc, argv, &done);

    if (code == CLI_OK && !done) {
        code = cli_take_time(b.verb, "lease", o.lease, &o.lease_ms);
    }
    if (code == CLI_OK && !done) {
        code = cli_take_time(b.verb, "wait", o.wait, &o.wait_ms);
    }
    if (code != CLI_OK || done) {
        return code;
    }
    if (o.wait_ms > WAIT_MAX_MS) {
        fprintf(stderr, "ron mailbox recv: --wait too long (limit 1 day)\n");
        return CLI_USAGE;
    }
    code = cli_box_open(&b);
    if (code == CLI_OK) {
        code = recv_it(&b, &o);
    }
    cli_box_done(&b);
    return code;
}
