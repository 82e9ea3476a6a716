/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/stage/seq.c - the sequencer as a task: windows, durable news, and questions about the
 * book.
 *
 * Place: service; a loop task, the only one that touches led_seq and the book.
 *
 * A round: take over what the committer made durable, decide on a window of works, answer asks,
 * take a step of an image. The committer's queue is asked for room before anything gets a seq; a
 * work without room is refused at once (CommitBackpressure), so nothing waits unseen.
 *
 * News from the committer come as two numbers (durable_works, abort_wanted) and a wake-up, not as
 * messages: many commits between two rounds cost one look. The committer stores them before it
 * answers, so who was answered and asks for a balance sees his own write. */
#include "ledger/core/metrics.h"
#include "ledger/core/trace.h"
#include "ledger/stage/stage.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"

enum {
    ASKS_PER_ROUND = 128,
    HOLDS_MAX = 1000, /* told of one account */
    IMAGE_STEPS = 4,  /* of an image in one round: well under a millisecond */
};

/* ---- works ----------------------------------------------------------------------------------- */

static void refuse(struct led_work *w, enum led_reason reason, const char *detail)
{
    led_work_refuse(w, reason, "", detail);
    led_work_done(w);
}

/* What became of the works; those that go to the readers may come again and are counted then. */
static void count_window(struct led_seq_stage *st, struct led_work *const *works, size_t count)
{
    uint64_t entries = 0;
    size_t decided = 0;

    for (size_t i = 0; i < count; i++) {
        if (works[i]->fate != LED_FATE_LOOK_UP) {
            entries += works[i]->batch.count;
            decided++;
        }
    }
    if (decided > 0) {
        led_metrics_window(st->core->metrics, entries);
    }
}

/* `next_seq`: of the first of these works that goes to the committer. */
static uint32_t dispatch(struct led_seq_stage *st, struct led_work **works, size_t count,
                         uint64_t next_seq, uint64_t from_ns)
{
    uint32_t committed = 0;

    for (size_t i = 0; i < count; i++) {
        struct led_work *w = works[i];

        led_trace_stage(st->core->tracer, w, "sequencer", "preval", from_ns);
        switch ((enum led_fate)w->fate) {
        case LED_FATE_COMMIT:
            RON_ASSERT_MSG(w->seq_first == next_seq, "Q1: seqs without a gap");
            RON_ASSERT_MSG(w->result == LED_RESULT_NONE, "a work is decided once");
            next_seq = w->seq_last + 1; /* a tombstone has none: it ends before it begins */
            w->sequenced_ns = from_ns;
            w->reign = st->reign;
            ron_chan_send_reserved(st->pipes->commit, w);
            committed++;
            break;
        case LED_FATE_DONE:
            led_work_done(w);
            break;
        case LED_FATE_LOOK_UP:
            led_pipes_look_up(st->pipes, w);
            break;
        case LED_FATE_KEPT:
        case LED_FATE_NONE:
            RON_ASSERT(false);
        }
    }
    return committed;
}

/* Drops works that were prepared for an engine that is no more; how many are left. */
static size_t of_engine(struct led_seq_stage *st, struct led_work **works, size_t count)
{
    size_t left = 0;

    for (size_t i = 0; i < count; i++) {
        if (led_engine_has(st->engine, works[i])) {
            works[left++] = works[i];
        } else {
            refuse(works[i], LED_REASON_SAFE_MODE, "the journal was opened anew");
        }
    }
    return left;
}

/* Decides on these works. Those that find no room at the committer are refused here: they have no
 * seq yet, so nothing was promised. */
