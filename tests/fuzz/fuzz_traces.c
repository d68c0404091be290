/* fuzz_traces.c: any bytes as the frames of a TRACES message. An input is the sizes of the frames, two bytes each, then
 * the frames; each is copied to memory of its own. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct script s = {data, size};
    uint16_t sizes[1 + ARS__COLUMNS];
    ars__bytes frames[1 + ARS__COLUMNS];
    unsigned char *copies[1 + ARS__COLUMNS];
    ars__why why = {""};
    script_take(&s, sizes, sizeof sizes);
    for (int i = 0; i <= ARS__COLUMNS; i++) {
        size_t n = sizes[i] < s.left ? sizes[i] : s.left;
        if (!(copies[i] = malloc(n + 1))) abort();
        script_take(&s, copies[i] + 1, n); /* at an odd address */
        frames[i] = (ars__bytes){copies[i] + 1, n};
    }
    if (!ars__check_traces(frames[0], frames + 1, FUZZ_SITES, &why)) PROMISE(why.text[0]);
    for (int i = 0; i <= ARS__COLUMNS; i++) free(copies[i]);
    return 0;
}
