/* SPDX-License-Identifier: Apache-2.0 */
/* audit/report_json.c - the report as one JSON object. Money is a string, like everywhere. */
#include <string.h>

#include "audit/report_priv.h"
#include "ron/base/json.h"

enum { PIECE = 65536, PIECE_MAX = 4 * PIECE };

struct writer {
    FILE *out;
    struct ron_buf buf;
    struct ron_json_writer w;
};

/* What was written so far leaves memory: balances may be many. */
static void flush(struct writer *j, size_t above)
{
    if (ron_buf_len(&j->buf) >= above) {
        (void)fwrite(ron_buf_data(&j->buf), 1, ron_buf_len(&j->buf), j->out);
        if (ron_buf_error(&j->buf) == RON_OK) {
            ron_buf_clear(&j->buf);
        }
    }
}

static void begin(struct writer *j, FILE *out)
{
    j->out = out;
    ron_buf_init(&j->buf, PIECE_MAX);
    ron_json_begin(&j->w, &j->buf);
    ron_json_open(&j->w, NULL, '{');
}

static enum ron_rc end(struct writer *j)
{
    enum ron_rc rc;

    ron_json_close(&j->w, '}');
    RON_IGNORE(ron_buf_append_byte(&j->buf, '\n')); /* sticks */
    rc = ron_buf_error(&j->buf);
    flush(j, 0);
    ron_buf_done(&j->buf);
    return rc;
}

static void write_hash(struct writer *j, const char *name, const struct aud_hash *hash)
{
    char text[2 * AUD_HASH_BYTES + 1];

    aud_hex(hash->bytes, AUD_HASH_BYTES, text);
    ron_json_text(&j->w, name, text);
}

static void write_findings(struct writer *j, const struct aud_findings *all)
{
    ron_json_bool(&j->w, "good", all->total == 0);
    ron_json_u64(&j->w, "findings_total", all->total);
    ron_json_open(&j->w, "findings", '[');
    for (size_t i = 0; i < all->kept; i++) {
        const struct aud_finding *f = &all->items[i];

        ron_json_open(&j->w, NULL, '{');
        ron_json_text(&j->w, "rule", aud_rule_name(f->rule));
        ron_json_text(&j->w, "file", f->file);
        ron_json_u64(&j->w, "offset", f->offset);
        ron_json_u64(&j->w, "seq", f->seq);
        ron_json_text(&j->w, "expected", f->expected);
        ron_json_text(&j->w, "found", f->found);
        ron_json_close(&j->w, '}');
        flush(j, PIECE);
    }
    ron_json_close(&j->w, ']');
}

static void write_counts(struct writer *j, const struct aud_result *r)
{
    char uuid[AUD__UUID_TEXT];

    aud__uuid(r->uuid, uuid);
    ron_json_text(&j->w, "uuid", uuid);
    ron_json_u64(&j->w, "segments", r->segments);
    ron_json_u64(&j->w, "frames", r->frames);
    ron_json_u64(&j->w, "batches", r->records - r->cancels);
    ron_json_u64(&j->w, "cancels", r->cancels);
    ron_json_u64(&j->w, "entries", r->entries);
    ron_json_u64(&j->w, "last_seq", r->last_seq);
    ron_json_u64(&j->w, "accounts", r->book.accounts.live);
    ron_json_u64(&j->w, "open_holds", r->open_holds);
    ron_json_u64(&j->w, "first_ms", r->first_ms);
    ron_json_u64(&j->w, "last_ms", r->last_ms);
    ron_json_u64(&j->w, "first_epoch", r->first_epoch);
    ron_json_u64(&j->w, "last_epoch", r->last_epoch);
    ron_json_u64(&j->w, "bytes", r->bytes);
    ron_json_u64(&j->w, "torn_bytes", r->torn_bytes);
    ron_json_bool(&j->w, "damaged", r->damaged);
    if (r->root_known) {
        write_hash(j, "root", &r->root);
    } else {
        ron_json_null(&j->w, "root");
    }
    ron_json_u64(&j->w, "readings", r->readings);
    ron_json_u64(&j->w, "took_ns", r->took_ns);
    ron_json_u64(&j->w, "memory_bytes", r->memory_bytes);
}

