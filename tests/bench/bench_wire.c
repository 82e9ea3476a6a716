/* SPDX-License-Identifier: Apache-2.0 */
/* bench_wire.c - OAP/1 over a Unix socket: requests a second and processor time per request.
 *
 * A server on worker 0 that echoes at once, and clients on worker 1 that each keep so many requests
 * in flight, in one process: the processor time is that of both sides. Figures are reported, not
 * judged. */
#include <sys/stat.h>

#include "bench/bench_kernel.h"
#include "ron/base/alloc.h"
#include "ron/wire/client.h"
#include "ron/wire/server.h"

enum { APP = 1, CONNS_MAX = 64, DEPTH_MAX = 64, SMALL_BYTES = 250, BATCH_BYTES = 200000 };

struct variant {
    const char *name;
    uint32_t conns;
    uint32_t depth;
    size_t bytes;
    uint64_t requests; /* of all connections, per repetition */
    struct bench_series rate;
    struct bench_series cpu_us;
};

struct load {
    struct ron_oap_client *clients[CONNS_MAX];
    char names[CONNS_MAX][16];
    struct ron_oap_ask asks[CONNS_MAX][DEPTH_MAX];
    uint8_t payload[BATCH_BYTES];
    uint64_t left; /* the clients' worker only */
    uint64_t under_way;
    struct ron_au32 done;
};

static void on_request(struct ron_oap_call *call, void *arg)
{
    const struct ron_oap_request *q = ron_oap_request(call);

    (void)arg;
    /* A batch is answered shortly, as a ledger does. */
    ron_oap_answer(call, 200, q->payload, RON_MIN(q->payload_len, (size_t)SMALL_BYTES));
}

/* All asks of all clients end on one worker, so plain counters do. */
static void on_done(struct ron_oap_ask *ask)
{
    struct load *l = ask->user;

    BENCH_TRUE(ask->outcome == RON_OAP_ANSWERED);
    BENCH_TRUE(ask->answer_len == RON_MIN(ask->payload_len, (size_t)SMALL_BYTES));
    if (l->left > 0) {
        l->left--;
        BENCH_OK(ron_oap_ask_send(ask->_client, ask));
    } else if (--l->under_way == 0) {
        ron_au32_store(&l->done, 1);
    }
}

static void run(struct load *l, const struct variant *v)
{
    l->under_way = (uint64_t)v->conns * v->depth;
    l->left = v->requests - l->under_way;
    ron_au32_store(&l->done, 0);
    for (uint32_t c = 0; c < v->conns; c++) {
        for (uint32_t d = 0; d < v->depth; d++) {
            l->asks[c][d] = (struct ron_oap_ask){.app = APP,
                                                 .payload = l->payload,
                                                 .payload_len = v->bytes,
                                                 .done = on_done,
                                                 .user = l};
        }
    }
    for (uint32_t c = 0; c < v->conns; c++) {
        for (uint32_t d = 0; d < v->depth; d++) {
            BENCH_OK(ron_oap_ask_send(l->clients[c], &l->asks[c][d]));
        }
    }
    while (ron_au32_load(&l->done) == 0) {
        (void)usleep(1000);
    }
}

static void measure(struct load *l, struct variant *v, bool keep)
{
    uint64_t cpu = bench_cpu_ns();
    uint64_t start = bench_now_ns();
    double seconds;

    run(l, v);
    seconds = (double)(bench_now_ns() - start) / 1e9;
    if (keep) {
        bench_add(&v->rate, (double)v->requests / seconds / 1000.0);
        bench_add(&v->cpu_us, (double)(bench_cpu_ns() - cpu) / 1000.0 / (double)v->requests);
    }
}