static void window(struct led_seq_stage *st, void **items, size_t count)
{
    struct led_work *out[2 * LED_WINDOW_MAX];
    struct led_work **works = led_works_of(items, count);
    uint64_t now_ms = ron_env_wall_ms(st->engine->env);
    uint64_t from_ns = ron_env_now_ns(st->engine->env);
    size_t waiting = led_seq_waiting(st->engine->live.seq);
    bool expired = led_seq_next_expiry_ms(st->engine->live.seq) <= now_ms;
    uint64_t next_seq = led_seq_last(st->engine->live.seq) + 1;
    uint32_t want;
    uint32_t room;
    size_t n;

    count = of_engine(st, works, count);
    want = (uint32_t)(count + waiting + (expired ? LED_WINDOW_MAX / 4 : 0));
    if (want == 0) {
        return;
    }
    room = ron_chan_reserve_some(st->pipes->commit, want, (uint32_t)count);
    if (room < count) {
        for (size_t i = room; i < count; i++) {
            works[i]->no_room = true;
            refuse(works[i], LED_REASON_BUSY, "the committer's queue is full");
        }
        count = room;
    }
    n = led_seq_window(st->engine->live.seq, works, count, now_ms, room, out);
    count_window(st, out, n);
    ron_chan_unreserve(st->pipes->commit, room - dispatch(st, out, n, next_seq, from_ns));
}

static void take_news(struct led_seq_stage *st)
{
    /* Before the count: what was made durable before the failure is counted, not taken back. */
    bool abort_wanted = ron_au32_load(&st->news->abort_wanted) == 1;
    uint64_t durable = ron_au64_load(&st->news->durable_works);
    uint64_t indexed = ron_au64_load(&st->news->indexed_seq);

    if (st->generation != st->engine->generation) { /* another engine, which counts anew */
        st->generation = st->engine->generation;
        st->durable_seen = 0;
        st->indexed_seen = 0;
        st->imaging = false;
    }
    if (durable != st->durable_seen) {
        led_seq_committed(st->engine->live.seq, (size_t)(durable - st->durable_seen));
        st->durable_seen = durable;
    }
    if (indexed != st->indexed_seen) {
        led_seq_indexed(st->engine->live.seq, indexed);
        st->indexed_seen = indexed;
    }
    if (abort_wanted) {
        ron_au32_store(&st->news->abort_wanted, 0);
        led_seq_abort(st->engine->live.seq); /* ends the works that it keeps, as safe_mode */
    }
}

/* Writes are stopped: refuses these works, and those that were kept. What is in flight is the
 * committer's to make durable or to refuse; it tells which. */
static void stopped(struct led_seq_stage *st, void **items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        refuse(RON_OBJ(items[i], struct led_work, LED_WORK_MAGIC),
               led_engine_stopped_reason(st->engine), "writes are stopped");
    }
    if (led_seq_waiting(st->engine->live.seq) > 0 && led_seq_in_flight(st->engine->live.seq) == 0) {
        led_seq_abort(st->engine->live.seq);
    }
}

/* ---- the ledger's own works ------------------------------------------------------------------ */

/* An expiry that is refused for what it is, not for the state of the ledger, leaves its hold open:
 * somebody has to know. */
static void note_refused_expiry(struct led_seq_stage *st, const struct led_work *w)
{
    const struct led_refusal *r = &w->refusals.items[0];
    struct ron_str hold = {0};

    if (r->reason == LED_REASON_BUSY || r->reason == LED_REASON_DRAINING ||
        r->reason == LED_REASON_SAFE_MODE || r->reason == LED_REASON_NOT_LEADER) {
        return;
    }
    led_metrics_expiry_refused(st->core->metrics);
    if (w->batch.count > 0) {
        hold = w->batch.entries[0].ref;
    }
    if (ron_au32_add(&st->expiry_told, 1) == 0) {
        RON_LOG(st->core->log, ERROR, "a hold cannot be expired; it is tried again every minute",
                RON_LOG_SLICE("hold", hold), RON_LOG_STR("reason", led_reason_name(r->reason)),
                RON_LOG_STR("detail", r->detail));
    }
}

