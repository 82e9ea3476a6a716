/* SPDX-License-Identifier: Apache-2.0 */
/* sim_file.c - the bytes of a file: seen at once, durable after a sync, and what a power loss makes
 * of the rest.
 *
 * Place: bottom of the simulated disk.
 *
 * Invariants:
 *   F1 live = durable with all pending changes applied in order, unless a sync of this life failed.
 *   F2 durable bytes change by later writes only; damage (rot, bad sectors, garbage, misdirected
 *   writes) lies in
 *      its own layer over them.
 *   F3 after a power loss each pending write is whole, absent, a first part in whole sectors,
 *   garbled in one
 *      sector, or somewhere else, independently of the others. A new size is there or not.
 *   F4 a failed sync forgets the pending changes: some are durable, some are not, and no later sync
 *      brings them back, while reads still show them. (Linux does that.) */
#include <string.h>

#include "ron/base/assert.h"
#include "sim_fs.h"

/* ---- damage ---- */

static struct sim_damage *damage_add(struct sim_inode *in, enum sim_damage_kind kind,
                                     uint64_t sector)
{
    struct sim_damage *d;

    if (in->damage_count == in->damage_cap) {
        in->damage_cap = RON_MAX((size_t)4, in->damage_cap * 2);
        in->damage = sim__grow(in->damage, in->damage_cap * sizeof *in->damage);
    }
    d = &in->damage[in->damage_count++];
    memset(d, 0, sizeof *d);
    d->kind = kind;
    d->sector = sector;
    in->version++;
    return d;
}

static void damage_remove(struct sim_inode *in, size_t i)
{
    in->damage[i] = in->damage[--in->damage_count];
}

/* What the sector holds instead of its true bytes: one record per sector, so that the order of
 * damage does not matter. A new one starts with the true bytes. */
static uint8_t *damage_replace(struct sim_inode *in, uint64_t sector)
{
    size_t start = (size_t)sector * SIM_SECTOR_BYTES;
    struct sim_damage *d;

    for (size_t i = 0; i < in->damage_count; i++) {
        if (in->damage[i].kind == SIM_DAMAGE_REPLACED && in->damage[i].sector == sector) {
            return in->damage[i].data;
        }
    }
    d = damage_add(in, SIM_DAMAGE_REPLACED, sector);
    if (start < in->durable.len) {
        memcpy(d->data, in->durable.at + start,
               RON_MIN((size_t)SIM_SECTOR_BYTES, in->durable.len - start));
    }
    return d->data;
}

/* The bytes of a sector that lie in [off, off + len). */
struct span {
    uint64_t sector_at;
    uint64_t from;
    uint64_t to; /* from >= to: none */
};

static struct span span_of(const struct sim_damage *d, uint64_t off, size_t len)
{
    uint64_t at = d->sector * SIM_SECTOR_BYTES;

    return (struct span){at, RON_MAX(at, off), RON_MIN(at + SIM_SECTOR_BYTES, off + len)};
}

static bool flip_is_in(const struct sim_damage *d, const struct span *span)
{
    uint64_t at = span->sector_at + d->bit / 8;

    return d->kind == SIM_DAMAGE_FLIP && at >= span->from && at < span->to;
}

/* A durable write mends what it covers: a sector wholly written is as new, garbage gives way byte
 * by byte. */
static void damage_overwritten(struct sim_inode *in, const uint8_t *data, size_t len, uint64_t off)
{
    for (size_t i = in->damage_count; i-- > 0;) {
        struct sim_damage *d = &in->damage[i];
        struct span span = span_of(d, off, len);

        if (span.from >= span.to) {
            continue;
        }
        if (d->kind == SIM_DAMAGE_REPLACED) {
            memcpy(d->data + (span.from - span.sector_at), data + (span.from - off),
                   (size_t)(span.to - span.from));
        }
        if (span.to - span.from == SIM_SECTOR_BYTES || flip_is_in(d, &span)) {
            damage_remove(in, i);
        }
    }
}

/* Beyond the end of a file there is nothing to be damaged. */
static void damage_cut(struct sim_inode *in, uint64_t size)
{
    for (size_t i = in->damage_count; i-- > 0;) {
        struct sim_damage *d = &in->damage[i];
        struct span tail = span_of(d, size, SIZE_MAX / 2);

        if (d->sector * SIM_SECTOR_BYTES >= size || flip_is_in(d, &tail)) {
            damage_remove(in, i);
        } else if (d->kind == SIM_DAMAGE_REPLACED && tail.from < tail.to) {
            memset(d->data + (tail.from - tail.sector_at), 0, (size_t)(tail.to - tail.from));
        }
    }
}

