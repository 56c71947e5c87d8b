/* Dependencies: neighbours of an op, an order in which all ranks can run, the critical path, and
   the slack of each op. */

/* Ops of the same rank whose data an op reads or for which it waits; looks through views. */
function sourcesOf(at) {
    return throughViews(at, (i, each) => at.trace.eachSource(at.r, i, each));
}

function isView(at) {
    return (at.trace.column(at.r, "flags")[at.i] & VIRTUAL) !== 0;
}

function usersOf(at) {
    const {first, nodes} = at.trace.users(at.r);
    return throughViews(at, (i, each) => {
        for (let k = first[i]; k < first[i + 1]; k++) each(nodes[k]);
    });
}

function throughViews(at, eachNext) {
    const flags = at.trace.column(at.r, "flags"), seen = new Set(), out = [], todo = [at.i];
    while (todo.length > 0)
        eachNext(todo.pop(), (i) => {
            if (seen.has(i)) return;
            seen.add(i);
            if (flags[i] & VIRTUAL) todo.push(i);
            else out.push({trace: at.trace, t: at.t, r: at.r, i});
        });
    return out.sort((a, b) => a.i - b.i);
}

/* The ops of other ranks in the same collective or message. */
function partnersOf(at) {
    const meeting = meetingOf(at.trace)[at.trace.first[at.r] + at.i];
    if (meeting < 0) return [];
    return at.trace.joined[meeting].filter(([r]) => r !== at.r)
        .map(([r, i]) => ({trace: at.trace, t: at.t, r, i}));
}

/* Pairs [tp_enter, the all-reduce of its gradient] of a rank, by scope and step. In forward,
   tp_enter gives each rank the same tensor; in backward, the gradients of the ranks are summed. */
function pairsOf(trace, r) {
    return trace.shared("pairs", trace.key(r, "op", "scope", "phase", "step", "comm"), () => {
        const enters = new Map(), out = [], op = trace.column(r, "op");
        const scope = trace.column(r, "scope"), phase = trace.column(r, "phase");
        const step = trace.column(r, "step"), comm = trace.column(r, "comm"), {head} = trace;
        const enter = trace.texts.indexOf("tp_enter"), sum = head.comms.indexOf("all_reduce") + 1;
        for (let i = 0; i < op.length; i++) {
            const part = head.phases[phase[i]], key = scope[i] + "," + step[i];
            if (op[i] === enter && part === "forward")
                enters.set(key, (enters.get(key) || []).concat(i));
            else if (comm[i] === sum && part === "backward" && enters.has(key)) {
                const first = enters.get(key).shift();
                if (first !== undefined) out.push([first, i]);
            }
        }
        return out;
    });
}

/* The other op of an op's pair, or null. */
function pairedWith(at) {
    const pair = pairsOf(at.trace, at.r).find((two) => two.includes(at.i));
    return pair ? {...at, i: pair[0] === at.i ? pair[1] : pair[0]} : null;
}

/* Per node of all ranks: its index among collectives and messages; -1: none. */
function meetingOf(trace) {
    return trace.shared("meeting of", "", () => {
        const {list, messages} = trace.meetings(), out = new Int32Array(trace.nodes).fill(-1);
        trace.joined = list.concat(messages);
        trace.joined.forEach((at, m) => at.forEach(([r, i]) => { out[trace.first[r] + i] = m; }));
        return out;
    });
}

/* Collectives and messages, ordered by the time at which their first member began to exchange data:
   indices into `joined`, these times s, and the latest end so far e. */
function joinsByTime(trace) {
    return trace.shared("joins by time", "", () => {
        meetingOf(trace);
        const all = trace.joined.map((at, m) => {
            let s = Infinity, e = 0;
            for (const [r, i] of at) {
                const {start, end} = trace.span(r), begin = start[i] + trace.column(r, "wait")[i];
                if (begin < s) s = begin;
                if (end[i] > e) e = end[i];
            }
            return {m, s, e};
        });
        all.sort((a, b) => a.s - b.s);
        let last = 0;
        return {places: all.map(({m}) => m), s: all.map(({s}) => s),
            e: all.map(({e}) => { last = Math.max(last, e); return last; })};
    });
}

/* All nodes of all ranks in an order in which each comes after its dependencies. Ranks advance one
   by one and wait at a collective until its last rank has arrived. Ranks that wait in a cycle
   continue. */
function runOrder(trace) {
    const meeting = meetingOf(trace), arrived = new Uint32Array(trace.joined.length);
    const order = new Uint32Array(trace.nodes), at = trace.ranks.map(() => 0), ready = [];
    let n = 0, left = trace.ranks.length;
    const emit = (r) => { order[n++] = trace.first[r] + at[r]++; };
    const pass = (m) => {
        for (const [r, i] of trace.joined[m])
            if (at[r] === i) {
                emit(r);
                ready.push(r);
            }
    };
    const go = (r) => {
        for (; at[r] < trace.ranks[r].nodes; emit(r)) {
            const m = meeting[trace.first[r] + at[r]];
            if (m < 0 || arrived[m] >= trace.joined[m].length) continue;
            if (++arrived[m] < trace.joined[m].length) return;
            pass(m);
            return;
        }
        left--;
    };
    for (let r = 0; r < at.length; r++) ready.push(r);
    while (left > 0) {
        while (ready.length > 0) go(ready.pop());
        const stuck = at.findIndex((i, r) => i < trace.ranks[r].nodes);
        if (stuck < 0) break;
        const m = meeting[trace.first[stuck] + at[stuck]];
        arrived[m] = trace.joined[m].length;
        pass(m);
    }
    return order.subarray(0, n);
}

