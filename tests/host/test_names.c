/* Names of call paths: readable names, the decoder of machine code, and files that are not what they should be. The names of whole
 * programs, by all compilers, are in test_path_names.py. */
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "code.h"
#include "demangle.h"
#include "names.h"

/* ---- readable names --------------------------------------------------------------------------------------------------- */

static const char *readable(const char *symbol) {
    static char text[256];
    host_demangle(symbol, text, sizeof text);
    return text;
}

static void symbols(void) {
    CHECK_TEXT(readable("decay"), "decay");
    CHECK_TEXT(readable("decay.part.0"), "decay");
    CHECK_TEXT(readable("model.12"), "model"); /* inside another function, in C or Fortran */
    CHECK_TEXT(readable("inner.0.constprop.1"), "inner");
    CHECK_TEXT(readable(".7"), ".7");
    CHECK_TEXT(readable("decay.constprop.0.isra.0"), "decay");
    CHECK_TEXT(readable("decay.cold"), "decay");
    CHECK_TEXT(readable("decay.lto_priv.3"), "decay");
    CHECK_TEXT(readable("_ZN7Pythia89TauDecays5decayEiRNS_5EventE"), "Pythia8::TauDecays::decay");
    CHECK_TEXT(readable("_ZN7Pythia89TauDecays5decayEiRNS_5EventE.part.0"), "Pythia8::TauDecays::decay");
    CHECK_TEXT(readable("_Z5smearIdET_S0_"), "smear");
    CHECK_TEXT(readable("_ZSt4sortIPdEvT_S1_"), "std::sort");
    CHECK_TEXT(readable("_ZNSt6vectorIdSaIdEE9push_backERKd"), "std::vector::push_back");
    CHECK_TEXT(readable("_ZN8detector6SquareC2Ed"), "detector::Square::Square");
    CHECK_TEXT(readable("_ZN8detector6SquareD0Ev"), "detector::Square::~Square");
    CHECK_TEXT(readable("_ZN12_GLOBAL__N_16helperEd"), "helper");
    CHECK_TEXT(readable("_ZL6helperd"), "helper");
    CHECK_TEXT(readable("_ZNK8detector3SumdvEd"), "detector::Sum::operator_divide");
    CHECK_TEXT(readable("_ZN8detector3SumclEd"), "detector::Sum::operator()");
    CHECK_TEXT(readable("_ZN1AcvdEv"), "A::operator_cast");
    CHECK_TEXT(readable("_ZZ5modelvENKUlRKSt6vectorIdSaIdEEE0_clES3_"), "model::lambda"); /* GCC */
    CHECK_TEXT(readable("_ZZ5modelvENK3$_1clEv"), "model::lambda");                       /* Clang */
    CHECK_TEXT(readable("_ZZN8detector5modelEiEN5Local3getEv"), "detector::model::Local::get");
    CHECK_TEXT(readable("_ZThn16_N1B4areaEv"), "B::area");
    CHECK_TEXT(readable("_ZN1AILi3EL5Color2EE3getEv"), "A::get");
    CHECK_TEXT(readable("_ZN1AILN3sub5ColorE2EE3getEv"), "A::get");
    CHECK_TEXT(readable("_ZN1AIA10_dE3getEv"), "A::get");
    CHECK_TEXT(readable("_ZN3fooB5cxx114nameEv"), "foo::name");
    CHECK_TEXT(readable("__tau_MOD_decay"), "tau::decay"); /* gfortran */
    CHECK_TEXT(readable("odd/name#1>x y"), "odd_name_1_x_y");
    CHECK_TEXT(readable("_Z"), "_Z");
    CHECK_TEXT(readable("_ZN99x"), "_ZN99x");
}

static const char *added(const char *scope, const char *name) {
    static char text[256];
    snprintf(text, sizeof text, "%s", scope);
    host_name_add(name, text, sizeof text);
    return text;
}

