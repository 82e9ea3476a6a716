/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: each rule of the journal, broken once in an otherwise right journal, is found by its name
 * and at its entry.
 * Method: the scripted journal, changed in one place before it is written: roots and checksums are
 * right, unless they are the lie. */
#include "script.h"

/* The journal, as it was changed, breaks that rule, first of all at that seq. */
static void broken(struct journal *j, enum aud_rule rule, uint64_t seq)
{
    struct aud_result *r;
    const struct aud_finding *f;

    journal_write(j);
    r = journal_judge(j);
    f = &r->findings.items[0];
    if (r->findings.total == 0 || f->rule != rule || f->seq != seq) {
        journal_print(&r->findings);
        fail_msg("expected %s at seq %" PRIu64 ", found %s at %" PRIu64, aud_rule_name(rule), seq,
                 r->findings.total > 0 ? aud_rule_name(f->rule) : "nothing", f->seq);
    }
    assert_true(f->expected[0] != '\0' && f->found[0] != '\0' && f->file[0] != '\0');
    journal_judged(r);
}

/* ---- broken rules ---------------------------------------------------------------------------- */

static void test_rules__balance_in_links_wrong__found(void **state)
{
    struct journal *j = *state;

    links(j, TRANSFER)->to.available.v++;
    broken(j, AUD_RULE_LINK_BALANCE, TRANSFER);
}

static void test_rules__held_in_links_wrong__found(void **state)
{
    struct journal *j = *state;

    links(j, CAPTURE)->account.held.v--;
    broken(j, AUD_RULE_LINK_BALANCE, CAPTURE);
}

static void test_rules__previous_seq_in_links_wrong__found(void **state)
{
    struct journal *j = *state;

    links(j, CAPTURE)->account.prev_seq = 1;
    broken(j, AUD_RULE_LINK_SEQ, CAPTURE);
}

static void test_rules__links_without_the_other_side__found(void **state)
{
    struct journal *j = *state;

    links(j, REVERSE)->has_to = false;
    broken(j, AUD_RULE_LINK_SEQ, REVERSE);
}

static void test_rules__seq_gap__found(void **state)
{
    struct journal *j = *state;

    j->lie = LIE_SEQ;
    j->lie_frame = 3;
    broken(j, AUD_RULE_SEQ, 5);
}

static void test_rules__wrong_root__found(void **state)
{
    struct journal *j = *state;

    j->lie = LIE_ROOT;
    j->lie_frame = 5;
    broken(j, AUD_RULE_ROOT, PAID);
}

static void test_rules__wrong_previous_root__found(void **state)
{
    struct journal *j = *state;

    j->lie = LIE_PREV_ROOT;
    j->lie_frame = 5;
    broken(j, AUD_RULE_PREV_ROOT, PAID);
}

static void test_rules__frame_of_another_ledger__found(void **state)
{
    struct journal *j = *state;

    j->lie = LIE_UUID;
    j->lie_frame = 1;
    broken(j, AUD_RULE_UUID, TRANSFER);
}

static void test_rules__epoch_falls__found(void **state)
{
    struct journal *j = *state;

    j->lie = LIE_EPOCH;
    j->lie_frame = 2;
    broken(j, AUD_RULE_EPOCH, HOLD);
}

static void test_rules__frame_tells_other_counts__found(void **state)
{
    struct journal *j = *state;

    j->lie = LIE_ENTRIES;
    j->lie_frame = 4;
    broken(j, AUD_RULE_RECORD, CREDIT);
    j->lie = LIE_RECORDS;
    broken(j, AUD_RULE_RECORD, DEBIT - 1);
}

static void test_rules__entry_not_canonical__found(void **state)
{
    struct journal *j = *state;

    j->lie = LIE_LEAF;
    j->lie_frame = 2;
    broken(j, AUD_RULE_ENTRY, HOLD);
}

static void test_rules__idem_id_not_printable__found(void **state)
{
    struct journal *j = *state;

    j->lie = LIE_IDEM;
    j->lie_frame = 1;
    broken(j, AUD_RULE_RECORD, MINT);
}

static void test_rules__segment_head_does_not_fit__found(void **state)
{
    struct journal *j = *state;

    j->lie = LIE_SEGMENT_ROOT;
    broken(j, AUD_RULE_PREV_ROOT, 0);
    j->lie = LIE_SEGMENT_SEQ; /* and its name */
    broken(j, AUD_RULE_SEGMENT, 0);
}

static void test_rules__id_twice__found(void **state)
{
    struct journal *j = *state;

    entry(j, SECOND)->id = str("t2");
    broken(j, AUD_RULE_ID, SECOND);
}

static void test_rules__idem_id_twice__found(void **state)
{
    struct journal *j = *state;

    record_of(j, BURN)->r.idem_id = str("idem-2");
    broken(j, AUD_RULE_IDEM_ID, BURN);
}

