/* Arrows of a graph. */

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
}

function edgeShows(picture, edge) {
    const top = edge.a.y + HEAD, end = edge.b.y + edge.b.h + HEAD;
    return end > picture.seen.y0 && top < picture.seen.y1 &&
        edge.box.x + edge.box.w + picture.part.left > picture.seen.x0 &&
        edge.box.x + picture.part.left < picture.seen.x1;
}

/* Straight to what is near; else dashed, on the side of what stands between, or along the
   margins of the boxes that it leaves and enters. */
function drawEdge(picture, g, edge, colour, width) {
    const {a, b} = edge, x0 = a.x + a.w / 2, y0 = a.y + a.h, x1 = b.x + b.w / 2, y1 = b.y;
    const near = y1 > y0 && y1 - y0 < 5.5 * GAP_Y;
    g.strokeStyle = g.fillStyle = colour;
    g.lineWidth = width;
    g.beginPath();
    if (near) {
        const half = (y1 - y0) / 2;
        g.moveTo(x0, y0);
        g.bezierCurveTo(x0, y0 + half, x1, y1 - half, x1, y1 - 4);
        g.stroke();
        arrow(g, x1, y1, 0);
    } else {
        g.setLineDash([6, 4]);
        if (a === edge.from && b === edge.to) besideRows(g, edge);
        else alongMargins(g, edge);
        g.setLineDash([]);
    }
    if (near && picture.view.z > 0.55 && a.what.i === undefined && edge.tensors.size > 0)
        drawEdgeText(picture, g, edge, (x0 + x1) / 2, (y0 + y1) / 2);
}

function arrow(g, x, y, right) {
    g.beginPath();
    g.moveTo(x - (right ? 7 : 4), y - (right ? 4 : 7));
    g.lineTo(x + (right ? -7 : 4), y + (right ? 4 : -7));
    g.lineTo(x, y);
    g.fill();
}

function besideRows(g, edge) {
    const {a, b} = edge, side = sideOf(edge), turn = 16, x1 = b.x + 14;
    g.moveTo(a.x + a.w / 2, a.y + a.h);
    g.bezierCurveTo(a.x + a.w / 2, a.y + a.h + turn, side, a.y + a.h + 2, side,
        a.y + a.h + turn + 8);
    g.lineTo(side, b.y - turn - 8);
    g.bezierCurveTo(side, b.y - 4, x1, b.y - turn, x1, b.y - 4);
    g.stroke();
    g.setLineDash([]);
    arrow(g, x1, b.y, 0);
}

function alongMargins(g, edge) {
    const {a, b, from, to} = edge, out = from.x + (a === from ? a.w / 2 : 9);
    const into = b === to ? b.x + 14 : to.x + 9, y0 = a.y + a.h / 2, y1 = b.y + b.h / 2;
    const bottom = from.y + from.h + 6;
    g.moveTo(a === from ? out : a.x, a === from ? bottom - 6 : y0);
    if (a !== from) g.quadraticCurveTo(out, y0, out, y0 + 12);
    g.lineTo(out, bottom);
    g.bezierCurveTo(out, bottom + 14, into, to.y - 20, into, to.y);
    if (b !== to) {
        g.lineTo(into, y1 - 12);
        g.quadraticCurveTo(into, y1, b.x - 4, y1);
    }
    g.stroke();
    g.setLineDash([]);
    arrow(g, b === to ? into : b.x, b === to ? b.y : y1, b === to ? 0 : 1);
}

function drawEdgeText(picture, g, edge, x, y) {
    const n = edge.tensors.size;
    g.font = "10.5px system-ui, sans-serif";
    g.textBaseline = "middle";
    drawText(g, n === 1 ? edge.spec : n + " tensors, " + amount(edge.bytes, "B"), x + 8, y, 220,
        picture.soft);
}

/* Left of all that stands between the ends. */
function sideOf({box, from, to}) {
    let side = Math.min(from.x, to.x);
    for (const kid of box.kids)
        if (kid.row > from.row && kid.row < to.row) side = Math.min(side, kid.x);
    return side - 11;
}