/* The ledger's own works: expiries. */
static void own_done(struct led_work *w)
{
    struct led_seq_stage *st = RON_OBJ(w->service, struct led_seq_stage, LED_SEQ_STAGE_MAGIC);

    if (w->result == LED_RESULT_REFUSED) {
        note_refused_expiry(st, w);
    }
    led_works_put(st->pipes->works, w);
}

struct led_work *led_stage_seq_own_work(void *arg)
{
    struct led_seq_stage *st = RON_OBJ(arg, struct led_seq_stage, LED_SEQ_STAGE_MAGIC);
    struct led_work *w = led_works_get(st->pipes->works, LED_OWN_ARENA);

    if (w != NULL) {
        w->service = st;
        w->done = own_done;
        w->generation = st->engine->generation;
    }
    return w;
}

/* ---- asks ------------------------------------------------------------------------------------ */

struct balance_list {
    struct ron_json_writer w;
    size_t count;
};

static void put_money(struct ron_json_writer *w, const char *name, struct ron_money money)
{
    char text[RON_MONEY_TEXT_SIZE];

    ron_money_format(money, text);
    ron_json_text(w, name, text);
}

static void see_balance(void *arg, struct ron_str asset, const struct led_balance *balance)
{
    struct balance_list *list = arg;

    ron_json_open(&list->w, NULL, '{');
    ron_json_str(&list->w, "asset", asset);
    put_money(&list->w, "available", balance->available);
    put_money(&list->w, "held", balance->held);
    ron_json_close(&list->w, '}');
}

static void answer_balances(struct led_seq_stage *st, struct led_query *q)
{
    const struct led_book *book = led_seq_book(st->engine->live.seq);
    struct ron_str name = {q->account, q->account_len};
    struct balance_list list = {0};
    struct led_account account = {0};

    if (!led_book_account(book, name, LED_COMMITTED, &account)) {
        led_query_refuse(st->pipes->queries, q, LED_REASON_NOT_FOUND,
                         "no entry names this account");
        return;
    }
    ron_json_begin(&list.w, led_reply_body(&q->reply));
    ron_json_open(&list.w, NULL, '{');
    ron_json_str(&list.w, "account", name);
    ron_json_u64(&list.w, "seq", led_seq_durable(st->engine->live.seq));
    ron_json_u64(&list.w, "last_seq", account.last_seq);
    ron_json_u64(&list.w, "account_nonce", account.account_nonce);
    ron_json_bool(&list.w, "frozen", account.frozen);
    ron_json_open(&list.w, "balances", '[');
    led_book_each(book, name, LED_COMMITTED, see_balance, &list);
    ron_json_close(&list.w, ']');
    ron_json_close(&list.w, '}');
    led_query_answer(st->pipes->queries, q, 200, "application/json");
}

static void see_supply(void *arg, struct ron_str asset, struct ron_money supply)
{
    struct balance_list *list = arg;

    ron_json_open(&list->w, NULL, '{');
    ron_json_str(&list->w, "asset", asset);
    put_money(&list->w, "supply", supply);
    ron_json_close(&list->w, '}');
}

static void answer_supply(struct led_seq_stage *st, struct led_query *q)
{
    struct balance_list list = {0};

    ron_json_begin(&list.w, led_reply_body(&q->reply));
    ron_json_open(&list.w, NULL, '{');
    ron_json_u64(&list.w, "seq", led_seq_durable(st->engine->live.seq));
    ron_json_open(&list.w, "assets", '[');
    led_book_supplies(led_seq_book(st->engine->live.seq), LED_COMMITTED, see_supply, &list);
    ron_json_close(&list.w, ']');
    ron_json_close(&list.w, '}');
    led_query_answer(st->pipes->queries, q, 200, "application/json");
}

