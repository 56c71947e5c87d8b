/* Finds the steps and layers of a rank that repeat. One pass over the nodes computes three kinds of
   signatures: of each unit (one layer of one phase, including shapes), of each step (without sizes,
   because sizes grow with the context), and of the whole rank. In the signatures of units and
   steps, an input from outside only counts as "from outside", so that the first layer equals the
   others. */
#include "export/picture/picture_fold.h"
#include "export/walk/graph_walk.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "syntorch/base/memory.h"

void syn__pic_totals_init(syn__pic_totals *t) {
    *t = (syn__pic_totals){.busy_ns = SYN_NO_TIME, .predicted_ns = SYN_NO_TIME};
}

static void add_time(double *sum, double ns) {
    if (ns == SYN_NO_TIME || !(ns >= 0)) return;
    *sum = (*sum == SYN_NO_TIME ? 0 : *sum) + ns;
}

void syn__pic_totals_add(syn__pic_totals *t, const syn_node *node) {
    if (node->kind == SYN_NODE_METADATA || syn__walk_is_idle_range(node)) return;
    if ((node->flags & SYN_NODE_VIRTUAL) == 0) t->ops++;
    t->flops += node->flops;
    t->bytes += node->bytes_read + node->bytes_written;
    if (syn__walk_is_comm(node)) {
        t->comms++;
        t->comm_bytes += node->comm_bytes;
    }
    add_time(&t->busy_ns, syn_node_busy_ns(node));
    t->wait_ns += syn_node_wait_ns(node);
    add_time(&t->predicted_ns, node->predicted_ns);
}

syn_status syn__pic_node(syn__pic_plan *plan, uint32_t node, syn_cursor *cursor,
                         const syn_node **out, syn_error *err) {
    if (plan->order != NULL) node = plan->order[node].node;
    *out = syn_graph_node(plan->graph, plan->rank, node, cursor);
    if (*out == NULL)
        return SYN_FAIL(err, SYN_E_NOMEM, "out of memory while reading node %u of a graph", node);
    return SYN_OK;
}

syn_status syn__pic_tensor(syn__pic_plan *plan, uint32_t tensor, const syn_graph_tensor **out,
                           syn_error *err) {
    *out = syn_graph_tensor_at(plan->graph, plan->rank, tensor, &plan->tensor_cursor);
    if (*out == NULL)
        return SYN_FAIL(err, SYN_E_NOMEM, "out of memory while reading tensor %u of a graph",
                        tensor);
    return SYN_OK;
}

uint32_t syn__pic_place_of(const syn__pic_plan *plan, uint32_t node) {
    return plan->order != NULL && node != SYN_NO_NODE ? plan->order[node].place : node;
}

/* ---- Signatures ---- */

static uint64_t mix(uint64_t h, uint64_t v) {
    h ^= v + 0x9E3779B97F4A7C15u + (h << 6) + (h >> 2);
    h *= 0xFF51AFD7ED558CCDu;
    return h ^ (h >> 32);
}

/* Hashes a text with the layer's name replaced by "#", so that "h.3/qkv" equals "h.4/qkv". */
static uint64_t mix_text(uint64_t h, const char *text, const char *layer) {
    const size_t n = strlen(layer);
    for (const char *p = text; *p != '\0'; p++) {
        if (n > 0 && *p == *layer && strncmp(p, layer, n) == 0 && (p[n] < '0' || p[n] > '9')) {
            h = mix(h, '#');
            p += n - 1;
        } else {
            h = mix(h, (unsigned char)*p);
        }
    }
    return mix(h, 0);
}

typedef enum sig_mode { SIG_UNIT, SIG_STEP, SIG_RANK, SIG_MODES } sig_mode;

typedef struct sigs {
    uint64_t h[SIG_MODES];
    uint32_t begin[SIG_MODES]; /* first node of the current unit, step or rank */
    const char *layer;
} sigs;

static void mix_all(sigs *s, uint64_t v) {
    for (int m = 0; m < SIG_MODES; m++) s->h[m] = mix(s->h[m], v);
}

