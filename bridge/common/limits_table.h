/* limits_table.h: the one table of defaults and limits. libars reads its numbers at compile time; Python reads all of it
 * (bridge/python/limit_rows.h), and makes the defaults of Simulator and the texts of --help from it. Tests compare docs/. */
#ifndef ARS_COMMON_LIMITS_TABLE_H
#define ARS_COMMON_LIMITS_TABLE_H

#include <stdint.h>

/* Sizes of tables in shared memory, so no setting goes beyond them. */
enum {
    ARS__MAX_WORKERS = 256,
    ARS__MAX_SNAPSHOTS = 1024 /* per worker */
};

/* X(NAME, name, default, least, most, unit, default in words, meaning)
 *
 * default in words: empty if the number says it. workers has none: its default follows from the number of
 * cores. unit: "s", "B" for bytes, or empty for a count. */
#define ARS__LIMITS(X)                                                                                                 \
    X(TRACE_TIMEOUT, "trace_timeout", 60, 0, UINT64_MAX, "s", "",                                                      \
      "seconds per trace, excluding waits for a core or for proposals; 0: no limit")                                   \
    X(TRY_TIMEOUT, "try_timeout", 0, 0, UINT64_MAX, "s", "no limit", "seconds per try of a loop")                      \
    X(MAX_TRIES, "max_tries", 10000000, 1, UINT64_C(1) << 63, "", "", "tries per loop entry, and per continuation")    \
    X(MAX_SNAPSHOTS, "max_snapshots", 256, 1, ARS__MAX_SNAPSHOTS, "", "",                                              \
      "snapshots per worker, which limits the loops that a trace may enter")                                           \
    X(MAX_PROCESSES, "max_processes", 4096, 3, UINT64_C(1) << 31, "", "",                                              \
      "workers, snapshots and continuations alive at once")                                                            \
    X(MAX_MEMORY, "max_memory", 0, 0, UINT64_C(1) << 61, "B", "half of RAM",                                           \
      "memory limit per process, e.g. 2G; 0: no limit")                                                                \
    X(MAX_RESTARTS, "max_restarts", 3, 0, UINT64_C(1) << 31, "", "",                                                   \
      "consecutive restarts of a lost simulator without a finished trace")                                             \
    X(STARTUP_TIMEOUT, "startup_timeout", 60, 0, UINT64_MAX, "s", "",                                                  \
      "seconds until the simulator begins its first trace")                                                            \
    X(LISTEN_TIMEOUT, "listen_timeout", 600, 0, UINT64_MAX, "s", "",                                                   \
      "seconds to wait, each time, for a simulator on another machine")                                                \
    X(WORKERS, "workers", 0, 1, ARS__MAX_WORKERS, "", "", "processes that run traces")                                 \
    X(WORKERS_PER_CORE, "workers_per_core", 8, 1, ARS__MAX_WORKERS, "", "", "workers per core")                        \
    X(ASKING_PER_CORE, "asking_per_core", 32, 1, ARS__MAX_WORKERS, "", "",                                             \
      "workers per core in runs that request proposals")

enum ars__default {
#define ARS__X(NAME, name, standard, least, most, unit, words, meaning) ARS__DEFAULT_##NAME = (standard),
    ARS__LIMITS(ARS__X)
#undef ARS__X
};

#endif /* ARS_COMMON_LIMITS_TABLE_H */
