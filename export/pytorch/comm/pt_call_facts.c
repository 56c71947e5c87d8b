/* Collects the properties of one communication from a kernel, from a record_param_comms op, and
   from the ops around it. Kernels and CPU events use Kineto's names for these properties ("In msg
   nelems"), and host nodes use the names of ExecutionTraceObserver (in_msg_nelems). The inputs of
   record_param_comms have no names; their order is:
   - the tensors, if any
   - the sequence number, or a pair of the sequence number and whether the call is a message
   - a pair of the name and the description of the group, or a number that identifies the group
   - the rank; for messages, the peer's rank within the group
   - the name of the call
   - how the input and the output are split
   - the first rank, the stride and the size of the group */
#include "export/pytorch/comm/pt_call_facts.h"
#include "export/pytorch/read/pt_names.h"
#include "export/pytorch/read/pt_scan.h"
#include "export/pytorch/read/pt_tensors.h"

void syn__pt_properties_init(syn__pt_properties *properties) {
    memset(properties, 0, sizeof *properties);
    properties->kind = SYN__PT_CALL_UNKNOWN;
    properties->in_elems = properties->out_elems = properties->in_bytes = properties->out_bytes =
        -1;
    properties->sequence = properties->peer = properties->source = properties->target =
        properties->backend = -1;
    properties->group_start = properties->group_stride = properties->group_size =
        properties->filled_elems = -1;
}

/* Reads the value after a key, or the current element of a list. A list or object is read as a
   whole. Returns the class of its token. */
static char take_value(syn__pt_scan *s, syn__str *text) {
    const char c = syn__pt_scan_next(s, text);
    if (c == '[' || c == '{') {
        syn__pt_scan_leave(s);
        text->bytes = (size_t)(s->cur - text->text);
    }
    return c;
}

/* Larger numbers of elements or bytes are treated as damage, because no memory is that large. */
#define MOST ((int64_t)1 << 48)

static int64_t sane(int64_t amount) {
    return amount <= MOST ? amount : -1;
}

static int64_t tensor_bytes(syn__str value) {
    return sane(syn__pt_tensor_bytes(value));
}

static void set_amount(int64_t *to, syn__str text) {
    int64_t v;
    if (*to < 0 && syn__pt_scan_i64(text, &v) && v >= 0) *to = sane(v);
}

static void set_number(int64_t *to, syn__str text) {
    int64_t v;
    if (*to < 0 && syn__pt_scan_i64(text, &v) && v >= 0) *to = v;
}

static void set_text(syn__str *to, syn__str text) {
    if (to->bytes == 0) *to = text;
}

static void set_kind(syn__pt_properties *properties, syn__str name) {
    if (properties->kind == SYN__PT_CALL_UNKNOWN) properties->kind = syn__pt_call_kind(name);
}

static bool is_one_of(syn__str key, const char *a, const char *b) {
    return syn__str_is(key, a) || syn__str_is(key, b);
}

static void set_field(syn__pt_properties *t, syn__str key, syn__str value) {
    if (is_one_of(key, "Collective name", "collective_name")) set_kind(t, value);
    else if (is_one_of(key, "In msg nelems", "in_msg_nelems")) set_amount(&t->in_elems, value);
    else if (is_one_of(key, "Out msg nelems", "out_msg_nelems")) set_amount(&t->out_elems, value);
    else if (is_one_of(key, "Group size", "pg_size")) set_number(&t->group_size, value);
    else if (is_one_of(key, "Process Group Name", "pg_name")) set_text(&t->group, value);
    else if (is_one_of(key, "Process Group Description", "pg_desc"))
        set_text(&t->group_desc, value);
    else if (is_one_of(key, "Process Group Ranks", "pg_ranks")) set_text(&t->group_ranks, value);
    else if (is_one_of(key, "Global rank start", "global_rank_start"))
        set_number(&t->group_start, value);
    else if (is_one_of(key, "Global rank stride", "global_rank_stride"))
        set_number(&t->group_stride, value);
    else if (syn__str_is(key, "Src Rank")) set_number(&t->source, value);
    else if (syn__str_is(key, "Dst Rank")) set_number(&t->target, value);
    else if (is_one_of(key, "Seq", "seq")) set_number(&t->sequence, value);
    else if (syn__str_is(key, "Rank")) set_number(&t->peer, value);
    else if (syn__str_is(key, "dtype") && t->elem_bytes == 0)
        t->elem_bytes = syn__pt_dtype_bytes(value);
}

/* Reads the current value. *value: its text; for a string, the text between its quotes. */
static bool take_json(syn__loose *l, syn__str *value) {
    const syn__loose_kind kind = syn__loose_skip(l, value);
    if (kind == SYN__LOOSE_STRING) {
        value->text++;
        value->bytes -= 2;
    }
    return kind != SYN__LOOSE_NONE;
}

void syn__pt_properties_from_event(syn__pt_properties *properties, const syn__pt_event *event) {
    const syn__str whole = {event->text, event->text_bytes};
    const syn__str args = syn__loose_find(whole, "args");
    syn__loose l;
    syn__str key, value;
    syn__loose_init(&l, args.text, args.bytes);
    if (args.bytes == 0 || syn__loose_value(&l, &value) != SYN__LOOSE_OBJECT) return;
    while (syn__loose_member(&l, &key) && take_json(&l, &value)) set_field(properties, key, value);
}