static void test_rules__cancelled_idem_id_commits__found(void **state)
{
    struct journal *j = *state;

    record_of(j, SECOND)->r.idem_id = str("idem-3");
    broken(j, AUD_RULE_IDEM_ID, SECOND);
}

static void test_rules__nonce_repeated__found(void **state)
{
    struct journal *j = *state;

    memcpy(entry(j, SECOND)->nonce, entry(j, TRANSFER)->nonce, LED_NONCE_SIZE);
    broken(j, AUD_RULE_NONCE, SECOND);
}

static void test_rules__nonce_of_another_account_or_beyond_the_horizon__is_good(void **state)
{
    struct journal *j = *state;
    struct led_entry *e;

    memcpy(entry(j, BURN)->nonce, entry(j, TRANSFER)->nonce, LED_NONCE_SIZE);
    journal_write(j);
    good(j);
    j->now_ms += 86400000 + 86400000 / 3; /* the ledger remembers a quarter longer */
    journal_expire(j);
    e = journal_add(j, LED_KIND_MINT, "late", "a", 1);
    memcpy(e->nonce, entry(j, TRANSFER)->nonce, LED_NONCE_SIZE);
    assert_true(journal_end(j, 0, ""));
    journal_write(j);
    good(j);
}

static void test_rules__account_nonce_skips__found(void **state)
{
    struct journal *j = *state;

    entry(j, SECOND)->account_nonce = 3;
    broken(j, AUD_RULE_ACCOUNT_NONCE, SECOND);
    entry(j, SECOND)->account_nonce = 1;
    broken(j, AUD_RULE_ACCOUNT_NONCE, SECOND);
}

static void test_rules__overdraft__found(void **state)
{
    struct journal *j = *state;

    entry(j, TRANSFER)->amount = ron_money_of(1001);
    broken(j, AUD_RULE_FUNDS, TRANSFER);
}

static void test_rules__overflow__found(void **state)
{
    struct journal *j = *state;
    struct led_entry *e = journal_add(j, LED_KIND_MINT, "m15", "a", 1);

    assert_true(journal_end(j, 0, ""));
    e->amount.v = RON_U128_MAX;
    broken(j, AUD_RULE_OVERFLOW, 15);
}

static void test_rules__made_from_nothing_in_a_credit__found(void **state)
{
    struct journal *j = *state;
    struct aud_result *r;

    entry(j, CREDIT)->amount = ron_money_of(11);
    links(j, CREDIT)->account.available.v++;
    for (size_t seq = PAID; seq <= REVERSE; seq++) {
        links(j, seq)->account.available.v++;
    }
    links(j, SHORT_HOLD)->account.available.v++;
    links(j, EXPIRE)->account.available.v++;
    broken(j, AUD_RULE_SUMS, DEBIT);
    r = journal_judge(j);
    assert_true(journal_found(&r->findings, AUD_RULE_SUPPLY));
    assert_false(journal_found(&r->findings, AUD_RULE_LINK_BALANCE));
    journal_judged(r);
}

static void test_rules__credit_alone_in_its_batch__found(void **state)
{
    struct journal *j = *state;

    entry(j, MINT)->kind = LED_KIND_CREDIT;
    broken(j, AUD_RULE_SUMS, MINT);
}

static void test_rules__capture_beyond_the_hold__found(void **state)
{
    struct journal *j = *state;

    entry(j, CAPTURE)->amount = ron_money_of(51);
    broken(j, AUD_RULE_HOLD, CAPTURE);
}

static void test_rules__hold_that_is_none__found(void **state)
{
    struct journal *j = *state;

    entry(j, CAPTURE)->ref = str("m1");
    broken(j, AUD_RULE_HOLD, CAPTURE);
    entry(j, CAPTURE)->ref = str("h1");
    entry(j, CAPTURE)->account = str("c");
    broken(j, AUD_RULE_HOLD, CAPTURE);
}

static void test_rules__expired_hold_captured__found(void **state)
{
    struct journal *j = *state;

    entry(j, HOLD)->expires_ms = entry(j, HOLD)->ts_ms + 1000;
    record_of(j, CAPTURE)->r.now_ms += 1000;
    broken(j, AUD_RULE_HOLD_TIME, CAPTURE);
}

static void test_rules__expired_before_its_time__found(void **state)
{
    struct journal *j = *state;

    entry(j, SHORT_HOLD)->expires_ms += 10001;
    broken(j, AUD_RULE_HOLD_TIME, EXPIRE);
}

static void test_rules__hold_without_end_expires__found(void **state)
{
    struct journal *j = *state;

    entry(j, SHORT_HOLD)->expires_ms = 0;
    broken(j, AUD_RULE_HOLD_TIME, EXPIRE);
}

