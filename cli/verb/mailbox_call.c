/* SPDX-License-Identifier: Apache-2.0 */
/* cli/verb/mailbox_call.c - the contract is in mailbox_call.h. */
#include "cli/verb/mailbox_call.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/base/cli.h"
#include "cli/base/money.h"
#include "ron/base/macros.h"
#include "ron/conf/value.h"

enum { PATH_SIZE = 256 };

static const struct ron_json_field message_fields[] = {
    RON_JSON_FIELD(struct cli_message, id, STRING, .required = true),
    RON_JSON_FIELD(struct cli_message, receipt, STRING, .required = false),
    RON_JSON_FIELD(struct cli_message, delivery, U64, .required = false),
    RON_JSON_FIELD(struct cli_message, deliveries, U64, .required = false),
    RON_JSON_FIELD(struct cli_message, sent_ms, U64, .required = true),
    RON_JSON_FIELD(struct cli_message, head, RAW, .required = false),
    RON_JSON_FIELD(struct cli_message, body, STRING, .required = false),
    RON_JSON_FIELD(struct cli_message, body_b64, STRING, .required = false),
    RON_JSON_FIELD(struct cli_message, reason, STRING, .required = false),
};
static const struct ron_json_shape message_shape = {
    .fields = message_fields,
    .count = RON_ARRAY_LEN(message_fields),
    .present_offset = offsetof(struct cli_message, present),
    .allow_unknown = true,
};
static const struct ron_json_field topic_fields[] = {
    RON_JSON_FIELD(struct cli_topic, topic, STRING, .required = true),
    RON_JSON_FIELD(struct cli_topic, ready, U64, .required = true),
    RON_JSON_FIELD(struct cli_topic, delayed, U64, .required = true),
    RON_JSON_FIELD(struct cli_topic, leased, U64, .required = true),
    RON_JSON_FIELD(struct cli_topic, dead, U64, .required = true),
    RON_JSON_FIELD(struct cli_topic, bytes, U64, .required = true),
    RON_JSON_FIELD(struct cli_topic, oldest_ms, U64, .required = true),
};
static const struct ron_json_shape topic_shape = {
    .fields = topic_fields,
    .count = RON_ARRAY_LEN(topic_fields),
    .present_offset = offsetof(struct cli_topic, present),
    .allow_unknown = true,
};
static const struct ron_json_field answer_fields[] = {
    RON_JSON_FIELD(struct cli_box_answer, messages, ARRAY, .max = CLI_BOX_PAGE_MAX,
                   .item_size = sizeof(struct cli_message), .shape = &message_shape),
    RON_JSON_FIELD(struct cli_box_answer, dead, ARRAY, .max = CLI_BOX_PAGE_MAX,
                   .item_size = sizeof(struct cli_message), .shape = &message_shape),
    RON_JSON_FIELD(struct cli_box_answer, topics, ARRAY, .max = CLI_BOX_PAGE_MAX,
                   .item_size = sizeof(struct cli_topic), .shape = &topic_shape),
    RON_JSON_FIELD(struct cli_box_answer, results, STRINGS, .max = CLI_BOX_PAGE_MAX),
    RON_JSON_FIELD(struct cli_box_answer, accepted, U64, .required = false),
    RON_JSON_FIELD(struct cli_box_answer, duplicate, BOOL, .required = false),
    RON_JSON_FIELD(struct cli_box_answer, first_id, STRING, .required = false),
    RON_JSON_FIELD(struct cli_box_answer, done, U64, .required = false),
};
static const struct ron_json_shape answer_shape = {
    .fields = answer_fields,
    .count = RON_ARRAY_LEN(answer_fields),
    .present_offset = offsetof(struct cli_box_answer, present),
    .allow_unknown = true,
};

int cli_box_open(struct cli_box *b)
{
    if (ron_arena_init(&b->arena, (CLI_BOX_PAGE_MAX + 1) * sizeof(struct cli_message)) != RON_OK) {
        fprintf(stderr, "ron %s: out of memory\n", b->verb);
        return CLI_FAILED;
    }
    return cli_client_open(&b->c, b->verb);
}

