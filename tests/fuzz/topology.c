/* SPDX-License-Identifier: BSD-3-Clause */
/* NCCL's topology XML: a machine that is made of it is valid, and its file is read as itself. What is refused has a line. */
#include "complain.h"
#include "machine_text.h"

#include "hardware.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct machine_wish wish = { .hosts = 128, .rack = 16, .oversubscription = 2 };
    struct plait_machine m, again;
    struct part *host = parts_of_nccl("fuzz", (const char *)data, size);

    if (host == NULL)
        return 0;
    if (machine_of_parts("fuzz", host, &wish, &m)) {
        MUST(plait_machine_check(&m) == PLAIT_OK);
        char *text = text_of_machine(&m);
        MUST(machine_of_text(text, strlen(text), &again));
        must_be_equal(&m, &again);
        free(text);
    }
    FILE *f = fopen("/dev/null", "w");
    MUST(f != NULL);
    parts_draw(f, host, &wish);
    fclose(f);
    parts_free(host);
    return 0;
}