/* As debug information has them: they must equal those of symbols. */
static void names(void) {
    CHECK_TEXT(added("", "main"), "main");
    CHECK_TEXT(added("detector", "smear<double>"), "detector::smear");
    CHECK_TEXT(added("A", "operator/"), "A::operator_divide");
    CHECK_TEXT(added("A", "operator<"), "A::operator<");
    CHECK_TEXT(added("A", "operator< <int>"), "A::operator<");
    CHECK_TEXT(added("A", "operator<< <int>"), "A::operator<<");
    CHECK_TEXT(added("A", "operator()"), "A::operator()");
    CHECK_TEXT(added("A", "operator double"), "A::operator_cast");
    CHECK_TEXT(added("model", "<lambda(double)>"), "model::lambda");
    CHECK_TEXT(added("model::lambda", "operator()"), "model::lambda");
    CHECK_TEXT(added("model::lambda", "operator()<int>"), "model::lambda");
}

/* A name of any length and depth ends, and stays inside its buffer. */
static void endless_names(void) {
    enum { LONG = 1 << 20 };
    char *name = malloc(LONG);
    const char *const parts[] = {"N", "UlUl", "ZN", "I", "LN", "1aI", "S", "T", "L", "9", "Dt", "ZZ"};
    for (size_t k = 0; name && k < sizeof parts / sizeof *parts; k++) {
        memcpy(name, "_Z", 2);
        size_t n = strlen(parts[k]);
        for (size_t i = 2; i < LONG - 1; i++) name[i] = parts[k][(i - 2) % n];
        name[LONG - 1] = 0;
        char text[64];
        host_demangle(name, text, sizeof text);
        CHECK(strlen(text) < sizeof text);
    }
    free(name);
}

/* ---- machine code ------------------------------------------------------------------------------------------------------ */

/* A file with one section of code at address 0x1000, which has these bytes. */
static struct host_elf code_of(const unsigned char *bytes, size_t size, uint16_t machine) {
    static struct host_section section;
    section = (struct host_section){.name = ".text",
                                    .address = 0x1000,
                                    .size = size,
                                    .flags = SHF_EXECINSTR,
                                    .tried = true,
                                    .data = (unsigned char *)bytes};
    return (struct host_elf){.fd = -1, .machine = machine, .sections = &section, .n_sections = 1};
}

static void x86(void) {
    static const unsigned char bytes[] = {
        0x48, 0xb8, 0xe8, 0,    0,    0,    0,    0, 0, 0, /* mov $0xe8, %rax: no call in it */
        0xc5, 0xfb, 0x59, 0x05, 0xe8, 0,    0,    0,       /* vmulsd 0xe8(%rip), %xmm0, %xmm0 */
        0x66, 0x81, 0x3c, 0x24, 0xe8, 0xe8,                /* cmpw $0xe8e8, (%rsp) */
        0xf6, 0x44, 0x24, 0x08, 0xe8,                      /* testb $0xe8, 8(%rsp) */
        0xe8, 0x10, 0,    0,    0,                         /* 101d: call 1032 */
        0x62, 0xf1, 0xed, 0x08, 0x59, 0x44, 0x24, 1,       /* vmulpd 16(%rsp), %xmm2, %xmm0 */
        0xff, 0x15, 0x00, 0x10, 0,    0,                   /* 102a: call *0x1000(%rip) */
        0xff, 0x50, 0x10,                                  /* 1030: call *0x10(%rax) */
        0x41, 0xff, 0xd4,                                  /* 1033: call *%r12 */
        0xe9, 0xc5, 0xff, 0xff, 0xff,                      /* 1036: jmp 1000 */
        0xff, 0xe0,                                        /* 103b: jmp *%rax */
    };
    static const struct host_call wanted[] = {
        {0x101d, 0x1022, 0x1032, HOST_CALL, false, false, false},
        {0x102a, 0x1030, 0x2030, HOST_CALL, true, false, false},
        {0x1030, 0x1033, 0, HOST_CALL, false, true, false},
        {0x1033, 0x1036, 0, HOST_CALL, false, true, false},
        {0x1036, 0x103b, 0x1000, HOST_JUMP, false, false, false},
        {0x103b, 0x103d, 0, HOST_JUMP, false, true, false},
    };
    struct host_elf elf = code_of(bytes, sizeof bytes, EM_X86_64);
    struct host_call call;
    uint64_t at = 0x1000;
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++, at = call.after) {
        CHECK(host_code_next(&elf, at, 0x1000 + sizeof bytes, &call));
        CHECK(call.at == wanted[i].at && call.after == wanted[i].after && call.target == wanted[i].target);
        CHECK(call.transfer == wanted[i].transfer && call.slot == wanted[i].slot &&
              call.indirect == wanted[i].indirect && !call.table);
        struct host_call before;
        bool found = host_code_before(&elf, call.after, &before);
        CHECK(found == (call.transfer == HOST_CALL) &&
              (!found || (before.at >= call.at && before.target == call.target)));
    }
    CHECK(!host_code_next(&elf, at, 0x1000 + sizeof bytes, &call));
}

