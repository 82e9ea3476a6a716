/* SPDX-License-Identifier: Apache-2.0 */
/* cli/up/setup.c - what `ron up` makes and checks before anything runs.
 *
 *     DATA/up.lock            held while `ron up` runs
 *     DATA/ron.json           which ledger this directory belongs to
 *     DATA/run.json           where everything is, while it runs
 *     DATA/cap.keys           root keys of all capabilities
 *     DATA/operator.token     what the command line shows to the services
 *     DATA/tokens/            what services show to each other
 *     DATA/keys/              Ed25519: attest.key signs runs of the rewarder, board.key policies;
 *                             secrets of the demo's webhooks
 *     DATA/ledger, rewarder, edge, interop, packs, files, run, log
 *
 * Every message says what is wrong and what to do. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/base/cli.h"
#include "cli/base/hook.h"
#include "cli/base/system.h"
#include "cli/up/up.h"
#include "edge/offline/tool.h"
#include "rewarder/offline/tool.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/base/macros.h"
#include "ron/cap/cap.h"
#include "ron/io/linux_env.h"
#include "ron/merkle/note_key.h"

enum {
    TOKEN_DAYS = 365,
    TOKEN_LEFT_DAYS = 30, /* a token with less is replaced by the next start */
    DAY_S = 86400,
    PORT_WAIT_MS = 6000, /* a former run that was killed drains for at most 5 s */
    PORT_LOOK_MS = 50,
    SECRET_BYTES = 32, /* of a demo provider, as hexadecimal digits */
};

static int wrong(const char *what, const char *todo)
{
    fprintf(stderr, "ron up: %s\n  %s\n", what, todo);
    return CLI_FAILED;
}

static const char *path_in(const struct up *up, const char *name, char *room)
{
    int n = snprintf(room, RON_FILE_PATH_SIZE, "%s/%s", up->data, name);

    RON_ASSERT(n > 0 && n < RON_FILE_PATH_SIZE); /* up_setup_data has seen that there is room */
    return room;
}

/* ---- directory ------------------------------------------------------------------------------- */

static int not_writable(const struct up *up, const struct ron_err *err)
{
    char what[RON_ERR_MSG_SIZE + 128];

    (void)snprintf(what, sizeof what, "cannot use data directory %s: %s", up->opts.data, err->msg);
    return wrong(what, "choose another with --data, or fix its owner");
}

static int take_lock(struct up *up)
{
    char path[RON_FILE_PATH_SIZE];
    struct ron_err err = {0};
    enum ron_rc rc;

    rc = up->env->disk->open(up->env, path_in(up, "up.lock", path),
                             RON_OPEN_WRITE | RON_OPEN_CREATE, 0600, &up->lock_fd, &err);
    if (rc != RON_OK) {
        return not_writable(up, &err);
    }
    if (up->env->disk->lock(up->env, up->lock_fd, &err) != RON_OK) {
        struct cli_system sys;
        char what[RON_FILE_PATH_SIZE + 96];

        if (cli_system_read(up->data, &sys) == RON_OK) {
            (void)snprintf(what, sizeof what, "already running on %s as process %" PRId32, up->data,
                           sys.pid);
        } else {
            (void)snprintf(what, sizeof what, "another process holds %s", path);
        }
        up->env->disk->close(up->env, up->lock_fd);
        up->lock_fd = -1; /* the run file is that of the other */
        return wrong(what,
                     "check with `ron status`, stop with `ron down`; for a second instance give "
                     "another --data and --port-base");
    }
    return CLI_OK;
}

static int read_identity(struct up *up)
{
    struct identity {
        struct ron_str ledger_uuid;
        uint64_t present;
    } id = {0};
    static const struct ron_json_field fields[] = {
        RON_JSON_FIELD(struct identity, ledger_uuid, STRING, .required = true, .max = 39),
    };
    struct ron_json_shape shape = RON_JSON_SHAPE(struct identity, fields, present);
    char path[RON_FILE_PATH_SIZE];
    struct ron_json_error bad;
    struct ron_err err = {0};
    struct ron_buf text;
    enum ron_rc rc;
    int code = CLI_OK;

    shape.allow_unknown = true;
    ron_buf_init(&text, UP_RUN_FILE_MAX);
    rc = ron_file_read_all(up->env, path_in(up, "ron.json", path), &text, &err);
    if (rc == RON_OK) {
        char *bytes = (char *)(uintptr_t)ron_buf_text(&text);

        if (ron_json_scan(bytes, ron_buf_len(&text), &shape, NULL, &id, &bad) == RON_OK) {
            memcpy(up->uuid, id.ledger_uuid.ptr, id.ledger_uuid.len);
        } else {
            code = wrong("ron.json in the data directory is corrupt",
                         "it names the ledger of this directory; restore it from a backup, or "
                         "remove it to adopt the present ledger");
        }
    } else if (rc != RON_NOTFOUND) {
        code = not_writable(up, &err);
    }
    ron_buf_done(&text);
    return code;
}

