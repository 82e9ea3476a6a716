/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/read/export_text.c - the journal as hledger, ledger and beancount read it.
 *
 * Each entry becomes one transaction with two postings. What enters or leaves the ledger goes
 * against an equity account for the supply; Credit and Debit, which balance within their batch but
 * not alone, against one for clearing, which is therefore zero after every batch. What is held is a
 * sub-account.
 *
 * Names must fit the others' grammars and lead back to ours (docs/formats/ledger-export.md). Texts
 * of callers never stand where the others look for syntax: ids and memos are percent-encoded in
 * comments, or quoted strings. */
#include "ledger/read/export_priv.h"

#include <string.h>

#include "ron/base/str.h"

/* The largest date that all of them read. */
#define LAST_DAY UINT64_C(2932896) /* 9999-12-31 */
#define DAY_MS UINT64_C(86400000)

static bool is_beancount(const struct led_export *ex)
{
    return ex->opts.format == LED_EXPORT_BEANCOUNT;
}

static void put(struct ron_buf *out, const char *text)
{
    RON_IGNORE(ron_buf_append_text(out, text)); /* sticks: led_export_next looks */
}

static void put_byte(struct ron_buf *out, char c)
{
    RON_IGNORE(ron_buf_append_byte(out, (uint8_t)c)); /* sticks */
}

static void put_decimal(struct ron_buf *out, uint64_t value)
{
    char text[RON_MONEY_TEXT_SIZE];

    RON_IGNORE(ron_buf_append(out, text, ron_money_format(ron_money_of(value), text)));
}

static bool is_alnum(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* ---- names ----------------------------------------------------------------------------------- */

/* Parts of a beancount name begin with a capital and hold letters, digits and dashes: A begins the
 * first part, C one behind our ':', S one behind our '/'. A dash escapes. */
static void put_beancount_account(struct ron_str account, struct ron_buf *out)
{
    put(out, "Assets:A");
    for (size_t i = 0; i < account.len; i++) {
        switch (account.ptr[i]) {
        case ':':
            put(out, ":C");
            break;
        case '/':
            put(out, ":S");
            break;
        case '-':
            put(out, "--");
            break;
        case '_':
            put(out, "-u");
            break;
        default:
            put_byte(out, account.ptr[i]);
            break;
        }
    }
}

/* hledger and ledger take nearly everything but an empty part: a ':' that would make one is
 * %3A. */
static void put_hledger_account(struct ron_str account, struct ron_buf *out)
{
    put(out, "assets:");
    for (size_t i = 0; i < account.len; i++) {
        char c = account.ptr[i];

        if (c == ':' && (i == 0 || i + 1 == account.len || account.ptr[i - 1] == ':')) {
            put(out, "%3A");
        } else {
            put_byte(out, c);
        }
    }
}

enum ron_rc led_export_account(enum led_export_format format, struct ron_str account, bool held,
                               struct ron_buf *out)
{
    if (format == LED_EXPORT_BEANCOUNT) {
        put_beancount_account(account, out);
        put(out, held ? ":Held" : "");
    } else {
        put_hledger_account(account, out);
        put(out, held ? ":%held" : "");
    }
    return ron_buf_error(out);
}

enum {
    CURRENCY_MAX = 24,   /* of beancount: a capital, then capitals, digits and ' . _ -, not last */
    CURRENCY_SHORT = 22, /* leaves room for the mark of one that ends badly */
    CURRENCY_HEAD = 15,  /* what is kept of one that is too long, before 8 digits of its hash */
};

static bool currency_fits(struct ron_str asset)
{
    return asset.len >= 2 && asset.len <= CURRENCY_MAX && is_alnum(asset.ptr[asset.len - 1]);
}

static bool currency_cut(struct ron_str asset)
{
    return asset.len > CURRENCY_SHORT && !currency_fits(asset);
}

static void put_upper(struct ron_str text, struct ron_buf *out)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];

        if (c >= 'a' && c <= 'z') {
            c = (char)(c - 'a' + 'A');
        }
        put_byte(out, c);
    }
}

