/* demangle.c: readable names of functions.
 *
 * A path names functions by scopes and name alone: overloads and instances of a template are told apart by where they are
 * called. So the arguments of templates and functions are skipped, which needs no table of substitutions: the only ones that a
 * name without arguments can have are the abbreviations of std. Lambdas are called "lambda", because compilers number them
 * differently; unnamed namespaces are left out. */
#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "demangle.h"

enum { DEEPEST = 64 };

struct reader {
    const char *at, *end;
    char *text;
    size_t size, length;
    unsigned nested; /* calls of skip in skip */
    bool failed;
};

static const struct {
    const char *code, *word, *sign; /* of an operator */
} operators[] = {
    {"nw", "new", "new"},   {"na", "new[]", "new[]"}, {"dl", "delete", "delete"}, {"da", "delete[]", "delete[]"},
    {"ps", "+", "+"},       {"ng", "-", "-"},         {"ad", "&", "&"},           {"de", "*", "*"},
    {"co", "~", "~"},       {"pl", "+", "+"},         {"mi", "-", "-"},           {"ml", "*", "*"},
    {"dv", "_divide", "/"}, {"rm", "%", "%"},         {"an", "&", "&"},           {"or", "|", "|"},
    {"eo", "^", "^"},       {"aS", "=", "="},         {"pL", "+=", "+="},         {"mI", "-=", "-="},
    {"mL", "*=", "*="},     {"dV", "_divide=", "/="}, {"rM", "%=", "%="},         {"aN", "&=", "&="},
    {"oR", "|=", "|="},     {"eO", "^=", "^="},       {"ls", "<<", "<<"},         {"rs", "_right", ">>"},
    {"lS", "<<=", "<<="},   {"rS", "_right=", ">>="}, {"eq", "==", "=="},         {"ne", "!=", "!="},
    {"lt", "<", "<"},       {"gt", "_greater", ">"},  {"le", "<=", "<="},         {"ge", "_greater=", ">="},
    {"nt", "!", "!"},       {"aa", "&&", "&&"},       {"oo", "||", "||"},         {"pp", "++", "++"},
    {"mm", "--", "--"},     {"cm", ",", ","},         {"pm", "_member", "->*"},   {"pt", "_arrow", "->"},
    {"cl", "()", "()"},     {"ix", "[]", "[]"},       {"ss", "_order", "<=>"},
};
enum { N_OPERATORS = sizeof operators / sizeof *operators };

/* ---- writing --------------------------------------------------------------------------------------------------------- */

static void put(struct reader *r, const char *text, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (r->length + 1 >= r->size) return;
        unsigned char c = (unsigned char)text[i];
        r->text[r->length++] = c <= ' ' || c > '~' || strchr("/#>", c) ? '_' : (char)c;
        r->text[r->length] = 0;
    }
}

static void put_text(struct reader *r, const char *text) {
    put(r, text, strlen(text));
}

static void separate(struct reader *r) {
    if (r->length) put_text(r, "::");
}

/* The last scope once more: the name of a constructor. */
static void put_last(struct reader *r, const char *before) {
    size_t start = r->length;
    while (start && r->text[start - 1] != ':') start--;
    size_t n = r->length - start;
    char last[256];
    if (n >= sizeof last) n = sizeof last - 1;
    memcpy(last, r->text + start, n);
    separate(r);
    put_text(r, before);
    put(r, last, n);
}

/* ---- reading --------------------------------------------------------------------------------------------------------- */

static char peek(const struct reader *r, size_t i) {
    return (size_t)(r->end - r->at) > i ? r->at[i] : 0;
}

static bool take(struct reader *r, const char *text) {
    size_t n = strlen(text);
    if ((size_t)(r->end - r->at) < n || memcmp(r->at, text, n)) return false;
    r->at += n;
    return true;
}

static size_t take_number(struct reader *r) {
    size_t n = 0;
    while (isdigit((unsigned char)peek(r, 0))) {
        n = n * 10 + (size_t)(*r->at++ - '0');
        if (n > (1u << 20)) r->failed = true, n = 0;
    }
    return n;
}

/* <length> <bytes>; the bytes are where `at` was moved over. */
static const char *take_source(struct reader *r, size_t *n) {
    *n = take_number(r);
    if (!*n || *n > (size_t)(r->end - r->at)) {
        r->failed = true;
        return NULL;
    }
    const char *name = r->at;
    r->at += *n;
    return name;
}

