/* Makes a Trace from a graph that was read in the browser. A graph is {title, clock, recorded,
   facts, groups, ranks}; a rank is {rank, nodes, tensors}; a node has the fields of NODE and
   `track` {name, host}, `start` in ns (undefined: unknown), `inputs` and `outputs` (numbers of
   tensors) and `deps` (pairs of an earlier node and the name of a class). The graph is encoded in
   the columns of html_columns.h, so that the viewer has one kind of trace. */

const NODE = {kind: "compute", category: "other", flags: 0, phase: "", step: 0, scope: "",
    label: "", op: "", attributes: "", duration: 0, wait: 0, critical: 0, flops: 0, read: 0,
    written: 0, comm: "", group: 0, number: 0, comm_bytes: 0, peer: 0, tag: 0};
const STEP_NS = 1000; /* per op, if only the order of ops is known */

class Bytes {
    constructor() {
        this.data = new Uint8Array(1024);
        this.n = 0;
    }

    room(more) {
        if (this.n + more <= this.data.length) return;
        const data = new Uint8Array(Math.max(2 * this.data.length, this.n + more));
        data.set(this.data.subarray(0, this.n));
        this.data = data;
    }

    /* A varint; numbers that the viewer cannot hold become 0. */
    put(value) {
        let left = value > 0 && value <= Number.MAX_SAFE_INTEGER ? Math.round(value) : 0;
        this.room(8);
        for (; left > 127; left = Math.floor(left / 128)) this.data[this.n++] = left % 128 | 128;
        this.data[this.n++] = left;
    }

    putSigned(value) {
        value = Math.round(value);
        this.put(value < 0 ? -2 * value - 1 : 2 * value);
    }

    add(bytes) {
        this.room(bytes.length);
        this.data.set(bytes, this.n);
        this.n += bytes.length;
    }

    get all() {
        return this.data.subarray(0, this.n);
    }
}

/* vocabulary: the header of a trace of this report, for its names of kinds, categories, phases and
   so on. */
function buildTrace(graph, vocabulary) {
    const texts = new Map([["", 0]]), head = {...vocabulary, title: graph.title,
        source: graph.source, clock: graph.clock, recorded: graph.recorded || null,
        rounded: false, facts: graph.facts, groups: graph.groups, ranks: [],
        pathless: Boolean(graph.recorded) && !graph.ranks.some(({nodes}) =>
            nodes.some((node) => node.critical > 0))};
    head.phases = vocabulary.phases.slice();
    const text = (value) => {
        if (!texts.has(value)) texts.set(value, texts.size);
        return texts.get(value);
    };
    const held = graph.ranks.map((rank) => encodeRank(graph, rank, head, text));
    head.texts = [...texts.keys()];
    const json = new TextEncoder().encode(JSON.stringify(head)), out = new Bytes();
    out.add(new Uint8Array(new Uint32Array([json.length]).buffer));
    out.add(json);
    out.put(held.length * head.columns.length);
    for (const columns of held)
        for (const name of head.columns) {
            out.put(columns[name].n);
            out.add(columns[name].all);
        }
    held.forEach((_, r) => head.columns.forEach((_, c) => out.put(r * head.columns.length + c)));
    return new Trace(out.all.slice());
}

function encodeRank(graph, rank, head, text) {
    const columns = Object.fromEntries(head.columns.map((name) => [name, new Bytes()]));
    const lanes = assignLanes(rank.nodes), free = [];
    head.ranks.push({rank: rank.rank, nodes: rank.nodes.length, tensors: rank.tensors.length,
        lanes: lanes.map(({name, host}) => [name, host ? 1 : 0]), parts: []});
    for (const name in NODE) {
        const column = columns[name], usual = NODE[name], known = new Map();
        for (const {[name]: value = usual} of rank.nodes) {
            if (typeof value === "number" && name !== "group") {
                if (name === "tag") column.putSigned(value);
                else column.put(value);
                continue;
            }
            let number = known.get(value);
            if (number === undefined)
                known.set(value, number = numberOf(graph, head, text, name, value));
            column.put(number);
        }
    }
    let before = 0, last = 0;
    rank.nodes.forEach((node, i) => {
        const lane = node.lane || 0, start = Math.round(node.start || 0);
        columns.id.putSigned(node.id - before);
        before = node.id;
        columns.lane.put(lane);
        columns.gap.putSigned(lane > 0 ? start - (free[lane] || 0) : 0);
        if (lane > 0) free[lane] = start + Math.round(node.duration || 0);
        last = encodeUses(columns.uses, node, last);
        encodeDeps(columns.deps, node, i, head);
    });
    for (const tensor of rank.tensors) {
        columns.tensor_name.put(tensor.name ? text(tensor.name) + 1 : 0);
        columns.tensor_spec.put(text(tensor.spec || ""));
        columns.tensor_bytes.put(tensor.bytes);
        columns.tensor_flags.put(tensor.flags || 0);
        columns.tensor_base.putSigned(tensor.base || 0);
        columns.tensor_part.put(0);
    }
    return columns;
}

/* The number of a field's value that is a name. */
function numberOf(graph, head, text, name, value) {
    const at = (names) => Math.max(0, names.indexOf(value));
    if (name === "kind") return at(head.kinds);
    if (name === "category") return at(head.categories);
    if (name === "phase") {
        if (value !== "" && !head.phases.includes(value)) head.phases.push(value);
        return at(head.phases);
    }
    if (name === "comm") return head.comms.indexOf(value) + 1;
    if (name === "group") return graph.groups.findIndex(({id}) => id === value) + 1;
    return text(String(value));
}

function encodeUses(column, {inputs = [], outputs = []}, last) {
    column.put(inputs.length);
    for (const t of inputs) column.putSigned(last - t);
    column.put(outputs.length);
    for (const t of outputs) {
        column.putSigned(t - last);
        last = t;
    }
    return last;
}

function encodeDeps(column, {deps = []}, i, head) {
    if (deps.length === 0) return column.put(0);
    const classes = new Map();
    for (const [from, name] of deps)
        if (from < i)
            classes.set(from, classes.get(from) | 1 << Math.max(0, head.classes.indexOf(name)));
    column.put(classes.size);
    for (const [from, bits] of classes) column.put((i - from) * 2 ** head.classes.length + bits);
}

/* Sets `lane` of the nodes that are shown: the number of their track, plus one. Ops of a stream
   that overlap get tracks of their own. Returns the tracks. */
function assignLanes(nodes) {
    const lanes = [], byName = new Map();
    const shown = nodes.filter((node) => node.track && !(node.flags & VIRTUAL));
    shown.sort((a, b) => a.start - b.start || b.duration - a.duration);
    for (const node of shown) {
        const {name, host} = node.track;
        if (!byName.has(name)) byName.set(name, []);
        const own = byName.get(name);
        let lane = own.find((known) => host || known.free <= node.start);
        if (!lane) {
            own.push(lane = {name, host, free: 0, order: lanes.length});
            lanes.push(lane);
        }
        lane.free = Math.max(lane.free, node.start + node.duration);
        node.of = lane;
    }
    const rank = ({name, host}) => (host ? 0 : 2) + (name === "compute" ? 0 : 1);
    lanes.sort((a, b) => rank(a) - rank(b) ||
        a.name.localeCompare(b.name, "en", {numeric: true}) || a.order - b.order);
    lanes.forEach((lane, k) => { lane.number = k + 1; });
    for (const node of shown) node.lane = node.of.number;
    return lanes;
}
