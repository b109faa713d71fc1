/* SPDX-License-Identifier: BSD-3-Clause */
#include "file.h"

#include "allocate.h"
#include "message.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void own_folder(char *out, size_t room)
{
    const ssize_t n = readlink("/proc/self/exe", out, room - 1);

    out[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(out, '/');
    if (slash != NULL)
        *slash = '\0';
}

FILE *file_find(const char *name, const char *suffix, const char *beside, const char *installed, char *path,
                size_t room)
{
    char own[1024];
    FILE *f;

    snprintf(path, room, "%s", name);
    if ((f = fopen(path, "re")) != NULL || strchr(name, '/') != NULL)
        return f;
    own_folder(own, sizeof own);
    snprintf(path, room, "%s/%s/%s.%s", own, beside, name, suffix);
    if ((f = fopen(path, "re")) != NULL)
        return f;
    snprintf(path, room, "%s/%s/%s.%s", own, installed, name, suffix);
    return fopen(path, "re");
}

char *file_read(FILE *f, const char *path, size_t most, size_t *bytes)
{
    size_t room = 0;
    char *text = NULL;

    *bytes = 0;
    do {
        room = 2 * room + 65536;
        text = grow(text, room, 1);
        *bytes += fread(text + *bytes, 1, room - 1 - *bytes, f);
    } while (*bytes == room - 1 && *bytes <= most);
    text[*bytes] = '\0';
    if (!ferror(f) && *bytes <= most)
        return text;
    complain("%s: %s", path, ferror(f) ? strerror(errno) : "too long");
    free(text);
    return NULL;
}

bool file_possible(const char *flag, const char *path)
{
    const bool existed = access(path, F_OK) == 0;
    const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);

    if (fd < 0)
        return complain("%s %s: %s", flag, path, strerror(errno));
    close(fd);
    if (!existed)
        unlink(path);
    return true;
}

bool file_write(const char *flag, const char *path, bool (*write)(FILE *f, const void *what), const void *what)
{
    FILE *f = fopen(path, "we");

    if (f == NULL)
        return complain("%s %s: %s", flag, path, strerror(errno));
    const bool ok = write(f, what);
    return file_end(f, flag, path) && ok;
}

bool file_end(FILE *f, const char *flag, const char *path)
{
    const bool failed = fflush(f) != 0 || ferror(f);
    const int error = errno;

    return (fclose(f) == 0 && !failed) ||
           complain("%s %s: cannot be written: %s", flag, path, strerror(failed ? error : errno));
}