static bool see_hold(void *arg, const struct led_open_hold *hold)
{
    struct balance_list *list = arg;

    ron_json_open(&list->w, NULL, '{');
    ron_json_str(&list->w, "id", hold->id);
    ron_json_str(&list->w, "asset", hold->asset);
    put_money(&list->w, "remaining", hold->remaining);
    ron_json_u64(&list->w, "seq", hold->seq);
    if (hold->expires_ms != 0) {
        ron_json_u64(&list->w, "expires", hold->expires_ms);
    }
    ron_json_close(&list->w, '}');
    return ++list->count < HOLDS_MAX;
}

static void answer_holds(struct led_seq_stage *st, struct led_query *q)
{
    struct ron_str name = {q->account, q->account_len};
    struct balance_list list = {0};

    ron_json_begin(&list.w, led_reply_body(&q->reply));
    ron_json_open(&list.w, NULL, '{');
    ron_json_str(&list.w, "account", name);
    ron_json_u64(&list.w, "seq", led_seq_durable(st->engine->live.seq));
    ron_json_open(&list.w, "holds", '[');
    led_book_holds_of(led_seq_book(st->engine->live.seq), name, LED_COMMITTED, see_hold, &list);
    ron_json_close(&list.w, ']');
    ron_json_close(&list.w, '}');
    led_query_answer(st->pipes->queries, q, 200, "application/json");
}

/* To the readers. */
static void pass_on(struct led_seq_stage *st, struct led_query *q)
{
    enum ron_rc rc = ron_chan_try_send(st->pipes->reads, q, NULL);

    if (rc != RON_OK) {
        led_query_refuse(st->pipes->queries, q,
                         rc == RON_CLOSED ? LED_REASON_DRAINING : LED_REASON_BUSY,
                         "no reader is free");
    }
}

static void answer_freeze(struct led_seq_stage *st, struct led_query *q)
{
    struct ron_str name = {q->account, q->account_len};
    enum ron_rc rc = led_book_freeze(led_seq_book_mut(st->engine->live.seq), name, q->flag);

    if (rc == RON_AGAIN || rc == RON_NOMEM) {
        led_query_refuse(st->pipes->queries, q, LED_REASON_BUSY, "not at this moment; try again");
        return;
    }
    if (rc != RON_OK) {
        led_query_refuse(st->pipes->queries, q, LED_REASON_INTERNAL, NULL);
        return;
    }
    pass_on(st, q); /* A reader writes it down. */
}

/* What the readers need to know of the present. */
static void add_facts(struct led_seq_stage *st, struct led_query *q)
{
    const struct led_book *book = led_seq_book(st->engine->live.seq);
    struct ron_str name = {q->account, q->account_len};
    struct led_account account = {0};

    struct led_head head;

    led_engine_head(st->engine, &head);
    q->durable_seq = head.seq;
    q->durable_root = head.root;
    if (q->account_len > 0 && led_book_account(book, name, LED_COMMITTED, &account)) {
        q->start_seq = account.last_seq;
    }
    if (q->ask == LED_ASK_BY_ID || q->ask == LED_ASK_OUTCOME) {
        struct ron_str text = {q->text, q->text_len};
        struct led_key key = led_idem_key(st->engine->hash_key, text);

        q->in_flight = led_seq_key_in_flight(st->engine->live.seq, key);
        q->seq_count =
            led_seq_candidates(st->engine->live.seq, key, q->seqs, RON_ARRAY_LEN(q->seqs));
    }
}

/* A work on its way to the readers, which know the present by what is added here. */
static void answer_work(struct led_seq_stage *st, struct led_query *q)
{
    if ((q->work->look_up & LED_LOOK_ORIGINAL) != 0 &&
        led_seq_find_refs(st->engine->live.seq, q->work) != RON_OK) {
        led_query_refuse(st->pipes->queries, q, LED_REASON_BUSY,
                         "no memory for so many reversals; try again");
        return;
    }
    add_facts(st, q);
    pass_on(st, q);
}

