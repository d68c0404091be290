/* host_path.c: where ars-host is, in an installation that may have been moved since it was built. */
#define _GNU_SOURCE
#include "host_path.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef ARS_HOST_PATH /* empty: it is not known at build time, as for a Python wheel */
#define ARS_HOST_PATH "/usr/local/libexec/ars/ars-host"
#endif
#ifndef ARS_HOST_FROM_LIB /* from the folder of libars to ars-host */
#define ARS_HOST_FROM_LIB "../libexec/ars/ars-host"
#endif

static bool can_run(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

__attribute__((format(printf, 2, 3))) static void say(struct ars__host_path *host, const char *format, ...) {
    size_t used = strlen(host->problem);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(host->problem + used, sizeof host->problem - used, format, arguments);
    va_end(arguments);
}

/* The file whose code this is: libars.so, or the program that libars.a is linked into. Empty if /proc does not say. The
 * kernel's name is absolute, however the file was found and wherever the simulator has changed directory to since. */
static void file_of_libars(char file[PATH_MAX]) {
    const uintptr_t here = (uintptr_t)&file_of_libars;
    file[0] = '\0';
    FILE *maps = fopen("/proc/self/maps", "re");
    if (!maps) return;
    char *line = NULL;
    size_t room = 0;
    while (!file[0] && getline(&line, &room, maps) > 0) {
        uintptr_t low, high;
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &low, &high) != 2 || here < low || here >= high) continue;
        const char *path = strchr(line, '/');
        if (!path) break;
        int length = (int)strcspn(path, "\n");
        if (length < PATH_MAX) snprintf(file, PATH_MAX, "%.*s", length, path);
    }
    free(line);
    fclose(maps);
}

static void program_file(char file[PATH_MAX]) {
    ssize_t n = readlink("/proc/self/exe", file, PATH_MAX - 1);
    file[n < 0 ? 0 : n] = '\0';
}

/* Whoever may write to a folder that nobody named could leave a program for us there: a simulator in /tmp is the example. So
 * what is found there must belong to root, to us, or to the owner of the file that led to it. */
static bool trusted(const char *path, const char *file) {
    struct stat found, from;
    if (stat(path, &found) != 0) return false;
    return found.st_uid == 0 || found.st_uid == geteuid() || (stat(file, &from) == 0 && found.st_uid == from.st_uid);
}

/* Is it there, seen from the folder of this file? */
static bool is_near(struct ars__host_path *host, const char *file, const char *way) {
    const char *slash = strrchr(file, '/');
    if (!slash) return false;
    int n = snprintf(host->made, sizeof host->made, "%.*s/%s", (int)(slash - file), file, way);
    if (n < 0 || (size_t)n >= sizeof host->made) return false;
    host->path = host->made;
    bool there = can_run(host->path);
    if (there && trusted(host->path, file)) return true;
    say(host, " %.180s%s,", host->path, there ? " (which belongs to another user)" : "");
    return false;
}

static bool is_where_it_was_installed(struct ars__host_path *host) {
    host->path = ARS_HOST_PATH;
    if (!*host->path) return false;
    if (can_run(host->path)) return true;
    say(host, " %.180s,", host->path);
    return false;
}

static bool is_on_path(struct ars__host_path *host) {
    const char *rest = getenv("PATH");
    host->path = host->made;
    while (rest && *rest) {
        int length = (int)strcspn(rest, ":");
        int n = snprintf(host->made, sizeof host->made, "%.*s/ars-host", length, rest);
        if (length > 0 && n > 0 && (size_t)n < sizeof host->made && can_run(host->path)) return true;
        rest += length;
        rest += *rest == ':';
    }
    say(host, " and not on the PATH");
    return false;
}

bool ars__host_find(struct ars__host_path *host) {
    host->problem[0] = '\0';
    host->path = getenv("ARS_HOST");
    if (host->path && *host->path) {
        if (can_run(host->path)) return true;
        say(host, "ARS_HOST=%.300s is not an executable file; set it to the path of ars-host, or unset it", host->path);
        return false;
    }
    say(host, "ars-host was not found. Put it beside the simulator or on the PATH, or set ARS_HOST to its path. It is "
              "not at");
    char libars[PATH_MAX], program[PATH_MAX];
    file_of_libars(libars);
    program_file(program);
    return is_near(host, libars, ARS_HOST_FROM_LIB) || is_where_it_was_installed(host) ||
           is_near(host, program, "ars-host") || is_on_path(host);
}