int up_setup_data(struct up *up)
{
    static const char *const folders[] = {"tokens", "keys", "packs", "files", "run", "log"};
    struct ron_err err = {0};
    char real[PATH_MAX];
    uint64_t free_bytes = 0;
    int code;

    if (ron_mkdirs(up->env, up->opts.data, 0700, &err) != RON_OK) {
        return not_writable(up, &err);
    }
    if (realpath(up->opts.data, real) == NULL || strlen(real) + 64 > sizeof up->data) {
        return wrong("path of the data directory too long", "choose a shorter --data DIR");
    }
    memcpy(up->data, real, strlen(real) + 1);
    code = take_lock(up);
    if (code == CLI_OK) {
        code = read_identity(up);
    }
    for (size_t i = 0; code == CLI_OK && i < RON_ARRAY_LEN(folders); i++) {
        char path[RON_FILE_PATH_SIZE];

        if (ron_mkdirs(up->env, path_in(up, folders[i], path), 0700, &err) != RON_OK) {
            code = not_writable(up, &err);
        }
    }
    if (code == CLI_OK && up->env->disk->free_bytes(up->env, up->data, &free_bytes) == RON_OK &&
        free_bytes < (uint64_t)UP_DOCTOR_FREE_MIB << 20) {
        char what[128];

        (void)snprintf(what, sizeof what, "disk space: %" PRIu64 " MiB free, %d MiB required",
                       free_bytes >> 20, UP_DOCTOR_FREE_MIB);
        code = wrong(what, "free some space, or choose another disk with --data");
    }
    return code;
}

void up_setup_done(struct up *up)
{
    char path[RON_FILE_PATH_SIZE];
    struct ron_err err = {0};

    if (up->lock_fd < 0) {
        return;
    }
    RON_IGNORE(up->env->disk->remove(up->env, path_in(up, "run.json", path), &err)); /* or none */
    up->env->disk->close(up->env, up->lock_fd);
    up->lock_fd = -1;
}

/* ---- keys and tokens ------------------------------------------------------------------------- */

static int bad_key(const struct up *up, const char *name, enum ron_rc rc, const struct ron_err *err,
                   const char *voids)
{
    char what[RON_ERR_MSG_SIZE + 64];
    char todo[2 * RON_FILE_PATH_SIZE + 512];

    (void)snprintf(what, sizeof what, "cannot use key file %s: %s", name, err->msg);
    if (rc == RON_DENIED) {
        (void)snprintf(todo, sizeof todo, "run: chmod 0600 %s/%s", up->data, name);
    } else {
        (void)snprintf(todo, sizeof todo,
                       "restore it from a backup, or move it away: mv %s/%s %s/%s.bad; the next "
                       "start creates a new one, and %s",
                       up->data, name, up->data, name, voids);
    }
    return wrong(what, todo);
}

static int load_cap_keys(struct up *up, struct ron_cap_keys **ret_keys)
{
    static const char voids[] = "tokens minted with the old keys become invalid";
    char path[RON_FILE_PATH_SIZE];
    struct ron_err err = {0};
    enum ron_rc rc;

    rc = ron_cap_keyfile_load(up->env, path_in(up, "cap.keys", path), ret_keys, &err);
    if (rc == RON_NOTFOUND) {
        struct ron_cap_key_info info;

        rc = ron_cap_keyfile_add(up->env, path, (struct ron_str){"k1", 2}, &info, &err);
        if (rc == RON_OK) {
            rc = ron_cap_keyfile_load(up->env, path, ret_keys, &err);
        }
    }
    return rc == RON_OK ? CLI_OK : bad_key(up, "cap.keys", rc, &err, voids);
}

