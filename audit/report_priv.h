/* SPDX-License-Identifier: Apache-2.0 */
/* audit/report_priv.h - what the two forms of the report share. */
#pragma once

#include "audit/report.h"

enum { AUD__UUID_TEXT = 37, AUD__TIME_TEXT = 64 };

void aud__uuid(const uint8_t uuid[AUD_UUID_SIZE], char ret[AUD__UUID_TEXT]);

RON_MUST_USE enum ron_rc aud__json_run(const struct aud_report *report, const struct aud_result *r);
RON_MUST_USE enum ron_rc aud__json_offline(const struct aud_report *report,
                                           const struct aud_offline *o,
                                           const struct aud_vkey *witnesses, size_t witness_count);
