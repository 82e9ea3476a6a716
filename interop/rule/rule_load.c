/* SPDX-License-Identifier: Apache-2.0 */
/* interop/rule/rule_load.c - rules out of the settings, each checked whole: a rule that could never
 * act, or would act in another way than it reads, is refused when it is loaded. */
#include <string.h>

#include "interop/mailbox/box.h"
#include "interop/provider/load.h"
#include "interop/provider/sign.h"
#include "interop/rule/rule.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/http/client.h"

struct loader {
    const struct ron_env *env;
    const struct ron_conf_snap *snap;
    const struct ron_conf_table *table;
    const char *const *variables;
    uint32_t section;
};

static size_t key_of(const struct loader *l, const char *name)
{
    size_t key = ron_conf_find_key(l->table, name);

    RON_ASSERT(key != SIZE_MAX); /* the service placed IOP_RULE_KEYS in its table */
    return key;
}

static struct ron_conf_str text_of(const struct loader *l, const char *name)
{
    return ron_conf_str_in(l->snap, l->section, key_of(l, name));
}

/* ---- templates ------------------------------------------------------------------------------- */

/* Text with {/pointer} in it. */
static enum ron_rc check_template(const char *what, struct ron_conf_str text, struct ron_err *err)
{
    const char *p = text.text;

    if (text.len == 0) {
        return ron_err_set(err, RON_INVALID, "%s: missing", what);
    }
    while ((p = strpbrk(p, "{}")) != NULL) {
        const char *close = strchr(p, '}');
        char pointer[IOP_POINTER_MAX];
        size_t len;

        if (*p == '}' || close == NULL || (size_t)(close - p) > sizeof pointer) {
            return ron_err_set(err, RON_INVALID, "%s: expected a JSON pointer between braces",
                               what);
        }
        len = (size_t)(close - p) - 1;
        memcpy(pointer, p + 1, len);
        pointer[len] = '\0';
        if (len == 0 || strchr(pointer, '{') != NULL || iop_pointer_check(pointer, err) != RON_OK) {
            return ron_err_set(err, RON_INVALID, "%s: expected a JSON pointer between braces",
                               what);
        }
        p = close + 1;
    }
    return RON_OK;
}

/* One pointer, or a number: an amount is not put together of pieces. */
static enum ron_rc check_amount(const struct iop_rule *r, struct ron_err *err)
{
    const char *brace = strchr(r->amount.text, '{');
    struct iop_decimal d;
    struct ron_money money;

    RON_TRY(check_template("amount", r->amount, err));
    if (brace != NULL) {
        return brace == r->amount.text && strchr(brace, '}')[1] == '\0'
                   ? RON_OK
                   : ron_err_set(err, RON_INVALID, "amount: expected one {/pointer} or a number");
    }
    return iop_decimal_parse((struct ron_str){r->amount.text, r->amount.len}, &d) &&
                   iop_decimal_money(&d, r->scale, &money) == RON_OK && !ron_money_is_zero(money)
               ? RON_OK
               : ron_err_set(err, RON_INVALID, "amount: expected a positive number of minor units");
}

/* ---- one rule -------------------------------------------------------------------------------- */

static enum ron_rc load_wallet(const struct loader *l, struct iop_rule *r, struct ron_err *err)
{
    r->op = (enum iop_wallet_op)ron_conf_choice_in(l->snap, l->section, key_of(l, "rules.*.op"));
    r->from = text_of(l, "rules.*.from");
    r->to = text_of(l, "rules.*.to");
    r->asset = text_of(l, "rules.*.asset");
    r->amount = text_of(l, "rules.*.amount");
    r->scale = (uint32_t)ron_conf_int_in(l->snap, l->section, key_of(l, "rules.*.scale"));
    RON_TRY(check_template("to", r->to, err));
    RON_TRY(check_template("asset", r->asset, err));
    if (r->op == IOP_OP_TRANSFER) {
        RON_TRY(check_template("from", r->from, err));
    } else if (r->from.len > 0) {
        return ron_err_set(err, RON_INVALID, "from: not allowed for an issue");
    }
    return check_amount(r, err);
}

static enum ron_rc load_forward(const struct loader *l, struct iop_rule *r, struct ron_err *err)
{
    struct iop_signer signer;
    char host[256];
    bool plain = false;
    enum ron_rc rc;

