/* SPDX-License-Identifier: BSD-3-Clause */
#include "page.h"

#include <stdarg.h>
#include <string.h>

static void element(FILE *f, const char *name, const char *format, va_list arguments)
{
    char text[1001];

    vsnprintf(text, sizeof text, format, arguments);
    fprintf(f, "<%s>", name);
    markup_text(f, text);
    fprintf(f, "</%s>\n", name);
}

#define ELEMENT(f, name, format)             \
    do {                                     \
        va_list arguments;                   \
        va_start(arguments, format);         \
        element(f, name, format, arguments); \
        va_end(arguments);                   \
    } while (0)

void page_begin(FILE *f, const char *title)
{
    fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width\">\n"
          "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
          "<title>",
          f);
    markup_text(f, title);
    fputs("</title>\n<style>", f);
    svg_style(f);
    fputs("body{background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,sans-serif;max-width:1040px;"
          "margin:24px auto;padding:0 16px}h1{font-size:22px}h2{font-size:18px;margin-top:32px}\n"
          ".wide{overflow-x:auto}figure{margin:16px 0}figure "
          "svg{max-width:100%;height:auto}table{border-collapse:collapse;font-size:13px}"
          "th,td{padding:3px 7px;text-align:right;border-bottom:1px solid "
          "var(--grid);white-space:nowrap;vertical-align:bottom;"
          "font-variant-numeric:tabular-nums}th{color:var(--muted);font-weight:600;white-space:normal}\n"
          "th.text,td.text{text-align:left}</style></head><body>\n<h1>",
          f);
    markup_text(f, title);
    fputs("</h1>\n", f);
}

void page_end(FILE *f)
{
    fputs("</body></html>\n", f);
}

void page_heading(FILE *f, const char *text)
{
    fputs("<h2>", f);
    markup_text(f, text);
    fputs("</h2>\n", f);
}

void page_paragraph(FILE *f, const char *format, ...)
{
    ELEMENT(f, "p", format);
}

void page_list(FILE *f)
{
    fputs("<ul>\n", f);
}

void page_item(FILE *f, const char *format, ...)
{
    ELEMENT(f, "li", format);
}

void page_list_end(FILE *f)
{
    fputs("</ul>\n", f);
}

/* ---- Tables ----------------------------------------------------------------------------------------- */

void page_table(FILE *f, const char *heads)
{
    char text[1024], *rest = text;

    snprintf(text, sizeof text, "%s", heads);
    fputs("<div class=\"wide\"><table><thead><tr>", f);
    for (const char *head = strsep(&rest, "|"); head != NULL; head = strsep(&rest, "|")) {
        fputs(*head == '<' ? "<th class=\"text\">" : "<th>", f);
        markup_text(f, head + (*head == '<'));
        fputs("</th>", f);
    }
    fputs("</tr></thead><tbody>\n", f);
}

void page_row(FILE *f)
{
    fputs("<tr>", f); /* HTML lets rows and cells end where the next begin */
}

/* A cell that begins with no digit is text. */
void page_cell(FILE *f, const char *format, ...)
{
    char text[1001];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fputs(text[0] != '\0' && strchr("0123456789-", text[0]) != NULL ? "<td>" : "<td class=\"text\">", f);
    markup_text(f, text);
    fputs("</td>", f);
}

void page_table_end(FILE *f)
{
    fputs("\n</tbody></table></div>\n", f);
}

void page_picture(FILE *f)
{
    fputs("<figure>\n", f);
}

void page_picture_end(FILE *f)
{
    fputs("</figure>\n", f);
}