static void mix_spec(sigs *s, const syn_spec *spec) {
    mix_all(s, (uint64_t)(uint32_t)spec->dtype << 8 | (uint32_t)spec->rank);
    for (int i = 0; i < spec->rank && i < SYN_MAX_RANK; i++) {
        s->h[SIG_UNIT] = mix(s->h[SIG_UNIT], (uint64_t)spec->dims[i]);
        s->h[SIG_RANK] = mix(s->h[SIG_RANK], (uint64_t)spec->dims[i]);
    }
}

static void mix_input(sigs *s, uint32_t node, const syn_graph_tensor *t, uint32_t producer) {
    const bool made = producer != SYN_NO_NODE && producer < node;
    for (int m = 0; m < SIG_MODES; m++) {
        const bool inside = made && producer >= s->begin[m];
        uint64_t v = inside ? node - producer : 0;
        if (m == SIG_UNIT && !inside)
            v = (uint64_t)1 << 40 | (t->flags & ~(unsigned)SYN_TENSOR_VIEW);
        s->h[m] = mix(s->h[m], v);
    }
    const char *tail = t->name;
    for (const char *p = t->name; *p != '\0'; p++)
        if (*p == '.' || *p == '/') tail = p + 1;
    if (!made) s->h[SIG_UNIT] = mix_text(s->h[SIG_UNIT], tail, s->layer);
    mix_spec(s, &t->spec);
}

/* Whether an attribute describes what a node does, and not when or where it ran or which tensors it
   used. */
static bool describes_work(const char *name) {
    static const char *const others[] = {"_ns", "seed", "layer", "step", "tag", "puts@string_list"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strstr(name, others[i]) != NULL) return false;
    return true;
}

/* Adds the attributes to the signature of the unit only, because steps may differ in attributes
   such as positions, and ranks in attributes such as shards. */
static void mix_attributes(sigs *s, const syn_node *node) {
    uint64_t h = s->h[SIG_UNIT];
    for (uint32_t i = 0; i < node->n_attributes; i++) {
        const syn_attribute *a = &node->attributes[i];
        if (!describes_work(a->name)) continue;
        uint64_t bits = (uint64_t)a->i64;
        if (a->type == SYN_VALUE_F64) memcpy(&bits, &a->f64, sizeof bits);
        h = mix_text(h, a->name, "");
        h = a->type == SYN_VALUE_TEXT ? mix_text(h, a->text, s->layer) : mix(h, bits);
    }
    s->h[SIG_UNIT] = h;
}

static void mix_node(sigs *s, const syn_graph *graph, const syn_node *node, int32_t rank) {
    const char *scope = node->scope + syn__walk_layer_prefix(node->scope);
    for (int m = 0; m < SIG_MODES; m++) {
        s->h[m] = mix_text(s->h[m], node->op, s->layer);
        s->h[m] = mix_text(s->h[m], node->label, s->layer);
        s->h[m] = mix_text(s->h[m], scope, m == SIG_UNIT ? s->layer : "");
    }
    mix_all(s, (uint64_t)node->kind << 40 | (uint64_t)node->comm << 32 |
                   (uint64_t)node->phase << 24 | node->flags);
    mix_all(s, (uint64_t)node->n_inputs << 32 | node->n_outputs);
    if (!syn__walk_is_comm(node)) return;
    const syn_graph_group *group = syn_graph_group_by_id(graph, node->group);
    s->h[SIG_UNIT] = mix(s->h[SIG_UNIT], node->group);
    s->h[SIG_STEP] = mix(s->h[SIG_STEP], node->group);
    s->h[SIG_RANK] = mix(s->h[SIG_RANK], group != NULL ? group->n_ranks : 0);
    s->h[SIG_RANK] = mix(s->h[SIG_RANK], node->comm_bytes);
    if (node->kind == SYN_NODE_COLLECTIVE) return;
    const uint64_t distance = (uint64_t)(int64_t)(node->peer - rank);
    mix_all(s, distance);
}

/* ---- Reading a rank ---- */

typedef struct reader {
    syn__pic_plan *plan;
    sigs s;
    int32_t rank;
    char layer[256];
} reader;

static syn__pic_unit *last_unit(syn__pic_plan *p) {
    return p->n_units > 0 ? &p->units[p->n_units - 1] : NULL;
}

static syn__pic_step *last_step(syn__pic_plan *p) {
    return p->n_steps > 0 ? &p->steps[p->n_steps - 1] : NULL;
}

