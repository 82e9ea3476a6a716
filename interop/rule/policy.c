/* SPDX-License-Identifier: Apache-2.0 */
/* interop/rule/policy.c - snapshots of what is in force, and blocks of addresses. */
#include "interop/rule/policy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "interop/mailbox/box.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/io/addr.h"

/* ---- blocks of addresses --------------------------------------------------------------------- */

static void widen(const struct ron_addr *a, uint8_t ret[16])
{
    if (a->kind == RON_ADDR_IPV4) {
        memset(ret, 0, 10);
        ret[10] = ret[11] = 0xff;
        memcpy(ret + 12, a->ip, 4);
    } else {
        memcpy(ret, a->ip, 16);
    }
}

enum ron_rc iop_net_parse(const char *text, struct iop_net *ret_net, struct ron_err *err)
{
    const char *slash = strchr(text, '/');
    size_t len = slash != NULL ? (size_t)(slash - text) : strlen(text);
    bool v6 = memchr(text, ':', len) != NULL;
    uint64_t bits = v6 ? 128 : 32;
    struct ron_addr addr;
    char host[80];

    (void)snprintf(host, sizeof host, v6 ? "[%.*s]:0" : "%.*s:0", (int)RON_MIN(len, (size_t)64),
                   text);
    if (ron_addr_parse(host, &addr, NULL) != RON_OK ||
        (addr.kind != RON_ADDR_IPV4 && addr.kind != RON_ADDR_IPV6)) {
        return ron_err_set(err, RON_INVALID, "invalid address block '%s'", text);
    }
    if (slash != NULL &&
        (ron_http_parse_u64((struct ron_str){slash + 1, strlen(slash + 1)}, &bits) != RON_OK ||
         bits > (v6 ? 128 : 32))) {
        return ron_err_set(err, RON_INVALID, "'%s': invalid prefix length after /", text);
    }
    widen(&addr, ret_net->ip);
    ret_net->bits = (uint8_t)(v6 ? bits : bits + 96);
    return RON_OK;
}

bool iop_net_has(const struct iop_net *net, const char *peer)
{
    size_t whole = net->bits / 8;
    uint8_t rest = net->bits % 8;
    struct ron_addr addr;
    uint8_t ip[16];

    if (ron_addr_parse(peer, &addr, NULL) != RON_OK ||
        (addr.kind != RON_ADDR_IPV4 && addr.kind != RON_ADDR_IPV6)) {
        return false;
    }
    widen(&addr, ip);
    return memcmp(ip, net->ip, whole) == 0 &&
           (rest == 0 || ((ip[whole] ^ net->ip[whole]) >> (8 - rest)) == 0);
}

/* ---- snapshots ------------------------------------------------------------------------------- */

void iop_policy_box_init(struct iop_policy_box *box)
{
    ron_mutex_init(&box->mu, RON_RANK_SHARED, "interop.policy_meta");
    box->now = NULL;
}

void iop_policy_box_done(struct iop_policy_box *box)
{
    iop_policy_unref(box->now);
    box->now = NULL;
    ron_mutex_done(&box->mu);
}

struct iop_policy *iop_policy_get(struct iop_policy_box *box)
{
    struct iop_policy *p;

    ron_mutex_lock(&box->mu);
    p = box->now;
    RON_ASSERT_MSG(p != NULL, "a policy is in force before the first request");
    (void)ron_au32_add(&p->refs, 1);
    ron_mutex_unlock(&box->mu);
    return p;
}

void iop_policy_unref(struct iop_policy *p)
{
    if (p != NULL && ron_au32_add(&p->refs, UINT32_MAX) == 1) {
        iop_rules_free(p->rules);
        iop_providers_free(p->providers);
        ron_free(p);
    }
}

