/* SPDX-License-Identifier: Apache-2.0 */
/* edge/pack/verify_pmt.c - every directory of a PMTiles archive, from the first tile id to the
 * last.
 *
 * One walk in the order of ids. `next_id` only grows, and a leaf that is met a second time begins
 * below it: so a walk through a hostile archive ends too, after at most as many entries as its
 * directories hold. */
#include <inttypes.h>
#include <string.h>

#include "edge/pack/pmt.h"
#include "edge/pack/verify_priv.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"

enum {
    STEP_ENTRIES = 8192, /* between two looks at who looks on */
    SET_FIRST = 4096,    /* slots; doubled while at least half are used */
    SET_LAST = 8 << 20,  /* slots: 64 MiB */
    LON_MAX_E7 = 1800000000,
    LAT_MAX_E7 = 900000000,
};

struct walk {
    struct edg__check *check;
    int fd;
    const struct edg_pmt_header *h;
    uint64_t next_id; /* lowest that may come */
    uint64_t end;     /* clustered: of the tile data that was seen so far */
    bool scattered;   /* clustered, but it is not */
    uint64_t *set;    /* offsets + 1, when it is not clustered; NULL: not counted */
    size_t slots;
    bool set_full;
    uint64_t since_step;
};

/* ---- contents -------------------------------------------------------------------------------- */

static bool set_add(uint64_t *set, size_t slots, uint64_t offset)
{
    size_t at = (size_t)((offset * 0x9e3779b97f4a7c15u) >> 20) & (slots - 1);

    while (set[at] != 0) {
        if (set[at] == offset + 1) {
            return false;
        }
        at = (at + 1) & (slots - 1);
    }
    set[at] = offset + 1;
    return true;
}

static enum ron_rc set_grow(struct walk *w)
{
    size_t slots = w->slots == 0 ? SET_FIRST : w->slots * 2;
    uint64_t *bigger;

    if (slots > SET_LAST) {
        w->set_full = true;
        return RON_OK;
    }
    bigger = ron_alloc_array(slots, sizeof *bigger);
    if (bigger == NULL) {
        return ron_err_set(w->check->err, RON_NOMEM, "no memory for counting tile contents");
    }
    for (size_t i = 0; i < w->slots; i++) {
        if (w->set[i] != 0) {
            (void)set_add(bigger, slots, w->set[i] - 1);
        }
    }
    ron_free(w->set);
    w->set = bigger;
    w->slots = slots;
    return RON_OK;
}

static enum ron_rc content(struct walk *w, const struct edg_pmt_entry *e)
{
    struct edg_verify_report *r = w->check->report;

    if (w->h->clustered) {
        if (e->offset == w->end) {
            w->end += e->length;
            r->tile_contents++;
        } else if (e->offset > w->end && !w->scattered) {
            w->scattered = true;
            edg__found(&r->faults, "clustered, but a gap precedes tile %" PRIu64, e->tile_id);
        }
        return RON_OK;
    }
    if (r->tile_contents >= w->slots / 2 && !w->set_full) {
        RON_TRY(set_grow(w));
    }
    RON_ASSERT(w->set != NULL);
    if (!w->set_full && set_add(w->set, w->slots, e->offset)) {
        r->tile_contents++;
    }
    return RON_OK;
}

/* ---- entries --------------------------------------------------------------------------------- */

static enum ron_rc tile(struct walk *w, const struct edg_pmt_entry *e)
{
    struct edg_verify_report *r = w->check->report;

    if (e->tile_id < edg_zoom_first_id(w->h->zoom_min) ||
        e->tile_id + e->run > edg_zoom_first_id(w->h->zoom_max + 1u)) {
        edg__found(&r->faults, "tile %" PRIu64 " is outside the zooms %u to %u", e->tile_id,
                   w->h->zoom_min, w->h->zoom_max);
    }
    r->tile_entries++;
    r->tiles_addressed += e->run;
    if (++w->since_step >= STEP_ENTRIES) {
        w->since_step = 0;
        RON_TRY(edg__check_step(w->check, "entries", r->tile_entries, w->h->entries));
    }
    return content(w, e);
}

