/* SPDX-License-Identifier: Apache-2.0 */
/* cli/base/money.c - the contract is in money.h. */
#include "cli/base/money.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "ron/base/macros.h"
#include "ron/base/ulid.h"
#include "ron/io/linux_env.h"

static void random_bytes(void *ctx, void *ret_bytes, size_t len)
{
    const struct ron_env *env = ron_env_linux();
    uint8_t *out = ret_bytes;

    (void)ctx;
    while (len > 0) {
        uint64_t r = env->rand_u64(env);
        size_t n = RON_MIN(len, sizeof r);

        memcpy(out, &r, n);
        out += n;
        len -= n;
    }
}

void cli_new_key(char ret_key[CLI_KEY_SIZE])
{
    struct ron_ulid_gen gen;
    struct ron_ulid id;
    char text[RON_ULID_TEXT_SIZE];

    ron_ulid_gen_init(&gen, random_bytes, NULL);
    id = ron_ulid_gen_next(&gen, ron_env_wall_ms(ron_env_linux()));
    ron_ulid_format(&id, text);
    (void)snprintf(ret_key, CLI_KEY_SIZE, "cli-%s", text);
}

void cli_format_time(uint64_t ms, char ret_text[CLI_TIME_SIZE])
{
    time_t at = (time_t)(ms / RON_MS_PER_S);
    struct tm tm;

    if (gmtime_r(&at, &tm) == NULL || strftime(ret_text, CLI_TIME_SIZE, "%FT%TZ", &tm) == 0) {
        (void)snprintf(ret_text, CLI_TIME_SIZE, "%" PRIu64, ms);
    }
}
