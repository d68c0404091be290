/* path_names.c: checks a question about a call path, and lets names.c answer it. */
#include "path_names.h"

#include <stdio.h>
#include <string.h>

#include "names.h"

/* NULL: not a string of the body. */
static const char *string_at(const unsigned char *body, uint32_t size, uint32_t from, uint32_t at) {
    if (at < from || at >= size || !memchr(body + at, 0, size - at)) return NULL;
    return (const char *)body + at;
}

bool host_path_name(struct host *host, const unsigned char *body, uint32_t size, char *name, size_t room,
                    ars__why *why) {
    enum { MOST = (ARS_WIRE_MAX_STEP - sizeof(struct ars__path_question)) / sizeof(struct ars__path_frame) };
    struct host_frame frames[MOST];
    struct ars__path_question question = {0, 0};
    char program[40];
    snprintf(program, sizeof program, "/proc/%d/exe", (int)host->zygote_pid); /* also if the file has been replaced */
    if (size >= sizeof question) memcpy(&question, body, sizeof question);
    const size_t strings = sizeof question + (size_t)question.n_frames * sizeof(struct ars__path_frame);
    if (!question.n_frames || question.n_frames > MOST || strings > size)
        return snprintf(why->text, sizeof why->text, "a call path of %u frames in %u bytes", question.n_frames, size),
               false;
    for (uint32_t i = 0; i < question.n_frames; i++) {
        struct ars__path_frame frame;
        memcpy(&frame, body + sizeof question + i * sizeof frame, sizeof frame);
        const char *module = string_at(body, size, (uint32_t)strings, frame.module_at);
        if (!module) return snprintf(why->text, sizeof why->text, "a call path without the name of a module"), false;
        frames[i] = (struct host_frame){*module ? module : program, frame.offset};
    }
    const uint32_t n = question.n_frames - (question.has_model ? 1 : 0);
    host_names_in_model(question.has_model ? &frames[n] : NULL, frames, n, name, room);
    return true;
}
