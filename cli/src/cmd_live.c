/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_live.c - smaller verbs against running services: edge packs and purge, console
 * link, webhook send. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "money.h"
#include "net.h"
#include "ron/base/macros.h"
#include "ron/io/linux_env.h"
#include "ron_interop_tool.h"

#define CLI_WORD(name_, value_, help_, text_) CLI_CHOICE(name_, value_, help_, text_, NULL)

enum { PATH_SIZE = 512, SECRET_SIZE = 4096, PURGE_MAX = 8192 };

/* Asks once and prints the answer. */
static int ask_and_print(struct cli_client *c, const char *verb, const struct cli_call *call)
{
    struct cli_answer a = {0};
    int code = cli_client_open(c, verb);

    if (code == CLI_OK) {
        code = cli_call(c, call, &a);
    }
    if (code == CLI_OK) {
        code = cli_print_body(c, &a);
    }
    cli_answer_done(&a);
    cli_client_done(c);
    return code;
}

int cli_edge_packs(int argc, char **argv)
{
    struct cli_client c = {0};
    bool done = false;
    const struct cli_option options[] = {CLI_CLIENT_OPTIONS(&c)};
    int code = cli_parse("edge packs",
                         "Lists the packs that the running edge serves, as JSON.\n"
                         "\nexample:\n  ron edge packs",
                         options, RON_ARRAY_LEN(options), argc, argv, &done);

    if (code != CLI_OK || done) {
        return code;
    }
    return ask_and_print(
        &c, "edge packs",
        &(struct cli_call){
            .service = "edge", .path = "/edge/packs", .method = RON_HTTP_GET, .no_token = true});
}

int cli_edge_purge(int argc, char **argv)
{
    struct cli_client c = {0};
    const char *what = NULL;
    struct cli_words words = {.words = &what, .min = 1, .max = 1};
    char memory[PURGE_MAX];
    struct ron_json_writer w;
    struct ron_buf body;
    bool prefix = false;
    bool done = false;
    const struct cli_option options[] = {
        CLI_FLAG("prefix", "all paths that begin so", &prefix),
        CLI_CLIENT_OPTIONS(&c),
    };
    int code = cli_parse_words(
        "edge purge",
        "Has the running edge forget what it stored of a path, or bytes by their content id;\n"
        "the next request asks the origin. Packs and files are not stored and stay.\n"
        "\nexamples:\n  ron edge purge /edge/assets/o/map/a.png\n"
        "  ron edge purge --prefix /edge/assets/o/map/2024/\n  ron edge purge b3:4f3c...",
        options, RON_ARRAY_LEN(options), &words, argc, argv, &done);

    if (code != CLI_OK || done) {
        return code;
    }
    ron_buf_init_over(&body, memory, sizeof memory);
    ron_json_begin(&w, &body);
    ron_json_open(&w, NULL, '{');
    ron_json_text(&w, prefix ? "prefix" : what[0] == '/' ? "path" : "id", what);
    ron_json_close(&w, '}');
    if (ron_buf_error(&body) != RON_OK) {
        fprintf(stderr, "ron edge purge: the path is too long\n");
        return CLI_USAGE;
    }
    return ask_and_print(&c, "edge purge",
                         &(struct cli_call){.service = "edge",
                                            .path = "/edge/purge",
                                            .method = RON_HTTP_POST,
                                            .body = {ron_buf_text(&body), ron_buf_len(&body)}});
}

/* ---- console link ---------------------------------------------------------------------------- */

struct link {
    struct ron_str url;
    uint64_t present;
};