/* Reads the attributes of a node: [{"name": ..., "type": ..., "value": ...}, ...]. */
static void take_attrs(syn__pt_properties *properties, const syn__pt_host_node *node) {
    const syn__str attrs = {node->text + node->attrs, node->attrs_bytes};
    syn__loose l;
    syn__str key, text;
    if (!syn__loose_open_array(&l, attrs)) return;
    while (syn__loose_element(&l)) {
        syn__str name = {"", 0};
        if (syn__loose_value(&l, &text) != SYN__LOOSE_OBJECT) continue;
        while (syn__loose_member(&l, &key) && take_json(&l, &text)) {
            if (syn__str_is(key, "name")) name = text;
            else if (syn__str_is(key, "value")) set_field(properties, name, text);
        }
    }
}

/* The list of values in "inputs" or "outputs". In schema 1.0.1, "inputs" and "outputs" are this
   list. */
static syn__str values_of(syn__str io) {
    const syn__str none = {"", 0};
    if (io.bytes == 0) return none;
    return *io.text == '[' ? io : syn__loose_find(io, "values");
}

/* Reads a pair: the name and description of a group, or a sequence number and whether the call is a
   message (*sequence). text: the list or tuple. */
static bool take_pair(syn__pt_properties *properties, syn__str text, bool *sequence) {
    syn__pt_scan s = syn__pt_scan_of(text);
    syn__str a, b, end;
    *sequence = false;
    if (syn__pt_scan_next(&s, &a) != '[') return false;
    const char first = syn__pt_scan_next(&s, &a), second = syn__pt_scan_next(&s, &b);
    if ((first != 's' && first != 'w') || syn__pt_scan_next(&s, &end) != ']') return false;
    if (second == 's') {
        set_text(&properties->group, a);
        set_text(&properties->group_desc, b);
        return true;
    }
    *sequence = second == 'w' && (*b.text == 't' || *b.text == 'f');
    if (*sequence) set_number(&properties->sequence, a);
    return *sequence;
}

typedef struct positions {
    int64_t before[3], after[3]; /* numbers before and after the call's name */
    int n_before, n_after;
    bool named, pair, sequence;
} positions;

static void take_position(syn__pt_properties *properties, positions *at, char c, syn__str text) {
    int64_t v;
    bool sequence = false;
    if (c == '[' && !at->named && take_pair(properties, text, &sequence)) {
        if (sequence) at->sequence = true;
        else at->pair = true;
    } else if (c == 's' && !at->named && text.bytes != 0 && *text.text != '<') {
        set_kind(properties, text);
        at->named = true;
    } else if (c == 'w' && syn__pt_scan_i64(text, &v)) {
        if (at->named && at->n_after < 3) at->after[at->n_after++] = v;
        else if (!at->named && at->n_before < 3) at->before[at->n_before++] = v;
    }
}

static void use_positions(syn__pt_properties *properties, const positions *at) {
    int next = 0;
    if (!at->named) return;
    if (!at->sequence && at->n_before > 0 && properties->sequence < 0)
        properties->sequence = at->before[0];
    if (!at->sequence) next++;
    if (!at->pair && at->n_before - next == 2) properties->backend = at->before[next++];
    if (next < at->n_before && properties->peer < 0) properties->peer = at->before[next];
    const int size = at->n_after == 3 ? 2 : 0;
    if (size == 2 && properties->group_start < 0 && properties->group_stride < 0) {
        properties->group_start = at->after[0];
        properties->group_stride = at->after[1];
    }
    if (at->n_after > size && properties->group_size < 0) properties->group_size = at->after[size];
}

/* Reads all properties except sizes from the inputs of a record_param_comms. Returns the inputs. */
static syn__str take_record(syn__pt_properties *properties, const syn__pt_host_node *node) {
    positions at = {{0}, {0}, 0, 0, false, false, false};
    const syn__str values = values_of(syn__pt_inputs(node));
    syn__pt_scan s = syn__pt_scan_of(values);
    syn__str text;
    take_attrs(properties, node);
    if (syn__pt_scan_next(&s, &text) == '[') {
        char c = take_value(&s, &text);
        for (; c != 0 && c != ']'; c = take_value(&s, &text))
            take_position(properties, &at, c, text);
    }
    use_positions(properties, &at);
    return values;
}

void syn__pt_properties_from_record(syn__pt_properties *properties, const syn__pt_host_node *node) {
    const syn__str values = take_record(properties, node);
    if (properties->in_bytes < 0) properties->in_bytes = tensor_bytes(values);
    if (properties->out_bytes < 0)
        properties->out_bytes = tensor_bytes(values_of(syn__pt_outputs(node)));
}

