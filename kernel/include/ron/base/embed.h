/* SPDX-License-Identifier: Apache-2.0 */
/* embed.h - files of the tree inside the program.
 *
 *     RON_EMBED(edg_demo_page, EDG_DEMO_DIR "/index.html");
 *     use edg_demo_page up to edg_demo_page_end; a NUL stands behind it
 *
 * The bytes lie in read-only memory. The path is absolute, by a definition of the build, which also
 * names the files as what the object depends on (OBJECT_DEPENDS in cmake/RonServices.cmake): the
 * compiler does not know that it reads them. At file scope, once for each symbol. */
#pragma once

#define RON_EMBED(symbol, path)                                                                    \
    __asm__(".pushsection .rodata\n"                                                               \
            ".global " #symbol "\n" #symbol ":\n"                                                  \
            ".incbin \"" path "\"\n"                                                               \
            ".global " #symbol "_end\n" #symbol "_end:\n"                                          \
            ".byte 0\n"                                                                            \
            ".popsection\n");                                                                      \
    extern const char symbol[];                                                                    \
    extern const char symbol##_end[]
