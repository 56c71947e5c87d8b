/* Reads Chrome traces: timelines of Syntorch, traces of PyTorch's profiler (Kineto), and those of
   other programs. Complete events (X) and pairs of begin and end (B, E) become ops. */

const DEVICE_EVENTS = /^(kernel|gpu_memcpy|gpu_memset|gpu_user_annotation|cuda_sync)$/;

function chromeGraph(json) {
    const events = Array.isArray(json) ? json : json.traceEvents, {metadata, distributed} = {
        metadata: (json.otherData || {}).metadata || {}, distributed: json.distributedInfo || {}};
    const names = chromeNames(events), kineto = events.some(({cat}) =>
        /^(cpu_op|kernel|cuda_runtime)$/.test(cat));
    const slices = chromeSlices(events), ranks = new Map(), groups = new Map();
    for (const group of distributed.pg_config || [])
        groups.set(String(group.pg_name), {id: groups.size + 1,
            name: group.pg_desc || "group " + group.pg_name, ranks: group.ranks || []});
    const base = slices.reduce((least, {ts}) => Math.min(least, ts), Infinity);
    const about = {kineto, ours: /^syntorch/.test((json.otherData || {}).generator)};
    for (const slice of slices) {
        const pid = kineto ? Number(distributed.rank || 0) : rankOfProcess(names, slice.pid);
        if (!ranks.has(pid)) ranks.set(pid, {rank: pid, nodes: [], tensors: []});
        const {nodes} = ranks.get(pid);
        nodes.push(chromeOp(slice, nodes.length, base, names, about));
    }
    for (const {nodes} of ranks.values()) linkChrome(nodes, groups);
    return {title: "", clock: (json.otherData || {}).clock === "predicted" ? "predicted"
        : "measured", base, recorded: kineto ? "pytorch" : null, groups: [...groups.values()],
        facts: Object.entries(metadata).map(([name, value]) => [name, String(value)]),
        ranks: [...ranks.values()].sort((a, b) => a.rank - b.rank)};
}

/* Names of processes and threads: "pid" and "pid/tid" -> name. */
function chromeNames(events) {
    const names = new Map();
    for (const {ph, name, pid, tid, args} of events) {
        if (ph !== "M" || !args) continue;
        if (name === "process_name") names.set(String(pid), String(args.name));
        if (name === "thread_name") names.set(pid + "/" + tid, String(args.name).trim());
    }
    return names;
}

/* "rank 3" is rank 3, and "replica 3" is, too; other processes are numbered by their order. */
function rankOfProcess(names, pid) {
    const found = /\b(?:rank|replica) ?([0-9]+)\b/i.exec(names.get(String(pid)) || "");
    if (found) return Number(found[1]);
    if (!names.order) names.order = new Map();
    if (!names.order.has(pid)) names.order.set(pid, names.order.size);
    return names.order.get(pid);
}

function chromeSlices(events) {
    const out = [], open = new Map();
    for (const event of events) {
        const {ph, pid, tid, ts} = event, key = pid + "/" + tid;
        if (event.cat === "Trace") continue; /* the profiler itself */
        if (ph === "X" && Number.isFinite(ts)) out.push({...event, dur: event.dur || 0});
        if (ph === "B") pushTo(open, key, event);
        const begin = ph === "E" && (open.get(key) || []).pop();
        if (begin) out.push({...begin, dur: ts - begin.ts});
    }
    return joinWaits(out).sort((a, b) => a.ts - b.ts || b.dur - a.dur);
}

/* Timelines of Syntorch have the wait time of a collective as an event of its own. */
function joinWaits(slices) {
    const waits = new Map();
    for (const {cat, args = {}, ts, dur} of slices)
        if (cat === "wait" && args.for) waits.set(args.id, {ts, dur});
    if (waits.size === 0) return slices;
    return slices.filter(({cat, args = {}}) => cat !== "wait" || !args.for).map((slice) => {
        const wait = waits.get((slice.args || {}).id);
        return wait ? {...slice, ts: wait.ts, dur: slice.ts + slice.dur - wait.ts, wait: wait.dur}
            : slice;
    });
}

function chromeOp(slice, i, base, names, {kineto, ours}) {
    const {args = {}, cat = "", name, ts, dur, pid, tid} = slice;
    const id = Number((/\.o([0-9]+)$/.exec(args.id || "") || [])[1] || i + 1);
    const host = !ours && !(kineto && DEVICE_EVENTS.test(cat));
    const track = names.get(pid + "/" + tid) ||
        (host ? "thread " : "stream ") + (args.stream === undefined ? tid : args.stream);
    const start = Math.round(1000 * (ts - base));
    const comm = args.comm || commOfName(args["Collective name"]);
    return {id, label: String(name), op: String(args.op || name), scope: args.scope || "",
        phase: args.phase || "", step: args.step || 0, comm, kind: kindOfComm(comm),
        category: comm || /nccl/i.test(name) ? "communication" : ours ? cat
            : categoryOfName(name), start,
        duration: Math.round(1000 * (ts + dur - base)) - start, wait: 1000 * (slice.wait || 0),
        flops: args.flops, read: args.bytes_read, written: args.bytes_written,
        comm_bytes: args.comm_bytes, group: args["Process Group Name"] || args.group,
        track: {name: track, host}, correlation: args.correlation, host};
}

function commOfName(name) {
    const plain = String(name || "").toLowerCase().replace(/_/g, "").replace(/coalesced|base/, "");
    return CHAKRA_COMMS.find((comm) => comm.replace(/_/g, "") === plain) || "";
}

/* Dependencies of kernels on their launches, and the order of collectives. */
function linkChrome(nodes, groups) {
    const launches = new Map(), counts = new Map();
    nodes.forEach((node, i) => {
        if (node.host && node.correlation) launches.set(node.correlation, i);
        const group = groups.get(String(node.group));
        node.group = group ? group.id : 0;
        if (!group || !node.comm) return;
        node.number = counts.get(group) || 0;
        counts.set(group, node.number + 1);
    });
    nodes.forEach((node) => {
        const from = node.host ? undefined : launches.get(node.correlation);
        node.deps = from === undefined ? [] : [[from, "launch"]];
    });
}
