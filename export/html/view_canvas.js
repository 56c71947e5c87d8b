/* Pixel strips, texts and shapes on a canvas. */

/* Adds the ops of one row to a strip of pixels. Each pixel's weight is the share of it that ops
   fill; its sums are their colours times these shares. */
function fillStrip(row, paint, pixel, strip, t0, perNs, faintWait) {
    const {width, weight, sums} = strip, {nodes, s, e, w} = row;
    const add = (p, colour, alpha, share) => {
        weight[p] += share;
        sums[4 * p] += (colour & 255) * share;
        sums[4 * p + 1] += (colour >> 8 & 255) * share;
        sums[4 * p + 2] += (colour >> 16 & 255) * share;
        sums[4 * p + 3] += alpha * share;
    };
    const t1 = t0 + width / perNs;
    for (let k = firstAbove(e, t0); k < nodes.length && s[k] < t1; k++) {
        const place = paint[nodes[k]], strength = place >= FAINT ? 1e-3 : 1;
        const x0 = Math.max(0, (s[k] - t0) * perNs), x1 = (e[k] - t0) * perNs;
        const p0 = Math.floor(x0), wide = x1 - x0;
        if (wide < 1.5) {
            if (p0 < width)
                add(p0, pixel[place], place >= FAINT ? 120 : 255, Math.max(wide, 0.02) * strength);
            continue;
        }
        const p1 = Math.min(width, Math.round(x1) - (wide > 4 ? 1 : 0));
        const waits = w[k] > s[k];
        const pw = waits ? Math.min(p1, Math.round((w[k] - t0) * perNs)) : p0;
        for (let p = p0; p < p1; p++)
            if (strength >= weight[p]) {
                weight[p] = sums[4 * p] = sums[4 * p + 1] = sums[4 * p + 2] = sums[4 * p + 3] = 0;
                add(p, pixel[p < pw ? WAIT + (place & FAINT | faintWait) : place], 255, strength);
            }
    }
}

/* Writes the mean colour of each pixel that has ops to out[base .. base + width - 1], and clears
   the strip. */
function settleStrip(strip) {
    const {out, base, width, weight, sums} = strip;
    for (let p = 0; p < width; p++) {
        if (weight[p] === 0) continue;
        const k = 4 * p, part = 1 / weight[p];
        out[base + p] = sums[k] * part + 0.5 | sums[k + 1] * part + 0.5 << 8 |
            sums[k + 2] * part + 0.5 << 16 | sums[k + 3] * part + 0.5 << 24;
    }
    weight.fill(0);
    sums.fill(0);
}

/* Formats a time with as many digits as the step needs. */
function axisText(ns, step) {
    const units = ["ns", "\u00b5s", "ms", "s"];
    const k = Math.max(0, Math.min(3, Math.floor(Math.log10(Math.max(Math.abs(ns), step)) / 3)));
    const digits = Math.max(0, -Math.floor(Math.log10(step) - 3 * k + 1e-9));
    return (ns / 1000 ** k).toFixed(digits) + " " + units[k];
}

/* Draws text truncated to a width; nothing if fewer than two letters fit. */
function drawText(g, text, x, y, room, colour) {
    if (room < 14) return;
    if (textWidth(g, text) > room) {
        let n = Math.min(text.length, Math.ceil(room / 4.5));
        while (n > 1 && textWidth(g, text.slice(0, n) + "\u2026") > room) n--;
        if (n < 2) return;
        text = text.slice(0, n) + "\u2026";
    }
    g.fillStyle = colour;
    g.fillText(text, x, y);
}

const textWidths = new Map();

function textWidth(g, text) {
    const key = g.font + text;
    let width = textWidths.get(key);
    if (width === undefined) {
        if (textWidths.size > 50000) textWidths.clear();
        textWidths.set(key, width = g.measureText(text).width);
    }
    return width;
}

function roundRect(g, x, y, w, h, r) {
    g.beginPath();
    g.roundRect(x, y, w, h, r);
}
