/* Host threads of PyTorch traces. Threads of one kind, such as those of autograd or of gloo, are
   drawn as one track until the user unfolds them. */

/* Per thread of a rank, by its name: what it runs. The thread with the most ops is the main one. */
function threadKinds(trace, r) {
    const own = trace.columns[r];
    if (own.threadKinds) return own.threadKinds;
    const counts = new Map(), kinds = new Map(), hosts = rowsOf(trace, r).filter((row) => row.host);
    for (const {name, nodes} of hosts) counts.set(name, (counts.get(name) || 0) + nodes.length);
    const main = [...counts].sort((a, b) => b[1] - a[1])[0];
    for (const {name, nodes} of hosts) {
        if (kinds.has(name)) continue; /* the first row has the outermost ops */
        const words = new Map();
        for (const i of nodes) {
            const word = trace.text(r, i, "label").split(/::?/)[0];
            words.set(word, (words.get(word) || 0) + 1);
        }
        const [most, n] = [...words].sort((a, b) => b[1] - a[1])[0];
        kinds.set(name, name === main[0] ? "" : n > nodes.length / 2 ? most : "other");
    }
    return own.threadKinds = kinds;
}

/* The rows of a rank as the timeline draws them: [{rows, name}], where name is that of several
   threads in one track. */
function tracksOf(view, trace, r) {
    const all = rowsOf(trace, r), out = [], folded = new Map();
    if (!trace.head.recorded || view.threads) return all.map((row) => ({rows: [row]}));
    const kinds = threadKinds(trace, r), counts = new Map();
    for (const kind of kinds.values()) counts.set(kind, (counts.get(kind) || 0) + 1);
    for (const row of all) {
        const kind = row.host ? kinds.get(row.name) : "";
        if (!kind || counts.get(kind) < 2) {
            out.push({rows: [row]});
            continue;
        }
        if (!folded.has(kind)) {
            folded.set(kind, {rows: [], name: counts.get(kind) + " " + kind + " threads"});
            out.push(folded.get(kind));
        }
        folded.get(kind).rows.push(row);
    }
    return out;
}

/* Whether there are threads that can be folded. */
function foldsThreads(view) {
    return view.traces.some((trace) => trace.head.recorded && trace.ranks.some((_, r) =>
        new Set(threadKinds(trace, r).values()).size < threadKinds(trace, r).size));
}

function setThreads(view, on) {
    if (!foldsThreads(view)) return view.say("There are no threads of one kind.");
    view.ask();
    view.threads = on;
    view.redraw("all");
}
