/* The graph of a rank as boxes within boxes: part of the run, layer, block, op. Neighbours that are
   made alike, as most layers are, become one. A box: {name, path, kids, nodes, parent}; an op:
   {i, parent}; alike boxes: {copies: [box, ...], kids: [the first]}. */

const NEAR = 6; /* so far back a box is taken up again that others interrupted */

/* The root box of a rank; views: whether ops that compute nothing are in it. */
function treeOf(trace, r, views) {
    const key = trace.key(r, "scope", "phase", "step", "label", "op", "flags", "kind") + views;
    return trace.shared("tree", key, () => {
        const root = {name: "", path: "", kids: [], parent: null}, open = [root];
        const flags = trace.column(r, "flags"), paths = pathsOf(trace, r);
        for (let i = 0; i < flags.length; i++) {
            if (flags[i] & VIRTUAL && !views) continue;
            const path = paths(i);
            let depth = 0;
            while (depth < path.length && depth + 1 < open.length &&
                open[depth + 1].name === path[depth])
                depth++;
            let box = open[depth];
            if (depth < path.length) open.length = depth + 1;
            for (; depth < path.length; depth++) open.push(box = kidNamed(box, path[depth]));
            box.kids.push({i, parent: box});
        }
        sign(trace, r, root, new Map());
        foldKids(root);
        return root;
    });
}

/* "prefill", "h.3", "attn" of a node. */
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

/* Equal numbers for what is made alike, whatever its own number. */
function sign(trace, r, item, numbers) {
    const text = item.kids
        ? item.name.replace(/[0-9]+/g, "#") + "(" +
            item.kids.map((kid) => sign(trace, r, kid, numbers)).join() + ")"
        : trace.text(r, item.i, "op") + " " + trace.text(r, item.i, "label");
    if (!numbers.has(text)) numbers.set(text, numbers.size);
    item.sign = numbers.get(text);
    return item.sign;
}

function foldKids(box) {
    const kids = [];
    for (let k = 0; k < box.kids.length;) {
        const first = box.kids[k];
        let end = k + 1;
        if (first.kids) {
            foldKids(first);
            while (end < box.kids.length && box.kids[end].kids &&
                box.kids[end].sign === first.sign)
                foldKids(box.kids[end++]);
        }
        kids.push(end > k + 1 ? makeFold(box, box.kids.slice(k, end)) : first);
        k = end;
    }
    box.kids = kids;
}

function makeFold(parent, copies) {
    const first = copies[0].name, last = copies[copies.length - 1].name;
    const fold = {name: first + " \u2026 " + last, path: copies[0].path + "*", copies,
        kids: copies.slice(0, 1), parent, sign: copies[0].sign};
    for (const copy of copies) copy.parent = fold;
    return fold;
}

/* All ops within, those of copies too. */
function nodesOf(item) {
    if (item.i !== undefined) return [item.i];
    if (!item.nodes) item.nodes = (item.copies || item.kids).flatMap(nodesOf);
    return item.nodes;
}

/* ---- What is open ---- */

/* What of the tree is drawn: items {what, kids or null, copies, parent, nodes}, where the user's
   choices open and close boxes. `of` gets for each node the item that stands for it. */
function visible(view, item, depth, of, parent) {
    if (item.i !== undefined) {
        const leaf = {what: item, kids: null, parent, nodes: [item.i]};
        of[item.i] = leaf;
        return leaf;
    }
    const out = {what: item, kids: null, parent, nodes: nodesOf(item)};
    if (!view.isOpen(item, depth)) {
        for (const i of out.nodes) of[i] = out;
        return out;
    }
    if (item.copies && !view.unfolded.has(item.path)) {
        const first = item.copies[0], leaves = nodesOf(first);
        openBox(view, out, first.kids, depth, of);
        for (const copy of item.copies.slice(1))
            nodesOf(copy).forEach((i, k) => { of[i] = of[leaves[k]]; });
        return out;
    }
    return openBox(view, out, item.copies || item.kids, item.copies ? depth - 1 : depth, of);
}

function openBox(view, out, kids, depth, of) {
    out.kids = kids.map((kid) => visible(view, kid, depth + 1, of, out));
    return out;
}
