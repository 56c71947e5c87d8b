/* The graph of a rank as nested boxes: part of the run, layer, block, op; for PyTorch traces, ops
   and the ops that they called. Identical neighbours, as most layers are, are merged into one. A
   box is {name, path, kids, own, parent}, where own is the op that called the others; an op is {i,
   parent}; merged items are {copies: [box or op, ...], kids: [the first], ...}. */

const NEAR = 2;  /* a box is continued if it is among the last NEAR kids */
const ALIKE = 4; /* at least this many identical ops are merged */

/* The root box of a rank. views: whether it includes ops that compute nothing. */
function treeOf(trace, r, views) {
    const key = trace.key(r, "scope", "phase", "step", "label", "op", "flags", "kind") +
        (trace.head.recorded ? trace.timeKey(r) + trace.key(r, "deps") : "");
    return trace.shared("tree", key + views, () => {
        const root = {name: "", path: "", kids: [], parent: null};
        if (trace.head.recorded) addCalls(trace, r, root);
        else addScopes(trace, r, root, views);
        sign(trace, r, root, new Map());
        foldKids(trace, r, root);
        return root;
    });
}

/* Communication of another scope, such as the all-reduces of gradients during a backward pass, does
   not interrupt a box: it is collected at the end of the enclosing box. Recomputed ops come before
   backward. */
function addScopes(trace, r, root, views) {
    const open = [root], flags = trace.column(r, "flags"), paths = pathsOf(trace, r);
    const comm = trace.column(r, "comm"), aside = new Map();
    for (let i = 0; i < flags.length; i++) {
        if (flags[i] & VIRTUAL && !views) continue;
        const path = paths(i);
        let depth = 0;
        while (depth < path.length && depth + 1 < open.length &&
            open[depth + 1].name === path[depth])
            depth++;
        let box = open[depth];
        if (comm[i] > 0 && depth > 0 && depth < path.length && box.kids.length > 0) {
            const at = box.path + "//" + path.slice(depth).join("/");
            if (!aside.has(at))
                aside.set(at, {name: path.slice(depth).join("."), path: at, kids: [], parent: box,
                    aside: true});
            box = aside.get(at);
        } else {
            if (depth < path.length) open.length = depth + 1;
            for (; depth < path.length; depth++) open.push(box = kidNamed(box, path[depth]));
        }
        box.kids.push({i, parent: box});
    }
    for (const box of aside.values()) box.parent.kids.push(box);
    root.kids.forEach((box, k) => {
        if (!box.kids) return;
        const name = box.name.replace(/^recompute/, "backward");
        const back = root.kids.findIndex((kid) => kid.name === name);
        if (box.name.startsWith("recompute") && back < k)
            root.kids.splice(back, 0, ...root.kids.splice(k, 1));
    });
}

/* Makes a box for each thread, with ops inside the ops that called them and device work inside the
   op that launched it. */
function addCalls(trace, r, root) {
    const {start} = trace.span(r), lane = trace.column(r, "lane"), deps = trace.deps(r);
    const caller = new Int32Array(lane.length).fill(-1), items = new Map();
    const threads = new Map(), stepAt = stepsOf(trace, r);
    const launch = 1 << trace.head.classes.indexOf("launch");
    for (const row of rowsOf(trace, r))
        if (row.callers) row.nodes.forEach((i, k) => { caller[i] = row.callers[k]; });
    for (let i = 0; i < lane.length; i++)
        for (let k = deps.first[i]; k < deps.first[i + 1] && caller[i] < 0; k++)
            if (deps.classes[k] & launch) caller[i] = deps.nodes[k];
    const order = Array.from(lane, (_, i) => i).filter((i) => lane[i] > 0);
    order.sort((a, b) => start[a] - start[b] || a - b);
    for (const i of order) items.set(i, {i, kids: []});
    for (const i of order) {
        const item = items.get(i), name = trace.ranks[r].lanes[lane[i] - 1][0];
        const step = trace.text(r, i, "label").startsWith(STEP_MARK) ? null : stepAt(start[i]);
        if (items.has(caller[i])) {
            item.parent = items.get(caller[i]);
        } else {
            if (!threads.has(name)) threads.set(name, kidNamed(root, name));
            item.parent = step ? kidNamed(threads.get(name), step) : threads.get(name);
        }
        item.parent.kids.push(item);
    }
    const settle = (item) => {
        item.kids.forEach((kid, k) => {
            if (kid.i === undefined) return settle(kid); /* a step */
            if (kid.kids.length === 0) {
                delete kid.kids;
                return;
            }
            kid.own = kid.i;
            delete kid.i;
            kid.name = trace.text(r, kid.own, "label");
            kid.path = item.path + "/" + kid.name + "~" + k;
            settle(kid);
        });
    };
    root.kids.forEach(settle);
}

const STEP_MARK = "ProfilerStep#"; /* the name of a step of PyTorch's profiler, with its number */

function isStep(item) {
    return item.kids !== undefined && item.name.startsWith(STEP_MARK);
}

