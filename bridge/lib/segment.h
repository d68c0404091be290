/* segment.h: the segment as the family maps it. */
#ifndef ARS_LIB_SEGMENT_H
#define ARS_LIB_SEGMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "shm.h"

const struct ars__shm *ars__segment_make(int fd);
/* What the zygote does around the fork of worker w. */
bool ars__area_open(uint32_t w);  /* false: errno */
void ars__area_close(uint32_t w); /* ends the zygote if it cannot */

#endif /* ARS_LIB_SEGMENT_H */
