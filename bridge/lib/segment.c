/* segment.c: the shared segment as the family maps it. It is mapped once, before the zygote is forked, and forks inherit it:
 * no process needs its descriptor. shm.h has the picture. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "family.h"
#include "process.h"
#include "segment.h"

/* The guard in front is memory of nobody: what the simulator allocates next is placed right below it. */
static char *map_behind_guard(int fd, uint64_t size) {
    char *all = mmap(NULL, ARS__GUARD + size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED) return MAP_FAILED;
    return mmap(all + ARS__GUARD, size, PROT_NONE, MAP_SHARED | MAP_FIXED, fd, 0);
}

const struct ars__shm *ars__segment_make(int fd) {
    uint64_t size = ars__shm_size(ars__me.n_workers, ars__me.per_worker);
    /* Nobody can make it smaller under the host's feet, not even we. */
    if (ftruncate(fd, (off_t)size) < 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        ars__cannot_start("no shared memory", errno);
    void *at = map_behind_guard(fd, size);
    if (at == MAP_FAILED || mprotect(at, ARS__HEAD_SIZE, PROT_READ | PROT_WRITE))
        ars__cannot_start("no shared memory", errno);
    struct ars__shm *shm = at;
    shm->magic = ARS__SHM_MAGIC;
    shm->version = ARS__SHM_VERSION;
    shm->n_workers = ars__me.n_workers;
    shm->snapshots_per_worker = ars__me.per_worker;
    shm->size = size;
    if (mprotect(shm, ARS__HEAD_SIZE, PROT_READ) || mprotect(ars__bell_at(shm), ARS__BELL_SIZE, PROT_READ | PROT_WRITE))
        ars__cannot_start("the shared memory cannot be protected", errno);
    return shm;
}

bool ars__area_open(uint32_t w) {
    void *area = ars__worker_at(ars__me.shm, ars__me.per_worker, w);
    return !mprotect(area, ars__area_size(ars__me.per_worker), PROT_READ | PROT_WRITE);
}

void ars__area_close(uint32_t w) {
    void *area = ars__worker_at(ars__me.shm, ars__me.per_worker, w);
    if (!mprotect(area, ars__area_size(ars__me.per_worker), PROT_NONE)) return;
    fprintf(stderr, "libars: the zygote cannot close the memory of a worker: %s\n", strerror(errno));
    _exit(ARS__EXIT_FAILED); /* or every later worker could write there */
}