static void end_unit(reader *r, uint32_t end) {
    syn__pic_unit *u = last_unit(r->plan);
    if (u == NULL) return;
    u->end = end;
    u->sig = r->s.h[SIG_UNIT];
}

static void end_step(reader *r, uint32_t end) {
    syn__pic_step *s = last_step(r->plan);
    if (s == NULL) return;
    s->end = end;
    s->unit_end = (uint32_t)r->plan->n_units;
    s->sig = r->s.h[SIG_STEP];
}

/* Starts a new unit, and a new step before it, if `node` does not belong to the current ones. */
static syn_status begin_unit(reader *r, uint32_t index, const syn_node *node, syn_error *err) {
    syn__pic_plan *p = r->plan;
    const size_t n = syn__walk_layer_prefix(node->scope);
    const syn__pic_unit *u = last_unit(p);
    const bool new_step = u == NULL || last_step(p)->number != node->step;
    const uint32_t section = p->order != NULL ? p->order[index].section : 0;
    const bool same = u != NULL && u->section == section &&
                      (u->phase == node->phase || section % SYN__PIC_SECTIONS == SYN__PIC_BACKWARD);
    if (!new_step && same && strncmp(u->layer, node->scope, n) == 0 && u->layer[n] == '\0')
        return SYN_OK;
    end_unit(r, index);
    if (new_step) {
        end_step(r, index);
        SYN_TRY(syn_grow(&p->steps, &p->steps_cap, p->n_steps + 1, sizeof *p->steps, err));
        p->steps[p->n_steps++] = (syn__pic_step){
            .begin = index, .unit_begin = (uint32_t)p->n_units, .number = node->step};
        r->s.h[SIG_STEP] = 1;
        r->s.begin[SIG_STEP] = index;
    }
    char *layer = syn__arena_get(&p->arena, n + 1);
    if (layer == NULL) return SYN_FAIL_NOMEM(err, n + 1, "a layer's name");
    memcpy(layer, node->scope, n);
    layer[n] = '\0';
    SYN_TRY(syn_grow(&p->units, &p->units_cap, p->n_units + 1, sizeof *p->units, err));
    p->units[p->n_units++] = (syn__pic_unit){
        .begin = index,
        .step_index = (uint32_t)p->n_steps - 1,
        .section = section,
        .phase =
            section % SYN__PIC_SECTIONS == SYN__PIC_BACKWARD ? SYN_PHASE_BACKWARD : node->phase,
        .layer = layer};
    r->s.h[SIG_UNIT] = 1;
    r->s.begin[SIG_UNIT] = index;
    r->s.layer = layer;
    return SYN_OK;
}

static syn_status read_tensors(reader *r, uint32_t index, const syn_node *node, syn_error *err) {
    const syn_graph_tensor *t;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        SYN_TRY(syn__pic_tensor(r->plan, node->inputs[i], &t, err));
        mix_input(&r->s, index, t, syn__pic_place_of(r->plan, t->producer));
    }
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        SYN_TRY(syn__pic_tensor(r->plan, node->outputs[i], &t, err));
        mix_spec(&r->s, &t->spec);
    }
    if (node->n_inputs > 0) return SYN_OK;
    for (uint32_t i = 0; i < node->n_deps; i++) { /* in graphs without tensors, only dependencies
                                                     show which nodes a node uses */
        const uint32_t from = syn__pic_place_of(r->plan, node->deps[i].node);
        for (int m = 0; m < SIG_MODES; m++)
            if (from >= r->s.begin[m] && from < index)
                r->s.h[m] = mix(r->s.h[m], (uint64_t)(index - from) << 4 | node->deps[i].dep_class);
    }
    return SYN_OK;
}

static syn_status read_rank(reader *r, syn_error *err) {
    syn__pic_plan *p = r->plan;
    r->s.h[SIG_RANK] = 1;
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const syn_node *node;
        SYN_TRY(syn__pic_node(p, i, &p->cursor, &node, err));
        SYN_TRY(begin_unit(r, i, node, err));
        mix_node(&r->s, p->graph, node, r->rank);
        mix_attributes(&r->s, node);
        SYN_TRY(read_tensors(r, i, node, err));
        syn__pic_totals_add(&p->totals, node);
    }
    end_unit(r, p->n_nodes);
    end_step(r, p->n_nodes);
    p->rank_sig = r->s.h[SIG_RANK];
    return SYN_OK;
}