void iop_policy_put(struct iop_policy_box *box, struct iop_policy *take_policy)
{
    struct iop_policy *old;

    RON_ASSERT(take_policy != NULL);
    ron_mutex_lock(&box->mu);
    old = box->now;
    box->now = take_policy;
    ron_mutex_unlock(&box->mu);
    iop_policy_unref(old);
}

static size_t key_of(const struct ron_conf_snap *snap, const char *name)
{
    size_t key = ron_conf_find_key(ron_conf_table_of(snap), name);

    RON_ASSERT(key != SIZE_MAX); /* the service placed it in its table */
    return key;
}

static enum ron_rc read_entry(const struct ron_conf_snap *snap, const struct iop_provider *provider,
                              struct iop_entry *e, struct ron_err *err)
{
    uint32_t section = ron_conf_section_find(snap, "providers", provider->name);
    struct ron_conf_list list =
        ron_conf_list_in(snap, section, key_of(snap, "providers.*.allow_cidrs"));
    int len = snprintf(e->topic, sizeof e->topic, "webhook.%s", provider->name);

    if (!iop_topic_valid((struct ron_str){e->topic, (size_t)len})) {
        return ron_err_set(err, RON_INVALID, "providers.%s: name too long", provider->name);
    }
    for (size_t i = 0; i < list.count; i++) {
        if (iop_net_parse(list.items[i].text, &e->nets[i], err) != RON_OK) {
            ron_err_prefix(err, "providers.%s.allow_cidrs", provider->name);
            return RON_INVALID;
        }
        e->net_count = i + 1;
    }
    return RON_OK;
}

enum ron_rc iop_policy_new(const struct ron_env *env, struct ron_conf_snap *snap,
                           const char *const *variables, struct iop_policy **ret_policy,
                           struct ron_err *err)
{
    struct iop_policy *p = ron_alloc_zero(sizeof *p);
    enum ron_rc rc;

    if (p == NULL) {
        return ron_err_set(err, RON_NOMEM, "out of memory for the policy");
    }
    ron_au32_store(&p->refs, 1);
    rc = iop_providers_new(env, snap, variables, &p->providers, err);
    if (rc == RON_OK) {
        rc = iop_rules_new(env, snap, variables, &p->rules, err);
    }
    for (size_t i = 0; rc == RON_OK && i < p->providers->count; i++) {
        rc = read_entry(snap, &p->providers->at[i], &p->at[i], err);
    }
    if (rc != RON_OK) {
        iop_policy_unref(p);
        return rc;
    }
    *ret_policy = p;
    return RON_OK;
}

/* ---- how long a delivery is known ------------------------------------------------------------ */

static uint64_t keep_of(const struct ron_conf_snap *conf, uint32_t section)
{
    return ron_conf_bool_in(conf, section, key_of(conf, "providers.*.enabled"))
               ? 2 * (uint64_t)ron_conf_ms_in(conf, section, key_of(conf, "providers.*.tolerance"))
               : 0;
}

uint64_t iop_policy_keep_ms(const struct ron_conf_snap *conf)
{
    size_t count = ron_conf_section_count(conf, "providers");
    uint64_t keep_ms = IOP_KEEP_MIN_MS;

    for (size_t i = 0; i < count; i++) {
        keep_ms = RON_MAX(keep_ms, keep_of(conf, ron_conf_section(conf, "providers", i)));
    }
    return keep_ms;
}

enum ron_rc iop_policy_check(const struct ron_conf_snap *conf, uint64_t ttl_ms, struct ron_err *err)
{
    size_t count = ron_conf_section_count(conf, "providers");

    for (size_t i = 0; i < count; i++) {
        uint32_t section = ron_conf_section(conf, "providers", i);

        if (keep_of(conf, section) > ttl_ms) {
            return ron_err_set(err, RON_INVALID,
                               "providers.%s.tolerance: a delivery can be replayed for twice this "
                               "time, which is longer than dedup.ttl",
                               ron_conf_section_name(conf, section));
        }
    }
    return RON_OK;
}
