/* Makes a graph from execution traces of Chakra that were read from .et files or from their JSON.
   A rank is {rank, metadata, nodes}; a node is {id, name, type, ctrl, data, start, duration, attr},
   with times in us; an attribute is {name, doc, value}. */

const CHAKRA_COMMS = ["all_reduce", "reduce", "all_gather", "gather", "scatter", "broadcast",
    "all_to_all", "reduce_scatter", "reduce_scatter", "barrier"];
/* Kinds of ops by parts of their names, for traces that do not name the kind. */
const KIND_WORDS = [["attention", /attention|softmax|scores|sdpa|flash/],
    ["norm", /norm|ln_/], ["matmul", /matmul|linear|gemm|addmm|(^|[:_])[bm]?mm\b|conv|qkv|proj|fc/],
    ["embedding", /embed|token/], ["random", /dropout|rand|bernoulli/],
    ["reduction", /sum|mean|reduce|loss|entropy|argmax|max\b/],
    ["data movement", /copy|cat|slice|transpose|cache|memcpy|gather|scatter|split|memset/],
    ["view", /view|reshape|permute|as_strided|expand|detach|::t$/],
    ["elementwise", /add|mul|sub|div|gelu|relu|silu|tanh|exp|adam|sgd|elementwise|sqrt|pow/]];

/* Nodes of a JSON document as readEt returns them. */
function chakraJsonRank({rank = 0, metadata = {}, nodes}) {
    const attributes = (list) => (list || []).map((attribute) => {
        const field = Object.keys(attribute).find((key) => /(Val|List|_val|_list)$/.test(key));
        const value = field ? attribute[field] : 0, number = /^[us]?int|fixed|double|float/i;
        const one = (v) => field && number.test(field) ? Number(v) : v;
        return {name: attribute.name, doc: attribute.docString || "",
            value: value && value.values ? value.values.map(one) : one(value)};
    });
    return {rank, metadata: attributes(metadata.attr), nodes: nodes.map((node) => ({
        id: Number(node.id), name: node.name || "",
        type: typeof node.type === "number" ? ET_TYPES[node.type] : node.type || "",
        ctrl: (node.ctrlDeps || node.ctrl_deps || []).map(Number),
        data: (node.dataDeps || node.data_deps || []).map(Number),
        start: Number(node.startTimeMicros || node.start_time_micros || 0),
        duration: Number(node.durationMicros || node.duration_micros || 0),
        attr: attributes(node.attr)}))};
}

function chakraGraph(ranks, vocabulary) {
    const groups = [], facts = new Map();
    let recorded = null;
    for (const rank of ranks)
        for (const {name, doc, value} of rank.metadata) {
            if (name === "rank" && Number(value) >= 0) rank.rank = Number(value);
            if (name === "source" && value === "pytorch") recorded = "pytorch";
            if (/^pg\./.test(name) && Array.isArray(value))
                groups.push({id: Number(name.slice(3)), name: doc || name, ranks: value});
            else if (!facts.has(name)) facts.set(name, String(value));
        }
    let base = Infinity; /* the first start, because times since 1970 in ns are too large */
    for (const {nodes} of ranks)
        for (const {start} of nodes) if (start > 0) base = Math.min(base, start);
    const timed = base < Infinity;
    return {title: "", clock: timed ? "measured" : "predicted", recorded, base,
        groups: groups.filter(({id}, k) => groups.findIndex((one) => one.id === id) === k),
        facts: [...facts],
        ranks: ranks.map((rank) => chakraRank(rank, {timed, base, recorded, vocabulary}))};
}

function chakraRank({rank, nodes}, about) {
    const sorted = inOrder(nodes), places = new Map(sorted.map(({id}, i) => [id, i]));
    const tensors = [], known = new Map(), counts = new Map();
    const use = (list) => {
        const out = [];
        for (let k = 0; Array.isArray(list) && k + 1 < list.length; k += 2) {
            const text = String(list[k]), cut = (text + " ").indexOf(" ");
            const key = text.slice(0, cut), name = text.slice(cut + 1);
            if (!known.has(key)) {
                known.set(key, tensors.length);
                tensors.push({name: name || key, bytes: Number(list[k + 1]) || 0});
            }
            out.push(known.get(key));
        }
        return out;
    };
    const ops = sorted.map((node) => {
        const attr = new Map(node.attr.map(({name, value}) => [name, value]));
        const op = chakraOp(node, attr, about), deps = (list, name) =>
            list.filter((id) => places.has(id)).map((id) => [places.get(id), name]);
        const launches = [].concat(attr.get("launch_deps") || []);
        if (op.comm && op.group > 0) {
            op.number = counts.get(op.group) || 0;
            counts.set(op.group, op.number + 1);
        }
        return {...op, inputs: use(attr.get("inputs")), outputs: use(attr.get("outputs")),
            deps: [...deps(node.data, "data"), ...deps(node.ctrl, "control"),
                ...deps(launches, "launch")]};
    });
    const made = new Set(ops.flatMap(({outputs}) => outputs));
    tensors.forEach((tensor, t) => { if (!made.has(t)) tensor.flags = PARAMETER; });
    return {rank, tensors, nodes: ops};
}

