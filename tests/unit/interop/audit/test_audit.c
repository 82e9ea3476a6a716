/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: the audit trail shows what was changed, taken out, reordered or dropped, keeps nothing
 * secret, goes on after a restart, and never holds up who emits.
 * Method: lines made and checked by hand; the sink as a task of a supervisor, into a file. */
#include <unistd.h>

#include "interop/audit/audit.h"
#include "interop/audit/verify.h"
#include "ron/base/assert.h"
#include "ron/io/linux_env.h"
#include "ron/task/executor.h"
#include "support/support.h"

static const char *const none[] = {NULL};
static const char *const secrets[] = {"token", "signature", NULL};

static struct ron_str str(const char *text)
{
    return (struct ron_str){text, strlen(text)};
}

static void three_lines(struct ron_buf *out, const char *lines[3], size_t lens[3])
{
    struct iop_audit_chain chain = {0};
    const char *p;

    for (uint64_t i = 0; i < 3; i++) {
        assert_int_equal(
            iop_audit_line(&chain, 1000 + i, i == 2 ? 7 : 0,
                           &(struct iop_audit_event){.action = "webhook", .provider = "github"},
                           none, out),
            RON_OK);
    }
    p = ron_buf_text(out);
    for (int i = 0; i < 3; i++) {
        lines[i] = p;
        lens[i] = strcspn(p, "\n");
        p += lens[i] + 1;
    }
}

static void test_audit__chain__holds_and_shows_every_change(void **state)
{
    const char *lines[3];
    size_t lens[3];
    struct ron_buf out;
    struct iop_audit_chain chain = {0};
    char copy[IOP_AUDIT_LINE_MAX];

    (void)state;
    ron_buf_init(&out, 1 << 20);
    three_lines(&out, lines, lens);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(iop_audit_check(&chain, (struct ron_str){lines[i], lens[i]}, false, NULL),
                         RON_OK);
    }
    assert_int_equal(chain.seq, 3);
    /* Taken out, or in another order. */
    chain = (struct iop_audit_chain){0};
    assert_int_equal(iop_audit_check(&chain, (struct ron_str){lines[0], lens[0]}, false, NULL),
                     RON_OK);
    assert_int_equal(iop_audit_check(&chain, (struct ron_str){lines[2], lens[2]}, false, NULL),
                     RON_CORRUPT);
    assert_int_equal(chain.seq, 1);
    /* Any byte changed, and any byte cut. */
    for (size_t i = 0; i < lens[1]; i++) {
        struct iop_audit_chain at = chain;

        memcpy(copy, lines[1], lens[1]);
        copy[i] ^= 1;
        assert_int_equal(iop_audit_check(&at, (struct ron_str){copy, lens[1]}, false, NULL),
                         RON_CORRUPT);
        assert_int_equal(iop_audit_check(&at, (struct ron_str){lines[1], i}, false, NULL),
                         RON_CORRUPT);
    }
    ron_buf_done(&out);
}

static void test_audit__secrets_and_addresses__not_in_the_line(void **state)
{
    struct iop_audit_chain chain = {0};
    struct ron_buf out;
    struct iop_audit_event e = {.action = "put",
                                .allow = true,
                                .addr = "192.0.2.77:4711",
                                .attrs = {{"x_Token_id", str("hunter2")},
                                          {"Signature", str("hunter3")},
                                          {"size", str("77\"}")}}};

    (void)state;
    ron_buf_init(&out, 1 << 20);
    assert_int_equal(iop_audit_line(&chain, 1, 0, &e, secrets, &out), RON_OK);
    assert_null(strstr(ron_buf_text(&out), "hunter"));
    assert_non_null(strstr(ron_buf_text(&out), "\"x_Token_id\":\"[redacted]\""));
    assert_non_null(strstr(ron_buf_text(&out), "\"addr\":\"192.0.2.x\""));
    assert_non_null(strstr(ron_buf_text(&out), "\"size\":\"77\\\"}\""));
    ron_buf_clear(&out);
    e.addr = "[2001:db8:1:2::3]:80";
    assert_int_equal(iop_audit_line(&chain, 1, 0, &e, secrets, &out), RON_OK);
    assert_non_null(strstr(ron_buf_text(&out), "\"addr\":\"[2001:db8:x]\""));
    ron_buf_clear(&out);
    e.addr = "unix:/run/x";
    assert_int_equal(iop_audit_line(&chain, 1, 0, &e, secrets, &out), RON_OK);
    assert_non_null(strstr(ron_buf_text(&out), "\"addr\":\"x\""));
    ron_buf_done(&out);
}

/* ---- the sink -------------------------------------------------------------------------------- */

struct run {
    struct ron_registry *registry;
    struct ron_exec *exec;
    struct ron_sup *sup;
    struct iop_audit *audit;
    char path[64];
};

static enum ron_rc open_audit(struct run *r, bool amnesia)
{
    return iop_audit_new(&(struct iop_audit_opts){.env = ron_env_linux(),
                                                  .registry = r->registry,
                                                  .sink = IOP_AUDIT_FILE,
                                                  .path = r->path,
                                                  .amnesia = amnesia},
                         &r->audit, NULL);
}

static void begin(struct run *r)
{
    assert_int_equal(ron_registry_new(&r->registry, NULL), RON_OK);
    assert_int_equal(
        ron_exec_new(
            &(struct ron_exec_opts){.env = ron_env_linux(), .registry = r->registry, .workers = 1},
            &r->exec, NULL),
        RON_OK);
    assert_int_equal(ron_sup_new(&(struct ron_sup_opts){.env = ron_env_linux(),
                                                        .registry = r->registry,
                                                        .exec = r->exec},
                                 &r->sup, NULL),
                     RON_OK);
}

