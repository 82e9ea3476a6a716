/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/conf.c - the table of settings, and which of them belong together. */
#include "ledger/conf.h"

#include "ledger/stage/stage.h"
#include "ron/app/app.h"

static const struct ron_conf_key keys[] = {LED_CONF(RON_CONF_ROW)};

static enum ron_rc check_settings(const struct ron_conf_snap *conf, struct ron_err *err)
{
    bool memory = ron_conf_choice(conf, LED_ENGINE_MODE) == LED_MODE_AMNESIA;
    bool amnesia = ron_conf_bool(conf, RON_APP_AMNESIA);

    if (memory != amnesia) {
        return ron_err_set(err, RON_INVALID,
                           "engine.mode = \"amnesia\" and amnesia.enabled belong together");
    }
    if (!memory && ron_conf_str(conf, LED_DATA_DIR).len == 0) {
        return ron_err_set(err, RON_INVALID,
                           "engine.data_dir must be set, or engine.mode = \"amnesia\" with "
                           "amnesia.enabled = true");
    }
    if (memory && ron_conf_str(conf, LED_DATA_DIR).len != 0) {
        return ron_err_set(err, RON_INVALID, "amnesia leaves no trace: unset engine.data_dir");
    }
    if (ron_conf_choice(conf, LED_ENGINE_SINK) == LED_SINK_POSTGRES &&
        (memory || ron_conf_secret(conf, LED_PG_DSN).len == 0)) {
        return ron_err_set(err, RON_INVALID,
                           "engine.sink = \"postgres\" needs postgres.dsn and a persistent engine");
    }
    if (ron_conf_str(conf, LED_KMS_URL).len != 0 && ron_conf_str(conf, LED_KEY_FILE).len != 0) {
        return ron_err_set(err, RON_INVALID,
                           "capabilities are verified by kms.url or with auth.key_file: unset one");
    }
    if (ron_conf_str(conf, LED_KMS_URL).len != 0 &&
        ron_conf_choice(conf, LED_AUTH_READS) == LED_READS_CAPABILITY) {
        return ron_err_set(err, RON_INVALID,
                           "with kms.url reads cannot wait for a verdict: set auth.reads = "
                           "\"open\" or use auth.key_file");
    }
    return led_stage_remote_check(conf, err);
}

const struct ron_conf_table led_conf_table = {
    .service = "ledger", .keys = keys, .key_count = LED_CONF_COUNT, .check = check_settings};
