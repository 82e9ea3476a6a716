/* SPDX-License-Identifier: Apache-2.0 */
/* edge/serve/demo.h - the demo page (edge.demo): a map of the packs that are served, at "/".
 *
 * Place: service. Page, style and scripts lie inside the program (edge/demo/). MapLibre GL is not
 * part of it: edge.demo_dir names a folder with its files, three of which are read at the start;
 * without it the page draws the map itself. With the page comes the pack `sample`
 * (sample/sample.h), from memory.
 *
 * Invariants:
 *   M1. The page may load from the edge alone: its policy (CSP) names no other place, and the page
 *       has no inline script or style.
 *   M2. Only files that are named here are ever served from edge.demo_dir. */
#pragma once

#include "edge/answer/site.h"

struct edg_demo;
struct ron_http_route;

/* Nothing to do without edge.demo; *ret_demo stays NULL. Blocking: reads edge.demo_dir. */
RON_MUST_USE enum ron_rc edg_demo_open(struct edg_site *site, struct edg_demo **ret_demo,
                                       struct ron_err *err);
void edg_demo_close(struct edg_demo *d); /* NULL does nothing */
/* Appends its routes at `count`; the new count. NULL has none. */
size_t edg_demo_routes(struct edg_demo *demo, struct ron_http_route *rows, size_t count);
/* The path of the sample pack, as a file of this process; NULL without a demo. */
const char *edg_demo_pack(const struct edg_demo *demo);

/* A file without a name in memory; -1: none is to be had. (demo_linux.c) */
int edg_memory_file(const void *bytes, size_t len);
void edg_memory_file_close(int fd);
