/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs a fuzz target with any compiler: over the inputs of its corpus, then over changed copies of them.
 *
 *   replay CORPUS [TIMES [SEED]]
 *
 * TIMES (0) inputs are made of SEED (1): files of the corpus, cut, joined and overwritten at random. Batches of them run
 * in child processes. If a child dies, its inputs run again one by one, and the first one that fails is kept in the
 * current folder. libFuzzer (tools/fuzz) is guided by coverage and finds more.
 */
#include "fuzz.h"

#include <dirent.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_INPUTS = 1024, MOST_BYTES = 1 << 16, BATCH = 500, SECONDS = 120 };

struct input {
    uint8_t *data;
    size_t size;
};

static struct input corpus[MOST_INPUTS];
static unsigned ninput;
static uint64_t state; /* of the random numbers, by xorshift64* */

static size_t below(size_t n)
{
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return (size_t)(state * 0x2545f4914f6cdd1d >> 16) % n;
}

/* In an allocation of the exact size, so that reading past its end is seen. */
static void run(const struct input *input)
{
    uint8_t *exact = malloc(input->size > 0 ? input->size : 1);

    MUST(exact != NULL);
    memcpy(exact, input->data, input->size);
    LLVMFuzzerTestOneInput(exact, input->size);
    free(exact);
}

static void load(const char *path)
{
    FILE *f = fopen(path, "rb");

    MUST(f != NULL && fseek(f, 0, SEEK_END) == 0 && ninput < MOST_INPUTS);
    struct input *input = &corpus[ninput++];
    input->size = (size_t)ftell(f);
    rewind(f);
    input->data = malloc(input->size + 1);
    MUST(input->data != NULL && fread(input->data, 1, input->size, f) == input->size);
    fclose(f);
    fprintf(stderr, "%s\n", path); /* the last one printed is the one that failed */
    run(input);
}

static int is_shown(const struct dirent *e)
{
    return e->d_name[0] != '.';
}

static void load_all(const char *folder)
{
    struct dirent **entries;
    const int n = scandir(folder, &entries, is_shown, alphasort);

    MUST(n > 0);
    for (int i = 0; i < n; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        load(path);
        free(entries[i]);
    }
    free(entries);
}

/* ---- Changed inputs ---------------------------------------------------------------------------------------- */

/* Replace `gone` bytes at `at` by `n` others. */
static void splice(struct input *to, size_t at, size_t gone, const uint8_t *other, size_t n)
{
    if (n > MOST_BYTES - (to->size - gone))
        return;
    memmove(to->data + at + n, to->data + at + gone, to->size - at - gone);
    memcpy(to->data + at, other, n);
    to->size += n - gone;
}

static void change(struct input *to)
{
    static const char *const words[] = { "0",   "-1", "1e999", "4294967296", "18446744073709551615",
                                         "nan", "\"", "\n",    "," };
    static const uint8_t bytes[] = { 0, 1, 0x7f, 0x80, 0xff, ' ', '\n', '{' };
    const struct input *from = &corpus[below(ninput)];
    const size_t at = below(to->size + 1), left = to->size - at, gone = left > 0 ? below(left < 16 ? left : 16) : 0;
    const size_t start = below(from->size + 1), rest = from->size - start,
                 n = rest > 0 ? below(rest < 64 ? rest : 64) + 1 : 0;
    const char *word = words[below(sizeof words / sizeof words[0])];

    switch (below(6)) {
    case 0:
        if (left > 0)
            to->data[at] ^= (uint8_t)(1u << below(8));
        break;
    case 1:
        if (left > 0)
            to->data[at] = bytes[below(sizeof bytes)];
        break;
    case 2: /* cut */
        splice(to, at, left > 0 ? below(left) + 1 : 0, from->data, 0);
        break;
    case 3: /* a part of any input */
        splice(to, at, gone, from->data + start, n);
        break;
    case 4:
        splice(to, at, gone, (const uint8_t *)word, strlen(word));
        break;
    default: /* end here, as the other one ends */
        splice(to, at, left, from->data + start, rest);
    }
}

/* Input `index` of this seed. */
static void make(struct input *to, unsigned seed, unsigned index)
{
    state = ((uint64_t)seed << 32 | index) * 0x9e3779b97f4a7c15 + 1;
    const struct input *from = &corpus[below(ninput)];
    to->size = from->size < MOST_BYTES ? from->size : MOST_BYTES;
    memcpy(to->data, from->data, to->size);
    for (size_t n = below(6) + 1; n > 0; n--)
        change(to);
}

/* Does a process live that runs n inputs from `first` on? */
static int lives(struct input *made, unsigned seed, unsigned first, unsigned n)
{
    int status;
    const pid_t pid = fork();

    MUST(pid >= 0);
    if (pid == 0) {
        alarm(SECONDS);
        for (unsigned i = first; i < first + n; i++) {
            make(made, seed, i);
            run(made);
        }
        _exit(0);
    }
    MUST(waitpid(pid, &status, 0) == pid);
    return status == 0;
}

static void keep(struct input *made, unsigned seed, unsigned index)
{
    char path[64];

    make(made, seed, index);
    snprintf(path, sizeof path, "failed-%u-%u", seed, index);
    FILE *f = fopen(path, "wb");
    MUST(f != NULL && fwrite(made->data, 1, made->size, f) == made->size && fclose(f) == 0);
    fprintf(stderr, "input %u of seed %u fails; it is kept in %s\n", index, seed, path);
}

static int run_changed(unsigned times, unsigned seed)
{
    struct input made = { malloc(MOST_BYTES), 0 };
    int failed = 0;

    MUST(made.data != NULL);
    for (unsigned first = 0; first < times && !failed; first += BATCH) {
        const unsigned n = times - first < BATCH ? times - first : BATCH;
        failed = !lives(&made, seed, first, n);
        for (unsigned i = first; failed && i < first + n; i++)
            if (!lives(&made, seed, i, 1)) {
                keep(&made, seed, i);
                break;
            }
    }
    free(made.data);
    return failed;
}

int main(int argc, char **argv)
{
    const unsigned times = argc > 2 ? (unsigned)atoi(argv[2]) : 0, seed = argc > 3 ? (unsigned)atoi(argv[3]) : 1;

    MUST(argc > 1);
    load_all(argv[1]);
    const int failed = run_changed(times, seed);
    printf("%u inputs, and %u changed ones of seed %u\n", ninput, times, seed);
    for (unsigned i = 0; i < ninput; i++)
        free(corpus[i].data);
    return failed;
}