/* Ours have no capitals and no apostrophe, so both can carry meaning. */
static void put_beancount_commodity(struct ron_str asset, struct ron_buf *out)
{
    static const char digits[] = "0123456789ABCDEF";
    struct ron_tree_hash hash;

    if (currency_fits(asset)) {
        put_upper(asset, out);
        return;
    }
    if (!currency_cut(asset)) {
        put_upper(asset, out);
        put(out, "'0");
        return;
    }
    ron_tree_hash_pieces(&(const struct ron_tree_piece){asset.ptr, asset.len}, 1, &hash);
    put_upper((struct ron_str){asset.ptr, CURRENCY_HEAD}, out);
    put_byte(out, '\'');
    for (size_t i = 0; i < 4; i++) {
        put_byte(out, digits[hash.bytes[i] >> 4]);
        put_byte(out, digits[hash.bytes[i] & 15]);
    }
}

enum ron_rc led_export_commodity(enum led_export_format format, struct ron_str asset,
                                 struct ron_buf *out)
{
    if (format == LED_EXPORT_BEANCOUNT) {
        put_beancount_commodity(asset, out);
    } else {
        put_byte(out, '"');
        RON_IGNORE(ron_buf_append(out, asset.ptr, asset.len));
        put_byte(out, '"');
    }
    return ron_buf_error(out);
}

/* ---- texts ----------------------------------------------------------------------------------- */

/* For comments of hledger and ledger, which look for tags, dates and expressions in them. */
static void put_encoded(struct ron_str text, const char *plain, struct ron_buf *out)
{
    static const char digits[] = "0123456789ABCDEF";

    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = (uint8_t)text.ptr[i];

        if (c >= 0x80 || is_alnum((char)c) || strchr(plain, c) != NULL) {
            put_byte(out, (char)c);
        } else {
            put_byte(out, '%');
            put_byte(out, digits[c >> 4]);
            put_byte(out, digits[c & 15]);
        }
    }
}

static void put_quoted(struct ron_str text, struct ron_buf *out)
{
    put_byte(out, '"');
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] == '"' || text.ptr[i] == '\\') {
            put_byte(out, '\\');
        }
        put_byte(out, text.ptr[i]);
    }
    put_byte(out, '"');
}

/* Civil date of a day since 1970-01-01, by counting in eras of 400 years from 0000-03-01. */
static void put_date(struct ron_buf *out, uint64_t day)
{
    uint64_t days = day + 719468;
    uint64_t era = days / 146097;
    uint64_t of_era = days % 146097;
    uint64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    uint64_t of_year = of_era - (365 * year + year / 4 - year / 100);
    uint64_t month = (5 * of_year + 2) / 153; /* from March on */
    uint64_t of_month = of_year - (153 * month + 2) / 5 + 1;

    year += era * 400 + (month >= 10 ? 1 : 0);
    month = month < 10 ? month + 3 : month - 9;
    RON_IGNORE(ron_buf_append_fmt(out, "%04u-%02u-%02u", (unsigned)year, (unsigned)month,
                                  (unsigned)of_month)); /* sticks */
}

/* ---- where units come from and go to --------------------------------------------------------- */

struct place {
    enum { AVAILABLE, HELD, SUPPLY, CLEARING } what;
    struct ron_str account;
};

struct search {
    struct ron_str id;
    uint64_t seq; /* 0: not found */
};

static enum ron_rc search_frame(void *arg, const struct led_frame *frame, const char *where,
                                struct ron_err *err)
{
    struct search *s = arg;
    struct led_cursor records;
    struct led_cursor entries;
    struct led_record record;
    struct led_stored stored;
    struct led_refusal refusal;
    struct led_entry entry;
    bool bad = false;

