/* SPDX-License-Identifier: Apache-2.0 */
/* scrape.c - one scrape: gather all samples, sort, add up equals, write text.
 *
 * Everything is gathered first because the format wants a family in one piece, while its samples
 * come from cells and from any number of collectors. A scrape owns all its memory, so two of them
 * may run at once; it takes no lock but the short ones of the collectors' sources. */
#include "obs/metrics_priv.h"

#include <stdlib.h>

/* A sample: its labels lie in `text`, the numbers of a histogram in `numbers`. */
struct sample {
    const struct ron_metric *family;
    const char *labels; /* set when everything is gathered; an offset until then */
    size_t labels_at;
    uint64_t value;
    size_t numbers_at; /* histograms: bound_count + 1 buckets and the sum */
};

struct ron_scrape {
    struct ron_metrics *metrics;
    struct ron_buf samples;
    struct ron_buf text;
    struct ron_buf numbers;
};

struct ron_metrics *ron_scrape_metrics(struct ron_scrape *scrape)
{
    return scrape->metrics;
}

/* ---- gathering ------------------------------------------------------------------------------- */

static void add_sample(struct ron_scrape *sc, struct sample sample, const char *labels, size_t len)
{
    sample.labels_at = ron_buf_len(&sc->text);
    if (ron_buf_len(&sc->samples) / sizeof sample >= RON_METRIC_SAMPLES_MAX ||
        sample.labels_at + len + 1 > RON_METRIC_TEXT_MAX) {
        ron_stat_add(&sc->metrics->dropped, 1);
        return;
    }
    (void)ron_buf_append(&sc->text, labels, len + 1); /* failures are looked at in `finish` */
    (void)ron_buf_append(&sc->samples, &sample, sizeof sample);
}

void ron_scrape_sample(struct ron_scrape *sc, struct ron_metric *family, uint64_t value,
                       const char *const *values, size_t count)
{
    char text[METRIC_TEXT_MAX];
    size_t len = 0;

    if (family == NULL || family->def.type == RON_METRIC_HISTOGRAM ||
        !ron__metric_labels(family, values, count, text, &len)) {
        ron_stat_add(&sc->metrics->dropped, 1);
        return;
    }
    add_sample(sc, (struct sample){.family = family, .value = value}, text, len);
}

static void gather_series(struct ron_scrape *sc, const struct ron_metric *f,
                          const struct ron_series *s)
{
    struct sample sample = {.family = f};

    if (f->def.type == RON_METRIC_HISTOGRAM) {
        sample.numbers_at = ron_buf_len(&sc->numbers);
        for (uint32_t i = 0; i < f->cells; i++) {
            uint64_t n = ron__metric_sum(sc->metrics, s->_cell + i);
            (void)ron_buf_append(&sc->numbers, &n, sizeof n); /* looked at in `finish` */
        }
    } else {
        sample.value = ron_series_value(s);
    }
    add_sample(sc, sample, s->_labels, strlen(s->_labels));
}

static void gather_families(struct ron_scrape *sc)
{
    struct ron_metrics *m = sc->metrics;
    uint32_t count = ron_au32_load(&m->family_count);

    for (uint32_t i = 0; i < count; i++) {
        struct ron_metric *f = m->families[i];
        uint64_t over = ron_stat_get(&f->overflow);

        for (struct ron_series *s = ron_aptr_load(&f->newest); s != NULL; s = s->_next) {
            gather_series(sc, f, s);
        }
        if (over > 0) {
            ron_scrape_add(sc, m->families[RON_M_METRICS_OVERFLOW], over, f->def.name);
        }
    }
}

static void gather(struct ron_scrape *sc)
{
    struct ron_metrics *m = sc->metrics;
    uint32_t count = ron_au32_load(&m->collector_count);

    for (uint32_t i = 0; i < count; i++) {
        m->collectors[i].collect(sc, m->collectors[i].arg);
    }
    gather_families(sc);
    ron_scrape_sample(sc, m->families[RON_M_METRICS_DROPPED], ron_stat_get(&m->dropped), NULL, 0);
}

enum ron_rc ron_metrics_collector(struct ron_metrics *m, ron_collect_fn *collect, void *arg,
                                  struct ron_err *err)
{
    enum ron_rc rc = RON_OK;
    uint32_t count;

    ron_mutex_lock(&m->mu);
    count = ron_au32_load(&m->collector_count);
    if (count == RON_METRIC_COLLECTORS_MAX) {
        rc = ron_err_set(err, RON_LIMIT, "more than %d collectors", RON_METRIC_COLLECTORS_MAX);
    } else {
        m->collectors[count] = (struct metric_collector){collect, arg};
        ron_au32_store(&m->collector_count, count + 1);
    }
    ron_mutex_unlock(&m->mu);
    return rc;
}

/* ---- writing --------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    const struct sample *x = a;
    const struct sample *y = b;

    if (x->family != y->family) {
        return x->family->index < y->family->index ? -1 : 1;
    }
    return strcmp(x->labels, y->labels);
}

/* HELP knows two escapes. */
static void put_head(struct ron_buf *out, const struct ron_metric *f)
{
    static const char *const types[] = {"counter", "gauge", "histogram"};

    (void)ron_buf_append_fmt(out, "# HELP %s ", f->def.name); /* a failure sticks: B2 of buf.h */
    for (const char *p = f->def.help; *p != '\0'; p++) {
        if (*p == '\n') {
            (void)ron_buf_append_text(out, "\\n");
        } else if (*p == '\\') {
            (void)ron_buf_append_text(out, "\\\\");
        } else {
            (void)ron_buf_append_byte(out, (uint8_t)*p);
        }
    }
    (void)ron_buf_append_fmt(out, "\n# TYPE %s %s\n", f->def.name, types[f->def.type]);
}

