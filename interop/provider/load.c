/* SPDX-License-Identifier: Apache-2.0 */
/* interop/provider/load.c - providers out of the settings. */
#include "interop/provider/load.h"

#include <string.h>

#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/io/file.h"

/* ---- secrets --------------------------------------------------------------------------------- */

static const char *find_variable(const char *const *variables, const char *name)
{
    size_t len = strlen(name);

    for (; variables != NULL && *variables != NULL; variables++) {
        if (strncmp(*variables, name, len) == 0 && (*variables)[len] == '=') {
            return *variables + len + 1;
        }
    }
    return NULL;
}

static enum ron_rc keep(struct ron_secret *secret, const void *bytes, size_t len,
                        struct ron_err *err)
{
    return ron_secret_set(secret, bytes, len) == RON_OK
               ? RON_OK
               : ron_err_set(err, RON_NOMEM, "out of memory for a secret");
}

static enum ron_rc from_file(const struct ron_env *env, const char *path,
                             struct ron_secret *ret_secret, struct ron_err *err)
{
    uint8_t bytes[IOP_SECRET_MAX];
    size_t len = 0;
    enum ron_rc rc = ron_file_read_private(env, path, bytes, sizeof bytes, &len, err);

    if (rc == RON_OK) {
        len -= len > 0 && bytes[len - 1] == '\n';
        len -= len > 0 && bytes[len - 1] == '\r';
        rc = keep(ret_secret, bytes, len, err);
    }
    ron_wipe(bytes, sizeof bytes);
    return rc;
}

enum ron_rc iop_secret_read(const struct ron_env *env, const char *const *variables,
                            const char *env_name, const char *path, struct ron_secret *ret_secret,
                            struct ron_err *err)
{
    const char *value;

    if (env_name[0] != '\0' && path[0] != '\0') {
        return ron_err_set(err, RON_INVALID, "a variable and a file are mutually exclusive");
    }
    if (path[0] != '\0') {
        return from_file(env, path, ret_secret, err);
    }
    if (env_name[0] == '\0') {
        return RON_OK;
    }
    value = find_variable(variables, env_name);
    if (value == NULL || value[0] == '\0') {
        return ron_err_set(err, RON_INVALID, "environment variable %s is unset or empty", env_name);
    }
    return strlen(value) > IOP_SECRET_MAX ? ron_err_set(err, RON_LIMIT, "secret too long")
                                          : keep(ret_secret, value, strlen(value), err);
}

/* ---- one section ----------------------------------------------------------------------------- */

struct loader {
    const struct ron_env *env;
    const struct ron_conf_snap *snap;
    const struct ron_conf_table *table;
    const char *const *variables;
    uint32_t section;
    const char *name;
};

static size_t key_of(const struct loader *l, const char *name)
{
    size_t key = ron_conf_find_key(l->table, name);

    RON_ASSERT(key != SIZE_MAX); /* the service placed IOP_PROVIDER_KEYS in its table */
    return key;
}

static struct ron_conf_str text_of(const struct loader *l, const char *name)
{
    return ron_conf_str_in(l->snap, l->section, key_of(l, name));
}

/* NULL for an empty setting. */
static const char *given(const struct loader *l, const char *name)
{
    struct ron_conf_str text = text_of(l, name);

    return text.len > 0 ? text.text : NULL;
}

static size_t choice_of(const struct loader *l, const char *name)
{
    return ron_conf_choice_in(l->snap, l->section, key_of(l, name));
}

static enum ron_rc find_kind(const struct loader *l, enum iop_kind *ret_kind, struct ron_err *err)
{
    size_t word = choice_of(l, "providers.*.kind");

    if (word > 0) {
        *ret_kind = (enum iop_kind)(word - 1); /* behind "auto" */
        return RON_OK;
    }
    return iop_kind_find(l->name, ret_kind)
               ? RON_OK
               : ron_err_set(err, RON_INVALID, "kind: section name is not a known kind; set kind");
}

