/* test_wire.c: the golden frames, valid and broken, through wire_check.h; then every valid one cut short at every byte, and
 * with every byte changed: nothing may crash or be read out of bounds (run it under ASan). */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "wire_check.h"

enum { MAX_FRAMES = 16 };

/* The sites of sites.bin. */
static const uint8_t kinds[] = {ARS_SITE_SAMPLE, ARS_SITE_SAMPLE, ARS_SITE_OBSERVE, ARS_SITE_RESULT, ARS_SITE_LOOP};
static const uint8_t dists[] = {ARS_DIST_NORMAL, ARS_DIST_UNIFORM, ARS_DIST_NORMAL, 0, 0};
static const ars__known_sites sites = {sizeof kinds, kinds, dists};

static unsigned char *read_file(const char *name, size_t *size) {
    char path[1024];
    snprintf(path, sizeof path, "%s/host/golden/%s", ARS_TESTS_DIR, name);
    FILE *f = fopen(path, "rb");
    if (!f) {
        fprintf(stderr, "cannot open %s\n", path);
        exit(1);
    }
    fseek(f, 0, SEEK_END);
    *size = (size_t)ftell(f);
    rewind(f);
    unsigned char *data = malloc(*size + 1);
    if (!data || fread(data, 1, *size, f) != *size) exit(1);
    fclose(f);
    data[*size] = 0;
    return data;
}

/* A copy of exactly this size on the heap, at an odd address, so that a sanitizer sees every byte read beyond. */
static bool check_exact(const unsigned char *bytes, size_t size, ars__why *why) {
    unsigned char *copy = malloc(size + 1);
    if (!copy) exit(1);
    memcpy(copy + 1, bytes, size);
    bool good = ars__check_message(copy + 1, size, sites, why);
    free(copy);
    return good;
}

static bool check_frames(unsigned char *data, const size_t *sizes, int n, ars__why *why) {
    if (n == 1) return check_exact(data, sizes[0], why);
    ars__bytes frames[MAX_FRAMES];
    for (int i = 0; i < n; i++) {
        frames[i] = (ars__bytes){data, sizes[i]};
        data += sizes[i];
    }
    CHECK(n == 1 + ARS__COLUMNS);
    return ars__check_traces(frames[0], frames + 1, sites, why);
}

/* Whatever the answer is, it must be given without a crash. Returns how many of the changed messages were refused. */
static int mutilate(unsigned char *data, const size_t *sizes, int n) {
    ars__why why;
    int refused = 0;
    size_t total = 0;
    for (int i = 0; i < n; i++) total += sizes[i];
    static const unsigned char flips[] = {0x01, 0x80, 0xff};
    for (size_t at = 0; at < total; at++)
        for (size_t k = 0; k < sizeof flips; k++) {
            data[at] ^= flips[k];
            refused += !check_frames(data, sizes, n, &why);
            data[at] ^= flips[k];
        }
    for (size_t size = 0; n == 1 && size < total; size++) {
        uint16_t type;
        memcpy(&type, data + 6, sizeof type);
        bool cut_text = type == ARS_MSG_ERROR && size >= sizeof(struct ars_wire_header);
        CHECK(!check_exact(data, size, &why)); /* the header's size is wrong now */
        struct ars_wire_header h;
        if (size < sizeof h) continue;
        memcpy(&h, data, sizeof h);
        uint32_t kept = h.size;
        h.size = (uint32_t)size;
        memcpy(data, &h, sizeof h);
        CHECK(check_exact(data, size, &why) == cut_text);
        h.size = kept;
        memcpy(data, &h, sizeof h);
    }
    return refused;
}

/* One line of index.json: {"file": "x.bin", "valid": true, "frames": [72], "reason": ""} */
static bool parse_line(const char *line, char *name, bool *valid, size_t *sizes, int *n) {
    char word[8];
    if (sscanf(line, "{\"file\": \"%99[^\"]\", \"valid\": %7[a-z]", name, word) != 2) return false;
    *valid = !strcmp(word, "true");
    const char *at = strstr(line, "\"frames\": [");
    for (*n = 0, at = at ? strchr(at, '[') : NULL; at && *at != ']' && *n < MAX_FRAMES;) {
        char *end;
        sizes[(*n)++] = strtoul(at + 1, &end, 10);
        at = end;
    }
    return at != NULL;
}

static void check_entry(const char *name, bool valid, const size_t *sizes, int n) {
    size_t size, total = 0;
    unsigned char *data = read_file(name, &size);
    for (int i = 0; i < n; i++) total += sizes[i];
    CHECK(total == size);
    ars__why why = {""};
    bool good = check_frames(data, sizes, n, &why);
    if (good != valid) {
        fprintf(stderr, "%s: %s\n", name, good ? "accepted, but it is broken" : why.text);
        check_failures++;
    }
    if (!good) CHECK(why.text[0] != 0);
    if (valid) CHECK(mutilate(data, sizes, n) > 0);
    free(data);
}

int main(void) {
    size_t size;
    char *index = (char *)read_file("index.json", &size);
    int valid_ones = 0, broken_ones = 0;
    for (char *line = strtok(index, "\n"); line; line = strtok(NULL, "\n")) {
        char name[100];
        bool valid;
        size_t sizes[MAX_FRAMES];
        int n;
        if (!parse_line(line, name, &valid, sizes, &n)) continue;
        check_entry(name, valid, sizes, n);
        *(valid ? &valid_ones : &broken_ones) += 1;
    }
    free(index);
    CHECK(valid_ones >= 11); /* every message type */
    CHECK(broken_ones >= 60);
    return check_failures != 0;
}
