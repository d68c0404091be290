/* mappings.c: the private memory that the simulator can write to, as the kernel lists it. */
#define _GNU_SOURCE
#include "mappings.h"
#include "machine.h"

#ifdef ARS__HAS_REWIND

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { HIGH_FD = 800 };

/* ---- files ------------------------------------------------------------------------------------------------------------- */

bool ars__still_open(const struct ars__proc_file *file) {
    struct stat st;
    return !ars__raw(SYS_fstat, file->fd, (long)&st, 0, 0, 0, 0) && st.st_dev == file->device &&
           st.st_ino == file->inode;
}

/* Out of the way of a simulator that counts on low numbers. */
int ars__open_proc(struct ars__proc_file *file, const char *path) {
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return errno;
    int high = fcntl(fd, F_DUPFD_CLOEXEC, HIGH_FD);
    if (high >= 0) {
        close(fd);
        fd = high;
    }
    if (fstat(fd, &st)) return errno;
    *file = (struct ars__proc_file){fd, st.st_dev, st.st_ino};
    return 0;
}

/* ---- asking the kernel ------------------------------------------------------------------------------------------------- */

/* Linux 6.11; older headers do not have it. */
struct query {
    uint64_t size, query_flags, query_addr;
    uint64_t vma_start, vma_end, vma_flags, vma_page_size, vma_offset, inode;
    uint32_t dev_major, dev_minor, vma_name_size, build_id_size;
    uint64_t vma_name_addr, build_id_addr;
};
#define QUERY _IOWR('f', 17, struct query)
enum { QUERY_WRITABLE = 2, QUERY_SHARED = 8, QUERY_OR_NEXT = 16 };

/* What is ours lies between guards, so no mapping is partly ours. */
static bool is_ours(const struct ars__mappings *all, uintptr_t at) {
    for (int i = 0; i < 2; i++)
        if (at >= all->ours[i][0] && at < all->ours[i][1]) return true;
    return false;
}

static bool add_mapping(struct ars__mappings *all, uintptr_t from, uintptr_t to, bool of_file) {
    if (is_ours(all, from)) return true;
    if (all->n_looked_at == ARS__MOST_MAPPINGS) return false;
    const struct ars__mapping *last = all->n_looked_at ? &all->looked_at[all->n_looked_at - 1] : NULL;
    const bool is_static = of_file || (last && last->of_file && last->to == from);
    all->looked_at[all->n_looked_at++] = (struct ars__mapping){from, to, 0, of_file, is_static};
    return true;
}

static bool query_mappings(struct ars__mappings *all) {
    for (uint64_t at = 0;;) {
        struct query q = {.size = sizeof q, .query_flags = QUERY_WRITABLE | QUERY_OR_NEXT, .query_addr = at};
        const long failed = ars__raw(SYS_ioctl, all->file.fd, (long)QUERY, (long)&q, 0, 0, 0);
        if (failed) return failed == -ENOENT;
        at = q.vma_end;
        if (!(q.vma_flags & QUERY_SHARED) && !add_mapping(all, q.vma_start, q.vma_end, q.inode != 0)) return false;
    }
}

/* "7f12a0000000-7f12a0021000 rw-p 00000000 08:01 1234  /lib/..." */
static bool add_line(struct ars__mappings *all, const char *line) {
    char *at;
    uintptr_t from = strtoull(line, &at, 16), to = strtoull(at + 1, &at, 16);
    if (at[2] != 'w' || at[4] != 'p') return true;
    strtoull(at + 5, &at, 16);
    strtoull(at, &at, 16);
    strtoull(at + 1, &at, 16);
    return add_mapping(all, from, to, strtoull(at, NULL, 10) != 0);
}

static bool read_mappings(struct ars__mappings *all) {
    size_t used = 0;
    for (ssize_t n; used + 1 < sizeof all->text; used += (size_t)n) {
        n = pread(all->file.fd, all->text + used, sizeof all->text - 1 - used, (off_t)used);
        if (n < 0) return false;
        if (n == 0) break;
    }
    if (used + 1 == sizeof all->text) return false;
    all->text[used] = 0;
    for (const char *line = all->text; *line; line = strchr(line, '\n') + 1)
        if (!add_line(all, line)) return false;
    return true;
}

/* True: they are known, in looked_at. */
bool ars__mappings_look(struct ars__mappings *all) {
    all->n_looked_at = 0;
    return all->queries ? query_mappings(all) : ars__still_open(&all->file) && read_mappings(all);
}

bool ars__mappings_same(const struct ars__mappings *all) {
    if (all->n_looked_at != all->n) return false;
    for (size_t i = 0; i < all->n; i++) {
        const struct ars__mapping *a = &all->at[i], *b = &all->looked_at[i];
        if (a->from != b->from || a->to != b->to || a->of_file != b->of_file) return false;
    }
    return true;
}

/* Numbers the pages. False: there are too many. */
bool ars__mappings_take(struct ars__mappings *all) {
    size_t n = 0;
    all->stack_from = 0;
    for (size_t i = 0; i < all->n_looked_at; i++) {
        struct ars__mapping *m = &all->at[i];
        *m = all->looked_at[i];
        m->first = (uint32_t)n;
        n += (m->to - m->from) / ARS__PAGE_BYTES;
        if (n > ARS__MOST_SPACE) return false;
        if (m->from <= all->stack_holds && all->stack_holds < m->to) all->stack_from = m->from;
    }
    all->n = all->n_looked_at;
    return true;
}

const struct ars__mapping *ars__mapping_of(const struct ars__mappings *all, uintptr_t at) {
    for (size_t i = 0; i < all->n; i++)
        if (all->at[i].from <= at && at < all->at[i].to) return &all->at[i];
    return NULL;
}

int ars__mappings_open(struct ars__mappings *m) {
    m->stack_holds = getauxval(AT_RANDOM);
    const int why = ars__open_proc(&m->file, "/proc/self/maps");
    if (why) return why;
    m->n_looked_at = 0;
    m->queries = query_mappings(m);
    return 0;
}

#endif
