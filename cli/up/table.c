/* SPDX-License-Identifier: Apache-2.0 */
/* cli/up/table.c - the services that `ron up` starts, and the command line of each.
 *
 * A service runs in DATA, so its paths are relative to that. To add one: a row in UP_SERVICES and
 * a function below. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli/base/cli.h"
#include "cli/base/hook.h"
#include "cli/up/up.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/base/macros.h"
#include "ron/base/nearest.h"
#include "ron/conf/toml.h"
#include "ron/io/file.h"

enum {
    UNIX_PATH_MAX = 100, /* uds.path and RON_ADDR_MAX allow so much */
    OAP_OFFSET = 210,    /* from --port-base */
};

const struct up_row up_rows[UP_SERVICE_COUNT] = {
#define X(id, name, port, stage, after) {name, port, stage, after},
    UP_SERVICES(X)
#undef X
};

const char *up_state_name(enum up_state state)
{
    static const char *const names[] = {
#define X(id, text) text,
        UP_STATES(X)
#undef X
    };

    return names[state];
}

/* ---- which ----------------------------------------------------------------------------------- */

static int choose_one(struct up *up, const char *name, size_t len)
{
    const char *names[UP_SERVICE_COUNT];
    char word[RON_NEAREST_WORD_MAX + 1];
    const char *near;

    for (int i = 0; i < UP_SERVICE_COUNT; i++) {
        names[i] = up_rows[i].name;
        if (strlen(names[i]) == len && strncmp(names[i], name, len) == 0) {
            if (cli_verb_find(names[i]) == NULL) {
                fprintf(stderr, "ron up: service '%s' is not part of this program\n", names[i]);
                return CLI_USAGE;
            }
            up->services[i].on = true;
            return CLI_OK;
        }
    }
    (void)snprintf(word, sizeof word, "%.*s", (int)RON_MIN(len, (size_t)RON_NEAREST_WORD_MAX),
                   name);
    near = ron_nearest(word, names, UP_SERVICE_COUNT);
    fprintf(stderr, "ron up: unknown service '%s' in --only%s%s%s\n", word,
            near != NULL ? "; did you mean '" : "", near != NULL ? near : "",
            near != NULL ? "'?" : "");
    return CLI_USAGE;
}

int up_choose(struct up *up)
{
    const char *at = up->opts.only;

    for (int i = 0; i < UP_SERVICE_COUNT; i++) {
        up->services[i].magic = UP_SERVICE_MAGIC;
        up->services[i].up = up;
        up->services[i].row = &up_rows[i];
        up->services[i].on = at == NULL && cli_verb_find(up_rows[i].name) != NULL;
        up->services[i].child.pid_fd = -1;
        up->services[i].child.out_fd = -1;
    }
    while (at != NULL && *at != '\0') {
        size_t len = strcspn(at, ",");
        int code = choose_one(up, at, len);

        if (code != CLI_OK) {
            return code;
        }
        at += len + (at[len] == ',');
    }
    for (int i = 0; i < UP_SERVICE_COUNT; i++) {
        if (up->services[i].on && up_rows[i].after_ledger) {
            up->services[UP_LEDGER].on = true;
        }
    }
    return CLI_OK;
}

/* ---- command lines --------------------------------------------------------------------------- */

void up_argv_done(struct up_argv *argv)
{
    ron_free(argv->bytes);
    *argv = (struct up_argv){0};
}

/* Where the value of `--key=value` begins, or the length. */
static size_t key_len(const char *text)
{
    const char *sign = strchr(text, '=');

    return sign != NULL ? (size_t)(sign - text) + 1 : strlen(text);
}

bool up_argv_add(struct up_argv *argv, const char *fmt, ...)
{
    char *to = argv->bytes + argv->used;
    size_t room = UP_ARGS_BYTES - argv->used;
    size_t at = argv->count;
    va_list args;
    size_t key;
    int n;

    va_start(args, fmt);
    n = vsnprintf(to, room, fmt, args);
    va_end(args);
    if (n < 0 || (size_t)n >= room || argv->count == UP_ARGS_MAX) {
        return false;
    }
    key = key_len(to);
    for (size_t i = 2; i < argv->count; i++) {
        if (key_len(argv->args[i]) == key && strncmp(argv->args[i], to, key) == 0) {
            at = i;
        }
    }
    argv->args[at] = to;
    argv->count += at == argv->count;
    argv->used += (size_t)n + 1;
    return true;
}

