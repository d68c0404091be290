/* keys.c: the key file that `ars keygen` made for the simulator's side: who we are, and which controller we talk to.
 *
 * Lines of a word and a value in hex: secret, public (ours), peer (the controller's), token. A path is all that the environment
 * carries, and no message repeats what is in the file. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "keys.h"

enum { LARGEST = 4096 };

static bool refuse(ars__why *why, const char *path, const char *what) {
    snprintf(why->text, sizeof why->text, "ARS_KEY=%.100s: %s", path, what);
    return false;
}

/* Private means: a file of ours that nobody else can read. */
static bool read_private(const char *path, char *text, ars__why *why) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return refuse(why, path, strerror(errno));
    struct stat st;
    ssize_t n = fstat(fd, &st) ? -1 : 0;
    const char *wrong = NULL;
    if (n || !S_ISREG(st.st_mode))
        wrong = "this is not a file";
    else if (st.st_uid != geteuid())
        wrong = "this file belongs to another user";
    else if (st.st_mode & 077)
        wrong = "others can read this file: run chmod 600 on it, and make new keys if anyone may have read it";
    else if ((n = read(fd, text, LARGEST - 1)) <= 0)
        wrong = "this file cannot be read";
    close(fd);
    if (wrong) return refuse(why, path, wrong);
    text[n] = 0;
    return true;
}

static bool take_hex(const char *text, unsigned char *out, size_t size) {
    if (strlen(text) != 2 * size || strspn(text, "0123456789abcdef") != 2 * size) return false;
    for (size_t i = 0; i < size; i++) sscanf(text + 2 * i, "%2hhx", &out[i]);
    return true;
}

static bool parse(char *text, struct keys *keys) {
    unsigned found = 0;
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char word[16], value[80];
        if (*line == '#' || sscanf(line, "%15s %79s", word, value) != 2) continue;
        if (!strcmp(word, "role") && !strcmp(value, "simulator")) found |= 1;
        if (!strcmp(word, "secret") && take_hex(value, keys->secret, sizeof keys->secret)) found |= 2;
        if (!strcmp(word, "public") && take_hex(value, keys->public, sizeof keys->public)) found |= 4;
        if (!strcmp(word, "peer") && take_hex(value, keys->peer, sizeof keys->peer)) found |= 8;
        if (!strcmp(word, "token") && strlen(value) == 32) {
            memcpy(keys->token, value, sizeof keys->token);
            found |= 16;
        }
        explicit_bzero(value, sizeof value);
    }
    return found == 31;
}

bool host_keys_read(const char *path, struct keys *keys, ars__why *why) {
    char text[LARGEST];
    if (!read_private(path, text, why)) return false;
    bool good = parse(text, keys);
    explicit_bzero(text, sizeof text);
    return good || refuse(why, path, "this is not the simulator.key of a pair that ars keygen made");
}
