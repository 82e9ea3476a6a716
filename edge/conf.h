/* SPDX-License-Identifier: Apache-2.0 */
/* edge/conf.h - the settings of `ron edge`. docs/reference/edge.md is generated from it.
 *
 * Place: edge. The specification's ingress.* and its numbers of milliseconds are second
 * names of limits.*, timeouts.* and retry.* (svc.c). */
#pragma once

#include "ron/app/app.h"
#include "ron/s3/tier.h"

#define EDG_CONF(X)                                                                                \
    RON_APP_KEYS_TOP(X, "127.0.0.1:7400")                                                          \
    RON_APP_KEYS_LIMITS(X, "500", "250", "1MiB")                                                   \
    RON_APP_KEYS_TIMEOUTS(X, "5s")                                                                 \
    RON_APP_KEYS_REST(X)                                                                           \
    X(EDG_PACKS, "edge.packs", LIST, "packs", 0, 64, "", RON_CONF_RELOAD,                          \
      "Tile archives as NAME=FILE, PMTiles or MBTiles. A reload verifies and swaps them.")         \
    X(EDG_PACKS_REQUIRED, "edge.packs_required", LIST, "names", 0, 64, "", RON_CONF_RELOAD,        \
      "Packs without which the edge is not ready. A failure of another pack is reported as "       \
      "degraded.")                                                                                 \
    X(EDG_PUBLIC_URL, "edge.public_url", STRING, "bytes", 0, 255, "", RON_CONF_RELOAD,             \
      "Base URL of the edge for its clients, such as https://map.example or "                      \
      "https://example.org/maps; TileJSON builds tile URLs from it. Empty derives it from the "    \
      "request, which gives http:// behind a proxy that terminates TLS.")                          \
    X(EDG_FILES_DIR, "edge.files_dir", STRING, "bytes", 0, 900, "", RON_CONF_FIXED,                \
      "Directory served below /edge/assets/files/. Empty serves none.")                            \
    X(EDG_FILES_CHECK, "edge.files_check", DURATION, "", 1, RON_CONF_H(1), "1s", RON_CONF_FIXED,   \
      "How long a file is served before it is checked on disk again.")                             \
    X(EDG_DIR, "edge.dir", STRING, "bytes", 0, 900, "ron-data/edge", RON_CONF_FIXED,               \
      "Directory of the content store for live fills. Not used in amnesia mode or without "        \
      "origins.")                                                                                  \
    X(EDG_STORE_BYTES, "edge.store_bytes", SIZE, "", RON_CONF_MIB(1), RON_CONF_GIB(65536),         \
      "10GiB", RON_CONF_FIXED,                                                                     \
      "Maximum size of the content store. The least recently used objects are evicted first.")     \
    X(EDG_AMNESIA_BYTES, "edge.amnesia_bytes", SIZE, "", 0, RON_CONF_GIB(64), "256MiB",            \
      RON_CONF_FIXED,                                                                              \
      "Memory used instead of the content store in amnesia mode. 0 refuses content of "            \
      "origins.")                                                                                  \
    X(EDG_OBJECT_BYTES, "edge.object_bytes", SIZE, "", 1024, RON_CONF_GIB(64), "64MiB",            \
      RON_CONF_FIXED, "Maximum size of an object from an origin.")                                 \
    X(EDG_FILL_TIMEOUT, "edge.fill_timeout", DURATION, "", 100, RON_CONF_M(1), "5s",               \
      RON_CONF_FIXED, "Time limit for a live fill, including all retries.")                        \
    X(EDG_EVENTS, "edge.events", BOOL, "", 0, 0, "true", RON_CONF_FIXED,                           \
      "Publish server-sent events: GET /edge/events on the Unix socket.")                          \
    X(EDG_DEMO, "edge.demo", BOOL, "", 0, 0, "false", RON_CONF_FIXED,                              \
      "Show a map of the packs at / and serve the built-in pack `sample`.")                        \
    X(EDG_DEMO_LIBRARY, "edge.demo_dir", STRING, "bytes", 0, 900, "", RON_CONF_FIXED,              \
      "Directory with the files of MapLibre GL 5 (dist of the npm package maplibre-gl), which "    \
      "then draws that map. Empty uses the built-in renderer.")                                    \
    X(EDG_O_URL, "origins.*.url", STRING, "bytes", 1, 1023, "https://example.invalid",             \
      RON_CONF_FIXED, "Base URL of an origin; /edge/assets/o/NAME/PATH is filled from URL/PATH.")  \
    X(EDG_O_KIND, "origins.*.kind", ENUM, "files|ledger", 0, 0, "files", RON_CONF_FIXED,           \
      "Kind of the origin: files, cached as their responses allow, or a ledger, of which "         \
      "checkpoint and tiles are served, tiles as immutable.")                                      \
    X(EDG_O_CHECKPOINT, "origins.*.checkpoint_ttl", DURATION, "", RON_CONF_S(1), RON_CONF_H(1),    \
      "2s", RON_CONF_FIXED, "How long a ledger checkpoint is cached.")                             \
    X(EDG_O_ENTRIES, "origins.*.entries", BOOL, "", 0, 0, "false", RON_CONF_FIXED,                 \
      "Also serve the entries of a ledger (tile/entries) to every client that can reach the "      \
      "edge.")                                                                                     \
    X(EDG_O_TOKEN, "origins.*.token_file", STRING, "bytes", 0, 1023, "", RON_CONF_FIXED,           \
      "File (mode 0600) with the capability to read those entries. Read at start.")                \
    X(EDG_O_PLAIN, "origins.*.allow_http", BOOL, "", 0, 0, "false", RON_CONF_FIXED,                \
      "Allow http:// in the URL of this origin.")                                                  \
    X(EDG_O_PRIVATE, "origins.*.allow_private", BOOL, "", 0, 0, "false", RON_CONF_FIXED,           \
      "Allow loopback and private addresses for this origin.")                                     \
    X(EDG_O_CA, "origins.*.ca_file", STRING, "bytes", 0, 1023, "", RON_CONF_FIXED,                 \
      "PEM file with the certificate authorities for this origin. Empty uses those of the "        \
      "system.")                                                                                   \
    X(EDG_O_ETAG, "origins.*.require_etag", BOOL, "", 0, 0, "true", RON_CONF_FIXED,                \
      "Refuse responses of this origin that have no strong entity tag.")                           \
    X(EDG_O_SWR, "origins.*.stale_while_revalidate", DURATION, "", 0, RON_CONF_H(744), "0ms",      \
      RON_CONF_FIXED, "How long a stale response is served while it is revalidated.")              \
    X(EDG_O_SIE, "origins.*.stale_if_error", DURATION, "", 0, RON_CONF_H(744), "0ms",              \
      RON_CONF_FIXED, "How long a stale response is served while the origin fails.")               \
    X(EDG_O_HEURISTIC, "origins.*.heuristic_max", DURATION, "", 0, RON_CONF_H(744), "24h",         \
      RON_CONF_FIXED,                                                                              \
      "Maximum heuristic freshness of responses without explicit freshness. 0 disables it.")       \
    X(EDG_O_NEGATIVE, "origins.*.negative_ttl", DURATION, "", 0, RON_CONF_H(24), "10s",            \
      RON_CONF_FIXED, "How long a response such as 404 without explicit freshness is cached.")     \
    X(EDG_KEY_FILE, "auth.key_file", STRING, "bytes", 0, 1023, "", RON_CONF_FIXED,                 \
      "Root keys of the capabilities that may purge (`ron cap key new`). Empty disables "          \
      "purging. A reload re-reads the file.")                                                      \
    X(EDG_GW_ORIGIN, "gateway.origin", STRING, "bytes", 0, 63, "", RON_CONF_FIXED,                 \
      "Name of the origin that the edge fronts as a shared cache, all methods. Empty disables "    \
      "the gateway.")                                                                              \
    X(EDG_GW_PREFIX, "gateway.prefix", STRING, "bytes", 1, 900, "/", RON_CONF_FIXED,               \
      "Path below which requests go to the gateway, unchanged. / forwards every path that the "    \
      "edge does not serve itself.")                                                               \
    X(EDG_GW_HOST, "gateway.host", STRING, "bytes", 0, 255, "", RON_CONF_FIXED,                    \
      "Host (with port, if any) whose requests go to the gateway. Empty accepts every host.")      \
    X(EDG_GW_PASS_HOST, "gateway.pass_host", BOOL, "", 0, 0, "true", RON_CONF_FIXED,               \
      "Send the Host of the client to the origin; otherwise the host of its URL.")                 \
    X(EDG_GW_TIMEOUT, "gateway.timeout", DURATION, "", 100, RON_CONF_H(1), "30s", RON_CONF_FIXED,  \
      "Time limit for the start of a response that passes through, and for each pause in it.")     \
    X(EDG_RETRY_BASE, "retry.live_fill.base", DURATION, "", 0, RON_CONF_M(1), "50ms",              \
      RON_CONF_FIXED, "Delay before the first retry of a fill; it doubles with each retry.")       \
    X(EDG_RETRY_CAP, "retry.live_fill.max", DURATION, "", 0, RON_CONF_M(1), "800ms",               \
      RON_CONF_FIXED, "Maximum delay between retries, without jitter.")                            \
    X(EDG_RETRY_MAX, "retry.live_fill.max_retries", INT, "tries", 0, 5, "2", RON_CONF_FIXED,       \
      "Maximum number of retries of a fill.")                                                      \
    X(EDG_RETRY_JITTER, "retry.live_fill.jitter", BOOL, "", 0, 0, "true", RON_CONF_FIXED,          \
      "Add a random delay of up to the base to each retry.")                                       \
    RON_TIER_KEYS(X)                                                                               \
    X(EDG_CACHE_CONTROL, "http.cache_control", STRING, "bytes", 0, 200, "public, max-age=300",     \
      RON_CONF_FIXED, "Cache-Control of tiles and files. Empty sends none.")                       \
    X(EDG_MULTIPART, "http.multipart_ranges", BOOL, "", 0, 0, "false", RON_CONF_FIXED,             \
      "Answer requests for several ranges with multipart/byteranges; otherwise with the whole "    \
      "representation.")                                                                           \
    X(EDG_TILE_204, "http.empty_tile_204", BOOL, "", 0, 0, "true", RON_CONF_FIXED,                 \
      "Answer 204, as map clients expect, for a tile that a vector pack does not contain; "        \
      "otherwise 404.")                                                                            \
    X(EDG_CORS, "cors.allow_origins", LIST, "origins", 0, 64, "", RON_CONF_FIXED,                  \
      "Origins that browsers may read from, such as https://example.org; * allows all. Empty "     \
      "allows none.")                                                                              \
    X(EDG_HSTS, "security.hsts", BOOL, "", 0, 0, "true", RON_CONF_FIXED,                           \
      "Send Strict-Transport-Security over TLS, valid for one year.")                              \
    X(EDG_READERS_N, "concurrency.readers", INT, "tasks", 1, 64, "2", RON_CONF_FIXED,              \
      "Tasks that read content that is not in memory yet.")                                        \
    X(EDG_FILLERS, "concurrency.fill_workers", INT, "tasks", 1, 64, "8", RON_CONF_FIXED,           \
      "Maximum number of concurrent live fills.")                                                  \
    X(EDG_Q_WORK, "queues.work", INT, "fills", 1, 100000, "512", RON_CONF_FIXED,                   \
      "Live fills that may wait for a worker. Further requests are answered 429.")                 \
    X(EDG_Q_READS, "queues.reads", INT, "requests", 1, 100000, "512", RON_CONF_FIXED,              \
      "Requests that may wait for a reader. Further requests are answered 429.")

enum { EDG_CONF(RON_CONF_ID) EDG_CONF_COUNT };

extern const struct ron_conf_table edg_conf_table;