int cli_console_link(int argc, char **argv)
{
    static const struct ron_json_field fields[] = {
        RON_JSON_FIELD(struct link, url, STRING, .required = true),
    };
    struct ron_json_shape shape = RON_JSON_SHAPE(struct link, fields, present);
    static const char operate[] = "{\"role\":\"operate\"}";
    static const char look[] = "{\"role\":\"read\"}";
    struct cli_client c = {0};
    struct cli_answer a = {0};
    struct link l = {0};
    struct ron_json_error bad;
    bool read_only = false;
    bool done = false;
    const struct cli_option options[] = {
        CLI_FLAG("read-only", "a link that may look and not write", &read_only),
        CLI_CLIENT_OPTIONS(&c),
    };
    int code = cli_parse("console link",
                         "Makes a link that opens the console in a browser, once.\n"
                         "\nexample:\n  ron console link --read-only",
                         options, RON_ARRAY_LEN(options), argc, argv, &done);

    shape.allow_unknown = true;
    if (code != CLI_OK || done) {
        return code;
    }
    code = cli_client_open(&c, "console link");
    if (code == CLI_OK) {
        const char *body = read_only ? look : operate;

        code = cli_call(&c,
                        &(struct cli_call){.service = "console",
                                           .path = "/api/links",
                                           .method = RON_HTTP_POST,
                                           .body = {body, strlen(body)}},
                        &a);
    }
    if (code == CLI_OK && c.json) {
        code = cli_print_body(&c, &a);
    } else if (code == CLI_OK &&
               ron_json_scan((char *)(uintptr_t)ron_buf_text(&a.body), ron_buf_len(&a.body), &shape,
                             NULL, &l, &bad) == RON_OK) {
        printf("%.*s\n", (int)l.url.len, l.url.ptr);
    }
    cli_answer_done(&a);
    cli_client_done(&c);
    return code;
}

/* ---- webhook send ---------------------------------------------------------------------------- */

struct webhook {
    struct cli_client c;
    const char *provider;
    const char *kind;
    const char *secret_file;
    const char *event;
    const char *id;
    const char *body_file;
    bool broken; /* sign, then change a byte */
    bool print;
    char secret[SECRET_SIZE];
    size_t secret_len;
};

static int read_secret(struct webhook *w)
{
    struct ron_err err = {0};

    if (w->secret_file == NULL) {
        fprintf(stderr, "ron webhook send: --secret-file FILE is needed: the secret that the "
                        "provider signs with, as interop has it\n");
        return CLI_USAGE;
    }
    if (ron_file_read_private(ron_env_linux(), w->secret_file, w->secret, sizeof w->secret - 1,
                              &w->secret_len, &err) != RON_OK) {
        fprintf(stderr, "ron webhook send: %s\n", err.msg);
        return CLI_FAILED;
    }
    while (w->secret_len > 0 && w->secret[w->secret_len - 1] == '\n') {
        w->secret_len--;
    }
    w->secret[w->secret_len] = '\0';
    return CLI_OK;
}

