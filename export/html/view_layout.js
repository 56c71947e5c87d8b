/* Layout of the graph's boxes: rows from top to bottom, with each item below its dependencies and
   ordered within its row by the items above. Linear in items and edges. */

const OP_H = 38, BOX_H = 52, GAP_X = 22, GAP_Y = 26, PAD = 14, TITLE = 22, ACROSS = 5;

/* Items and edges of one rank, relative to (0, 0): {root, edges, w, h}. alone: no other rank is
   next to it. */
function layoutRank(view, trace, r, alone) {
    const of = new Array(trace.ranks[r].nodes);
    const root = visible(view, treeOf(trace, r, view.views), 0, of, null);
    number(root, {n: 0}, 0);
    const edges = itemEdges(view, trace, r, root, of);
    for (const edge of edges) lift(edge);
    measure(trace, r, root, alone);
    place(root, PAD, 4);
    const pairs = itemPairs(trace, r, of);
    return {root, edges, pairs, of, w: root.w + 2 * PAD, h: root.h + PAD};
}

function number(item, count, depth) {
    item.order = count.n++;
    item.depth = depth;
    item.links = []; /* edges between its kids: pairs of their indices */
    (item.kids || []).forEach((kid, k) => {
        kid.place = k;
        number(kid, count, depth + 1);
    });
}

/* Edges between visible items, one per pair: bytes, number of tensors, and the shape if there is
   only one. An op that overwrites what another one reads gives no edge; the panel shows it. */
function itemEdges(view, trace, r, root, of) {
    const uses = trace.uses(r), deps = trace.deps(r), known = new Map(), made = new Map();
    const overwrites = 1 << trace.head.classes.indexOf("inplace");
    const bytes = trace.column(r, "tensor_bytes"), specs = trace.column(r, "tensor_spec");
    /* the visible producer of a tensor, looking through views, or null */
    const maker = (t) => {
        for (let i; (i = uses.producer[t]) >= 0; t = uses.tensors[uses.first[i]]) {
            if (of[i]) return of[i];
            if (uses.first[i] === uses.split[i]) return null;
        }
        return null;
    };
    const add = (a, b, tensor) => {
        if (!a || a === b || a.order >= b.order || inside(b, a) || inside(a, b)) return;
        const key = a.order * 2 ** 26 + b.order;
        let edge = known.get(key);
        if (!edge) known.set(key, edge = {a, b, bytes: 0, tensors: new Set(), spec: "", part: ""});
        if (tensor < 0 || edge.tensors.has(tensor)) return;
        edge.tensors.add(tensor);
        edge.bytes += bytes[tensor];
        edge.spec = trace.texts[specs[tensor]];
        edge.part = trace.tensorPart(r, tensor);
    };
    for (let i = 0; i < of.length; i++) {
        const b = of[i];
        if (!b || b.what.copies && !isFirst(b, i)) continue;
        for (let k = uses.first[i]; k < uses.split[i]; k++) {
            const t = uses.tensors[k];
            if (!made.has(t)) made.set(t, maker(t));
            add(made.get(t), b, t);
        }
        for (let k = deps.first[i]; k < deps.first[i + 1]; k++)
            if (deps.classes[k] !== overwrites) add(of[deps.nodes[k]], b, -1);
    }
    return [...known.values()];
}

/* The items of each tp_enter (or of its reader if views are not drawn) and of the all-reduce of its
   gradient: {a, b, i, j}, one per pair of items. */
function itemPairs(trace, r, of) {
    const out = new Map();
    for (const [i, j] of pairsOf(trace, r)) {
        const reader = of[i] ? i : (usersOf({trace, r, i})[0] || {}).i, a = of[reader], b = of[j];
        if (a && b && a !== b && !inside(a, b) && !inside(b, a))
            out.set(a.order + "," + b.order, {a, b, i, j});
    }
    return [...out.values()];
}

function isFirst(item, i) {
    if (!item.firsts) item.firsts = new Set(nodesOf(item.what.copies[0]));
    return item.firsts.has(i);
}

function inside(item, box) {
    for (; item; item = item.parent) if (item === box) return true;
    return false;
}

/* Adds an edge to the innermost box that contains both ends, between the kids that contain one end
   each. */
function lift(edge) {
    let {a, b} = edge;
    while (a.depth > b.depth) a = a.parent;
    while (b.depth > a.depth) b = b.parent;
    while (a.parent !== b.parent) {
        a = a.parent;
        b = b.parent;
    }
    edge.box = a.parent;
    edge.from = a;
    edge.to = b;
    if (a.place < b.place) a.parent.links.push([a.place, b.place]);
}

/* ---- Sizes ---- */

/* "12.9 ms", or "host 104 ms, device 12.9 ms"; "" if no op has a time. */
function boxTime(trace, r, item) {
    if (trace.head.clock === "order") return "";
    const texts = timeTexts(trace, r, timesOf(trace, r, item.nodes));
    const apart = hostLanes(trace, r).includes(true);
    return texts.map((pair) => apart ? pair.join(" ") : pair[1]).join(" \u00b7 ");
}

/* "columns 0-63 of 128" of the output. Otherwise the shard of the parameter that the op reads, and
   whether the output is a partial sum; "" if nothing is sharded. */
