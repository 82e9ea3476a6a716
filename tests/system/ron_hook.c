/* SPDX-License-Identifier: Apache-2.0 */
/* ron_hook - the table of webhook providers by itself, for tests with the providers' own libraries.
 *
 *     ron_hook verify KIND SECRET NOW_MS PUBLIC_URL TARGET   head lines, an empty line and the body
 *                                                            on stdin; prints the refusal's label,
 *                                                            algorithm, id and event
 *     ron_hook sign KIND SECRET NOW_MS URL ID TYPE           the body on stdin; prints header lines
 *
 * Exit code 0; 2 for a wrong call. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "interop/offline/tool.h"
#include "interop/provider/provider.h"

enum { INPUT_MAX = 1 << 20 };

static char input[INPUT_MAX];
static _Alignas(16) uint8_t scratch[INPUT_MAX + IOP_SCRATCH_EXTRA];
static struct ron_http_head head;

static struct ron_str str(const char *text)
{
    return (struct ron_str){text, strlen(text)};
}

/* Reads the head lines; the result is where the body begins. */
static size_t read_head(size_t len)
{
    size_t at = 0;

    while (at < len && input[at] != '\n') {
        char *line = input + at;
        char *eol = memchr(line, '\n', len - at);
        char *colon = eol == NULL ? NULL : memchr(line, ':', (size_t)(eol - line));

        if (colon == NULL || head.field_count == RON_HTTP_HEADERS_MAX) {
            exit(2);
        }
        head.fields[head.field_count++] = (struct ron_http_field){
            {line, (size_t)(colon - line)}, {colon + 2, (size_t)(eol - colon - 2)}};
        at = (size_t)(eol - input) + 1;
    }
    return at + 1;
}

static int verify(char **arg, size_t len)
{
    struct iop_provider p;
    struct iop_delivery d;
    struct ron_err err = {0};
    enum iop_kind kind;
    size_t body = read_head(len);
    int64_t now = strtoll(arg[2], NULL, 10);
    enum iop_refusal refusal;

    if (!iop_kind_find(arg[0], &kind) || body > len ||
        iop_provider_init(&p, "hook", iop_scheme_of(kind), &err) != RON_OK ||
        iop_provider_add_key(&p, arg[1], strlen(arg[1]), &err) != RON_OK) {
        fprintf(stderr, "ron_hook: %s\n", err.msg);
        return 2;
    }
    p.enabled = true;
    p.public_url = str(arg[3]);
    refusal = iop_check_head(&p, &head, now, &d);
    if (refusal == IOP_REFUSE_NONE) {
        refusal = iop_check_body(&p,
                                 &(struct iop_message){.target = str(arg[4]),
                                                       .body = input + body,
                                                       .len = len - body,
                                                       .now_unix_ms = now,
                                                       .scratch = scratch,
                                                       .scratch_size = sizeof scratch},
                                 &d);
    }
    printf("%s %s %.*s %.*s\n", iop_refusal_row(refusal)->label,
           d.sig_alg == NULL ? "-" : d.sig_alg, (int)d.id_len, d.id, (int)d.event_len, d.event);
    iop_provider_done(&p);
    return 0;
}

static int sign(char **arg, size_t len)
{
    struct iop_tool_headers h;
    struct ron_err err = {0};
    struct iop_tool_request r = {.kind = arg[0],
                                 .secret = arg[1],
                                 .secret_len = strlen(arg[1]),
                                 .now_unix_ms = strtoll(arg[2], NULL, 10),
                                 .url = arg[3],
                                 .id = arg[4],
                                 .content_type = arg[5],
                                 .body = input,
                                 .len = len};

    if (iop_tool_sign(&r, &h, &err) != RON_OK) {
        fprintf(stderr, "ron_hook: %s\n", err.msg);
        return 2;
    }
    for (size_t i = 0; i < h.count; i++) {
        printf("%s: %s\n", h.at[i].name, h.at[i].value);
    }
    return 0;
}

int main(int argc, char **argv)
{
    size_t len;

    if (argc < 7) {
        return 2;
    }
    len = fread(input, 1, sizeof input, stdin);
    if (strcmp(argv[1], "verify") == 0 && argc == 7) {
        return verify(argv + 2, len);
    }
    return strcmp(argv[1], "sign") == 0 && argc == 8 ? sign(argv + 2, len) : 2;
}