static int make_event(struct webhook *w, struct ron_buf *body, const char **ret_type)
{
    uint64_t now_ms = ron_env_wall_ms(ron_env_linux());
    const char *event = NULL;
    struct ron_err err = {0};
    enum ron_rc rc =
        iop_tool_sample(w->kind, w->event, w->id, (int64_t)now_ms, body, ret_type, &event, &err);

    if (rc == RON_OK && w->event == NULL) {
        w->event = event;
    }
    if (rc == RON_OK && w->body_file != NULL) {
        ron_buf_clear(body);
        rc = ron_file_read_all(ron_env_linux(), w->body_file, body, &err);
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

static int deliver(struct webhook *w, struct ron_buf *body, const char *type)
{
    struct ron_http_fetch_header more[IOP_TOOL_FIELDS_MAX];
    struct iop_tool_headers headers = {0};
    struct cli_answer a = {0};
    struct ron_err err = {0};
    char name[PATH_SIZE / 2];
    char path[PATH_SIZE];
    char url[PATH_SIZE + CLI_URL_SIZE];
    const char *root = cli_service_url(&w->c.sys, "interop");
    int code;

    if (root == NULL || !cli_url_escape(w->provider, name, sizeof name)) {
        fprintf(stderr, "ron webhook send: no interop runs here\n");
        return CLI_UNREACHABLE;
    }
    (void)snprintf(path, sizeof path, "/webhooks/%s", name);
    (void)snprintf(url, sizeof url, "%s%s", root, path);
    if (iop_tool_sign(
            &(struct iop_tool_request){.kind = w->kind,
                                       .secret = w->secret,
                                       .secret_len = w->secret_len,
                                       .id = w->id,
                                       .event = w->event,
                                       .url = url,
                                       .content_type = type,
                                       .body = ron_buf_data(body),
                                       .len = ron_buf_len(body),
                                       .now_unix_ms = (int64_t)ron_env_wall_ms(ron_env_linux())},
            &headers, &err) != RON_OK) {
        fprintf(stderr, "ron webhook send: %s\n", err.msg);
        return CLI_FAILED;
    }
    for (size_t i = 0; i < headers.count; i++) {
        more[i] = (struct ron_http_fetch_header){
            headers.at[i].name, {headers.at[i].value, strlen(headers.at[i].value)}};
        if (w->print) {
            printf("%s: %s\n", headers.at[i].name, headers.at[i].value);
        }
    }
    if (w->broken) {
        ron_buf_append_byte(body, ' '); /* whitespace changes the bytes and not their meaning */
    }
    code = cli_call(&w->c,
                    &(struct cli_call){.service = "interop",
                                       .path = path,
                                       .method = RON_HTTP_POST,
                                       .body = {ron_buf_text(body), ron_buf_len(body)},
                                       .content_type = type,
                                       .no_token = true,
                                       .more = more,
                                       .more_count = headers.count},
                    &a);
    if (code == CLI_OK) {
        code = cli_print_body(&w->c, &a);
    }
    cli_answer_done(&a);
    return code;
}

int cli_webhook_send(int argc, char **argv)
{
    struct webhook w = {0};
    struct cli_words words = {.words = &w.provider, .min = 1, .max = 1};
    char key[CLI_KEY_SIZE];
    const char *type = NULL;
    struct ron_buf body;
    bool done = false;
    const struct cli_option options[] = {
        CLI_WORD("kind", "NAME", "how it signs: github, stripe, ... (as PROVIDER)", &w.kind),
        CLI_WORD("secret-file", "FILE", "the secret that it signs with, mode 0600", &w.secret_file),
        CLI_WORD("event", "NAME", "of this kind (the usual one)", &w.event),
        CLI_WORD("id", "ID", "of the delivery (made)", &w.id),
        CLI_WORD("body", "FILE", "this body instead of the sample", &w.body_file),
        CLI_FLAG("broken", "change a byte after signing: it must be refused", &w.broken),
        CLI_FLAG("show", "print the headers that are sent", &w.print),
        CLI_CLIENT_OPTIONS(&w.c),
    };
    int code = cli_parse_words(
        "webhook send",
        "Sends a sample event to the running bridge, signed as the provider would sign it.\n"
        "PROVIDER is its name in the bridge's settings.\n"
        "\nexample:\n  ron webhook send github --secret-file github.secret",
        options, RON_ARRAY_LEN(options), &words, argc, argv, &done);

    if (code != CLI_OK || done) {
        return code;
    }
    if (w.kind == NULL) {
        w.kind = w.provider;
    }
    if (w.id == NULL) {
        cli_new_key(key);
        w.id = key;
    }
    code = read_secret(&w);
    ron_buf_init(&body, IOP_TOOL_BODY_MAX);
    if (code == CLI_OK) {
        code = make_event(&w, &body, &type);
    }
    if (code == CLI_OK) {
        code = cli_client_open(&w.c, "webhook send");
    }
    if (code == CLI_OK) {
        code = deliver(&w, &body, type);
    }
    cli_client_done(&w.c);
    memset(w.secret, 0, sizeof w.secret);
    ron_buf_done(&body);
    return code;
}
