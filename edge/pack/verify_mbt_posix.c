/* SPDX-License-Identifier: Apache-2.0 */
/* edge/pack/verify_mbt_posix.c - an MBTiles file asked what only SQLite can answer. */
#include <inttypes.h>
#include <sqlite3.h>
#include <string.h>

#include "edge/pack/mbt.h"
#include "edge/pack/priv.h"
#include "edge/pack/verify_priv.h"
#include "ron/base/assert.h"

enum { STEPS_BETWEEN = 100000 }; /* of the virtual machine: about a millisecond */

enum { ASKING_MAGIC = 0x6541736b }; /* "eAsk" */

struct asking {
    uint32_t magic;
    struct edg__check *check;
    const char *phase;
    uint64_t steps;
};

/* How far SQLite is cannot be known; the count only shows that it moves. */
static int looked(void *arg)
{
    struct asking *a = RON_OBJ(arg, struct asking, ASKING_MAGIC);
    const struct edg_verify_opts *o = a->check->opts;

    a->steps++;
    return o->progress != NULL && !o->progress(o->progress_arg, a->phase, a->steps, 0) ? 1 : 0;
}

/* The first row of a question, to be given to sqlite3_finalize; NULL after a fault. */
static enum ron_rc ask(struct edg__check *c, sqlite3 *db, const char *sql, sqlite3_stmt **ret_row)
{
    sqlite3_stmt *s = NULL;
    int code = sqlite3_prepare_v2(db, sql, -1, &s, NULL);

    *ret_row = NULL;
    code = code == SQLITE_OK ? sqlite3_step(s) : code;
    if (code == SQLITE_ROW) {
        *ret_row = s;
        return RON_OK;
    }
    if (code == SQLITE_INTERRUPT) {
        (void)sqlite3_finalize(s);
        return ron_err_set(c->err, RON_CANCELLED, "verification was cancelled");
    }
    edg__found(&c->report->faults, "%s",
               code == SQLITE_DONE ? "query returned no row" : sqlite3_errmsg(db));
    (void)sqlite3_finalize(s);
    return RON_OK;
}

static enum ron_rc structure(struct edg__check *c, sqlite3 *db)
{
    sqlite3_stmt *s = NULL;
    int code;

    RON_TRY(ask(c, db, "PRAGMA quick_check(8)", &s));
    if (s == NULL) {
        return RON_OK;
    }
    do {
        const char *text = (const char *)sqlite3_column_text(s, 0);

        if (text == NULL || strcmp(text, "ok") != 0) {
            edg__found(&c->report->faults, "quick_check: %s", text != NULL ? text : "?");
        }
        code = sqlite3_step(s);
    } while (code == SQLITE_ROW);
    (void)sqlite3_finalize(s);
    return code == SQLITE_INTERRUPT
               ? ron_err_set(c->err, RON_CANCELLED, "verification was cancelled")
               : RON_OK;
}

static enum ron_rc metadata(struct edg__check *c, sqlite3 *db)
{
    struct edg_verify_report *r = c->report;
    bool vector = r->info.tile_type == EDG_TILE_MVT;
    struct edg_bounds b = {0};
    sqlite3_stmt *s = NULL;

    RON_TRY(ask(c, db,
                "SELECT (SELECT count(*) FROM metadata WHERE name='name'),"
                "(SELECT count(*) FROM metadata WHERE name='json'),"
                "(SELECT value FROM metadata WHERE name='bounds'),"
                "(SELECT count(*)-count(DISTINCT name) FROM metadata)",
                &s));
    if (s == NULL) {
        return RON_OK;
    }
    if (sqlite3_column_int64(s, 0) == 0) {
        edg__found(&r->faults, "metadata: missing name");
    }
    if (vector && sqlite3_column_int64(s, 1) == 0) {
        edg__found(&r->faults, "metadata: missing json for vector tiles");
    }
    if (sqlite3_column_int64(s, 3) > 0) {
        edg__found(&r->faults, "metadata: duplicate name");
    }
    if (sqlite3_column_text(s, 2) != NULL) {
        const char *at = (const char *)sqlite3_column_text(s, 2);

        if (!edg__degrees_read(&at, true, &b.west_e7) ||
            !edg__degrees_read(&at, true, &b.south_e7) ||
            !edg__degrees_read(&at, true, &b.east_e7) ||
            !edg__degrees_read(&at, false, &b.north_e7)) {
            edg__found(&r->faults, "metadata: invalid bounds, expected four numbers in degrees");
        }
    }
    (void)sqlite3_finalize(s);
    return RON_OK;
}

