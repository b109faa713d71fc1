/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli.h"

#include "base/bytes.h"
#include "base/nearest.h"
#include "output.h"

#include <plait/comm.h>

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void cli_fail(const struct cli_program *program, const char *format, ...)
{
    va_list args;

    fprintf(stderr, "%s: ", program->name);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\n%s --help shows the options\n", program->name);
    exit(2);
}

static void help(const struct cli_program *program)
{
    printf("Usage: %s %s\n\n%s\nOptions:\n", program->name, program->usage, program->text);
    for (const struct cli_option *o = program->options; o->name != NULL; o++) {
        char left[64];
        snprintf(left, sizeof left, "%s%s%s", o->name, o->arg != NULL ? " " : "", o->arg != NULL ? o->arg : "");
        printf("  %-24s %s\n", left, o->text);
    }
    printf("  %-24s %s\n", "--help", "show this");
}

void cli_show_bytes(char *text, uint64_t bytes)
{
    static const char *const units[] = { "bytes", "KiB", "MiB", "GiB", "TiB" };
    double value = (double)bytes;
    unsigned u = 0;

    for (; value >= 1024 && u < 4; u++)
        value /= 1024;
    snprintf(text, 32, "%.4g %s", value, units[u]);
}

bool cli_nodes(const char *text, uint32_t *node, uint32_t room, uint32_t *nrank)
{
    const char *times = strchr(text, 'x');
    uint32_t n = 0, nodes = 0;

    while (*text != '\0') {
        char *end;
        const unsigned long first = isdigit((unsigned char)*text) ? strtoul(text, &end, 10) : 0;
        unsigned long repeat = 1, ranks = first;

        if (first == 0 || first > room)
            return false;
        if (times != NULL) {
            if (end != times || !isdigit((unsigned char)times[1]))
                return false;
            repeat = first;
            ranks = strtoul(times + 1, &end, 10);
            if (ranks == 0 || ranks > room || *end != '\0')
                return false;
        }
        for (; repeat > 0; repeat--, nodes++)
            for (unsigned long r = 0; r < ranks; r++) {
                if (n == room)
                    return false;
                node[n++] = nodes;
            }
        if (*end != '\0' && ((*end != ',' && *end != '+') || end[1] == '\0'))
            return false;
        text = *end == '\0' ? end : end + 1;
    }
    *nrank = n;
    return n > 0;
}

static const struct cli_option *find(const struct cli_program *program, const char *name, size_t length)
{
    for (const struct cli_option *o = program->options; o->name != NULL; o++)
        if (strlen(o->name) == length && memcmp(o->name, name, length) == 0)
            return o;
    return NULL;
}

/* NULL: nothing is near enough to be what was meant. */
static const char *nearest(const struct cli_program *program, const char *name)
{
    const unsigned third = (unsigned)strlen(name) / 3;
    const char *best = NULL;
    unsigned least = (third > 2 ? third : 2) + 1;

    if (plait_distance(name, "--help") < least) {
        best = "--help";
        least = plait_distance(name, best);
    }

    for (const struct cli_option *o = program->options; o->name != NULL; o++) {
        const unsigned d = plait_distance(name, o->name);
        if (d < least) {
            least = d;
            best = o->name;
        }
    }
    return best;
}

static void store(const struct cli_program *program, const struct cli_option *o, const char *value)
{
    const unsigned long most = o->kind == CLI_RANKS ? PLAIT_MAX_RANKS : 1 << 20;
    char *end;
    unsigned long number;

    switch (o->kind) {
    case CLI_FLAG:
        *(bool *)o->target = true;
        break;
    case CLI_NUMBER:
    case CLI_RANKS:
        number = strtoul(value, &end, 10);
        if (!isdigit((unsigned char)*value) || *end != '\0' || number < 1 || number > most)
            cli_fail(program, "%s '%s': must be a number from 1 to %lu", o->name, value, most);
        *(uint32_t *)o->target = (uint32_t)number;
        break;
    case CLI_BYTES:
        if (!plait_parse_bytes(value, o->target))
            cli_fail(program, "%s '%s': must be a number of bytes such as 65536, 64K or 1M", o->name, value);
        break;
    case CLI_TEXT:
        *(const char **)o->target = value;
        break;
    }
}

void cli_parse(const struct cli_program *program, int argc, char **argv, int *nrest)
{
    *nrest = 0;
    for (int i = 1; i < argc; i++) {
        const size_t length = strcspn(argv[i], "=");
        const bool joined = argv[i][length] == '=';
        const struct cli_option *o = find(program, argv[i], length);
        const char *value = joined ? argv[i] + length + 1 : NULL;

        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            help(program);
            exit(output_end(program->name, 0));
        }
        if (argv[i][0] != '-') {
            argv[++*nrest] = argv[i];
            continue;
        }
        if (o == NULL) {
            const char *meant = nearest(program, argv[i]);
            cli_fail(program, "there is no option '%s'%s%s%s", argv[i], meant != NULL ? "; did you mean " : "",
                     meant != NULL ? meant : "", meant != NULL ? "?" : "");
        }
        if (o->kind == CLI_FLAG && joined)
            cli_fail(program, "%s takes no value", o->name);
        if (o->kind != CLI_FLAG && !joined) {
            if (i + 1 == argc)
                cli_fail(program, "%s needs a value: %s %s", o->name, o->name, o->arg);
            value = argv[++i];
        }
        store(program, o, value);
    }
}
