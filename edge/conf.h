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
      "Packs of map tiles as NAME=FILE, PMTiles or MBTiles; a reload verifies and swaps them.")    \
    X(EDG_PACKS_REQUIRED, "edge.packs_required", LIST, "names", 0, 64, "", RON_CONF_RELOAD,        \
      "Packs without which the edge is not ready; of the others a damaged one is told as "         \
      "degraded.")                                                                                 \
    X(EDG_PUBLIC_URL, "edge.public_url", STRING, "bytes", 0, 255, "", RON_CONF_RELOAD,             \
      "Where clients find the edge, such as https://map.example or https://example.org/maps; "     \
      "TileJSON names tiles below it. Empty: as the request names it, which is http:// behind "    \
      "a front that does the TLS.")                                                                \
    X(EDG_FILES_DIR, "edge.files_dir", STRING, "bytes", 0, 900, "", RON_CONF_FIXED,                \
      "Folder that is served below /edge/assets/files/; empty serves none.")                       \
    X(EDG_FILES_CHECK, "edge.files_check", DURATION, "", 1, RON_CONF_H(1), "1s", RON_CONF_FIXED,   \
      "How long a file is served before it is looked at again on disk.")                           \
    X(EDG_DIR, "edge.dir", STRING, "bytes", 0, 900, "ron-data/edge", RON_CONF_FIXED,               \
      "Folder of the content store that live fills go to; not used under amnesia or without "      \
      "origins.")                                                                                  \
    X(EDG_STORE_BYTES, "edge.store_bytes", SIZE, "", RON_CONF_MIB(1), RON_CONF_GIB(65536),         \
      "10GiB", RON_CONF_FIXED,                                                                     \
      "Space of the content store; what was not used for longest makes room.")                     \
    X(EDG_AMNESIA_BYTES, "edge.amnesia_bytes", SIZE, "", 0, RON_CONF_GIB(64), "256MiB",            \
      RON_CONF_FIXED,                                                                              \
      "Memory that takes its place under amnesia; 0: what origins send is "                        \
      "refused.")                                                                                  \
    X(EDG_OBJECT_BYTES, "edge.object_bytes", SIZE, "", 1024, RON_CONF_GIB(64), "64MiB",            \
      RON_CONF_FIXED, "Bytes of an object that an origin may send.")                               \
    X(EDG_FILL_TIMEOUT, "edge.fill_timeout", DURATION, "", 100, RON_CONF_M(1), "5s",               \
      RON_CONF_FIXED, "Time for a live fill, all its tries together.")                             \
    X(EDG_EVENTS, "edge.events", BOOL, "", 0, 0, "true", RON_CONF_FIXED,                           \
      "Tell what happens as server-sent events: GET /edge/events on the Unix socket.")             \
    X(EDG_DEMO, "edge.demo", BOOL, "", 0, 0, "false", RON_CONF_FIXED,                              \
      "Show a map of the packs at /, and serve the built-in pack `sample`.")                       \
    X(EDG_DEMO_LIBRARY, "edge.demo_dir", STRING, "bytes", 0, 900, "", RON_CONF_FIXED,              \
      "Folder with the files of MapLibre GL 5 (dist of the npm package maplibre-gl), which then "  \
      "draws that map; empty: the page draws it itself.")                                          \
    X(EDG_O_URL, "origins.*.url", STRING, "bytes", 1, 1023, "https://example.invalid",             \
      RON_CONF_FIXED, "Base URL of an origin; /edge/assets/o/NAME/PATH fills from URL/PATH.")      \
    X(EDG_O_KIND, "origins.*.kind", ENUM, "files|ledger", 0, 0, "files", RON_CONF_FIXED,           \
      "What it is: files as its answers describe them, or a ledger, of which checkpoint and "      \
      "tiles are served, tiles as what never changes.")                                            \
    X(EDG_O_CHECKPOINT, "origins.*.checkpoint_ttl", DURATION, "", RON_CONF_S(1), RON_CONF_H(1),    \
      "2s", RON_CONF_FIXED, "How long the checkpoint of a ledger is kept.")                        \
    X(EDG_O_ENTRIES, "origins.*.entries", BOOL, "", 0, 0, "false", RON_CONF_FIXED,                 \
      "Serve the entries of a ledger, too (tile/entries), to everybody who can reach the edge.")   \
    X(EDG_O_TOKEN, "origins.*.token_file", STRING, "bytes", 0, 1023, "", RON_CONF_FIXED,           \
      "File (mode 0600) with the capability to read those entries; read at the start.")            \
    X(EDG_O_PLAIN, "origins.*.allow_http", BOOL, "", 0, 0, "false", RON_CONF_FIXED,                \
      "Allow http:// in the URL of this origin.")                                                  \
    X(EDG_O_PRIVATE, "origins.*.allow_private", BOOL, "", 0, 0, "false", RON_CONF_FIXED,           \
      "Allow loopback and private addresses for this origin.")                                     \
    X(EDG_O_CA, "origins.*.ca_file", STRING, "bytes", 0, 1023, "", RON_CONF_FIXED,                 \
      "PEM file with the authorities of this origin; empty: the system's.")                        \
    X(EDG_O_ETAG, "origins.*.require_etag", BOOL, "", 0, 0, "true", RON_CONF_FIXED,                \
      "Refuse answers of this origin that have no strong entity tag.")                             \
    X(EDG_O_SWR, "origins.*.stale_while_revalidate", DURATION, "", 0, RON_CONF_H(744), "0ms",      \
      RON_CONF_FIXED, "How long a stale answer is served while it is asked for anew.")             \
    X(EDG_O_SIE, "origins.*.stale_if_error", DURATION, "", 0, RON_CONF_H(744), "0ms",              \
      RON_CONF_FIXED, "How long a stale answer is served while the origin fails.")                 \
    X(EDG_O_HEURISTIC, "origins.*.heuristic_max", DURATION, "", 0, RON_CONF_H(744), "24h",         \
      RON_CONF_FIXED, "The longest freshness of answers that do not say; 0: none.")                \
    X(EDG_O_NEGATIVE, "origins.*.negative_ttl", DURATION, "", 0, RON_CONF_H(24), "10s",            \
      RON_CONF_FIXED, "How long an answer like 404 is remembered that does not say.")              \
    X(EDG_KEY_FILE, "auth.key_file", STRING, "bytes", 0, 1023, "", RON_CONF_FIXED,                 \
      "Root keys of the capabilities that may purge (`ron cap key new`); empty: nobody. A reload " \
      "reads it anew.")                                                                            \
    X(EDG_GW_ORIGIN, "gateway.origin", STRING, "bytes", 0, 63, "", RON_CONF_FIXED,                 \
      "Name of the origin that the edge stands in front of as a cache, all methods; empty: none.") \
    X(EDG_GW_PREFIX, "gateway.prefix", STRING, "bytes", 1, 900, "/", RON_CONF_FIXED,               \
      "Path below which requests go to the gateway, unchanged; / is all that the edge does not "   \
      "serve itself.")                                                                             \
    X(EDG_GW_HOST, "gateway.host", STRING, "bytes", 0, 255, "", RON_CONF_FIXED,                    \
      "Host (with its port, if it has one) whose requests go to the gateway; empty: every host.")  \
    X(EDG_GW_PASS_HOST, "gateway.pass_host", BOOL, "", 0, 0, "true", RON_CONF_FIXED,               \
      "Send the Host of the client to the origin; otherwise that of its URL.")                     \
    X(EDG_GW_TIMEOUT, "gateway.timeout", DURATION, "", 100, RON_CONF_H(1), "30s", RON_CONF_FIXED,  \
      "Time in which an answer that passes through must begin, and then go on.")                   \
    X(EDG_RETRY_BASE, "retry.live_fill.base", DURATION, "", 0, RON_CONF_M(1), "50ms",              \
      RON_CONF_FIXED, "First wait between two tries of a fill; it doubles.")                       \
    X(EDG_RETRY_CAP, "retry.live_fill.max", DURATION, "", 0, RON_CONF_M(1), "800ms",               \
      RON_CONF_FIXED, "The longest wait between two tries, jitter left out.")                      \
    X(EDG_RETRY_MAX, "retry.live_fill.max_retries", INT, "tries", 0, 5, "2", RON_CONF_FIXED,       \
      "Tries of a fill after the first.")                                                          \
    X(EDG_RETRY_JITTER, "retry.live_fill.jitter", BOOL, "", 0, 0, "true", RON_CONF_FIXED,          \
      "Add a random wait of up to the base to each.")                                              \
    RON_TIER_KEYS(X)                                                                               \
    X(EDG_CACHE_CONTROL, "http.cache_control", STRING, "bytes", 0, 200, "public, max-age=300",     \
      RON_CONF_FIXED, "Cache-Control of tiles and files; empty sends none.")                       \
    X(EDG_MULTIPART, "http.multipart_ranges", BOOL, "", 0, 0, "false", RON_CONF_FIXED,             \
      "Several ranges of one request are answered as multipart/byteranges; otherwise with the "    \
      "whole.")                                                                                    \
    X(EDG_TILE_204, "http.empty_tile_204", BOOL, "", 0, 0, "true", RON_CONF_FIXED,                 \
      "A tile that a vector pack does not have is 204, as map clients expect; otherwise 404.")     \
    X(EDG_CORS, "cors.allow_origins", LIST, "origins", 0, 64, "", RON_CONF_FIXED,                  \
      "Origins that browsers may read from, such as https://example.org; * for all; empty: none.") \
    X(EDG_HSTS, "security.hsts", BOOL, "", 0, 0, "true", RON_CONF_FIXED,                           \
      "Over TLS, tell browsers to come back over TLS only, for a year.")                           \
    X(EDG_READERS_N, "concurrency.readers", INT, "tasks", 1, 64, "2", RON_CONF_FIXED,              \
      "Tasks that read what is not in memory yet.")                                                \
    X(EDG_FILLERS, "concurrency.fill_workers", INT, "tasks", 1, 64, "8", RON_CONF_FIXED,           \
      "Live fills at once.")                                                                       \
    X(EDG_Q_WORK, "queues.work", INT, "fills", 1, 100000, "512", RON_CONF_FIXED,                   \
      "Live fills that wait for a worker; one more is answered 429.")                              \
    X(EDG_Q_READS, "queues.reads", INT, "requests", 1, 100000, "512", RON_CONF_FIXED,              \
      "Requests that wait for a reader; one more is answered 429.")

enum { EDG_CONF(RON_CONF_ID) EDG_CONF_COUNT };

extern const struct ron_conf_table edg_conf_table;