/* Moves over a type, an expression or a list of them, up to the E that closes what is open: depth E's. */
static void skip(struct reader *r, unsigned depth) {
    size_t n;
    if (++r->nested > DEEPEST) r->failed = true;
    while (depth && !r->failed) {
        char c = peek(r, 0), next = peek(r, 1);
        if (!c || depth > DEEPEST) {
            r->failed = true;
        } else if (isdigit((unsigned char)c)) {
            take_source(r, &n);
        } else if (c == 'E') {
            r->at++, depth--;
        } else if (c == 'L' && isdigit((unsigned char)next)) { /* a literal of a named type, or a local name */
            r->at++;
            take_source(r, &n);
            const char *value = r->at + (peek(r, 0) == 'n');
            while (value < r->end && isdigit((unsigned char)*value)) value++;
            if (value > r->at && value < r->end && *value == 'E') r->at = value + 1;
        } else if (c == 'L') { /* a literal: type, value, E */
            r->at++;
            if (take(r, "_Z")) {
                depth++;
            } else if (take(r, "N")) {
                skip(r, 1);
                while (peek(r, 0) && peek(r, 0) != 'E') r->at++;
                depth++;
            } else {
                while (peek(r, 0) && peek(r, 0) != 'E') r->at++;
                depth++;
            }
        } else if (c == 'S' || c == 'T') { /* S_, S0_, St, T_, T0_ */
            r->at++;
            if (c == 'S' && islower((unsigned char)next)) {
                r->at++;
            } else {
                while (isdigit((unsigned char)peek(r, 0)) || isupper((unsigned char)peek(r, 0))) r->at++;
                if (!take(r, "_")) r->failed = true;
            }
        } else if (c == 'A' && isdigit((unsigned char)next)) { /* an array */
            r->at++;
            take_number(r);
            take(r, "_");
        } else if (c == 'U' && (next == 'l' || next == 't')) { /* a lambda, or an unnamed type, and its number */
            r->at += 2;
            if (next == 'l') skip(r, 1);
            take_number(r);
            if (!take(r, "_")) r->failed = true;
        } else if (c == 'D' && strchr("tTOw", next) && next) {
            r->at += 2, depth++;
        } else if (c == 'D' && next) {
            r->at += 2;
        } else {
            if (strchr("NIXFJZ", c)) depth++;
            r->at++;
        }
    }
    r->nested--;
}

static bool put_operator(struct reader *r) {
    if (take(r, "cv")) {
        separate(r);
        put_text(r, "operator_cast");
        r->at = r->end; /* of what follows nothing is shown */
        return true;
    }
    for (size_t i = 0; i < N_OPERATORS; i++)
        if (take(r, operators[i].code)) {
            separate(r);
            put_text(r, "operator");
            put_text(r, operators[i].word);
            return true;
        }
    return false;
}

static void put_scope(struct reader *r, const char *name, size_t n) {
    if (n > 8 && !memcmp(name, "_GLOBAL_", 8)) return; /* the unnamed namespace */
    separate(r);
    if (n > 2 && name[0] == '$' && name[1] == '_') { /* Clang's name of a lambda */
        put_text(r, "lambda");
        return;
    }
    put(r, name, n);
}

/* Takes a name of one scope; false at what is none. */
static bool take_part(struct reader *r) {
    static const char *const standard[][2] = {{"St", "std"},          {"Sa", "std::allocator"}, {"Ss", "std::string"},
                                              {"Sb", "std::string"},  {"Si", "std::istream"},   {"So", "std::ostream"},
                                              {"Sd", "std::iostream"}};
    size_t n;
    take(r, "L"); /* internal linkage */
    if (isdigit((unsigned char)peek(r, 0))) {
        const char *name = take_source(r, &n);
        if (name) put_scope(r, name, n);
        while (!r->failed && take(r, "B")) take_source(r, &n);
        return !r->failed;
    }
    for (size_t i = 0; i < sizeof standard / sizeof *standard; i++)
        if (take(r, standard[i][0])) {
            separate(r);
            put_text(r, standard[i][1]);
            return true;
        }
    if (peek(r, 0) == 'C' && isdigit((unsigned char)peek(r, 1))) {
        r->at += 2;
        put_last(r, "");
        return true;
    }
    if (peek(r, 0) == 'D' && isdigit((unsigned char)peek(r, 1))) {
        r->at += 2;
        put_last(r, "~");
        return true;
    }
    if (take(r, "Ul")) {
        skip(r, 1);
        take_number(r);
        separate(r);
        put_text(r, "lambda");
        return take(r, "_") && !r->failed;
    }
    if (take(r, "Ut")) {
        take_number(r);
        separate(r);
        put_text(r, "unnamed");
        return take(r, "_");
    }
    return put_operator(r);
}

static void take_encoding(struct reader *r, unsigned depth);

/* <name>: nested, local to a function, or plain. */
static void take_name(struct reader *r, unsigned depth) {
    if (depth > DEEPEST) r->failed = true;
    if (r->failed) return;
    if (take(r, "N")) {
        while (take(r, "K") || take(r, "V") || take(r, "r") || take(r, "R") || take(r, "O")) {
        }
        while (!r->failed && r->at < r->end && !take(r, "E")) {
            if (take(r, "I"))
                skip(r, 1);
            else if (!take_part(r))
                r->failed = true;
        }
        return;
    }
    if (take(r, "Z")) {
        take_encoding(r, depth + 1);
        skip(r, 1); /* its parameters */
        if (take(r, "s")) return;
        take_name(r, depth + 1);
        return;
    }
    bool standard = peek(r, 0) == 'S' && peek(r, 1) == 't';
    if (!take_part(r) || (standard && !take_part(r))) r->failed = true;
    if (take(r, "I")) skip(r, 1);
}

