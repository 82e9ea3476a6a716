/* SPDX-License-Identifier: Apache-2.0 */
/* edge/files/type.c - media types by the ending of a name. */
#include <string.h>
#include <strings.h>

#include "edge/files/files.h"

static const struct {
    const char *ending;
    const char *type;
} rows[] = {
    {"avif", "image/avif"},
    {"bin", "application/octet-stream"},
    {"bmp", "image/bmp"},
    {"css", "text/css; charset=utf-8"},
    {"csv", "text/csv; charset=utf-8"},
    {"geojson", "application/geo+json"},
    {"gif", "image/gif"},
    {"gz", "application/gzip"},
    {"htm", "text/html; charset=utf-8"},
    {"html", "text/html; charset=utf-8"},
    {"ico", "image/vnd.microsoft.icon"},
    {"jpeg", "image/jpeg"},
    {"jpg", "image/jpeg"},
    {"js", "text/javascript; charset=utf-8"},
    {"json", "application/json"},
    {"map", "application/json"},
    {"md", "text/markdown; charset=utf-8"},
    {"mjs", "text/javascript; charset=utf-8"},
    {"mp3", "audio/mpeg"},
    {"mp4", "video/mp4"},
    {"mvt", "application/vnd.mapbox-vector-tile"},
    {"ndjson", "application/x-ndjson"},
    {"ogg", "audio/ogg"},
    {"otf", "font/otf"},
    {"pbf", "application/x-protobuf"},
    {"pdf", "application/pdf"},
    {"pmtiles", "application/vnd.pmtiles"},
    {"png", "image/png"},
    {"svg", "image/svg+xml"},
    {"tar", "application/x-tar"},
    {"tif", "image/tiff"},
    {"tiff", "image/tiff"},
    {"toml", "application/toml"},
    {"ttf", "font/ttf"},
    {"txt", "text/plain; charset=utf-8"},
    {"wasm", "application/wasm"},
    {"wav", "audio/wav"},
    {"webm", "video/webm"},
    {"webmanifest", "application/manifest+json"},
    {"webp", "image/webp"},
    {"woff", "font/woff"},
    {"woff2", "font/woff2"},
    {"xml", "application/xml"},
    {"zip", "application/zip"},
    {"zst", "application/zstd"},
};

const char *edg_type_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *dot = strrchr(slash != NULL ? slash : path, '.');

    for (size_t i = 0; dot != NULL && i < RON_ARRAY_LEN(rows); i++) {
        if (strcasecmp(dot + 1, rows[i].ending) == 0) {
            return rows[i].type;
        }
    }
    return "application/octet-stream";
}
