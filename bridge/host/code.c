/* code.c: the calls in a stretch of machine code: just enough of a decoder to know how long each instruction is, because a
 * byte that looks like a call may be a part of another instruction. */
#include <elf.h>
#include <string.h>

#include "code.h"

/* ---- x86-64 ---------------------------------------------------------------------------------------------------------- */

enum {
    NONE = 0,
    MODRM = 1,
    BYTE = 2,
    WORD = 4,
    FULL = 8
}; /* operands behind an opcode; FULL: 4 bytes, 2 with prefix 66 */

struct opcode {
    const unsigned char *at; /* its last byte */
    unsigned map;            /* 0: one byte; 1: 0F; 2: 0F 38; 3: 0F 3A */
    bool short_operand, short_address, wide;
};

static unsigned operands_of_one(const struct opcode *op, unsigned char reg) {
    unsigned char c = *op->at;
    if (c < 0x40) return (c & 7) < 4 ? MODRM : (c & 7) == 4 ? BYTE : (c & 7) == 5 ? FULL : NONE;
    if (c < 0x60) return NONE;
    if (c >= 0x70 && c < 0x80) return BYTE;
    if (c >= 0x84 && c < 0x90) return MODRM;
    if (c >= 0xb0 && c < 0xb8) return BYTE;
    if (c >= 0xb8 && c < 0xc0) return FULL;
    if (c >= 0xd8 && c < 0xe0) return MODRM;
    if (c >= 0xe0 && c < 0xe8) return BYTE;
    switch (c) {
    case 0x63:
    case 0xd0:
    case 0xd1:
    case 0xd2:
    case 0xd3:
    case 0xfe:
    case 0xff:
        return MODRM;
    case 0x68:
    case 0xa9:
        return FULL;
    case 0x69:
    case 0x81:
    case 0xc7:
        return MODRM | FULL;
    case 0x6a:
    case 0xa8:
    case 0xcd:
    case 0xeb:
        return BYTE;
    case 0x6b:
    case 0x80:
    case 0x82:
    case 0x83:
    case 0xc0:
    case 0xc1:
    case 0xc6:
        return MODRM | BYTE;
    case 0xc2:
    case 0xca:
        return WORD;
    case 0xc8:
        return WORD | BYTE;
    case 0xf6:
        return reg < 2 ? MODRM | BYTE : MODRM;
    case 0xf7:
        return reg < 2 ? MODRM | FULL : MODRM;
    default:
        return NONE;
    }
}

static unsigned operands_of_two(unsigned char c) {
    if (c >= 0x30 && c < 0x38) return NONE;
    if (c >= 0xc8 && c < 0xd0) return NONE;
    switch (c) {
    case 0x05:
    case 0x06:
    case 0x07:
    case 0x08:
    case 0x09:
    case 0x0b:
    case 0x0e:
    case 0x77:
    case 0xa0:
    case 0xa1:
    case 0xa2:
    case 0xa8:
    case 0xa9:
    case 0xaa:
        return NONE;
    case 0x0f:
    case 0x70:
    case 0x71:
    case 0x72:
    case 0x73:
    case 0xa4:
    case 0xac:
    case 0xba:
    case 0xc2:
    case 0xc4:
    case 0xc5:
    case 0xc6:
        return MODRM | BYTE;
    default:
        return MODRM;
    }
}

/* Bytes of ModRM, SIB and displacement. */
static size_t address_bytes(const unsigned char *modrm, size_t left) {
    unsigned mod = modrm[0] >> 6, rm = modrm[0] & 7;
    if (mod == 3) return 1;
    size_t n = rm == 4 ? 2 : 1;
    if (mod == 1) return n + 1;
    if (mod == 2 || (mod == 0 && rm == 5)) return n + 4;
    return rm == 4 && left > 1 && (modrm[1] & 7) == 5 ? n + 4 : n;
}

