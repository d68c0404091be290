/* The version at run time is the one of the header. */
#include "ars.h"
#include "check.h"

int main(void) {
    char text[64];
    snprintf(text, sizeof text, "%d.%d.%d", ARS_VERSION_MAJOR, ARS_VERSION_MINOR, ARS_VERSION_PATCH);
    CHECK_TEXT(ars_version(), text);
    return check_failures != 0;
}
