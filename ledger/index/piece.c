/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/index/piece.c - pieces of runs: sorted entries (hash, seq) as bytes (docs/formats/
 * ledger-index.md), and the sorting of entries.
 *
 * All entries of a piece have one width: as many bytes as the greatest distance from the piece's
 * smallest hash needs, and the same for the seqs. That is about 11 bytes instead of 16, and an
 * entry is found by its number without decoding those before it.
 *
 * Pure code; any thread. Failure: RON_CORRUPT for bytes that are no piece. */
#include "ledger/index/priv.h"

#include "ron/base/assert.h"
#include "ron/base/bytes.h"
#include "ron/base/crc32c.h"

static const char piece_magic[4] = {'L', 'I', 'P', '2'};

static uint32_t bytes_of(uint64_t x)
{
    return x == 0 ? 1 : (71u - (uint32_t)__builtin_clzll(x)) / 8;
}

static uint64_t mask_of(uint32_t bytes)
{
    return bytes >= 8 ? UINT64_MAX : (UINT64_C(1) << (8 * bytes)) - 1;
}

/* The checksum covers the piece with zeros in its own place. */
static uint32_t sum_of(uint32_t seed, const uint8_t *bytes, size_t len)
{
    static const uint8_t zeros[4];
    uint32_t crc = ron_crc32c(ron_crc32c(seed, bytes, 28), zeros, sizeof zeros);

    return ron_crc32c(crc, bytes + LED_PIECE_HEAD, len - LED_PIECE_HEAD);
}

uint32_t led__piece_seed(uint64_t mark, uint64_t run, uint32_t piece)
{
    uint64_t words[3] = {mark, run, piece};

    return ron_crc32c(0, words, sizeof words);
}

/* ---- encoding -------------------------------------------------------------------------------- */

struct width {
    uint64_t base_seq;
    uint32_t hash_bytes;
    uint32_t seq_bytes;
};

static struct width width_of(const struct led_ent *entries, size_t count)
{
    uint64_t least = UINT64_MAX;
    uint64_t most = 0;

    for (size_t i = 0; i < count; i++) {
        least = RON_MIN(least, entries[i].seq);
        most = RON_MAX(most, entries[i].seq);
    }
    return (struct width){.base_seq = least,
                          .hash_bytes = bytes_of(entries[count - 1].hash - entries[0].hash),
                          .seq_bytes = bytes_of(most - least)};
}

uint32_t led__piece_encode(const struct led_ent *entries, size_t count, uint32_t seed,
                           uint8_t bytes[LED_PIECE_BYTES], size_t *ret_len)
{
    const size_t room = LED_PIECE_BYTES - LED_PIECE_HEAD - LED_PIECE_PAD;
    size_t n = RON_MIN(count, (size_t)LED_PIECE_KEYS);
    struct width w;
    uint32_t sum;
    uint8_t *at = bytes + LED_PIECE_HEAD;
    uint32_t step;

    RON_ASSERT(count > 0);
    w = width_of(entries, n);
    if (n * (w.hash_bytes + w.seq_bytes) > room) {
        /* Fewer entries never need more bytes each. */
        n = room / (w.hash_bytes + w.seq_bytes);
        w = width_of(entries, n);
    }
    step = w.hash_bytes + w.seq_bytes;
    memset(bytes, 0, LED_PIECE_HEAD);
    memcpy(bytes, piece_magic, sizeof piece_magic);
    memcpy(bytes + 4, &(uint32_t){(uint32_t)n}, 4);
    (void)ron_put_le64(bytes + 8, entries[0].hash);
    (void)ron_put_le64(bytes + 16, w.base_seq);
    bytes[24] = (uint8_t)w.hash_bytes;
    bytes[25] = (uint8_t)w.seq_bytes;
    for (size_t i = 0; i < n; i++, at += step) {
        /* Ascending order: what is written beyond the width is overwritten by the next, and at the
         * end by the padding. */
        (void)ron_put_le64(at, entries[i].hash - entries[0].hash);
        (void)ron_put_le64(at + w.hash_bytes, entries[i].seq - w.base_seq);
    }
    memset(at, 0, LED_PIECE_PAD);
    *ret_len = LED_PIECE_HEAD + n * step + LED_PIECE_PAD;
    sum = sum_of(seed, bytes, *ret_len);
    memcpy(bytes + 28, &sum, sizeof sum);
    return (uint32_t)n;
}

/* ---- reading --------------------------------------------------------------------------------- */

enum ron_rc led__piece_open(const uint8_t *bytes, size_t len, bool check, uint32_t seed,
                            struct led_piece_view *ret_view, struct ron_err *err)
{
    struct led_piece_view v = {.entries = bytes + LED_PIECE_HEAD};
    uint32_t seq_bytes;
    uint32_t sum;
    size_t need;