/* ---- Repeats ---- */

static void fold_steps(syn__pic_plan *p, int fold) {
    for (uint32_t i = 0; i < p->n_steps; i++) {
        syn__pic_step *s = &p->steps[i];
        const uint32_t before = i > 0 ? p->steps[i - 1].rep : 0;
        s->rep = i;
        s->count = 1;
        if (fold == SYN__PIC_FOLD_NONE || i == 0 || p->steps[before].sig != s->sig ||
            p->steps[before].end - p->steps[before].begin != s->end - s->begin)
            continue;
        s->rep = before;
        p->steps[before].count++;
        p->folded_steps++;
    }
}

static bool same_family(const syn__pic_unit *a, const syn__pic_unit *b) {
    const char *x = strrchr(a->layer, '.'), *y = strrchr(b->layer, '.');
    if (x == NULL || y == NULL) return x == y;
    return x - a->layer == y - b->layer && strncmp(a->layer, b->layer, (size_t)(x - a->layer)) == 0;
}

static bool same_unit(const syn__pic_unit *a, const syn__pic_unit *b) {
    return a->sig == b->sig && a->section == b->section && a->end - a->begin == b->end - b->begin &&
           a->phase == b->phase && same_family(a, b);
}

/* How many times the `period` units at i are repeated directly after themselves, within [i,
   end). */
static uint32_t repeats(const syn__pic_plan *p, uint32_t i, uint32_t end, uint32_t period) {
    uint32_t n = 0;
    bool layered = false;
    for (uint32_t k = 0; k < period && i + k < end; k++)
        layered = layered || p->units[i + k].layer[0] != '\0';
    if (!layered) return 0;
    for (uint32_t j = i + period; j < end && same_unit(&p->units[j - period], &p->units[j]); j++)
        n++;
    return n / period;
}

static void fold_units(syn__pic_plan *p, uint32_t begin, uint32_t end, int fold) {
    for (uint32_t i = begin; i < end;) {
        uint32_t best = 1, best_n = 0;
        for (uint32_t period = 1; period <= (uint32_t)fold; period++) {
            const uint32_t n = repeats(p, i, end, period);
            if (n * period > best_n * best) best = period, best_n = n;
        }
        for (uint32_t k = 0; k < best * (best_n + 1); k++) {
            syn__pic_unit *u = &p->units[i + k];
            u->rep = i + k % best;
            u->count = k < best ? best_n + 1 : 0;
            u->last = i + k;
            p->units[u->rep].last = i + k;
            if (k >= best) p->folded_units++;
        }
        i += best * (best_n + 1);
    }
}

static void begin_plan(syn__pic_plan *plan, const syn_graph *graph, uint32_t rank) {
    *plan = (syn__pic_plan){.graph = graph, .rank = rank, .n_nodes = graph->ranks[rank].n_nodes};
    syn__pic_totals_init(&plan->totals);
}

static syn_status make(syn__pic_plan *plan, int fold, syn_error *err) {
    plan->folds = fold != SYN__PIC_FOLD_NONE;
    plan->frames = true;
    reader r = {.plan = plan, .rank = plan->graph->ranks[plan->rank].rank};
    r.s.layer = "";
    SYN_TRY(read_rank(&r, err));
    if (plan->order != NULL) SYN_TRY(syn__pic_pair_layers(plan, err));
    fold_steps(plan, fold);
    for (size_t i = 0; i < plan->n_steps; i++)
        if (plan->steps[i].rep == i)
            fold_units(plan, plan->steps[i].unit_begin, plan->steps[i].unit_end, fold);
    return SYN_OK;
}

syn_status syn__pic_plan_make(syn__pic_plan *plan, const syn_graph *graph, uint32_t rank, int fold,
                              syn_error *err) {
    begin_plan(plan, graph, rank);
    return make(plan, fold, err);
}

syn_status syn__pic_plan_passes(syn__pic_plan *plan, const syn_graph *graph, uint32_t rank,
                                int fold, syn_error *err) {
    begin_plan(plan, graph, rank);
    SYN_TRY(syn__pic_plan_order(plan, err));
    if (plan->order != NULL && fold > SYN__PIC_FOLD_LAYERS) fold = SYN__PIC_FOLD_LAYERS;
    return make(plan, fold, err);
}

