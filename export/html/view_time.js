/* The timeline: time runs to the right, ranks are below each other. Ops narrower than a pixel are
   not drawn individually: a row is a strip of pixels, each in the mean colour of its ops, weighted
   by time. Identical ranks share their strip. */

const GUTTER = 118, AXIS = 24;
const BAND_H = 15, LANE_H = 24, HOST_H = 17, RANK_GAP = 9;

/* Lines of the screen from top to bottom, {y, h, trace, r, row | band | rows}; total: their height.
   Ranks are drawn lane by lane if that fits or the user requests it. */
function timeLayout(view, height) {
    const lines = [], ranks = [];
    view.traces.forEach((trace, t) => trace.ranks.forEach((_, r) => ranks.push([trace, t, r])));
    const full = ([trace, t, r]) => {
        const own = view.open.get(t + "." + trace.ranks[r].rank);
        return own !== undefined ? own : view.lanes;
    };
    const short = ranks.filter((at) => !full(at)).length;
    let y = AXIS;
    if (short > 1) {
        const [trace, t, r] = ranks.find((at) => !full(at));
        y = addBands(lines, bandsOf(trace, r).slice(0, 2), {trace, t, r}, y + 2) + 2;
    }
    const room = Math.max(5, Math.min(42, (height - y) / Math.max(1, ranks.length)));
    const lane = Math.max(LANE_H, Math.min(52, (height - AXIS) / ranks.length / 5));
    ranks.forEach((at, place) => {
        const [trace, t, r] = at, top = y, open = full(at);
        if (open) {
            const bands = bandsOf(trace, r);
            y = addBands(lines, bands, {trace, t, r}, y + RANK_GAP / 2);
            if (bands.length === 0) y += BAND_H; /* space for the rank's name */
            for (const {rows, name} of tracksOf(view, trace, r)) {
                const [row] = rows, h = name ? LANE_H : row.host ? HOST_H : lane;
                lines.push({y, h, trace, t, r, row, rows, name, short: name !== undefined});
                y += h + 2;
            }
            y += RANK_GAP / 2;
        } else {
            y += room;
            const from = Math.round(top),
                  h = Math.max(2, Math.round(y) - from - (room > 4 ? 1 : 0));
            lines.push({y: from, h, trace, t, r, rows: rowsOf(trace, r), short: true});
        }
        const name = rankName(view, t, trace.ranks[r].rank);
        ranks[place] = {trace, t, r, name, y: top, h: y - top, full: open};
    });
    return {lines, ranks, total: y};
}

function addBands(lines, bands, of, y) {
    bands.forEach((band, depth) => {
        lines.push({y, h: BAND_H, ...of, band, depth});
        y += BAND_H + 1;
    });
    return y;
}

function rankName(view, t, rank) {
    return (view.traces.length > 1 ? "AB"[t] + " " : "") + "rank " + rank;
}

class TimePicture {
    constructor(view) {
        this.view = view;
        this.strips = document.createElement("canvas");
        this.cover = document.createElement("canvas"); /* for joins */
        this.weight = this.sums = new Float32Array(0);
    }

    /* Draws the rows of `lines` between t0 and t1 that are visible between `top` and `bottom`. */
    drawStrips(g, lines, box, t0, perNs, palette) {
        const {x, width, top, bottom, scroll} = box, density = box.density;
        const shown = lines.filter((l) => l.rows && l.rows.length > 0 && l.y - scroll < bottom &&
                l.y + l.h - scroll > top);
        const pixels = Math.round(width * density), known = new Map();
        if (shown.length === 0 || pixels < 1) return shown;
        if (this.strips.width !== pixels || this.strips.height < shown.length) {
            this.strips.width = pixels;
            this.strips.height = shown.length;
            this.image = this.strips.getContext("2d").createImageData(pixels, shown.length);
            this.weight = new Float32Array(pixels);
            this.sums = new Float32Array(4 * pixels);
        }
        const out = new Uint32Array(this.image.data.buffer);
        out.fill(0);
        let n = 0;
        for (const line of shown) {
            const paint = paintOf(line.trace, line.r, this.view);
            let of = known.get(line.rows[0]);
            if (!of) known.set(line.rows[0], of = new Map());
            line.strip = of.get(paint);
            if (line.strip !== undefined) continue;
            of.set(paint, line.strip = n++);
            const strip = {out, base: line.strip * pixels, width: pixels, weight: this.weight,
                sums: this.sums};
            let before = null;
            for (const row of line.rows) {
                /* called ops are drawn over their callers, and the device over the host */
                if (row.callers || before && before.host) settleStrip(strip);
                before = row;
                fillStrip(row, paint, palette.pixel, strip, t0, perNs * density,
                    this.view.critical ? FAINT : 0);
            }
            settleStrip(strip);
        }
        this.strips.getContext("2d").putImageData(this.image, 0, 0, 0, 0, pixels, n);
        g.imageSmoothingEnabled = false;
        for (const line of shown)
            g.drawImage(this.strips, 0, line.strip, pixels, 1, x, line.y - scroll, width, line.h);
        return shown;
    }

