/* Bands between ranks in the timeline, where the members of a collective exchange data. Bands of
   less than a few pixels are not drawn individually, as with ops: between two rows there is a strip
   of pixels, each as red as the share of its time that collectives fill. */

const JOIN_WIDE = 3, JOIN_MOST = 4000; /* maximum number of bands with an outline */
const JOIN_ALPHA = 0.45; /* of a pixel that is filled completely */
const JOIN_LEAST = 0.7;  /* narrower slanted bands are drawn this wide, but paler */

function drawJoins(picture, g, xOf, box) {
    const view = picture.view, perNs = picture.perNs, strips = new Map();
    if (picture.layout.ranks.every((rank) => !rank.full)) return; /* there is no space between
                                                                     ranks */
    const pixels = Math.round(box.width * box.density), scale = pixels / box.width;
    let left = JOIN_MOST;
    g.fillStyle = view.palette.dark ? "rgba(235, 90, 85, 0.30)" : "rgba(213, 58, 54, 0.17)";
    g.strokeStyle = "rgba(213, 58, 54, " + JOIN_ALPHA + ")";
    g.lineWidth = 0.7;
    const join = (a, b) => {
        const y0 = a.line.y + a.line.h - box.scroll, y1 = b.line.y - box.scroll;
        if (y1 < box.top || y0 > box.bottom || y1 - y0 < 2) return;
        const upright = Math.max(Math.abs(a.x0 - b.x0), Math.abs(a.x1 - b.x1)) < JOIN_WIDE;
        const wide = Math.max(a.x1 - a.x0, b.x1 - b.x0);
        if (wide < JOIN_WIDE && upright)
            addCover(stripBetween(strips, a.line, b.line, pixels),
                ((a.x0 + b.x0) / 2 - box.x) * scale, ((a.x1 + b.x1) / 2 - box.x) * scale);
        else if (left-- > 0) drawJoin(g, a, b, y0, y1, wide);
    };
    view.traces.forEach((trace, t) => {
        const where = linesOf(picture, trace, t), {places, s, e} = joinsByTime(trace);
        for (let k = firstAbove(e, view.t0); k < s.length && s[k] < view.t1; k++) {
            let before = null;
            for (const [r, i] of trace.joined[places[k]]) {
                const line = where[r] && where[r].lines[where[r].lane[i]];
                if (!line) continue;
                const x0 = xOf(where[r].start[i] + where[r].wait[i]), x1 = xOf(where[r].end[i]);
                const now = {line, x0, x1};
                if (before) join(before, now);
                before = now;
            }
        }
    });
    paintCover(picture, g, strips, box, pixels);
}

/* Per rank: its times, and the line of each of its lanes. */
function linesOf(picture, trace, t) {
    const out = [];
    for (const line of picture.layout.lines) {
        if (line.t !== t || !line.rows) continue;
        if (!out[line.r])
            out[line.r] = {...trace.span(line.r), wait: trace.column(line.r, "wait"),
                lane: trace.column(line.r, "lane"), lines: []};
        for (const row of line.rows) out[line.r].lines[row.lane] ||= line;
    }
    return out;
}

function drawJoin(g, a, b, y0, y1, wide) {
    g.beginPath();
    g.moveTo(a.x0, y0);
    g.lineTo(Math.max(a.x1, a.x0 + JOIN_LEAST), y0);
    g.lineTo(Math.max(b.x1, b.x0 + JOIN_LEAST), y1);
    g.lineTo(b.x0, y1);
    g.closePath();
    if (wide < JOIN_WIDE) {
        g.save();
        g.globalAlpha = Math.min(1, wide / JOIN_LEAST);
        g.fillStyle = g.strokeStyle;
        g.fill();
        g.restore();
    } else {
        g.fill();
        g.stroke();
    }
}

function stripBetween(strips, above, below, pixels) {
    if (!strips.has(above)) strips.set(above, new Map());
    const of = strips.get(above);
    if (!of.has(below)) of.set(below, new Float32Array(pixels));
    return of.get(below);
}

/* Adds to each pixel the share of it between x0 and x1. */
function addCover(cover, x0, x1) {
    const first = Math.max(0, Math.floor(x0));
    for (let p = first; p < x1 && p < cover.length; p++)
        cover[p] += Math.min(x1, p + 1) - Math.max(x0, p);
}

function paintCover(picture, g, strips, box, pixels) {
    if (strips.size === 0) return;
    const [red, green, blue] = channels(picture.view.palette.dark ? "#eb5a55" : "#d53a36");
    const row = picture.coverImage && picture.coverImage.width === pixels ? picture.coverImage
        : (picture.coverImage = new ImageData(pixels, 1));
    const out = new Uint32Array(row.data.buffer), canvas = picture.cover;
    canvas.width = pixels;
    canvas.height = 1;
    g.imageSmoothingEnabled = false;
    for (const [above, of] of strips)
        for (const [below, cover] of of) {
            for (let p = 0; p < pixels; p++)
                out[p] = red | green << 8 | blue << 16 |
                    Math.round(255 * JOIN_ALPHA * Math.min(1, cover[p])) << 24;
            canvas.getContext("2d").putImageData(row, 0, 0);
            const y = above.y + above.h - box.scroll;
            g.drawImage(canvas, 0, 0, pixels, 1, box.x, y, box.width, below.y - box.scroll - y);
        }
}
