/* elf_file.c: sections and function symbols of an executable or a shared library. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "buffer.h"
#include "elf_file.h"

enum { MOST_SECTIONS = 65536 };
static const uint64_t LARGEST_SECTION = 4ull << 30;

/* ---- the file ------------------------------------------------------------------------------------------------------ */

static bool read_at(const struct host_elf *elf, void *to, uint64_t offset, uint64_t size) {
    if (offset > elf->file_size || size > elf->file_size - offset) return false;
    for (size_t done = 0; done < size;) {
        ssize_t n = pread(elf->fd, (char *)to + done, size - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        done += (size_t)n;
    }
    return true;
}

static unsigned char *read_part(const struct host_elf *elf, uint64_t offset, uint64_t size) {
    if (!size || size > LARGEST_SECTION || offset > elf->file_size || size > elf->file_size - offset) return NULL;
    unsigned char *data = malloc(size);
    if (data && !read_at(elf, data, offset, size)) {
        free(data);
        return NULL;
    }
    return data;
}

static struct host_bytes contents(struct host_elf *elf, struct host_section *section) {
    if (!section->tried) {
        section->tried = true;
        if (section->type != SHT_NOBITS && !(section->flags & SHF_COMPRESSED))
            section->data = read_part(elf, section->offset, section->size);
    }
    return section->data ? (struct host_bytes){section->data, section->size} : (struct host_bytes){0};
}

static const char *text_at(struct host_bytes table, uint64_t offset) {
    if (offset >= table.size || !memchr(table.at + offset, 0, table.size - offset)) return "";
    return (const char *)table.at + offset;
}

static struct host_section *find(struct host_elf *elf, const char *name) {
    for (size_t i = 0; i < elf->n_sections; i++)
        if (!strcmp(elf->sections[i].name, name)) return &elf->sections[i];
    return NULL;
}

struct host_bytes host_elf_section(struct host_elf *elf, const char *name) {
    struct host_section *section = find(elf, name);
    return section ? contents(elf, section) : (struct host_bytes){0};
}

struct host_bytes host_elf_code(struct host_elf *elf, uint64_t address) {
    for (size_t i = 0; i < elf->n_sections; i++) {
        struct host_section *section = &elf->sections[i];
        if (!(section->flags & SHF_EXECINSTR) || address < section->address ||
            address - section->address >= section->size)
            continue;
        struct host_bytes all = contents(elf, section);
        uint64_t before = address - section->address;
        if (all.size <= before) continue;
        return (struct host_bytes){all.at + before, all.size - before};
    }
    return (struct host_bytes){0};
}

static bool read_sections(struct host_elf *elf) {
    Elf64_Ehdr header;
    if (!read_at(elf, &header, 0, sizeof header) || memcmp(header.e_ident, ELFMAG, SELFMAG) ||
        header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
        header.e_shentsize != sizeof(Elf64_Shdr))
        return false;
    elf->machine = header.e_machine;
    Elf64_Shdr first;
    if (!read_at(elf, &first, header.e_shoff, sizeof first)) return false;
    uint64_t n = header.e_shnum ? header.e_shnum : first.sh_size;
    uint64_t names_at = header.e_shstrndx == SHN_XINDEX ? first.sh_link : header.e_shstrndx;
    if (!n || n > MOST_SECTIONS || names_at >= n) return false;
    Elf64_Shdr *raw = (Elf64_Shdr *)read_part(elf, header.e_shoff, n * sizeof *raw);
    if (!raw) return false;
    elf->sections = host_grow(NULL, n * sizeof *elf->sections);
    elf->n_sections = n;
    for (size_t i = 0; i < n; i++)
        elf->sections[i] = (struct host_section){.name = "",
                                                 .address = raw[i].sh_addr,
                                                 .offset = raw[i].sh_offset,
                                                 .size = raw[i].sh_size,
                                                 .flags = raw[i].sh_flags,
                                                 .type = raw[i].sh_type,
                                                 .link = raw[i].sh_link};
    struct host_bytes names = contents(elf, &elf->sections[names_at]);
    for (size_t i = 0; i < n; i++) elf->sections[i].name = text_at(names, raw[i].sh_name);
    free(raw);
    return true;
}

/* ---- symbols --------------------------------------------------------------------------------------------------------- */

static int by_address(const void *a, const void *b) {
    const struct host_symbol *x = a, *y = b;
    if (x->address != y->address) return x->address < y->address ? -1 : 1;
    if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
    return strcmp(x->name, y->name);
}

static bool is_function(const Elf64_Sym *symbol) {
    unsigned type = ELF64_ST_TYPE(symbol->st_info);
    return (type == STT_FUNC || type == STT_GNU_IFUNC) && symbol->st_shndx != SHN_UNDEF;
}

static unsigned char rank_of(const Elf64_Sym *symbol, const char *name) {
    unsigned bind = ELF64_ST_BIND(symbol->st_info);
    unsigned char rank = bind == STB_GLOBAL ? 0 : bind == STB_WEAK ? 1 : 2;
    return rank + (symbol->st_size ? 0 : 4) + (strchr(name, '.') ? 8 : 0);
}

/* The best name of each address, and an end for symbols without one. */
static void tidy_symbols(struct host_elf *elf) {
    qsort(elf->symbols, elf->n_symbols, sizeof *elf->symbols, by_address);
    size_t kept = 0;
    for (size_t i = 0; i < elf->n_symbols; i++)
        if (!kept || elf->symbols[kept - 1].address != elf->symbols[i].address) elf->symbols[kept++] = elf->symbols[i];
    elf->n_symbols = kept;
    for (size_t i = 0; i < kept; i++) {
        uint64_t room = i + 1 < kept ? elf->symbols[i + 1].address - elf->symbols[i].address : 4096;
        if (!elf->symbols[i].size) elf->symbols[i].size = room;
    }
}

static void read_symbols(struct host_elf *elf, const char *table) {
    struct host_section *section = find(elf, table);
    if (!section || section->link >= elf->n_sections) return;
    struct host_bytes raw = contents(elf, section), names = contents(elf, &elf->sections[section->link]);
    size_t n = raw.size / sizeof(Elf64_Sym);
    if (!n) return;
    elf->symbols = host_grow(NULL, n * sizeof *elf->symbols);
    for (size_t i = 0; i < n; i++) {
        Elf64_Sym symbol;
        memcpy(&symbol, raw.at + i * sizeof symbol, sizeof symbol);
        const char *name = is_function(&symbol) ? text_at(names, symbol.st_name) : "";
        if (!*name) continue;
        elf->symbols[elf->n_symbols++] =
            (struct host_symbol){symbol.st_value, symbol.st_size, name, rank_of(&symbol, name)};
    }
    tidy_symbols(elf);
}

const struct host_symbol *host_elf_symbol(const struct host_elf *elf, uint64_t address) {
    size_t low = 0, high = elf->n_symbols;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (elf->symbols[middle].address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (!low) return NULL;
    const struct host_symbol *symbol = &elf->symbols[low - 1];
    return address - symbol->address < symbol->size ? symbol : NULL;
}

/* ---- the global offset table -------------------------------------------------------------------------------------------- */

static int by_slot(const void *a, const void *b) {
    const struct host_slot *x = a, *y = b;
    return x->address < y->address ? -1 : x->address > y->address;
}

static void read_slots(struct host_elf *elf, const char *table, struct host_bytes symbols, struct host_bytes names) {
    struct host_bytes raw = host_elf_section(elf, table);
    size_t n = raw.size / sizeof(Elf64_Rela);
    if (!n) return;
    elf->slots = host_grow(elf->slots, (elf->n_slots + n) * sizeof *elf->slots);
    for (size_t i = 0; i < n; i++) {
        Elf64_Rela entry;
        memcpy(&entry, raw.at + i * sizeof entry, sizeof entry);
        struct host_slot slot = {entry.r_offset, NULL, (uint64_t)entry.r_addend};
        uint64_t number = ELF64_R_SYM(entry.r_info);
        if (number && number < symbols.size / sizeof(Elf64_Sym)) {
            Elf64_Sym symbol;
            memcpy(&symbol, symbols.at + number * sizeof symbol, sizeof symbol);
            slot.name = text_at(names, symbol.st_name);
        }
        elf->slots[elf->n_slots++] = slot;
    }
}

const struct host_slot *host_elf_slot(const struct host_elf *elf, uint64_t address) {
    struct host_slot key = {.address = address};
    return elf->n_slots ? bsearch(&key, elf->slots, elf->n_slots, sizeof key, by_slot) : NULL;
}

/* ---- the unwind table ------------------------------------------------------------------------------------------------------ */

static int by_number(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* .eh_frame_hdr: version 1, the encodings of a pointer, of the count (udata4) and of the table (sdata4, relative to the
 * section), the pointer (4 bytes), the count, then pairs of function and entry. All linkers write it like this. */
static void read_starts(struct host_elf *elf) {
    struct host_section *section = find(elf, ".eh_frame_hdr");
    if (!section) return;
    struct host_bytes raw = contents(elf, section);
    if (raw.size < 12 || raw.at[0] != 1 || raw.at[2] != 0x03 || raw.at[3] != 0x3b) return;
    uint32_t n;
    memcpy(&n, raw.at + 8, sizeof n);
    if (!n || n > (raw.size - 12) / 8) return;
    elf->starts = host_grow(NULL, n * sizeof *elf->starts);
    for (uint32_t i = 0; i < n; i++) {
        int32_t relative;
        memcpy(&relative, raw.at + 12 + 8 * (size_t)i, sizeof relative);
        elf->starts[i] = section->address + (uint64_t)(int64_t)relative;
    }
    elf->n_starts = n;
    qsort(elf->starts, n, sizeof *elf->starts, by_number);
}

size_t host_elf_number(const struct host_elf *elf, uint64_t address, uint64_t *start, uint64_t *end) {
    size_t low = 0, high = elf->n_starts;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (elf->starts[middle] <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (!low) return 0;
    *start = elf->starts[low - 1];
    *end = low < elf->n_starts ? elf->starts[low] : *start + 65536;
    return address < *end ? low : 0;
}

/* ---- all of it --------------------------------------------------------------------------------------------------------------- */

bool host_elf_open(struct host_elf *elf, const char *path) {
    *elf = (struct host_elf){.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
    struct stat st;
    if (elf->fd < 0) return false;
    if (fstat(elf->fd, &st) || !S_ISREG(st.st_mode) || st.st_size <= 0) {
        host_elf_close(elf);
        return false;
    }
    elf->file_size = (uint64_t)st.st_size;
    if (!read_sections(elf)) {
        host_elf_close(elf);
        return false;
    }
    read_symbols(elf, ".symtab");
    if (!elf->n_symbols) {
        free(elf->symbols);
        elf->symbols = NULL;
        read_symbols(elf, ".dynsym");
    }
    struct host_bytes symbols = host_elf_section(elf, ".dynsym"), names = host_elf_section(elf, ".dynstr");
    read_slots(elf, ".rela.plt", symbols, names);
    read_slots(elf, ".rela.dyn", symbols, names);
    if (elf->n_slots) qsort(elf->slots, elf->n_slots, sizeof *elf->slots, by_slot);
    read_starts(elf);
    return true;
}

void host_elf_close(struct host_elf *elf) {
    if (elf->fd >= 0) close(elf->fd);
    for (size_t i = 0; i < elf->n_sections; i++) free(elf->sections[i].data);
    free(elf->sections);
    free(elf->symbols);
    free(elf->slots);
    free(elf->starts);
    *elf = (struct host_elf){.fd = -1};
}
