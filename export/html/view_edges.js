/* Arrows of the graph. */

function drawEdges(picture, g) {
    const at = picture.view.selected,
          mine = at && at.trace === picture.part.trace && at.r === picture.part.r;
    const selected = mine ? picture.part.of[at.i] : null, later = [];
    for (const edge of picture.part.edges) {
        if (!edgeShows(picture, edge)) continue;
        if (selected && (edge.a === selected || edge.b === selected)) later.push(edge);
        else drawEdge(picture, g, edge, picture.view.palette.dark ? "#667584" : "#8796a4", 1.2);
    }
    for (const edge of later)
        drawEdge(picture, g, edge, edge.b === selected ? "#d08700" : "#158a6f", 2.4);
    for (const pair of picture.part.pairs)
        drawPair(picture, g, pair, selected && (pair.a === selected || pair.b === selected));
}

/* Draws a dashed red line from a tp_enter to the all-reduce of its gradient in backward. If
   backward is not next to forward but below it, the line is drawn only for selected ops. */
function drawPair(picture, g, pair, selected) {
    const {a, b} = pair, beside = isBeside(pair), {seen, part} = picture;
    if (!beside && !selected || Math.max(a.y + a.h, b.y + b.h) + HEAD < seen.y0 ||
        Math.min(a.y, b.y) + HEAD > seen.y1 || a.x + part.left > seen.x1) return;
    g.strokeStyle = g.fillStyle = CATEGORY_COLOURS.communication;
    g.lineWidth = selected ? 2.4 : 1.5;
    g.setLineDash([7, 4]);
    g.beginPath();
    if (beside) return acrossGap(g, pair);
    const x0 = a.x + a.w, x1 = b.x + b.w, y0 = a.y + a.h / 2, y1 = b.y + b.h / 2;
    g.moveTo(x0, y0);
    g.bezierCurveTo(Math.max(x0, x1) + 90, y0, Math.max(x0, x1) + 90, y1, x1 + 4, y1);
    g.stroke();
    g.setLineDash([]);
    arrow(g, x1, y1, Math.PI / 2);
}

function edgeShows(picture, edge) {
    const top = Math.min(edge.a.y, edge.b.y) + HEAD;
    const end = Math.max(edge.a.y + edge.a.h, edge.b.y + edge.b.h) + HEAD;
    return end > picture.seen.y0 && top < picture.seen.y1 &&
        edge.box.x + edge.box.w + picture.part.left > picture.seen.x0 &&
        edge.box.x + picture.part.left < picture.seen.x1;
}

/* Whether the edge leads from forward to backward next to it. */
function isAcross({from, to}) {
    return from !== to && from.row === to.row;
}
function isBeside({a, b}) {
    return a.x + a.w < b.x;
}

/* The end points of an arrow: the bottom of one item and the top of the other, or the reverse if
   arrows point upwards. */
function outOf(edge, item) {
    return edge.box.up ? item.y : item.y + item.h;
}
function into(edge, item) {
    return edge.box.up ? item.y + item.h : item.y;
}

/* Draws a straight curve to a near item; otherwise a dashed line next to the items in between, or
   along the margins of the boxes that it leaves and enters. Dotted from forward to backward. */
function drawEdge(picture, g, edge, colour, width) {
    const {a, b} = edge, x0 = a.x + a.w / 2, y0 = outOf(edge, a);
    const x1 = b.x + b.w / 2, y1 = into(edge, b), sign = edge.box.up ? -1 : 1;
    const across = isAcross(edge);
    const near = !across && sign * (y1 - y0) > 0 && sign * (y1 - y0) < 5.5 * GAP_Y;
    g.strokeStyle = g.fillStyle = colour;
    g.lineWidth = width;
    g.beginPath();
    if (near) {
        const half = (y1 - y0) / 2;
        g.moveTo(x0, y0);
        g.bezierCurveTo(x0, y0 + half, x1, y1 - half, x1, y1 - sign * 4);
        g.stroke();
        arrow(g, x1, y1, sign > 0 ? 0 : Math.PI);
    } else {
        g.setLineDash(across ? [2, 4] : [6, 4]);
        if (across) acrossGap(g, edge);
        else if (a === edge.from && b === edge.to) besideRows(g, edge, sign);
        else alongMargins(g, edge, sign);
        g.setLineDash([]);
    }
    if (near && picture.view.z > 0.55 && a.what.i === undefined && edge.tensors.size > 0)
        drawEdgeText(picture, g, edge, (x0 + x1) / 2, (y0 + y1) / 2);
}

