/* Reads the JSON of `syntorch export` and of runs: a networkx graph of ops and tensors. */

const TENSOR_BITS = {param: 1, input: 2, state: 4, view: 8, term: 16};

function nodeLinkGraph(json) {
    const {clock, metadata = {}, groups = [], ranks = []} = json.graph;
    if (json.graph.copies) throw new Error("identical ranks are stored once; write the file with " +
        "syntorch export --copies full");
    const recorded = metadata.source === "pytorch" ? "pytorch" : null;
    let base = Infinity;
    for (const {start_ns: start} of json.nodes) if (start > 0) base = Math.min(base, start);
    const byRank = new Map(ranks.map((rank) => [rank, {rank, nodes: [], tensors: []}]));
    const places = new Map(); /* id of a node -> {rank, i or t} */
    const derived = new Set(); /* meetings of groups and the end: nodes for networkx only */
    for (const node of json.nodes) {
        if (node.type !== "op" && node.type !== "tensor") {
            derived.add(node.id);
            continue;
        }
        const rank = byRank.get(node.rank);
        if (!rank) throw new Error("node " + node.id + " has rank " + node.rank +
            ", which the list of ranks lacks");
        if (node.type === "op") {
            places.set(node.id, {rank, i: rank.nodes.length});
            rank.nodes.push(nodeLinkOp(node, clock, base, recorded));
        } else {
            places.set(node.id, {rank, t: rank.tensors.length});
            rank.tensors.push({name: node.name, bytes: node.bytes,
                spec: node.dtype + "[" + (node.shape || []).join() + "]",
                flags: (TENSOR_BITS[node.role] || 0) | (node.view ? TENSOR_BITS.view : 0) |
                    (node.term ? TENSOR_BITS.term : 0), of: node.base});
        }
    }
    for (const edge of json.links || json.edges || [])
        if (!derived.has(edge.source) && !derived.has(edge.target)) addNodeLinkEdge(edge, places);
    for (const {nodes, tensors} of byRank.values()) {
        for (const node of nodes) {
            node.inputs = node.inputs.sort((a, b) => a[0] - b[0]).map(([, t]) => t);
            node.outputs = node.outputs.sort((a, b) => a[0] - b[0]).map(([, t]) => t);
        }
        tensors.forEach((tensor, t) => {
            const base = places.get(tensor.of);
            if (base) tensor.base = t - base.t;
        });
    }
    return {title: nodeLinkTitle(metadata, ranks.length), clock, groups, recorded,
        base: base / 1000,
        ranks: [...byRank.values()],
        facts: Object.entries(metadata).map(([name, value]) => [name, String(value)])};
}

function nodeLinkTitle(metadata, n) {
    const names = ["model", "tp", "cp", "dp", "dtype", "device"].filter((name) => metadata[name]);
    return [...names.map((name) => name[1] === "p" ? name + " " + metadata[name] : metadata[name]),
        plural(n, "rank")].join(", ");
}

function nodeLinkOp(node, clock, base, recorded) {
    const {stream, inclusive_dur: whole, tid} = node.attributes || {};
    const host = recorded && stream === undefined && tid >= 0 && whole >= 0;
    const measured = clock === "measured" && node.start_ns !== undefined;
    const attributes = Object.entries(node.attributes || {}).map(([name, value]) =>
        name + "=" + value);
    if (node.reduce) attributes.push("reduce=" + node.reduce);
    return {id: Number(node.id.split(".o")[1]), label: node.name, op: node.op,
        scope: node.scope || "", phase: node.phase, step: node.step, kind: node.kind,
        category: node.category, flags: node.virtual ? VIRTUAL : 0,
        attributes: attributes.join(", "),
        start: measured ? Math.max(0, node.start_ns - base) : undefined,
        critical: node.critical_ns,
        duration: host ? 1000 * whole : measured ? node.wall_ns
            : node.predicted_ns || node.duration_ns || 0,
        wait: measured ? node.wait_ns : 0, flops: node.flops, read: node.bytes_read,
        written: node.bytes_written, comm: node.comm, group: node.group,
        number: node.comm_index, comm_bytes: node.comm_bytes,
        peer: node.peer >= 0 ? node.peer + 1 : 0, tag: node.tag,
        stream: node.stream,
        track: recorded && !(node.start_ns > 0) || node.kind === "metadata" ? undefined
            : host ? {name: "thread " + tid, host} : {name: node.group_name ||
                (/^(send|recv)$/.test(node.kind) ? node.kind : node.stream > 0 || recorded
                    ? "stream " + node.stream : "compute")},
        inputs: [], outputs: [], deps: []};
}

/* Inputs and outputs are added as pairs of position and tensor. */
function addNodeLinkEdge({source, target, kind, derived, position, positions}, places) {
    const from = places.get(source), to = places.get(target);
    if (!from || !to) throw new Error("an edge from " + source + " to " + target +
        " has an end that is no node");
    if (from.rank !== to.rank) return;
    const at = positions || [position];
    if (kind === "input") to.rank.nodes[to.i].inputs.push(...at.map((k) => [k, from.t]));
    else if (kind === "output") from.rank.nodes[from.i].outputs.push(...at.map((k) => [k, to.t]));
    else if (!derived && from.i !== undefined && to.i !== undefined)
        to.rank.nodes[to.i].deps.push(...kind.split("|").map((name) => [from.i, name]));
}