/* Whether a token is limited to exactly these scopes; NULL: to none. */
static bool has_scope(const char *text, size_t len, const char *scope)
{
    struct ron_cap_token t;
    struct ron_cap_caveat c;
    bool found = scope == NULL;

    if (ron_cap_token_read(text, len, &t) != RON_CAP_OK) {
        return false;
    }
    for (size_t i = 0; i < t.caveat_count; i++) {
        struct ron_str one = ron_cap_str(&t, t.caveats[i]);

        if (ron_cap_caveat_parse(one.ptr, one.len, &c) == RON_CAP_OK &&
            c.kind == RON_CAP_KIND_SCOPE) {
            if (scope == NULL || c.value.len != strlen(scope) ||
                memcmp(c.value.ptr, scope, c.value.len) != 0) {
                return false;
            }
            found = true;
        }
    }
    return found;
}

/* Whether the token in the file is good for long enough under these keys, and for what it is for:
 * a program that gives away less replaces a token that an older one made. Fills `text` (with a
 * NUL). */
static bool token_good(const struct up *up, const char *path, const char *scope,
                       const struct ron_cap_keys *keys, char *text, size_t size)
{
    struct ron_err err = {0};
    struct ron_cap_info info = {0};
    struct ron_cap_request any = {0};
    size_t len = 0;

    if (ron_file_read_private(up->env, path, text, size - 1, &len, &err) != RON_OK) {
        return false;
    }
    while (len > 0 && text[len - 1] == '\n') {
        len--;
    }
    text[len] = '\0';
    if (ron_cap_verify_signature(keys, (struct ron_str){text, len}) != RON_CAP_OK ||
        !has_scope(text, len, scope)) {
        return false;
    }
    any.now_ms = ron_env_wall_ms(up->env);
    /* For when it ends: that is told whatever the caveats say. */
    RON_IGNORE(ron_cap_verify(keys, (struct ron_str){text, len}, &any, &info));
    return info.exp_s > any.now_ms / RON_MS_PER_S + (uint64_t)TOKEN_LEFT_DAYS * DAY_S;
}

static enum ron_rc make_token(const struct up *up, const char *path, const char *aud,
                              const char *scope, const struct ron_cap_keys *keys, char *text,
                              size_t size, struct ron_err *err)
{
    char caveats[3][RON_CAP_CAVEAT_MAX + 1];
    struct ron_str list[3];
    size_t count = 0;
    struct ron_buf out;

    (void)snprintf(caveats[count++], sizeof caveats[0], "exp = %" PRIu64,
                   ron_env_wall_ms(up->env) / RON_MS_PER_S + (uint64_t)TOKEN_DAYS * DAY_S);
    if (aud != NULL) {
        (void)snprintf(caveats[count++], sizeof caveats[0], "aud = %s", aud);
    }
    if (scope != NULL) {
        (void)snprintf(caveats[count++], sizeof caveats[0], "scope = %s", scope);
    }
    for (size_t i = 0; i < count; i++) {
        list[i] = (struct ron_str){caveats[i], strlen(caveats[i])};
    }
    ron_buf_init_over(&out, text, size);
    RON_TRY(ron_cap_mint(keys, up->env,
                         &(struct ron_cap_mint_opts){.caveats = list, .caveat_count = count}, &out,
                         err));
    (void)ron_buf_text(&out);
    return ron_file_replace(up->env, path, text, ron_buf_len(&out), 0600, err);
}

/* What each file under DATA may be used for. */
static const struct {
    const char *name;
    const char *aud;
    const char *scope;
} tokens[] = {
    {"operator.token", NULL, NULL},
    {"tokens/wallet", "ledger", "ledger.mint,ledger.burn,ledger.transfer,ledger.hold,ledger.read"},
    {"tokens/rewarder", "ledger", "ledger.mint,ledger.transfer,ledger.read"},
    {"tokens/interop", "wallet", "wallet.issue,wallet.transfer,wallet.read"},
    /* What its pages read; packs and topologies need no capability. */
    {"tokens/console", NULL,
     "ledger.read,wallet.read,rewarder.inspect,interop.inspect,mailbox.inspect"},
    {"tokens/console-write", "wallet", "wallet.issue,wallet.transfer,wallet.burn"},
};