    draw(g, width, height, density) {
        const view = this.view, palette = view.palette;
        this.layout = timeLayout(view, height);
        view.scroll = Math.max(0, Math.min(view.scroll, this.layout.total - height));
        const perNs = (width - GUTTER) / (view.t1 - view.t0);
        const xOf = (ns) => GUTTER + (ns - view.t0) * perNs;
        const box = {x: GUTTER, width: width - GUTTER, top: AXIS, bottom: height,
            scroll: view.scroll, density};
        this.perNs = perNs;
        g.fillStyle = palette.back;
        g.fillRect(0, 0, width, height);
        g.save();
        g.beginPath();
        g.rect(GUTTER, AXIS, width - GUTTER, height - AXIS);
        g.clip();
        const shown = this.drawStrips(g, this.layout.lines, box, view.t0, perNs, palette);
        this.drawBands(g, xOf, box);
        drawJoins(this, g, xOf, box);
        this.drawLabels(g, shown, xOf, box);
        this.drawSelection(g, xOf, box);
        drawArea(view, g, xOf, box);
        drawNotes(view, g, box);
        g.restore();
        this.drawAxis(g, width, height, xOf);
        this.drawGutter(g, height);
    }

    inside(line, box) {
        return line.y - box.scroll < box.bottom && line.y + line.h - box.scroll > box.top;
    }

    drawBands(g, xOf, box) {
        const palette = this.view.palette, dark = palette.dark;
        g.font = "11px system-ui, sans-serif";
        g.textBaseline = "middle";
        g.textAlign = "left";
        for (const line of this.layout.lines) {
            if (!line.band || !this.inside(line, box)) continue;
            const {s, e, texts} = line.band, y = line.y - box.scroll;
            const t1 = this.view.t1;
            let free = -1;
            for (let k = firstAbove(e, this.view.t0); k < s.length && s[k] < t1; k++) {
                const x0 = Math.max(xOf(s[k]), GUTTER), x1 = Math.min(xOf(e[k]), box.x + box.width);
                if (x1 < free + 1 || texts[k] === "") continue;
                free = x1;
                g.fillStyle = dark ? ["#3a4652", "#2d3742", "#232c35"][line.depth]
                    : ["#c9d4de", "#dde5ec", "#ebf0f4"][line.depth];
                g.fillRect(x0, y, Math.max(x1 - x0 - 1, 0.5), line.h);
                drawText(g, texts[k], x0 + 4, y + line.h / 2 + 0.5, x1 - x0 - 8,
                    dark ? "#d3dce4" : "#26323c");
            }
        }
    }

    drawLabels(g, shown, xOf, box) {
        const palette = this.view.palette;
        g.font = "11px system-ui, sans-serif";
        g.textBaseline = "middle";
        g.textAlign = "left";
        for (const line of shown) {
            if (line.h < 12) continue;
            const paint = paintOf(line.trace, line.r, this.view);
            for (const row of line.rows) {
                if (line.short && row.host) continue; /* texts of callers would overlap the texts of
                                                         called ops */
                const least = 26 / this.perNs;
                for (let k = firstAbove(row.e, this.view.t0); k < row.s.length; k++) {
                    if (row.s[k] > this.view.t1) break;
                    if (row.e[k] - row.s[k] < least) continue;
                    const x0 = Math.max(xOf(Math.max(row.s[k], row.w[k])), GUTTER);
                    const x1 = Math.min(xOf(row.e[k]), box.x + box.width), i = row.nodes[k];
                    drawText(g, line.trace.text(line.r, i, "label"), x0 + 4,
                        line.y - box.scroll + line.h / 2 + 0.5, x1 - x0 - 7, palette.ink[paint[i]]);
                }
            }
        }
    }

