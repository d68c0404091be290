/* shadow.h: what a test program knows about its loops by itself, in plain variables, to compare with the loop table of
 * libars. A loop is known by a number that its function keeps in a local variable, so nothing here looks at frames. */
#ifndef SHADOW_H
#define SHADOW_H

#include <ars.h>

#ifdef __cplusplus
extern "C" {
#endif

void shadow_begin(void);
int shadow_enter(const char *name); /* before the loop; the name that libars must find for it */
void shadow_try(int loop);          /* after every rs_start */
void shadow_end(int loop);          /* after rs_end */
void shadow_report(void); /* results "shadow" (hash of the name, parent, tries; per loop), "entries", "tries" */

#ifdef __cplusplus
}
#endif

/* A draw that is accepted with this probability. */
#define ACCEPT(p) (ars_sample("x", ars_uniform(0, 1)) < (p))

#endif
