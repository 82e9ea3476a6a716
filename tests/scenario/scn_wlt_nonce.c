/* SPDX-License-Identifier: Apache-2.0 */
/* scn_wlt_nonce.c - the wallet's nonces: rivals for one nonce, for one account's first slot, for
 * the last slot of a set, and news that come while others reserve, settle and forget.
 *
 * Expected in every schedule: at most one reservation of an account at a time, nobody is told the
 * number of another account, what is committed is committed once, and a settlement never touches
 * what came after it. The ledger is a plain number: two reservations at once are a report of
 * ThreadSanitizer. */
#include "ron/base/assert.h"
#include "ron/sync/sync.h"
#include "scenario/scn.h"
#include "wallet/table/nonce.h"

enum { SET = 8, ACCOUNTS = 2 };

/* Per account. */
struct book {
    uint64_t last;        /* plain: changed under a reservation only */
    uint32_t inside;      /* plain: reservations held */
    struct ron_au64 told; /* `last` for those who ask */
};

struct shared {
    struct wlt_nonces *n;
    struct book books[ACCOUNTS];
    uint32_t rounds;
    bool fresh; /* nothing was learned before */
    enum wlt_settle how;
    struct ron_stat won, pending, wrong, asked, untracked;
};

struct party {
    struct shared *s;
    uint64_t account;
};

static struct wlt_key key(uint64_t account)
{
    return (struct wlt_key){account, account};
}

/* Numbers of the accounts are far apart, so that a mixture shows. */
static uint64_t base(uint64_t account)
{
    return 1000000 * account;
}

static void hold(struct party *p, struct wlt_nonce_ticket t, uint64_t nonce)
{
    struct book *b = &p->s->books[p->account];
    enum wlt_settle how = p->s->how;
    struct wlt_nonce_ticket another;
    uint64_t expected;

    SCN_CHECK(wlt_nonce_reserve(p->s->n, key(p->account), nonce, &another, &expected) ==
              WLT_NONCE_PENDING); /* still there */
    SCN_CHECK(b->inside == 0);
    b->inside = 1;
    if (b->last + 1 == nonce) {
        b->last = nonce;
    } else {
        how = WLT_REFUSED; /* it had learned old news */
    }
    ron_au64_store(&b->told, b->last);
    b->inside = 0;
    ron_stat_add(&p->s->won, how != WLT_REFUSED);
    wlt_nonce_settle(p->s->n, t, how);
    if (how == WLT_REFUSED) {
        wlt_nonce_forget(p->s->n, key(p->account));
    }
}

static void reserve_once(struct party *p)
{
    struct shared *s = p->s;
    struct book *b = &s->books[p->account];
    uint64_t nonce = ron_au64_load(&b->told) + 1;
    struct wlt_nonce_ticket t;
    uint64_t expected = 0;

    switch (wlt_nonce_reserve(s->n, key(p->account), nonce, &t, &expected)) {
    case WLT_NONCE_RESERVED:
        hold(p, t, nonce);
        break;
    case WLT_NONCE_UNTRACKED:
        SCN_CHECK(t.slot == NULL);
        ron_stat_add(&s->untracked, 1);
        break;
    case WLT_NONCE_ASK:
        ron_stat_add(&s->asked, 1);
        wlt_nonce_learn(s->n, key(p->account), ron_au64_load(&b->told));
        break;
    case WLT_NONCE_PENDING:
        ron_stat_add(&s->pending, 1);
        break;
    case WLT_NONCE_WRONG:
        SCN_CHECK(expected / 1000000 == p->account);
        SCN_CHECK(expected != nonce);
        ron_stat_add(&s->wrong, 1);
        if (expected < nonce) { /* it was old news: as a job does */
            wlt_nonce_forget(s->n, key(p->account));
        }
        break;
    }
}

static void rival(void *arg)
{
    struct party *p = arg;

    for (uint32_t i = 0; i < p->s->rounds; i++) {
        reserve_once(p);
    }
}