    /* The rectangle of an op, {x0, x1, y, h}, or null. */
    placeOf(at) {
        const lane = at.trace.column(at.r, "lane")[at.i];
        if (lane === 0) return null;
        const {start, end} = at.trace.span(at.r);
        for (const line of this.layout.lines) {
            if (line.trace !== at.trace || line.r !== at.r || !line.rows) continue;
            for (const row of line.rows) {
                const k = firstAbove(row.e, start[at.i]);
                if (row.nodes[k] !== at.i && row.nodes.indexOf(at.i) < 0) continue;
                const xOf = (ns) => GUTTER + (ns - this.view.t0) * this.perNs;
                return {
                    x0: xOf(start[at.i]),
                    x1: xOf(end[at.i]),
                    y: line.y - this.view.scroll,
                    h: line.h
                };
            }
        }
        return null;
    }

    drawSelection(g, xOf, box) {
        const at = this.view.selected;
        if (!at) return;
        const here = this.placeOf(at);
        if (!here) return;
        const mark = this.view.palette.dark ? "#6cb0ff" : "#1f6feb";
        const line = (other, colour, from) => {
            const there = this.placeOf(other);
            if (!there) return;
            const a = from ? there : here, b = from ? here : there;
            g.strokeStyle = colour;
            g.lineWidth = 1.4;
            g.beginPath();
            const ya = a.y + a.h / 2, yb = b.y + b.h / 2,
                  bend = Math.max(14, Math.abs(b.x0 - a.x1) / 3);
            g.moveTo(a.x1, ya);
            g.bezierCurveTo(a.x1 + bend, ya + (ya === yb ? -26 : 0), b.x0 - bend,
                yb + (ya === yb ? -26 : 0), b.x0, yb);
            g.stroke();
            g.fillStyle = colour;
            g.beginPath();
            g.arc(b.x0, yb, 3, 0, 7);
            g.fill();
        };
        for (const other of sourcesOf(at)) line(other, "#d08700", true);
        for (const other of usersOf(at)) line(other, "#158a6f", false);
        g.strokeStyle = mark;
        g.lineWidth = 2;
        g.strokeRect(here.x0 - 1, here.y - 1, Math.max(3, here.x1 - here.x0) + 1, here.h + 2);
    }

    drawAxis(g, width, height, xOf) {
        const view = this.view, dark = view.palette.dark, span = view.t1 - view.t0;
        const raw = span / Math.max(2, (width - GUTTER) / 110),
              ten = 10 ** Math.floor(Math.log10(raw));
        const step = [1, 2, 5, 10].map((m) => m * ten).find((v) => v >= raw);
        g.fillStyle = dark ? "#1c2229" : "#f6f8fa";
        g.fillRect(0, 0, width, AXIS);
        g.font = "11px system-ui, sans-serif";
        g.textBaseline = "middle";
        g.textAlign = "center";
        for (let t = Math.ceil(view.t0 / step) * step; t <= view.t1; t += step) {
            const x = xOf(t);
            g.fillStyle = dark ? "rgba(255, 255, 255, 0.07)" : "rgba(0, 0, 0, 0.06)";
            g.fillRect(x, AXIS, 1, height - AXIS);
            g.fillStyle = dark ? "#9aa8b5" : "#5c6b78";
            g.fillRect(x, AXIS - 4, 1, 4);
            if (x > GUTTER + 20 && x < width - 20)
                g.fillText(view.clock === "order" ? String(Math.round(t / 1000))
                    : axisText(t, step), x, AXIS / 2 - 1);
        }
        g.textAlign = "left";
        g.fillText(
            view.clock === "order" ? "order" : "time (" + view.clock + ")", 10, AXIS / 2 - 1);
        g.fillRect(0, AXIS - 0.5, width, 1);
    }