static void open_clients(struct bench_kernel *k, struct load *l, const char *addr)
{
    for (uint32_t i = 0; i < CONNS_MAX; i++) {
        (void)snprintf(l->names[i], sizeof l->names[i], "client-%u", i);
        BENCH_OK(ron_oap_client_new(&(struct ron_oap_client_opts){.name = l->names[i],
                                                                  .env = ron_env_linux(),
                                                                  .registry = k->registry,
                                                                  .addr = addr,
                                                                  .worker = 1,
                                                                  .stage = 1},
                                    &l->clients[i], NULL));
        BENCH_OK(ron_oap_client_attach(l->clients[i], k->sup, NULL));
    }
}

static struct variant variants[] = {
    {.name = "1 connection, 1 in flight",
     .conns = 1,
     .depth = 1,
     .bytes = SMALL_BYTES,
     .requests = 20000},
    {.name = "1 connection, 64 in flight",
     .conns = 1,
     .depth = 64,
     .bytes = SMALL_BYTES,
     .requests = 200000},
    {.name = "64 connections, 1 in flight",
     .conns = 64,
     .depth = 1,
     .bytes = SMALL_BYTES,
     .requests = 200000},
    {.name = "64 connections, 16 in flight",
     .conns = 64,
     .depth = 16,
     .bytes = SMALL_BYTES,
     .requests = 400000},
    {.name = "1 connection, 4 batches of 200 kB in flight",
     .conns = 1,
     .depth = 4,
     .bytes = BATCH_BYTES,
     .requests = 4000},
};

static void report(void)
{
    printf(
        "OAP/1 echo over a Unix socket, %d bytes of payload, client and server in one process.\n\n",
        SMALL_BYTES);
    printf("| load | thousand requests/s | CPU us per request, both sides |\n|---|---|---|\n");
    for (size_t i = 0; i < RON_ARRAY_LEN(variants); i++) {
        printf("| %s | %s | %s |\n", variants[i].name, bench_span(&variants[i].rate, 1).s,
               bench_span(&variants[i].cpu_us, 2).s);
    }
    printf("\n");
}

static void stop(struct bench_kernel *k, struct load *load, struct ron_oap_server *server)
{
    ron_sup_request_stop(k->sup);
    ron_thread_join(k->sup_thread);
    BENCH_TRUE(k->exit_code == RON_EXIT_DRAINED);
    ron_sup_free(k->sup);
    BENCH_TRUE(ron_exec_free(k->exec));
    for (uint32_t i = 0; i < CONNS_MAX; i++) {
        ron_oap_client_free(load->clients[i]);
    }
    BENCH_TRUE(ron_oap_server_free(server));
    ron_registry_free(k->registry);
}

int main(void)
{
    static struct load load;
    static const struct ron_oap_app app = {.app = APP, .handle = on_request};
    struct bench_noise noise = bench_noise_now();
    struct ron_oap_server *server = NULL;
    struct bench_kernel k;
    char dir[] = "/tmp/ron-bench-XXXXXX";
    char addr[64];

    BENCH_TRUE(mkdtemp(dir) != NULL);
    (void)snprintf(addr, sizeof addr, "unix:%s/s", dir);
    bench_kernel_open(&k, 2);
    BENCH_OK(ron_oap_server_new(&(struct ron_oap_opts){.name = "oap",
                                                       .env = ron_env_linux(),
                                                       .registry = k.registry,
                                                       .workers = 1,
                                                       .addr = addr,
                                                       .apps = &app,
                                                       .app_count = 1},
                                &server, NULL));
    BENCH_OK(ron_oap_server_attach(server, k.sup, NULL));
    open_clients(&k, &load, addr);
    bench_kernel_run(&k);
    for (size_t rep = 0; rep <= bench_reps(); rep++) {
        for (size_t i = 0; i < RON_ARRAY_LEN(variants); i++) {
            measure(&load, &variants[i], rep > 0);
        }
    }
    report();
    bench_noise_print(noise);
    stop(&k, &load, server);
    (void)unlink(addr + 5);
    (void)rmdir(dir);
    return 0;
}