/* Per node of a rank all its dependencies there, as first and nodes: producers of its inputs, other
   dependencies, and the previous op in its lane. The latter is omitted for PyTorch traces, which
   record what waits for what. */
function allSources(trace, r) {
    const key = trace.timeKey(r) + trace.key(r, "uses", "deps");
    return trace.shared("all sources", key, () => {
        const n = trace.ranks[r].nodes, uses = trace.uses(r), deps = trace.deps(r);
        const before = new Int32Array(n).fill(-1), first = new Uint32Array(n + 1);
        const nodes = new Uint32Array(uses.tensors.length + deps.nodes.length + n);
        for (const row of trace.head.recorded ? [] : rowsOf(trace, r))
            for (let k = 1; k < row.nodes.length; k++) before[row.nodes[k]] = row.nodes[k - 1];
        let at = 0;
        for (let i = 0; i < n; i++) {
            first[i] = at;
            for (let k = uses.first[i]; k < uses.split[i]; k++)
                if (uses.producer[uses.tensors[k]] >= 0)
                    nodes[at++] = uses.producer[uses.tensors[k]];
            for (let k = deps.first[i]; k < deps.first[i + 1]; k++) nodes[at++] = deps.nodes[k];
            if (before[i] >= 0) nodes[at++] = before[i];
        }
        first[n] = at;
        return {first, nodes};
    });
}

/* Per rank `on`, which is above 0 for nodes on the critical path, and `slack`, the ns by which each
   op could end later without delaying the end of the run. The path goes backwards from the op that
   ends last, each time to the dependency that ended last. A gap before an op, which is the
   program's own time, keeps its length. In PyTorch traces ops overlap, and the path is part of the
   data (export/walk/critical.h). */
function findCritical(trace) {
    return trace.shared("critical", "", () => {
        const n = trace.nodes, run = {trace, meeting: meetingOf(trace), order: runOrder(trace),
            rankOf: new Uint16Array(n), end: new Float64Array(n), begin: new Float64Array(n),
            shown: new Uint8Array(n), sources: trace.ranks.map((_, r) => allSources(trace, r))};
        trace.ranks.forEach((_, r) => {
            const span = trace.span(r), wait = trace.column(r, "wait");
            const lane = trace.column(r, "lane"), g = trace.first[r];
            run.rankOf.fill(r, g, trace.first[r + 1]);
            for (let i = 0; i < lane.length; i++) {
                run.shown[g + i] = lane[i] > 0 ? 1 : 0;
                run.begin[g + i] = span.start[i] + wait[i];
                run.end[g + i] = span.end[i];
            }
        });
        const bind = bindAll(run), late = latest(run, bind);
        const perRank = (values) =>
            trace.ranks.map((_, r) => values.subarray(trace.first[r], trace.first[r + 1]));
        const on = trace.head.recorded ? trace.ranks.map((_, r) => trace.column(r, "critical"))
            : perRank(criticalMarks(run, bind));
        return {on, slack: perRank(late)};
    });
}

/* The dependency that ended last for each node, shared by the members of a collective. Nodes that
   are not shown get its time. */
function bindAll({trace, meeting, order, rankOf, end, begin, shown, sources}) {
    const bind = new Int32Array(order.length).fill(-1);
    const met = new Int32Array(trace.joined.length).fill(-1);
    for (const g of order) {
        const r = rankOf[g], base = trace.first[r], {first, nodes} = sources[r];
        let last = -1;
        for (let k = first[g - base]; k < first[g - base + 1]; k++) {
            const p = base + nodes[k];
            if (last < 0 || end[p] > end[last]) last = p;
        }
        bind[g] = last;
        if (!shown[g]) begin[g] = end[g] = last < 0 ? 0 : end[last];
        const m = meeting[g];
        if (m >= 0 && last >= 0 && (met[m] < 0 || end[last] > end[met[m]])) met[m] = last;
    }
    for (const g of order) if (meeting[g] >= 0) bind[g] = met[meeting[g]];
    return bind;
}

/* The latest possible end of each node. Members of a collective share the earliest one that any of
   their dependents allows. */
function latest({trace, meeting, order, rankOf, end, begin, sources}, bind) {
    const late = new Float64Array(order.length).fill(trace.end);
    const together = new Float64Array(trace.joined.length).fill(Infinity);
    for (let n = order.length - 1; n >= 0; n--) {
        const g = order[n], m = meeting[g], r = rankOf[g], base = trace.first[r];
        const {first, nodes} = sources[r];
        if (m >= 0) {
            for (const [r2, i] of together[m] < Infinity ? [] : trace.joined[m])
                together[m] = Math.min(together[m], late[trace.first[r2] + i]);
            late[g] = together[m];
        }
        const from = late[g] - (end[g] - begin[g]);
        for (let k = first[g - base]; k < first[g - base + 1]; k++) {
            const p = base + nodes[k], gap = p === bind[g] ? Math.max(0, begin[g] - end[p]) : 0;
            if (from - gap < late[p]) late[p] = from - gap;
        }
    }
    for (const g of order) late[g] = Math.max(0, late[g] - end[g]);
    return late;
}

function criticalMarks({end, shown}, bind) {
    let g = -1;
    for (let k = 0; k < end.length; k++) if (shown[k] && (g < 0 || end[k] > end[g])) g = k;
    const marks = new Uint8Array(end.length);
    for (; g >= 0 && !marks[g]; g = bind[g]) marks[g] = 1;
    return marks;
}