/* Reads a leaf; no entries after a fault. */
static enum ron_rc leaf_read(struct walk *w, const struct edg_pmt_entry *e,
                             struct edg_pmt_entry **ret_entries, size_t *ret_count)
{
    struct edg__check *c = w->check;
    struct ron_err why = {0};
    struct edg_pmt_entry *entries = NULL;
    struct ron_buf inflated;
    size_t count = 0;
    enum ron_rc rc;

    ron_buf_init(&inflated, EDG_PMT_DIR_BYTES_MAX);
    rc = edg_pmt_dir_inflate(c->opts->env, w->fd, w->h, w->h->leaves.offset + e->offset, e->length,
                             &inflated, &why);
    if (rc == RON_OK) {
        rc = edg_pmt_dir_count(ron_buf_data(&inflated), ron_buf_len(&inflated), &count, &why);
    }
    if (rc == RON_OK) {
        entries = ron_alloc_array(count, sizeof *entries);
        rc = entries == NULL ? ron_err_set(&why, RON_NOMEM, "no memory for a leaf directory")
                             : edg_pmt_dir_read(ron_buf_data(&inflated), ron_buf_len(&inflated),
                                                w->h, entries, count, &why);
    }
    ron_buf_done(&inflated);
    if (rc == RON_OK) {
        *ret_entries = entries;
        *ret_count = count;
        return RON_OK;
    }
    ron_free(entries);
    if (rc == RON_CORRUPT || rc == RON_LIMIT || rc == RON_UNSUPPORTED) {
        edg__found(&c->report->faults, "leaf of tile %" PRIu64 ": %s", e->tile_id, why.msg);
        return RON_OK;
    }
    return ron_err_set(c->err, rc, "%s", why.msg);
}

static enum ron_rc directory(struct walk *w, const struct edg_pmt_entry *entries, size_t count,
                             uint32_t depth, uint64_t limit_id);

static enum ron_rc leaf(struct walk *w, const struct edg_pmt_entry *e, uint32_t depth,
                        uint64_t limit_id)
{
    struct edg_verify_report *r = w->check->report;
    struct edg_pmt_entry *entries = NULL;
    size_t count = 0;
    enum ron_rc rc;

    if (depth > EDG_PMT_DEPTH_MAX) {
        edg__found(&r->faults, "leaf of tile %" PRIu64 ": nested more than %d levels deep",
                   e->tile_id, EDG_PMT_DEPTH_MAX);
        return RON_OK;
    }
    RON_TRY(leaf_read(w, e, &entries, &count));
    if (entries == NULL) {
        return RON_OK;
    }
    if (count == 0) {
        edg__found(&r->faults, "leaf of tile %" PRIu64 " is empty", e->tile_id);
    }
    r->depth = RON_MAX(r->depth, depth);
    rc = directory(w, entries, count, depth, limit_id);
    ron_free(entries);
    return rc;
}

static enum ron_rc directory(struct walk *w, const struct edg_pmt_entry *entries, size_t count,
                             uint32_t depth, uint64_t limit_id)
{
    struct edg_verify_report *r = w->check->report;

    r->directories++;
    for (size_t i = 0; i < count && r->faults.count < EDG_FINDINGS_MAX; i++) {
        const struct edg_pmt_entry *e = &entries[i];
        uint64_t limit = i + 1 < count ? entries[i + 1].tile_id : limit_id;

        if (e->tile_id < w->next_id || e->tile_id + RON_MAX(e->run, 1u) > limit) {
            edg__found(&r->faults, "tile %" PRIu64 " is %s", e->tile_id,
                       e->tile_id < w->next_id ? "duplicate or out of order"
                                               : "outside the range of its leaf");
            return RON_OK;
        }
        if (e->run > 0) {
            w->next_id = e->tile_id + e->run;
            RON_TRY(tile(w, e));
        } else {
            w->next_id = e->tile_id;
            RON_TRY(leaf(w, e, depth + 1, RON_MIN(limit, limit_id)));
        }
    }
    return RON_OK;
}

