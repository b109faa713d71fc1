/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs a fuzz target over the files of the folders that are given: the corpus as a test of any compiler. */
#include "fuzz.h"

#include <dirent.h>

static void replay(const char *path)
{
    FILE *f = fopen(path, "rb");
    uint8_t *data;
    size_t size;

    MUST(f != NULL && fseek(f, 0, SEEK_END) == 0);
    size = (size_t)ftell(f);
    rewind(f);
    data = malloc(size + 1);
    MUST(data != NULL && fread(data, 1, size, f) == size);
    fclose(f);
    /* An allocation of the exact size, so that reading past its end is seen. */
    uint8_t *exact = malloc(size > 0 ? size : 1);
    MUST(exact != NULL);
    memcpy(exact, data, size);
    free(data);
    fprintf(stderr, "%s\n", path); /* the last one printed is the one that failed */
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
}

int main(int argc, char **argv)
{
    unsigned n = 0;

    for (int i = 1; i < argc; i++) {
        DIR *d = opendir(argv[i]);
        MUST(d != NULL);
        for (struct dirent *e; (e = readdir(d)) != NULL;) {
            char path[4096];
            if (e->d_name[0] == '.')
                continue;
            snprintf(path, sizeof path, "%s/%s", argv[i], e->d_name);
            replay(path);
            n++;
        }
        closedir(d);
    }
    printf("%u inputs\n", n);
    return n > 0 ? 0 : 1;
}