static void test_rules__expire_of_a_part__found(void **state)
{
    struct journal *j = *state;

    entry(j, EXPIRE)->amount = ron_money_of(4);
    broken(j, AUD_RULE_HOLD, EXPIRE);
}

static void test_rules__expire_from_a_caller__found(void **state)
{
    struct journal *j = *state;

    record_of(j, EXPIRE)->r.flags = 0;
    broken(j, AUD_RULE_OWN, EXPIRE);
}

static void test_rules__expire_with_other_names__found(void **state)
{
    struct journal *j = *state;

    entry(j, EXPIRE)->id = str("expire:7");
    broken(j, AUD_RULE_OWN, EXPIRE);
}

static void test_rules__caller_uses_the_ledgers_names__found(void **state)
{
    struct journal *j = *state;

    entry(j, BURN)->id = str("expire:99");
    broken(j, AUD_RULE_OWN, BURN);
    entry(j, BURN)->id = str("b12");
    memcpy(entry(j, BURN)->nonce, "expire:", 8);
    broken(j, AUD_RULE_OWN, BURN);
}

static void test_rules__reversed_twice__found(void **state)
{
    struct journal *j = *state;

    one(j, LED_KIND_REVERSE, "r15", "b", "", "t7", 20);
    entry(j, 15)->amount = ron_money_of(21);
    broken(j, AUD_RULE_REVERSE, 15);
}

static void test_rules__reversal_of_nothing__found(void **state)
{
    struct journal *j = *state;

    entry(j, REVERSE)->ref = str("t99");
    broken(j, AUD_RULE_REVERSE, REVERSE);
    entry(j, REVERSE)->ref = str("t13"); /* a later one */
    broken(j, AUD_RULE_REVERSE, REVERSE);
    entry(j, REVERSE)->ref = str("h1"); /* no Hold can be undone */
    entry(j, REVERSE)->account = str("a");
    broken(j, AUD_RULE_REVERSE, REVERSE);
}

static void test_rules__ts_outside_the_horizon__found(void **state)
{
    struct journal *j = *state;

    entry(j, BURN)->ts_ms = record_of(j, BURN)->r.now_ms + 5001;
    broken(j, AUD_RULE_TIME, BURN);
    entry(j, BURN)->ts_ms = record_of(j, BURN)->r.now_ms - 86400001;
    broken(j, AUD_RULE_TIME, BURN);
    record_of(j, BURN)->r.flags = LED_RECORD_IMPORT; /* then it may be old */
    journal_write(j);
    good(j);
}

static void test_rules__holds_and_held_disagree__found(void **state)
{
    struct journal *j = *state;
    struct aud_result *r;

    /* The last word on the account of an open hold tells less than the hold. */
    links(j, SECOND)->account.held.v -= 5;
    links(j, SECOND)->account.available.v += 5;
    journal_write(j);
    r = journal_judge(j);
    assert_true(journal_found(&r->findings, AUD_RULE_LINK_BALANCE));
    assert_true(journal_found(&r->findings, AUD_RULE_HELD));
    journal_judged(r);
}

#define CASE(name_) cmocka_unit_test_setup_teardown(test_rules__##name_, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(balance_in_links_wrong__found),
        CASE(held_in_links_wrong__found),
        CASE(previous_seq_in_links_wrong__found),
        CASE(links_without_the_other_side__found),
        CASE(seq_gap__found),
        CASE(wrong_root__found),
        CASE(wrong_previous_root__found),
        CASE(frame_of_another_ledger__found),
        CASE(epoch_falls__found),
        CASE(frame_tells_other_counts__found),
        CASE(entry_not_canonical__found),
        CASE(idem_id_not_printable__found),
        CASE(segment_head_does_not_fit__found),
        CASE(id_twice__found),
        CASE(idem_id_twice__found),
        CASE(cancelled_idem_id_commits__found),
        CASE(nonce_repeated__found),
        CASE(nonce_of_another_account_or_beyond_the_horizon__is_good),
        CASE(account_nonce_skips__found),
        CASE(overdraft__found),
        CASE(overflow__found),
        CASE(made_from_nothing_in_a_credit__found),
        CASE(credit_alone_in_its_batch__found),
        CASE(capture_beyond_the_hold__found),
        CASE(hold_that_is_none__found),
        CASE(expired_hold_captured__found),
        CASE(expired_before_its_time__found),
        CASE(hold_without_end_expires__found),
        CASE(expire_of_a_part__found),
        CASE(expire_from_a_caller__found),
        CASE(expire_with_other_names__found),
        CASE(caller_uses_the_ledgers_names__found),
        CASE(reversed_twice__found),
        CASE(reversal_of_nothing__found),
        CASE(ts_outside_the_horizon__found),
        CASE(holds_and_held_disagree__found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