static int make_tokens(struct up *up, const struct ron_cap_keys *keys)
{
    char text[sizeof up->token];

    for (size_t i = 0; i < RON_ARRAY_LEN(tokens); i++) {
        char path[RON_FILE_PATH_SIZE];
        struct ron_err err = {0};

        path_in(up, tokens[i].name, path);
        if (!token_good(up, path, tokens[i].scope, keys, text, sizeof text) &&
            make_token(up, path, tokens[i].aud, tokens[i].scope, keys, text, sizeof text, &err) !=
                RON_OK) {
            return not_writable(up, &err);
        }
        if (i == 0) {
            memcpy(up->token, text, strlen(text) + 1);
        }
    }
    return CLI_OK;
}

/* A signing key of the rewarder: made when missing. Its public half goes to `ret_hex`. */
static int signing_key(struct up *up, const char *name, const char *id, char *ret_hex, size_t size)
{
    static const char voids[] = "signatures of the old key are no longer accepted";
    char path[RON_FILE_PATH_SIZE];
    struct ron_err err = {0};
    struct ron_file_stat st;
    struct ron_buf out;
    const char *at;
    enum ron_rc rc;

    path_in(up, name, path);
    ron_buf_init(&out, 4096);
    rc = up->env->disk->stat(up->env, path, &st) == RON_NOTFOUND
             ? rwd_tool_key_new(path, id, &out, &err)
             : rwd_tool_key_show(path, &out, &err);
    at = rc == RON_OK ? strstr(ron_buf_text(&out), "public key") : NULL;
    if (at != NULL) {
        at += strlen("public key");
        at += strspn(at, " ");
        (void)snprintf(ret_hex, size, "%.*s", (int)strspn(at, "0123456789abcdef"), at);
    }
    ron_buf_done(&out);
    return rc == RON_OK ? CLI_OK : bad_key(up, name, rc, &err, voids);
}

/* The ledger makes its key at its first start; one that is damaged or gone later must come back. */
static int ledger_key(struct up *up)
{
    char path[RON_FILE_PATH_SIZE];
    struct ron_note_signer signer;
    struct ron_file_stat st;
    struct ron_err err = {0};
    enum ron_rc rc;

    if (up->opts.config != NULL) {
        return CLI_OK; /* it may say where the key is */
    }
    rc = ron_note_signer_load(up->env, path_in(up, UP_SIGNING_KEY, path), &signer, &err);
    if (rc == RON_OK) {
        ron_note_signer_done(&signer);
        return CLI_OK;
    }
    if (rc == RON_NOTFOUND &&
        up->env->disk->stat(up->env, path_in(up, "ledger/checkpoint", path), &st) != RON_OK) {
        return CLI_OK;
    }
    if (rc == RON_DENIED) {
        return bad_key(up, UP_SIGNING_KEY, rc, &err, "");
    }
    {
        char what[RON_ERR_MSG_SIZE + 64];

        (void)snprintf(what, sizeof what, "cannot use key file %s: %s", UP_SIGNING_KEY, err.msg);
        return wrong(what,
                     "restore it from a backup: it signed the ledger's checkpoint, and no other "
                     "key can extend it");
    }
}

/* The secret of a provider that `ron demo` and `ron webhook send` imitate. It guards nothing but
 * the demo, so a corrupt one is replaced. */
static int demo_secret(struct up *up, const char *provider)
{
    char name[64];
    char path[RON_FILE_PATH_SIZE];
    char text[2 * SECRET_BYTES + 2];
    struct ron_err err = {0};
    size_t len = 0;

    (void)snprintf(name, sizeof name, "keys/%s.secret", provider);
    path_in(up, name, path);
    if (ron_file_read_private(up->env, path, text, sizeof text - 1, &len, &err) == RON_OK &&
        len == 2 * SECRET_BYTES + 1) {
        return CLI_OK;
    }
    for (size_t i = 0; i < SECRET_BYTES; i += sizeof(uint64_t)) {
        (void)snprintf(text + 2 * i, sizeof text - 2 * i, "%016" PRIx64 "\n",
                       up->env->rand_u64(up->env));
    }
    return ron_file_replace(up->env, path, text, strlen(text), 0600, &err) == RON_OK
               ? CLI_OK
               : not_writable(up, &err);
}

