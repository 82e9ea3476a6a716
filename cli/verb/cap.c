/* SPDX-License-Identifier: Apache-2.0 */
/* cli/verb/cap.c - `ron cap`: keys and capability tokens.
 *
 * A token is a secret, and arguments are seen by every user of the machine (ps). So tokens come
 * from standard input or a file and go to standard output or a private file; there is no option
 * that takes one. Messages never show one. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/base/cli.h"
#include "cli/verb/cap_files.h"
#include "ron/base/macros.h"
#include "ron/base/str.h"
#include "ron/cap/cap.h"
#include "ron/io/file.h"
#include "ron/io/linux_env.h"

#define KEYS_DEFAULT "ron-data/cap.keys"
#define TTL_DEFAULT "1h"
#define CLI_WORD(name_, value_, help_, text_) CLI_CHOICE(name_, value_, help_, text_, NULL)

enum {
    LISTING_MAX = 1 << 17, /* the longest token, every byte escaped, as JSON */
};

static int failed(const char *verb, const struct ron_err *err)
{
    fprintf(stderr, "ron %s: %s\n", verb, err->msg);
    return CLI_FAILED;
}

static int load_keys(const char *verb, const char *file, struct ron_cap_keys **ret_keys)
{
    struct ron_err err = {0};
    enum ron_rc rc = ron_cap_keyfile_load(ron_env_linux(), file, ret_keys, &err);

    if (rc == RON_NOTFOUND) {
        fprintf(stderr,
                "ron %s: key file %s not found; create one with 'ron cap key new', or name "
                "another\n",
                verb, file);
        return CLI_FAILED;
    }
    return rc == RON_OK ? CLI_OK : failed(verb, &err);
}

/* ---- keys ------------------------------------------------------------------------------------ */

static void put_key(struct ron_json_writer *w, const struct ron_cap_key_info *info, bool mints)
{
    ron_json_open(w, NULL, '{');
    ron_json_text(w, "id", info->id);
    ron_json_u64(w, "created", info->created_s);
    ron_json_bool(w, "mints", mints);
    ron_json_close(w, '}');
}

/* The folder of a new key file is made when it is missing, private as the file. */
static enum ron_rc make_parent(const struct ron_env *env, const char *path, struct ron_err *err)
{
    const char *slash = strrchr(path, '/');
    char parent[RON_FILE_PATH_SIZE];

    if (slash == NULL || slash == path) {
        return RON_OK;
    }
    if ((size_t)(slash - path) >= sizeof parent) {
        return ron_err_set(err, RON_LIMIT, "path too long: %zu bytes", strlen(path));
    }
    memcpy(parent, path, (size_t)(slash - path));
    parent[slash - path] = '\0';
    return ron_mkdirs(env, parent, 0700, err);
}

int cli_cap_key_new(int argc, char **argv)
{
    const char *file = KEYS_DEFAULT;
    const char *id = "";
    bool json = false;
    bool done = false;
    const struct ron_env *env = ron_env_linux();
    struct ron_cap_key_info info = {.id = ""};
    char real[RON_FILE_PATH_SIZE];
    struct ron_buf out;
    struct ron_err err = {0};
    const struct cli_option options[] = {
        CLI_WORD("keys", "FILE", "key file (default: " KEYS_DEFAULT ")", &file),
        CLI_WORD("id", "ID", "key id, 1-32 of a-z 0-9 _ - (default: generated)", &id),
        CLI_FLAG("json", "JSON output", &json),
    };
    int code =
        cli_parse("cap key new",
                  "Adds a random key. New tokens are minted with it; older keys still verify.\n"
                  "Creates the key file, mode 0600, if it does not exist.\n\n"
                  "example:\n  ron cap key new --id 2026-q4",
                  options, RON_ARRAY_LEN(options), argc, argv, &done);

    if (code != CLI_OK || done) {
        return code;
    }
    code = cap_real_path("cap key new", file, real);
    if (code != CLI_OK) {
        return code;
    }
    if (make_parent(env, real, &err) != RON_OK ||
        ron_cap_keyfile_add(env, real, ron_str_of(id), &info, &err) != RON_OK) {
        return failed("cap key new", &err);
    }
    ron_buf_init(&out, LISTING_MAX);
    if (json) {
        ron_buf_append_fmt(&out, "{\"id\":\"%s\",\"created\":%" PRIu64 "}\n", info.id,
                           info.created_s);
    } else {
        ron_buf_append_fmt(&out, "%s\n", info.id);
    }
    code = cap_print("cap key new", &out);
    ron_buf_done(&out);
    return code;
}

