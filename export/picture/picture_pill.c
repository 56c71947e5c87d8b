/* Makes the labels and tooltips of pills, which show tensors. */
#include "export/picture/picture_cells.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DOT         " \xC2\xB7 "
#define BREAK_CHARS 32 /* longer names are broken into two lines */
#define LINE_CHARS  48

/* Removes from a name what the surrounding box already shows. Inside layer h.0 it shortens
   "h.0.attn.c_attn.weight" to "attn.c_attn.weight", and below an op it omits the scope: "qkv:0".
   Returns the whole name if nothing would remain. */
static const char *short_name(const char *name, const char *layer) {
    const char *slash = strrchr(name, '/'), *rest = name;
    const size_t n = strlen(layer);
    const char *at = n > 0 ? strstr(name, layer) : NULL;
    if (slash != NULL) rest = slash + 1;
    else if (at != NULL && at[n] == '.') rest = at + n + 1;
    return syn__pic_is_blank(rest) ? name : rest;
}

/* Writes where a tensor from another part of the picture comes from: "from prefill". */
static syn_status put_origin(syn__pic_plan *plan, syn__pic_text *t, uint32_t node,
                             uint32_t producer, syn_error *err) {
    const syn__pic_unit *a = &plan->units[syn__pic_unit_of(plan, producer)];
    const syn__pic_unit *b = &plan->units[syn__pic_unit_of(plan, node)];
    syn__pic_put(t, "from ");
    if (a->step_index != b->step_index && plan->steps[b->step_index].count > 1) {
        syn__pic_put(t, "the previous step");
    } else if (a->step_index != b->step_index) {
        syn__pic_step_title(plan, plan->steps[a->step_index].rep, a->phase, t);
    } else if (a->phase != b->phase) {
        syn__pic_put(t, "%s", syn_phase_name(a->phase));
    } else {
        const syn_node *n;
        SYN_TRY(syn__pic_node(plan, producer, &plan->other, &n, err));
        syn__pic_put_clean(t, n->scope[0] != '\0' ? n->scope : n->label);
    }
    return SYN_OK;
}

/* Where to break a name that is too long for one line: after the dot nearest to its middle. 0: it
   has no dot. */
static size_t break_of(const char *name) {
    const size_t n = strlen(name);
    size_t best = 0;
    for (const char *dot = strchr(name, '.'); dot != NULL && dot[1] != '\0';
         dot = strchr(dot + 1, '.')) {
        const size_t at = (size_t)(dot - name) + 1;
        if (best == 0 || labs((long)(2 * at) - (long)n) < labs((long)(2 * best) - (long)n))
            best = at;
    }
    return best;
}

/* Sets the pill's name. Long names of inputs are broken into two lines. Very long names lose their
   beginning, because the names of a model differ at the end. */
static syn_status name_pill(syn__arena *arena, syn__pic_pill *pill, const char *name, bool output,
                            syn_error *err) {
    char line[4 * LINE_CHARS + 8], head[4 * LINE_CHARS + 8];
    syn__pic_text s;
    const size_t cut = output || strlen(name) <= BREAK_CHARS ? 0 : break_of(name);
    syn__pic_clear(&s);
    if (cut > 0) {
        snprintf(head, sizeof head, "%.*s", (int)(cut < sizeof head ? cut : sizeof head), name);
        syn__pic_put_clean(&s, syn__pic_shorten(head, LINE_CHARS, line, sizeof line));
        SYN_TRY(syn__pic_keep(arena, &s, &pill->name, err));
        syn__pic_clear(&s);
    }
    syn__pic_put_clean(&s, syn__pic_shorten_front(name + cut, LINE_CHARS, line, sizeof line));
    return syn__pic_keep(arena, &s, cut > 0 ? &pill->rest : &pill->name, err);
}

syn_status syn__pic_label_pill(syn__pic_cells *cells, syn__pic_pill *pill, uint32_t node,
                               bool output, uint32_t slot, uint32_t tensor, syn_error *err) {
    syn__pic_plan *plan = cells->plan;
    syn__arena *arena = &cells->drawing->arena;
    const char *layer = plan->units[syn__pic_unit_of(plan, node)].layer;
    syn__pic_range range;
    SYN_TRY(syn__pic_range_of(plan, node, output, slot, &range, err));
    const syn_graph_tensor *t;
    SYN_TRY(syn__pic_tensor(plan, tensor, &t, err));
    const uint32_t producer = syn__pic_place_of(plan, t->producer);
    syn__pic_text s, tip;
    syn__pic_clear(&tip);
    syn__pic_put(&tip, "r%d.t%u  ", plan->graph->ranks[plan->rank].rank, tensor);
    syn__pic_put_clean(&tip, t->name);
    syn__pic_put(&tip, "\n%s, shape ", syn__pic_style_of(pill->look)->legend);
    syn__pic_put_spec(&tip, &range);
    syn__pic_put(&tip, ", ");
    syn__pic_put_part(&tip, t, ", ");
    syn__pic_put_range(&tip, syn__pic_bytes, syn_spec_bytes(&range.lo), syn_spec_bytes(&range.hi));
    if (t->base != tensor)
        syn__pic_put(&tip, "\nshares the storage of r%d.t%u", plan->graph->ranks[plan->rank].rank,
                     t->base);
    syn__pic_put_stands_for(&tip, plan, node);
    char id[16];
    snprintf(id, sizeof id, "t%u", tensor);
    const char *name = syn__pic_is_blank(t->name) ? id : short_name(t->name, layer);
    SYN_TRY(name_pill(arena, pill, name, output, err));
    syn__pic_clear(&s);
    syn__pic_put_spec(&s, &range);
    syn__pic_put(&s, DOT);
    syn__pic_put_part(&s, t, DOT);
    syn__pic_put_range(&s, syn__pic_bytes, syn_spec_bytes(&range.lo), syn_spec_bytes(&range.hi));
    if (!output && producer != SYN_NO_NODE) {
        syn__pic_put(&tip, "\n");
        SYN_TRY(put_origin(plan, &tip, node, producer, err));
        syn__pic_text origin;
        syn__pic_clear(&origin);
        SYN_TRY(put_origin(plan, &origin, node, producer, err));
        SYN_TRY(syn__pic_keep(arena, &origin, &pill->via, err));
    }
    SYN_TRY(syn__pic_keep(arena, &s, &pill->detail, err));
    return syn__pic_keep(arena, &tip, &pill->tip, err);
}