/* Jumps of a switch, and jumps to a function that look nearly alike. */
static void x86_tables(void) {
    static const struct {
        unsigned char bytes[8];
        size_t size;
        bool table;
    } cases[] = {
        {{0x48, 0x01, 0xd0, 0xff, 0xe0}, 5, true},              /* add %rdx, %rax; jmp *%rax */
        {{0x48, 0x03, 0xc2, 0x3e, 0xff, 0xe0}, 6, true},        /* add %rdx, %rax; notrack jmp *%rax */
        {{0x4d, 0x01, 0xc8, 0x41, 0xff, 0xe0}, 6, true},        /* add %r9, %r8; jmp *%r8 */
        {{0x49, 0x01, 0xc8, 0xff, 0xe0}, 5, false},             /* add %rcx, %r8; jmp *%rax */
        {{0x49, 0x01, 0xc0, 0xff, 0xe0}, 5, false},             /* add %rax, %r8; jmp *%rax */
        {{0x48, 0x8b, 0x00, 0xff, 0xe0}, 5, false},             /* mov (%rax), %rax; jmp *%rax */
        {{0xff, 0x24, 0xc5, 0x10, 0x20, 0x40, 0x00}, 7, true},  /* jmp *0x402010(,%rax,8) */
        {{0x42, 0xff, 0x24, 0xfd, 0, 0x20, 0x40, 0}, 8, true},  /* jmp *0x402000(,%r15,8) */
        {{0xff, 0x24, 0x25, 0x10, 0x20, 0x40, 0x00}, 7, false}, /* jmp *0x402010 */
        {{0x48, 0x01, 0xd0, 0xff, 0x60, 0x10}, 6, false},       /* add %rdx, %rax; jmp *0x10(%rax) */
        {{0xff, 0xe0}, 2, false},                               /* jmp *%rax */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct host_elf elf = code_of(cases[i].bytes, cases[i].size, EM_X86_64);
        struct host_call call;
        CHECK(host_code_next(&elf, 0x1000, 0x1000 + cases[i].size, &call));
        CHECK(call.transfer == HOST_JUMP && call.indirect && call.table == cases[i].table);
    }
}

static void arm(void) {
    static const uint32_t words[] = {
        0xd503201f, /* nop */
        0x94000002, /* 1004: bl 100c */
        0xd63f0020, /* 1008: blr x1 */
        0x17fffffd, /* 100c: b 1000 */
        0xd61f0200, /* 1010: br x16 */
        0x8b20c820, /* add x0, x1, w0, sxtw #2 */
        0xd61f0000, /* 1018: br x0: of a switch */
        0xd65f03c0, /* ret */
    };
    struct host_elf elf = code_of((const unsigned char *)words, sizeof words, EM_AARCH64);
    struct host_call call = {.after = 0x1000};
    CHECK(host_code_next(&elf, call.after, 0x1020, &call) && call.at == 0x1004 && call.target == 0x100c);
    CHECK(call.transfer == HOST_CALL && !call.indirect);
    CHECK(host_code_next(&elf, call.after, 0x1020, &call) && call.at == 0x1008 && call.indirect);
    CHECK(host_code_next(&elf, call.after, 0x1020, &call) && call.at == 0x100c && call.target == 0x1000);
    CHECK(call.transfer == HOST_JUMP);
    CHECK(host_code_next(&elf, call.after, 0x1020, &call) && call.at == 0x1010 && call.transfer == HOST_JUMP);
    CHECK(call.indirect && !call.table);
    CHECK(host_code_next(&elf, call.after, 0x1020, &call) && call.at == 0x1018 && call.table);
    CHECK(!host_code_next(&elf, call.after, 0x1020, &call));
}

/* ---- files --------------------------------------------------------------------------------------------------------------- */

