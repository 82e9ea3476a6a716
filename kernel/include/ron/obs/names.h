/* SPDX-License-Identifier: Apache-2.0 */
/* names.h - the metric names that every service shares: name, type, labels, help, in one table.
 *
 * Place: obs. A service that counts one of these takes it by its constant (RON_M_QUEUE_DEPTH), so
 * it cannot misspell it nor give it other labels; what only one service counts stands in a table of
 * that service (struct ron_metric_def). docs/formats/metrics.md repeats the table and a check
 * compares them.
 *
 * Rules:
 *   N1. Names are those of the specification, without a prefix for the service.
 *   N2. A name has one set of labels everywhere; a label that a producer has no value for is empty.
 *   N3. Times are in seconds, sizes in bytes; counters end in _total.
 *
 * X(ID, TYPE, UNIT, "name", "labels", "help"). UNIT says what is recorded: NS is nanoseconds, shown
 * as seconds; ONE is shown as it is. */
#pragma once

#define RON_METRIC_NAMES(X)                                                                        \
    X(QUEUE_DEPTH, GAUGE, ONE, "queue_depth", "queue", "Messages in the queue now.")               \
    X(QUEUE_CAPACITY, GAUGE, ONE, "queue_capacity", "queue", "Messages the queue can hold.")       \
    X(QUEUE_DEPTH_MAX, GAUGE, ONE, "queue_depth_max", "queue", "Most messages ever in the queue.") \
    X(QUEUE_SENT, COUNTER, ONE, "queue_sent_total", "queue", "Messages accepted.")                 \
    X(QUEUE_RECEIVED, COUNTER, ONE, "queue_received_total", "queue", "Messages taken out.")        \
    X(QUEUE_DROPPED, COUNTER, ONE, "queue_dropped_total", "queue",                                 \
      "Messages evicted, refused after a retry, or left at the end.")                              \
    X(BUSY, COUNTER, ONE, "busy_rejections_total", "endpoint,queue",                               \
      "Requests or messages refused because something bounded was full.")                          \
    X(QUEUE_RETRIES, COUNTER, ONE, "queue_retries_total", "queue",                                 \
      "Second tries to send to a full queue.")                                                     \
    X(QUEUE_CLOSED_SENDS, COUNTER, ONE, "queue_closed_sends_total", "queue",                       \
      "Sends refused because the queue was closed.")                                               \
    X(QUEUE_SEND_TIMEOUTS, COUNTER, ONE, "queue_send_timeouts_total", "queue",                     \
      "Sends that waited for room in vain.")                                                       \
    X(QUEUE_WAKEUPS, COUNTER, ONE, "queue_wakeups_total", "queue",                                 \
      "Wake-ups sent to sleeping receivers.")                                                      \
    X(BUS_PUBLISHED, COUNTER, ONE, "bus_published_total", "bus", "Messages put on the bus.")       \
    X(BUS_LAGGED, COUNTER, ONE, "bus_lagged_total", "bus", "Messages that slow readers missed.")   \
    X(BUS_READERS, GAUGE, ONE, "bus_readers", "bus", "Readers of the bus now.")                    \
    X(WATCH_SETS, COUNTER, ONE, "watch_sets_total", "watch", "Values set.")                        \
    X(RESTARTS, COUNTER, ONE, "service_restarts_total", "task", "Restarts of a failed task.")      \
    X(TASK_STARTS, COUNTER, ONE, "task_starts_total", "task", "Starts, restarts included.")        \
    X(TASK_HANDLED, COUNTER, ONE, "task_handled_total", "task", "Messages handled.")               \
    X(TASK_JOBS_FAILED, COUNTER, ONE, "task_jobs_failed_total", "task",                            \
      "Messages that could not be handled.")                                                       \
    X(TASK_STUCK, COUNTER, ONE, "task_stuck_total", "task",                                        \
      "Callbacks that ran longer than the watchdog allows.")                                       \
    X(TASKS_SPAWNED, COUNTER, ONE, "tasks_spawned_total", "kind", "Task starts by kind.")          \
    X(TASKS_ABORTED, COUNTER, ONE, "tasks_aborted_total", "kind",                                  \
      "Tasks that still lived at the drain deadline.")                                             \
    X(TASKS_CANCELED, COUNTER, ONE, "tasks_canceled_total", "kind", "Waits ended by a cancel.")    \
    X(TASKS_LEAKED, COUNTER, ONE, "tasks_leaked_total", "", "Tasks that could not be joined.")     \
    X(WORKER_RUNS, COUNTER, ONE, "worker_runs_total", "worker", "Handler calls.")                  \
    X(WORKER_POLLS, COUNTER, ONE, "worker_polls_total", "worker", "Waits at the poller.")          \
    X(WORKER_SLEEPS, COUNTER, ONE, "worker_sleeps_total", "worker", "Waits with nothing to do.")   \
    X(WORKER_WAKEUPS, COUNTER, ONE, "worker_wakeups_total", "worker", "Wake-ups sent to it.")      \
    X(WORKER_STEALS, COUNTER, ONE, "worker_steals_total", "worker", "Tasks taken over.")           \
    X(WORKER_INFLIGHT, GAUGE, ONE, "worker_inflight", "", "Jobs under way at the workers now.")    \
    X(SYNC_VIOLATIONS, COUNTER, ONE, "sync_violations_total", "kind",                              \
      "Breaches of the lock and blocking rules; any is a defect.")                                 \
    X(HTTP_CONNECTIONS, GAUGE, ONE, "http_connections", "server", "Connections open now.")         \
    X(HTTP_ACCEPTED, COUNTER, ONE, "http_connections_total", "server", "Connections accepted.")    \
    X(HTTP_BYTES_IN, COUNTER, ONE, "http_bytes_in_total", "server", "Bytes read.")                 \
    X(HTTP_BYTES_OUT, COUNTER, ONE, "http_bytes_out_total", "server", "Bytes written.")            \
    X(HTTP_DISCONNECTS, COUNTER, ONE, "http_disconnects_total", "server",                          \
      "Clients that left before their answer.")                                                    \
    X(HTTP_LATE_REPLIES, COUNTER, ONE, "http_late_replies_total", "server",                        \
      "Answers that came after the deadline or the client had gone.")                              \
    X(HTTP_ANSWERS_DROPPED, COUNTER, ONE, "http_answers_dropped_total", "server",                  \
      "Answers broken off because those that wait to be read hold too much memory.")               \
    X(HTTP_STREAMS, GAUGE, ONE, "http_streams", "server", "Answers under way in pieces.")          \
    X(OAP_CONNECTIONS, GAUGE, ONE, "oap_connections", "server", "Connections open now.")           \
    X(OAP_ACCEPTED, COUNTER, ONE, "oap_connections_total", "server", "Connections accepted.")      \
    X(OAP_FRAMES, COUNTER, ONE, "oap_frames_total", "server,kind",                                 \
      "Requests taken and events sent.")                                                           \
    X(OAP_BYTES_IN, COUNTER, ONE, "oap_bytes_in_total", "server", "Bytes read.")                   \
    X(OAP_BYTES_OUT, COUNTER, ONE, "oap_bytes_out_total", "server", "Bytes written.")              \
    X(OAP_DISCONNECTS, COUNTER, ONE, "oap_disconnects_total", "server",                            \
      "Peers that left before their answer.")                                                      \
    X(OAP_REJECTS, COUNTER, ONE, "oap_rejects_total", "server,reason", "Frames refused.")          \
    X(OAP_LATE_REPLIES, COUNTER, ONE, "oap_late_replies_total", "server",                          \
      "Answers that came after the deadline or the peer had gone.")                                \
    X(OAP_CLIENT_CONNECTED, GAUGE, ONE, "oap_client_connected", "client", "1 while connected.")    \
    X(OAP_CLIENT_INFLIGHT, GAUGE, ONE, "oap_client_inflight", "client",                            \
      "Requests sent and not yet answered.")                                                       \
    X(OAP_CLIENT_CONNECTS, COUNTER, ONE, "oap_client_connects_total", "client",                    \
      "Connections begun.")                                                                        \
    X(OAP_CLIENT_CALLS, COUNTER, ONE, "oap_client_calls_total", "client,outcome",                  \
      "Calls by how they ended: answered, refused, not_sent, unknown.")                            \
    X(HTTP_REQUESTS, COUNTER, ONE, "http_requests_total", "route,method,status",                   \
      "Answers by route, method and status.")                                                      \
    X(REQUEST_LATENCY, HISTOGRAM, NS, "request_latency_seconds", "route,method",                   \
      "First byte of the request to its answer; measured in steps of a millisecond.")              \
    X(INFLIGHT, GAUGE, ONE, "inflight_requests", "route", "Requests that wait for their answer.")  \
    X(REJECTED, COUNTER, ONE, "rejected_total", "reason", "Requests refused, by reason.")          \
    X(TLS_HANDSHAKES, COUNTER, ONE, "tls_handshakes_total", "result",                              \
      "TLS handshakes that worked: full, or resumed by a ticket.")                                 \
    X(TLS_FAILURES, COUNTER, ONE, "tls_handshake_failures_total", "reason",                        \
      "TLS handshakes that failed, by reason.")                                                    \
    X(TLS_OPEN, GAUGE, ONE, "tls_handshakes_open", "", "TLS handshakes under way now.")            \
    X(TLS_TRUNCATED, COUNTER, ONE, "tls_truncated_total", "",                                      \
      "TLS connections that ended without close_notify.")                                          \
    X(TLS_RELOADS, COUNTER, ONE, "tls_reloads_total", "result",                                    \
      "Reloads of a certificate: ok, or failed with the old one kept.")                            \
    X(TLS_EXPIRY, GAUGE, ONE, "tls_certificate_expiry_seconds", "certificate",                     \
      "Seconds until the served certificate ends; negative after it.")                             \
    X(IO_TIMEOUTS, COUNTER, ONE, "io_timeouts_total", "op,peer",                                   \
      "Deadlines passed, by operation.")                                                           \
    X(BACKOFF_RETRIES, COUNTER, ONE, "backoff_retries_total", "svc,op,result",                     \
      "Verdicts after a failed try of a call.")                                                    \
    X(UPSTREAM_FAIL, COUNTER, ONE, "upstream_fail_total", "svc", "Calls that failed.")             \
    X(BREAKER_STATE, GAUGE, ONE, "breaker_state", "svc", "0 closed, 1 open, 2 half-open.")         \
    X(BREAKER_CHANGES, COUNTER, ONE, "breaker_changes_total", "svc,state", "States entered.")      \
    X(BREAKER_REFUSED, COUNTER, ONE, "breaker_refused_total", "svc", "Calls not even tried.")      \
    X(LIMITER_CLIENTS, GAUGE, ONE, "limiter_clients", "limiter", "Clients in the table now.")      \
    X(LIMITER_OVERFLOW, COUNTER, ONE, "limiter_overflow_total", "limiter",                         \
      "Requests judged by a shared bucket because the table was full.")                            \
    X(CAP_CHECKS, COUNTER, ONE, "cap_checks_total", "result",                                      \
      "Capabilities judged from memory (hit), or read and their signature checked (miss).")        \
    X(CAP_CACHE_ENTRIES, GAUGE, ONE, "cap_cache_entries", "", "Capabilities remembered now.")      \
    X(CAP_CACHE_REMOVED, COUNTER, ONE, "cap_cache_removed_total", "cause",                         \
      "Capabilities forgotten for another one (evicted), or expired or of other keys (stale).")    \
    X(CAP_CACHE_BYPASSED, COUNTER, ONE, "cap_cache_bypassed_total", "",                            \
      "Good capabilities that are too large to be remembered.")                                    \
    X(CAP_KEYS, GAUGE, ONE, "cap_keys", "", "Root keys that verify.")                              \
    X(CAP_KEYS_GENERATION, GAUGE, ONE, "cap_keys_generation", "",                                  \
      "1 at the start, one more with every change of the root keys.")                              \
    X(CAP_KEY_RELOADS, COUNTER, ONE, "cap_key_reloads_total", "result",                            \
      "Loads of the key file after the start, by result.")                                         \
    X(CAS_HITS, COUNTER, ONE, "cas_hits_total", "store",                                           \
      "Objects found without touching the disk.")                                                  \
    X(CAS_LOADS, COUNTER, ONE, "cas_loads_total", "store",                                         \
      "Objects found, fetched or opened from disk.")                                               \
    X(CAS_MISSES, COUNTER, ONE, "cas_misses_total", "store",                                       \
      "Objects asked for that are not there.")                                                     \
    X(CAS_COMMITS, COUNTER, ONE, "cas_commits_total", "store", "Objects published.")               \
    X(CAS_DUPLICATES, COUNTER, ONE, "cas_duplicates_total", "store",                               \
      "Commits of an object that was there already.")                                              \
    X(CAS_WRITE_FAILURES, COUNTER, ONE, "cas_write_failures_total", "store",                       \
      "Writers that failed or met a limit.")                                                       \
    X(CAS_MISMATCHES, COUNTER, ONE, "cas_mismatches_total", "store",                               \
      "Commits whose bytes were not those promised.")                                              \
    X(CAS_EVICTIONS, COUNTER, ONE, "cas_evictions_total", "store",                                 \
      "Objects that made room for others.")                                                        \
    X(CAS_EVICTED_BYTES, COUNTER, ONE, "cas_evicted_bytes_total", "store",                         \
      "Bytes of objects that made room for others.")                                               \
    X(CAS_REMOVALS, COUNTER, ONE, "cas_removals_total", "store", "Objects removed on demand.")     \
    X(CAS_QUARANTINED, COUNTER, ONE, "cas_quarantined_total", "store", "Objects found damaged.")   \
    X(CAS_READ_ERRORS, COUNTER, ONE, "cas_read_errors_total", "store",                             \
      "Objects that could not be read.")                                                           \
    X(CAS_SCRUBBED_BYTES, COUNTER, ONE, "cas_scrubbed_bytes_total", "store",                       \
      "Bytes checked by the scrub.")                                                               \
    X(CAS_STRAYS, COUNTER, ONE, "cas_strays_total", "store",                                       \
      "Files in the store's folders that are not objects.")                                        \
    X(CAS_BYTES, GAUGE, ONE, "cas_bytes", "store", "Stored and half-written bytes.")               \
    X(CAS_OBJECTS, GAUGE, ONE, "cas_objects", "store", "Objects in the index.")                    \
    X(CAS_WRITERS, GAUGE, ONE, "cas_writers", "store", "Writers under way now.")                   \
    X(CAS_HELD, GAUGE, ONE, "cas_held_objects", "store", "Objects that somebody holds now.")       \
    X(CAS_OPEN_FILES, GAUGE, ONE, "cas_open_files", "store", "Files of objects that are open.")    \
    X(CAS_CACHE_BYTES, GAUGE, ONE, "cas_cache_bytes", "store",                                     \
      "Memory of small objects that are open.")                                                    \
    X(CAS_LOADED, GAUGE, ONE, "cas_loaded", "store", "1 when the index is complete.")              \
    X(S3_REQUESTS, COUNTER, ONE, "s3_requests_total", "op,outcome",                                \
      "Requests to the S3 server, by operation and outcome.")                                      \
    X(S3_BYTES, COUNTER, ONE, "s3_bytes_total", "direction",                                       \
      "Bytes of objects to (out) and from (in) the S3 server.")                                    \
    X(S3_SECONDS, HISTOGRAM, NS, "s3_request_seconds", "op",                                       \
      "Time of requests to the S3 server, their tries together.")                                  \
    X(S3_READS, COUNTER, ONE, "s3_tier_reads_total", "result",                                     \
      "Objects that the local store did not have and the bucket was asked for.")                   \
    X(S3_WRITES, COUNTER, ONE, "s3_tier_writes_total", "result",                                   \
      "Objects for the bucket, by what became of them.")                                           \
    X(S3_BACKLOG, GAUGE, ONE, "s3_tier_backlog_objects", "", "Objects that wait for the bucket.")  \
    X(S3_BACKLOG_BYTES, GAUGE, ONE, "s3_tier_backlog_bytes", "", "Their bytes.")                   \
    X(HEALTH_READY, GAUGE, ONE, "health_ready", "", "1 while the service is ready.")               \
    X(READYZ_DEGRADED, GAUGE, ONE, "readyz_degraded", "cause", "1 for each cause that holds.")     \
    X(LOG_LINES, COUNTER, ONE, "log_lines_total", "level", "Log lines written.")                   \
    X(LOG_SUPPRESSED, COUNTER, ONE, "log_suppressed_total", "", "Repeated log lines left out.")    \
    X(LOG_WRITE_ERRORS, COUNTER, ONE, "log_write_errors_total", "", "Log lines lost in writing.")  \
    X(TRACE_SPANS, COUNTER, ONE, "trace_spans_total", "result",                                    \
      "Spans by what became of them: exported, failed, or cut at the queue.")                      \
    X(TRACE_EXPORTS, COUNTER, ONE, "trace_exports_total", "result", "Calls of the trace export.")  \
    X(METRICS_OVERFLOW, COUNTER, ONE, "metrics_series_overflow_total", "metric",                   \
      "Values that went to the series \"other\" because the family was full.")                     \
    X(METRICS_DROPPED, COUNTER, ONE, "metrics_samples_dropped_total", "",                          \
      "Samples left out of a scrape: unknown name, or too many.")                                  \
    X(PROCESS_CPU, COUNTER, NS, "process_cpu_seconds_total", "", "Processor time used.")           \
    X(PROCESS_RSS, GAUGE, ONE, "process_resident_memory_bytes", "", "Memory resident now.")        \
    X(PROCESS_VIRTUAL, GAUGE, ONE, "process_virtual_memory_bytes", "", "Address space in use.")    \
    X(PROCESS_FDS, GAUGE, ONE, "process_open_fds", "", "Descriptors open now.")                    \
    X(PROCESS_MAX_FDS, GAUGE, ONE, "process_max_fds", "", "Descriptors that may be open.")         \
    X(PROCESS_THREADS, GAUGE, ONE, "process_threads", "", "Threads alive now.")                    \
    X(PROCESS_START, GAUGE, NS, "process_start_time_seconds", "", "Start, seconds since 1970.")    \
    X(BUILD_INFO, GAUGE, ONE, "build_info", "service,version,build", "1; the labels say what runs.")

enum ron_metric_name {
#define X(id, type, unit, name, labels, help) RON_M_##id,
    RON_METRIC_NAMES(X)
#undef X
        RON_M_COUNT
};
