/* SPDX-License-Identifier: Apache-2.0 */
/* edge/answer/metrics.h - what the edge counts, under the names of the specification.
 *
 * Threads: any, once edg_metrics_new is back. */
#pragma once

#include "ron/obs/collect.h"

struct edg_site;

/* Where the bytes of an answer come from. X(NAME, "label") */
#define EDG_SOURCES(X)                                                                             \
    X(PACK, "pack")                                                                                \
    X(FILE, "file")                                                                                \
    X(CAS, "cas")                                                                                  \
    X(GATEWAY, "gateway")

enum edg_source {
#define X(name, label) EDG_FROM_##name,
    EDG_SOURCES(X)
#undef X
        EDG_SOURCE_COUNT
};

/* X(ID, TYPE, UNIT, "name", "labels", "help") */
#define EDG_METRICS(X)                                                                             \
    X(REJECTS, COUNTER, ONE, "edge_rejects_total", "reason", "Requests refused, by reason.")       \
    X(HITS, COUNTER, ONE, "edge_cache_hits_total", "kind,range",                                   \
      "Responses served, by source; range: hit for a part, miss for the whole.")                   \
    X(MISSES, COUNTER, ONE, "edge_cache_misses_total", "cause",                                    \
      "Requests that needed the disk or the origin, or found nothing, by cause.")                  \
    X(RANGES, COUNTER, ONE, "edge_range_requests_total", "result",                                 \
      "Range requests, by status: 206 or 416.")                                                    \
    X(BYTES_OUT, COUNTER, ONE, "edge_bytes_out_total", "kind", "Body bytes sent, by source.")      \
    X(FILL_ATTEMPTS, COUNTER, ONE, "edge_live_fill_attempts_total", "host",                        \
      "Live fills started, by origin.")                                                            \
    X(FILL_SUCCESS, COUNTER, ONE, "edge_live_fill_success_total", "host",                          \
      "Live fills that fetched or revalidated content, by origin.")                                \
    X(FILL_LATENCY, HISTOGRAM, NS, "fill_latency_seconds", "", "Duration of live fills.")          \
    X(CAS_WRITES, COUNTER, ONE, "edge_cas_writes_total", "status",                                 \
      "Objects written to the content store by fills: ok or error.")                               \
    X(COLLAPSED, COUNTER, ONE, "edge_fill_collapsed_total", "",                                    \
      "Requests that joined a fill in progress.")                                                  \
    X(FILL_LATE, COUNTER, ONE, "edge_fill_late_total", "",                                         \
      "Requests answered 202 because their deadline came before the end of the fill.")             \
    X(PURGES, COUNTER, ONE, "edge_purges_total", "kind", "Purges, by kind: path, prefix or id.")   \
    X(SHARED, COUNTER, ONE, "edge_shared_records_total", "result",                                 \
      "Bucket records, by result: found, absent, stale, purged, bad, failed; told, untold.")       \
    X(PACKS, GAUGE, ONE, "edge_packs", "state", "Packs, by state: served or failed.")              \
    X(PACK_LOADS, COUNTER, ONE, "edge_pack_loads_total", "result",                                 \
      "Packs opened and verified, by result.")                                                     \
    X(FILES_OPEN, GAUGE, ONE, "edge_files_open", "", "Files in the open file table.")              \
    X(FILES_BYTES, GAUGE, ONE, "edge_files_memory_bytes", "", "Memory used by small files.")

enum edg_metric_id {
#define X(id, type, unit, name, labels, help) EDG_M_##id,
    EDG_METRICS(X)
#undef X
        EDG_M_COUNT
};

/* Makes site->metrics and has each refusal counted when it is answered. */
RON_MUST_USE enum ron_rc edg_metrics_new(struct edg_site *s, struct ron_err *err);
void edg_metrics_free(struct edg_site *s);
void edg_count_of(struct edg_site *s, int metric, const char *label, uint64_t n);
/* On every answer: without a lookup. */
void edg_count_hit(struct edg_site *s, enum edg_source source, bool range, uint64_t bytes);
void edg_count(struct edg_site *s, int metric, uint64_t n);
void edg_observe(struct edg_site *s, int metric, uint64_t ns);
void edg_set_of(struct edg_site *s, int metric, const char *label, uint64_t value);
/* A gauge without labels, while metrics are collected. */
void edg_scrape(struct edg_site *s, struct ron_scrape *scrape, int metric, uint64_t value);
