/* states.h: the states that the controller gave to a trace. */
#ifndef ARS_HOST_STATES_H
#define ARS_HOST_STATES_H

#include "host.h"

bool host_states_know(const struct states *states, uint64_t state); /* 0, where every trace begins, is always known */
void host_states_add(struct states *states, uint64_t state);
void host_states_clear(struct states *states);
void host_states_free(struct states *states);

#endif /* ARS_HOST_STATES_H */