/* The opcode behind all prefixes; at NULL if the bytes end before it. */
static struct opcode opcode_at(const unsigned char *p, size_t n) {
    struct opcode op = {0};
    const unsigned char *end = p + n;
    for (; p < end && strchr("\x66\x67\xf2\xf3\x2e\x36\x3e\x26\x64\x65\xf0", *p) && *p; p++) {
        op.short_operand |= *p == 0x66;
        op.short_address |= *p == 0x67;
    }
    if (p < end && (*p & 0xf0) == 0x40) op.wide = *p++ & 8;
    if (p >= end) return op;
    unsigned before = *p == 0xc5 ? 2 : *p == 0xc4 ? 3 : *p == 0x62 ? 4 : 0; /* VEX, EVEX */
    if (before) {
        op.map = *p == 0xc5 ? 1 : end - p > 1 ? p[1] & 3 : 0;
        if (!op.map) op.map = 2; /* newer maps, without a byte */
        p += before;
    } else if (*p == 0x0f && end - p > 1) {
        op.map = p[1] == 0x38 ? 2 : p[1] == 0x3a ? 3 : 1;
        p += op.map == 1 ? 1 : 2;
    }
    if (p < end) op.at = p;
    return op;
}

/* The length of the instruction at p, of which n bytes are there; 0 if it does not end there. */
static size_t x86_length(const unsigned char *p, size_t n, struct opcode *op) {
    *op = opcode_at(p, n < 15 ? n : 15);
    if (!op->at) return 0;
    size_t size = (size_t)(op->at - p) + 1, left = n - size;
    unsigned char c = *op->at, reg = left ? (op->at[1] >> 3) & 7 : 0;
    if ((op->map == 0 && (c == 0xe8 || c == 0xe9)) || (op->map == 1 && c >= 0x80 && c < 0x90))
        return left >= 4 ? size + 4 : 0;
    if (op->map == 0 && c >= 0xa0 && c < 0xa4) return left >= 8 ? size + (op->short_address ? 4 : 8) : 0;
    unsigned has = op->map == 0   ? operands_of_one(op, reg)
                   : op->map == 1 ? operands_of_two(c)
                   : op->map == 2 ? MODRM
                                  : MODRM | BYTE;
    if (has & MODRM) {
        if (!left) return 0;
        size += address_bytes(op->at + 1, left);
    }
    if (has & BYTE) size += 1;
    if (has & WORD) size += 2;
    if (has & FULL) size += op->short_operand ? 2 : op->wide && op->map == 0 && c >= 0xb8 && c < 0xc0 ? 8 : 4;
    return size <= n ? size : 0;
}

static int32_t signed_at(const unsigned char *p) {
    int32_t value;
    memcpy(&value, p, sizeof value);
    return value;
}

/* Whether the target of an indirect jump comes from a table: an array at a constant address, or, in code that can be loaded
 * anywhere, a register to which the instruction before has added. */
static bool x86_table(const struct opcode *op, const unsigned char *before, const unsigned char *start) {
    const unsigned char *modrm = op->at + 1;
    if (*modrm >> 6 == 0 && (*modrm & 7) == 4) return (modrm[1] & 7) == 5 && (modrm[1] >> 3 & 7) != 4;
    if (*modrm >> 6 != 3 || !before || start - before < 3 || (*before & 0xf8) != 0x48) return false;
    const unsigned char *add = before + 1;
    if ((*add != 0x01 && *add != 0x03) || add[1] >> 6 != 3) return false;
    unsigned to = *add == 0x01 ? (add[1] & 7) | (*before & 1) << 3 : (add[1] >> 3 & 7) | (*before & 4) << 1;
    bool high = op->at > start && (op->at[-1] & 0xf1) == 0x41; /* a prefix: one of the upper registers */
    return to == ((*modrm & 7) | (high ? 8u : 0u));
}

/* Whether this is a call or a jump; fills in where to. */
static bool x86_transfer(const struct opcode *op, struct host_call *call) {
    unsigned char c = *op->at;
    const unsigned char *behind = op->at + 1;
    if ((op->map == 0 && (c == 0xe8 || c == 0xe9)) || (op->map == 1 && c >= 0x80 && c < 0x90)) {
        call->transfer = op->map == 0 && c == 0xe8 ? HOST_CALL : HOST_JUMP;
        call->target = call->after + (uint64_t)(int64_t)signed_at(behind);
        return true;
    }
    if (op->map == 0 && (c == 0xeb || (c >= 0x70 && c < 0x80))) {
        call->transfer = HOST_JUMP;
        call->target = call->after + (uint64_t)(int64_t)(signed char)*behind;
        return true;
    }
    if (op->map || c != 0xff || ((*behind >> 3) & 7) < 2 || ((*behind >> 3) & 7) > 5) return false;
    call->transfer = (*behind >> 3 & 7) < 4 ? HOST_CALL : HOST_JUMP;
    call->slot = (*behind & 0xc7) == 5; /* relative to the instruction */
    call->indirect = !call->slot;
    if (call->slot) call->target = call->after + (uint64_t)(int64_t)signed_at(behind + 1);
    return true;
}