static bool has(const struct up *up, enum up_id id)
{
    return up->services[id].on;
}

/* Where the ledger takes calls of services: a socket that only we may use, or, where the path of
 * one would be too long for the system, a port of loopback. */
static bool add_ledger_addr(const struct up *up, struct up_argv *a, const char *key)
{
    static const char name[] = "run/ledger.sock";

    if (strlen(up->data) + sizeof name + 1 > UNIX_PATH_MAX) {
        return up_argv_add(a, "--%s=127.0.0.1:%" PRIu64, key, up->opts.port_base + OAP_OFFSET);
    }
    return up_argv_add(a, "--%s=unix:%s/%s", key, up->data, name);
}

static bool ledger_args(const struct up *up, struct up_argv *a)
{
    return up_argv_add(a, "--engine.data_dir=ledger") &&
           up_argv_add(a, "--engine.segment_bytes=16MiB") &&
           up_argv_add(a, "--auth.key_file=cap.keys") && add_ledger_addr(up, a, "oap.addr");
}

static bool upstream_args(const struct up *up, struct up_argv *a, const char *name)
{
    return up_argv_add(a, "--auth.key_file=cap.keys") &&
           add_ledger_addr(up, a, "upstreams.ledger_addr") &&
           up_argv_add(a, "--upstreams.ledger_token_file=tokens/%s", name);
}

static bool wallet_args(const struct up *up, struct up_argv *a)
{
    return upstream_args(up, a, "wallet");
}

static bool rewarder_args(const struct up *up, struct up_argv *a)
{
    return upstream_args(up, a, "rewarder") && up_argv_add(a, "--rewarder.dir=rewarder") &&
           up_argv_add(a, "--rewarder.policy_keys=board=%s", up->board_key) &&
           up_argv_add(a, "--rewarder.attest_key_file=keys/attest.key");
}

#define PACK_LIST_MAGIC 0x4355504bu /* "CUPK" */

struct pack_list {
    uint32_t magic;
    struct ron_buf text;
};

/* NAME=packs/FILE for each pack, joined by commas. */
static bool add_pack(void *arg, const char *name, bool is_dir)
{
    struct pack_list *list = RON_OBJ(arg, struct pack_list, PACK_LIST_MAGIC);
    const char *dot = strrchr(name, '.');

    if (!is_dir && dot != NULL && dot != name &&
        (strcmp(dot, ".pmtiles") == 0 || strcmp(dot, ".mbtiles") == 0)) {
        ron_buf_append_fmt(&list->text, "%s%.*s=packs/%s", ron_buf_len(&list->text) > 0 ? "," : "",
                           (int)(dot - name), name, name);
    }
    return true;
}

static bool edge_args(const struct up *up, struct up_argv *a)
{
    struct pack_list list = {.magic = PACK_LIST_MAGIC};
    char path[RON_FILE_PATH_SIZE + 8];
    struct ron_err err = {0};
    bool ok = up_argv_add(a, "--edge.dir=edge") && up_argv_add(a, "--edge.files_dir=files") &&
              up_argv_add(a, "--auth.key_file=cap.keys");

    ron_buf_init(&list.text, UP_ARGS_BYTES / 2);
    (void)snprintf(path, sizeof path, "%s/packs", up->data);
    if (up->env->disk->list(up->env, path, add_pack, &list, &err) == RON_OK &&
        ron_buf_len(&list.text) > 0) {
        ok = ok && up_argv_add(a, "--edge.packs=%s", ron_buf_text(&list.text));
    }
    ron_buf_done(&list.text);
    return ok;
}

static bool demo_provider(struct up_argv *a, const char *name)
{
    return up_argv_add(a, "--providers.%s.enabled=true", name) &&
           up_argv_add(a, "--providers.%s.kind=%s", name, cli_hook_kind(name)) &&
           up_argv_add(a, "--providers.%s.secret_file=keys/%s.secret", name, name);
}

