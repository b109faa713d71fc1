/* SPDX-License-Identifier: BSD-3-Clause */
/* Sizes such as 64K, compared with a second reading of the same rule in 128 bits. */
#include "fuzz.h"

#include "base/bytes.h"

/* Digits, then at most one letter. False: no size, or 2^64 and more. */
static bool reference(const char *text, size_t *out)
{
    static const char letters[] = "KMGkmg";
    const size_t ndigit = strspn(text, "0123456789");
    const char *letter = text[ndigit] != '\0' ? strchr(letters, text[ndigit]) : NULL;
    unsigned __int128 value = 0;

    if (ndigit == 0 || strlen(text) != ndigit + (letter != NULL))
        return false;
    for (size_t i = 0; i < ndigit; i++) {
        value = 10 * value + (unsigned)(text[i] - '0');
        if (value > SIZE_MAX)
            return false;
    }
    value <<= letter != NULL ? 10 * ((letter - letters) % 3 + 1) : 0;
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
