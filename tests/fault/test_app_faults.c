/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: whichever allocation or system call fails while a service is built, the start is refused
 * with a text, and everything that was made is given back: memory, descriptors, threads.
 * Method: the fault sweep over a whole start and end of a small service with two listeners. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/support.h"

#include "app/app_priv.h"
#include "ron/app/app.h"
#include "ron/base/assert.h"
#include "ron/io/linux_env.h"
#include "unit/io/fixture.h"

#define MINI_CONF(X)                                                                               \
    RON_APP_KEYS_TOP(X, "127.0.0.1:0")                                                             \
    RON_APP_KEYS_LIMITS(X, "500", "250", "1MiB")                                                   \
    RON_APP_KEYS_TIMEOUTS(X, "10s")                                                                \
    RON_APP_KEYS_REST(X)
enum { MINI_CONF(RON_CONF_ID) MINI_CONF_COUNT };
static const struct ron_conf_key mini_keys[] = {MINI_CONF(RON_CONF_ROW)};
static const struct ron_conf_table mini_table = {
    .service = "mini", .keys = mini_keys, .key_count = MINI_CONF_COUNT};

static void drop_item(void *item, void *arg)
{
    (void)item;
    (void)arg;
}

static enum ron_rc mini_build(struct ron_app *app, struct ron_err *err)
{
    struct ron_chan *chan = NULL;

    RON_TRY(ron_chan_new(&(struct ron_chan_opts){.registry = ron_app_registry(app),
                                                 .env = ron_app_env(app),
                                                 .name = "work",
                                                 .producers = "http",
                                                 .consumers = "nobody",
                                                 .drop_text = "none",
                                                 .capacity = 4,
                                                 .policy = RON_CHAN_REJECT,
                                                 .drop = drop_item},
                         &chan, err));
    ron_app_set_state(app, chan);
    return RON_OK;
}

static void mini_take_down(struct ron_app *app)
{
    ron_chan_free(ron_app_state(app));
}

static const struct ron_app_def mini = {
    .conf = &mini_table, .summary = "mini", .build = mini_build, .take_down = mini_take_down};

static enum ron_rc quiet(void *arg, const char *line, size_t len)
{
    (void)arg;
    (void)line;
    (void)len;
    return RON_OK;
}

static enum ron_rc start_and_end(void *arg)
{
    static const char *const flags[] = {"metrics_addr=127.0.0.1:0", "workers=1",
                                        "trace.endpoint=http://127.0.0.1:9"};
    struct ron_conf_sources sources = {.flags = flags, .flag_count = RON_ARRAY_LEN(flags)};
    struct ron_app *app = NULL;
    struct ron_err err = {0};
    size_t fds = fixture_open_fds();
    enum ron_rc rc = ron_app_new(&(struct ron_app_opts){.def = &mini,
                                                        .env = ron_env_linux(),
                                                        .sources = &sources,
                                                        .cpus = 1,
                                                        .log_write = quiet},
                                 &app, &err);

    (void)arg;
    RON_ASSERT((rc == RON_OK) == (app != NULL));
    RON_ASSERT(rc == RON_OK || err.msg[0] != '\0');
    if (app != NULL) {
        rc = ron_app_reload(app, &err);
        RON_ASSERT(ron_app_free(app));
    }
    RON_ASSERT(fixture_open_fds() == fds);
    return rc;
}

/* A metric that has no memory for its series counts in "other", so a start may succeed without. */
SUPPORT_FAULT_SWEEP_TOLERANT(test_app__each_call_of_a_start_fails__all_is_given_back, start_and_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_app__each_call_of_a_start_fails__all_is_given_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
