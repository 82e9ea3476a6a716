/* SPDX-License-Identifier: Apache-2.0 */
/* cli/verb/mailbox.c - the durable mailbox of the running bridge: send, dead letters, and what
 * waits in which topic. Receiving is in mailbox_recv.c. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/base/cli.h"
#include "cli/base/money.h"
#include "cli/verb/mailbox_call.h"
#include "ron/base/hex.h"
#include "ron/base/macros.h"
#include "ron/io/linux_env.h"

#define CLI_WORD(name_, value_, help_, text_) CLI_CHOICE(name_, value_, help_, text_, NULL)

enum { PATH_SIZE = 256 };

/* ---- send ------------------------------------------------------------------------------------ */

/* The body of the message: TEXT, a file, or standard input. */
static int read_body(const char *text, const char *file, struct ron_buf *body)
{
    struct ron_err err = {0};
    char piece[8192];
    size_t n;

    if ((text != NULL) == (file != NULL)) {
        fprintf(stderr, "ron mailbox send: missing message; give TEXT or --file FILE\n");
        return CLI_USAGE;
    }
    if (text != NULL) {
        (void)ron_buf_append(body, text, strlen(text));
    } else if (strcmp(file, "-") == 0) {
        while (ron_buf_error(body) == RON_OK && (n = fread(piece, 1, sizeof piece, stdin)) > 0) {
            (void)ron_buf_append(body, piece, n);
        }
    } else if (ron_file_read_all(ron_env_linux(), file, body, &err) != RON_OK) {
        fprintf(stderr, "ron mailbox send: %s\n", err.msg);
        return CLI_FAILED;
    }
    if (ron_buf_error(body) != RON_OK) {
        fprintf(stderr, "ron mailbox send: message too large (limit %d MiB)\n",
                CLI_MESSAGE_MAX >> 20);
        return CLI_USAGE;
    }
    return CLI_OK;
}

static bool is_utf8(struct ron_str bytes)
{
    const char *end = bytes.ptr + bytes.len;

    for (const char *p = bytes.ptr; p < end;) {
        size_t n = ron_utf8_len(p, end);

        if (n == 0) {
            return false;
        }
        p += n;
    }
    return true;
}

struct send_opts {
    const char *file;
    const char *key;
    const char *delay;
    const char *head;
    uint64_t delay_ms;
};

static int make_send(const struct send_opts *o, struct ron_buf *body, struct ron_buf *out)
{
    struct ron_str bytes = {ron_buf_text(body), ron_buf_len(body)};
    struct ron_json_error bad;
    struct ron_json_writer j;
    struct ron_buf packed;

    if (o->head != NULL &&
        (o->head[0] != '{' || ron_json_check(o->head, strlen(o->head), &bad) != RON_OK)) {
        fprintf(stderr, "ron mailbox send: invalid --head: expected a JSON object such as "
                        "'{\"kind\":\"note\"}'\n");
        return CLI_USAGE;
    }
    ron_json_begin(&j, out);
    ron_json_open(&j, NULL, '{');
    ron_json_text(&j, "key", o->key);
    ron_json_open(&j, "messages", '[');
    ron_json_open(&j, NULL, '{');
    if (is_utf8(bytes)) {
        ron_json_str(&j, "body", bytes);
    } else {
        ron_buf_init(&packed, (size_t)CLI_MESSAGE_MAX * 2);
        (void)ron_base64_write(&packed, bytes.ptr, bytes.len);
        ron_json_str(&j, "body_b64", (struct ron_str){ron_buf_text(&packed), ron_buf_len(&packed)});
        ron_buf_done(&packed);
    }
    if (o->head != NULL) {
        ron_json_raw(&j, "head", (struct ron_str){o->head, strlen(o->head)});
    }
    ron_json_u64(&j, "delay_ms", o->delay_ms);
    ron_json_close(&j, '}');
    ron_json_close(&j, ']');
    ron_json_close(&j, '}');
    return CLI_OK;
}

static int send_it(struct cli_box *b, const struct send_opts *o, struct ron_buf *request)
{
    struct cli_box_answer said;
    int code = cli_box_call(b, "send", request);

    if (code == CLI_OK && b->c.json) {
        return cli_print_body(&b->c, &b->a);
    }
    if (code == CLI_OK) {
        code = cli_box_read(b, &said);
    } else if (code == CLI_RETRY || code == CLI_UNREACHABLE) {
        fprintf(stderr, "  outcome unknown; to send it exactly once, retry with --key %s\n",
                o->key);
    }
    if (code == CLI_OK && said.duplicate) {
        printf("already sent with this key; nothing was added to %s\n", b->topic);
    } else if (code == CLI_OK) {
        printf("sent to %s\n  message  %.*s\n  key      %s\n", b->topic, (int)said.first_id.len,
               said.first_id.ptr, o->key);
    }
    return code;
}

