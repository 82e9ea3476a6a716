/* SPDX-License-Identifier: Apache-2.0 */
/* scn_wire.c - asks handed to the OAP client and back, racing the end of its task.
 *
 * There is no network here: connecting fails, so an ask ends NOT_SENT, at once or with the client.
 * Expected in every schedule: an ask that was taken ends exactly once, in the inbox of its task or
 * through its callback; one that was refused (CLOSED) never does; nobody waits for ever. */
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/wire/client.h"
#include "scenario/scn_task.h"

enum { ASKERS = 2 };

struct asked {
    struct ron_oap_ask ask;
    struct ron_buf answer;
    bool taken;
    uint32_t ends;
};

struct post {
    struct scn_house house;
    struct ron_env env;
    struct ron_oap_client *client;
    struct ron_oap_inbox inbox;
    uint32_t per_asker;
    struct asked *asks; /* ASKERS * per_asker */
    bool use_inbox;
};

struct asker {
    struct post *post;
    uint32_t index;
};

static enum ron_rc no_connect(const struct ron_env *env, const char *addr, int *ret_fd,
                              struct ron_err *err)
{
    (void)env;
    (void)addr;
    (void)ret_fd;
    return ron_err_set(err, RON_IO, "no network");
}

static const struct ron_net_ops no_net = {.connect = no_connect};

static void end_ask(struct ron_oap_ask *ask)
{
    struct asked *a = ask->user;

    SCN_CHECK(ask->outcome == RON_OAP_NOT_SENT);
    a->ends++; /* A race here would be two ends. */
    scn_saw_if(ask->rc == RON_CLOSED, 0);
    scn_saw_if(ask->rc == RON_CANCELLED, 1);
}

static void take_inbox(struct post *p, size_t max)
{
    struct ron_oap_ask *next;

    for (struct ron_oap_ask *a = ron_oap_inbox_take(&p->inbox, max); a != NULL; a = next) {
        next = a->next;
        end_ask(a);
    }
}

static enum ron_rc caller_handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    (void)t;
    (void)items;
    (void)count;
    take_inbox(arg, 1); /* so that every second one depends on the wake-up for what is left */
    return RON_OK;
}

static void ask_some(void *arg)
{
    struct asker *me = arg;
    struct post *p = me->post;

    for (uint32_t i = 0; i < p->per_asker; i++) {
        struct asked *a = &p->asks[me->index * p->per_asker + i];
        enum ron_rc rc;

        ron_buf_init(&a->answer, 16);
        a->ask = (struct ron_oap_ask){.app = 1,
                                      .user = a,
                                      .done = p->use_inbox ? NULL : end_ask,
                                      .inbox = p->use_inbox ? &p->inbox : NULL,
                                      .answer_to = &a->answer};
        a->taken = true; /* Before it is shared: afterwards it may have ended already. */
        rc = ron_oap_ask_send(p->client, &a->ask);
        if (rc != RON_OK) {
            SCN_CHECK(rc == RON_CLOSED || rc == RON_FULL);
            a->taken = false;
            scn_saw_if(rc == RON_CLOSED, 2);
        }
    }
}

static void stop(void *arg)
{
    struct post *p = arg;

    ron_sup_request_stop(p->house.sup);
}

static void post_run(bool use_inbox)
{
    static const char *const names[ASKERS] = {"asker-0", "asker-1"};
    struct post p = {.per_asker = scn_scale(1, 2000), .use_inbox = use_inbox};
    uint32_t askers = scn_scale(1, ASKERS);
    struct asker askers_of[ASKERS];
    uint64_t ended = 0;
    enum ron_rc rc;

    scn_calm(true);
    p.env = scn_env;
    p.env.net = &no_net;
    p.asks = ron_alloc_array((size_t)ASKERS * p.per_asker, sizeof *p.asks);
    RON_ASSERT(p.asks != NULL);
    scn_house_init(&p.house, 1);
    rc = ron_oap_client_new(&(struct ron_oap_client_opts){.name = "client",
                                                          .env = &p.env,
                                                          .registry = p.house.registry,
                                                          .addr = "127.0.0.1:1",
                                                          .stage = 1,
                                                          .queue_max = 8192,
                                                          .fail_fast = true},
                            &p.client, NULL);
    RON_ASSERT(rc == RON_OK);
    rc = ron_oap_client_attach(p.client, p.house.sup, NULL);
    RON_ASSERT(rc == RON_OK);
    if (use_inbox) {
        p.inbox.task = scn_house_add(
            &p.house, &(struct ron_task_def){
                          .name = "caller", .worker = 0, .handle = caller_handle, .arg = &p});
    }
    scn_calm(false);
    for (uint32_t i = 0; i < askers; i++) {
        askers_of[i] = (struct asker){.post = &p, .index = i};
        scn_spawn(names[i], ask_some, &askers_of[i]);
    }
    scn_spawn("stopper", stop, &p);
    scn_house_run(&p.house, RON_EXIT_DRAINED);
    scn_join_all();
    take_inbox(&p, SIZE_MAX); /* What ended after its task did. */
    scn_calm(true);
    for (uint32_t i = 0; i < askers * p.per_asker; i++) {
        SCN_CHECK(p.asks[i].ends == (p.asks[i].taken ? 1 : 0));
        ended += p.asks[i].ends;
    }
    ron_sup_free(p.house.sup);
    SCN_CHECK(ron_exec_free(p.house.exec));
    ron_oap_client_free(p.client);
    ron_registry_free(p.house.registry);
    ron_free(p.asks);
    scn_count(ended);
}

static void wire_ask_callback(void)
{
    post_run(false);
}

static void wire_ask_inbox(void)
{
    post_run(true);
}

const struct scn scn_list[] = {
    {.name = "wire_ask_callback",
     .body = wire_ask_callback,
     .stress_rounds = 100,
     .no_spurious = "the waits are those of executor and supervisor, explored in their own files",
     .must_see = {"an ask ended by the client", "an ask ended with the client",
                  "an ask refused because the client has ended"}},
    {.name = "wire_ask_inbox",
     .body = wire_ask_inbox,
     .stress_rounds = 100,
     .no_spurious = "the waits are those of executor and supervisor, explored in their own files",
     .must_see = {"an ask ended by the client", "an ask ended with the client",
                  "an ask refused because the client has ended"}},
    {0},
};