int cli_cap_key_list(int argc, char **argv)
{
    const char *file = KEYS_DEFAULT;
    bool json = false;
    bool done = false;
    struct ron_cap_keys *keys = NULL;
    struct ron_json_writer w;
    struct ron_buf out;
    const struct cli_option options[] = {
        CLI_WORD("keys", "FILE", "key file (default: " KEYS_DEFAULT ")", &file),
        CLI_FLAG("json", "JSON output", &json),
    };
    int code =
        cli_parse("cap key list",
                  "Lists the keys, oldest first, without their secrets.\n\nexample:\n  ron cap "
                  "key list --keys ron-data/cap.keys",
                  options, RON_ARRAY_LEN(options), argc, argv, &done);

    if (code != CLI_OK || done) {
        return code;
    }
    code = load_keys("cap key list", file, &keys);
    if (code != CLI_OK) {
        return code;
    }
    ron_buf_init(&out, LISTING_MAX);
    ron_json_begin(&w, &out);
    if (json) {
        ron_json_open(&w, NULL, '[');
    }
    for (size_t i = 0; i < ron_cap_keys_count(keys); i++) {
        struct ron_cap_key_info info = ron_cap_keys_info(keys, i);
        bool mints = i + 1 == ron_cap_keys_count(keys);

        if (json) {
            put_key(&w, &info, mints);
        } else {
            ron_buf_append_fmt(&out, "%-32s created %" PRIu64 "%s\n", info.id, info.created_s,
                               mints ? "  mints" : "");
        }
    }
    if (json) {
        ron_json_close(&w, ']');
        ron_buf_append_byte(&out, '\n');
    }
    code = cap_print("cap key list", &out);
    ron_buf_done(&out);
    ron_cap_keys_unref(keys);
    return code;
}

int cli_cap_key_retire(int argc, char **argv)
{
    const char *file = KEYS_DEFAULT;
    const char *id = NULL;
    bool done = false;
    char real[RON_FILE_PATH_SIZE];
    struct ron_err err = {0};
    const struct cli_option options[] = {
        CLI_WORD("keys", "FILE", "key file (default: " KEYS_DEFAULT ")", &file),
        CLI_WORD("id", "ID", "key id", &id),
    };
    int code = cli_parse("cap key retire",
                         "Removes a key from the file. Its tokens become invalid as soon as the\n"
                         "services reload the file.\n\n"
                         "example:\n  ron cap key retire --id KEY-ID",
                         options, RON_ARRAY_LEN(options), argc, argv, &done);

    if (code != CLI_OK || done) {
        return code;
    }
    if (id == NULL) {
        fprintf(stderr, "ron cap key retire: missing --id; list the ids with 'ron cap key list'\n");
        return CLI_USAGE;
    }
    code = cap_real_path("cap key retire", file, real);
    if (code != CLI_OK) {
        return code;
    }
    if (ron_cap_keyfile_retire(ron_env_linux(), real, ron_str_of(id), &err) != RON_OK) {
        return failed("cap key retire", &err);
    }
    return CLI_OK;
}

/* ---- caveats from options -------------------------------------------------------------------- */

struct caveat_words {
    const char *aud;
    const char *scope;
    const char *account;
    const char *asset;
    const char *max;
    const char *exp;
    const char *ttl;
    const char *tenant;
    bool amnesia;
};

struct caveat_list {
    char memory[RON_CAP_KIND_COUNT][RON_CAP_CAVEAT_MAX + 1];
    struct ron_str items[RON_CAP_KIND_COUNT];
    size_t count;
};