/* The name of a function; its parameters are left. Thunks and the like count as what they lead to. */
static void take_encoding(struct reader *r, unsigned depth) {
    if (take(r, "Th") || take(r, "Tv")) {
        while (r->at < r->end && *r->at != '_') r->at++;
        take(r, "_");
        while (isdigit((unsigned char)peek(r, 0)) || peek(r, 0) == 'n') r->at++;
        take(r, "_");
    }
    take_name(r, depth);
}

/* ---- whole names ------------------------------------------------------------------------------------------------------ */

size_t host_base_length(const char *symbol) {
    static const char *const added[] = {".part.",      ".constprop.", ".isra.",       ".cold",   ".lto_priv.",
                                        ".localalias", ".llvm.",      ".specialized", ".resume", ".__uniq."};
    size_t length = strlen(symbol);
    for (size_t i = 0; i < sizeof added / sizeof *added; i++) {
        const char *found = strstr(symbol, added[i]);
        if (found && found != symbol && (size_t)(found - symbol) < length) length = (size_t)(found - symbol);
    }
    size_t end = length; /* a number, of functions inside functions: model.0, from GCC for C and Fortran */
    while (end && isdigit((unsigned char)symbol[end - 1])) end--;
    return end > 1 && end < length && symbol[end - 1] == '.' ? end - 1 : length;
}

/* An operator() of a lambda is the lambda. */
static void drop_call(struct reader *r) {
    static const char end[] = "lambda::operator()";
    size_t n = sizeof end - 1;
    if (r->length >= n && !strcmp(r->text + r->length - n, end)) r->text[r->length -= strlen("::operator()")] = 0;
}

/* gfortran: __module_MOD_procedure */
static bool put_fortran(struct reader *r, const char *symbol, size_t n) {
    const char *mark = strstr(symbol, "_MOD_");
    if (strncmp(symbol, "__", 2) || !mark || mark < symbol + 3 || mark + 5 >= symbol + n) return false;
    put(r, symbol + 2, (size_t)(mark - symbol - 2));
    separate(r);
    put(r, mark + 5, (size_t)(symbol + n - mark - 5));
    return true;
}

void host_demangle(const char *symbol, char *text, size_t size) {
    size_t n = host_base_length(symbol);
    struct reader r = {.at = symbol, .end = symbol + n, .text = text, .size = size};
    text[0] = 0;
    if (take(&r, "_Z")) {
        take_encoding(&r, 0);
        if (!r.failed && r.length) {
            drop_call(&r);
            return;
        }
    } else if (put_fortran(&r, symbol, n)) {
        return;
    }
    r.length = 0;
    put(&r, symbol, n);
}

void host_name_add(const char *name, char *text, size_t size) {
    struct reader r = {.text = text, .size = size, .length = strlen(text)};
    size_t n = strlen(name);
    if (!n || name[0] == '<' || name[0] == '(') { /* "<lambda()>" of GCC, "(anonymous class)" */
        if (n && !strstr(name, "lambda")) return;
        separate(&r);
        put_text(&r, "lambda");
        return;
    }
    separate(&r);
    if (!strncmp(name, "operator", 8) && !isalnum((unsigned char)name[8]) && name[8] != '_') {
        const char *sign = name + 8 + (name[8] == ' ');
        const char *word = "_cast";
        size_t longest = 0;
        for (size_t i = 0; i < N_OPERATORS; i++) { /* "operator< <int>" has arguments behind a blank */
            size_t length = strlen(operators[i].sign);
            if (length <= longest || strncmp(sign, operators[i].sign, length) || !strchr(" <", sign[length])) continue;
            longest = length;
            word = operators[i].word;
        }
        put_text(&r, "operator");
        put_text(&r, word);
        drop_call(&r);
        return;
    }
    put(&r, name, strcspn(name, "<"));
}

/* ---- kinds of names ---------------------------------------------------------------------------------------------------- */

static bool starts(const char *text, const char *with) {
    return !strncmp(text, with, strlen(with));
}

bool host_name_is_ours(const char *name) {
    return starts(name, "ars_") || starts(name, "ars::") || starts(name, "pyprob_cpp::");
}

bool host_name_is_draw(const char *name) {
    const char *rest = starts(name, "ars_") ? name + 4 : starts(name, "ars::") ? name + 5 : "";
    return starts(rest, "flat") || starts(rest, "sample");
}

bool host_name_is_standard(const char *name) {
    return starts(name, "std::") || starts(name, "__gnu_cxx::");
}

bool host_same_name(const char *a, const char *b) {
    return !strcmp(a, b) || (host_name_is_draw(a) && host_name_is_draw(b));
}