/* The row of a provider that the settings describe. */
static struct iop_scheme generic_scheme(const struct loader *l)
{
    static const enum iop_encoding encodings[] = {IOP_HEX, IOP_HEX_UPPER, IOP_BASE64};
    static const enum iop_hash hashes[] = {IOP_SHA256, IOP_SHA1, IOP_SHA384, IOP_SHA512};
    bool pairs = choice_of(l, "providers.*.signature_form") == 1;
    const char *ts = given(l, "providers.*.timestamp_header");

    return (struct iop_scheme){
        .kind = IOP_KIND_GENERIC,
        .hash = hashes[choice_of(l, "providers.*.hash")],
        .form = pairs ? IOP_FORM_PAIRS : IOP_FORM_ONE,
        .encoding = encodings[choice_of(l, "providers.*.encoding")],
        .sig_header = given(l, "providers.*.signature_header"),
        .prefix = given(l, "providers.*.signature_prefix"),
        .ts_name = pairs ? ts : NULL,
        .base = text_of(l, "providers.*.base").text,
        .ts_header = pairs ? NULL : ts,
        .ts_pointer = given(l, "providers.*.timestamp_pointer"),
        .ts_ms = choice_of(l, "providers.*.timestamp_unit") == 1,
        .id_header = given(l, "providers.*.id_header"),
        .id_pointer = given(l, "providers.*.id_pointer"),
        .event_header = given(l, "providers.*.event_header"),
        .event_pointer = given(l, "providers.*.event_pointer"),
    };
}

/* Adds the secret that two settings name; none when both are empty. */
static enum ron_rc add_secret(const struct loader *l, struct iop_provider *p, const char *env_key,
                              const char *file_key, struct ron_err *err)
{
    struct ron_secret secret = {0};
    enum ron_rc rc = iop_secret_read(l->env, l->variables, text_of(l, env_key).text,
                                     text_of(l, file_key).text, &secret, err);
    bool named = given(l, env_key) != NULL || given(l, file_key) != NULL;

    if (rc == RON_OK && named && ron_secret_len(&secret) < IOP_SECRET_MIN) {
        rc = ron_err_set(err, RON_INVALID, "secret too short (minimum %d bytes)",
                         (int)IOP_SECRET_MIN);
    }
    if (rc == RON_OK && named) {
        rc = iop_provider_add_key(p, ron_secret_reveal(&secret), ron_secret_len(&secret), err);
    }
    ron_secret_done(&secret);
    if (rc != RON_OK) {
        ron_err_prefix(err, "%s", strrchr(given(l, env_key) != NULL ? env_key : file_key, '.') + 1);
    }
    return rc;
}

static enum ron_rc add_secrets(const struct loader *l, struct iop_provider *p, struct ron_err *err)
{
    RON_TRY(add_secret(l, p, "providers.*.secret_env", "providers.*.secret_file", err));
    RON_TRY(add_secret(l, p, "providers.*.secret_env_next", "providers.*.secret_file_next", err));
    RON_TRY(iop_secret_read(l->env, l->variables, text_of(l, "providers.*.verify_token_env").text,
                            text_of(l, "providers.*.verify_token_file").text, &p->verify_token,
                            err));
    return p->key_count > 0
               ? RON_OK
               : ron_err_set(err, RON_INVALID, "secret_env: an enabled provider requires a secret");
}

/* "https://host" or "http://host:port": the target of a request follows directly. */
static enum ron_rc check_url(struct ron_conf_str url, struct ron_err *err)
{
    const char *host = strstr(url.text, "://");

    if ((strncmp(url.text, "https://", 8) != 0 && strncmp(url.text, "http://", 7) != 0) ||
        host[3] == '\0' || strpbrk(host + 3, "/?# ") != NULL) {
        return ron_err_set(err, RON_INVALID,
                           "public_url: expected http:// or https:// and a host, without a path");
    }
    return RON_OK;
}

