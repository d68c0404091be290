/* draw.c: in the place of libars: a draw prints the frames that wait for it, innermost first, as modules and the addresses
 * that the linker gave them. Compiled without optimisation. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <stdio.h>

static double draw(void) {
    void *frames[100];
    int n = backtrace(frames, 100);
    for (int i = 2; i < n; i++) { /* without draw and the function that called it */
        Dl_info info;
        struct link_map *map;
        if (!dladdr1(frames[i], &info, (void **)&map, RTLD_DL_LINKMAP)) continue;
        printf("%s %lx ", info.dli_fname, (unsigned long)frames[i] - (unsigned long)map->l_addr);
    }
    puts("");
    return 0.25;
}

double ars_flat(void) {
    return draw() + 0;
}

double ars_sample(const char *name, double mean) {
    return draw() + (name ? mean : 0);
}