int syn__pt_record_kind(const syn__pt_rank *rank, const syn__pt_op *op) {
    syn__pt_properties properties;
    syn__pt_properties_init(&properties);
    const syn__pt_host_node *node = &rank->host.nodes[op->host];
    if (!(node->has & SYN__PT_MADE)) {
        (void)take_record(&properties, node);
        return properties.kind;
    }
    syn__pt_properties_from_event(&properties, &rank->device.events[op->event]);
    return properties.kind >= 0 ? properties.kind : SYN__PT_CALL_NONE; /* Kineto before PyTorch 2.2
                                                                has no kind */
}

/* Reads the rank after the arrow of "nccl:send 0->1" or "nccl:recv 0<-1". */
static void take_arrow(syn__pt_properties *properties, syn__str name) {
    for (size_t i = 1; i + 2 < name.bytes; i++) {
        const bool arrow = (name.text[i] == '-' && name.text[i + 1] == '>') ||
                           (name.text[i] == '<' && name.text[i + 1] == '-');
        const syn__str rest = {name.text + i + 2, name.bytes - i - 2};
        if (!arrow) continue;
        set_number(&properties->peer, rest);
        return;
    }
}

/* In all of c10d's schemas, the output of these calls comes before the input (Ops.cpp of
   PyTorch). */
static bool output_first(int kind) {
    return kind == SYN__PT_CALL_ALL_GATHER || kind == SYN__PT_CALL_REDUCE_SCATTER ||
           kind == SYN__PT_CALL_ALL_TO_ALL || kind == SYN__PT_CALL_GATHER ||
           kind == SYN__PT_CALL_SCATTER;
}

typedef struct arguments {
    syn__str first, second; /* the first two arguments */
    syn__str last_text;
    int64_t numbers[2];
    int n, n_numbers;
} arguments;

static void read_arguments(syn__str values, arguments *a) {
    syn__pt_scan s = syn__pt_scan_of(values);
    syn__str text;
    memset(a, 0, sizeof *a);
    if (syn__pt_scan_next(&s, &text) != '[') return;
    for (char c = take_value(&s, &text); c != 0 && c != ']'; c = take_value(&s, &text)) {
        if (a->n == 0) a->first = text;
        if (a->n == 1) a->second = text;
        a->n++;
        if (c == 's' && text.bytes != 0 && *text.text != '<') a->last_text = text;
        if (c == 'w' && a->n_numbers < 2 && syn__pt_scan_i64(text, &a->numbers[a->n_numbers]))
            a->n_numbers++;
    }
}

static void take_message(syn__pt_properties *properties, const arguments *a, syn__str name) {
    const bool any = syn__str_is(name, "c10d::recv_any_source_");
    const int tag = any ? 0 : 1;
    if (!any && a->n_numbers > 0 && properties->peer < 0 && a->numbers[0] >= 0)
        properties->peer = a->numbers[0];
    if (a->n_numbers > tag && properties->tag == 0) properties->tag = a->numbers[tag];
}

/* Whether the op is a functional collective, such as _c10d_functional::all_reduce(tensor, "sum",
   "0"), whose last argument is the name of the group. */
static bool is_functional(syn__str name) {
    if (name.bytes > 0 && *name.text == '_') {
        name.text++;
        name.bytes--;
    }
    return syn__str_begins(name, "c10d_functional::");
}

/* The bytes of an argument of an op that was made from a device trace; -1 if it is no tensor. */
static int64_t argument_bytes(const syn__pt_host_node *node, size_t index) {
    const int64_t elem_bytes = syn__pt_argument_elem_bytes(node, index);
    return elem_bytes > 0 ? sane(syn__pt_mul_i64(syn__pt_argument_elems(node, index), elem_bytes))
                          : -1;
}

void syn__pt_properties_from_call(syn__pt_properties *properties, const syn__pt_host_node *node,
                                  syn__str name) {
    const bool api = syn__str_begins(name, "c10d::");
    const syn__str values = values_of(syn__pt_inputs(node));
    const int kind = syn__pt_call_kind(name);
    arguments a;
    set_kind(properties, name);
    read_arguments(values, &a);
    take_arrow(properties, name);
    if ((api || is_functional(name)) && (kind == SYN__PT_CALL_SEND || kind == SYN__PT_CALL_RECV))
        take_message(properties, &a, name);
    if (is_functional(name) && a.last_text.bytes != 0) set_text(&properties->group, a.last_text);
    int64_t in = tensor_bytes(values);
    int64_t out = tensor_bytes(values_of(syn__pt_outputs(node)));
    if (api && output_first(kind)) {
        const int64_t first = tensor_bytes(a.first);
        const int64_t second = tensor_bytes(a.second);
        const bool filled_only = second < 0 && kind == SYN__PT_CALL_SCATTER;
        in = second >= 0 ? second : filled_only ? -1 : first;
        out = second >= 0 || filled_only ? first : out;
    }
    if (api && in < 0) in = argument_bytes(node, output_first(kind) ? 1 : 0);
    if (api && out < 0) out = argument_bytes(node, 0);
    if (api && in < 0 && output_first(kind))
        properties->filled_elems = syn__pt_argument_elems(node, 0);
    if (properties->in_bytes < 0) properties->in_bytes = in;
    if (properties->out_bytes < 0) properties->out_bytes = out;
}
