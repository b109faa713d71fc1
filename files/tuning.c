/* SPDX-License-Identifier: BSD-3-Clause */
/* Tuning files. lib/plugin/tuning.h describes them. */
#include "files.h"
#include "reader.h"
#include "writer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MOST_CHOICES 4096
#define MOST_SIZES   64
#define MOST_US      1e9

/* ---- Fields ------------------------------------------------------------------------------------------ */

#define FIELD(type, name, quantity, needed, least, most)                                                     \
    {                                                                                                        \
#name, quantity, needed, least, most, offsetof(struct type, name), sizeof((struct type *)NULL)->name \
    }
static const struct plait_field link_fields[] = {
    FIELD(plait_tuned_link, latency, PLAIT_TIME, true, 0, PLAIT_MOST_TIME),
    FIELD(plait_tuned_link, overhead, PLAIT_TIME, false, 0, PLAIT_MOST_TIME),
    FIELD(plait_tuned_link, bandwidth, PLAIT_RATE, true, 1, PLAIT_MOST_RATE),
};
static const struct plait_field machine_fields[] = {
    FIELD(plait_tuning, processors, PLAIT_COUNT, true, 1, PLAIT_MOST_PLACES),
};
static const struct plait_field file_fields[] = {
    FIELD(plait_tuning, copy, PLAIT_RATE, false, 1, PLAIT_MOST_RATE),
    FIELD(plait_tuning, reduce, PLAIT_RATE, false, 1, PLAIT_MOST_RATE),
};
static const struct plait_field choice_fields[] = {
    FIELD(plait_tuned_choice, hosts, PLAIT_COUNT, true, 1, PLAIT_MOST_PLACES),
    FIELD(plait_tuned_choice, ranks_per_host, PLAIT_COUNT, true, 0, PLAIT_MOST_PLACES),
};
static const struct plait_field size_fields[] = {
    FIELD(plait_tuned_choice, from, PLAIT_SIZE, true, 0, UINT64_MAX),
};
static const struct plait_field to_field = { "to", PLAIT_SIZE, true, 0, UINT64_MAX, 0, sizeof(uint64_t) };
#undef FIELD

#define KIND(fields, ...)                                                                                 \
    {                                                                                                     \
        fields, sizeof fields / sizeof *fields, (const char *const[]){ __VA_ARGS__, NULL }, NULL, 0, NULL \
    }
static const struct kind link_kind = KIND(link_fields, "between");
static const struct kind machine_kind = KIND(machine_fields, "processor", "fingerprint");
static const struct kind file_kind = KIND(file_fields, "plait", "date", "machine", "links", "copies", "choices");
static const struct kind choice_kind = KIND(choice_fields, "collective", "memory", "oversubscribed", "sizes");
static const struct kind size_kind = KIND(size_fields, "algorithm", "us", "next", "next_us");
static const struct kind copies_kind = { .others = (const char *const[]){ "to", "fastest", "else", NULL } };
#undef KIND

#define PLAIT_X(symbol, name, ...) name,
static const char *const colls[] = { PLAIT_COLL_LIST(PLAIT_X) NULL };
static const char *const memories[] = { PLAIT_MEMORY_LIST(PLAIT_X) NULL };
static const char *const links[] = { PLAIT_LINK_LIST(PLAIT_X) NULL };
static const char *const modes[] = { PLAIT_COPY_LIST(PLAIT_X) NULL };
#undef PLAIT_X

/* An array that is not there has 0 elements. */
static bool count_elements(const struct reader *r, const struct place *p, const char *key, size_t least, size_t most,
                           size_t *n)
{
    const json_t *v = json_object_get(p->object, key);

    *n = json_array_size(v);
    if (v == NULL || (json_is_array(v) && *n >= least && *n <= most))
        return true;
    return least == most ? reader_wrong(r, p, key, "%s.%s must be an array of %zu", p->name, key, most)
                         : reader_wrong(r, p, key, "%s.%s must be an array of %zu to %zu", p->name, key, least, most);
}

/* ---- The machine, links and copies ------------------------------------------------------------------- */

static bool read_date(const struct reader *r, const struct place *p, char *date)
{
    static const char form[] = "dddd-dd-dd";
    bool ok = true;

    if (!reader_text(r, p, "date", true, date, sizeof form))
        return false;
    for (size_t i = 0; i < sizeof form; i++)
        ok = ok && (form[i] == 'd' ? date[i] >= '0' && date[i] <= '9' : date[i] == form[i]);
    return ok || reader_wrong_value(r, p, "date", "a date such as \"2026-11-29\"");
}