static void answer(struct led_seq_stage *st, struct led_query *q)
{
    switch ((int)q->ask) {
    case LED_ASK_BALANCES:
        if (q->a == 0) {
            answer_balances(st, q);
            return;
        }
        break;
    case LED_ASK_SUPPLY:
        answer_supply(st, q);
        return;
    case LED_ASK_HOLDS:
        answer_holds(st, q);
        return;
    case LED_ASK_FREEZE:
        answer_freeze(st, q);
        return;
    case LED_ASK_WORK:
        answer_work(st, q);
        return;
    default:
        break;
    }
    add_facts(st, q);
    pass_on(st, q);
}

static void take_asks(struct led_seq_stage *st, struct ron_task *t)
{
    void *items[ASKS_PER_ROUND];
    size_t count = 0;
    bool more = false;

    if (ron_chan_recv_poll(st->pipes->asks, &st->asks_node, items, ASKS_PER_ROUND, &count, &more) !=
        RON_OK) {
        return;
    }
    /* Whoever was told of a commit before he asked finds it, also one that became durable during
     * this very round. */
    take_news(st);
    for (size_t i = 0; i < count; i++) {
        answer(st, RON_OBJ(items[i], struct led_query, LED_QUERY_MAGIC));
    }
    if (more) {
        ron_task_wake(t);
    }
}

/* Memory ahead of need: the indexer makes blocks, the book takes them, and gives back what is left
 * when it was not needed. */
static void take_blocks(struct led_seq_stage *st)
{
    struct led_book *book = led_seq_book_mut(st->engine->live.seq);
    size_t wanted;

    if (ron_au32_load(&st->news->at_rest) != 0) {
        ron_au32_store(&st->news->at_rest, 0);
        led_book_rest(book);
    }
    wanted = led_book_blocks_wanted(book);
    for (size_t i = 0; i < LED_NEWS_BLOCKS && wanted > 0; i++) {
        if (ron_aptr_load(&st->news->blocks[i]) != NULL) {
            led_book_give_block(book, ron_aptr_xchg(&st->news->blocks[i], NULL));
            wanted--;
        }
    }
    ron_au32_store(&st->news->blocks_wanted, (uint32_t)wanted);
}

/* ---- images ---------------------------------------------------------------------------------- */

static void give_up_image(struct led_seq_stage *st)
{
    led_book_image_end(led_seq_book_mut(st->engine->live.seq));
    st->imaging = false;
}

/* Some steps of an image of the book, as the indexer takes the chunks. */
static void step_image(struct led_seq_stage *st, struct ron_task *t)
{
    struct led_book *book = led_seq_book_mut(st->engine->live.seq);
    struct led_book_stats stats;
    uint64_t seq = 0;

    if (!st->imaging) {
        if (ron_au32_load(&st->news->image_wanted) == 0 ||
            led_book_image_begin(book, &seq) != RON_OK) {
            return;
        }
        led_book_stats(book, &stats);
        ron_au64_store(&st->news->image_accounts, stats.accounts);
        ron_au32_store(&st->news->image_wanted, 0);
        st->imaging = true;
    }
    for (int i = 0; i < IMAGE_STEPS; i++) {
        struct led_image_chunk *chunk = NULL;
        bool last;

        if (ron_chan_reserve(st->pipes->images, 1) != RON_OK) {
            ron_task_wake_at(t, ron_task_now_ms(t) + 5); /* The indexer is behind. */
            return;
        }
        chunk = ron_alloc_zero(sizeof *chunk);
        if (chunk == NULL || led_book_image_step(book, chunk) != RON_OK) {
            ron_chan_unreserve(st->pipes->images, 1);
            ron_free(chunk);
            give_up_image(st);
            return;
        }
        last = chunk->last;
        if (chunk->take_bytes != NULL) {
            ron_chan_send_reserved(st->pipes->images, chunk);
        } else {
            ron_chan_unreserve(st->pipes->images, 1);
            ron_free(chunk);
        }
        if (last) {
            give_up_image(st);
            return;
        }
    }
    ron_task_wake(t);
}

/* ---- the task -------------------------------------------------------------------------------- */

