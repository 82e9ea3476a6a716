/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: the audit trail, slices and the answers of a mailbox elsewhere, when memory or the disk
 * fails at any of their calls: a code, and nothing left behind.
 * Method: the fault sweep over a whole life of each. */
#include <unistd.h>

#include "support/support.h"

#include "interop/audit/audit.h"
#include "interop/mailbox/remote.h"
#include "interop/object/bao.h"
#include "ron/base/assert.h"
#include "ron/io/linux_env.h"

static char path[] = "/tmp/iop-parts-XXXXXX";

static int make_file(void **state)
{
    int fd = mkstemp(path);

    (void)state;
    return fd >= 0 ? close(fd) : -1;
}

static int drop_file(void **state)
{
    (void)state;
    return unlink(path);
}

static enum ron_rc trail(void *arg)
{
    struct ron_registry *registry = NULL;
    struct iop_audit *a = NULL;
    struct ron_err err = {0};
    enum ron_rc rc = ron_registry_new(&registry, &err);

    (void)arg;
    if (rc == RON_OK) {
        rc = iop_audit_new(
            &(struct iop_audit_opts){
                .env = ron_env_linux(), .registry = registry, .sink = IOP_AUDIT_FILE, .path = path},
            &a, &err);
    }
    if (rc == RON_OK) {
        iop_audit_emit(a, &(struct iop_audit_event){.action = "x"}); /* allocates nothing */
        RON_ASSERT(ron_stat_get(&iop_audit_get_counts(a)->dropped) == 0);
    } else {
        RON_ASSERT(a == NULL);
    }
    iop_audit_free(a);
    if (registry != NULL) {
        ron_registry_free(registry);
    }
    return rc;
}

static enum ron_rc read_zeros(void *arg, uint64_t off, void *buf, size_t len)
{
    (void)arg;
    (void)off;
    memset(buf, 0, len);
    return RON_OK;
}

static enum ron_rc emit(void *arg, const void *bytes, size_t len)
{
    return ron_buf_append(arg, bytes, len);
}

static enum ron_rc slice(void *arg)
{
    static const uint8_t zeros[65536];
    struct iop_bao *t = NULL;
    struct ron_buf out;
    struct ron_err err = {0};
    struct ron_b3 root;
    enum ron_rc rc = iop_bao_new(3 * sizeof zeros, &t, &err);

    (void)arg;
    ron_buf_init(&out, 1 << 20);
    for (int i = 0; i < 3 && rc == RON_OK; i++) {
        rc = iop_bao_update(t, zeros, sizeof zeros);
    }
    if (rc == RON_OK) {
        rc = iop_bao_final(t, &root);
    }
    if (rc == RON_OK) {
        rc = iop_bao_slice(t, 70000, 5000, read_zeros, NULL, emit, &out, &err);
    }
    iop_bao_free(t);
    ron_buf_done(&out);
    return rc;
}

static enum ron_rc answer(void *arg)
{
    static const char text[] = "{\"messages\":[{\"id\":\"1\",\"receipt\":\"1-1\",\"sent_ms\":1,"
                               "\"body\":\"b\"}]}";
    struct iop_op op = {.kind = IOP_OP_RECV};
    enum ron_rc rc;

    (void)arg;
    op.recv.max = 10;
    rc = iop_box_http_read(&op, (struct ron_str){text, sizeof text - 1});
    RON_ASSERT(rc != RON_OK || op.recv.count == 1);
    iop_op_done(&op);
    return rc;
}

SUPPORT_FAULT_SWEEP(test_trail__each_call_failing__typed_and_nothing_left, trail)
SUPPORT_FAULT_SWEEP(test_slice__no_memory__typed_and_nothing_left, slice)
SUPPORT_FAULT_SWEEP(test_answer__no_memory__typed_and_nothing_left, answer)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trail__each_call_failing__typed_and_nothing_left),
        cmocka_unit_test(test_slice__no_memory__typed_and_nothing_left),
        cmocka_unit_test(test_answer__no_memory__typed_and_nothing_left),
    };

    return cmocka_run_group_tests(tests, make_file, drop_file);
}