/* The step of a PyTorch trace at a time, so that threads that run beside it are folded like it. */
function stepsOf(trace, r) {
    const {start, end} = trace.span(r), steps = [];
    for (let i = 0; i < start.length; i++)
        if (trace.text(r, i, "label").startsWith(STEP_MARK))
            steps.push([start[i], end[i], trace.text(r, i, "label")]);
    return (ns) => (steps.find(([from, to]) => ns >= from && ns < to) || [])[2];
}

/* The path of a node: "prefill", "h.3", "attn". */
function pathsOf(trace, r) {
    const scope = trace.column(r, "scope"), phase = trace.column(r, "phase");
    const step = trace.column(r, "step"), known = new Map();
    return (i) => {
        const key = (phase[i] * 2 ** 26 + step[i]) * 2 ** 24 + scope[i];
        let path = known.get(key);
        if (!path) {
            const text = trace.texts[scope[i]], layer = layerOf(text);
            const rest = text.slice(layer.length + 1).split(".");
            path = [partName(trace, phase[i], step[i]), layer, ...rest].filter((s) => s !== "");
            known.set(key, path);
        }
        return path;
    };
}

function kidNamed(box, name) {
    for (let k = box.kids.length - 1; k >= 0 && k >= box.kids.length - NEAR; k--)
        if (box.kids[k].name === name) return box.kids[k];
    const same = box.kids.filter((kid) => kid.name === name).length;
    const path = box.path + "/" + name + (same > 0 ? "~" + same : "");
    const kid = {name, path, kids: [], parent: box};
    box.kids.push(kid);
    return kid;
}

/* Assigns equal signatures to identical items, ignoring numbers in their names. */
function sign(trace, r, item, numbers) {
    const text = item.kids
        ? item.name.replace(/[0-9]+/g, "#") + "(" +
            item.kids.map((kid) => sign(trace, r, kid, numbers)).join() + ")"
        : trace.text(r, item.i, "op") + " " + trace.text(r, item.i, "label");
    if (!numbers.has(text)) numbers.set(text, numbers.size);
    item.sign = numbers.get(text);
    return item.sign;
}

function foldKids(trace, r, box) {
    const kids = [];
    for (let k = 0, end; k < box.kids.length; k = end) {
        const first = box.kids[k], least = first.kids ? 2 : ALIKE;
        const like = (kid) => kid.sign === first.sign || isStep(kid) && isStep(first);
        for (end = k + 1; end < box.kids.length && like(box.kids[end]);) end++;
        const alike = box.kids.slice(k, end);
        for (const kid of alike) if (kid.kids) foldKids(trace, r, kid);
        if (alike.length >= least) kids.push(makeFold(trace, r, box, alike));
        else kids.push(...alike);
    }
    box.kids = kids;
}

function makeFold(trace, r, parent, copies) {
    const nameOf = (item) => item.kids ? item.name : trace.text(r, item.i, "label");
    const first = nameOf(copies[0]), last = nameOf(copies[copies.length - 1]);
    const path = copies[0].path || parent.path + "/" + first + "@" + copies[0].i;
    const fold = {
        name: first === last ? first : first + " \u2026 " + last,
        path: path + "*",
        copies,
        kids: copies.slice(0, 1),
        parent,
        sign: copies[0].sign,
        ofOps: !copies[0].kids,
        loose: copies.some((copy) => copy.sign !== copies[0].sign) /* steps differ in some ops */
    };
    for (const copy of copies) copy.parent = fold;
    return fold;
}

/* All ops within an item, including all merged ones. */
function nodesOf(item) {
    if (item.i !== undefined) return [item.i];
    if (!item.nodes) {
        item.nodes = (item.copies || item.kids).flatMap(nodesOf);
        if (item.own !== undefined) item.nodes.push(item.own);
    }
    return item.nodes;
}

/* ---- Open boxes ---- */

/* The part of the tree that is drawn: items {what, kids or null, copies, parent, nodes}, as the
   user opened and closed boxes. `of` maps each node to the item that represents it. */
function visible(view, item, depth, of, parent) {
    if (item.i !== undefined) {
        const leaf = {what: item, kids: null, parent, nodes: [item.i]};
        of[item.i] = leaf;
        return leaf;
    }
    const out = {what: item, kids: null, parent, nodes: nodesOf(item)};
    const folded = item.copies && !view.unfolded.has(item.path);
    if (folded && item.ofOps || !view.isOpen(item, depth)) {
        for (const i of out.nodes) of[i] = out;
        return out;
    }
    if (!folded) return openBox(view, out, item, item.copies ? depth - 1 : depth, of);
    const leaves = nodesOf(item.copies[0]);
    openBox(view, out, item.copies[0], depth, of);
    for (const copy of item.copies.slice(1))
        nodesOf(copy).forEach((i, k) => { of[i] = item.loose ? out : of[leaves[k]]; });
    return out;
}

function openBox(view, out, item, depth, of) {
    out.kids = (item.copies || item.kids).map((kid) => visible(view, kid, depth + 1, of, out));
    if (item.own !== undefined) of[item.own] = out;
    return out;
}
