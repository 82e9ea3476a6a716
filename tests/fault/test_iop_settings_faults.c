/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: providers and rules that cannot be loaded for want of memory, or because a file of a secret
 * cannot be read, are a code with a sentence, and nothing is left behind, no secret either.
 * Method: the fault sweep over loading, using and freeing both, with secrets from the environment
 * and from a file. */
#include <fcntl.h>
#include <unistd.h>

#include "support/support.h"

#include "interop/offline/tool.h"
#include "interop/provider/load.h"
#include "interop/rule/rule.h"
#include "ron/base/assert.h"
#include "ron/io/linux_env.h"

#define TEST_CONF(X) IOP_PROVIDER_KEYS(X) IOP_RULE_KEYS(X)

static const struct ron_conf_key keys[] = {TEST_CONF(RON_CONF_ROW)};
static const struct ron_conf_table table = {
    .service = "interop", .keys = keys, .key_count = RON_ARRAY_LEN(keys)};
static const char *const variables[] = {"GH=github secret", "TOKEN=verify token",
                                        "FWD=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", NULL};

static char path[] = "/tmp/iop-faults-XXXXXX";
static struct ron_conf_snap *snap;

static int make_settings(void **state)
{
    char text[1024];
    struct ron_conf_sources sources = {.text = text, .path = "test"};
    int fd = mkstemp(path);

    (void)state;
    RON_IGNORE(snprintf(text, sizeof text,
                        "[providers.github]\nenabled = true\nsecret_env = \"GH\"\n"
                        "secret_file_next = \"%s\"\n"
                        "[providers.meta]\nenabled = true\nsecret_env = \"FWD\"\n"
                        "verify_token_env = \"TOKEN\"\n"
                        "[rules.a]\ntopic = \"t\"\nwhen = [\"/a = 1\"]\n"
                        "[rules.b]\naction = \"forward\"\nurl = \"https://x.org/\"\n"
                        "secret_env = \"FWD\"\n",
                        path));
    return fd >= 0 && write(fd, "file secret\n", 12) == 12 && close(fd) == 0 &&
                   ron_conf_load(NULL, &table, &sources, &snap, NULL) == RON_OK
               ? 0
               : -1;
}

static int drop_settings(void **state)
{
    (void)state;
    ron_conf_unref(snap);
    return unlink(path);
}

static enum ron_rc checked(enum ron_rc rc, const struct ron_err *err)
{
    RON_ASSERT(rc == RON_OK || (err->rc == rc && err->msg[0] != '\0'));
    RON_ASSERT(strstr(err->msg, "file secret") == NULL);
    return rc;
}

static enum ron_rc load(void *arg)
{
    struct iop_providers *p = NULL;
    struct iop_rules *r = NULL;
    struct ron_err err = {0};
    enum ron_rc rc = checked(iop_providers_new(ron_env_linux(), snap, variables, &p, &err), &err);

    (void)arg;
    if (rc == RON_OK) {
        RON_ASSERT(p->count == 2 && p->at[0].key_count == 2);
        rc = checked(iop_rules_new(ron_env_linux(), snap, variables, &r, &err), &err);
    }
    if (rc == RON_OK) {
        RON_ASSERT(r->count == 2);
    } else {
        RON_ASSERT(r == NULL);
    }
    iop_rules_free(r);
    iop_providers_free(p);
    return rc;
}

static enum ron_rc sign(void *arg)
{
    struct iop_tool_headers h;
    struct ron_err err = {0};

    (void)arg;
    return checked(iop_tool_sign(&(struct iop_tool_request){.kind = "github",
                                                            .secret = "a secret",
                                                            .secret_len = 8,
                                                            .id = "i",
                                                            .body = "b",
                                                            .len = 1},
                                 &h, &err),
                   &err);
}

SUPPORT_FAULT_SWEEP(test_settings__each_call_failing__typed_and_nothing_left, load)
SUPPORT_FAULT_SWEEP(test_tool__no_memory__typed_and_nothing_left, sign)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_settings__each_call_failing__typed_and_nothing_left),
        cmocka_unit_test(test_tool__no_memory__typed_and_nothing_left),
    };

    return cmocka_run_group_tests(tests, make_settings, drop_settings);
}
