/* SPDX-License-Identifier: BSD-3-Clause */
/* The configuration file and every setting's parser: values are in range, errors name the file and a setting. */
#include "fuzz.h"

#include "../config_text.h"
#include "base/log.h"

#include <plait/coll.h>
#include <plait/status.h>

static void must_be_in_range(const struct plait_config *c)
{
    MUST(memchr(c->algo, '\0', sizeof c->algo) != NULL && memchr(c->isa, '\0', sizeof c->isa) != NULL);
    if (c->algo[0] != '\0') {
        char coll[sizeof c->algo];
        snprintf(coll, sizeof coll, "%.*s", (int)strcspn(c->algo, ":"), c->algo);
        MUST(plait_coll_find(coll) >= 0 && strchr(c->algo, ':') != NULL);
    }
    MUST(c->progress == 0 || c->progress == 1);
    MUST(c->file[0] == '\0'); /* only the environment names a file */
    MUST(c->ports.first > 0 && c->ports.n > 0 && c->ports.n - 1 <= UINT16_MAX - c->ports.first);
    MUST(memchr(c->ifname, '\0', sizeof c->ifname) != NULL && memchr(c->launcher, '\0', sizeof c->launcher) != NULL);
    MUST(c->secret[0] == '\0' || strnlen(c->secret, sizeof c->secret) >= PLAIT_LEAST_SECRET);
    MUST(memchr(c->secret, '\0', sizeof c->secret) != NULL);
    MUST(c->require_secret == 0 || c->require_secret == 1);
    MUST(c->check == 0 || c->check == 1);
    MUST(c->cma >= PLAIT_CMA_NEVER && c->cma <= PLAIT_CMA_AUTO);
    MUST(c->log >= PLAIT_LOG_ERROR && c->log <= PLAIT_LOG_DEBUG);
    MUST(c->deadline > 0 && c->deadline <= 1e9);
    MUST(c->timeout > 0 && c->timeout <= 1e9);
    MUST(c->warn > 0 && c->warn <= 1e9);
}

/* Comments, blanks and line ends of another system mean nothing. */
static void must_mean_the_same(const uint8_t *data, size_t size, const struct plait_config *want)
{
    static const char comment[] = "# a comment = nothing\r\n\t \n";
    char *text = malloc(sizeof comment - 1 + size + 1);
    struct plait_config c;

    MUST(text != NULL);
    memcpy(text, comment, sizeof comment - 1);
    if (size > 0)
        memcpy(text + sizeof comment - 1, data, size);
    text[sizeof comment - 1 + size] = '\n';
    MUST(config_parse("f", text, sizeof comment + size, &c) == PLAIT_OK);
    MUST(memcmp(&c, want, sizeof c) == 0);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct plait_config c, untouched;

    memset(&c, 0x5a, sizeof c);
    untouched = c;
    const enum plait_status status = config_parse("f", (const char *)data, size, &c);
    if (status == PLAIT_OK) {
        must_be_in_range(&c);
        must_mean_the_same(data, size, &c);
    } else {
        MUST(status == PLAIT_ERR_CONFIG);
        MUST(memcmp(&c, &untouched, sizeof c) == 0);
        MUST(strstr(plait_last_error(), "f:") != NULL); /* the file and the line */
    }
    return 0;
}
