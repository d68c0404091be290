/* sites.h: the table of sites and their ids. */
#ifndef ARS_HOST_SITES_H
#define ARS_HOST_SITES_H

#include "host.h"

bool host_sites_open(struct host *host);
ars__known_sites host_sites_known(const struct host *host);
/* Fills in the id (ARS_NO_SITE if there is no room), and what the site was first met with: its kind of distribution, and in
 * `reserved` how many bytes of its address are the loops around it. */
void host_site_identify(struct host *host, struct ars_wire_site *site, const void *name);
/* Sites that the controller knows from an earlier family, with their ids; before the family has any of its own. */
void host_sites_adopt(struct host *host, const unsigned char *frame, const struct ars_wire_header *header);
/* The site if it is one of these kinds (a mask of 1 << kind), else ARS_NO_SITE: what a process says of itself may be wrong. */
uint32_t host_site_or_none(const struct host *host, uint32_t site_id, unsigned kinds);
const char *host_site_address(const struct host *host, uint32_t site_id, int *size);

#endif /* ARS_HOST_SITES_H */