/* `before`: the last instruction, which was no transfer; or NULL. */
static bool x86_at(const unsigned char *p, const unsigned char *before, size_t n, uint64_t address,
                   struct host_call *call, size_t *size) {
    struct opcode op;
    *size = x86_length(p, n, &op);
    *call = (struct host_call){.at = address, .after = address + *size};
    if (!*size || !x86_transfer(&op, call)) return false;
    call->table = call->indirect && call->transfer == HOST_JUMP && x86_table(&op, before, p);
    return true;
}

/* ---- AArch64 --------------------------------------------------------------------------------------------------------- */

static bool arm_at(const unsigned char *p, const unsigned char *before, uint64_t address, struct host_call *call) {
    uint32_t word, last = 0;
    memcpy(&word, p, sizeof word);
    if (before) memcpy(&last, before, sizeof last);
    *call = (struct host_call){.at = address, .after = address + 4};
    bool branch = (word & 0x7c000000) == 0x14000000, through = (word & 0xffdffc1f) == 0xd61f0000;
    if (!branch && !through) return false;
    call->indirect = through;
    call->transfer = (branch ? word >> 31 : word >> 21 & 1) ? HOST_CALL : HOST_JUMP;
    if (branch) call->target = address + (uint64_t)((int64_t)(int32_t)(word << 6) >> 4);
    bool added = (last & 0x7f000000) == 0x0b000000 && (last & 31) == (word >> 5 & 31); /* to the register of the jump */
    call->table = through && call->transfer == HOST_JUMP && added;
    return true;
}

/* ---- both ------------------------------------------------------------------------------------------------------------ */

bool host_code_next(struct host_elf *elf, uint64_t address, uint64_t end, struct host_call *call) {
    struct host_bytes code = host_elf_code(elf, address);
    if (end <= address || (elf->machine != EM_X86_64 && elf->machine != EM_AARCH64)) return false;
    if (code.size > end - address) code.size = end - address;
    size_t size = 4;
    const unsigned char *before = NULL;
    for (size_t i = 0; i < code.size; before = code.at + i, i += size) {
        if (elf->machine == EM_X86_64) {
            if (x86_at(code.at + i, before, code.size - i, address + i, call, &size)) return true;
            if (!size) size = 1; /* not an instruction that we know */
        } else if (code.size - i < 4) {
            return false;
        } else if (arm_at(code.at + i, before, address + i, call)) {
            return true;
        }
    }
    return false;
}

bool host_code_before(struct host_elf *elf, uint64_t after, struct host_call *call) {
    static const unsigned char lengths[] = {5, 6, 2, 3, 7, 4, 8, 9}; /* of calls, the usual ones first; 4 for AArch64 */
    for (size_t i = 0; i < sizeof lengths; i++) {
        if (after < lengths[i] || (elf->machine == EM_AARCH64 && lengths[i] != 4)) continue;
        struct host_call found;
        if (host_code_next(elf, after - lengths[i], after, &found) && found.transfer == HOST_CALL &&
            found.after == after && found.at == after - lengths[i]) {
            *call = found;
            return true;
        }
    }
    return false;
}

uint64_t host_code_stub(struct host_elf *elf, uint64_t address) {
    if (elf->machine != EM_X86_64) return 0;
    struct host_bytes code = host_elf_code(elf, address);
    uint64_t at = address;
    if (code.size >= 4 && !memcmp(code.at, "\xf3\x0f\x1e\xfa", 4)) at += 4; /* endbr64 */
    struct host_call call;
    return host_code_next(elf, at, at + 8, &call) && call.at == at && call.slot && call.transfer == HOST_JUMP
               ? call.target
               : 0;
}