/* Nodes so that each comes after those it depends on, otherwise by number. */
function inOrder(nodes) {
    const byId = new Map(), state = new Map(), out = [];
    for (const node of nodes) {
        if (byId.has(node.id)) throw new Error("two nodes have the id " + node.id);
        byId.set(node.id, node);
    }
    for (const first of [...nodes].sort((a, b) => a.id - b.id)) {
        const open = [first];
        while (open.length > 0) {
            const node = open[open.length - 1], mine = state.get(node) || 0;
            if (mine === 0) {
                state.set(node, 1);
                for (const id of [...node.data, ...node.ctrl])
                    if (byId.has(id) && !state.has(byId.get(id))) open.push(byId.get(id));
                continue;
            }
            open.pop();
            if (mine === 1) out.push(node);
            state.set(node, 2);
        }
    }
    return out;
}

function chakraOp(node, attr, {timed, base, recorded}) {
    const comm = node.type === "COMM_SEND_NODE" ? "send" : node.type === "COMM_RECV_NODE" ? "recv"
        : node.type === "COMM_COLL_NODE" ? CHAKRA_COMMS[Number(attr.get("comm_type") || 0)] : "";
    const cut = recorded ? -1 : node.name.lastIndexOf("/"), wall = attr.get("wall_ns");
    const label = node.name.slice(cut + 1), host = recorded &&
        !attr.has("stream") && attr.get("tid") >= 0 && attr.get("inclusive_dur") >= 0;
    const own = 1000 * Number(host && attr.get("inclusive_dur") || node.duration);
    const peer = attr.get(comm === "send" ? "comm_dst" : "comm_src");
    const shown = node.type !== "METADATA_NODE" && (!recorded || node.start > 0);
    const bytes = Number(attr.get("tensor_size") || 0);
    return {id: node.id, label, scope: cut > 0 ? node.name.slice(0, cut) : "",
        op: String(attr.get("op") || (comm || label)), phase: String(attr.get("phase") || ""),
        step: Number(attr.get("step") || 0), comm, kind: kindOfComm(comm),
        category: comm ? "communication" : categoryOfName(attr.get("op") || label),
        start: timed ? Math.max(0, 1000 * (node.start - base)) : undefined,
        flops: attr.get("clamped") && attr.get("num_ops") === 1 ? 0
            : Number(attr.get("num_ops") || 0),
        duration: Number(timed && wall !== undefined ? wall : attr.get("predicted_ns") || own),
        wait: timed ? Number(attr.get("wait_ns") || 0) : 0, read: comm ? 0 : bytes,
        comm_bytes: comm ? Number(attr.get("comm_size") || 0) : 0,
        group: /^[0-9]+$/.test(attr.get("pg_name")) ? Number(attr.get("pg_name")) : 0,
        peer: comm === "send" || comm === "recv" ? Number(peer) + 1 : 0,
        tag: Number(attr.get("comm_tag") || 0), stream: Number(attr.get("stream") || 0),
        track: shown ? trackOf(attr, comm, host, recorded) : undefined};
}

function kindOfComm(comm) {
    return comm === "send" || comm === "recv" ? comm : comm ? "collective" : "compute";
}

function trackOf(attr, comm, host, recorded) {
    const stream = attr.get("stream");
    if (host) return {name: "thread " + attr.get("tid"), host: true};
    if (comm === "send" || comm === "recv") return {name: comm};
    if (comm && attr.get("pg_name") !== undefined)
        return {name: String(attr.get("pg_desc") || "group " + attr.get("pg_name"))};
    if (recorded) return {name: "stream " + (stream || 0)};
    return {name: comm ? "communication" : Number(stream) > 0 ? "stream " + stream : "compute"};
}

const categories = new Map(); /* those found, because names repeat */

function categoryOfName(name) {
    let category = categories.get(name);
    if (category === undefined) {
        const text = String(name).toLowerCase();
        category = (KIND_WORDS.find(([, words]) => words.test(text)) || ["other"])[0];
        categories.set(name, category);
    }
    return category;
}
