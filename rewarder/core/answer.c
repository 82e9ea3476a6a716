/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/core/answer.c - refusals and the state of a run as HTTP answers.
 *
 * Threads: any; nothing blocks. */
#include "rewarder/core/core.h"

void rwd_fail(struct ron_http_call *call, const struct rwd_fault *fault)
{
    struct ron_http_error error = rwd_http_error(fault);

    ron_http_fail_with(call, &error);
}

void rwd_reply_fail(struct ron_http_reply *take_reply, const struct rwd_fault *fault)
{
    struct ron_http_error error = rwd_http_error(fault);

    ron_http_reply_fail_with(take_reply, &error);
}

void rwd_view_write(struct ron_buf *out, const struct rwd_view *view)
{
    struct ron_json_writer j;
    char key[RON_B3_ID_SIZE];

    ron_b3_format(&view->run_key, key);
    ron_json_begin(&j, out);
    ron_json_open(&j, NULL, '{');
    ron_json_text(&j, "epoch_id", view->epoch);
    ron_json_text(&j, "run_key", key);
    ron_json_text(&j, "status", "running");
    ron_json_text(&j, "phase", rwd_phase_name(view->phase));
    ron_json_u64(&j, "rows_done", view->rows_done);
    ron_json_u64(&j, "rows", view->rows);
    ron_json_u64(&j, "began_millis", view->began_ms);
    ron_json_close(&j, '}');
}

void rwd_reply_view(struct ron_http_reply *take_reply, int code, const struct rwd_view *view)
{
    rwd_view_write(ron_http_reply_body(take_reply), view);
    ron_http_reply_send(take_reply, code, "application/json");
}
