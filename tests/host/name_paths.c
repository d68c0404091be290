/* name_paths.c: names of call paths on standard input: a line has modules and addresses, innermost frame first. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "names.h"

int main(int argc, char **argv) {
    static char line[1 << 16];
    size_t size = argc > 1 ? (size_t)atoi(argv[1]) : 4096;
    char *text = malloc(size);
    while (text && fgets(line, sizeof line, stdin)) {
        struct host_frame frames[128];
        size_t n = 0;
        char *rest = NULL;
        for (char *word = strtok_r(line, " \n", &rest); word && n < 128; word = strtok_r(NULL, " \n", &rest)) {
            char *offset = strtok_r(NULL, " \n", &rest);
            if (offset) frames[n++] = (struct host_frame){word, strtoull(offset, NULL, 16)};
        }
        if (!n) continue;
        enum host_names_quality quality = host_names_of_path(frames, n, text, size);
        printf("%s %s\n", host_names_quality_word(quality), text);
    }
    host_names_forget();
    free(text);
    return 0;
}