/* Whether a pending write holds all of the sector, so that nobody has to read it from the disk. */
static bool is_cached(const struct sim_inode *in, uint64_t sector)
{
    uint64_t at = sector * SIM_SECTOR_BYTES;

    for (const struct sim_pending *p = in->pending_first; p != NULL; p = p->next) {
        if (!p->is_truncate && p->off <= at && p->off + p->len >= at + SIM_SECTOR_BYTES) {
            return true;
        }
    }
    return false;
}

/* Lays the damage over bytes that were read. */
static enum ron_rc damage_apply(const struct sim_inode *in, uint8_t *buf, size_t len, uint64_t off)
{
    for (size_t i = 0; i < in->damage_count; i++) {
        const struct sim_damage *d = &in->damage[i];
        struct span span = span_of(d, off, len);

        if (span.from >= span.to) {
            continue;
        }
        if (d->kind == SIM_DAMAGE_UNREADABLE && !is_cached(in, d->sector)) {
            return RON_IO;
        }
        if (d->kind == SIM_DAMAGE_REPLACED) {
            memcpy(buf + (span.from - off), d->data + (span.from - span.sector_at),
                   (size_t)(span.to - span.from));
        }
    }
    /* Bits flip in what the sector holds, be it right or wrong. */
    for (size_t i = 0; i < in->damage_count; i++) {
        const struct sim_damage *d = &in->damage[i];
        struct span span = span_of(d, off, len);

        if (flip_is_in(d, &span)) {
            buf[span.sector_at + d->bit / 8 - off] ^= (uint8_t)(1u << (d->bit % 8));
        }
    }
    return RON_OK;
}

/* ---- reading and writing ---- */

static void pend(struct sim_inode *in, struct sim_pending *p)
{
    if (in->pending_last == NULL) {
        in->pending_first = p;
    } else {
        in->pending_last->next = p;
    }
    in->pending_last = p;
    in->version++;
}

static void apply(struct sim_bytes *bytes, const struct sim_pending *p)
{
    if (!p->is_truncate) {
        sim__bytes_put(bytes, (size_t)p->off, p->data, p->len);
    } else if (p->off < bytes->len) {
        bytes->len = (size_t)p->off;
    } else {
        sim__bytes_extend(bytes, (size_t)p->off);
    }
}

static void apply_durable(struct sim_inode *in, const struct sim_pending *p)
{
    apply(&in->durable, p);
    if (p->is_truncate) {
        damage_cut(in, p->off);
    } else {
        damage_overwritten(in, p->data, p->len, p->off);
    }
}

/* Lays the pending changes over bytes that were read: they are in memory, out of reach of the
 * damage. */
static void apply_cached(const struct sim_inode *in, uint8_t *buf, size_t len, uint64_t off)
{
    for (const struct sim_pending *p = in->pending_first; p != NULL; p = p->next) {
        uint64_t from = RON_MAX(p->off, off);
        uint64_t to = p->is_truncate ? off + len : RON_MIN(p->off + p->len, off + len);

        if (from < to && p->is_truncate) {
            memset(buf + (from - off), 0, (size_t)(to - from));
        } else if (from < to) {
            memcpy(buf + (from - off), p->data + (from - p->off), (size_t)(to - from));
        }
    }
}

void sim__file_write(struct sim_disk *disk, struct sim_inode *in, const void *data, size_t len,
                     uint64_t off)
{
    struct sim_pending *p;
    uint64_t size = in->live.len;

    if (len == 0) {
        return;
    }
    p = sim__alloc(sizeof *p + len);
    p->off = off;
    p->len = len;
    memcpy(p->data, data, len);
    pend(in, p);
    apply(&in->live, p);
    disk->used_bytes += in->live.len - size;
}

void sim__file_truncate(struct sim_disk *disk, struct sim_inode *in, uint64_t size)
{
    struct sim_pending *p = sim__alloc(sizeof *p);

    p->is_truncate = true;
    p->off = size;
    pend(in, p);
    apply(&in->live, p);
    disk->used_stale = true;
}