/* Learns, again and again, what it was told. */
static void reporter(void *arg)
{
    struct party *p = arg;

    for (uint32_t i = 0; i < p->s->rounds; i++) {
        uint64_t last = ron_au64_load(&p->s->books[p->account].told);

        wlt_nonce_learn(p->s->n, key(p->account), last);
    }
}

static void forgetter(void *arg)
{
    struct party *p = arg;

    for (uint32_t i = 0; i < p->s->rounds; i++) {
        wlt_nonce_forget(p->s->n, key(p->account));
    }
}

/* `taken` slots of the only set are reserved for good. */
static void open_table(struct shared *s, uint64_t taken)
{
    enum ron_rc rc = wlt_nonces_new(1, SET, &s->n, NULL);

    RON_ASSERT(rc == RON_OK);
    for (uint64_t i = 0; i < taken; i++) {
        struct wlt_nonce_ticket t;
        uint64_t expected;

        wlt_nonce_learn(s->n, key(100 + i), 0);
        RON_ASSERT(wlt_nonce_reserve(s->n, key(100 + i), 1, &t, &expected) == WLT_NONCE_RESERVED);
    }
    for (uint64_t i = 0; i < ACCOUNTS; i++) {
        s->books[i].last = base(i);
        ron_au64_store(&s->books[i].told, base(i));
        if (!s->fresh) {
            wlt_nonce_learn(s->n, key(i), base(i));
        }
    }
}

static void close_table(struct shared *s)
{
    uint64_t committed = 0;

    for (uint64_t i = 0; i < ACCOUNTS; i++) {
        SCN_CHECK(s->books[i].inside == 0);
        committed += s->books[i].last - base(i);
    }
    SCN_CHECK(committed == ron_stat_get(&s->won));
    scn_count(committed);
    wlt_nonces_free(s->n);
}

/* Three want the next nonce of an account that is known. */
static void nonce_rivals(void)
{
    struct shared s = {.rounds = scn_scale(1, 200000)};
    struct party p = {&s, 0};

    scn_calm(true);
    open_table(&s, 0);
    scn_calm(false);
    for (int i = 0; i < 3; i++) {
        scn_spawn("rival", rival, &p);
    }
    scn_join_all();
    scn_saw_if(ron_stat_get(&s.won) == 1 && ron_stat_get(&s.pending) == 2, 0);
    scn_saw_if(ron_stat_get(&s.won) == 3, 1);
    scn_saw_if(ron_stat_get(&s.wrong) > 0, 2);
    close_table(&s);
}

/* Two meet an account that is not known: both ask, both learn, and it must get one slot. */
static void nonce_first_slot(void)
{
    struct shared s = {.rounds = scn_scale(2, 200000), .fresh = true, .how = WLT_UNKNOWN};
    struct party p = {&s, 0};

    scn_calm(true);
    open_table(&s, 0);
    scn_calm(false);
    scn_spawn("rival", rival, &p);
    scn_spawn("rival", rival, &p);
    scn_join_all();
    scn_saw_if(ron_stat_get(&s.asked) == 2, 0);
    scn_saw_if(ron_stat_get(&s.won) == 2, 1);
    scn_saw_if(ron_stat_get(&s.pending) > 0, 2);
    close_table(&s);
}

/* Two accounts, one slot for both. */
static void nonce_one_slot(void)
{
    struct shared s = {.rounds = scn_scale(2, 200000), .fresh = true};
    struct party one = {&s, 0};
    struct party two = {&s, 1};

    scn_calm(true);
    open_table(&s, SET - 1);
    scn_calm(false);
    scn_spawn("rival-0", rival, &one);
    scn_spawn("rival-1", rival, &two);
    scn_join_all();
    scn_saw_if(ron_stat_get(&s.won) == 2, 0);
    scn_saw_if(ron_stat_get(&s.untracked) > 0, 1);
    scn_saw_if(ron_stat_get(&s.asked) == 3, 2);
    close_table(&s);
}

/* One account has the last slot and uses it; another one is learned and takes it over while both
 * are looked for. */