#define CAVEAT_OPTIONS(w)                                                                          \
    CLI_WORD("aud", "SERVICE", "the only service that accepts the token", &(w)->aud),              \
        CLI_WORD("scope", "NAME[,NAME...]", "allowed actions, including those below them",         \
                 &(w)->scope),                                                                     \
        CLI_WORD("account", "PREFIX", "account and those below it, or PREFIX*", &(w)->account),    \
        CLI_WORD("asset", "NAME", "asset", &(w)->asset),                                           \
        CLI_WORD("max", "AMOUNT", "largest amount per operation, in minor units", &(w)->max),      \
        CLI_WORD("exp", "SECONDS", "expiry as Unix time", &(w)->exp),                              \
        CLI_WORD("ttl", "TIME", "lifetime: 60s, 15m, 1h, 30d", &(w)->ttl),                         \
        CLI_WORD("tenant", "NAME", "tenant", &(w)->tenant),                                        \
        CLI_FLAG("amnesia", "only valid for a service in amnesia mode", &(w)->amnesia)

/* The expected value of each kind, for error messages. */
static const char *const value_rules[RON_CAP_KIND_COUNT] = {
    [RON_CAP_KIND_AUD] = "a service such as wallet: a-z 0-9 _ -, a letter first, at most 64",
    [RON_CAP_KIND_SCOPE] = "names such as wallet.transfer, of a-z 0-9 _ -, joined by commas",
    [RON_CAP_KIND_ACCOUNT] = "letters, digits and : / _ . @ -, at most 256; '*' only at the end",
    [RON_CAP_KIND_ASSET] = "letters, digits and . _ : -, a letter or digit first, at most 64",
    [RON_CAP_KIND_MAX] = "a whole number without sign, point or leading zeros, below 2^128",
    [RON_CAP_KIND_EXP] = "Unix seconds such as 1900000000, or use --ttl 15m",
    [RON_CAP_KIND_TENANT] = "letters, digits and . _ : -, a letter or digit first, at most 64",
    [RON_CAP_KIND_AMNESIA] = "true",
};

static const char *rule_of(struct ron_str caveat)
{
    size_t kind = 0;

    while (kind + 1 < RON_CAP_KIND_COUNT) {
        const char *name = ron_cap_kind_name((enum ron_cap_kind)kind);

        if (caveat.len > strlen(name) && caveat.ptr[strlen(name)] == ' ' &&
            memcmp(caveat.ptr, name, strlen(name)) == 0) {
            break;
        }
        kind++;
    }
    return value_rules[kind];
}

/* False when the caveat would be longer than any that is taken. */
static bool put_caveat(struct caveat_list *list, const char *name, const char *value)
{
    char *text = list->memory[list->count];
    int len;

    if (value == NULL) {
        return true;
    }
    len = snprintf(text, sizeof list->memory[0], "%s = %s", name, value);
    if (len < 0 || (size_t)len >= sizeof list->memory[0]) {
        return false;
    }
    list->items[list->count++] = (struct ron_str){.ptr = text, .len = (size_t)len};
    return true;
}

/* "15m" after now, as Unix seconds. */
static bool ttl_to_exp(const char *ttl, char *ret_exp, size_t size)
{
    static const char units[] = "smhd";
    static const uint64_t seconds[] = {1, 60, 3600, 86400};
    enum { TTL_DAYS_MAX = 36500 };
    char *end = NULL;
    unsigned long long n;
    const char *unit;

    errno = 0;
    n = strtoull(ttl, &end, 10);
    unit = *end == '\0' ? NULL : strchr(units, *end);
    if (ttl[0] < '1' || ttl[0] > '9' || errno != 0 || unit == NULL || end[1] != '\0' ||
        n > TTL_DAYS_MAX * seconds[3] / seconds[unit - units]) {
        return false;
    }
    (void)snprintf(ret_exp, size, "%" PRIu64,
                   ron_env_wall_ms(ron_env_linux()) / RON_MS_PER_S +
                       (uint64_t)n * seconds[unit - units]);
    return true;
}

