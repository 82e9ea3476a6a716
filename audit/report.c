/* SPDX-License-Identifier: Apache-2.0 */
/* audit/report.c - the report as text; report_json.c writes the other form. */
#include "audit/report.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "audit/report_priv.h"
#include "ron/base/money.h"

/* ---- small texts ----------------------------------------------------------------------------- */

void aud__uuid(const uint8_t uuid[AUD_UUID_SIZE], char ret[AUD__UUID_TEXT])
{
    char hex[2 * AUD_UUID_SIZE + 1];

    aud_hex(uuid, AUD_UUID_SIZE, hex);
    (void)snprintf(ret, AUD__UUID_TEXT, "%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8, hex + 12,
                   hex + 16, hex + 20);
}

/* RFC 3339, UTC, milliseconds. */
static void write_time(uint64_t ms, char ret[AUD__TIME_TEXT])
{
    time_t seconds = (time_t)(ms / 1000);
    struct tm tm;

    /* A journal may tell any time; years beyond four digits are no time of ours. */
    if (ms > UINT64_C(253402300799999) || gmtime_r(&seconds, &tm) == NULL) {
        (void)snprintf(ret, AUD__TIME_TEXT, "%" PRIu64 " ms", ms);
        return;
    }
    (void)snprintf(ret, AUD__TIME_TEXT, "%04d-%02d-%02dT%02d:%02d:%02d.%03uZ", tm.tm_year + 1900,
                   tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec,
                   (unsigned)(ms % 1000));
}

static const char *money(ron_u128 v, char ret[RON_MONEY_TEXT_SIZE])
{
    (void)ron_money_format((struct ron_money){v}, ret);
    return ret;
}

/* ---- findings -------------------------------------------------------------------------------- */

static void write_findings(FILE *out, const struct aud_findings *all)
{
    for (size_t i = 0; i < all->kept; i++) {
        const struct aud_finding *f = &all->items[i];

        fprintf(out, "FINDING %zu: rule %s (%s)\n", i + 1, aud_rule_name(f->rule),
                aud_rule_doc(f->rule));
        fprintf(out, "  at        %s offset %" PRIu64, f->file[0] != '\0' ? f->file : "-",
                f->offset);
        if (f->seq != 0) {
            fprintf(out, ", seq %" PRIu64, f->seq);
        }
        fprintf(out, "\n  expected  %s\n  found     %s\n", f->expected, f->found);
    }
    if (all->total > all->kept) {
        fprintf(out, "... and %" PRIu64 " more findings\n", all->total - all->kept);
    }
}

/* ---- a journal ------------------------------------------------------------------------------- */

static void write_counts(FILE *out, const struct aud_result *r)
{
    double seconds = (double)r->took_ns / 1e9;
    char uuid[AUD__UUID_TEXT];
    char first[AUD__TIME_TEXT];
    char last[AUD__TIME_TEXT];
    char root[2 * AUD_HASH_BYTES + 1];

    aud__uuid(r->uuid, uuid);
    write_time(r->first_ms, first);
    write_time(r->last_ms, last);
    aud_hex(r->root.bytes, AUD_HASH_BYTES, root);
    fprintf(out, "ledger       %s\n", uuid);
    fprintf(out, "journal      segments %" PRIu64 ", frames %" PRIu64 ", bytes %" PRIu64 "\n",
            r->segments, r->frames, r->bytes);
    fprintf(out, "entries      %" PRIu64 ", batches %" PRIu64 ", last seq %" PRIu64 "\n",
            r->entries, r->records - r->cancels, r->last_seq);
    fprintf(out, "cancelled    %" PRIu64 "\n", r->cancels);
    fprintf(out, "accounts     %" PRIu64 ", open holds %" PRIu64 "\n", r->book.accounts.live,
            r->open_holds);
    if (r->frames > 0) {
        fprintf(out, "time         %s to %s\n", first, last);
        fprintf(out, "epochs       %" PRIu64 " to %" PRIu64 "\n", r->first_epoch, r->last_epoch);
    }
    if (r->root_known) {
        fprintf(out, "root         %s\n", root);
    } else {
        fprintf(out, "root         unknown: the chain of the journal is broken\n");
    }
    if (r->torn_bytes > 0) {
        fprintf(out,
                "torn tail    %" PRIu64 " bytes: a write that never ended, no part of the "
                "journal\n",
                r->torn_bytes);
    }
    if (r->damaged) {
        fprintf(out, "unread       what lies behind the damage\n");
    }
    fprintf(out, "took         %.3f s, %.0f entries/s, readings %u, memory %.1f MiB\n", seconds,
            seconds > 0 ? (double)r->entries / seconds : 0.0, r->readings,
            (double)r->memory_bytes / 1048576.0);
}

static void write_checkpoints(const struct aud_report *report, const struct aud_result *r)
{
    if (r->checkpoint_count == 0) {
        fprintf(report->out, "checkpoints  none\n");
    }
    for (size_t i = 0; i < r->checkpoint_count; i++) {
        const struct aud_shown_checkpoint *c = &r->checkpoints[i];

        fprintf(report->out, "checkpoint   %s: size %" PRIu64 ", %s, %s\n", c->path, c->size,
                c->met ? "in the journal" : "NOT in the journal",
                !report->key ? "signature not checked (give --key)"
                : c->signed_ ? "signed"
                             : "NOT signed");
    }
}

