/* SPDX-License-Identifier: BSD-3-Clause */
#include "plot.h"

#include "child.h"
#include "message.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

const char *const plot_colours[PLOT_NCOLOUR] = { "#c1272d", "#0072b2", "#009e73", "#d18f00", "#8560a8", "#56b4e9" };

bool plot_possible(const char *path)
{
    const bool existed = access(path, F_OK) == 0;
    const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    char gnuplot[4096];

    if (fd < 0)
        return complain("--plot %s: %s", path, strerror(errno));
    close(fd);
    if (!existed)
        unlink(path);
    return child_find("gnuplot", "", gnuplot, sizeof gnuplot) ||
           complain("--plot %s: gnuplot is not installed; install gnuplot-nox (Debian)", path);
}

void plot_terminal(FILE *f, const char *path, const char *size, const char *more)
{
    const char *dot = strrchr(path, '.');
    const bool svg = dot != NULL && strcmp(dot, ".svg") == 0;

    fprintf(f, "set terminal %s size %s font 'sans,%d' background rgb 'white'%s\nset output '%s'\n",
            svg ? "svg" : "pngcairo", size, svg ? 15 : 13, more, path);
}

/* The script is on gnuplot's standard input. */
static bool draw(const char *path, FILE *script)
{
    if (fflush(script) != 0 || ferror(script)) /* rewind() would forget the error */
        return complain("--plot %s: gnuplot's script cannot be written to a temporary file: %s", path, strerror(errno));
    rewind(script);
    const int status = child_run("gnuplot", fileno(script));
    if (status < 0)
        return complain("--plot %s: gnuplot cannot be run: %s; install gnuplot-nox (Debian)", path, strerror(errno));
    return status == 0 || complain("--plot %s: gnuplot failed with status %d", path, status);
}

bool plot_script(const char *path, bool (*write)(FILE *f, const void *what, const char *path), const void *what)
{
    fflush(stdout);
    FILE *script = tmpfile();
    if (script == NULL)
        return complain("--plot %s: no temporary file for gnuplot's script: %s", path, strerror(errno));
    const bool ok = write(script, what, path) && draw(path, script);
    fclose(script);
    return ok;
}