void cli_box_done(struct cli_box *b)
{
    cli_answer_done(&b->a);
    cli_client_done(&b->c);
    ron_arena_done(&b->arena);
}

int cli_box_read(struct cli_box *b, struct cli_box_answer *ret)
{
    struct ron_json_error bad = {0};

    *ret = (struct cli_box_answer){0};
    ron_arena_clear(&b->arena);
    if (ron_json_scan((char *)(uintptr_t)ron_buf_text(&b->a.body), ron_buf_len(&b->a.body),
                      &answer_shape, &b->arena, ret, &bad) != RON_OK) {
        fprintf(stderr, "ron %s: unexpected response from interop (%s: %s)\n", b->verb, bad.field,
                bad.reason);
        return CLI_FAILED;
    }
    return CLI_OK;
}

int cli_box_call(struct cli_box *b, const char *what, struct ron_buf *body)
{
    char topic[PATH_SIZE / 2];
    char path[PATH_SIZE * 2];

    if (body != NULL && ron_buf_error(body) != RON_OK) {
        fprintf(stderr, "ron %s: request too large\n", b->verb);
        return CLI_USAGE;
    }
    if (!cli_url_escape(b->topic == NULL ? "" : b->topic, topic, sizeof topic)) {
        fprintf(stderr, "ron %s: topic name too long\n", b->verb);
        return CLI_USAGE;
    }
    (void)snprintf(path, sizeof path, "/mailbox%s%s%s%s", b->topic == NULL ? "" : "/", topic,
                   what[0] == '\0' ? "" : "/", what);
    cli_answer_done(&b->a);
    b->a = (struct cli_answer){0};
    return cli_call(&b->c,
                    &(struct cli_call){.service = "interop",
                                       .path = path,
                                       .method = body != NULL ? RON_HTTP_POST : RON_HTTP_GET,
                                       .body = body != NULL ? (struct ron_str){ron_buf_text(body),
                                                                               ron_buf_len(body)}
                                                            : (struct ron_str){"", 0}},
                    &b->a);
}

int cli_take_time(const char *verb, const char *option, const char *text, uint64_t *ms)
{
    struct ron_err err = {0};
    int64_t value = 0;

    if (text == NULL) {
        return CLI_OK;
    }
    if (ron_conf_parse_duration(text, strlen(text), &value, &err) != RON_OK || value < 0) {
        fprintf(stderr,
                "ron %s: invalid --%s: expected a time such as 500ms, 30s, 15m or 1h, got '%s'\n",
                verb, option, text);
        return CLI_USAGE;
    }
    *ms = (uint64_t)value;
    return CLI_OK;
}

/* ---- printing -------------------------------------------------------------------------------- */

static void print_safe(struct ron_str text)
{
    bool terminal = isatty(STDOUT_FILENO) == 1;

    for (size_t i = 0; i < text.len; i++) {
        char ch = text.ptr[i];
        bool control = (unsigned char)ch < ' ' || ch == 0x7f;

        putchar(terminal && control && ch != '\n' && ch != '\t' ? '?' : ch);
    }
}

void cli_print_message(const struct cli_message *m)
{
    char time[CLI_TIME_SIZE];
    uint64_t count = m->receipt.len > 0 ? m->delivery : m->deliveries;

    cli_format_time(m->sent_ms, time);
    printf("message %.*s\n", (int)m->id.len, m->id.ptr);
    if (m->receipt.len > 0) {
        printf("  receipt  %.*s\n", (int)m->receipt.len, m->receipt.ptr);
    }
    printf("  sent     %s, %s %" PRIu64 "\n", time, m->receipt.len > 0 ? "delivery" : "deliveries",
           count);
    if (m->reason.len > 0) {
        printf("  reason   ");
        print_safe(m->reason);
        putchar('\n');
    }
    if (m->head.len > 0) {
        printf("  head     ");
        print_safe(m->head);
        putchar('\n');
    }
    printf("  body     ");
    print_safe(m->body_b64.len > 0 ? m->body_b64 : m->body);
    printf("%s\n", m->body_b64.len > 0 ? " (base64)" : "");
}
