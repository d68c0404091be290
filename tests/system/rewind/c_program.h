/* c_program.h: a program in C, included once for each. PROGRAM is its number; SIZE and STEP are small numbers that vary it;
 * SHAPE is 0 (one loop), 1 (a loop in a loop), 2 (recursion) or 3 (loops in a row); WITH_... say which state its tries change. */
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define TEXT_(a) #a
#define TEXT(a) TEXT_(a)
#define OWN(name) JOIN(JOIN(name, _), PROGRAM)

static struct {
    unsigned count;
    double table[40 * SIZE];
    struct {
        unsigned low : 5, high : 9;
        signed sign : 4;
    } bits;
    unsigned char *blocks[16];
    unsigned sizes[16];
    struct OWN(list) {
        struct OWN(list) * next;
        double value;
    } * list;
    char words[60];
    jmp_buf back;
} OWN(state);
static _Thread_local double OWN(local)[SIZE];

static void OWN(jump)(unsigned depth) {
    volatile char pad[150];
    pad[0] = (char)(1 + depth % 9);
    if (depth)
        OWN(jump)(depth - 1);
    else if (OWN(state).count)
        longjmp(OWN(state).back, (int)(OWN(state).count % 7) + pad[0]);
}

static int OWN(come_back)(unsigned depth) {
    int came = setjmp(OWN(state).back);
    if (!came) OWN(jump)(depth);
    return came;
}

static double OWN(deep)(unsigned left, double x) {
    double pad[60];
    for (int i = 0; i < 60; i += 7) pad[i] = x * i + left;
    __asm__ volatile("" : : "r"(pad) : "memory");
    return left ? OWN(deep)(left - 1, 0.99 * x) + 1e-3 * pad[7] : pad[14];
}

static uint64_t OWN(change)(uint64_t hash, double x) {
    const unsigned count = ++OWN(state).count;
    if (WITH_GLOBALS) {
        OWN(state).table[count * STEP % (40 * SIZE)] += x;
        OWN(state).bits.low += count;
        OWN(state).bits.high ^= OWN(state).bits.low * STEP;
        OWN(state).bits.sign = (signed)(OWN(state).bits.high % 15) - 7;
        hash = hash_add(hash_word(hash, OWN(state).bits.high), OWN(state).table[count * 7 % (40 * SIZE)]);
        hash = hash_add(hash, OWN(state).bits.sign);
    }
    if (WITH_HEAP) {
        const unsigned i = count * STEP % 16, size = 1 + count * 8191 % (1000 * SIZE);
        unsigned char *grown = realloc(OWN(state).blocks[i], size);
        if (!grown) abort();
        for (unsigned k = OWN(state).sizes[i]; k < size; k++) grown[k] = (unsigned char)(count + k);
        OWN(state).blocks[i] = grown;
        OWN(state).sizes[i] = size;
        struct OWN(list) *made = malloc(sizeof *made + 100 * SIZE);
        if (!made) abort();
        *made = (struct OWN(list)){OWN(state).list, x};
        OWN(state).list = made;
        for (struct OWN(list) *at = made; at && at->value < 0.8; at = at->next) hash = hash_add(hash, at->value);
        hash = hash_word(hash, OWN(state).blocks[(i + 3) % 16] ? OWN(state).blocks[(i + 3) % 16][0] : 999);
    }
    if (WITH_THREAD_LOCAL) {
        OWN(local)[count % SIZE] += x;
        hash = hash_add(hash, OWN(local)[count * STEP % SIZE]);
    }
    if (WITH_JUMPS) hash = hash_word(hash, (uint64_t)OWN(come_back)(count * STEP % SIZE));
    if (WITH_DEEP) hash = hash_add(hash, OWN(deep)(count * STEP % (10 * SIZE), x));
    if (WITH_ERRNO) {
        hash = hash_word(hash, (uint64_t)errno);
        errno = (int)(errno * 3 + STEP) % 90;
    }
    if (WITH_ROUNDING) {
        static const int modes[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
        volatile double third = x / 3;
        hash = hash_add(hash, third + third + third + 0.1);
        if (count % 3 == 0) fesetround(modes[count * STEP % 4]);
    }
    if (WITH_PRINTING) {
        printf("program " TEXT(PROGRAM) " %u\n", count);
        snprintf(OWN(state).words + count % 20, 30, "%.17g", x);
        for (int i = 0; i < 50; i++) hash = hash_word(hash, (unsigned char)OWN(state).words[i]);
    }
    if (WITH_GENERATORS) hash = hash_add(hash_word(hash, (uint64_t)rand()), drand48());
    return hash;
}

static double OWN(loop)(double given, int level) {
    double local = given;
    unsigned tries = 0;
    for (;;) {
        rs_start("c" TEXT(PROGRAM));
        const double x = ars_sample("x", ars_uniform(0, 1));
        double array[1 + (OWN(state).count + tries) % (8 * SIZE)];
        memset(array, 0, sizeof array);
        array[sizeof array / sizeof *array / 2] = local;
        uint64_t hash = OWN(change)(hash_add(hash_word(PROGRAM, ++tries), local), x);
        if (level > 0 && x < 0.6) hash = hash_add(hash, OWN(loop)(hash_unit(hash), level - 1));
        for (size_t i = 0; i < sizeof array / sizeof *array; i++) hash = hash_add(hash, array[i]);
        const double unit = hash_unit(hash);
        local += 0.5 * unit - 0.25;
        const double e = ars_sample("e", ars_exponential(0.5 + unit));
        if (x + 0.05 * (e > 1) < 0.35 + 0.4 * unit) {
            rs_end();
            return local + 0.1 * e;
        }
    }
}

static double OWN(around)(double given) {
    for (;;) {
        rs_start("d" TEXT(PROGRAM));
        const double m = ars_sample("m", ars_normal(0.1 * given, 1));
        const double inner = OWN(loop)(m, 0);
        given += 0.01 * inner;
        if (m < 0.5 + hash_unit(OWN(change)(STEP, inner))) {
            rs_end();
            return m + inner;
        }
    }
}

static void OWN(reset)(void) {
    for (int i = 0; i < 16; i++) free(OWN(state).blocks[i]);
    memset(&OWN(state), 0, sizeof OWN(state));
    memset(OWN(local), 0, sizeof OWN(local));
    if (WITH_GENERATORS) srand(PROGRAM), srand48(PROGRAM);
}

static double OWN(run)(void) {
    double sum = 0;
    if (SHAPE == 1) sum = OWN(around)(0.5);
    for (int i = 0; i < (SHAPE == 3 ? 3 : SHAPE == 1 ? 0 : 1); i++) sum += OWN(loop)(sum, SHAPE == 2 ? 1 : 0);
    return sum + hash_unit(OWN(change)(PROGRAM, sum));
}

#undef JOIN_
#undef JOIN
#undef TEXT_
#undef TEXT
#undef OWN
#undef PROGRAM
#undef SIZE
#undef STEP
#undef SHAPE
#undef WITH_GLOBALS
#undef WITH_HEAP
#undef WITH_THREAD_LOCAL
#undef WITH_JUMPS
#undef WITH_DEEP
#undef WITH_ERRNO
#undef WITH_ROUNDING
#undef WITH_PRINTING
#undef WITH_GENERATORS