syn_status syn__pic_plan_stage(syn__pic_plan *plan, const syn_graph *graph, uint32_t rank,
                               const syn__pass *passes, size_t n, syn_error *err) {
    begin_plan(plan, graph, rank);
    SYN_TRY(syn__pic_plan_sections(plan, passes, n, err));
    return make(plan, SYN__PIC_FOLD_LAYERS, err);
}

void syn__pic_plan_free(syn__pic_plan *plan) {
    syn_free(plan->order);
    syn_free(plan->waits);
    syn_free(plan->units);
    syn_free(plan->steps);
    syn_cursor_free(&plan->cursor);
    syn_cursor_free(&plan->other);
    syn_cursor_free(&plan->tensor_cursor);
    syn__arena_free(&plan->arena);
    *plan = (syn__pic_plan){0};
}

uint32_t syn__pic_unit_of(const syn__pic_plan *plan, uint32_t node) {
    size_t lo = 0, hi = plan->n_units;
    while (hi - lo > 1) {
        const size_t mid = lo + (hi - lo) / 2;
        if (plan->units[mid].begin <= node) lo = mid;
        else hi = mid;
    }
    return (uint32_t)lo;
}

uint32_t syn__pic_times_of(const syn__pic_plan *plan, uint32_t node) {
    const syn__pic_unit *u = &plan->units[syn__pic_unit_of(plan, node)];
    return plan->frames && u->layer[0] != '\0' ? 1 : u->count;
}

uint32_t syn__pic_rep_of(const syn__pic_plan *plan, uint32_t node) {
    const syn__pic_step *s = &plan->steps[plan->units[syn__pic_unit_of(plan, node)].step_index];
    node = plan->steps[s->rep].begin + (node - s->begin);
    const syn__pic_unit *u = &plan->units[syn__pic_unit_of(plan, node)];
    return plan->units[u->rep].begin + (node - u->begin);
}

bool syn__pic_is_bucket(const syn__pic_plan *plan, size_t unit) {
    return plan->units[unit].section % SYN__PIC_SECTIONS == SYN__PIC_BUCKETS;
}

bool syn__pic_unit_drawn(const syn__pic_plan *plan, size_t unit) {
    const syn__pic_unit *u = &plan->units[unit];
    return plan->steps[u->step_index].rep == u->step_index && u->rep == unit;
}

void syn__pic_unit_title(const syn__pic_plan *plan, uint32_t unit, syn__pic_text *out) {
    const syn__pic_unit *u = &plan->units[unit];
    const char *last = plan->units[u->last].layer, *number = strrchr(u->layer, '.');
    syn__pic_put_clean(out, u->layer);
    if (u->count < 2 || strcmp(u->layer, last) == 0) return;
    const size_t same = number != NULL ? (size_t)(number - u->layer) + 1 : 0;
    syn__pic_put(out, " \xE2\x80\xA6 ");
    syn__pic_put_clean(out, strncmp(u->layer, last, same) == 0 ? last + same : last);
}

void syn__pic_step_title(const syn__pic_plan *plan, uint32_t step, syn_phase phase,
                         syn__pic_text *out) {
    const syn__pic_step *s = &plan->steps[step];
    const uint32_t end = plan->steps[plan->n_steps - 1].number;
    const int64_t first = syn__walk_step_number(plan->graph, s->number, end);
    const int64_t last =
        syn__walk_step_number(plan->graph, plan->steps[step + s->count - 1].number, end);
    /* PyTorch traces have no phases, so they get a fixed title. */
    const char *name = syn__walk_is_foreign(plan->graph) ? "PyTorch trace" : syn_phase_name(phase);
    if (phase == SYN_PHASE_PREFILL && s->count == 1) syn__pic_put(out, "%s", name);
    else if (s->count > 1)
        syn__pic_put(out, "%s, steps %" PRId64 " \xE2\x80\xA6 %" PRId64, name, first, last);
    else if (plan->n_steps > 1 || phase == SYN_PHASE_DECODE)
        syn__pic_put(out, "%s, step %" PRId64, name, first);
    else syn__pic_put(out, "%s", name);
}
