/* SPDX-License-Identifier: Apache-2.0 */
/* cli/base/hook.c - the contract is in hook.h. */
#include "cli/base/hook.h"

#include <stdio.h>
#include <string.h>

#include "cli/base/cli.h"
#include "interop/offline/tool.h"
#include "ron/io/linux_env.h"

enum { PATH_SIZE = 512 };

const char *cli_hook_kind(const char *provider)
{
    static const char demo[] = "demo_";

    return strncmp(provider, demo, sizeof demo - 1) == 0 ? provider + sizeof demo - 1 : provider;
}

int cli_hook_secret(const char *verb, const struct cli_system *sys, const char *option,
                    const char *provider, char ret_secret[CLI_SECRET_SIZE], size_t *ret_len)
{
    char path[RON_FILE_PATH_SIZE + PATH_SIZE];
    struct ron_err err = {0};
    enum ron_rc rc;

    if (option == NULL) {
        (void)snprintf(path, sizeof path, "%s/keys/%.128s.secret", sys->data, provider);
    }
    rc = option == NULL && (sys->data[0] == '\0' || strchr(provider, '/') != NULL)
             ? RON_NOTFOUND
             : ron_file_read_private(ron_env_linux(), option != NULL ? option : path, ret_secret,
                                     CLI_SECRET_SIZE - 1, ret_len, &err);
    if (rc == RON_NOTFOUND && option == NULL) {
        fprintf(stderr,
                "ron %s: missing --secret-file FILE: the signing secret of the provider, as "
                "configured in "
                "interop; `ron up` has those of " CLI_HOOK_GITHUB " and " CLI_HOOK_STRIPE "\n",
                verb);
        return CLI_USAGE;
    }
    if (rc != RON_OK) {
        fprintf(stderr, "ron %s: %s\n", verb, err.msg);
        return CLI_FAILED;
    }
    while (*ret_len > 0 && ret_secret[*ret_len - 1] == '\n') {
        (*ret_len)--;
    }
    ret_secret[*ret_len] = '\0';
    return CLI_OK;
}

static int sign(const struct cli_client *c, const struct cli_hook *h, const char *url,
                struct iop_tool_headers *ret_headers)
{
    struct ron_err err = {0};
    const struct iop_tool_request request = {.kind = h->kind,
                                             .secret = h->secret,
                                             .secret_len = h->secret_len,
                                             .id = h->id,
                                             .event = h->event,
                                             .url = url,
                                             .content_type = h->type,
                                             .body = ron_buf_data(h->body),
                                             .len = ron_buf_len(h->body),
                                             .now_unix_ms =
                                                 (int64_t)ron_env_wall_ms(ron_env_linux())};

    if (iop_tool_sign(&request, ret_headers, &err) != RON_OK) {
        fprintf(stderr, "ron %s: %s\n", c->verb, err.msg);
        return CLI_FAILED;
    }
    return CLI_OK;
}

int cli_hook_send(struct cli_client *c, const struct cli_hook *h, struct cli_answer *ret_answer)
{
    struct ron_http_fetch_header more[IOP_TOOL_FIELDS_MAX];
    struct iop_tool_headers headers = {0};
    char name[PATH_SIZE / 2];
    char path[PATH_SIZE];
    char url[PATH_SIZE + CLI_URL_SIZE];
    const char *root = cli_service_url(&c->sys, "interop");
    struct cli_call call;
    int code;

    if (root == NULL || !cli_url_escape(h->provider, name, sizeof name)) {
        fprintf(stderr, "ron %s: interop is not running\n", c->verb);
        return CLI_UNREACHABLE;
    }
    (void)snprintf(path, sizeof path, "/webhooks/%s", name);
    (void)snprintf(url, sizeof url, "%s%s", root, path);
    code = sign(c, h, url, &headers);
    if (code != CLI_OK) {
        return code;
    }
    for (size_t i = 0; i < headers.count; i++) {
        more[i] = (struct ron_http_fetch_header){
            headers.at[i].name, {headers.at[i].value, strlen(headers.at[i].value)}};
        if (h->print) {
            printf("%s: %s\n", headers.at[i].name, headers.at[i].value);
        }
    }
    if (h->broken) {
        ron_buf_append_byte(h->body, ' '); /* whitespace changes the bytes and not their meaning */
    }
    call = (struct cli_call){.service = "interop",
                             .path = path,
                             .method = RON_HTTP_POST,
                             .body = {ron_buf_text(h->body), ron_buf_len(h->body)},
                             .content_type = h->type,
                             .no_token = true,
                             .more = more,
                             .more_count = headers.count};
    return h->quiet ? cli_call_quiet(c, &call, ret_answer) : cli_call(c, &call, ret_answer);
}