/* Now and then a sector that is read turns out to have gone bad. */
static void age(struct sim_disk *disk, struct sim_inode *in, size_t len, uint64_t off)
{
    const struct sim_opts *o = &disk->host->sim->opts;
    uint64_t first = off / SIM_SECTOR_BYTES;
    uint64_t last = (off + len - 1) / SIM_SECTOR_BYTES;

    if (sim__chance(&disk->rand, o->disk_rot_ppm)) {
        uint64_t at = off + ron_rand_below(&disk->rand, len);
        struct sim_damage *d = damage_add(in, SIM_DAMAGE_FLIP, at / SIM_SECTOR_BYTES);
        d->bit = (uint32_t)(at % SIM_SECTOR_BYTES * 8 + ron_rand_below(&disk->rand, 8));
        sim__event(disk->host->sim, SIM_EV_ROT, disk->host, in->ino, at);
    }
    if (sim__chance(&disk->rand, o->disk_bad_sector_ppm)) {
        uint64_t sector = ron_rand_range(&disk->rand, first, last);
        (void)damage_add(in, SIM_DAMAGE_UNREADABLE, sector);
        sim__event(disk->host->sim, SIM_EV_BAD_SECTOR, disk->host, in->ino, sector);
    }
}

enum ron_rc sim__file_read(struct sim_disk *disk, struct sim_inode *in, void *buf, size_t len,
                           uint64_t off, size_t *ret_len)
{
    size_t have = off >= in->live.len ? 0 : in->live.len - (size_t)off;
    size_t got = RON_MIN(len, have);

    if (got > 0) {
        age(disk, in, got, off);
        memcpy(buf, in->live.at + off, got);
        if (!disk->hide_damage) {
            RON_TRY(damage_apply(in, buf, got, off));
            apply_cached(in, buf, got, off);
        }
    }
    *ret_len = got;
    return RON_OK;
}

/* ---- sync ---- */

static struct sim_pending *unpend(struct sim_inode *in)
{
    struct sim_pending *p = in->pending_first;

    if (p != NULL) {
        in->pending_first = p->next;
        if (in->pending_first == NULL) {
            in->pending_last = NULL;
        }
    }
    return p;
}

void sim__file_sync(struct sim_disk *disk, struct sim_inode *in, bool failed)
{
    struct sim_pending *p;

    while ((p = unpend(in)) != NULL) {
        if (!failed || ron_rand_chance(&disk->rand, 1, 2)) {
            apply_durable(in, p);
        }
        sim__free(p);
    }
    in->version++;
}

/* ---- power loss ---- */

static void tear(struct sim_disk *disk, struct sim_inode *in, struct sim_pending *p)
{
    uint64_t first = p->off / SIM_SECTOR_BYTES;
    uint64_t sectors = (p->off + p->len - 1) / SIM_SECTOR_BYTES - first + 1;
    uint64_t kept = sectors < 2 ? 0 : ron_rand_range(&disk->rand, 1, sectors - 1);

    if (kept > 0) {
        p->len = (size_t)((first + kept) * SIM_SECTOR_BYTES - p->off);
        apply_durable(in, p);
    }
    sim__event(disk->host->sim, SIM_EV_CRASH_TEAR, disk->host, in->ino, kept);
}

/* The write is there, but one of its sectors is garbage: within the bytes written, or in all of the
 * sector when the device does not protect the neighbours of an interrupted write. */
static void garble(struct sim_disk *disk, struct sim_inode *in, const struct sim_pending *p)
{
    uint64_t first = p->off / SIM_SECTOR_BYTES;
    uint64_t last = (p->off + p->len - 1) / SIM_SECTOR_BYTES;
    uint64_t sector = ron_rand_range(&disk->rand, first, last);
    uint64_t start = sector * SIM_SECTOR_BYTES;
    uint64_t from = RON_MAX(start, p->off);
    uint64_t to = RON_MIN(start + SIM_SECTOR_BYTES, p->off + p->len);
    uint8_t *held;

    apply_durable(in, p);
    held = damage_replace(in, sector);
    if (disk->host->sim->opts.crash_wide_garble != 0) {
        from = start;
        to = start + SIM_SECTOR_BYTES;
    }
    ron_rand_bytes(&disk->rand, held + (from - start), (size_t)(to - from));
    sim__event(disk->host->sim, SIM_EV_CRASH_GARBLE, disk->host, in->ino, sector);
}

