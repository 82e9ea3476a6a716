/* SPDX-License-Identifier: Apache-2.0 */
/* seed.c - what a test run is given: its seed, numbers with edges, the public corpora.
 *
 * Place: tests only. Failure: a RON_SEED that is not a number ends the program, because a test that
 * silently used another seed would make a repeated failure look fixed.
 */
#include <errno.h>
#include <sys/random.h>

#include "support/support.h"

/* Reads RON_SEED; false when it is not set. */
static bool seed_from_environment(uint64_t *ret_seed)
{
    const char *text = getenv("RON_SEED");
    char *end = NULL;

    if (text == NULL) {
        return false;
    }
    errno = 0;
    *ret_seed = strtoull(text, &end, 0);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0) {
        (void)fprintf(stderr, "RON_SEED=%s is no number of 64 bits\n", text);
        exit(2);
    }
    return true;
}

uint64_t support_seed(void)
{
    static bool known;
    static uint64_t seed;

    if (!known) {
        if (!seed_from_environment(&seed) &&
            getrandom(&seed, sizeof(seed), 0) != (ssize_t)sizeof(seed)) {
            (void)fprintf(stderr, "no randomness for a seed; set RON_SEED\n");
            exit(2);
        }
        known = true;
        (void)printf("seed: RON_SEED=%llu repeats this run\n", (unsigned long long)seed);
        (void)fflush(stdout);
    }
    return seed;
}

struct ron_rand support_rand(void)
{
    struct ron_rand rand;

    ron_rand_seed(&rand, support_seed());
    return rand;
}

uint64_t support_rand_edgy_u64(struct ron_rand *rand)
{
    return ron_u128_lo(support_rand_edgy_u128(rand)) >> ron_rand_below(rand, 64);
}

ron_u128 support_rand_edgy_u128(struct ron_rand *rand)
{
    ron_u128 value = ron_u128_make(ron_rand_u64(rand), ron_rand_u64(rand));
    unsigned shift = (unsigned)ron_rand_below(rand, 128);

    switch (ron_rand_below(rand, 4)) {
    case 0: /* any length */
        return value >> shift;
    case 1: /* a power of two and its neighbours */
        return ((ron_u128)1 << shift) + ron_rand_below(rand, 3) - 1;
    case 2: /* a run of ones up to the top, and its neighbours */
        return (RON_U128_MAX << shift) + ron_rand_below(rand, 3) - 1;
    default: { /* a run of ones somewhere */
        unsigned length = (unsigned)ron_rand_below(rand, 128);

        return (((ron_u128)1 << length) - 1) << shift;
    }
    }
}

void support_check_u128(ron_u128 a, ron_u128 b, const char *file, int line)
{
    if (a != b) {
        print_error("0x%016llx%016llx != 0x%016llx%016llx\n", (unsigned long long)ron_u128_hi(a),
                    (unsigned long long)ron_u128_lo(a), (unsigned long long)ron_u128_hi(b),
                    (unsigned long long)ron_u128_lo(b));
        _fail(file, line);
    }
}

void support_corpus(const char *name, char *ret_path, size_t size)
{
    const char *folder = getenv("RON_CORPORA");

    (void)snprintf(ret_path, size, "%s/%s", folder != NULL ? folder : "corpora", name);
}
