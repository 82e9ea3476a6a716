/* SPDX-License-Identifier: Apache-2.0 */
/* cli/verb/live.c - smaller verbs against running services: edge packs and purge, console link. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/base/cli.h"
#include "cli/base/net.h"
#include "ron/base/arena.h"
#include "ron/base/macros.h"

enum {
    PURGE_MAX = 8192,
    PACKS_MAX = 128, /* an edge has 65 at most */
};

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

/* ---- packs ----------------------------------------------------------------------------------- */

struct pack {
    struct ron_str name;
    struct ron_str kind;
    struct ron_str tiles;
    uint64_t zoom_min;
    uint64_t zoom_max;
    uint64_t bytes;
    uint64_t present;
};

struct packs {
    struct ron_json_items packs;
    uint64_t present;
};

static const struct ron_json_field pack_fields[] = {
    RON_JSON_FIELD(struct pack, name, STRING, .required = true),
    RON_JSON_FIELD(struct pack, kind, STRING, .required = true),
    RON_JSON_FIELD(struct pack, tiles, STRING, .required = true),
    RON_JSON_FIELD(struct pack, zoom_min, U64, .required = true),
    RON_JSON_FIELD(struct pack, zoom_max, U64, .required = true),
    RON_JSON_FIELD(struct pack, bytes, U64, .required = true),
};
static const struct ron_json_shape pack_shape = {
    .fields = pack_fields,
    .count = RON_ARRAY_LEN(pack_fields),
    .present_offset = offsetof(struct pack, present),
    .allow_unknown = true,
};
static const struct ron_json_field packs_fields[] = {
    RON_JSON_FIELD(struct packs, packs, ARRAY, .required = true, .max = PACKS_MAX,
                   .item_size = sizeof(struct pack), .shape = &pack_shape),
};

static int print_packs(struct cli_answer *a)
{
    struct ron_json_shape shape = RON_JSON_SHAPE(struct packs, packs_fields, present);
    struct packs said = {0};
    struct ron_json_error bad = {0};
    struct ron_arena arena;
    const struct pack *p;

    if (ron_arena_init(&arena, (PACKS_MAX + 1) * sizeof(struct pack)) != RON_OK) {
        fprintf(stderr, "ron edge packs: out of memory\n");
        return CLI_FAILED;
    }
    shape.allow_unknown = true;
    if (ron_json_scan((char *)(uintptr_t)ron_buf_text(&a->body), ron_buf_len(&a->body), &shape,
                      &arena, &said, &bad) != RON_OK) {
        fprintf(stderr, "ron edge packs: unexpected response from the edge (%s: %s)\n", bad.field,
                bad.reason);
        ron_arena_done(&arena);
        return CLI_FAILED;
    }
    p = said.packs.items;
    printf("%-24s %-8s %-6s %7s %12s\n", "pack", "kind", "tiles", "zooms", "bytes");
    for (size_t i = 0; i < said.packs.count; i++) {
        char zooms[48];

        (void)snprintf(zooms, sizeof zooms, "%" PRIu64 "-%" PRIu64, p[i].zoom_min, p[i].zoom_max);
        printf("%-24.*s %-8.*s %-6.*s %7s %12" PRIu64 "\n", (int)p[i].name.len, p[i].name.ptr,
               (int)p[i].kind.len, p[i].kind.ptr, (int)p[i].tiles.len, p[i].tiles.ptr, zooms,
               p[i].bytes);
    }
    ron_arena_done(&arena);
    return CLI_OK;
}

int cli_edge_packs(int argc, char **argv)
{
    struct cli_client c = {0};
    struct cli_answer a = {0};
    bool done = false;
    const struct cli_option options[] = {CLI_CLIENT_OPTIONS(&c)};
    int code = cli_parse("edge packs",
                         "Lists the packs that the running edge serves.\n"
                         "\nexample:\n  ron edge packs",
                         options, RON_ARRAY_LEN(options), argc, argv, &done);

    if (code != CLI_OK || done) {
        return code;
    }
    code = cli_client_open(&c, "edge packs");
    if (code == CLI_OK) {
        code = cli_call(
            &c,
            &(struct cli_call){
                .service = "edge", .path = "/edge/packs", .method = RON_HTTP_GET, .no_token = true},
            &a);
    }
    if (code == CLI_OK) {
        code = c.json ? cli_print_body(&c, &a) : print_packs(&a);
    }
    cli_answer_done(&a);
    cli_client_done(&c);
    return code;
}

/* ---- purge and link -------------------------------------------------------------------------- */

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
        CLI_FLAG("prefix", "PATH is a prefix; remove all paths below it", &prefix),
        CLI_CLIENT_OPTIONS(&c),
    };
    int code = cli_parse_words(
        "edge purge",
        "Removes the cached responses of a path, or content by its id, from the running edge.\n"
        "The next request fetches them from the origin. Packs and files are not affected.\n"
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
        fprintf(stderr, "ron edge purge: path too long\n");
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
        CLI_FLAG("read-only", "read-only session", &read_only),
        CLI_CLIENT_OPTIONS(&c),
    };
    int code = cli_parse("console link",
                         "Creates a link that opens the console in a browser. It is valid once.\n"
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
