/* test_segment.c: the parts of the segment lie apart, on pages of their own, and the family can write to its own part only. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "process.h"
#include "segment.h"

enum { WORKERS = 3, SLOTS = 5, MINE = 1 };

/* ---- the layout ---------------------------------------------------------------------------------------------------- */

static void check_part(uint64_t *end, uint64_t at, uint64_t size) {
    CHECK(at % ARS__GUARD == 0 && size % ARS__GUARD == 0);
    CHECK(at >= *end + ARS__GUARD);
    *end = at + size;
}

static void check_layout(uint32_t n_workers, uint32_t per_worker) {
    uint64_t end = ARS__HEAD_SIZE;
    CHECK(sizeof(struct ars__shm) <= ARS__HEAD_SIZE && ARS__HEAD_SIZE % ARS__GUARD == 0);
    CHECK(sizeof(struct ars__bell) <= ARS__BELL_SIZE);
    check_part(&end, ARS__BELL_AT, ARS__BELL_SIZE);
    for (uint32_t w = 0; w < n_workers; w++) {
        check_part(&end, ars__area_at(per_worker, w), ars__area_size(per_worker));
        const char *base = NULL, *last = (const char *)(ars__snapshot_at(NULL, per_worker, w, per_worker));
        CHECK((uint64_t)(last - base) <= end);
    }
    CHECK(ars__shm_size(n_workers, per_worker) >= end + ARS__GUARD);
}

/* ---- what can be touched, as the kernel sees it --------------------------------------------------------------------- */

static int pipes[2], zeros;

static bool can_read(const void *at) {
    char taken;
    if (write(pipes[1], at, 1) == 1) return read(pipes[0], &taken, 1) == 1;
    CHECK(errno == EFAULT);
    return false;
}

static bool can_write(const void *at) {
    if (read(zeros, (void *)(uintptr_t)at, 1) == 1) return true;
    CHECK(errno == EFAULT);
    return false;
}

static void check_access(const char *at, uint64_t size, bool reads, bool writes) {
    const char *ends[] = {at, at + size / 2, at + size - 1};
    for (int i = 0; i < 3; i++) {
        CHECK(can_read(ends[i]) == reads);
        CHECK(can_write(ends[i]) == writes);
    }
}

/* `open`: the worker whose area can be written. */
static void check_family(const struct ars__shm *shm, uint32_t open) {
    const char *base = (const char *)shm;
    uint64_t area = ars__area_size(SLOTS);
    check_access(base - ARS__GUARD, ARS__GUARD, false, false);
    check_access(base, ARS__HEAD_SIZE, true, false);
    check_access(base + ARS__HEAD_SIZE, ARS__GUARD, false, false);
    check_access(base + ARS__BELL_AT, ARS__BELL_SIZE, true, true);
    check_access(base + ARS__AREAS_AT - ARS__GUARD, ARS__GUARD, false, false);
    for (uint32_t w = 0; w < WORKERS; w++) {
        check_access(base + ars__area_at(SLOTS, w), area, w == open, w == open);
        check_access(base + ars__area_at(SLOTS, w) + area, ARS__GUARD, false, false);
    }
}

int main(void) {
    check_layout(1, 0);
    check_layout(WORKERS, SLOTS);
    check_layout(ARS__MAX_WORKERS, ARS__MAX_CHANNELS / ARS__MAX_WORKERS - 1);
    check_layout(16, ARS__MAX_SNAPSHOTS);

    ars__me.n_workers = WORKERS;
    ars__me.per_worker = SLOTS;
    int fd = memfd_create("ars", MFD_ALLOW_SEALING);
    zeros = open("/dev/zero", O_RDONLY);
    if (fd < 0 || zeros < 0 || pipe(pipes)) return 77;
    ars__me.shm = ars__segment_make(fd);
    check_family(ars__me.shm, WORKERS);
    CHECK(ars__area_open(MINE));
    check_family(ars__me.shm, MINE);
    ars__area_close(MINE);
    check_family(ars__me.shm, WORKERS);
    CHECK(ars__me.shm->magic == ARS__SHM_MAGIC && ars__me.shm->version == ARS__SHM_VERSION);
    return check_failures != 0;
}