    drawGutter(g, height) {
        const view = this.view, dark = view.palette.dark;
        g.save();
        g.beginPath();
        g.rect(0, AXIS, GUTTER, height - AXIS);
        g.clip();
        g.fillStyle = dark ? "#1c2229" : "#f6f8fa";
        g.fillRect(0, AXIS, GUTTER, height - AXIS);
        g.textBaseline = "middle";
        let free = AXIS - 3;
        for (const rank of this.layout.ranks) {
            const y = rank.y - view.scroll;
            if (y > height || y + rank.h < AXIS) continue;
            g.fillStyle = dark ? "#343d47" : "#d5dbe1";
            if (rank.full || rank.h > 10) g.fillRect(0, y + rank.h - 0.5, GUTTER, 1);
            const middle = rank.full ? y + RANK_GAP / 2 + BAND_H / 2 : y + rank.h / 2;
            if (middle - 6 < free) continue;
            free = middle + 6;
            g.fillStyle = dark ? "#e4eaf0" : "#1d2730";
            g.font = "600 12px system-ui, sans-serif";
            g.fillText((rank.full ? "\u25be " : "\u25b8 ") + rank.name, 8, middle);
        }
        g.font = "11px system-ui, sans-serif";
        g.fillStyle = dark ? "#9aa8b5" : "#5c6b78";
        let before = null;
        for (const line of this.layout.lines) {
            if (!line.row || before === line.trace + line.row.name + line.r) continue;
            before = line.trace + line.row.name + line.r;
            drawText(g, line.name ? "\u25b8 " + line.name : line.row.name, 22,
                line.y - view.scroll + line.h / 2, GUTTER - 28, g.fillStyle);
        }
        g.restore();
        g.fillStyle = dark ? "#343d47" : "#d5dbe1";
        g.fillRect(GUTTER - 1, 0, 1, height);
    }

    /* The op at a point of the canvas, or null. */
    find(x, y) {
        if (x < GUTTER || y < AXIS) return null;
        const t = this.view.t0 + (x - GUTTER) / this.perNs, slack = 2 / this.perNs;
        const at = y + this.view.scroll;
        const line = this.layout.lines.find((l) => l.rows && at >= l.y && at <= l.y + l.h);
        if (!line) return null;
        let best = null, distance = slack;
        for (const row of line.rows) {
            for (let k = Math.max(0, firstAbove(row.e, t - slack)); k < row.s.length; k++) {
                if (row.s[k] > t + slack) break;
                const off = Math.max(row.s[k] - t, t - row.e[k], 0);
                if (off < distance || off === 0) {
                    best = {trace: line.trace, t: line.t, r: line.r, i: row.nodes[k]};
                    distance = off;
                }
            }
        }
        return best;
    }

    rankAt(x, y) {
        const at = y + this.view.scroll;
        return x < GUTTER ? this.layout.ranks.find((k) => at >= k.y && at <= k.y + k.h) || null
                          : null;
    }

    /* The folded threads whose name is at a point, or null. */
    threadsAt(x, y) {
        const at = y + this.view.scroll;
        return x < GUTTER && this.layout.lines.find((line) =>
            line.name && at >= line.y && at <= line.y + line.h) || null;
    }

    /* Draws all ranks over the whole time, for the overview. */
    drawOverview(g, width, height, density) {
        const view = this.view, lines = [];
        const n = view.traces.reduce((sum, trace) => sum + trace.ranks.length, 0), h = height / n;
        view.traces.forEach((trace, t) => trace.ranks.forEach((_, r) => {
            const y = Math.floor(lines.length * h), next = Math.floor((lines.length + 1) * h);
            lines.push({y, h: Math.max(1, next - y - (h > 4 ? 1 : 0)), trace, t, r,
                rows: rowsOf(trace, r), short: true});
        }));
        g.fillStyle = view.palette.back;
        g.fillRect(0, 0, width, height);
        const box = {x: GUTTER, width: width - GUTTER, top: 0, bottom: height, scroll: 0, density};
        this.drawStrips(
            g, lines, box, view.begin, (width - GUTTER) / (view.end - view.begin), view.palette);
    }
}