/* Turns the options into caveats; CLI_USAGE after reporting an invalid one. "never": no limit. */
static int gather(const char *verb, const struct caveat_words *w, struct caveat_list *list)
{
    const char *exp = w->exp;
    char made[24];

    list->count = 0;
    if (w->exp != NULL && w->ttl != NULL) {
        fprintf(stderr, "ron %s: --exp and --ttl are mutually exclusive\n", verb);
        return CLI_USAGE;
    }
    if (w->ttl != NULL && strcmp(w->ttl, "never") != 0) {
        if (!ttl_to_exp(w->ttl, made, sizeof made)) {
            fprintf(stderr,
                    "ron %s: invalid --ttl '%s': expected a time such as 60s, 15m, 1h or 30d\n",
                    verb, w->ttl);
            return CLI_USAGE;
        }
        exp = made;
    }
    if (!put_caveat(list, "aud", w->aud) || !put_caveat(list, "scope", w->scope) ||
        !put_caveat(list, "account", w->account) || !put_caveat(list, "asset", w->asset) ||
        !put_caveat(list, "max", w->max) || !put_caveat(list, "tenant", w->tenant) ||
        !put_caveat(list, "amnesia", w->amnesia ? "true" : NULL) || !put_caveat(list, "exp", exp)) {
        fprintf(stderr, "ron %s: caveat too long (limit %d bytes)\n", verb,
                (int)RON_CAP_CAVEAT_MAX);
        return CLI_USAGE;
    }
    for (size_t i = 0; i < list->count; i++) {
        struct ron_cap_caveat c;

        if (ron_cap_caveat_parse(list->items[i].ptr, list->items[i].len, &c) != RON_CAP_OK) {
            fprintf(stderr, "ron %s: invalid caveat '%s': expected %s\n", verb, list->items[i].ptr,
                    rule_of(list->items[i]));
            return CLI_USAGE;
        }
    }
    return CLI_OK;
}

/* ---- tokens --------------------------------------------------------------------------------- */

static const char *const forms[] = {"v1", "v2", NULL};

static enum ron_cap_form form_of(const char *word)
{
    if (word == NULL) {
        return 0;
    }
    return strcmp(word, "v2") == 0 ? RON_CAP_V2 : RON_CAP_V1;
}

int cli_cap_mint(int argc, char **argv)
{
    const char *file = KEYS_DEFAULT;
    const char *location = "";
    const char *form = NULL;
    const char *to = NULL;
    bool done = false;
    struct caveat_words w = {0};
    struct caveat_list list;
    char memory[RON_CAP_TEXT_MAX + 2];
    struct ron_cap_keys *keys = NULL;
    struct ron_buf out;
    struct ron_err err = {0};
    enum ron_rc rc;
    const struct cli_option options[] = {
        CLI_WORD("keys", "FILE", "key file (default: " KEYS_DEFAULT ")", &file),
        CAVEAT_OPTIONS(&w),
        CLI_WORD("location", "TEXT", "hint where the token is used (default: ron)", &location),
        CLI_CHOICE("format", "v1|v2",
                   "macaroon format; v2 for JavaScript and Go libraries (default: v1)", &form,
                   forms),
        CLI_WORD("out", "FILE", "output file, mode 0600 (default: - for standard output)", &to),
    };
    int code =
        cli_parse("cap mint",
                  "Mints a capability token with the newest key. Without --exp or --ttl it is\n"
                  "valid for " TTL_DEFAULT "; '--ttl never' mints one that does not expire.\n\n"
                  "examples:\n"
                  "  ron cap mint --aud wallet --scope wallet.transfer --account u:alice \\\n"
                  "      --asset roc --max 1000 --ttl 15m --out alice.token\n"
                  "  curl -H \"Authorization: Bearer $(cat alice.token)\" ...",
                  options, RON_ARRAY_LEN(options), argc, argv, &done);

    if (code != CLI_OK || done) {
        return code;
    }
    if (w.exp == NULL && w.ttl == NULL) {
        w.ttl = TTL_DEFAULT;
    }
    code = gather("cap mint", &w, &list);
    if (code != CLI_OK) {
        return code;
    }
    code = load_keys("cap mint", file, &keys);
    if (code != CLI_OK) {
        return code;
    }
    ron_buf_init_over(&out, memory, sizeof memory);
    rc = ron_cap_mint(keys, ron_env_linux(),
                      &(struct ron_cap_mint_opts){.location = ron_str_of(location),
                                                  .form = form_of(form),
                                                  .caveats = list.items,
                                                  .caveat_count = list.count},
                      &out, &err);
    ron_cap_keys_unref(keys);
    return rc == RON_OK ? cap_write_token("cap mint", to, &out) : failed("cap mint", &err);
}