/* Draws an arrow head at (x, y), rotated by `angle` from pointing down. */
function arrow(g, x, y, angle) {
    const c = Math.cos(angle), s = Math.sin(angle);
    const at = (dx, dy) => [x + c * dx - s * dy, y + s * dx + c * dy];
    g.beginPath();
    g.moveTo(...at(-4, -7));
    g.lineTo(...at(4, -7));
    g.lineTo(x, y);
    g.fill();
}

const RIGHT = -Math.PI / 2;

/* Draws the line from a forward item to a backward item next to it. */
function acrossGap(g, {a, b}) {
    const x0 = a.x + a.w, y0 = a.y + a.h / 2, x1 = b.x, y1 = b.y + b.h / 2;
    const half = (x1 - x0) / 2;
    g.moveTo(x0, y0);
    g.bezierCurveTo(x0 + half, y0, x1 - half, y1, x1 - 4, y1);
    g.stroke();
    g.setLineDash([]);
    arrow(g, x1, y1, RIGHT);
}

function besideRows(g, edge, sign) {
    const {a, b} = edge, side = sideOf(edge), bend = 16 * sign, x1 = b.x + 14;
    const y0 = outOf(edge, a), y1 = into(edge, b);
    g.moveTo(a.x + a.w / 2, y0);
    g.bezierCurveTo(a.x + a.w / 2, y0 + bend, side, y0 + 2 * sign, side, y0 + bend + 8 * sign);
    g.lineTo(side, y1 - bend - 8 * sign);
    g.bezierCurveTo(side, y1 - 4 * sign, x1, y1 - bend, x1, y1 - 4 * sign);
    g.stroke();
    g.setLineDash([]);
    arrow(g, x1, y1, sign > 0 ? 0 : Math.PI);
}

function alongMargins(g, edge, sign) {
    const {a, b, from, to} = edge, out = from.x + (a === from ? a.w / 2 : 9);
    const into1 = b === to ? b.x + 14 : to.x + 9, y0 = a.y + a.h / 2, y1 = b.y + b.h / 2;
    const end = outOf(edge, from), begin = into(edge, to), bottom = end + 6 * sign;
    g.moveTo(a === from ? out : a.x, a === from ? end : y0);
    if (a !== from) g.quadraticCurveTo(out, y0, out, y0 + 12 * sign);
    g.lineTo(out, bottom);
    g.bezierCurveTo(out, bottom + 14 * sign, into1, begin - 20 * sign, into1, begin);
    if (b !== to) {
        g.lineTo(into1, y1 - 12 * sign);
        g.quadraticCurveTo(into1, y1, b.x - 4, y1);
    }
    g.stroke();
    g.setLineDash([]);
    arrow(g, b === to ? into1 : b.x, b === to ? begin : y1,
        b !== to ? RIGHT : sign > 0 ? 0 : Math.PI);
}

function drawEdgeText(picture, g, edge, x, y) {
    const n = edge.tensors.size;
    g.font = "10.5px system-ui, sans-serif";
    g.textBaseline = "middle";
    const only = edge.spec + (edge.part ? "  " + edge.part : "");
    drawText(g, n === 1 ? only : n + " tensors, " + amount(edge.bytes, "B"), x + 8, y, 220,
        picture.soft);
}

/* The x coordinate left of all items between the ends. */
function sideOf({box, from, to}) {
    let side = Math.min(from.x, to.x);
    for (const kid of box.kids)
        if (kid.row > from.row && kid.row < to.row) side = Math.min(side, kid.x);
    return side - 11;
}