/* The bytes have hit other sectors of the same file; their own place is as it was before. */
static void misdirect(struct sim_disk *disk, struct sim_inode *in, const struct sim_pending *p)
{
    uint64_t sectors = in->durable.len / SIM_SECTOR_BYTES;
    uint64_t own = p->off / SIM_SECTOR_BYTES;
    size_t done = 0;
    uint64_t victim;

    if (sectors < 2) {
        sim__event(disk->host->sim, SIM_EV_CRASH_DROP, disk->host, in->ino, p->off);
        return;
    }
    victim = ron_rand_below(&disk->rand, sectors - 1);
    victim += victim >= own && own < sectors ? 1 : 0;
    sim__event(disk->host->sim, SIM_EV_CRASH_MISDIRECT, disk->host, in->ino, victim);
    for (; done < p->len && victim < sectors; victim++) {
        size_t part = RON_MIN((size_t)SIM_SECTOR_BYTES, p->len - done);
        memcpy(damage_replace(in, victim), p->data + done, part);
        done += part;
    }
}

static void resolve(struct sim_disk *disk, struct sim_inode *in, struct sim_pending *p)
{
    struct sim *sim = disk->host->sim;
    const struct sim_opts *o = &sim->opts;
    const uint64_t weight[] = {o->crash_apply_weight, o->crash_drop_weight, o->crash_tear_weight,
                               o->crash_garble_weight, o->crash_misdirect_weight};
    /* A size has no sectors to be torn, garbled or misdirected. */
    size_t fates = p->is_truncate ? 2 : RON_ARRAY_LEN(weight);
    uint64_t total = 0;
    uint64_t pick;
    size_t fate = 0;

    for (size_t i = 0; i < fates; i++) {
        total += weight[i];
    }
    pick = ron_rand_below(&disk->rand, RON_MAX(total, UINT64_C(1)));
    while (fate + 1 < fates && pick >= weight[fate]) {
        pick -= weight[fate++];
    }
    switch (fate) {
    case 0:
        apply_durable(in, p);
        sim__event(sim, SIM_EV_CRASH_APPLY, disk->host, in->ino, p->off);
        break;
    case 1:
        sim__event(sim, SIM_EV_CRASH_DROP, disk->host, in->ino, p->off);
        break;
    case 2:
        tear(disk, in, p);
        break;
    case 3:
        garble(disk, in, p);
        break;
    default:
        misdirect(disk, in, p);
        break;
    }
}

void sim__file_power_loss(struct sim_disk *disk, struct sim_inode *in)
{
    struct sim_pending *p;

    while ((p = unpend(in)) != NULL) {
        resolve(disk, in, p); /* keeps F3 */
        sim__free(p);
    }
    sim__bytes_copy(&in->live, &in->durable);
    in->open_count = 0;
    in->locked = false;
    in->version++;
}

void sim__file_done(struct sim_inode *in)
{
    struct sim_pending *p;

    while ((p = unpend(in)) != NULL) {
        sim__free(p);
    }
    sim__free(in->damage);
    sim__bytes_done(&in->live);
    sim__bytes_done(&in->durable);
}

/* ---- on demand ---- */

static struct sim_inode *file_with_byte(struct sim_host *host, const char *path, uint64_t off)
{
    struct sim_inode *in = sim__fs_find(host->disk, path);

    RON_ASSERT_MSG(in != NULL, "%s: no file %s", host->name, path);
    RON_ASSERT_MSG(off < in->live.len, "%s has no such byte", path);
    return in;
}

void sim_disk_flip_bit(struct sim_host *host, const char *path, uint64_t off, unsigned bit)
{
    struct sim_inode *in = file_with_byte(host, path, off);
    struct sim_damage *d = damage_add(in, SIM_DAMAGE_FLIP, off / SIM_SECTOR_BYTES);

    d->bit = (uint32_t)(off % SIM_SECTOR_BYTES) * 8 + bit % 8;
    sim__event(host->sim, SIM_EV_ROT, host, in->ino, off);
}

void sim_disk_bad_sector(struct sim_host *host, const char *path, uint64_t off)
{
    struct sim_inode *in = file_with_byte(host, path, off);

    (void)damage_add(in, SIM_DAMAGE_UNREADABLE, off / SIM_SECTOR_BYTES);
    sim__event(host->sim, SIM_EV_BAD_SECTOR, host, in->ino, off / SIM_SECTOR_BYTES);
}

void sim_disk_show_faults(struct sim_host *host, bool show)
{
    host->disk->hide_damage = !show;
}
