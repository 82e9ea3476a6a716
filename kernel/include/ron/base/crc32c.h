/* SPDX-License-Identifier: Apache-2.0 */
/* crc32c.h - CRC-32C (Castagnoli), the checksum of stored records.
 *
 * Place: base. The polynomial of iSCSI (RFC 3720 appendix B.4), for which x86-64 has an
 * instruction; three streams of it run side by side. A machine without it gets a table, with the
 * same values. It finds accidents, not attackers: it is no hash.
 *
 * Pure functions; any thread; no allocation. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* The checksum of bytes that follow those whose checksum is `crc`; 0 for the first. `bytes` may be
 * NULL when len is 0. So crc(crc(0, a), b) = crc(0, a || b). */
uint32_t ron_crc32c(uint32_t crc, const void *bytes, size_t len);
