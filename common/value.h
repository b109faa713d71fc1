/* SPDX-License-Identifier: BSD-3-Clause */
/* Values of options: from text to what it means. Functions return false after a message that names flag and value. */
#ifndef PLAIT_COMMON_VALUE_H
#define PLAIT_COMMON_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct choice {
    const char *name; /* NULL ends a list */
    int value;
    const char *also; /* further names, as other programs have them, with spaces between; NULL: none */
};

/** Is the name one of the list's words, with spaces between, as plait_same_name() compares? NULL is an empty list. */
bool list_has(const char *list, const char *name);

/** Decimal digits, with a value from `least` to `most`. */
bool value_number(const char *flag, const char *text, double least, double most, uint64_t *out);

/** A decimal number, whatever the locale. */
bool value_real(const char *flag, const char *text, double least, double most, double *out);

/** Bytes, as 65536, 64K, 1M or 2G. */
bool value_bytes(const char *flag, const char *text, size_t *out);

/** Names in any case of letters. out: an int, or an enum of that size */
bool value_choice(const char *flag, const char *text, const struct choice *choices, void *out);

/** A file name that ends in .svg. */
bool value_picture(const char *flag, const char *text);

/** Digits at the start of `text`, from `least` to `most`; *end is what follows them. false without a message. */
bool number_begins(const char *text, uint32_t least, uint32_t most, const char **end, uint32_t *out);

/** Add "name" or ", name" to a list in text[room]; what does not fit is cut. */
void list_add(char *text, size_t room, const char *name);

/**
 * A node map: "4x2" is four nodes of two ranks each, "3+1+2" or "3,1,2" nodes of that many ranks, in rank order.
 *
 * node   [room] gets the node of each rank
 * nrank  gets the number of ranks
 * Returns false, without a message, when the text is neither or describes more than `room` ranks.
 */
bool nodes_parse(const char *text, uint32_t *node, uint32_t room, uint32_t *nrank);

/**
 * Levels of groups, as struct plait_shape has them: node maps with commas between, innermost first, of equally many
 * ranks: "4x2,2x4" is 2 nodes of 2 packages of 2 ranks.
 *
 * level  [most * room] gets the maps, one after the other; *nrank their ranks
 * Returns the number of levels; 0 without a message: wrong text, more than `most` levels or `room` ranks.
 */
uint32_t levels_parse(const char *text, uint32_t *level, uint32_t most, uint32_t room, uint32_t *nrank);

#endif