int cli_cap_attenuate(int argc, char **argv)
{
    const char *from = NULL;
    const char *form = NULL;
    const char *to = NULL;
    bool done = false;
    struct caveat_words w = {0};
    struct caveat_list list;
    char text[CAP_INPUT_SIZE];
    char memory[RON_CAP_TEXT_MAX + 2];
    struct ron_str token;
    struct ron_buf out;
    struct ron_err err = {0};
    const struct cli_option options[] = {
        CLI_WORD("in", "FILE", "token file (default: - for standard input)", &from),
        CAVEAT_OPTIONS(&w),
        CLI_CHOICE("format", "v1|v2", "output format (default: that of the token)", &form, forms),
        CLI_WORD("out", "FILE", "output file, mode 0600 (default: - for standard output)", &to),
    };
    int code = cli_parse("cap attenuate",
                         "Attenuates a token by adding caveats. Needs no key and no service.\n"
                         "With --format and no caveat it only converts the token.\n\n"
                         "example:\n"
                         "  ron cap attenuate --in alice.token --max 10 --ttl 60s",
                         options, RON_ARRAY_LEN(options), argc, argv, &done);

    if (code != CLI_OK || done) {
        return code;
    }
    code = gather("cap attenuate", &w, &list);
    if (code == CLI_OK && list.count == 0 && form == NULL) {
        fprintf(stderr, "ron cap attenuate: missing caveat; see 'ron cap attenuate --help'\n");
        code = CLI_USAGE;
    }
    if (code == CLI_OK) {
        code = cap_read_token("cap attenuate", from, text, &token);
    }
    if (code != CLI_OK) {
        return code;
    }
    ron_buf_init_over(&out, memory, sizeof memory);
    if (ron_cap_attenuate(token, form_of(form), list.items, list.count, &out, &err) != RON_OK) {
        return failed("cap attenuate", &err);
    }
    return cap_write_token("cap attenuate", to, &out);
}

/* ---- show ------------------------------------------------------------------------------------ */

/* The verdict over the signature, or NULL when there are no keys to judge by. */
static int signature_verdict(const char *file, struct ron_str token, const char **ret_verdict)
{
    struct ron_cap_keys *keys = NULL;
    int code;

    if (file == NULL) {
        *ret_verdict = NULL;
        return CLI_OK;
    }
    code = load_keys("cap show", file, &keys);
    if (code != CLI_OK) {
        return code;
    }
    *ret_verdict = ron_cap_why_label(ron_cap_verify_signature(keys, token));
    ron_cap_keys_unref(keys);
    return CLI_OK;
}

/* When the token ends: the earliest `exp`; UINT64_MAX without one. */
static uint64_t exp_of(const struct ron_cap_token *t)
{
    uint64_t exp_s = UINT64_MAX;

    for (size_t i = 0; i < t->caveat_count; i++) {
        struct ron_str text = ron_cap_str(t, t->caveats[i]);
        struct ron_cap_caveat c;

        if (ron_cap_caveat_parse(text.ptr, text.len, &c) == RON_CAP_OK &&
            c.kind == RON_CAP_KIND_EXP) {
            exp_s = RON_MIN(exp_s, c.exp_s);
        }
    }
    return exp_s;
}