static enum ron_rc seq_start(struct ron_task *t, void *arg)
{
    struct led_seq_stage *st = RON_OBJ(arg, struct led_seq_stage, LED_SEQ_STAGE_MAGIC);

    ron_wait_node_init(&st->asks_node, ron_task_waker(t));
    ron_task_wake(t); /* for expiries, and to be woken by asks from now on */
    return RON_OK;
}

static enum ron_rc seq_handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct led_seq_stage *st = RON_OBJ(arg, struct led_seq_stage, LED_SEQ_STAGE_MAGIC);
    uint64_t expiry_ms = UINT64_MAX;

    if (!led_engine_take_book(st->engine)) {
        for (size_t i = 0; i < count; i++) {
            refuse(RON_OBJ(items[i], struct led_work, LED_WORK_MAGIC),
                   led_engine_stopped_reason(st->engine), "the journal is being opened anew");
        }
        ron_task_wake_at(t, ron_task_now_ms(t) + 10);
        return RON_OK;
    }
    /* Before the news: whoever sees the new number sees, too, that works are to be taken back. */
    st->reign = ron_au32_load(&st->news->reign);
    take_news(st);
    if (led_engine_mode(st->engine) == LED_RUNNING) {
        window(st, items, count);
        expiry_ms = led_seq_next_expiry_ms(st->engine->live.seq);
    } else {
        stopped(st, items, count);
    }
    take_asks(st, t);
    take_blocks(st);
    step_image(st, t);
    led_engine_give_book(st->engine);
    if (expiry_ms != UINT64_MAX) {
        uint64_t now_ms = ron_env_wall_ms(st->engine->env);
        uint64_t wait_ms = expiry_ms > now_ms ? RON_MIN(expiry_ms - now_ms, (uint64_t)1000) : 1;

        ron_task_wake_at(t, ron_task_now_ms(t) + wait_ms); /* wall clocks jump: look each second */
    }
    return RON_OK;
}

static void seq_stop(struct ron_task *t, void *arg)
{
    struct led_seq_stage *st = RON_OBJ(arg, struct led_seq_stage, LED_SEQ_STAGE_MAGIC);
    void *items[ASKS_PER_ROUND];
    size_t count = 0;

    (void)t;
    (void)ron_chan_close(st->pipes->asks); /* who asks from now on is told `draining` */
    if (led_engine_take_book(st->engine)) {
        led_seq_end(st->engine->live.seq); /* the fronts wait for the answers of what it keeps */
        led_engine_give_book(st->engine);
    }
    ron_chan_recv_forget(st->pipes->asks, &st->asks_node);
    while (ron_chan_try_recv_many(st->pipes->asks, items, ASKS_PER_ROUND, &count) == RON_OK) {
        for (size_t i = 0; i < count; i++) {
            led_query_refuse(st->pipes->queries, items[i], LED_REASON_DRAINING, NULL);
        }
    }
}

enum ron_rc led_stage_seq_add(struct led_seq_stage *st, struct ron_err *err)
{
    st->magic = LED_SEQ_STAGE_MAGIC;
    return ron_sup_add(ron_app_sup(st->core->app),
                       &(struct ron_task_def){.name = "sequencer",
                                              .kind = "sequencer",
                                              .mode = RON_TASK_LOOP,
                                              .worker = RON_WORKER_ANY,
                                              .stage = 3,
                                              .input = st->pipes->validated,
                                              .batch_max = LED_WINDOW_MAX,
                                              .restart = {.essential = true},
                                              .start = seq_start,
                                              .handle = seq_handle,
                                              .stop = seq_stop,
                                              .arg = st},
                       &st->news->seq_task, err);
}

bool led_stage_seq_owes(const struct led_seq_stage *st)
{
    uint64_t seen = st->generation == st->engine->generation ? st->durable_seen : 0;

    return led_seq_in_flight(st->engine->live.seq) > ron_au64_load(&st->news->durable_works) - seen;
}