static void write_supplies(FILE *out, const struct aud_book *b)
{
    char supply[RON_MONEY_TEXT_SIZE];
    char total[RON_MONEY_TEXT_SIZE];
    char held[RON_MONEY_TEXT_SIZE];

    fprintf(out, "\n%-16s %24s %24s %24s\n", "asset", "supply", "sum of balances", "of that held");
    for (uint32_t i = 0; i < b->asset_count; i++) {
        const struct aud_asset *a = &b->assets[i];

        fprintf(out, "%-16.*s %24s %24s %24s\n", a->name_len, a->name, money(a->supply, supply),
                money(a->total, total), money(a->held, held));
    }
}

static void write_balance(void *arg, struct ron_str account, struct ron_str asset,
                          const struct aud_line *line)
{
    FILE *out = arg;
    char available[RON_MONEY_TEXT_SIZE];
    char held[RON_MONEY_TEXT_SIZE];

    fprintf(out, "%.*s %.*s %s %s\n", (int)account.len, account.ptr, (int)asset.len, asset.ptr,
            money(line->available, available), money(line->held, held));
}

enum ron_rc aud_report_run(const struct aud_report *report, const struct aud_result *r)
{
    FILE *out = report->out;

    if (report->json) {
        return aud__json_run(report, r);
    }
    write_findings(out, &r->findings);
    if (!report->quiet) {
        write_counts(out, r);
        write_checkpoints(report, r);
        write_supplies(out, &r->book);
    }
    if (report->balances) {
        if (!report->quiet) {
            fprintf(out, "\naccount asset available held\n");
        }
        RON_TRY(aud_book_each(&r->book, write_balance, out));
    }
    if (!report->quiet) {
        if (r->findings.total == 0) {
            fprintf(out, "\nGOOD: every rule holds\n");
        } else {
            fprintf(out, "\nBAD: %" PRIu64 " findings\n", r->findings.total);
        }
    }
    return RON_OK;
}

/* ---- a receipt ------------------------------------------------------------------------------- */

static void write_text(FILE *out, const char *name, struct ron_str s)
{
    if (s.len > 0) {
        fprintf(out, "  %-15s %.*s\n", name, (int)s.len, s.ptr);
    }
}

static void write_entry(FILE *out, const struct aud_entry *e)
{
    char amount[RON_MONEY_TEXT_SIZE];
    char ts[AUD__TIME_TEXT];

    write_time(e->ts_ms, ts);
    write_text(out, "id", e->id);
    fprintf(out, "  %-15s %s\n", "kind", aud_kind_name(e->kind));
    fprintf(out, "  %-15s %s\n", "ts", ts);
    write_text(out, "account", e->account);
    write_text(out, "to", e->to);
    fprintf(out, "  %-15s %s %.*s\n", "amount", money(e->amount, amount), (int)e->asset.len,
            e->asset.ptr);
    write_text(out, "ref", e->ref);
    write_text(out, "memo", e->memo);
}

/* What the receipt says, and who vouches for it. */
static void write_receipt(const struct aud_report *report, const struct aud_offline *o,
                          const struct aud_vkey *witnesses, size_t witness_count)
{
    FILE *out = report->out;
    char root[2 * AUD_HASH_BYTES + 1];

    aud_hex(o->root.bytes, AUD_HASH_BYTES, root);
    fprintf(out, "entry        seq %" PRIu64 "\n", o->seq);
    if (o->has_entry) {
        write_entry(out, &o->entry);
    }
    fprintf(out, "checkpoint   %s, size %" PRIu64 "\nroot         %s\n", o->origin, o->size, root);
    fprintf(out, "signature    %s\n",
            !report->key ? "not checked (give --key)"
            : o->signed_ ? "good"
                         : "NOT good");
    for (size_t i = 0; i < witness_count; i++) {
        char when[AUD__TIME_TEXT];

        write_time(o->cosigned_s[i] * 1000, when);
        fprintf(out, "witness      %s: %s\n", witnesses[i].name,
                o->cosigned_s[i] != 0 ? when : "NOT signed");
    }
}

static void write_offline(const struct aud_report *report, const struct aud_offline *o,
                          const struct aud_vkey *witnesses, size_t witness_count)
{
    if (o->seq != 0) { /* else the file is no receipt */
        write_receipt(report, o, witnesses, witness_count);
    }
    fprintf(report->out, "\n%s\n",
            o->findings.total > 0 ? "BAD: the receipt proves nothing"
            : report->key         ? "GOOD: the entry is in the ledger"
                                  : "UNSIGNED: the proof is right, but nobody's word was checked");
}

enum ron_rc aud_report_offline(const struct aud_report *report, const struct aud_offline *o,
                               const struct aud_vkey *witnesses, size_t witness_count)
{
    if (report->json) {
        return aud__json_offline(report, o, witnesses, witness_count);
    }
    write_findings(report->out, &o->findings);
    if (!report->quiet) {
        write_offline(report, o, witnesses, witness_count);
    }
    return RON_OK;
}