    (void)where;
    led_records(frame, &records);
    while (led_records_next(&records, &record, &bad)) {
        led_entries(&record, &entries);
        while (led_entries_next(&entries, &stored, &bad)) {
            if (led_entry_decode((const uint8_t *)stored.leaf.ptr, stored.leaf.len,
                                 LED_ORIGIN_LEDGER, &entry, &refusal) &&
                ron_str_equal(entry.id, s->id)) {
                s->seq = stored.seq;
                return ron_err_set(err, RON_CANCELLED, "found");
            }
        }
    }
    return RON_OK;
}

/* The index runs behind the journal: what it does not know yet is searched entry by entry. */
static enum ron_rc find_original(struct led_export *ex, struct ron_str ref, struct led_found *ret,
                                 struct ron_err *err)
{
    struct led_index *index = ex->r->opts.index;
    uint64_t applied = index != NULL ? led_index_applied(index) : 0;
    struct search s = {.id = ref};
    struct ron_err scan_err = {0};
    enum ron_rc rc = led_read_find(ex->r, ref, (struct led_candidates){0}, &s.seq, &scan_err);

    if (rc == RON_NOTFOUND) {
        rc = led_log_scan(ex->r->opts.log, applied + 1, ex->last_seq, search_frame, &s, &scan_err);
        rc = s.seq != 0 ? RON_OK : led__read_checked(ex->r, rc, &scan_err);
    }
    if (rc != RON_OK) {
        *err = scan_err;
        return rc;
    }
    if (s.seq == 0) {
        return led__read_damage(ex->r, err, "the journal lacks the original of a Reverse");
    }
    return led_read_at(ex->r, s.seq, ret, err);
}

static void undo(const struct led_entry *e, const struct led_entry *original,
                 struct place *ret_from, struct place *ret_to)
{
    struct place own = {AVAILABLE, e->account};

    *ret_from = own;
    *ret_to = own;
    switch (original->kind) {
    case LED_KIND_MINT:
        ret_to->what = SUPPLY;
        break;
    case LED_KIND_BURN:
        ret_from->what = SUPPLY;
        break;
    case LED_KIND_CREDIT:
        ret_to->what = CLEARING;
        break;
    case LED_KIND_DEBIT:
        ret_from->what = CLEARING;
        break;
    default:
        ret_from->account = original->to;
        break;
    }
}

/* A Reverse needs its original; its texts are then those of the reader's frame. */
static enum ron_rc movement(struct led_export *ex, const struct led_entry *e,
                            struct led_found *original, struct place *ret_from,
                            struct place *ret_to, struct ron_err *err)
{
    *ret_from = (struct place){AVAILABLE, e->account};
    *ret_to = (struct place){AVAILABLE, e->account};
    switch ((enum led_kind)e->kind) {
    case LED_KIND_MINT:
        ret_from->what = SUPPLY;
        break;
    case LED_KIND_BURN:
        ret_to->what = SUPPLY;
        break;
    case LED_KIND_CREDIT:
        ret_from->what = CLEARING;
        break;
    case LED_KIND_DEBIT:
        ret_to->what = CLEARING;
        break;
    case LED_KIND_TRANSFER:
        ret_to->account = e->to;
        break;
    case LED_KIND_HOLD:
        ret_to->what = HELD;
        break;
    case LED_KIND_CAPTURE:
        ret_from->what = HELD;
        ret_to->account = e->to;
        break;
    case LED_KIND_RELEASE:
    case LED_KIND_EXPIRE:
        ret_from->what = HELD;
        break;
    case LED_KIND_REVERSE:
        RON_TRY(find_original(ex, e->ref, original, err));
        undo(e, &original->entry, ret_from, ret_to);
        break;
    }
    return RON_OK;
}

/* ---- transactions ---------------------------------------------------------------------------- */