static void put_digits(struct ron_buf *out, uint64_t value)
{
    char digits[20];
    size_t at = sizeof digits;

    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    (void)ron_buf_append(out, digits + at, sizeof digits - at);
}

/* A recorded value as it is shown: nanoseconds become seconds, exactly and without a tail of
 * zeros. */
static void put_value(struct ron_buf *out, const struct ron_metric *f, uint64_t value)
{
    char frac[10];
    int len = 9;
    uint64_t rest;

    if (f->def.type == RON_METRIC_GAUGE && (int64_t)value < 0) {
        (void)ron_buf_append_byte(out, '-');
        value = 0 - value;
    }
    if (f->def.unit == RON_METRIC_ONE) {
        put_digits(out, value);
        return;
    }
    put_digits(out, value / RON_NS_PER_S);
    rest = value % RON_NS_PER_S;
    if (rest == 0) {
        return;
    }
    for (int i = len; i-- > 0; rest /= 10) {
        frac[i] = (char)('0' + rest % 10);
    }
    while (frac[len - 1] == '0') {
        len--;
    }
    (void)ron_buf_append_byte(out, '.');
    (void)ron_buf_append(out, frac, (size_t)len);
}

static void put_plain(struct ron_buf *out, const struct ron_metric *f, const char *labels,
                      uint64_t value)
{
    (void)ron_buf_append_text(out, f->def.name);
    if (labels[0] != '\0') {
        (void)ron_buf_append_byte(out, '{');
        (void)ron_buf_append_text(out, labels);
        (void)ron_buf_append_byte(out, '}');
    }
    (void)ron_buf_append_byte(out, ' ');
    put_value(out, f, value);
    (void)ron_buf_append_byte(out, '\n');
}

/* `sum` holds bound_count + 1 buckets and the sum. Buckets are shown cumulated; the last is the
 * count, so that both are one reading (M2). */
static void put_histogram(struct ron_buf *out, const struct ron_metric *f, const char *labels,
                          const uint64_t *numbers)
{
    const char *name = f->def.name;
    const char *comma = labels[0] != '\0' ? "," : "";
    const char *open = labels[0] != '\0' ? "{" : "";
    const char *close = labels[0] != '\0' ? "}" : "";
    uint64_t total = 0;

    for (size_t i = 0; i <= f->def.bound_count; i++) {
        total += numbers[i];
        (void)ron_buf_append_fmt(out, "%s_bucket{%s%sle=\"", name, labels, comma);
        if (i < f->def.bound_count) {
            put_value(out, f, f->def.bounds[i]);
        } else {
            (void)ron_buf_append_text(out, "+Inf");
        }
        (void)ron_buf_append_text(out, "\"} ");
        put_digits(out, total);
        (void)ron_buf_append_byte(out, '\n');
    }
    (void)ron_buf_append_fmt(out, "%s_sum%s%s%s ", name, open, labels, close);
    put_value(out, f, numbers[f->def.bound_count + 1]);
    (void)ron_buf_append_fmt(out, "\n%s_count%s%s%s ", name, open, labels, close);
    put_digits(out, total);
    (void)ron_buf_append_byte(out, '\n');
}

static void write_sorted(struct ron_scrape *sc, struct sample *samples, size_t count,
                         struct ron_buf *out)
{
    const struct ron_metric *last = NULL;

    for (size_t i = 0; i < count; i++) {
        const struct ron_metric *f = samples[i].family;
        uint64_t value = samples[i].value;

        if (last == NULL || f != last) {
            put_head(out, f);
            last = f;
        }
        if (f->def.type == RON_METRIC_HISTOGRAM) {
            put_histogram(out, f, samples[i].labels,
                          (const uint64_t *)(const void *)(ron_buf_data(&sc->numbers) +
                                                           samples[i].numbers_at));
            continue;
        }
        while (i + 1 < count && compare(&samples[i], &samples[i + 1]) == 0) {
            value += samples[++i].value; /* M4 */
        }
        put_plain(out, f, samples[i].labels, value);
    }
}

static enum ron_rc finish(struct ron_scrape *sc, struct ron_buf *out)
{
    struct sample *samples = (struct sample *)(void *)sc->samples.memory;
    size_t count = ron_buf_len(&sc->samples) / sizeof *samples;

    RON_TRY(ron_buf_error(&sc->samples));
    RON_TRY(ron_buf_error(&sc->text));
    RON_TRY(ron_buf_error(&sc->numbers));
    for (size_t i = 0; i < count; i++) {
        samples[i].labels = (const char *)ron_buf_data(&sc->text) + samples[i].labels_at;
    }
    qsort(samples, count, sizeof *samples, compare);
    write_sorted(sc, samples, count, out);
    return ron_buf_error(out);
}

enum ron_rc ron_metrics_write(struct ron_metrics *m, struct ron_buf *out)
{
    struct ron_scrape sc = {.metrics = m};
    enum ron_rc rc;

    ron_buf_init(&sc.samples, (RON_METRIC_SAMPLES_MAX + 1) * sizeof(struct sample));
    ron_buf_init(&sc.text, RON_METRIC_TEXT_MAX);
    ron_buf_init(&sc.numbers, (size_t)m->cells_max * sizeof(uint64_t));
    gather(&sc);
    rc = finish(&sc, out);
    ron_buf_done(&sc.samples);
    ron_buf_done(&sc.text);
    ron_buf_done(&sc.numbers);
    return rc;
}