/* ---- header ---------------------------------------------------------------------------------- */

static void sections(struct edg_verify_report *r, const struct edg_pmt_header *h)
{
    const struct {
        const char *name;
        struct edg_pmt_section at;
    } all[] = {{"the root directory", h->root},
               {"the metadata", h->metadata},
               {"the leaf directories", h->leaves},
               {"the tile data", h->tiles},
               {"the header", {.offset = 0, .length = EDG_PMT_HEADER_BYTES}}};

    for (size_t i = 0; i < RON_ARRAY_LEN(all); i++) {
        for (size_t j = i + 1; j < RON_ARRAY_LEN(all); j++) {
            if (all[i].at.length > 0 && all[j].at.length > 0 &&
                all[i].at.offset < all[j].at.offset + all[j].at.length &&
                all[j].at.offset < all[i].at.offset + all[i].at.length) {
                edg__found(&r->faults, "%s and %s overlap", all[i].name, all[j].name);
            }
        }
    }
}

static void places(struct edg_verify_report *r, const struct edg_pmt_header *h)
{
    const struct edg_bounds *b = &h->bounds;

    if (b->west_e7 < -LON_MAX_E7 || b->east_e7 > LON_MAX_E7 || b->south_e7 < -LAT_MAX_E7 ||
        b->north_e7 > LAT_MAX_E7 || b->west_e7 > LON_MAX_E7 || b->east_e7 < -LON_MAX_E7 ||
        b->south_e7 > b->north_e7) {
        edg__found(&r->faults, "bounds outside the valid range");
    }
}

static void count_check(struct edg_verify_report *r, const char *what, uint64_t told,
                        uint64_t found)
{
    if (told != 0 && told != found) {
        edg__found(&r->faults, "%s: the header says %" PRIu64 ", there are %" PRIu64, what, told,
                   found);
    }
}

static void counts(struct walk *w)
{
    struct edg_verify_report *r = w->check->report;

    count_check(r, "addressed tiles", w->h->addressed, r->tiles_addressed);
    count_check(r, "tile entries", w->h->entries, r->tile_entries);
    if (w->set_full) {
        edg__found(&r->notes, "too many tiles; distinct contents not counted");
    } else if (!w->scattered) {
        count_check(r, "tile contents", w->h->contents, r->tile_contents);
    }
    if (r->tile_entries == 0) {
        edg__found(&r->notes, "no tiles");
    }
}

enum ron_rc edg__verify_pmt(struct edg__check *c, int fd, uint64_t file_bytes)
{
    struct edg_verify_report *r = c->report;
    struct walk w = {.check = c, .fd = fd};
    const struct edg_pmt_entry *root;
    struct edg_pmt *p = NULL;
    size_t count = 0;
    uint32_t before;
    enum ron_rc rc;

    RON_TRY(edg_pmt_open(c->opts->env, fd, file_bytes, NULL, 0, &p, c->err));
    w.h = edg_pmt_header(p);
    sections(r, w.h);
    places(r, w.h);
    root = edg_pmt_root(p, &count);
    before = r->faults.count;
    rc = directory(&w, root, count, 0, EDG_TILE_ID_MAX + 1);
    /* Entries that were left out make counts that mean nothing. */
    if (rc == RON_OK && (r->faults.count == before || w.scattered)) {
        counts(&w);
    }
    if (rc == RON_OK) {
        rc = edg__check_step(c, "entries", r->tile_entries, r->tile_entries);
    }
    ron_free(w.set);
    edg_pmt_close(p);
    return rc;
}