/* A payment that the demo's Stripe tells of becomes credits of the user that it names. */
static bool demo_rule(struct up_argv *a)
{
    return up_argv_add(a, "--rules.demo_credits.provider=" CLI_HOOK_STRIPE) &&
           up_argv_add(a, "--rules.demo_credits.events=payment_intent.succeeded") &&
           up_argv_add(a, "--rules.demo_credits.when=/data/object/metadata/user exists") &&
           up_argv_add(a, "--rules.demo_credits.action=wallet") &&
           up_argv_add(a, "--rules.demo_credits.op=issue") &&
           up_argv_add(a, "--rules.demo_credits.to={/data/object/metadata/user}") &&
           up_argv_add(a, "--rules.demo_credits.asset=roc") &&
           up_argv_add(a, "--rules.demo_credits.amount={/data/object/amount_received}");
}

static bool interop_args(const struct up *up, struct up_argv *a)
{
    bool ok = up_argv_add(a, "--auth.key_file=cap.keys") && up_argv_add(a, "--interop.dir=interop");

    ok = ok && demo_provider(a, CLI_HOOK_GITHUB) && demo_provider(a, CLI_HOOK_STRIPE);
    if (ok && has(up, UP_WALLET)) {
        ok = up_argv_add(a, "--wallet.url=%s", up->services[UP_WALLET].url) &&
             up_argv_add(a, "--wallet.token_file=tokens/interop") && demo_rule(a);
    }
    return ok;
}

static bool console_args(const struct up *up, struct up_argv *a)
{
    bool ok = up_argv_add(a, "--auth.key_file=cap.keys") &&
              up_argv_add(a, "--services.wallet.write_token_file=tokens/console-write");

    for (int i = 0; ok && i < UP_CONSOLE; i++) {
        if (has(up, (enum up_id)i)) {
            ok = up_argv_add(a, "--services.%s.url=%s", up_rows[i].name, up->services[i].url) &&
                 up_argv_add(a, "--services.%s.token_file=tokens/console", up_rows[i].name);
        }
    }
    return ok;
}

void up_table_verifier(struct up *up, const char *vkey)
{
    static const char key[] = "--services.ledger.verifier_key=";
    struct up_argv *a = &up->services[UP_CONSOLE].argv;

    for (size_t i = 0; i < a->count; i++) {
        if (strncmp(a->args[i], key, sizeof key - 1) == 0) {
            return; /* of --config, or of an earlier look */
        }
    }
    if (up->services[UP_CONSOLE].on) {
        RON_IGNORE(up_argv_add(a, "%s%s", key, vkey)); /* without it the page asks for it */
    }
}

static bool own_args(const struct up *up, enum up_id id, struct up_argv *a)
{
    static bool (*const makers[UP_SERVICE_COUNT])(const struct up *, struct up_argv *) = {
        [UP_LEDGER] = ledger_args, [UP_WALLET] = wallet_args,   [UP_REWARDER] = rewarder_args,
        [UP_EDGE] = edge_args,     [UP_INTEROP] = interop_args, [UP_CONSOLE] = console_args,
    };

    return makers[id](up, a);
}

static bool build(struct up *up, struct up_service *s, enum up_id id)
{
    struct up_argv *a = &s->argv;

    a->bytes = ron_alloc(UP_ARGS_BYTES);
    if (a->bytes == NULL) {
        return false;
    }
    /* The rate is for strangers; here all clients are people of this machine, and a queue that is
     * full still says so. */
    return up_argv_add(a, "%s", up->program) && up_argv_add(a, "%s", s->row->name) &&
           up_argv_add(a, "--bind_addr=%s", s->addr) &&
           up_argv_add(a, "--log.level=%s", up->shown == UP_DEBUG ? "debug" : "info") &&
           up_argv_add(a, "--limits.rate_per_second=20000") &&
           up_argv_add(a, "--limits.burst=20000") && own_args(up, id, a);
}

/* ---- the file of --config -------------------------------------------------------------------- */

static bool add_value(struct up_argv *a, const char *key, const struct ron_toml_value *v);

