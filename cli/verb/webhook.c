/* SPDX-License-Identifier: Apache-2.0 */
/* cli/verb/webhook.c - `ron webhook send`: a sample event, signed as its provider would sign it. */
#include <stdio.h>
#include <string.h>

#include "cli/base/cli.h"
#include "cli/base/hook.h"
#include "cli/base/money.h"
#include "interop/offline/tool.h"
#include "ron/base/macros.h"
#include "ron/io/linux_env.h"

#define CLI_WORD(name_, value_, help_, text_) CLI_CHOICE(name_, value_, help_, text_, NULL)

struct webhook {
    struct cli_client c;
    struct cli_hook h;
    const char *secret_file;
    const char *body_file;
    char secret[CLI_SECRET_SIZE];
    struct ron_buf body;
};

static int make_event(struct webhook *w)
{
    uint64_t now_ms = ron_env_wall_ms(ron_env_linux());
    const char *event = NULL;
    struct ron_err err = {0};
    enum ron_rc rc = iop_tool_sample(w->h.kind, w->h.event, w->h.id, (int64_t)now_ms, &w->body,
                                     &w->h.type, &event, &err);

    if (rc == RON_OK && w->h.event == NULL) {
        w->h.event = event;
    }
    if (rc == RON_OK && w->body_file != NULL) {
        ron_buf_clear(&w->body);
        rc = ron_file_read_all(ron_env_linux(), w->body_file, &w->body, &err);
    }
    if (rc != RON_OK) {
        fprintf(stderr, "ron webhook send: %s\n", err.msg);
        if (rc == RON_NOTFOUND) {
            fprintf(stderr, "  kinds:");
            for (const char *const *k = iop_tool_kinds(); *k != NULL; k++) {
                fprintf(stderr, " %s", *k);
            }
            fprintf(stderr, "\n");
        }
        return CLI_FAILED;
    }
    return CLI_OK;
}

static int send_event(struct webhook *w)
{
    struct cli_answer a = {0};
    int code = make_event(w);

    if (code == CLI_OK) {
        code = cli_client_open(&w->c, "webhook send");
    }
    if (code == CLI_OK) {
        code = cli_hook_secret("webhook send", &w->c.sys, w->secret_file, w->h.provider, w->secret,
                               &w->h.secret_len);
    }
    if (code == CLI_OK) {
        code = cli_hook_send(&w->c, &w->h, &a);
    }
    if (code == CLI_OK) {
        code = cli_print_body(&w->c, &a);
    }
    cli_answer_done(&a);
    cli_client_done(&w->c);
    return code;
}

int cli_webhook_send(int argc, char **argv)
{
    struct webhook w = {0};
    struct cli_words words = {.words = &w.h.provider, .min = 1, .max = 1};
    char key[CLI_KEY_SIZE];
    bool done = false;
    const struct cli_option options[] = {
        CLI_WORD("kind", "NAME", "signature scheme: github, stripe, ... (default: by PROVIDER)",
                 &w.h.kind),
        CLI_WORD("secret-file", "FILE", "file with the signing secret, mode 0600", &w.secret_file),
        CLI_WORD("event", "NAME", "event type (default: the sample's)", &w.h.event),
        CLI_WORD("id", "ID", "delivery id (default: generated)", &w.h.id),
        CLI_WORD("body", "FILE", "file with the body (default: a sample)", &w.body_file),
        CLI_FLAG("broken", "change a byte after signing", &w.h.broken),
        CLI_FLAG("show", "print the request headers", &w.h.print),
        CLI_CLIENT_OPTIONS(&w.c),
    };
    int code = cli_parse_words(
        "webhook send",
        "Sends a sample event to the running bridge, signed as by the provider. PROVIDER is the\n"
        "name in the bridge's settings. An instance started by `ron up` accepts demo_github\n"
        "and demo_stripe.\n"
        "\nexamples:\n  ron webhook send demo_github\n  ron webhook send demo_stripe --broken\n"
        "  ron webhook send github --secret-file github.secret",
        options, RON_ARRAY_LEN(options), &words, argc, argv, &done);

    if (code != CLI_OK || done) {
        return code;
    }
    if (w.h.kind == NULL) {
        w.h.kind = cli_hook_kind(w.h.provider);
    }
    if (w.h.id == NULL) {
        cli_new_key(key);
        w.h.id = key;
    }
    w.h.secret = w.secret;
    w.h.body = &w.body;
    ron_buf_init(&w.body, IOP_TOOL_BODY_MAX);
    code = send_event(&w);
    memset(w.secret, 0, sizeof w.secret);
    ron_buf_done(&w.body);
    return code;
}