static enum ron_rc rows(struct edg__check *c, sqlite3 *db)
{
    static const char *const wrong[] = {
        "with a non-integer position",    "with a zoom outside 0 to 30",
        "with a column out of range",     "with a row out of range",
        "that are neither blob nor null", "larger than the tile limit",
        "outside the zooms in metadata"};
    struct edg_verify_report *r = c->report;
    sqlite3_stmt *s = NULL;
    char sql[1024];

    (void)snprintf(
        sql, sizeof sql,
        "SELECT count(*),"
        "total(typeof(zoom_level)<>'integer' OR typeof(tile_column)<>'integer' OR"
        " typeof(tile_row)<>'integer'),"
        "total(zoom_level NOT BETWEEN 0 AND %d),"
        "total(zoom_level BETWEEN 0 AND %d AND tile_column NOT BETWEEN 0 AND (1<<zoom_level)-1),"
        "total(zoom_level BETWEEN 0 AND %d AND tile_row NOT BETWEEN 0 AND (1<<zoom_level)-1),"
        "total(typeof(tile_data) NOT IN ('blob','null')),"
        "total(length(tile_data)>%d),"
        "total(zoom_level BETWEEN 0 AND %d AND zoom_level NOT BETWEEN %u AND %u) FROM tiles",
        EDG_MBT_ZOOM_MAX, EDG_MBT_ZOOM_MAX, EDG_MBT_ZOOM_MAX, EDG_TILE_BYTES_MAX, EDG_MBT_ZOOM_MAX,
        r->info.zoom_min, r->info.zoom_max);
    RON_TRY(ask(c, db, sql, &s));
    if (s == NULL) {
        return RON_OK;
    }
    r->tile_entries = (uint64_t)sqlite3_column_int64(s, 0);
    r->tiles_addressed = r->tile_entries;
    for (size_t i = 0; i < RON_ARRAY_LEN(wrong); i++) {
        sqlite3_int64 n = sqlite3_column_int64(s, (int)i + 1);

        if (n > 0) {
            edg__found(&r->faults, "%" PRId64 " tiles %s", (int64_t)n, wrong[i]);
        }
    }
    if (r->tile_entries == 0) {
        edg__found(&r->notes, "no tiles");
    }
    (void)sqlite3_finalize(s);
    return RON_OK;
}

static enum ron_rc plan(struct edg__check *c, sqlite3 *db)
{
    sqlite3_stmt *s = NULL;
    int code = SQLITE_ROW;

    RON_TRY(ask(c, db,
                "EXPLAIN QUERY PLAN SELECT tile_data FROM tiles"
                " WHERE zoom_level=1 AND tile_column=1 AND tile_row=1",
                &s));
    while (s != NULL && code == SQLITE_ROW) {
        const char *text = (const char *)sqlite3_column_text(s, 3);

        if (text != NULL && strncmp(text, "SCAN", 4) == 0) {
            edg__found(&c->report->notes, "no index on tiles: every lookup scans the whole table");
            break;
        }
        code = sqlite3_step(s);
    }
    (void)sqlite3_finalize(s);
    return RON_OK;
}

enum ron_rc edg__verify_mbt(struct edg__check *c)
{
    static enum ron_rc (*const parts[])(struct edg__check *, sqlite3 *) = {structure, metadata,
                                                                           rows, plan};
    static const char *const phases[] = {"structure", "metadata", "tiles", "index"};
    struct asking a = {.magic = ASKING_MAGIC, .check = c};
    void *db = NULL;
    enum ron_rc rc = RON_OK;

    RON_TRY(edg__mbt_handle(c->opts->path, &db, c->err));
    sqlite3_progress_handler(db, STEPS_BETWEEN, looked, &a);
    for (size_t i = 0; i < RON_ARRAY_LEN(parts) && rc == RON_OK; i++) {
        a.phase = phases[i];
        rc = edg__check_step(c, phases[i], i, RON_ARRAY_LEN(parts));
        rc = rc == RON_OK ? parts[i](c, db) : rc;
    }
    (void)sqlite3_close(db);
    return rc;
}
