/* SPDX-License-Identifier: Apache-2.0 */
/* crc32c_priv.h - the table version of CRC-32C, which tests compare with the instruction. */
#pragma once

#include "ron/base/crc32c.h"

/* The same without the instruction, for comparison by tests. */
uint32_t ron_crc32c_table(uint32_t crc, const void *bytes, size_t len);