    if (len < LED_PIECE_HEAD + LED_PIECE_PAD ||
        memcmp(bytes, piece_magic, sizeof piece_magic) != 0) {
        return ron_err_set(err, RON_CORRUPT, "the index has a piece without its head");
    }
    memcpy(&v.count, bytes + 4, sizeof v.count);
    v.base_hash = led__load64(bytes + 8);
    v.base_seq = led__load64(bytes + 16);
    v.hash_bytes = bytes[24];
    seq_bytes = bytes[25];
    v.width = v.hash_bytes + seq_bytes;
    need = LED_PIECE_HEAD + (size_t)v.count * v.width + LED_PIECE_PAD;
    if (v.hash_bytes - 1u >= 8 || seq_bytes - 1u >= 8 || v.count == 0 || v.count > LED_PIECE_KEYS ||
        need > len || need > LED_PIECE_BYTES) {
        return ron_err_set(err, RON_CORRUPT, "the index has a piece of impossible size");
    }
    memcpy(&sum, bytes + 28, sizeof sum);
    if (check && sum != sum_of(seed, bytes, need)) {
        return ron_err_set(err, RON_CORRUPT, "the index has a piece with a wrong checksum");
    }
    v.hash_mask = mask_of(v.hash_bytes);
    v.seq_mask = mask_of(seq_bytes);
    *ret_view = v;
    return RON_OK;
}

uint32_t led__piece_lower(const struct led_piece_view *v, struct led_ent want)
{
    uint32_t lo = 0;
    uint32_t hi = v->count;

    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;

        if (led__ent_less(led__piece_at(v, mid), want)) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    return lo;
}

/* ---- sorting --------------------------------------------------------------------------------- */

static int compare(const void *x, const void *y)
{
    const struct led_ent *a = x;
    const struct led_ent *b = y;

    return led__ent_less(*a, *b) ? -1 : led__ent_less(*b, *a);
}

static void sort_few(struct led_ent *entries, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        struct led_ent e = entries[i];
        size_t k = i;

        for (; k > 0 && led__ent_less(e, entries[k - 1]); k--) {
            entries[k] = entries[k - 1];
        }
        entries[k] = e;
    }
}

/* Hashes are uniform, so one pass by their upper bits leaves a few a bucket. Skip points of one
 * busy account share a bucket and come in order of seq; what is not sorted yet goes to qsort. */
void led__ents_sort(struct led_ent *entries, struct led_ent *spare, size_t count)
{
    enum { BITS_MAX = 13, FEW = 64 };
    uint32_t starts[(1u << BITS_MAX) + 1] = {0};
    uint32_t bits = 1;
    uint32_t buckets;

    while (bits < BITS_MAX && (count >> bits) > 4) {
        bits++;
    }
    buckets = 1u << bits;
    for (size_t i = 0; i < count; i++) {
        starts[(entries[i].hash >> (64 - bits)) + 1]++;
    }
    for (uint32_t i = 0; i < buckets; i++) {
        starts[i + 1] += starts[i];
    }
    for (size_t i = 0; i < count; i++) {
        spare[starts[entries[i].hash >> (64 - bits)]++] = entries[i];
    }
    for (uint32_t i = 0, begin = 0; i < buckets; begin = starts[i], i++) {
        size_t n = starts[i] - begin;

        if (n <= FEW) {
            sort_few(spare + begin, n);
        } else {
            qsort(spare + begin, n, sizeof *spare, compare);
        }
    }
    memcpy(entries, spare, count * sizeof *entries);
}

/* ---- edges ----------------------------------------------------------------------------------- */

/* Word by word from the text itself: bytes put together in memory and read back as words would
 * stall the processor, and this stands in the way of every id. */
struct led_edge led__edge_of(struct ron_str text)
{
    struct led_edge edge = {0};
    const uint8_t *bytes = (const uint8_t *)text.ptr;
    size_t len = RON_MIN(text.len, sizeof edge.words);
    size_t whole = len / 8;
    size_t rest = len % 8;

    for (size_t i = 0; i < whole; i++) {
        edge.words[i] = __builtin_bswap64(led__load64(bytes + 8 * i));
    }
    if (rest > 0 && whole > 0) {
        edge.words[whole] = __builtin_bswap64(led__load64(bytes + len - 8)) << (64 - 8 * rest);
    } else {
        for (size_t i = 0; i < rest; i++) {
            edge.words[0] |= (uint64_t)bytes[i] << (56 - 8 * i);
        }
    }
    return edge;
}

static bool edge_less(const struct led_edge *x, const struct led_edge *y)
{
    for (size_t i = 0; i < LED_EDGE_WORDS; i++) {
        if (x->words[i] != y->words[i]) {
            return x->words[i] < y->words[i];
        }
    }
    return false;
}

bool led__edges_hold(const struct led_edges *edges, const struct led_edge *edge)
{
    return edges->any && !edge_less(edge, &edges->min) && !edge_less(&edges->max, edge);
}

void led__edges_add(struct led_edges *edges, const struct led_edge *edge)
{
    if (!edges->any) {
        *edges = (struct led_edges){.any = true, .min = *edge, .max = *edge};
        return;
    }
    if (edge_less(edge, &edges->min)) {
        edges->min = *edge;
    }
    if (edge_less(&edges->max, edge)) {
        edges->max = *edge;
    }
}

void led_edges_add_text(struct led_edges *edges, struct ron_str text)
{
    struct led_edge edge = led__edge_of(text);

    led__edges_add(edges, &edge);
}

void led__edges_join(struct led_edges *edges, const struct led_edges *other)
{
    if (other->any) {
        led__edges_add(edges, &other->min);
        led__edges_add(edges, &other->max);
    }
}