int up_setup_keys(struct up *up)
{
    struct ron_cap_keys *keys = NULL;
    int code = load_cap_keys(up, &keys);

    if (code == CLI_OK) {
        code = make_tokens(up, keys);
    }
    ron_cap_keys_unref(keys);
    if (code == CLI_OK) {
        code =
            signing_key(up, "keys/attest.key", "rewarder", up->attest_key, sizeof up->attest_key);
    }
    if (code == CLI_OK) {
        code = signing_key(up, "keys/board.key", "board", up->board_key, sizeof up->board_key);
    }
    if (code == CLI_OK) {
        code = ledger_key(up);
    }
    if (code == CLI_OK) {
        code = demo_secret(up, CLI_HOOK_GITHUB);
    }
    if (code == CLI_OK) {
        code = demo_secret(up, CLI_HOOK_STRIPE);
    }
    return code;
}

/* ---- packs ----------------------------------------------------------------------------------- */

static bool any_file(void *arg, const char *name, bool is_dir)
{
    (void)name;
    *(bool *)arg = *(bool *)arg || !is_dir;
    return true;
}

/* The first start writes the sample map; it does not come back after it was removed. */
int up_setup_packs(struct up *up)
{
    char path[RON_FILE_PATH_SIZE];
    struct ron_err err = {0};
    struct ron_buf out;
    bool any = false;
    enum ron_rc rc;

    if (!up->services[UP_EDGE].on) {
        return CLI_OK;
    }
    rc = up->env->disk->list(up->env, path_in(up, "packs", path), any_file, &any, &err);
    if (rc == RON_OK && !any) {
        ron_buf_init(&out, EDG_TOOL_REPORT_MAX);
        rc = edg_tool_sample(path_in(up, "packs/world.pmtiles", path), &out, &err);
        ron_buf_done(&out);
    }
    return rc == RON_OK ? CLI_OK : not_writable(up, &err);
}

/* ---- ports ----------------------------------------------------------------------------------- */

static enum ron_rc try_port(const struct up *up, const char *addr, struct ron_err *err)
{
    int fd = -1;

    RON_TRY(up->env->net->listen(up->env, addr, NULL, &fd, err));
    up->env->net->close(up->env, fd);
    return RON_OK;
}

int up_setup_ports(struct up *up)
{
    uint64_t end_ns = ron_env_now_ns(up->env) + (uint64_t)PORT_WAIT_MS * RON_NS_PER_MS;
    struct cli_system old;
    /* The lock is ours, so a run file is that of a run that was killed; its services may drain. */
    bool killed = cli_system_read(up->data, &old) == RON_OK;

    for (int i = 0; i < UP_SERVICE_COUNT; i++) {
        struct up_service *s = &up->services[i];
        struct ron_err err = {0};
        uint64_t port = up->opts.port_base + s->row->port_offset;
        enum ron_rc rc;

        (void)snprintf(s->addr, sizeof s->addr, "127.0.0.1:%" PRIu64, port);
        (void)snprintf(s->url, sizeof s->url, "http://127.0.0.1:%" PRIu64, port);
        if (!s->on) {
            continue;
        }
        rc = try_port(up, s->addr, &err);
        while (rc == RON_EXISTS && killed && ron_env_now_ns(up->env) < end_ns) {
            (void)ron_park_until(ron_deadline_after_ms(ron_env_now_ns(up->env), PORT_LOOK_MS),
                                 "a former run");
            rc = try_port(up, s->addr, &err);
        }
        if (rc != RON_OK) {
            char what[RON_ERR_MSG_SIZE + 96];
            char todo[192];

            (void)snprintf(what, sizeof what, "port %" PRIu64 " for %s: %s", port, s->row->name,
                           rc == RON_EXISTS ? "already in use" : err.msg);
            (void)snprintf(
                todo, sizeof todo,
                "stop the process that uses it (find it with `ss -ltnp 'sport = :%" PRIu64
                "'`), or move all ports: --port-base %" PRIu64,
                port, up->opts.port_base + 1000);
            return wrong(what, todo);
        }
    }
    if (killed) {
        fprintf(stderr, "ron up: the last run was not shut down cleanly; recovering\n");
    }
    return CLI_OK;
}
