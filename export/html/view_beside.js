/* Draws the forward, recompute and backward parts of a training step side by side, with equal
   layers next to each other; backward therefore runs upwards. */

const BESIDE_GAP = 90;

/* Rows of the root; forward, recompute and backward of one step share a row. */
function putBeside(root, rows) {
    const used = new Set();
    for (const row of rows) {
        const back = row.length === 1 && stepOf(row[0], "backward") ? row[0] : null;
        if (!back) continue;
        const step = stepOf(back, "backward"), before = root.kids.slice(0, back.place);
        const forward = before.find((kid) => stepOf(kid, "forward") === step && !used.has(kid));
        if (!forward || !forward.kids || !back.kids || !isMirrored(forward, back)) continue;
        const again = root.kids.find((kid) => stepOf(kid, "recompute") === step && kid.kids);
        const group = again ? [forward, again, back] : [forward, back];
        group.forEach((kid) => used.add(kid));
        rows.find((other) => other.includes(forward)).beside = group;
    }
    rows = rows.map((row) => row.beside || row.filter((kid) => !used.has(kid)))
        .filter((row) => row.length > 0);
    rows.forEach((row, k) => {
        row.beside = used.has(row[0]);
        for (const kid of row) kid.row = k;
    });
    return rows;
}

/* The step of "forward 3" is "3 " if `part` is "forward"; null if the box is another part. */
function stepOf(item, part) {
    const [name, step] = item.what.name ? item.what.name.split(" ") : [];
    return name === part ? (step || "") + " " : null;
}

/* A key that is equal for a layer's forward and backward boxes, also if several are drawn once.
   null if it is not a layer. */
function layerKey(item) {
    if (item.what.i !== undefined || item.what.aside) return null;
    return item.what.name.split(" \u2026 ").sort().join();
}

/* Whether the layers that both parts have occur once in each, and in backward in reverse order.
   This is not the case if gradients of several batches are accumulated. */
function isMirrored(forward, back) {
    const places = new Map();
    for (const kid of forward.kids) {
        const key = layerKey(kid);
        if (places.has(key) && key) return false;
        places.set(key, kid.place);
    }
    let last = Infinity, shared = 0;
    for (const kid of back.kids) {
        const key = layerKey(kid);
        if (!key || !places.has(key)) continue;
        if (places.get(key) >= last) return false;
        last = places.get(key);
        shared++;
    }
    return shared > 0;
}

/* Positions the contents of open boxes that are side by side, and makes the boxes equally high.
   `up` selects those that run from bottom to top. Layers that several boxes have are placed next to
   each other; what is between two layers has no counterpart. */
function alignBeside(items, up) {
    const columns = items.map(rowsWithin), first = columns[0].map(rowKey);
    const at = items.map(() => 0);
    columns.forEach((rows, c) => {
        if (up[c] || goesBack(first, rows.map(rowKey))) rows.reverse();
    });
    let y = TITLE + 10;
    for (const key of first) {
        const meets = columns.map((rows, c) => key
            ? rows.findIndex((row, k) => k >= at[c] && rowKey(row) === key) : -1);
        if (meets.filter((k) => k >= 0).length < 2) continue;
        y = stackRows(columns.map((rows, c) => rows.slice(at[c], meets[c] < 0 ? at[c] : meets[c])),
            up, y);
        y = placeSlot(columns.map((rows, c) => meets[c] < 0 ? null : rows[meets[c]][0]), up, y);
        meets.forEach((k, c) => { if (k >= 0) at[c] = k + 1; });
    }
    y = stackRows(columns.map((rows, c) => rows.slice(at[c])), up, y);
    for (const item of items) item.h = y - GAP_Y + PAD;
}

function rowKey(row) {
    return row.length === 1 ? layerKey(row[0]) : null;
}

/* Whether the keys that both have come in opposite order. */
function goesBack(keys, others) {
    const places =
        others.filter((key) => key).map((key) => keys.indexOf(key)).filter((k) => k >= 0);
    return places.length > 1 && places[0] > places[places.length - 1];
}

/* Positions the boxes of one layer. */
function placeSlot(kids, up, y) {
    const open = kids.map((kid, c) => c).filter((c) => kids[c] && kids[c].kids);
    if (open.length > 1) alignBeside(open.map((c) => kids[c]), open.map((c) => up[c]));
    else for (const c of open) if (up[c]) turn(kids[c]);
    const h = Math.max(...kids.filter((kid) => kid).map((kid) => kid.h));
    for (const kid of kids) if (kid) kid.dy = y + (h - kid.h) / 2;
    return y + h + GAP_Y;
}

/* Positions rows without a counterpart: the rows of each column below each other, vertically
   centred. */
function stackRows(columns, up, y) {
    const heights = columns.map((rows) =>
        rows.reduce((sum, row) => sum + Math.max(...row.map((kid) => kid.h)) + GAP_Y, 0));
    const all = Math.max(...heights);
    columns.forEach((rows, c) => {
        let top = y + (all - heights[c]) / 2;
        for (const row of rows) {
            const h = Math.max(...row.map((kid) => kid.h));
            for (const kid of row) {
                if (up[c] && kid.kids) turn(kid);
                kid.dy = top + (up[c] ? h - kid.h : 0);
            }
            top += h + GAP_Y;
        }
    });
    return y + all;
}

/* Flips an open box so that it runs from bottom to top. */
function turn(item) {
    const top = TITLE + 10;
    for (const kid of item.kids) {
        kid.dy = top + item.h - PAD - kid.dy - kid.h;
        if (kid.kids) turn(kid);
    }
}

/* Makes the arrows within the box point upwards. */
function markUp(item) {
    item.up = true;
    for (const kid of item.kids || []) markUp(kid);
}