static bool read_fingerprint(const struct reader *r, const struct place *p, uint64_t *out)
{
    static const char digits[] = "0123456789abcdef";
    char text[17];

    if (!reader_text(r, p, "fingerprint", true, text, sizeof text))
        return false;
    if (strlen(text) != 16 || strspn(text, digits) != 16)
        return reader_wrong_value(r, p, "fingerprint", "16 digits from 0 to 9 and a to f");
    for (const char *c = text; *c != '\0'; c++)
        *out = *out << 4 | (uint64_t)(strchr(digits, *c) - digits);
    return true;
}

static bool read_link(const struct reader *r, const struct place *root, size_t i, struct plait_tuning *t)
{
    struct place p;
    unsigned k;

    if (!reader_enter(r, root, "links", i, "with \"between\"", &p) || !reader_name(r, &p, "between", links, &k))
        return false;
    if (t->link[k].bandwidth > 0)
        return reader_wrong(r, &p, "between", "%s.between is \"%s\" again; leave one of them out", p.name, links[k]);
    return reader_fields(r, &p, &link_kind, &t->link[k]);
}

/* The class has one "to", which the last, of all sizes above, lacks. */
static bool read_to(const struct reader *r, const struct place *p, size_t i)
{
    const bool there = json_object_get(p->object, "to") != NULL;
    uint64_t to = 0;
    char size[32], must[96];

    if (i + 1 == PLAIT_COPY_CLASSES)
        return !there ||
               reader_wrong(r, p, "to", "%s has \"to\"; leave it out: the last is of all sizes above", p->name);
    plait_quantity_print(PLAIT_SIZE, PLAIT_COPY_TO(i), size);
    snprintf(must, sizeof must, "\"%s\", as classes of sizes are fixed", size);
    if (!there)
        return reader_wrong(r, p, NULL, "%s needs \"to\": %s", p->name, must);
    return reader_field(r, p, &to_field, &to) && (to == PLAIT_COPY_TO(i) || reader_wrong_value(r, p, "to", must));
}

static bool read_copies(const struct reader *r, const struct place *root, size_t i, struct plait_copy_modes *c)
{
    unsigned mode, other = PLAIT_COPY_STAGED;
    struct place p;

    if (!reader_enter(r, root, "copies", i, "with \"fastest\"", &p) || !reader_fields(r, &p, &copies_kind, c) ||
        !read_to(r, &p, i) || !reader_name(r, &p, "fastest", modes, &mode))
        return false;
    const bool has_other = json_object_get(p.object, "else") != NULL;
    if (has_other && !reader_name(r, &p, "else", modes, &other))
        return false;
    if (has_other && (mode != PLAIT_COPY_SINGLE || other == PLAIT_COPY_SINGLE))
        return reader_wrong_value(r, &p, "else", "\"staged\" or \"streamed\", beside \"fastest\": \"single\"");
    c->fastest = (enum plait_copy_mode)mode;
    c->other = mode == PLAIT_COPY_SINGLE ? (enum plait_copy_mode)other : c->fastest;
    return true;
}

static bool read_head(const struct reader *r, const struct place *p, struct plait_tuning *t)
{
    struct place machine;

    return reader_text(r, p, "plait", true, t->version, sizeof t->version) && read_date(r, p, t->date) &&
           reader_fields(r, p, &file_kind, t) && reader_inside(r, p, "machine", &machine) &&
           reader_text(r, &machine, "processor", true, t->processor, sizeof t->processor) &&
           reader_fields(r, &machine, &machine_kind, t) && read_fingerprint(r, &machine, &t->fingerprint);
}

static bool read_links(const struct reader *r, const struct place *p, struct plait_tuning *t)
{
    size_t nlink, ncopy;
    bool ok = count_elements(r, p, "links", 0, PLAIT_NLINK, &nlink) &&
              count_elements(r, p, "copies", PLAIT_COPY_CLASSES, PLAIT_COPY_CLASSES, &ncopy);

    for (size_t i = 0; ok && i < nlink; i++)
        ok = read_link(r, p, i, t);
    for (size_t i = 0; ok && i < ncopy; i++)
        ok = read_copies(r, p, i, &t->copies[i]);
    t->has_copies = ok && ncopy > 0;
    return ok;
}

/* ---- Choices ----------------------------------------------------------------------------------------- */

static bool read_us(const struct reader *r, const struct place *p, const char *key, uint64_t *ns)
{
    static const char form[] = "microseconds, from 0.001 to 1000000000";
    const json_t *v = json_object_get(p->object, key);
    const double us = json_number_value(v);

    if (v == NULL)
        return reader_wrong(r, p, NULL, "%s needs \"%s\": %s", p->name, key, form);
    if (!json_is_number(v) || !(us >= 0.001 && us <= MOST_US))
        return reader_wrong_value(r, p, key, form);
    *ns = (uint64_t)(us * 1000 + 0.5);
    return true;
}

