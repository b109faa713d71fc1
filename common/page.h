/* SPDX-License-Identifier: BSD-3-Clause */
/* One self-contained HTML page: no scripts, nothing loaded, light or dark as the reader's system. Text is escaped. */
#ifndef PLAIT_COMMON_PAGE_H
#define PLAIT_COMMON_PAGE_H

#include "svg.h"

void page_begin(FILE *f, const char *title);
void page_end(FILE *f);

void page_heading(FILE *f, const char *text);
void page_paragraph(FILE *f, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** Sentences as a list: between page_list() and page_list_end(). */
void page_list(FILE *f);
void page_item(FILE *f, const char *format, ...) __attribute__((format(printf, 2, 3)));
void page_list_end(FILE *f);

/** heads: titles of the columns with '|' between; '<' first: the column is text, not numbers. */
void page_table(FILE *f, const char *heads);
void page_row(FILE *f);
void page_cell(FILE *f, const char *format, ...) __attribute__((format(printf, 2, 3)));
void page_table_end(FILE *f);

/** A picture goes in between. */
void page_picture(FILE *f);
void page_picture_end(FILE *f);

#endif
