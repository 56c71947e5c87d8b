/* Makes the labels of boxes with several ops: runs of ops, and collectives of one kind. */
#include "export/picture/picture_cells.h"
#include "export/walk/graph_walk.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "syntorch/base/memory.h"

#define DOT  " \xC2\xB7 "   /* a middle dot */
#define TO   "\xE2\x80\xA6" /* ellipsis */
#define GREY "#4a5560"

#define TITLE_CHARS 48u
#define TIP_CHARS   1200u
#define LINE_CHARS  52  /* maximum number of characters of a line of names */
#define LINE_MIN    36u /* fewest characters before a break, because a name has up to 16 */

bool syn__pic_same_comm(const syn_node *a, const syn_node *b) {
    return a->kind == SYN_NODE_COLLECTIVE && b->kind == SYN_NODE_COLLECTIVE && a->comm == b->comm &&
           a->group == b->group && a->reduce == b->reduce;
}

syn_status syn__pic_label_bars(syn__pic_plan *plan, syn__arena *arena, uint32_t first,
                               uint32_t last, const char **label, const char **tip, double *w,
                               double *h, syn_error *err) {
    const syn_node *a, *n;
    uint64_t count = 0, bytes = 0, tensors = 0;
    bool uniform = true;
    char name[128], buf[SYN__PIC_NUMBER];
    syn__pic_text info, t;
    for (uint32_t i = first; i <= last; i++) {
        SYN_TRY(syn__pic_node(plan, first, &plan->cursor, &a, err));
        SYN_TRY(syn__pic_node(plan, i, &plan->other, &n, err));
        if (!syn__pic_same_comm(a, n)) continue;
        uniform = uniform && n->comm_bytes == a->comm_bytes && n->n_inputs == 1;
        count++, bytes += n->comm_bytes, tensors += n->n_inputs;
    }
    syn__pic_clear(&info);
    if (tensors > count) syn__pic_put(&info, "%s tensors" DOT, syn__pic_count(tensors, buf));
    else if (uniform) SYN_TRY(syn__pic_put_payload(&info, plan, first, a, err));
    SYN_TRY(syn__pic_node(plan, first, &plan->cursor, &a, err));
    syn__pic_put_groups(&info, plan, a->group);
    syn__pic_put(&info, DOT "%s%s", syn__pic_bytes(uniform ? a->comm_bytes : bytes, buf),
                 uniform ? " each" : "");
    const uint32_t times = syn__pic_times_of(plan, first);
    const int n_name = snprintf(name, sizeof name, "%s %s", syn__pic_count(count, buf),
                                syn_comm_kind_name(a->comm));
    if (times > 1) snprintf(name + n_name, sizeof name - (size_t)n_name, "  \xC3\x97%u", times);
    syn__pic_clear(&t);
    syn__pic_put_op(&t, syn__pic_style_of(SYN__PIC_COLLECTIVE), name,
                    a->reduce >= 0 ? syn_reduce_name((syn_reduce)a->reduce) : "",
                    &(syn__pic_node_lines){info.s, "", ""}, w);
    *h = 32;
    SYN_TRY(syn__pic_keep(arena, &t, label, err));
    syn__pic_clear(&t);
    syn__pic_put(&t, "%s, %s", name, info.s);
    return syn__pic_keep(arena, &t, tip, err);
}

/* ---- Runs of ops ---- */

static void put_scope(syn__pic_text *t, const char *scope, char *before, size_t bytes) {
    const char *p = scope + syn__walk_layer_prefix(scope);
    if (*p == '.') p++;
    char part[48];
    const size_t n = strcspn(p, ".");
    const size_t len = n < sizeof part ? n : sizeof part - 1;
    memcpy(part, p, len);
    part[len] = '\0';
    if (len == 0 || strcmp(part, before) == 0 || t->n > 40) return;
    if (t->n > 0) syn__pic_put(t, ", ");
    syn__pic_put_clean(t, part);
    memcpy(before, part, len + 1 < bytes ? len + 1 : bytes);
}

syn_status syn__pic_put_scopes(syn__pic_plan *plan, uint32_t first, uint32_t last,
                               syn__pic_text *out, syn_error *err) {
    char before[48] = "";
    for (uint32_t i = first; i <= last; i++) {
        const syn_node *n;
        SYN_TRY(syn__pic_node(plan, i, &plan->cursor, &n, err));
        if ((n->flags & SYN_NODE_VIRTUAL) == 0) put_scope(out, n->scope, before, sizeof before);
    }
    return SYN_OK;
}

