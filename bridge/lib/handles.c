/* handles.c: rejection loops that a handle stands for.
 *
 * Such a loop has no frame: its marks may stand in different functions, some of which have returned by the time of the next
 * mark. So everything there is to know is in the handle: 0, or the number of the entry that is open and its depth on the stack
 * of loops (loops.c). The stack has the number too. If they differ, the handle is not what it says.
 *   closed                                    ars_loop_try enters
 *   open, and the innermost loop              ars_loop_try is a retry
 *   open, with other loops inside it          these were left: an error
 *   closed, but the stack holds this handle   it was initialised again, so the loop was left: an error
 * One handle for two nested entries looks like a retry, and the second ars_loop_accept then finds the loop closed. */
#include "handles.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fail.h"
#include "loops.h"
#include "process.h"
#include "sites.h"
#include "thread_owner.h"

/* ---- names ------------------------------------------------------------------------------------------------------------- */

static ars__loop_mark *mark_of(const char *name) {
    uint32_t hash = 2166136261u;
    for (const char *c = name; *c; c++) hash = (hash ^ (unsigned char)*c) * 16777619u;
    ars__loop_mark **first = &ars__me.handle_names.bucket[hash % ARS__NAME_BUCKETS];
    for (ars__loop_mark *m = *first; m; m = m->next)
        if (strcmp(m->name, name) == 0) return m;
    ars__loop_mark *made = malloc(sizeof *made);
    char *copy = strdup(name);
    if (!made || !copy) ars__fail(ARS_FAIL_MEMORY, 0, "no memory for the name of a loop");
    *made = (ars__loop_mark){.file = "", .scope = "", .func = "", .name = copy, .next = *first};
    return *first = made;
}

ars_loop ars_loop_named(const char *name) {
    int kept = errno;
    ars_loop made = ARS_LOOP(name && *name ? mark_of(name)->name : "");
    errno = kept;
    return made;
}

/* Not a handle, but a loop whose name is all that its caller has. */
void ars__reject_named(const char *name, bool (*body)(void *), void *context) {
    if (!name || !*name) ars__fail(ARS_FAIL_MISUSE, 0, "ars_reject needs a name that is not empty");
    ars__reject(mark_of(name), body, context);
}

/* ---- what the handle says ------------------------------------------------------------------------------------------------ */

void ars__handles_begin(pid_t worker) {
    ars__me.loops.last_handle_number = (uint64_t)worker << 32;
}

static void check(const ars_loop *handle, enum ars__call call) {
    const char *what = ars__call_name(call);
    ars__thread_check(call);
    if (!handle || handle->ready != ARS__LOOP_READY)
        ars__fail(
            ARS_FAIL_MISUSE, 0, "%s was given %s. Write ars_loop loop = ARS_LOOP(\"name\"), and pass its address", what,
            handle ? "a handle that was never initialised, or was overwritten" : "no handle: the pointer is NULL");
    if (!handle->name || !*handle->name)
        ars__fail(ARS_FAIL_MISUSE, 0, "%s: the loop of this handle has no name. Write ARS_LOOP(\"name\")", what);
    if (ars__me.in_trace) return;
    ars__fail(ARS_FAIL_OUTSIDE_TRACE, 0,
              "%s of the loop %.80s was called outside a trace: call it from the model that ars_main runs, or after "
              "ars_next_trace has returned true",
              what, handle->name);
}

/* The open loop of this handle; NULL if the handle is closed. */
static struct ars__loop *open_loop(const ars_loop *handle, enum ars__call call) {
    if (!handle->entry) return NULL;
    struct ars__loops *l = &ars__me.loops;
    if (handle->depth && handle->depth <= l->depth) {
        struct ars__loop *loop = &l->at[handle->depth - 1];
        if (loop->handle && loop->handle_number == handle->entry) return loop;
    }
    ars__fail(ARS_FAIL_MISUSE, 0,
              "%s: the handle of the loop %.80s says that the loop is open, and it is not. A copy of the handle was "
              "used to end it; or the handle was left open by another trace or process",
              ars__call_name(call), handle->name);
}

