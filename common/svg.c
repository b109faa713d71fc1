/* SPDX-License-Identifier: BSD-3-Clause */
#include "svg.h"

#include <stdarg.h>
#include <stdint.h>
#include <string.h>

/* ---- Text ------------------------------------------------------------------------------------------ */

/* Bytes of the character at the start, if XML allows it; else 0. */
static unsigned character(const unsigned char *t)
{
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    const unsigned n = t[0] < 0x80 ? 1 : t[0] >= 0xf0 ? 4 : t[0] >= 0xe0 ? 3 : t[0] >= 0xc0 ? 2 : 0;
    uint32_t c = n < 2 ? t[0] : t[0] & (0x7fu >> n);

    for (unsigned i = 1; i < n; i++) {
        if ((t[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (t[i] & 0x3f);
    }
    const bool other = n == 1 && c < 0x20 && c != '\t' && c != '\n' && c != '\r';
    return n > 0 && c >= least[n] && c <= 0x10ffff && c >> 11 != 0x1b && c >> 1 != 0x7fff && !other ? n : 0;
}

void markup_text(FILE *f, const char *text)
{
    for (const char *t = text; *t != '\0';) {
        const unsigned n = character((const unsigned char *)t);
        const char *name = *t == '<' ? "&lt;" : *t == '>' ? "&gt;" : *t == '&' ? "&amp;" : *t == '"' ? "&quot;" : NULL;
        if (name != NULL || n == 0)
            fputs(name != NULL ? name : "?", f);
        else
            fwrite(t, 1, n, f);
        t += n > 0 ? n : 1;
    }
}

static void print_list(FILE *f, const char *format, va_list arguments)
{
    char text[1001];

    vsnprintf(text, sizeof text, format, arguments);
    markup_text(f, text);
}

void markup_print(FILE *f, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    print_list(f, format, arguments);
    va_end(arguments);
}

/* ---- Pictures -------------------------------------------------------------------------------------- */

static const char *const light[SVG_NCOLOUR] = { "#0067b0", "#c9302c", "#00856a", "#b77400",
                                                "#7d4fb0", "#0089a8", "#9c5a2c", "#c2408a" },
                         *const dark[SVG_NCOLOUR] = { "#5fb3f5", "#ff7a70", "#3fd0a8", "#f2b134",
                                                      "#bd98f0", "#52d0ea", "#d99a68", "#f48ac4" };

static void colours(FILE *f, const char *ink, const char *muted, const char *grid, const char *paper,
                    const char *const *list)
{
    fprintf(f, ":root{color-scheme:light dark;--ink:%s;--muted:%s;--grid:%s;--paper:%s", ink, muted, grid, paper);
    for (int k = 0; k < SVG_NCOLOUR; k++)
        fprintf(f, ";--c%d:%s", k, list[k]);
    fputc('}', f);
}

void svg_style(FILE *f)
{
    colours(f, "#1b1f24", "#5b6470", "#dfe3e8", "#ffffff", light);
    fputs("\n@media (prefers-color-scheme:dark){", f);
    colours(f, "#e8eaed", "#a3acb7", "#3a4047", "#16191d", dark);
    fputs("}\nsvg text{font:13px system-ui,sans-serif;fill:var(--ink)}svg .bold{font-weight:600}"
          "svg .small{font-size:11px}svg .middle{text-anchor:middle}svg .end{text-anchor:end}"
          "svg text.muted{fill:var(--muted)}\n"
          "svg .paper{fill:var(--paper)}svg .band{fill:var(--grid);fill-opacity:.45}svg .ink{fill:var(--ink)}svg "
          ".muted{fill:var(--muted)}"
          "svg .grid{stroke:var(--grid);stroke-width:1;fill:none}svg .frame{stroke:var(--muted);fill:none}\n",
          f);
    for (int k = 0; k < SVG_NCOLOUR; k++)
        fprintf(f, "svg .l%d{stroke:var(--c%d);fill:none}svg .f%d{fill:var(--c%d)}", k, k, k, k);
    fputs("svg .dashed{stroke-dasharray:6 4}\n", f);
}

void svg_begin(FILE *f, double width, double height, const char *title, bool alone)
{
    if (alone)
        fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n", f);
    fprintf(f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"%.0f\" height=\"%.0f\" "
            "viewBox=\"0 0 %.0f %.0f\">\n<title>",
            width, height, width, height);
    markup_text(f, title);
    fputs("</title>\n", f);
    if (alone) {
        fputs("<style>", f);
        svg_style(f);
        fputs("</style>\n", f);
        svg_rect(f, 0, 0, width, height, "paper");
    }
}

void svg_end(FILE *f)
{
    fputs("</svg>\n", f);
}

void svg_text(FILE *f, double x, double y, const char *classes, const char *format, ...)
{
    va_list arguments;

    fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\">", x, y, classes);
    va_start(arguments, format);
    print_list(f, format, arguments);
    va_end(arguments);
    fputs("</text>\n", f);
}

void svg_line(FILE *f, double x1, double y1, double x2, double y2, const char *classes)
{
    fprintf(f, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"%s\"/>\n", x1, y1, x2, y2, classes);
}

void svg_rect(FILE *f, double x, double y, double width, double height, const char *classes)
{
    fprintf(f, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" class=\"%s\"/>\n", x, y, width, height,
            classes);
}

double svg_width(const char *text, bool small)
{
    size_t n = 0;

    for (; *text != '\0'; text++)
        n += (*text & 0xc0) != 0x80;
    return (small ? 6.1 : 7.2) * (double)n;
}