/* row: with the key of its choice; before it in the array those of the sizes below */
static bool read_size(const struct reader *r, const struct place *choice, size_t i, struct plait_tuned_choice *row)
{
    struct place p;

    if (!reader_enter(r, choice, "sizes", i, "with \"from\" and \"algorithm\"", &p) ||
        !reader_fields(r, &p, &size_kind, row) ||
        !reader_text(r, &p, "algorithm", true, row->algorithm, sizeof row->algorithm) ||
        !reader_text(r, &p, "next", false, row->next, sizeof row->next) || !read_us(r, &p, "us", &row->ns))
        return false;
    if (i == 0 && row->from != 0)
        return reader_wrong_value(r, &p, "from", "0, as it is the first");
    if (i > 0 && row->from <= row[-1].from)
        return reader_wrong_value(r, &p, "from", "above that of the size before it");
    if (row->next[0] == '\0' && json_object_get(p.object, "next_us") != NULL)
        return reader_wrong(r, &p, "next_us", "%s has \"next_us\", but no \"next\"", p.name);
    return row->next[0] == '\0' || read_us(r, &p, "next_us", &row->next_ns);
}

static bool read_key(const struct reader *r, const struct place *p, struct plait_tuned_choice *out)
{
    const json_t *v = json_object_get(p->object, "oversubscribed");
    unsigned coll, memory;

    if (!reader_fields(r, p, &choice_kind, out) || !reader_name(r, p, "collective", colls, &coll) ||
        !reader_name(r, p, "memory", memories, &memory))
        return false;
    if (v == NULL)
        return reader_wrong(r, p, NULL, "%s needs \"oversubscribed\": true or false", p->name);
    if (!json_is_boolean(v))
        return reader_wrong_value(r, p, "oversubscribed", "true or false");
    out->coll = (enum plait_coll)coll;
    out->memory = (enum plait_memory)memory;
    out->oversubscribed = json_is_true(v);
    return true;
}

/* The first pass over a choice: count its rows. */
static bool count_sizes(const struct reader *r, const struct place *root, size_t i, size_t *rows)
{
    struct place p;
    size_t n;

    if (!reader_enter(r, root, "choices", i, "with \"collective\"", &p) ||
        !count_elements(r, &p, "sizes", 1, MOST_SIZES, &n))
        return false;
    *rows += n;
    return n > 0 || reader_wrong(r, &p, NULL, "%s needs \"sizes\": an array, from the smallest", p.name);
}

/* Append the rows of a choice. first: [i], the first rows of the choices before it */
static bool read_choice(const struct reader *r, const struct place *root, size_t i,
                        const struct plait_tuned_choice **first, struct plait_tuning *t)
{
    struct plait_tuned_choice key = { .hosts = 0 };
    struct place p;

    if (!reader_enter(r, root, "choices", i, "with \"collective\"", &p) || !read_key(r, &p, &key))
        return false;
    const size_t n = json_array_size(json_object_get(p.object, "sizes"));
    for (size_t k = 0; k < i; k++)
        if (plait_tuned_same_key(first[k], &key))
            return reader_wrong(
                r, &p, NULL,
                "%s has the collective, hosts, ranks, memory and processors of another choice; leave one of them out",
                p.name);
    for (size_t k = 0; k < n; k++) {
        t->rows[t->nrow + k] = key;
        if (!read_size(r, &p, k, &t->rows[t->nrow + k]))
            return false;
    }
    first[i] = &t->rows[t->nrow];
    t->nrow += n;
    return true;
}

static bool read_choices(const struct reader *r, const struct place *p, struct plait_tuning *t)
{
    size_t n, rows = 0;
    bool ok = true;

    if (!count_elements(r, p, "choices", 0, MOST_CHOICES, &n))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!count_sizes(r, p, i, &rows))
            return false;
    if (n == 0)
        return true;
    const struct plait_tuned_choice **first = calloc(n, sizeof *first);
    t->rows = calloc(rows, sizeof *t->rows);
    if (first == NULL || t->rows == NULL)
        ok = reader_wrong(r, p, "choices", "out of memory");
    for (size_t i = 0; ok && i < n; i++)
        ok = read_choice(r, p, i, first, t);
    free(first);
    return ok;
}

bool files_read_tuning(const struct plait_file *file, struct plait_tuning *out, char *why, size_t room)
{
    const struct reader r = { file, why, room };
    struct place p = { .name = "the file" };
    struct plait_tuning t = { .nrow = 0 };

    p.object = reader_parse(&r, "an object with \"plait\", \"date\" and \"machine\"; plait-tune writes one");
    const bool ok = p.object != NULL && read_head(&r, &p, &t) && read_links(&r, &p, &t) && read_choices(&r, &p, &t);
    json_decref(p.object);
    if (ok)
        *out = t;
    else
        free(t.rows);
    return ok;
}