/* What was emitted is written by a run that is asked to stop at once: the drain writes all. */
static void run_out(struct run *r)
{
    assert_int_equal(iop_audit_add(r->audit, r->sup, 1, NULL), RON_OK);
    ron_sup_request_stop(r->sup);
    assert_int_equal(ron_sup_run(r->sup), 0);
}

static void end(struct run *r)
{
    ron_sup_free(r->sup);
    iop_audit_free(r->audit);
    assert_true(ron_exec_free(r->exec));
    ron_registry_free(r->registry);
}

static void make_path(struct run *r)
{
    int fd;

    (void)snprintf(r->path, sizeof r->path, "/tmp/ron-audit-XXXXXX");
    fd = mkstemp(r->path);
    assert_true(fd >= 0);
    (void)close(fd);
}

static void test_audit__channel_full__oldest_dropped_and_told(void **state)
{
    struct run r = {0};
    struct ron_interop_audit_report report;

    (void)state;
    make_path(&r);
    begin(&r);
    assert_int_equal(open_audit(&r, false), RON_OK);
    for (int i = 0; i < IOP_AUDIT_CAPACITY + 100; i++) {
        iop_audit_emit(r.audit, &(struct iop_audit_event){.action = "webhook"});
    }
    assert_int_equal(ron_stat_get(&iop_audit_get_counts(r.audit)->dropped), 100);
    run_out(&r);
    assert_int_equal(ron_stat_get(&iop_audit_get_counts(r.audit)->emitted), IOP_AUDIT_CAPACITY);
    end(&r);
    assert_int_equal(ron_interop_audit_verify(ron_env_linux(), r.path, &report, NULL), RON_OK);
    assert_int_equal(report.records, IOP_AUDIT_CAPACITY);
    assert_int_equal(report.dropped, 100);
    assert_false(report.torn);
    (void)unlink(r.path);
}

static void test_audit__restart_after_half_a_line__goes_on(void **state)
{
    struct run r = {0};
    struct ron_interop_audit_report report;
    struct ron_buf tail;
    FILE *f;

    (void)state;
    make_path(&r);
    begin(&r);
    assert_int_equal(open_audit(&r, false), RON_OK);
    iop_audit_emit(r.audit, &(struct iop_audit_event){.action = "first"});
    run_out(&r);
    end(&r);
    f = fopen(r.path, "a");
    assert_non_null(f);
    (void)fputs("{\"v\":1,\"seq\":2,\"half", f);
    (void)fclose(f);
    assert_int_equal(ron_interop_audit_verify(ron_env_linux(), r.path, &report, NULL), RON_OK);
    assert_true(report.torn);
    begin(&r);
    assert_int_equal(open_audit(&r, false), RON_OK);
    iop_audit_emit(r.audit, &(struct iop_audit_event){.action = "second"});
    run_out(&r);
    ron_buf_init(&tail, 1 << 20);
    assert_int_equal(iop_audit_tail(r.audit, 10, &tail), RON_OK);
    assert_non_null(strstr(ron_buf_text(&tail), "\"cut_bytes\":\"20\""));
    assert_non_null(strstr(ron_buf_text(&tail), "\"action\":\"second\""));
    ron_buf_done(&tail);
    end(&r);
    assert_int_equal(ron_interop_audit_verify(ron_env_linux(), r.path, &report, NULL), RON_OK);
    assert_int_equal(report.records, 3);
    assert_int_equal(report.last_seq, 3);
    assert_false(report.torn);
    (void)unlink(r.path);
}

static void test_audit__file_tampered__found_and_not_continued(void **state)
{
    struct run r = {0};
    struct ron_interop_audit_report report;
    FILE *f;

    (void)state;
    make_path(&r);
    begin(&r);
    assert_int_equal(open_audit(&r, false), RON_OK);
    iop_audit_emit(r.audit, &(struct iop_audit_event){.action = "one"});
    iop_audit_emit(r.audit, &(struct iop_audit_event){.action = "two"});
    run_out(&r);
    end(&r);
    f = fopen(r.path, "r+");
    assert_non_null(f);
    assert_int_equal(fseek(f, -100, SEEK_END), 0); /* in the last line */
    (void)fputc('!', f);
    (void)fclose(f);
    assert_int_equal(ron_interop_audit_verify(ron_env_linux(), r.path, &report, NULL), RON_CORRUPT);
    assert_int_equal(report.bad_line, 2);
    begin(&r);
    assert_int_equal(open_audit(&r, false), RON_CORRUPT);
    r.audit = NULL;
    end(&r);
    (void)unlink(r.path);
}

static void test_audit__amnesia__no_file(void **state)
{
    struct run r = {0};

    (void)state;
    (void)snprintf(r.path, sizeof r.path, "/tmp/ron-audit-none-%d", (int)getpid());
    begin(&r);
    assert_int_equal(open_audit(&r, true), RON_DENIED);
    assert_int_equal(access(r.path, F_OK), -1);
    r.audit = NULL;
    end(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_audit__chain__holds_and_shows_every_change),
        cmocka_unit_test(test_audit__secrets_and_addresses__not_in_the_line),
        cmocka_unit_test(test_audit__channel_full__oldest_dropped_and_told),
        cmocka_unit_test(test_audit__restart_after_half_a_line__goes_on),
        cmocka_unit_test(test_audit__file_tampered__found_and_not_continued),
        cmocka_unit_test(test_audit__amnesia__no_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
