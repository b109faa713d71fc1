/* SPDX-License-Identifier: BSD-3-Clause */
/* Sizes such as 64K, compared with a second reading of the same rule in 128 bits. */
#include "fuzz.h"

#include "base/bytes.h"

#include <strings.h>

/* Digits, then at most one unit. False: no size, or 2^64 and more. */
static bool reference(const char *text, size_t *out)
{
    static const char *const units[] = { "", "K", "M", "G" }, *const ends[] = { "", "B", "iB" };
    const size_t ndigit = strspn(text, "0123456789");
    unsigned __int128 value = 0;
    char unit[8];
    int power = -1;

    for (int u = 0; u < 4; u++)
        for (int e = 0; e < (u > 0 ? 3 : 2); e++) {
            snprintf(unit, sizeof unit, "%s%s", units[u], ends[e]);
            power = strcasecmp(text + ndigit, unit) == 0 ? u : power;
        }
    if (ndigit == 0 || power < 0)
        return false;
    for (size_t i = 0; i < ndigit; i++) {
        value = 10 * value + (unsigned)(text[i] - '0');
        if (value > SIZE_MAX)
            return false;
    }
    value <<= 10 * power;
    if (value > SIZE_MAX)
        return false;
    *out = (size_t)value;
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *const text = text_of(data, size);
    size_t value = 123, want = 123, again;
    char printed[32];

    MUST(plait_parse_bytes(text, &value) == reference(text, &want));
    MUST(value == want); /* untouched after an error */
    snprintf(printed, sizeof printed, "%zu", value);
    MUST(plait_parse_bytes(printed, &again) && again == value);
    free(text);
    return 0;
}
