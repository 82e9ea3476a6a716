/* SPDX-License-Identifier: Apache-2.0 */
/* console/assets.h - the files of console/static, inside the program.
 *
 * Place: console. The bytes are put in by the assembler (.incbin), so there is no generated source
 * and no tool. Each file has a row here; tests/unit/console compares the rows with the folder.
 *
 * At the start each file is hashed for its tag and packed with gzip once; what is served never
 * changes afterwards.
 *
 * Threads: any, after con_assets_open. */
#pragma once

#include "ron/base/json.h"

/* X(SYMBOL, "file", "type") */
#define CON_ASSETS(X)                                                                              \
    X(index_html, "index.html", "text/html; charset=utf-8")                                        \
    X(gone_html, "gone.html", "text/html; charset=utf-8")                                          \
    X(console_css, "console.css", "text/css; charset=utf-8")                                       \
    X(icon_svg, "icon.svg", "image/svg+xml")                                                       \
    X(app_js, "app.js", "text/javascript; charset=utf-8")                                          \
    X(ui_js, "ui.js", "text/javascript; charset=utf-8")                                            \
    X(live_js, "live.js", "text/javascript; charset=utf-8")                                        \
    X(chart_js, "chart.js", "text/javascript; charset=utf-8")                                      \
    X(overview_js, "overview.js", "text/javascript; charset=utf-8")                                \
    X(topology_js, "topology.js", "text/javascript; charset=utf-8")                                \
    X(ledger_js, "ledger.js", "text/javascript; charset=utf-8")                                    \
    X(verify_js, "verify.js", "text/javascript; charset=utf-8")                                    \
    X(wallet_js, "wallet.js", "text/javascript; charset=utf-8")                                    \
    X(rewards_js, "rewards.js", "text/javascript; charset=utf-8")                                  \
    X(edge_js, "edge.js", "text/javascript; charset=utf-8")                                        \
    X(tiles_js, "tiles.js", "text/javascript; charset=utf-8")                                      \
    X(interop_js, "interop.js", "text/javascript; charset=utf-8")

enum con_asset_id {
#define X(symbol, file, type) CON_ASSET_##symbol,
    CON_ASSETS(X)
#undef X
        CON_ASSET_COUNT
};

struct con_asset {
    const char *name;
    const char *type; /* a constant */
    struct ron_str plain;
    struct ron_str packed; /* gzip; empty: not worth it */
    char tag[67];          /* with its quotes */
    char packed_tag[67];
};

struct con_assets {
    struct con_asset at[CON_ASSET_COUNT];
    uint8_t *room; /* of the packed ones */
};

RON_MUST_USE enum ron_rc con_assets_open(struct con_assets *a, struct ron_err *err);
void con_assets_close(struct con_assets *a);
/* NULL: there is none of that name. */
const struct con_asset *con_assets_find(const struct con_assets *a, struct ron_str name);
