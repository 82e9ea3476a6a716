/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/core/core.h - what every task of a running ledger may use: the application, settings,
 * logger, tracer and counters.
 *
 * Place: service. Filled in by svc.c before the first task is added, and constant from then on. */
#pragma once

#include "ledger/conf.h"
#include "ron/app/app.h"

struct led_metrics;

struct led_core {
    struct ron_app *app;
    const struct ron_conf_snap *conf;
    struct ron_log *log;
    struct ron_tracer *tracer;
    struct led_metrics *metrics; /* core/metrics.h */
};