int cli_mailbox_send(int argc, char **argv)
{
    struct cli_box b = {.verb = "mailbox send"};
    struct send_opts o = {0};
    const char *given[2] = {NULL, NULL};
    struct cli_words words = {.words = given, .min = 1, .max = 2};
    char key[CLI_KEY_SIZE];
    struct ron_buf body;
    struct ron_buf request;
    bool done = false;
    const struct cli_option options[] = {
        CLI_WORD("file", "FILE", "file with the message; - for standard input", &o.file),
        CLI_WORD("key", "KEY", "idempotency key (default: generated and printed)", &o.key),
        CLI_WORD("delay", "TIME", "delay before the first delivery (default: 0)", &o.delay),
        CLI_WORD("head", "JSON", "attributes of the message, a JSON object", &o.head),
        CLI_CLIENT_OPTIONS(&b.c),
    };
    int code = cli_parse_words(
        "mailbox send",
        "Sends a message to a topic of the bridge's mailbox. It is on disk when this returns.\n"
        "Messages with the same key are stored once.\n"
        "\nexamples:\n  ron mailbox send builds 'release 7 is out'\n"
        "  ron mailbox send builds --file report.json --key report-7 --delay 15m\n"
        "  date | ron mailbox send builds --file -",
        options, RON_ARRAY_LEN(options), &words, argc, argv, &done);

    if (code != CLI_OK || done) {
        return code;
    }
    b.topic = given[0];
    if (o.key == NULL) {
        cli_new_key(key);
        o.key = key;
    }
    ron_buf_init(&body, CLI_MESSAGE_MAX);
    ron_buf_init(&request, CLI_BOX_REQUEST_MAX);
    code = cli_take_time(b.verb, "delay", o.delay, &o.delay_ms);
    if (code == CLI_OK) {
        code = read_body(given[1], o.file, &body);
    }
    if (code == CLI_OK) {
        code = make_send(&o, &body, &request);
    }
    if (code == CLI_OK) {
        code = cli_box_open(&b);
    }
    if (code == CLI_OK) {
        code = send_it(&b, &o, &request);
    }
    cli_box_done(&b);
    ron_buf_done(&request);
    ron_buf_done(&body);
    return code;
}

/* ---- dead letters ---------------------------------------------------------------------------- */

struct dead_opts {
    uint64_t limit;
    const char *after;
    const char *id;
    bool replay;
    bool purge;
};

static int dead_change(struct cli_box *b, const struct dead_opts *o)
{
    char memory[256];
    struct ron_buf request;
    struct ron_json_writer j;
    struct cli_box_answer said;
    int code;

    ron_buf_init_over(&request, memory, sizeof memory);
    ron_json_begin(&j, &request);
    ron_json_open(&j, NULL, '{');
    if (o->id != NULL) {
        ron_json_text(&j, "id", o->id);
    }
    ron_json_close(&j, '}');
    code = cli_box_call(b, o->replay ? "replay" : "purge", &request);
    if (code != CLI_OK || b->c.json) {
        return code != CLI_OK ? code : cli_print_body(&b->c, &b->a);
    }
    code = cli_box_read(b, &said);
    if (code == CLI_OK) {
        printf("%" PRIu64 " %s\n", said.done, o->replay ? "replayed" : "purged");
    }
    return code;
}

static int dead_list(struct cli_box *b, const struct dead_opts *o)
{
    char after[64] = "";
    char what[PATH_SIZE];
    const struct cli_message *m;
    struct cli_box_answer said;
    int code;

    if (o->after != NULL && !cli_url_escape(o->after, after, sizeof after)) {
        fprintf(stderr, "ron mailbox dead: invalid --after: expected a message id\n");
        return CLI_USAGE;
    }
    (void)snprintf(what, sizeof what, "dead?limit=%" PRIu64 "%s%s", o->limit,
                   o->after != NULL ? "&after=" : "", after);
    code = cli_box_call(b, what, NULL);
    if (code != CLI_OK || b->c.json) {
        return code != CLI_OK ? code : cli_print_body(&b->c, &b->a);
    }
    code = cli_box_read(b, &said);
    if (code != CLI_OK) {
        return code;
    }
    m = said.dead.items;
    for (size_t i = 0; i < said.dead.count; i++) {
        cli_print_message(&m[i]);
    }
    if (said.dead.count == 0) {
        printf("no dead letters in %s\n", b->topic);
    }
    return CLI_OK;
}