static void files_that_are_none(void) {
    char text[128];
    const struct host_frame frames[] = {{"/nowhere/build-7/libx.so.1", 0x1234}, {"/dev/null", 0x10}, {"/", 3}};
    CHECK(host_names_of_path(frames, 3, text, sizeof text) == HOST_NAMES_UNREADABLE);
    CHECK_TEXT(text, "+0x2#1>null+0xf#1>libx.so.1+0x1233#1");
    CHECK(host_names_of_path(frames, 0, text, sizeof text) == HOST_NAMES_UNREADABLE);
    CHECK_TEXT(text, "");

    char small[40];
    host_names_of_path(frames, 3, text, 36); /* the outer functions give way to their hash */
    CHECK(text[0] == '~' && strlen(text) <= 35);
    host_names_of_path(&frames[0], 1, small, 32);
    CHECK(strlen(small) < 32);
    struct host_frame other[] = {frames[0], frames[1], {"/", 4}};
    host_names_of_path(frames, 3, text, 41);
    host_names_of_path(other, 3, small, 40);
    CHECK(strcmp(text + 17, small + 17) == 0 || text[0] == '~');
    CHECK(strncmp(text, small, 17) != 0);
    host_names_forget();
}

static uint64_t state = 88172645463325252u;

static uint64_t below(uint64_t n) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return n ? state % n : 0;
}

struct file {
    unsigned char *bytes;
    size_t size;
};

static struct file whole(const char *path) {
    struct stat st;
    int fd = open(path, O_RDONLY);
    struct file file = {0};
    if (fd < 0 || fstat(fd, &st)) return file;
    file.bytes = malloc((size_t)st.st_size);
    for (ssize_t n = 1; n > 0 && file.size < (size_t)st.st_size; file.size += (size_t)(n > 0 ? n : 0))
        n = read(fd, file.bytes + file.size, (size_t)st.st_size - file.size);
    close(fd);
    return file;
}

/* Some bytes of one section are others: bits flipped, or numbers as large as they get. */
static void damage(unsigned char *bytes, const struct host_elf *elf, size_t size) {
    uint64_t from = 0, range = size;
    if (below(8)) {
        const struct host_section *section = &elf->sections[below(elf->n_sections)];
        if (section->offset < size && section->size <= size - section->offset)
            from = section->offset, range = section->size;
    } else if (below(2)) {
        range = 4096; /* the header */
    }
    for (uint64_t n = 1 + below(64); n && range > 8; n--) {
        uint64_t at = from + below(range - 8);
        static const unsigned char odd[] = {0xff, 0x7f, 0x80, 0x00, 0x01};
        if (below(2))
            bytes[at] ^= (unsigned char)(1u << below(8));
        else
            memset(bytes + at, odd[below(sizeof odd)], 1 + below(8));
    }
}

/* A program as large as this one, damaged or cut anywhere: names may be wrong, nothing else. */
static void damaged_files(unsigned rounds) {
    struct file good = whole("/proc/self/exe");
    struct host_elf elf;
    bool readable_file = host_elf_open(&elf, "/proc/self/exe");
    CHECK(good.size && readable_file && elf.n_symbols);
    unsigned char *bytes = malloc(good.size);
    for (unsigned i = 0; i < rounds && bytes && readable_file; i++) {
        memcpy(bytes, good.bytes, good.size);
        damage(bytes, &elf, good.size);
        size_t size = below(5) ? good.size : below(good.size);
        int fd = memfd_create("damaged", 0);
        char path[64], text[512];
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        CHECK(write(fd, bytes, size) == (ssize_t)size);
        struct host_frame frames[4];
        for (unsigned k = 0; k < 4; k++) {
            const struct host_symbol *symbol = &elf.symbols[below(elf.n_symbols)];
            frames[k] = (struct host_frame){path, symbol->address + below(symbol->size) + 1};
        }
        host_names_of_path(frames, 4, text, sizeof text);
        CHECK(strlen(text) < sizeof text && !strchr(text, '/'));
        host_names_forget();
        close(fd);
    }
    free(bytes);
    free(good.bytes);
    if (readable_file) host_elf_close(&elf);
}

int main(int argc, char **argv) {
    symbols();
    names();
    endless_names();
    x86();
    x86_tables();
    arm();
    files_that_are_none();
    damaged_files(argc > 1 ? (unsigned)atoi(argv[1]) : 300);
    return check_failures != 0;
}
