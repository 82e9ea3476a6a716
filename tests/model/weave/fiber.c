/* SPDX-License-Identifier: Apache-2.0 */
/* fiber.c - stacks and the switch between them; rules F1-F3 are in fiber.h.
 *
 * Place: lowest part of weave; knows nothing about schedules. Failure policy: no memory for a stack
 * is an assertion, because a test without its fibers has no result. */
#include "fiber.h"

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ron/base/assert.h"

static void map_stack(struct fiber *f)
{
    size_t guard = (size_t)sysconf(_SC_PAGESIZE);
    void *p = mmap(NULL, FIBER_STACK_BYTES, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
    int rc;

    RON_ASSERT(p != MAP_FAILED);
    rc = mprotect(p, guard, PROT_NONE); /* keeps F2 */
    RON_ASSERT(rc == 0);
    f->stack = p;
}

#if defined(__x86_64__)

void weave_fiber_switch(void **from_sp, void *to_sp);

/* The six registers that the x86-64 calling convention asks a function to preserve, and the stack
 * pointer. Floating-point control words are not switched: nothing here changes them. */
__asm__(".text\n"
        ".p2align 4\n"
        ".globl weave_fiber_switch\n"
        ".hidden weave_fiber_switch\n"
        ".type weave_fiber_switch, @function\n"
        "weave_fiber_switch:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size weave_fiber_switch, .-weave_fiber_switch\n");

void fiber_prepare(struct fiber *f, void (*entry)(void))
{
    uintptr_t *top;

    if (f->stack == NULL) {
        map_stack(f);
    }
    top = (uintptr_t *)(void *)((char *)f->stack + FIBER_STACK_BYTES);
    /* From the top: the zero return address of entry(), which ends a backtrace; the address that
     * the first switch returns to; six registers. At entry() the stack pointer is 8 below a
     * multiple of 16, as after a call. */
    top[-1] = 0;
    top[-2] = (uintptr_t)entry;
    for (int i = 3; i <= 8; i++) {
        top[-i] = 0;
    }
    f->sp = &top[-8];
}

void fiber_switch(struct fiber *from, struct fiber *to)
{
    weave_fiber_switch(&from->sp, to->sp);
}

#else

void fiber_prepare(struct fiber *f, void (*entry)(void))
{
    int rc;

    if (f->stack == NULL) {
        map_stack(f);
    }
    rc = getcontext(&f->uc);
    RON_ASSERT(rc == 0);
    f->uc.uc_stack.ss_sp = f->stack;
    f->uc.uc_stack.ss_size = FIBER_STACK_BYTES;
    f->uc.uc_link = NULL;
    makecontext(&f->uc, entry, 0);
}

void fiber_switch(struct fiber *from, struct fiber *to)
{
    int rc = swapcontext(&from->uc, &to->uc);

    RON_ASSERT(rc == 0);
}

#endif
