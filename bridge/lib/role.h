/* role.h: what one process of the simulator's family is. */
#ifndef ARS_LIB_ROLE_H
#define ARS_LIB_ROLE_H

enum ars__role {
    ARS__UNDECIDED = 0, /* before ars_main or the first ars_next_trace */
    ARS__ALONE,         /* the plain simulator */
    ARS__ZYGOTE,        /* initialised, parked, forks workers */
    ARS__WORKER,        /* runs traces */
    ARS__SNAPSHOT,      /* parked at the entry of a loop */
    ARS__TRY_Q,         /* a continuation of that loop under the proposal */
    ARS__RUN_P,         /* a continuation under the prior */
    ARS__FOREIGN        /* forked by the simulator itself: takes no part */
};

/* How a try of a loop has ended. */
enum ars__outcome {
    ARS__REJECTED = 0, /* another one begins */
    ARS__ACCEPTED,
    ARS__ABANDONED /* rejected, and none follows: ars_loop_abandon */
};

#endif /* ARS_LIB_ROLE_H */