int cli_mailbox_dead(int argc, char **argv)
{
    struct cli_box b = {.verb = "mailbox dead"};
    struct dead_opts o = {.limit = 100};
    struct cli_words words = {.words = &b.topic, .min = 1, .max = 1};
    bool done = false;
    const struct cli_option options[] = {
        CLI_NUMBER("limit", "N", "largest number of messages", &o.limit, 1, CLI_BOX_PAGE_MAX),
        CLI_WORD("after", "ID", "only messages after this one", &o.after),
        CLI_FLAG("replay", "return them to the queue", &o.replay),
        CLI_FLAG("purge", "delete them", &o.purge),
        CLI_WORD("id", "ID", "replay or purge this message only", &o.id),
        CLI_CLIENT_OPTIONS(&b.c),
    };
    int code = cli_parse_words(
        "mailbox dead",
        "Lists the dead letters of a topic: messages that were delivered ten times without an\n"
        "acknowledgement, or rejected with --dead. --replay and --purge change at most 1000.\n"
        "\nexamples:\n  ron mailbox dead builds\n  ron mailbox dead builds --replay --id 12\n"
        "  ron mailbox dead builds --purge",
        options, RON_ARRAY_LEN(options), &words, argc, argv, &done);

    if (code != CLI_OK || done) {
        return code;
    }
    if ((o.replay && o.purge) || (o.id != NULL && !o.replay && !o.purge)) {
        fprintf(stderr, "ron mailbox dead: %s\n",
                o.id != NULL ? "--id requires --replay or --purge"
                             : "--replay and --purge are mutually exclusive");
        return CLI_USAGE;
    }
    code = cli_box_open(&b);
    if (code == CLI_OK) {
        code = o.replay || o.purge ? dead_change(&b, &o) : dead_list(&b, &o);
    }
    cli_box_done(&b);
    return code;
}

/* ---- list ------------------------------------------------------------------------------------ */

static int list_it(struct cli_box *b)
{
    const struct cli_topic *t;
    struct cli_box_answer said;
    int code = cli_box_call(b, "", NULL);

    if (code != CLI_OK || b->c.json) {
        return code != CLI_OK ? code : cli_print_body(&b->c, &b->a);
    }
    code = cli_box_read(b, &said);
    if (code != CLI_OK) {
        return code;
    }
    t = said.topics.items;
    printf("%-32s %8s %8s %8s %8s %10s  %s\n", "topic", "ready", "delayed", "leased", "dead",
           "bytes", "oldest");
    for (size_t i = 0; i < said.topics.count; i++) {
        char time[CLI_TIME_SIZE] = "";

        if (t[i].oldest_ms > 0) {
            cli_format_time(t[i].oldest_ms, time);
        }
        printf("%-32.*s %8" PRIu64 " %8" PRIu64 " %8" PRIu64 " %8" PRIu64 " %10" PRIu64 "  %s\n",
               (int)t[i].topic.len, t[i].topic.ptr, t[i].ready, t[i].delayed, t[i].leased,
               t[i].dead, t[i].bytes, time);
    }
    return CLI_OK;
}

int cli_mailbox_list(int argc, char **argv)
{
    struct cli_box b = {.verb = "mailbox list"};
    struct cli_words words = {.words = &b.topic, .min = 0, .max = 1};
    bool done = false;
    const struct cli_option options[] = {CLI_CLIENT_OPTIONS(&b.c)};
    int code = cli_parse_words(
        "mailbox list",
        "Lists topics and their message counts. Topics that begin with a dot belong to the\n"
        "bridge's outbox.\n"
        "\nexamples:\n  ron mailbox list\n  ron mailbox list builds --json",
        options, RON_ARRAY_LEN(options), &words, argc, argv, &done);

    if (code != CLI_OK || done) {
        return code;
    }
    code = cli_box_open(&b);
    if (code == CLI_OK) {
        code = list_it(&b);
    }
    cli_box_done(&b);
    return code;
}