static enum ron_rc load_one(const struct loader *l, struct iop_provider *p, struct ron_err *err)
{
    struct ron_conf_str url = text_of(l, "providers.*.public_url");
    enum iop_kind kind;
    struct iop_scheme generic;

    RON_TRY(find_kind(l, &kind, err));
    generic = kind == IOP_KIND_GENERIC ? generic_scheme(l) : (struct iop_scheme){0};
    RON_TRY(iop_provider_init(p, l->name, kind == IOP_KIND_GENERIC ? &generic : iop_scheme_of(kind),
                              err));
    p->window_ms = ron_conf_ms_in(l->snap, l->section, key_of(l, "providers.*.tolerance"));
    p->public_url = (struct ron_str){url.text, url.len};
    if (url.len > 0) {
        RON_TRY(check_url(url, err));
    }
    if (!ron_conf_bool_in(l->snap, l->section, key_of(l, "providers.*.enabled"))) {
        return RON_OK; /* its secrets need not be there */
    }
    if (url.len == 0 && strstr(p->scheme.base, "{url}") != NULL) {
        return ron_err_set(err, RON_INVALID, "public_url: required; this provider signs it");
    }
    p->enabled = true;
    return add_secrets(l, p, err);
}

/* ---- all ------------------------------------------------------------------------------------- */

/* A delivery to one provider must be good at no other. */
static enum ron_rc check_shared(const struct iop_providers *set, struct ron_err *err)
{
    for (size_t i = 0; i < set->count; i++) {
        for (size_t j = 0; j < i; j++) {
            if (iop_provider_shares_key(&set->at[i], &set->at[j])) {
                return ron_err_set(err, RON_INVALID, "providers.%s: same secret as providers.%s",
                                   set->at[i].name, set->at[j].name);
            }
        }
    }
    return RON_OK;
}

static enum ron_rc load_all(struct iop_providers *set, struct loader *l, struct ron_err *err)
{
    size_t count = ron_conf_section_count(l->snap, "providers");

    if (count > IOP_PROVIDERS_MAX) {
        return ron_err_set(err, RON_LIMIT, "too many providers (limit %d)", (int)IOP_PROVIDERS_MAX);
    }
    for (size_t i = 0; i < count; i++) {
        enum ron_rc rc;

        l->section = ron_conf_section(l->snap, "providers", i);
        l->name = ron_conf_section_name(l->snap, l->section);
        set->count++; /* also a failed one is wiped */
        rc = load_one(l, &set->at[i], err);
        if (rc != RON_OK) {
            ron_err_prefix(err, "providers.%s", l->name);
            return rc;
        }
    }
    return check_shared(set, err);
}

enum ron_rc iop_providers_new(const struct ron_env *env, struct ron_conf_snap *snap,
                              const char *const *variables, struct iop_providers **ret_providers,
                              struct ron_err *err)
{
    struct iop_providers *set = ron_alloc_zero(sizeof *set);
    struct loader l = {
        .env = env, .snap = snap, .table = ron_conf_table_of(snap), .variables = variables};
    enum ron_rc rc;

    if (set == NULL) {
        return ron_err_set(err, RON_NOMEM, "out of memory for the providers");
    }
    set->snap = ron_conf_ref(snap);
    rc = load_all(set, &l, err);
    if (rc != RON_OK) {
        iop_providers_free(set);
        return rc;
    }
    *ret_providers = set;
    return RON_OK;
}

void iop_providers_free(struct iop_providers *set)
{
    if (set == NULL) {
        return;
    }
    for (size_t i = 0; i < set->count; i++) {
        iop_provider_done(&set->at[i]);
    }
    ron_conf_unref(set->snap);
    ron_free(set);
}

const struct iop_provider *iop_providers_find(const struct iop_providers *set, struct ron_str name)
{
    for (size_t i = 0; i < set->count; i++) {
        if (ron_str_is(name, set->at[i].name)) {
            return &set->at[i];
        }
    }
    return ron_str_is(name, "slack_webhook") ? iop_providers_find(set, (struct ron_str){"slack", 5})
                                             : NULL;
}
