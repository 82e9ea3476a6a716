/* SPDX-License-Identifier: Apache-2.0 */
/* sim_opts.c - the options of a world: calm, by swarm, or by name.
 *
 * Swarm: a world in which every fault happens at its usual rate looks like every other such world.
 * So each seed switches about half of the faults off and draws the others over several orders of
 * magnitude; over many seeds, combinations appear that no list of cases would name. */
#include <stdlib.h>
#include <string.h>

#include "ron/base/assert.h"
#include "sim_priv.h"

enum opt_kind { OPT_FAULT, OPT_RANGE, OPT_FIXED };

struct opt {
    const char *name;
    enum opt_kind kind;
    size_t offset;
    uint64_t calm;
    uint64_t low;
    uint64_t high;
};

static const struct opt table[] = {
#define X(name, kind, calm, low, high, doc)                                                        \
    {#name, OPT_##kind, offsetof(struct sim_opts, name), calm, low, high},
    SIM_OPTS(X)
#undef X
};

static uint64_t *slot(struct sim_opts *opts, const struct opt *opt)
{
    return (uint64_t *)(void *)((char *)opts + opt->offset);
}

static unsigned log2_floor(uint64_t value)
{
    RON_ASSERT(value > 0);
    return 63u - (unsigned)__builtin_clzll(value);
}

/* Each power of two between low and high is as likely as any other. */
static uint64_t draw(struct ron_rand *rand, uint64_t low, uint64_t high)
{
    unsigned k = (unsigned)ron_rand_range(rand, log2_floor(low), log2_floor(high));
    uint64_t first = RON_MAX(low, UINT64_C(1) << k);
    uint64_t last = RON_MIN(high, (UINT64_C(2) << k) - 1);

    return ron_rand_range(rand, first, last);
}

struct sim_opts sim_opts_calm(void)
{
    struct sim_opts opts;

    for (size_t i = 0; i < RON_ARRAY_LEN(table); i++) {
        *slot(&opts, &table[i]) = table[i].calm;
    }
    return opts;
}

struct sim_opts sim_opts_swarm(uint64_t seed)
{
    struct sim_opts opts = sim_opts_calm();
    struct ron_rand rand;

    ron_rand_seed(&rand, seed);
    for (size_t i = 0; i < RON_ARRAY_LEN(table); i++) {
        const struct opt *opt = &table[i];
        if (opt->kind == OPT_FIXED) {
            continue;
        }
        /* Both draws always happen, so that one option does not shift the others. */
        bool off = ron_rand_chance(&rand, 1, 2);
        uint64_t value = draw(&rand, opt->low, opt->high);
        *slot(&opts, opt) = opt->kind == OPT_FAULT && off ? 0 : value;
    }
    opts.net_delay_max_ns = RON_MAX(opts.net_delay_max_ns, opts.net_delay_min_ns);
    return opts;
}

static const struct opt *find(const char *name, size_t len)
{
    for (size_t i = 0; i < RON_ARRAY_LEN(table); i++) {
        if (strlen(table[i].name) == len && memcmp(table[i].name, name, len) == 0) {
            return &table[i];
        }
    }
    return NULL;
}

bool sim_opts_parse(struct sim_opts *opts, const char *text)
{
    while (*text != '\0') {
        size_t name_len = strcspn(text, "=,");
        const struct opt *opt = find(text, name_len);
        char *end = NULL;

        if (opt == NULL || text[name_len] != '=' || text[name_len + 1] < '0' ||
            text[name_len + 1] > '9') {
            return false;
        }
        *slot(opts, opt) = strtoull(text + name_len + 1, &end, 10);
        if (*end != ',' && *end != '\0') {
            return false;
        }
        text = *end == ',' ? end + 1 : end;
    }
    return true;
}
