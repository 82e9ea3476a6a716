/* SPDX-License-Identifier: Apache-2.0 */
/* bench_obs.c - what recording costs: counter, histogram, log line, span.
 *
 *   bench_obs               times every operation, a line "name<TAB>text<TAB>ns" for each
 *   bench_obs NAME COUNT    runs one operation COUNT times and prints nothing; for callgrind, with
 *                           a count and its double, as bench_kernel_count
 *
 * One thread, everything in cache: the costs of the fast paths. Lines go to a writer that drops
 * them, so the system call is not part of the figure. */
#include "bench/bench.h"
#include "obs/metrics_priv.h"
#include "ron/io/linux_env.h"
#include "ron/obs/log.h"
#include "ron/obs/trace.h"

enum { COUNT_MAX = 100000000 };

static struct ron_metrics *metrics;
static struct ron_registry *registry;

static void run_counter(uint64_t count)
{
    struct ron_series *s = ron_metric_series(ron_metrics_name(metrics, RON_M_REJECTED), "busy");

    for (uint64_t i = 0; i < count; i++) {
        ron_counter_add(s, 1);
    }
    BENCH_TRUE(ron_series_value(s) >= count);
}

static void run_histogram(uint64_t count)
{
    struct ron_series *s =
        ron_metric_series(ron_metrics_name(metrics, RON_M_REQUEST_LATENCY), "/", "GET");

    for (uint64_t i = 0; i < count; i++) {
        ron_histogram_observe(s, (i % 64) * 1000000);
    }
}

static void run_lookup(uint64_t count)
{
    struct ron_metric *f = ron_metrics_name(metrics, RON_M_REJECTED);

    for (uint64_t i = 0; i < count; i++) {
        ron_counter_add(ron_metric_series(f, "busy"), 1);
    }
}

static enum ron_rc drop_line(void *arg, const char *line, size_t len)
{
    (void)arg;
    (void)line;
    (void)len;
    return RON_OK;
}

/* A clock that moves a second each time, so that no line is a repeat. */
static uint64_t later(void *ctx)
{
    static uint64_t now;

    (void)ctx;
    return now += 1000000000u;
}

static void run_log(uint64_t count, enum ron_log_format format, enum ron_log_level level)
{
    struct ron_env env = *ron_env_linux();
    struct ron_log *log = NULL;

    env.clock.mono_ns = later;
    BENCH_OK(ron_log_new(&(struct ron_log_opts){.env = &env,
                                                .registry = registry,
                                                .service = "bench",
                                                .format = format,
                                                .level = level,
                                                .write = drop_line},
                         &log, NULL));
    for (uint64_t i = 0; i < count; i++) {
        RON_LOG(log, INFO, "a line with some fields", RON_LOG_STR("queue", "work"),
                RON_LOG_U64("depth", i), RON_LOG_STR("corr_id", "01HXABCDEFGHJKMNPQRSTVWXYZ"));
    }
    ron_log_free(log);
}

static void run_log_json(uint64_t count)
{
    run_log(count, RON_LOG_AS_JSON, RON_LOG_INFO);
}

static void run_log_text(uint64_t count)
{
    run_log(count, RON_LOG_AS_TEXT, RON_LOG_INFO);
}

static void run_log_off(uint64_t count)
{
    run_log(count, RON_LOG_AS_TEXT, RON_LOG_WARN);
}

static void run_span(uint64_t count)
{
    struct ron_tracer *t = NULL;
    struct ron_span span;

    BENCH_OK(ron_tracer_new(
        &(struct ron_tracer_opts){
            .env = ron_env_linux(), .registry = registry, .service = "bench", .sample_percent = 1},
        &t, NULL));
    for (uint64_t i = 0; i < count; i++) {
        ron_span_start(t, &span, "stage", RON_SPAN_INTERNAL, NULL);
        ron_span_u64(&span, "batch_size", i);
        ron_span_end(&span);
    }
    ron_tracer_free(t);
}

static const struct {
    const char *name;
    const char *text;
    void (*run)(uint64_t count);
    uint64_t timed;
} operations[] = {
    {"counter", "counter add", run_counter, 20000000},
    {"histogram", "histogram observe, ten buckets", run_histogram, 5000000},
    {"lookup", "counter add with a lookup by label", run_lookup, 1000000},
    {"log_off", "log line below the level", run_log_off, 20000000},
    {"log_json", "log line of three fields, JSON", run_log_json, 200000},
    {"log_text", "log line of three fields, text", run_log_text, 200000},
    {"span", "span with one attribute, not sampled", run_span, 1000000},
};

static void time_all(void)
{
    for (size_t i = 0; i < RON_ARRAY_LEN(operations); i++) {
        uint64_t took[3];

        for (int k = 0; k < 3; k++) {
            uint64_t start = bench_cpu_ns();

            operations[i].run(operations[i].timed);
            took[k] = bench_cpu_ns() - start;
        }
        /* The median of three. */
        uint64_t a = RON_MIN(took[0], took[1]);
        uint64_t b = RON_MAX(took[0], took[1]);
        uint64_t median = RON_MAX(a, RON_MIN(b, took[2]));

        printf("%s\t%s\t%.1f\n", operations[i].name, operations[i].text,
               (double)median / (double)operations[i].timed);
    }
}

int main(int argc, char **argv)
{
    BENCH_OK(ron_metrics_new(NULL, &metrics, NULL));
    BENCH_OK(ron_registry_new(&registry, NULL));
    if (argc == 1) {
        time_all();
    } else if (argc == 3) {
        char *end = NULL;
        uint64_t count = strtoull(argv[2], &end, 10);

        BENCH_TRUE(*end == '\0' && count > 0 && count <= COUNT_MAX);
        for (size_t i = 0; i < RON_ARRAY_LEN(operations); i++) {
            if (strcmp(operations[i].name, argv[1]) == 0) {
                operations[i].run(count);
            }
        }
    } else {
        fprintf(stderr, "usage: bench_obs [NAME COUNT]\n");
        return 2;
    }
    ron_registry_free(registry);
    ron_metrics_free(metrics);
    return 0;
}
