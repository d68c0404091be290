/* driver.c: a main for the fuzz targets where libFuzzer is not at hand. It runs every file of a corpus, then mutations of
 * them, from a seed: the same command makes the same inputs. Crashes are found by the sanitizer that it is built with.
 *
 *   fuzz_message [-runs=N] [-seed=S] [-max_len=L] FILE_OR_DIRECTORY...
 *
 * An input that ends the program is left in crash-NAME, written before it is run when ARS_FUZZ_KEEP is set. */
#include <dirent.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
    unsigned char *bytes;
    size_t size;
};

static struct input *corpus;
static size_t n_corpus, largest = 4096;
static uint64_t state;
static const char *keep;

static void *need(void *memory) {
    if (memory) return memory;
    fprintf(stderr, "no memory\n");
    exit(2);
}

static uint64_t next(void) { /* xorshift64* */
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * 2685821657736338717ull;
}

static size_t below(size_t n) {
    return n ? (size_t)(next() % n) : 0;
}

/* ---- the corpus -------------------------------------------------------------------------------------------------- */

static void add_file(const char *path) {
    FILE *f = fopen(path, "rb");
    if (!f) {
        perror(path);
        exit(2);
    }
    unsigned char *bytes = need(malloc(largest));
    size_t size = fread(bytes, 1, largest, f);
    fclose(f);
    corpus = need(realloc(corpus, (n_corpus + 1) * sizeof *corpus));
    corpus[n_corpus++] = (struct input){bytes, size};
}

static int by_name(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

static void add(const char *path) {
    struct stat st;
    if (stat(path, &st)) {
        perror(path);
        exit(2);
    }
    if (!S_ISDIR(st.st_mode)) {
        add_file(path);
        return;
    }
    struct dirent **names;
    int n = scandir(path, &names, NULL, by_name); /* in order, or a seed would not say what is run */
    for (int i = 0; i < n; i++) {
        char full[PATH_MAX];
        if (names[i]->d_name[0] != '.' && snprintf(full, sizeof full, "%s/%s", path, names[i]->d_name) > 0) add(full);
        free(names[i]);
    }
    if (n >= 0) free(names);
}

/* ---- mutations --------------------------------------------------------------------------------------------------- */

static void put_number(unsigned char *bytes, size_t size) {
    static const uint64_t interesting[] = {0,          1,
                                           2,          7,
                                           8,          0x7f,
                                           0x80,       0xff,
                                           0x100,      0x7fff,
                                           0xffff,     0x10000,
                                           0x7fffffff, 0x80000000,
                                           0xffffffff, 0x100000000,
                                           INT64_MAX,  (uint64_t)INT64_MIN,
                                           UINT64_MAX, UINT64_MAX - 7};
    static const double numbers[] = {0.0, -0.0, 1.0, -1.0, 0.5, 1e300, -1e300, 1e-310, 4.0, 13.0};
    const uint64_t not_finite[] = {0x7ff0000000000000, 0xfff0000000000000, 0x7ff8000000000000, 0x7ff0000000000001};
    size_t width = (size_t)1 << below(4), at = below(size);
    if (width == 8) at &= ~(size_t)7;
    if (at + width > size) return;
    uint64_t value;
    switch (below(5)) {
    case 0:
        value = interesting[below(sizeof interesting / sizeof *interesting)];
        break;
    case 1:
        memcpy(&value, &numbers[below(sizeof numbers / sizeof *numbers)], sizeof value);
        break;
    case 2:
        value = not_finite[below(4)];
        break;
    case 3: /* near what is there */
        value = 0;
        memcpy(&value, bytes + at, width);
        value += below(33) - 16;
        break;
    default:
        value = next();
    }
    memcpy(bytes + at, &value, width);
}

static size_t splice(unsigned char *bytes, size_t size) {
    const struct input *other = &corpus[below(n_corpus)];
    size_t from = below(other->size), n = below(other->size - from + 1), at = below(size + 1);
    if (n > largest - at) n = largest - at;
    memcpy(bytes + at, other->bytes + from, n);
    return at + n > size ? at + n : size;
}

static size_t insert(unsigned char *bytes, size_t size) {
    size_t at = below(size + 1), n = 1 + below(below(2) ? 8 : 64);
    if (size + n > largest) return size;
    memmove(bytes + at + n, bytes + at, size - at);
    if (size && below(2)) { /* a copy of what is there */
        size_t from = below(size);
        for (size_t i = 0; i < n; i++) bytes[at + i] = bytes[(from + i) % size];
    } else {
        for (size_t i = 0; i < n; i++) bytes[at + i] = (unsigned char)next();
    }
    return size + n;
}

static size_t delete (unsigned char *bytes, size_t size) {
    size_t at = below(size), n = 1 + below(below(2) ? 8 : 64);
    if (n > size - at) n = size - at;
    memmove(bytes + at, bytes + at + n, size - at - n);
    return size - n;
}

static size_t mutate(unsigned char *bytes, size_t size) {
    for (size_t i = 1 + below(4); i > 0; i--) {
        switch (size ? below(8) : 0) {
        case 0:
            size = insert(bytes, size);
            break;
        case 1:
            size = delete (bytes, size);
            break;
        case 2:
            size = splice(bytes, size);
            break;
        case 3:
            bytes[below(size)] ^= (unsigned char)(1u << below(8));
            break;
        case 4:
            size = below(size + 1);
            break;
        default:
            put_number(bytes, size);
        }
    }
    return size;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

/* In memory of exactly this size, so that a sanitizer sees every byte read beyond. */
static void run(const unsigned char *bytes, size_t size) {
    unsigned char *exact = need(malloc(size ? size : 1));
    memcpy(exact, bytes, size);
    FILE *f = keep ? fopen(keep, "wb") : NULL;
    if (f) {
        fwrite(exact, 1, size, f);
        fclose(f);
    }
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
}

int main(int argc, char **argv) {
    unsigned long long runs = 0, seed = 1;
    keep = getenv("ARS_FUZZ_KEEP");
    for (int i = 1; i < argc; i++) {
        unsigned long long length;
        if (sscanf(argv[i], "-runs=%llu", &runs) == 1 || sscanf(argv[i], "-seed=%llu", &seed) == 1) continue;
        if (sscanf(argv[i], "-max_len=%llu", &length) == 1)
            largest = (size_t)length;
        else if (argv[i][0] != '-')
            add(argv[i]);
    }
    for (size_t i = 0; i < n_corpus; i++) run(corpus[i].bytes, corpus[i].size);
    unsigned char *bytes = need(malloc(largest + 64));
    for (unsigned long long i = 0; i < runs; i++) {
        state = (seed * 0x9e3779b97f4a7c15ull ^ i * 0xbf58476d1ce4e5b9ull) | 1;
        for (int k = 0; k < 4; k++) next();
        size_t size = 0;
        if (n_corpus) {
            const struct input *from = &corpus[below(n_corpus)];
            memcpy(bytes, from->bytes, size = from->size);
        }
        run(bytes, mutate(bytes, size));
    }
    free(bytes);
    for (size_t i = 0; i < n_corpus; i++) free(corpus[i].bytes);
    printf("%zu files and %llu mutations, no finding\n", n_corpus, runs);
    free(corpus);
    return 0;
}
