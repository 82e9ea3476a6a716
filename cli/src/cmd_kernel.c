/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_kernel.c - `ron kernel`: runs the kernel with its self-check pipeline, or prints the
 * topology. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "kernel_check.h"
#include "ron/base/macros.h"
#include "ron/io/cpu.h"
#include "ron/task/signals.h"

enum { TOPOLOGY_BYTES_MAX = 1 << 20 };

static int print_topology(struct kernel_check *k, const char *format)
{
    struct ron_buf out;
    enum ron_rc rc;

    ron_buf_init(&out, TOPOLOGY_BYTES_MAX);
    rc = strcmp(format, "md") == 0 ? ron_registry_write_md(kernel_check_registry(k), &out)
                                   : ron_registry_write_json(kernel_check_registry(k), &out);
    if (rc == RON_OK) {
        (void)fwrite(ron_buf_data(&out), 1, ron_buf_len(&out),
                     stdout); /* Checked with the flush below. */
    }
    ron_buf_done(&out);
    return rc == RON_OK && fflush(stdout) == 0 && ferror(stdout) == 0 ? CLI_OK : CLI_FAILED;
}

/* A stop after some seconds, requested through the same door as any other. */
struct alarm {
    struct ron_sup *sup;
    uint64_t seconds;
};

static void alarm_main(void *arg)
{
    struct alarm *a = arg;
    struct ron_deadline at = ron_deadline_after_ms(ron_mono_ns(), a->seconds * RON_MS_PER_S);

    while (ron_park_until(at, "alarm") == RON_OK) {
        /* Woken for no reason. */
    }
    ron_sup_request_stop(a->sup);
}

static int run(struct kernel_check *k, uint64_t seconds, bool quiet)
{
    struct alarm a = {.sup = kernel_check_supervisor(k), .seconds = seconds};
    struct ron_thread *alarm_thread = NULL;
    struct ron_signals *signals = NULL;
    struct ron_err err = {0};
    int code;

    if (ron_signals_start(a.sup, NULL, NULL, &signals, &err) != RON_OK) {
        fprintf(stderr, "ron kernel: %s\n", err.msg);
        return CLI_FAILED;
    }
    if (seconds != 0 && ron_thread_start(
                            &(struct ron_thread_opts){
                                .name = "alarm", .may_block = true, .main = alarm_main, .arg = &a},
                            &alarm_thread, &err) != RON_OK) {
        fprintf(stderr, "ron kernel: %s\n", err.msg);
        ron_signals_stop(signals);
        return CLI_FAILED;
    }
    if (!quiet) {
        printf("kernel is up (pid %ld); Ctrl-C drains and exits\n", (long)getpid());
        (void)fflush(stdout);
    }
    code = kernel_check_run(k);
    if (alarm_thread != NULL) {
        ron_thread_cancel(alarm_thread);
        ron_thread_join(alarm_thread);
    }
    ron_signals_stop(signals);
    if (!kernel_check_report(k)) {
        code = CLI_FAILED;
    }
    return code;
}

int cli_kernel(int argc, char **argv)
{
    static const char *const formats[] = {"md", "json", NULL};
    struct kernel_check_opts o = {.workers = RON_MIN(ron_cpu_count(), 16u),
                                  .rate_hz = 1000,
                                  .drain_ms = RON_DRAIN_DEADLINE_DEFAULT_MS};
    const char *topology = NULL;
    uint64_t seconds = 0;
    struct kernel_check *k = NULL;
    struct ron_err err = {0};
    bool done = false;
    int code;
    const struct cli_option options[] = {
        CLI_NUMBER("workers", "N", "executor workers and pipeline workers", &o.workers, 1, 16),
        CLI_NUMBER("rate", "N", "messages offered per second, 0 = idle", &o.rate_hz, 0, 100000000),
        CLI_NUMBER("seconds", "N", "stop after this long, 0 = on a signal", &seconds, 0, 86400),
        CLI_NUMBER("drain-deadline", "MS", "milliseconds a drain may take", &o.drain_ms,
                   RON_DRAIN_DEADLINE_MIN_MS, RON_DRAIN_DEADLINE_MAX_MS),
        CLI_NUMBER("fail-every", "N", "let a worker fail on every n-th message, 0 = never",
                   &o.fail_every, 0, UINT32_MAX),
        CLI_NUMBER("hang-after", "N", "let a worker hang on message n, 0 = never", &o.hang_after, 0,
                   UINT32_MAX),
        CLI_CHOICE("print-topology", "md|json", "print channels, tasks and locks, then exit",
                   &topology, formats),
        CLI_FLAG("quiet", "only problems and the final line", &o.quiet),
    };

    code = cli_parse(
        "kernel",
        "Runs the kernel with a self-check pipeline until a signal, then drains and checks\n"
        "that no message was lost. Exit: 0 drained, 1 messages lost, 2 a task had to be\n"
        "aborted, 3 an essential task kept failing.",
        options, RON_ARRAY_LEN(options), argc, argv, &done);
    if (code != CLI_OK || done) {
        return code;
    }
    ron_signals_block();
    if (kernel_check_new(&o, &k, &err) != RON_OK) {
        fprintf(stderr, "ron kernel: %s\n", err.msg);
        return CLI_FAILED;
    }
    code = topology != NULL ? print_topology(k, topology) : run(k, seconds, o.quiet);
    kernel_check_free(k);
    return code;
}