/* A name, with the ops of a run that have it. */
typedef struct run_name {
    char text[64];
    uint32_t ops;
    double weight; /* time if known, otherwise flops + bytes */
    bool shown;
} run_name;

enum { RUN_NAMES = 256 };

typedef struct run_names {
    run_name at[RUN_NAMES]; /* in order of appearance */
    uint32_t n, other;      /* other: number of ops with further names */
} run_names;

static void add_name(run_names *names, const syn_node *n) {
    char id[SYN__PIC_ID_BYTES], text[64];
    syn__pic_shorten(syn__pic_node_name(n, id), 16, text, sizeof text);
    uint32_t i = 0;
    while (i < names->n && strcmp(names->at[i].text, text) != 0) i++;
    if (i == RUN_NAMES) {
        names->other++;
        return;
    }
    run_name *name = &names->at[i];
    if (i == names->n) {
        *name = (run_name){.ops = 0};
        memcpy(name->text, text, sizeof text);
        names->n++;
    }
    const double busy = syn_node_busy_ns(n);
    const double ns = busy != SYN_NO_TIME ? busy : n->predicted_ns;
    name->ops++;
    name->weight +=
        ns != SYN_NO_TIME ? ns : (double)n->flops + (double)(n->bytes_read + n->bytes_written);
}

/* Chooses the names with the largest weights that fit in max_chars, and at least one name. */
static void choose_names(run_names *names, size_t max_chars) {
    size_t used = 0;
    for (bool any = false;;) {
        run_name *best = NULL;
        for (uint32_t i = 0; i < names->n; i++) {
            run_name *name = &names->at[i];
            const bool fits = !any || used + strlen(name->text) <= max_chars;
            if (!name->shown && fits && (best == NULL || name->weight > best->weight)) best = name;
        }
        if (best == NULL) return;
        best->shown = any = true;
        used += strlen(best->text) + 2;
    }
}

/* Writes the names of a run's ops, without views: "ln_1, qkv, softmax + 3". Each name is written
   once, in order of appearance, and at the end the number of ops with other names. If not all names
   fit, those with the smallest weights are omitted. */
syn_status syn__pic_put_names(syn__pic_plan *plan, uint32_t first, uint32_t last, size_t max_chars,
                              syn__pic_text *out, syn_error *err) {
    run_names *names = syn_calloc(1, sizeof *names);
    syn_status s = names != NULL
                       ? SYN_OK
                       : SYN_FAIL_NOMEM(err, sizeof *names, "the names of the ops of a box");
    for (uint32_t i = first; i <= last && s == SYN_OK; i++) {
        const syn_node *n;
        s = syn__pic_node(plan, i, &plan->cursor, &n, err);
        if (s != SYN_OK || (n->flags & SYN_NODE_VIRTUAL) != 0 || n->kind == SYN_NODE_METADATA)
            continue;
        if (!syn__walk_is_idle_range(n) || first == last) add_name(names, n);
    }
    if (s == SYN_OK && max_chars > 0) {
        choose_names(names, max_chars);
        uint32_t left_out = names->other;
        bool any = false;
        for (uint32_t i = 0; i < names->n; i++) {
            if (!names->at[i].shown) {
                left_out += names->at[i].ops;
                continue;
            }
            syn__pic_put(out, "%s", any ? ", " : "");
            syn__pic_put_clean(out, names->at[i].text);
            any = true;
        }
        if (left_out > 0) syn__pic_put(out, " + %u", left_out);
    }
    syn_free(names);
    return s;
}

/* Writes "9 ops, 12 MFLOP, 3 MiB". */
static void put_run_summary(syn__pic_text *t, const syn__pic_totals *totals, const syn__pic_cost *c,
                            bool comms) {
    char buf[SYN__PIC_NUMBER];
    syn__pic_put(t, "%s op%s" DOT, syn__pic_count(totals->ops, buf), totals->ops == 1 ? "" : "s");
    if (c->flops_hi > 0) {
        syn__pic_put_range(t, syn__pic_flops, c->flops_lo, c->flops_hi);
        syn__pic_put(t, DOT);
    }
    syn__pic_put_range(t, syn__pic_bytes, c->bytes_lo, c->bytes_hi);
    if (comms && totals->comms > 0) {
        syn__pic_put(t, DOT "%s communication%s, ", syn__pic_count(totals->comms, buf),
                     totals->comms == 1 ? "" : "s");
        syn__pic_put_range(t, syn__pic_bytes, c->comm_lo, c->comm_hi);
    }
    syn__pic_put_time(t, 0, c);
}

/* Writes names as at most `lines` rows of a table. Returns the number of rows. Increases *w to the
   width of the widest row. */