/* ---- Writing ----------------------------------------------------------------------------------------- */

static void put_name(struct writer *w, const char *before, const char *key, const char *const *names, size_t n,
                     unsigned value)
{
    fprintf(w->f, "%s\"%s\": \"%s\"", before, key, value < n ? names[value] : "?");
}
#define PUT_NAME(w, before, key, names, value) put_name(w, before, key, names, sizeof names / sizeof *names - 1, value)

static void put_fields(struct writer *w, const char *before, const struct kind *kind, const void *from)
{
    for (size_t i = 0; i < kind->n; i++)
        writer_field(w, before, &kind->fields[i], from);
}

/* Without the zeros behind the last digit. */
static void put_us(struct writer *w, const char *key, uint64_t ns)
{
    char text[32];
    int n = snprintf(text, sizeof text, "%" PRIu64 ".%03u", ns / 1000, (unsigned)(ns % 1000));

    while (text[n - 1] == '0')
        n--;
    fprintf(w->f, ", \"%s\": %.*s", key, n - (text[n - 1] == '.'), text);
}

static void put_links(struct writer *w, const struct plait_tuning *t)
{
    const char *before = ",\n    \"links\": [\n        { ";

    for (unsigned k = 0; k < PLAIT_NLINK; k++) {
        if (t->link[k].bandwidth == 0)
            continue;
        PUT_NAME(w, before, "between", links, k);
        put_fields(w, ", ", &link_kind, &t->link[k]);
        before = " },\n        { ";
    }
    fputs(*before == ' ' ? " }\n    ]" : "", w->f);
}

static void put_copies(struct writer *w, const struct plait_tuning *t)
{
    for (unsigned k = 0; t->has_copies && k < PLAIT_COPY_CLASSES; k++) {
        const struct plait_copy_modes *c = &t->copies[k];
        const uint64_t to = PLAIT_COPY_TO(k);
        fputs(k > 0 ? " },\n        { " : ",\n    \"copies\": [\n        { ", w->f);
        if (k + 1 < PLAIT_COPY_CLASSES)
            writer_field(w, "", &to_field, &to);
        PUT_NAME(w, k + 1 < PLAIT_COPY_CLASSES ? ", " : "", "fastest", modes, c->fastest);
        if (c->fastest == PLAIT_COPY_SINGLE)
            PUT_NAME(w, ", ", "else", modes, c->other);
    }
    fputs(t->has_copies ? " }\n    ]" : "", w->f);
}

static void put_key(struct writer *w, bool first, const struct plait_tuned_choice *c)
{
    PUT_NAME(w, first ? ",\n    \"choices\": [\n        { " : "\n          ] },\n        { ", "collective", colls,
             c->coll);
    put_fields(w, ", ", &choice_kind, c);
    PUT_NAME(w, ", ", "memory", memories, c->memory);
    fprintf(w->f, ", \"oversubscribed\": %s,\n          \"sizes\": [\n", c->oversubscribed ? "true" : "false");
}

static void put_choices(struct writer *w, const struct plait_tuning *t)
{
    for (size_t i = 0; i < t->nrow; i++) {
        const struct plait_tuned_choice *c = &t->rows[i];
        const bool begins = i == 0 || !plait_tuned_same_key(c - 1, c);
        if (begins)
            put_key(w, i == 0, c);
        put_fields(w, begins ? "            { " : ",\n            { ", &size_kind, c);
        writer_text(w, ", ", "algorithm", c->algorithm);
        put_us(w, "us", c->ns);
        if (c->next[0] != '\0') {
            writer_text(w, ", ", "next", c->next);
            put_us(w, "next_us", c->next_ns);
        }
        fputs(" }", w->f);
    }
    fputs(t->nrow > 0 ? "\n          ] }\n    ]" : "", w->f);
}

static void put_tuning(struct writer *w, const struct plait_tuning *t)
{
    writer_text(w, "{\n    ", "plait", t->version);
    writer_text(w, ",\n    ", "date", t->date);
    writer_text(w, ",\n    \"machine\": { ", "processor", t->processor);
    put_fields(w, ", ", &machine_kind, t);
    fprintf(w->f, ", \"fingerprint\": \"%016" PRIx64 "\" }", t->fingerprint);
    put_links(w, t);
    put_copies(w, t);
    put_fields(w, ",\n    ", &file_kind, t);
    put_choices(w, t);
    fputs("\n}\n", w->f);
}

char *files_write_tuning(const struct plait_tuning *tuning, char *why, size_t room)
{
    struct writer w;

    if (writer_begin(&w))
        put_tuning(&w, tuning);
    return writer_end(&w, why, room);
}
