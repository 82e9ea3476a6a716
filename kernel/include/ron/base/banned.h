/* SPDX-License-Identifier: Apache-2.0 */
/* banned.h - functions that are always the wrong choice here become compile errors.
 *
 * The build force-includes it before the first line of everything that ships. It pulls in the
 * system headers that declare these names, so later includes of them are empty; the feature macros
 * (_GNU_SOURCE) therefore come from the command line. Names are function-like macros, so a field or
 * variable of the same name still works; calling a field with such a name, as in ops->free(x), does
 * not.
 *
 * The raw heap functions are open to a file that defines RON_ALLOW_RAW_ALLOC and then includes this
 * header once more. alloc.c does; nobody else may. That second reading is why there is no
 * `#pragma once`: every reading leaves the same state for the same RON_ALLOW_RAW_ALLOC.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#undef RON_BANNED
#define RON_BANNED(name) ron_banned_##name##_see_ron_base_banned_h

/* No bound on what they write. Use ron_buf, memcpy with a checked length, or snprintf. */
#undef strcpy
#define strcpy(...) RON_BANNED(strcpy)
#undef strcat
#define strcat(...) RON_BANNED(strcat)
#undef sprintf
#define sprintf(...) RON_BANNED(sprintf)
#undef vsprintf
#define vsprintf(...) RON_BANNED(vsprintf)
#undef gets
#define gets(...) RON_BANNED(gets)

/* Leaves the result without a NUL when it is full, and pads with zeros when it is not. */
#undef strncpy
#define strncpy(...) RON_BANNED(strncpy)
#undef strncat
#define strncat(...) RON_BANNED(strncat)

/* Hidden static state. */
#undef strtok
#define strtok(...) RON_BANNED(strtok)
#undef localtime
#define localtime(...) RON_BANNED(localtime)
#undef gmtime
#define gmtime(...) RON_BANNED(gmtime)
#undef asctime
#define asctime(...) RON_BANNED(asctime)
#undef ctime
#define ctime(...) RON_BANNED(ctime)

/* Cannot report an error. Use a strict parser. */
#undef atoi
#define atoi(...) RON_BANNED(atoi)
#undef atol
#define atol(...) RON_BANNED(atol)
#undef atoll
#define atoll(...) RON_BANNED(atoll)
#undef sscanf
#define sscanf(...) RON_BANNED(sscanf)

/* No bound on the stack. */
#undef alloca
#define alloca(...) RON_BANNED(alloca)

/* The heap has one door: ron/base/alloc.h. */
#undef malloc
#undef calloc
#undef realloc
#undef reallocarray
#undef free
#undef strdup
#undef strndup
#ifndef RON_ALLOW_RAW_ALLOC
#define malloc(...) RON_BANNED(malloc)
#define calloc(...) RON_BANNED(calloc)
#define realloc(...) RON_BANNED(realloc)
#define reallocarray(...) RON_BANNED(reallocarray)
#define free(...) RON_BANNED(free)
#define strdup(...) RON_BANNED(strdup)
#define strndup(...) RON_BANNED(strndup)
#endif