static bool add_array(struct up_argv *a, const char *key, const struct ron_toml_value *v)
{
    struct ron_buf text;
    bool ok = true;

    ron_buf_init(&text, UP_ARGS_BYTES / 2);
    for (const struct ron_toml_value *e = v->first; ok && e != NULL; e = e->next) {
        ok = e->type == RON_TOML_STRING && strchr(e->string.text, ',') == NULL;
        if (ok) {
            ron_buf_append_fmt(&text, "%s%s", e == v->first ? "" : ",", e->string.text);
        }
    }
    ok =
        ok && ron_buf_error(&text) == RON_OK && up_argv_add(a, "--%s=%s", key, ron_buf_text(&text));
    ron_buf_done(&text);
    return ok;
}

static bool add_table(struct up_argv *a, const char *prefix, const struct ron_toml_value *table)
{
    for (const struct ron_toml_value *v = table->first; v != NULL; v = v->next) {
        char key[256];
        int n = snprintf(key, sizeof key, "%s%s%s", prefix, prefix[0] != '\0' ? "." : "", v->key);

        if (n < 0 || (size_t)n >= sizeof key || !add_value(a, key, v)) {
            return false;
        }
    }
    return true;
}

static bool add_value(struct up_argv *a, const char *key, const struct ron_toml_value *v)
{
    switch (v->type) {
    case RON_TOML_TABLE:
        return add_table(a, key, v);
    case RON_TOML_ARRAY:
        return add_array(a, key, v);
    case RON_TOML_STRING:
        return up_argv_add(a, "--%s=%s", key, v->string.text);
    case RON_TOML_INTEGER:
        return up_argv_add(a, "--%s=%" PRId64, key, v->integer);
    case RON_TOML_BOOL:
        return up_argv_add(a, "--%s=%s", key, v->boolean ? "true" : "false");
    case RON_TOML_FLOAT:
    case RON_TOML_DATETIME:
    case RON_TOML_LOCAL_DATETIME:
    case RON_TOML_LOCAL_DATE:
    case RON_TOML_LOCAL_TIME:
        return false; /* no setting is of such a type */
    }
    return false;
}

static int apply(struct up *up, const struct ron_toml_value *root)
{
    for (const struct ron_toml_value *v = root->first; v != NULL; v = v->next) {
        int i = 0;

        while (i < UP_SERVICE_COUNT && strcmp(up_rows[i].name, v->key) != 0) {
            i++;
        }
        if (i == UP_SERVICE_COUNT || v->type != RON_TOML_TABLE) {
            fprintf(stderr,
                    "ron up: %s: unknown section '%s'; expected [ledger], "
                    "[wallet], [rewarder], [edge], [interop], [console]\n",
                    up->opts.config, v->key);
            return CLI_USAGE;
        }
        if (up->services[i].on && !add_table(&up->services[i].argv, "", v)) {
            fprintf(stderr,
                    "ron up: %s: unsupported setting in [%s]: too many settings, too long, a "
                    "date, or a list item with a comma\n",
                    up->opts.config, v->key);
            return CLI_USAGE;
        }
    }
    return CLI_OK;
}

static int read_config(struct up *up)
{
    struct ron_toml *doc = NULL;
    struct ron_err err = {0};
    struct ron_buf text;
    int code = CLI_USAGE;

    ron_buf_init(&text, RON_TOML_BYTES_MAX);
    if (ron_file_read_all(up->env, up->opts.config, &text, &err) != RON_OK ||
        ron_toml_parse(up->opts.config, ron_buf_text(&text), ron_buf_len(&text), &doc, &err) !=
            RON_OK) {
        fprintf(stderr, "ron up: %s\n", err.msg);
    } else {
        code = apply(up, ron_toml_root(doc));
    }
    ron_toml_free(doc);
    ron_buf_done(&text);
    return code;
}

int up_command_lines(struct up *up)
{
    for (int i = 0; i < UP_SERVICE_COUNT; i++) {
        if (up->services[i].on && !build(up, &up->services[i], (enum up_id)i)) {
            fprintf(stderr, "ron up: command line of %s too long\n", up_rows[i].name);
            return CLI_FAILED;
        }
    }
    return up->opts.config == NULL ? CLI_OK : read_config(up);
}