static void put_posting(struct led_export *ex, const struct place *place, bool minus,
                        const struct led_entry *e)
{
    char amount[RON_MONEY_TEXT_SIZE];
    struct ron_buf *out = &ex->out;

    put(out, "    ");
    if (place->what == SUPPLY || place->what == CLEARING) {
        put(out, is_beancount(ex) ? "Equity:" : "equity:");
        put(out, place->what == SUPPLY ? (is_beancount(ex) ? "Supply" : "supply")
                                       : (is_beancount(ex) ? "Clearing" : "clearing"));
    } else {
        RON_IGNORE(led_export_account(ex->opts.format, place->account, place->what == HELD, out));
    }
    put(out, minus ? "  -" : "  ");
    RON_IGNORE(ron_buf_append(out, amount, ron_money_format(e->amount, amount)));
    put_byte(out, ' ');
    RON_IGNORE(led_export_commodity(ex->opts.format, e->asset, out));
    put_byte(out, '\n');
}

static void put_open(struct led_export *ex, struct ron_str account)
{
    for (int held = 0; held < 2; held++) {
        put_date(&ex->out, ex->day);
        put(&ex->out, " open ");
        RON_IGNORE(led_export_account(LED_EXPORT_BEANCOUNT, account, held == 1, &ex->out));
        put_byte(&ex->out, '\n');
    }
}

static void put_head(struct led_export *ex, uint64_t seq, const struct led_entry *e)
{
    struct ron_buf *out = &ex->out;

    put_date(out, ex->day);
    if (is_beancount(ex)) {
        put(out, " * \"");
        put(out, led_kind_name(e->kind));
        put(out, "\" ");
        put_quoted(e->id, out);
        put(out, "\n    seq: ");
        put_decimal(out, seq);
        if (currency_cut(e->asset)) { /* the one name that does not lead back by itself */
            put(out, "\n    asset: ");
            put_quoted(e->asset, out);
        }
        if (e->memo.len != 0) {
            put(out, "\n    memo: ");
            put_quoted(e->memo, out);
        }
    } else {
        put(out, " * (");
        put_decimal(out, seq);
        put(out, ") ");
        put(out, led_kind_name(e->kind));
        put(out, "\n    ; id: ");
        put_encoded(e->id, "._-/", out);
        if (e->memo.len != 0) {
            put(out, "\n    ; memo: ");
            put_encoded(e->memo, " ._-/", out);
        }
    }
    put_byte(out, '\n');
}

void led__export_text_begin(struct led_export *ex)
{
    if (!is_beancount(ex)) {
        put(&ex->out,
            "; ron-ledger: entries of the journal in its order, amounts in whole units\n");
        return;
    }
    put(&ex->out, "option \"title\" \"ron-ledger\"\n");
    if (ex->opts.from_seq > 1) {
        /* Accounts may have been opened before the range begins. */
        put(&ex->out, "plugin \"beancount.plugins.auto_accounts\"\n");
        return;
    }
    put(&ex->out, "1970-01-01 open Equity:Supply\n1970-01-01 open Equity:Clearing\n");
}

enum ron_rc led__export_text_entry(struct led_export *ex, uint64_t seq,
                                   const struct led_entry *entry, const struct led_links *links,
                                   struct ron_err *err)
{
    struct led_found original;
    struct place from;
    struct place to;

    RON_TRY(movement(ex, entry, &original, &from, &to, err));
    ex->day = RON_MAX(ex->day, RON_MIN(ex->record.now_ms / DAY_MS, LAST_DAY));
    if (is_beancount(ex)) {
        if (links->account.prev_seq == 0) {
            put_open(ex, entry->account);
        }
        if (links->has_to && links->to.prev_seq == 0) {
            put_open(ex, entry->to);
        }
    }
    put_byte(&ex->out, '\n');
    put_head(ex, seq, entry);
    put_posting(ex, &from, true, entry);
    put_posting(ex, &to, false, entry);
    return RON_OK;
}