static int put_name_rows(syn__pic_text *t, const char *names, int lines, double *w) {
    int n = 0;
    while (*names != '\0' && n < lines) {
        size_t cut = strlen(names);
        if (cut > LINE_CHARS)
            for (cut = LINE_CHARS; cut > 0 && names[cut] != ' ';) cut--;
        if (cut == 0) cut = strlen(names);
        char line[160];
        snprintf(line, sizeof line, "%.*s%s", (int)(cut < 120 ? cut : 120), names,
                 n + 1 == lines && names[cut] != '\0' ? TO : "");
        syn__pic_put(t, "<tr><td align=\"left\"><font point-size=\"9\">");
        syn__pic_put_html(t, line);
        syn__pic_put(t, "</font></td></tr>");
        if (syn__pic_width(line, 9, false) > *w) *w = syn__pic_width(line, 9, false);
        names += cut;
        while (*names == ' ') names++;
        n++;
    }
    return n;
}

static syn_status run_tip(syn__pic_plan *plan, syn__pic_text *t, uint32_t first, uint32_t last,
                          const char *name, const char *names, const syn__pic_cost *c,
                          syn_error *err) {
    const syn_node *n;
    SYN_TRY(syn__pic_node(plan, first, &plan->cursor, &n, err));
    const uint64_t first_id = n->id;
    SYN_TRY(syn__pic_node(plan, last, &plan->cursor, &n, err));
    syn__pic_clear(t);
    syn__pic_put_clean(t, name);
    syn__pic_put(t, "%sr%d.o%" PRIu64 TO "o%" PRIu64 "\nops: ", name[0] != '\0' ? "\n" : "",
                 plan->graph->ranks[plan->rank].rank, first_id, n->id);
    syn__pic_put(t, "%s", names);
    syn__pic_put_stands_for(t, plan, first);
    syn__pic_put_cost(t, c);
    return SYN_OK;
}

syn_status syn__pic_label_run(syn__pic_plan *plan, syn__arena *arena, uint32_t first, uint32_t last,
                              const char *name, int lines, const char **label, const char **tip,
                              double *w, double *h, syn_error *err) {
    syn__pic_cost c;
    syn__pic_totals totals;
    const syn_node *n;
    syn__pic_text names, shown, info, t;
    char title[256];
    SYN_TRY(syn__pic_cost_of(plan, first, last, &c, err));
    syn__pic_totals_init(&totals);
    for (uint32_t i = first; i <= last; i++) {
        SYN_TRY(syn__pic_node(plan, i, &plan->cursor, &n, err));
        syn__pic_totals_add(&totals, n);
    }
    syn__pic_clear(&names);
    SYN_TRY(syn__pic_put_names(plan, first, last, TIP_CHARS, &names, err));
    syn__pic_clear(&shown);
    SYN_TRY(syn__pic_put_names(plan, first, last,
                               name[0] != '\0' ? (size_t)lines * LINE_MIN : TITLE_CHARS - 6, &shown,
                               err));
    syn__pic_clear(&info);
    put_run_summary(&info, &totals, &c, !plan->bars);
    syn__pic_shorten(name[0] != '\0' ? name : shown.s, TITLE_CHARS, title, sizeof title);
    const uint32_t times = syn__pic_times_of(plan, first);
    if (times > 1)
        snprintf(title + strlen(title), sizeof title - strlen(title), "  \xC3\x97%u", times);
    syn__pic_clear(&t);
    *w = syn__pic_width(info.s, 8, false);
    syn__pic_put(&t, "<table border=\"0\" cellborder=\"0\" cellspacing=\"0\" cellpadding=\"0\">"
                     "<tr><td align=\"left\"><b>");
    syn__pic_put_html(&t, title);
    syn__pic_put(&t, "</b></td></tr>");
    if (syn__pic_width(title, 10, true) > *w) *w = syn__pic_width(title, 10, true);
    const int rows = name[0] != '\0' ? put_name_rows(&t, shown.s, lines, w) : 0;
    syn__pic_put(&t, "<tr><td align=\"left\"><font point-size=\"8\" color=\"" GREY "\">");
    syn__pic_put_html(&t, info.s);
    syn__pic_put(&t, "</font></td></tr></table>");
    *w += 2 * syn__pic_style_of(SYN__PIC_RUN)->pad + 6;
    *h = 34 + rows * 11.5;
    SYN_TRY(syn__pic_keep(arena, &t, label, err));
    SYN_TRY(run_tip(plan, &t, first, last, name, names.s, &c, err));
    return syn__pic_keep(arena, &t, tip, err);
}
