/* Contents of the timeline: rows of ops that do not overlap, and the bands above them. A row has
   nodes, their starts s, their ends e and the ends of their waits w, all ordered by time. */

/* Rows of a rank: {name, host, comm, ...}. Rows of host threads come first, one for each depth at
   which ops are nested. */
function rowsOf(trace, r) {
    const own = trace.columns[r];
    return own.rows || (own.rows = findRows(trace, r));
}

/* For each lane number, whether it is a host thread. */
function hostLanes(trace, r) {
    const own = trace.columns[r];
    return own.hosts ||
        (own.hosts = [false, ...trace.ranks[r].lanes.map(([, host]) => host === 1)]);
}

function findRows(trace, r) {
    const key = trace.timeKey(r) + trace.key(r, "comm") + JSON.stringify(trace.ranks[r].lanes);
    return trace.shared("rows", key, () => {
        const lists = byLane(trace, r), rows = [];
        trace.ranks[r].lanes.forEach(([name, host], k) => {
            for (const {nodes, callers} of byDepth(trace, r, lists[k], host))
                rows.push(makeRow(trace, r, nodes, {name, lane: k + 1, host: host === 1, callers}));
        });
        rows.sort((a, b) => b.host - a.host); /* stable: threads keep their order */
        return rows;
    });
}

/* The nodes of each lane; ranks whose ops are in the same lanes share them. */
function byLane(trace, r) {
    return trace.shared("by lane", trace.key(r, "lane") + trace.ranks[r].lanes.length, () => {
        const lane = trace.column(r, "lane"), n = new Uint32Array(trace.ranks[r].lanes.length + 1);
        for (let i = 0; i < lane.length; i++) n[lane[i]]++;
        const lists = trace.ranks[r].lanes.map((_, k) => new Uint32Array(n[k + 1]));
        n.fill(0);
        for (let i = 0; i < lane.length; i++)
            if (lane[i] > 0) lists[lane[i] - 1][n[lane[i]]++] = i;
        return lists;
    });
}

/* Nodes ordered by time; on host threads, callers come first. */
function byDepth(trace, r, nodes, host) {
    const {start, end} = trace.span(r);
    const order = (a, b) => start[a] - start[b] || (host ? end[b] - end[a] : 0) || a - b;
    let sorted = true;
    for (let k = 1; k < nodes.length && sorted; k++)
        sorted = order(nodes[k - 1], nodes[k]) < 0;
    if (!sorted) nodes = nodes.slice().sort(order);
    if (!host) return nodes.length > 0 ? [{nodes}] : [];
    const depths = [], open = [];
    for (const i of nodes) {
        while (open.length > 0 && end[open[open.length - 1]] <= start[i]) open.pop();
        if (!depths[open.length]) depths[open.length] = {nodes: [], callers: []};
        depths[open.length].nodes.push(i);
        depths[open.length].callers.push(open.length > 0 ? open[open.length - 1] : -1);
        open.push(i);
    }
    return depths.map(({nodes: own, callers}) => ({nodes: Uint32Array.from(own), callers}));
}

function makeRow(trace, r, nodes, about) {
    const {start, end} = trace.span(r), n = nodes.length;
    const wait = trace.column(r, "wait"), kind = trace.column(r, "comm");
    const s = new Float64Array(n), e = new Float64Array(n);
    let w = s; /* shared with s if no op waits */
    for (let k = 0; k < n; k++) {
        const i = nodes[k];
        s[k] = start[i];
        e[k] = end[i];
        if (wait[i] > 0 && w === s) w = s.slice();
        if (w !== s) w[k] = start[i] + wait[i];
    }
    return {...about, nodes, comm: n > 0 && kind[nodes[0]] > 0, s, e, w};
}

/* The first index whose value is greater than the limit. */
function firstAbove(values, limit) {
    let low = 0, high = values.length;
    while (low < high) {
        const middle = (low + high) >> 1;
        if (values[middle] > limit) high = middle;
        else low = middle + 1;
    }
    return low;
}

/* ---- Parts of a run ---- */

/* "h.3" for "h.3.attn": up to the first segment that is a number; otherwise the first segment. */
function layerOf(scope) {
    const parts = scope.split(".");
    for (let k = 1; k < parts.length; k++)
        if (/^[0-9]+$/.test(parts[k])) return parts.slice(0, k + 1).join(".");
    return parts[0];
}

function partName(trace, phase, step) {
    const name = trace.head.phases[phase];
    return step > 0 ? name + " " + step : name;
}

/* Bands of a rank: consecutive ops of one part of the program, of one layer, and of one block, each
   as a row with texts. */
function bandsOf(trace, r) {
    const key = trace.timeKey(r) + trace.key(r, "scope", "phase", "step");
    return trace.shared("bands", key, () => {
        const scope = trace.column(r, "scope"), phase = trace.column(r, "phase");
        const step = trace.column(r, "step");
        const names = new Map();
        const part = (i) => phase[i] * 2 ** 32 + step[i];
        const layer = (i) => {
            if (!names.has(scope[i])) names.set(scope[i], layerOf(trace.texts[scope[i]]));
            return names.get(scope[i]);
        };
        const bands = [
            makeBand(trace, r, part, (i) => partName(trace, phase[i], step[i])),
            makeBand(trace, r, (i) => part(i) + "/" + layer(i), layer),
            makeBand(trace, r, (i) => part(i) + "/" + scope[i],
                (i) => trace.texts[scope[i]].slice(layer(i).length).replace(/^\./, "")),
        ];
        if (trace.head.recorded) bands.shift(); /* PyTorch traces have no parts */
        return bands.filter((band) => band.texts.some((text) => text !== ""));
    });
}

function makeBand(trace, r, keyOf, nameOf) {
    const lane = trace.column(r, "lane"), {start, end} = trace.span(r);
    const band = {s: [], e: [], texts: [], nodes: []};
    let key = null, last = -1;
    for (let i = 0; i < lane.length; i++) {
        if (lane[i] === 0) continue;
        const k = keyOf(i);
        if (k !== key) {
            key = k;
            last++;
            band.s.push(Math.max(start[i], last > 0 ? band.e[last - 1] : start[i]));
            band.e.push(end[i]);
            band.texts.push(nameOf(i));
            band.nodes.push(i);
        }
        band.e[last] = Math.max(band.e[last], end[i]);
    }
    return band;
}