static struct ars__loop *innermost(struct ars__loop *loop, const char *how) {
    struct ars__loop *top = ars__top(&ars__me.loops);
    if (loop != top) ars__loop_left(top, how);
    return loop;
}

static void close_handle(ars_loop *handle) {
    handle->entry = 0;
    handle->depth = 0;
}

/* ---- the marks ----------------------------------------------------------------------------------------------------------- */

static void enter(ars_loop *handle, const char *caller) {
    const struct ars__loops *l = &ars__me.loops;
    for (size_t i = 0; i < l->depth; i++)
        if (l->at[i].handle == handle) ars__loop_left(&l->at[i], "its handle was initialised again, and a loop begun");
    ars__loops_check(caller, "ars_loop_try", handle->name);
    struct ars__loop *loop = ars__loop_open(mark_of(handle->name), NULL);
    loop->handle = handle;
    loop->handle_number = handle->entry = ++ars__me.loops.last_handle_number;
    handle->depth = (unsigned)l->depth;
    ars__loop_entered(loop); /* continuations begin here, and find the handle open */
}

static __attribute__((noinline)) void attempt(ars_loop *handle, const char *caller) {
    int kept = errno;
    check(handle, ARS__CALL_LOOP_TRY);
    struct ars__loop *loop = open_loop(handle, ARS__CALL_LOOP_TRY);
    if (loop) {
        innermost(loop, "a loop around it was tried again");
        ars__loops_check(caller, "ars_loop_try", handle->name);
        loop->handle = handle; /* an object may move */
        ars__loop_retry(loop);
    } else {
        enter(handle, caller);
    }
    errno = kept;
}

void ars_loop_try(ars_loop *loop) {
    if (ars__me.role != ARS__ALONE) attempt(loop, ARS__CALLER(0));
}

static struct ars__loop *to_be_ended(const ars_loop *handle, enum ars__call call, const char *caller) {
    check(handle, call);
    struct ars__loop *loop = open_loop(handle, call);
    if (!loop)
        ars__fail(ARS_FAIL_RS_END, 0,
                  "%s of the loop %.80s was called, but it is not open: call ars_loop_try at the beginning of every "
                  "try. If it was, the loop has ended twice, or one handle served two nested entries: in a recursive "
                  "function every activation needs a handle of its own",
                  ars__call_name(call), handle->name);
    innermost(loop, "a loop around it was ended");
    ars__loops_check(caller, ars__call_name(call), handle->name);
    return loop;
}

static __attribute__((noinline)) void accept(ars_loop *handle, const char *caller) {
    int kept = errno;
    ars__loop_accepted(to_be_ended(handle, ARS__CALL_LOOP_ACCEPT, caller));
    close_handle(handle);
    errno = kept;
}

void ars_loop_accept(ars_loop *loop) {
    if (ars__me.role != ARS__ALONE) accept(loop, ARS__CALLER(0));
}

static __attribute__((noinline)) void abandon(ars_loop *handle, const char *caller) {
    int kept = errno;
    struct ars__loop *loop = to_be_ended(handle, ARS__CALL_LOOP_ABANDON, caller);
    if (!ars__me.marks.abandons)
        ars__fail(ARS_FAIL_MISUSE, 0,
                  "ars_loop_abandon of the loop %.80s was not announced. Call it by its name in a source file that "
                  "includes ars.h: libars must know before the first trace that loops can be abandoned",
                  handle->name);
    ars__loop_abandoned(loop);
    close_handle(handle);
    errno = kept;
}

void(ars_loop_abandon)(ars_loop *loop) {
    if (ars__me.role != ARS__ALONE) abandon(loop, ARS__CALLER(0));
}