    r->url = text_of(l, "rules.*.url");
    RON_TRY(ron_http_url_host(r->url.text, host, sizeof host, &plain, err));
    RON_TRY(iop_secret_read(l->env, l->variables, text_of(l, "rules.*.secret_env").text,
                            text_of(l, "rules.*.secret_file").text, &r->secret, err));
    if (ron_secret_len(&r->secret) == 0) {
        return ron_err_set(err, RON_INVALID, "secret_env: required; a forward is signed");
    }
    rc = iop_signer_init(&signer, iop_scheme_of(IOP_KIND_STANDARD), ron_secret_reveal(&r->secret),
                         ron_secret_len(&r->secret), err);
    iop_signer_done(&signer);
    return rc;
}

static enum ron_rc load_conds(const struct loader *l, struct iop_rule *r, struct ron_err *err)
{
    struct ron_conf_list when = ron_conf_list_in(l->snap, l->section, key_of(l, "rules.*.when"));

    RON_ASSERT(when.count <= IOP_CONDS_MAX); /* the setting's own range */
    for (size_t i = 0; i < when.count; i++) {
        if (iop_cond_parse((struct ron_str){when.items[i].text, when.items[i].len}, &r->conds[i],
                           err) != RON_OK) {
            ron_err_prefix(err, "when[%zu]", i);
            return RON_INVALID;
        }
        r->cond_count++;
    }
    return RON_OK;
}

static enum ron_rc load_one(const struct loader *l, struct iop_rule *r, struct ron_err *err)
{
    r->name = ron_conf_section_name(l->snap, l->section);
    r->provider = text_of(l, "rules.*.provider");
    r->events = ron_conf_list_in(l->snap, l->section, key_of(l, "rules.*.events"));
    r->stop = ron_conf_bool_in(l->snap, l->section, key_of(l, "rules.*.stop"));
    r->action =
        (enum iop_action_kind)ron_conf_choice_in(l->snap, l->section, key_of(l, "rules.*.action"));
    if (strcmp(r->provider.text, "*") != 0 &&
        ron_conf_section_find(l->snap, "providers", r->provider.text) == 0) {
        return ron_err_set(err, RON_INVALID, "provider: section [providers.%s] not found",
                           r->provider.text);
    }
    RON_TRY(load_conds(l, r, err));
    switch (r->action) {
    case IOP_ACT_MAILBOX:
        r->topic = text_of(l, "rules.*.topic");
        return iop_topic_valid((struct ron_str){r->topic.text, r->topic.len})
                   ? RON_OK
                   : ron_err_set(err, RON_INVALID, "topic: missing or invalid");
    case IOP_ACT_FORWARD:
        return load_forward(l, r, err);
    case IOP_ACT_WALLET:
        return load_wallet(l, r, err);
    }
    RON_UNREACHABLE();
}

/* ---- all ------------------------------------------------------------------------------------- */

static enum ron_rc load_all(struct iop_rules *rules, struct loader *l, struct ron_err *err)
{
    size_t count = ron_conf_section_count(l->snap, "rules");

    if (count > IOP_RULES_MAX) {
        return ron_err_set(err, RON_LIMIT, "too many rules (limit %d)", (int)IOP_RULES_MAX);
    }
    for (size_t i = 0; i < count; i++) {
        enum ron_rc rc;

        l->section = ron_conf_section(l->snap, "rules", i);
        rules->count++; /* also a failed one is wiped */
        rc = load_one(l, &rules->at[i], err);
        if (rc != RON_OK) {
            ron_err_prefix(err, "rules.%s", rules->at[i].name);
            return rc;
        }
    }
    return RON_OK;
}

enum ron_rc iop_rules_new(const struct ron_env *env, struct ron_conf_snap *snap,
                          const char *const *variables, struct iop_rules **ret_rules,
                          struct ron_err *err)
{
    struct iop_rules *rules = ron_alloc_zero(sizeof *rules);
    struct loader l = {
        .env = env, .snap = snap, .table = ron_conf_table_of(snap), .variables = variables};
    enum ron_rc rc;

    if (rules == NULL) {
        return ron_err_set(err, RON_NOMEM, "out of memory for the rules");
    }
    rules->snap = ron_conf_ref(snap);
    rc = load_all(rules, &l, err);
    if (rc != RON_OK) {
        iop_rules_free(rules);
        return rc;
    }
    *ret_rules = rules;
    return RON_OK;
}

void iop_rules_free(struct iop_rules *rules)
{
    if (rules == NULL) {
        return;
    }
    for (size_t i = 0; i < rules->count; i++) {
        ron_secret_done(&rules->at[i].secret);
    }
    ron_conf_unref(rules->snap);
    ron_free(rules);
}