function partText(trace, r, i) {
    if (trace.ranks[r].parts.length === 0) return "";
    const uses = trace.uses(r), flags = trace.column(r, "tensor_flags");
    const inputs = uses.tensors.subarray(uses.first[i], uses.split[i]);
    const outputs = uses.tensors.subarray(uses.split[i], uses.first[i + 1]);
    const part = (tensors) => trace.tensorPart(r, tensors.find((t) => trace.tensorPart(r, t)));
    const weight = part(inputs.filter((t) => flags[t] & PARAMETER));
    const term = outputs.some((t) => flags[t] & TERM) ? "output: partial sum" : "";
    return part(outputs) ||
        [weight ? "weight: " + weight : "", term].filter((s) => s !== "").join(", ");
}

/* The shards of parameters that ops read: each text once, only the first few. */
function weightParts(trace, r, nodes) {
    if (trace.ranks[r].parts.length === 0) return [];
    const uses = trace.uses(r), flags = trace.column(r, "tensor_flags"), out = new Set();
    for (const i of nodes)
        for (const t of uses.tensors.subarray(uses.first[i], uses.split[i]))
            if (flags[t] & PARAMETER) out.add(trace.tensorPart(r, t));
    out.delete("");
    return out.size > 4 ? [...out].slice(0, 4).concat("\u2026") : [...out];
}

function itemTexts(trace, r, item) {
    const what = item.what;
    if (what.i === undefined) {
        const comms = item.nodes.filter((i) => trace.column(r, "comm")[i] > 0).length;
        return [what.name, [plural(item.nodes.length, "op"),
            comms > 0 ? plural(comms, "collective") : "", boxTime(trace, r, item)]
            .filter((text) => text !== "").join(", ")];
    }
    const op = trace.text(r, what.i, "op"), label = trace.text(r, what.i, "label");
    const uses = trace.uses(r), t = uses.tensors[uses.split[what.i]];
    const has = uses.split[what.i] < uses.first[what.i + 1];
    const shape = has ? trace.texts[trace.column(r, "tensor_spec")[t]] : "";
    return [label, [label === op ? "" : op, shape].filter((s) => s !== "").join("  "),
        partText(trace, r, what.i)];
}

function measure(trace, r, item, beside) {
    item.texts = itemTexts(trace, r, item);
    const title = Math.max(item.texts[0].length * 7.6 + (item.what.copies ? 74 : 0),
        item.texts[1].length * 6.1, (item.texts[2] || "").length * 5.6);
    if (!item.kids) {
        item.w = Math.max(item.what.i === undefined ? 170 : 96, Math.min(330, title + 26));
        item.h = item.what.i === undefined ? BOX_H : item.texts[2] ? OP_H + 13 : OP_H;
        return;
    }
    for (const kid of item.kids) measure(trace, r, kid);
    const found = rowsWithin(item), rows = beside ? putBeside(item, found) : found;
    let y = item.parent ? TITLE + 10 : 0, left = 0, right = 0;
    for (const row of rows) {
        arrange(row);
        for (const kid of row) {
            kid.dy = y;
            left = Math.min(left, kid.cx - kid.w / 2);
            right = Math.max(right, kid.cx + kid.w / 2);
        }
        y += Math.max(...row.map((kid) => kid.h)) + GAP_Y;
    }
    const side = item.parent ? PAD + 12 : 0;
    for (const kid of item.kids) kid.dx = kid.cx - kid.w / 2 - left + side;
    item.w = Math.max(right - left + 2 * side, title + 40);
    const slack = (item.w - (right - left + 2 * side)) / 2;
    for (const kid of item.kids) kid.dx += slack;
    item.h = y - GAP_Y + (item.parent ? PAD : 0);
}

/* Arranges kids in rows: below their dependencies, boxes also below earlier boxes, at most ACROSS
   per row. */
function rowsWithin(item) {
    const kids = item.kids, least = new Array(kids.length).fill(0), rows = [];
    const next = kids.map(() => []);
    for (const [a, b] of item.links) next[a].push(b);
    kids.forEach((kid, k) => { kid.above = []; });
    for (const [a, b] of item.links) kids[b].above.push(kids[a]);
    let lastBox = -1;
    kids.forEach((kid, k) => {
        const box = kid.what.i === undefined;
        let row = box ? Math.max(least[k], lastBox + 1) : least[k];
        while ((rows[row] || []).length >= ACROSS) row++;
        if (box) lastBox = row;
        while (rows.length <= row) rows.push([]);
        rows[row].push(kid);
        kid.row = row;
        for (const b of next[k]) least[b] = Math.max(least[b], row + 1);
    });
    return rows.filter((row) => row.length > 0);
}

/* Sets the centres of a row's items: near the items that they depend on, without overlap. */
function arrange(row) {
    if (row.beside) {
        alignBeside(row, row.map((kid) => kid === row[row.length - 1]));
        markUp(row[row.length - 1]);
    }
    for (const kid of row) {
        const above = kid.above.filter((k) => k.cx !== undefined);
        kid.want = above.length > 0 ? above.reduce((sum, k) => sum + k.cx, 0) / above.length : 0;
    }
    if (!row.beside) row.sort((a, b) => a.want - b.want || a.place - b.place);
    let x = 0, off = 0;
    for (const kid of row) {
        kid.cx = x + kid.w / 2;
        x += kid.w + (row.beside ? BESIDE_GAP : GAP_X);
        off += kid.want - kid.cx;
    }
    for (const kid of row) kid.cx += off / row.length;
}

function place(item, x, y) {
    item.x = x;
    item.y = y;
    for (const kid of item.kids || []) place(kid, x + kid.dx, y + kid.dy);
}
