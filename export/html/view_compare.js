/* Two traces in one report: A and B. An op of A matches the op of B with the same rank, part, scope
   and label, and the same position among those. */

function matchKeys(trace, r) {
    return trace.shared("match", trace.key(r, "scope", "label", "phase", "step", "lane"), () => {
        const n = trace.ranks[r].nodes, counts = new Map(), keys = new Array(n);
        const phase = trace.column(r, "phase"), step = trace.column(r, "step");
        const hosts = hostLanes(trace, r), lane = trace.column(r, "lane");
        for (let i = 0; i < n; i++) {
            const name = [trace.text(r, i, "scope"), trace.text(r, i, "label"), phase[i],
                step[i], hosts[lane[i]]].join("\n");
            const k = counts.get(name) || 0;
            counts.set(name, k + 1);
            keys[i] = name + "\n" + k;
        }
        return keys;
    });
}

/* Per node of a rank of `from`: the matching node of the other trace; -1: none. */
function matchesOf(view, from, r) {
    const to = view.traces[view.traces[0] === from ? 1 : 0];
    return from.shared("matches", r, () => {
        const keys = matchKeys(from, r), out = new Int32Array(keys.length).fill(-1);
        const other = to.ranks.findIndex((rank) => rank.rank === from.ranks[r].rank);
        if (other < 0) return {other, nodes: out};
        const places = new Map(matchKeys(to, other).map((key, i) => [key, i]));
        keys.forEach((key, i) => { if (places.has(key)) out[i] = places.get(key); });
        return {other, nodes: out};
    });
}

/* Colours by the ratio of B's time to A's. */
function changePaint(trace, r) {
    const view = trace.view, second = view.traces[1] === trace;
    return trace.shared("change", r, () => {
        const to = view.traces[second ? 0 : 1], {other, nodes} = matchesOf(view, trace, r);
        const mine = metricOf(trace, r, "time");
        if (other < 0) return new Uint8Array(nodes.length).fill(UNKNOWN);
        const theirs = metricOf(to, other, "time");
        return Uint8Array.from(nodes,
            (k, i) => k < 0 || !(mine[i] > 0) || !(theirs[k] > 0)
                ? UNKNOWN
                : changePlace(second ? mine[i] / theirs[k] : theirs[k] / mine[i]));
    });
}

function otherLinks(view, at) {
    const {other, nodes} = matchesOf(view, at.trace, at.r);
    if (nodes[at.i] < 0) return [make("div", "no matching op")];
    const t = 1 - at.t, to = {trace: view.traces[t], t, r: other, i: nodes[at.i]};
    const mine = metricOf(at.trace, at.r, "time")[at.i],
          theirs = metricOf(to.trace, to.r, "time")[to.i];
    const text =
        mine > 0 && theirs > 0 ? duration(theirs) + ", " + changeText(theirs / mine) : opName(to);
    return [link(view, to, "AB"[t] + ": " + opName(to), text)];
}

function changeText(ratio) {
    const percent = Math.round((ratio - 1) * 1000) / 10;
    return (percent > 0 ? "+" : "") + percent + " %";
}

/* Sums over all ranks by name: {calls, ns, wait, flops, bytes}. */
function sumsBy(trace, nameOf) {
    const sums = new Map();
    trace.ranks.forEach((_, r) => {
        const lane = trace.column(r, "lane"), time = metricOf(trace, r, "time");
        const flops = trace.column(r, "flops"), read = trace.column(r, "read");
        const written = trace.column(r, "written"), hosts = hostLanes(trace, r);
        const wait = trace.column(r, "wait");
        for (let i = 0; i < lane.length; i++) {
            if (lane[i] === 0) continue;
            const name = nameOf(trace, r, i) + (hosts[lane[i]] ? " (host)" : "");
            let sum = sums.get(name);
            if (!sum) sums.set(name, sum = {...NO_SUM});
            sum.calls++;
            sum.ns += time[i];
            sum.wait += wait[i];
            sum.flops += flops[i];
            sum.bytes += read[i] + written[i];
        }
    });
    return sums;
}

function compareTable(view, what, nameOf) {
    const [a, b] = view.traces.map((trace) => sumsBy(trace, nameOf)), rows = [];
    for (const name of new Set([...a.keys(), ...b.keys()]))
        rows.push({name, a: a.get(name) || NO_SUM, b: b.get(name) || NO_SUM});
    const pair = (name, key, unit, text) => ["a", "b"].map((t) => ({
        name: name + " " + t.toUpperCase(), unit, value: (row) => row[t][key],
        text: (row) => text(row[t][key])}));
    const delta = ({a: x, b: y}) => y.ns - x.ns;
    const columns = [
        {name: what, value: (row) => row.name, text: (row) => row.name || "(top level)"},
        ...pair("calls", "calls", "", String), ...pair("time", "ns", "ns", duration),
        {name: "difference", unit: "ns", value: delta, key: (row) => Math.abs(delta(row)),
            text: changeOf, kind: (row) => delta(row) > 0 ? "more" : delta(row) < 0 ? "less" : ""},
        ...pair("flops", "flops", "FLOP", (v) => amount(v, "FLOP")),
        ...pair("bytes", "bytes", "B", (v) => amount(v, "B")),
    ];
    return new DataTable(view, "compare-" + what, columns, rows, 5).element;
}

function changeOf({a, b}) {
    const delta = b.ns - a.ns;
    const change = a.ns > 0 && b.ns > 0 ? " (" + changeText(b.ns / a.ns) + ")" : "";
    return (delta > 0 ? "+" : "") + duration(delta) + change;
}

/* Shows the tables of both traces side by side, before the tables of each. */
function showComparison(view) {
    const old = document.getElementById("comparison");
    if (old) old.remove();
    if (view.traces.length < 2) return;
    const section = make("section", null, {class: "table", id: "comparison"});
    section.append(make("h2", "A compared with B"), make("p", labelsOf(view.traces).join("; ") +
        ". The largest time differences come first."),
        make("h3", "By op"), compareTable(view, "op", (trace, r, i) => trace.text(r, i, "op")),
        make("h3", "By layer"),
        compareTable(view, "layer", (trace, r, i) => layerOf(trace.text(r, i, "scope"))));
    document.querySelector(".table").before(section);
}

/* "A: gpt2, tp 2, attention fused": titles with the metadata in which the traces differ, or with
   their file names if titles and metadata are equal. */
function labelsOf(traces) {
    const titles = traces.map((trace) => trace.head.title);
    if (traces.length === 1) return titles;
    const labels = traces.map((trace, t) => {
        const other = new Map(traces[1 - t].head.facts);
        const facts = trace.head.facts.filter(([name, value]) => other.get(name) !== value);
        return titles[t] +
            facts.slice(0, 3).map(([name, value]) => ", " + name + " " + value).join("");
    });
    const sources = traces.map((trace) => trace.head.source);
    const same = labels[0] === labels[1] && sources[0] !== sources[1];
    return labels.map((label, t) =>
        "AB"[t] + ": " + label + (same && sources[t] ? " (" + sources[t] + ")" : ""));
}