static void put_expiry(struct ron_buf *out, uint64_t exp_s)
{
    static const uint64_t year_9999_s = 253402300799;
    uint64_t now_s = ron_env_wall_ms(ron_env_linux()) / RON_MS_PER_S;
    char date[32];
    time_t at = (time_t)exp_s;
    struct tm tm;

    if (exp_s > year_9999_s || gmtime_r(&at, &tm) == NULL) {
        ron_buf_append_fmt(out, "%-11s %s\n", "expires",
                           exp_s == UINT64_MAX ? "never" : "after the year 9999");
        return;
    }
    (void)strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &tm);
    ron_buf_append_fmt(out, "%-11s %s, %" PRIu64 " s %s\n", exp_s > now_s ? "expires" : "expired",
                       date, exp_s > now_s ? exp_s - now_s : now_s - exp_s,
                       exp_s > now_s ? "from now" : "ago");
}

static int show_parsed(struct ron_str text, const struct ron_cap_token *t, const char *verdict,
                       bool json)
{
    char log_id[RON_CAP_LOG_ID_SIZE];
    struct ron_buf out;
    int code;

    ron_cap_log_id(text.ptr, text.len, log_id);
    ron_buf_init(&out, LISTING_MAX);
    if (json) {
        struct ron_json_writer w;
        struct ron_buf inner;

        ron_buf_init(&inner, LISTING_MAX);
        RON_IGNORE(
            ron_cap_inspect_json(t, &inner)); /* a failure leaves less than JSON: seen below */
        ron_json_begin(&w, &out);
        ron_json_open(&w, NULL, '{');
        ron_json_text(&w, "log_id", log_id);
        ron_json_text(&w, "signature", verdict);
        ron_json_raw(&w, "token",
                     (struct ron_str){.ptr = (const char *)ron_buf_data(&inner),
                                      .len = ron_buf_len(&inner)});
        ron_json_close(&w, '}');
        ron_buf_append_byte(&out, '\n');
        if (ron_buf_error(&inner) != RON_OK) {
            ron_buf_clear(&out);
        }
        ron_buf_done(&inner);
    } else {
        ron_buf_append_fmt(&out, "%-11s %s\n", "log id", log_id);
        if (verdict != NULL) {
            ron_buf_append_fmt(&out, "%-11s %s\n", "signature", verdict);
        }
        put_expiry(&out, exp_of(t));
        RON_IGNORE(ron_cap_inspect_text(t, &out)); /* cap_print looks at the buffer */
    }
    code = ron_buf_len(&out) == 0 ? CLI_FAILED : cap_print("cap show", &out);
    ron_buf_done(&out);
    return code;
}

int cli_cap_show(int argc, char **argv)
{
    const char *from = NULL;
    const char *file = NULL;
    const char *verdict = NULL;
    bool json = false;
    bool done = false;
    char text[CAP_INPUT_SIZE];
    struct ron_str token = {0};
    struct ron_cap_token t;
    enum ron_cap_why why;
    const struct cli_option options[] = {
        CLI_WORD("in", "FILE", "token file (default: - for standard input)", &from),
        CLI_WORD("keys", "FILE", "key file to verify the signature with", &file),
        CLI_FLAG("json", "JSON output", &json),
    };
    int code =
        cli_parse("cap show",
                  "Prints the members of a token without its signature. Exit status 1 if the\n"
                  "input is not a token, or if --keys is given and verification fails.\n\n"
                  "example:\n  ron cap show --in alice.token --keys " KEYS_DEFAULT,
                  options, RON_ARRAY_LEN(options), argc, argv, &done);

    if (code != CLI_OK || done) {
        return code;
    }
    code = cap_read_token("cap show", from, text, &token);
    if (code != CLI_OK) {
        return code;
    }
    why = ron_cap_token_read(token.ptr, token.len, &t);
    if (why != RON_CAP_OK) {
        fprintf(stderr, "ron cap show: %s\n", ron_cap_why_doc(why));
        return CLI_FAILED;
    }
    code = signature_verdict(file, token, &verdict);
    if (code == CLI_OK) {
        code = show_parsed(token, &t, verdict, json);
    }
    return code == CLI_OK && verdict != NULL && strcmp(verdict, "ok") != 0 ? CLI_FAILED : code;
}