static void nonce_pushed_out(void)
{
    struct shared s = {.rounds = scn_scale(1, 200000), .fresh = true};
    struct party one = {&s, 0};
    struct party two = {&s, 1};

    scn_calm(true);
    open_table(&s, SET - 1);
    wlt_nonce_learn(s.n, key(0), base(0));
    scn_calm(false);
    scn_spawn("rival-0", rival, &one);
    scn_spawn("rival-1", rival, &two);
    scn_spawn("reporter-1", reporter, &two);
    scn_join_all();
    scn_saw_if(ron_stat_get(&s.won) == 2, 0);
    scn_saw_if(ron_stat_get(&s.won) == 1 && ron_stat_get(&s.asked) == 1, 1);
    scn_saw_if(ron_stat_get(&s.untracked) > 0, 2);
    scn_saw_if(ron_stat_get(&s.asked) == 2, 3);
    close_table(&s);
}

/* Gives the slot of account 0 to account 1, with the same number in it. */
static void usurper(void *arg)
{
    struct party *p = arg;

    for (uint32_t i = 0; i < p->s->rounds; i++) {
        wlt_nonce_forget(p->s->n, key(0));
        wlt_nonce_learn(p->s->n, key(1), ron_au64_load(&p->s->books[0].told));
    }
}

/* A slot that looks the same as before belongs to another one. */
static void nonce_same_number(void)
{
    struct shared s = {.rounds = scn_scale(1, 200000), .fresh = true};
    struct party p = {&s, 0};

    scn_calm(true);
    open_table(&s, 0);
    wlt_nonce_learn(s.n, key(0), base(0));
    scn_calm(false);
    scn_spawn("rival", rival, &p);
    scn_spawn("usurper", usurper, &p);
    scn_join_all();
    scn_saw_if(ron_stat_get(&s.won) == 1, 0);
    scn_saw_if(ron_stat_get(&s.asked) == 1, 1);
    close_table(&s);
}

/* Reserved, settled and forgotten while news come, which are old when they arrive late. */
static void nonce_news(void)
{
    struct shared s = {.rounds = scn_scale(1, 200000), .how = WLT_UNKNOWN};
    struct party p = {&s, 0};

    scn_calm(true);
    open_table(&s, 0);
    scn_calm(false);
    scn_spawn("rival", rival, &p);
    scn_spawn("rival", rival, &p);
    scn_spawn("reporter", reporter, &p);
    scn_join_all();
    scn_saw_if(ron_stat_get(&s.won) == 2, 0);
    scn_saw_if(ron_stat_get(&s.won) == 1 && ron_stat_get(&s.asked) == 1, 1);
    close_table(&s);
}

static void nonce_forgotten(void)
{
    struct shared s = {.rounds = scn_scale(1, 200000)};
    struct party p = {&s, 0};

    scn_calm(true);
    open_table(&s, 0);
    scn_calm(false);
    scn_spawn("rival", rival, &p);
    scn_spawn("rival", rival, &p);
    scn_spawn("forgetter", forgetter, &p);
    scn_join_all();
    scn_saw_if(ron_stat_get(&s.won) == 2, 0);
    scn_saw_if(ron_stat_get(&s.asked) == 2, 1);
    close_table(&s);
}

const struct scn scn_list[] = {
    {.name = "nonce_rivals",
     .body = nonce_rivals,
     .must_see = {"one wins while the others wait", "one after the other", "a rival came late"}},
    {.name = "nonce_first_slot",
     .body = nonce_first_slot,
     .must_see = {"both ask", "both win, one after the other", "one waits for the other"}},
    {.name = "nonce_one_slot",
     .body = nonce_one_slot,
     .must_see = {"both win", "one finds no slot", "one pushes the other out"}},
    {.name = "nonce_pushed_out",
     .body = nonce_pushed_out,
     .must_see = {"both win", "one wins, one asks", "one finds no slot", "both ask"}},
    {.name = "nonce_same_number",
     .body = nonce_same_number,
     .must_see = {"reserved", "given away before"}},
    {.name = "nonce_news",
     .body = nonce_news,
     .must_see = {"both win, the news in between", "one asks"}},
    {.name = "nonce_forgotten", .body = nonce_forgotten, .must_see = {"both win", "both ask"}},
    {0},
};
