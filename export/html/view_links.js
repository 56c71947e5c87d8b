/* What waits for what: neighbours of an op, the order in which all ranks can run, the critical path
   and how much later each op could end. */

/* Ops of the same rank whose data an op reads or for which it waits; views are passed through. */
function sourcesOf(at) {
    return throughViews(at, (i, each) => at.trace.eachSource(at.r, i, each));
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

/* The other ranks' ops of its collective or message. */
function partnersOf(at) {
    const meeting = meetingOf(at.trace)[at.trace.first[at.r] + at.i];
    if (meeting < 0) return [];
    return at.trace.joined[meeting].filter(([r]) => r !== at.r)
        .map(([r, i]) => ({trace: at.trace, t: at.t, r, i}));
}

/* Per node of all ranks its place among collectives and messages, -1 of others. */
function meetingOf(trace) {
    return trace.shared("meeting of", "", () => {
        const {list, messages} = trace.meetings(), out = new Int32Array(trace.nodes).fill(-1);
        trace.joined = list.concat(messages);
        trace.joined.forEach((at, m) => at.forEach(([r, i]) => { out[trace.first[r] + i] = m; }));
        return out;
    });
}

/* All nodes of all ranks so that each stands behind what it waits for: ranks go on one by one, and
   wait at a collective until its last rank has come. Ranks that wait in a circle go on. */
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

/* The op before on the same lane, -1 none; of PyTorch's recordings none, which say themselves what
   waits for what. */
function lanePredecessors(trace, r) {
    return trace.shared("before", trace.key(r, "lane", "gap", "duration"), () => {
        const out = new Int32Array(trace.ranks[r].nodes).fill(-1);
        if (trace.head.recorded) return out;
        for (const row of rowsOf(trace, r))
            for (let k = 1; k < row.nodes.length; k++) out[row.nodes[k]] = row.nodes[k - 1];
        return out;
    });
}

/* For each rank on: 1 for what is on the critical path; slack: by how many ns each op could end
   later while the run ends as it did. The path goes back from the op that ends last, each time to
   what it waited for longest; a gap in front of an op (the program's own time) stays as it is. */
function findCritical(trace) {
    return trace.shared("critical", "", () => {
        const n = trace.nodes, meeting = meetingOf(trace), order = runOrder(trace);
        const rankOf = new Uint16Array(n), end = new Float64Array(n), begin = new Float64Array(n);
        const shown = new Uint8Array(n);
        trace.ranks.forEach((_, r) => {
            const span = trace.span(r), wait = trace.column(r, "wait"),
                  lane = trace.column(r, "lane");
            const g = trace.first[r];
            rankOf.fill(r, g, trace.first[r + 1]);
            for (let i = 0; i < lane.length; i++) {
                shown[g + i] = lane[i] > 0 ? 1 : 0;
                begin[g + i] = span.start[i] + wait[i];
                end[g + i] = span.end[i];
            }
        });
        const eachBefore = (g, each) => {
            const r = rankOf[g], first = trace.first[r];
            trace.eachSource(r, g - first, (i) => each(first + i));
            const p = lanePredecessors(trace, r)[g - first];
            if (p >= 0) each(first + p);
        };
        const bind = bindAll(trace, order, meeting, shown, begin, end, eachBefore);
        const late = latest(trace, order, meeting, bind, begin, end, eachBefore);
        return {on: criticalMarks(trace, bind, shown, end),
            slack: trace.ranks.map((_, r) => late.subarray(trace.first[r], trace.first[r + 1])),
            endOf: end};
    });
}

/* What each node waited for longest; gives nodes that are not shown their time. */
function bindAll(trace, order, meeting, shown, begin, end, eachBefore) {
    const bind = new Int32Array(order.length).fill(-1),
          met = new Int32Array(trace.joined.length).fill(-1);
    for (const g of order) {
        let last = -1;
        eachBefore(g, (p) => { if (last < 0 || end[p] > end[last]) last = p; });
        bind[g] = last;
        if (!shown[g]) begin[g] = end[g] = last < 0 ? 0 : end[last];
        const m = meeting[g];
        if (m >= 0 && last >= 0 && (met[m] < 0 || end[last] > end[met[m]])) met[m] = last;
    }
    for (const g of order) if (meeting[g] >= 0) bind[g] = met[meeting[g]];
    return bind;
}

function latest(trace, order, meeting, bind, begin, end, eachBefore) {
    const late = new Float64Array(order.length).fill(trace.end);
    const together = new Float64Array(trace.joined.length).fill(Infinity);
    for (let k = order.length - 1; k >= 0; k--) {
        const g = order[k], m = meeting[g];
        if (m >= 0) {
            for (const [r, i] of together[m] < Infinity ? [] : trace.joined[m])
                together[m] = Math.min(together[m], late[trace.first[r] + i]);
            late[g] = together[m];
        }
        const from = late[g] - (end[g] - begin[g]);
        eachBefore(g, (p) => {
            const gap = p === bind[g] ? Math.max(0, begin[g] - end[p]) : 0;
            if (from - gap < late[p]) late[p] = from - gap;
        });
    }
    for (const g of order) late[g] = Math.max(0, late[g] - end[g]);
    return late;
}

function criticalMarks(trace, bind, shown, end) {
    let g = -1;
    for (let k = 0; k < end.length; k++) if (shown[k] && (g < 0 || end[k] > end[g])) g = k;
    const marks = new Uint8Array(end.length);
    for (; g >= 0 && !marks[g]; g = bind[g]) marks[g] = 1;
    return trace.ranks.map((_, r) => marks.subarray(trace.first[r], trace.first[r + 1]));
}