static void write_signed(struct writer *j, bool checked, bool is_signed)
{
    ron_json_text(&j->w, "signature", !checked ? "unchecked" : is_signed ? "good" : "bad");
}

static void write_checkpoints(struct writer *j, const struct aud_result *r, bool key)
{
    ron_json_open(&j->w, "checkpoints", '[');
    for (size_t i = 0; i < r->checkpoint_count; i++) {
        const struct aud_shown_checkpoint *c = &r->checkpoints[i];

        ron_json_open(&j->w, NULL, '{');
        ron_json_text(&j->w, "file", c->path);
        ron_json_u64(&j->w, "size", c->size);
        write_hash(j, "root", &c->root);
        ron_json_bool(&j->w, "in_journal", c->met);
        write_signed(j, key, c->signed_);
        ron_json_close(&j->w, '}');
    }
    ron_json_close(&j->w, ']');
}

static void write_supplies(struct writer *j, const struct aud_book *b)
{
    ron_json_open(&j->w, "assets", '[');
    for (uint32_t i = 0; i < b->asset_count; i++) {
        const struct aud_asset *a = &b->assets[i];

        ron_json_open(&j->w, NULL, '{');
        ron_json_str(&j->w, "asset", (struct ron_str){a->name, a->name_len});
        ron_json_money(&j->w, "supply", (struct ron_money){a->supply});
        ron_json_money(&j->w, "sum", (struct ron_money){a->total});
        ron_json_money(&j->w, "held", (struct ron_money){a->held});
        ron_json_close(&j->w, '}');
        flush(j, PIECE);
    }
    ron_json_close(&j->w, ']');
}

static void write_balance(void *arg, struct ron_str account, struct ron_str asset,
                          const struct aud_line *line)
{
    struct writer *j = arg;

    ron_json_open(&j->w, NULL, '{');
    ron_json_str(&j->w, "account", account);
    ron_json_str(&j->w, "asset", asset);
    ron_json_money(&j->w, "available", (struct ron_money){line->available});
    ron_json_money(&j->w, "held", (struct ron_money){line->held});
    ron_json_close(&j->w, '}');
    flush(j, PIECE);
}

enum ron_rc aud__json_run(const struct aud_report *report, const struct aud_result *r)
{
    enum ron_rc rc = RON_OK;
    enum ron_rc end_rc;
    struct writer j;

    begin(&j, report->out);
    write_findings(&j, &r->findings);
    write_counts(&j, r);
    write_checkpoints(&j, r, report->key);
    write_supplies(&j, &r->book);
    if (report->balances) {
        ron_json_open(&j.w, "balances", '[');
        rc = aud_book_each(&r->book, write_balance, &j);
        ron_json_close(&j.w, ']');
    }
    end_rc = end(&j);
    return rc != RON_OK ? rc : end_rc;
}

enum ron_rc aud__json_offline(const struct aud_report *report, const struct aud_offline *o,
                              const struct aud_vkey *witnesses, size_t witness_count)
{
    struct writer j;

    begin(&j, report->out);
    write_findings(&j, &o->findings);
    ron_json_u64(&j.w, "seq", o->seq);
    ron_json_text(&j.w, "origin", o->origin);
    ron_json_u64(&j.w, "size", o->size);
    write_hash(&j, "root", &o->root);
    write_signed(&j, report->key, o->signed_);
    ron_json_open(&j.w, "witnesses", '[');
    for (size_t i = 0; i < witness_count; i++) {
        ron_json_open(&j.w, NULL, '{');
        ron_json_text(&j.w, "name", witnesses[i].name);
        ron_json_u64(&j.w, "time_s", o->cosigned_s[i]);
        ron_json_close(&j.w, '}');
    }
    ron_json_close(&j.w, ']');
    return end(&j);
}
