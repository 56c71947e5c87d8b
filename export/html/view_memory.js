/* The memory curve of a rank below the timeline. A storage counts from the start of the op that
   first writes it to the end of the last op that reads it; parameters, inputs and tensors that live
   across steps count to the end. Chrome traces have the same curve (chrome_counters.h). */

const INPUT = 2, STATE = 4; /* bits of tensor_flags */

/* The allocated bytes of a rank after each change: {ns, bytes, peak, at}, or null if the trace has
   no sizes of tensors. at: the time of the peak. */
function memoryOf(trace, r) {
    const key = trace.timeKey(r) +
        trace.key(r, "uses", "tensor_bytes", "tensor_flags", "tensor_base");
    return trace.shared("memory", key, () => {
        const bytes = trace.column(r, "tensor_bytes");
        return bytes.some((n) => n > 0) ? sumChanges(storageChanges(trace, r, bytes)) : null;
    });
}

/* Times at which bytes are allocated or freed, and these bytes. */
function storageChanges(trace, r, bytes) {
    const {begin, last} = storageLives(trace, r), flags = trace.column(r, "tensor_flags");
    const base = trace.column(r, "tensor_base"), {producer} = trace.uses(r);
    const times = [], amounts = [];
    for (let t = 0; t < bytes.length; t++) {
        if (base[t] !== 0 || !(bytes[t] > 0)) continue;
        const made = producer[t] >= 0 && begin[t] < Infinity;
        times.push(made ? begin[t] : 0);
        amounts.push(bytes[t]);
        const stays = flags[t] & (PARAMETER | INPUT | STATE);
        if (stays || last[t] < (made ? begin[t] : 0)) continue;
        times.push(last[t]);
        amounts.push(-bytes[t]);
    }
    return {times, amounts};
}

/* Per storage: the start of the first op that writes it, and the end of the last op that reads
   it. */
function storageLives(trace, r) {
    const {first, split, tensors} = trace.uses(r), {start, end} = trace.span(r);
    const lane = trace.column(r, "lane"), base = trace.column(r, "tensor_base");
    const begin = new Float64Array(base.length).fill(Infinity);
    const last = new Float64Array(base.length).fill(-1);
    for (let i = 0; i < lane.length; i++) {
        if (lane[i] === 0) continue;
        for (let k = first[i]; k < first[i + 1]; k++) {
            const storage = tensors[k] - base[tensors[k]];
            if (k < split[i]) last[storage] = Math.max(last[storage], end[i]);
            else begin[storage] = Math.min(begin[storage], start[i]);
        }
    }
    return {begin, last};
}

function sumChanges({times, amounts}) {
    const ns = Float64Array.from(times).sort().filter((time, k, all) => time !== all[k - 1]);
    const bytes = new Float64Array(ns.length);
    times.forEach((time, k) => { bytes[firstAbove(ns, time) - 1] += amounts[k]; });
    let sum = 0, peak = 0, at = 0;
    for (let k = 0; k < ns.length; k++) {
        bytes[k] = sum += bytes[k];
        if (sum > peak) [peak, at] = [sum, ns[k]];
    }
    return {ns, bytes, peak, at};
}

/* The bytes at a time, and the most bytes between two times. */
function bytesAt({ns, bytes}, time) {
    const k = firstAbove(ns, time) - 1;
    return k >= 0 ? bytes[k] : 0;
}

function mostBetween(curve, from, to) {
    let most = bytesAt(curve, from);
    for (let k = firstAbove(curve.ns, from); k < curve.ns.length && curve.ns[k] < to; k++)
        if (curve.bytes[k] > most) most = curve.bytes[k];
    return most;
}

/* ---- On the screen ---- */

/* The rank whose curve is shown: {t, r}. */
function memoryRank(view) {
    const {t, r} = view.memoryAt, trace = view.traces[t];
    return trace && trace.ranks[r] ? {trace, t, r} : {trace: view.traces[0], t: 0, r: 0};
}

function hasMemory(view) {
    const [trace] = view.traces;
    return view.clock !== "order" && trace.shared("sized", "", () =>
        trace.column(0, "tensor_bytes").some((n) => n > 0));
}

/* Draws the curve; for the first time after the first picture, because it takes longer. */
function showMemory(view) {
    const canvas = document.getElementById("memory");
    if (canvas.clientHeight === 0) return;
    if (view.drawMs !== undefined)
        return view.onCanvas(canvas, (g, w, h) => drawMemory(view, g, w, h));
    setTimeout(() => showMemory(view), 0);
}

/* Shows the curve of the next rank. */
function nextMemory(view, by = 1) {
    const ranks = view.traces.flatMap((trace, t) => trace.ranks.map((_, r) => ({t, r})));
    const {t, r} = memoryRank(view), k = ranks.findIndex((at) => at.t === t && at.r === r);
    view.memoryAt = ranks[(k + by + ranks.length) % ranks.length];
    const at = memoryRank(view), curve = memoryOf(at.trace, at.r);
    if (curve) view.speak(memoryText(view, at, curve));
    view.redraw();
}

function memoryText(view, {trace, t, r}, curve) {
    return rankName(view, t, trace.ranks[r].rank) + ": peak " + amount(curve.peak, "B") + " at " +
        duration(curve.at);
}

function drawMemory(view, g, width, height) {
    const at = memoryRank(view), curve = memoryOf(at.trace, at.r), dark = view.palette.dark;
    const soft = dark ? "#9aa8b5" : "#5c6b78", wide = width - GUTTER;
    g.fillStyle = view.palette.back;
    g.fillRect(0, 0, width, height);
    g.fillStyle = dark ? "#1c2229" : "#f6f8fa";
    g.fillRect(0, 0, GUTTER - 1, height);
    g.font = "11px system-ui, sans-serif";
    g.textAlign = "left";
    g.textBaseline = "middle";
    drawText(g, "memory, " + rankName(view, at.t, at.trace.ranks[at.r].rank), 8, 14, GUTTER - 14,
        soft);
    if (!curve) return drawText(g, "no sizes of tensors", GUTTER + 8, height / 2, wide, soft);
    drawText(g, "peak " + amount(curve.peak, "B"), 8, 31, GUTTER - 14, soft);
    const perNs = wide / (view.t1 - view.t0), top = 14, floor = height - 1;
    const yOf = (bytes) => floor - (floor - top) * bytes / (curve.peak || 1);
    g.save();
    g.beginPath();
    g.rect(GUTTER, 0, wide, height);
    g.clip();
    g.fillStyle = dark ? "#2c4a6b" : "#c8dcf5";
    for (let x = 0, from = 0, last = 0; x <= wide; x++) { /* a rectangle per run of equal height */
        const most = x < wide
            ? mostBetween(curve, view.t0 + x / perNs, view.t0 + (x + 1) / perNs) : -1;
        if (most === last) continue;
        g.fillRect(GUTTER + from, yOf(last), x - from, floor - yOf(last));
        [from, last] = [x, most];
    }
    const peakX = GUTTER + (curve.at - view.t0) * perNs;
    g.fillStyle = "#d53a36";
    g.fillRect(peakX - 1, top - 3, 2, floor - top + 3);
    const text = amount(curve.peak, "B"), left = peakX + 6 + textWidth(g, text) > width;
    g.textAlign = left ? "right" : "left";
    g.fillStyle = dark ? "#e4eaf0" : "#1d2730";
    if (peakX > GUTTER - 1 && peakX < width) g.fillText(text, peakX + (left ? -5 : 5), 8);
    drawCursor(view, g, curve, {height, perNs, yOf, width});
    g.restore();
}

/* The vertical line under the mouse, in the timeline and here, and the bytes at it. */
function drawCursor(view, g, curve, {height, perNs, yOf, width}) {
    const x = view.cursor, dark = view.palette.dark;
    if (!(x >= GUTTER) || view.paper) return;
    const time = view.t0 + (x - GUTTER) / perNs, bytes = bytesAt(curve, time);
    const text = amount(bytes, "B"), left = x + 8 + textWidth(g, text) > width;
    g.fillStyle = dark ? "#e4eaf0" : "#1d2730";
    g.fillRect(x, 0, 1, height);
    g.fillRect(x - 2, yOf(bytes) - 2, 5, 5);
    g.textAlign = left ? "right" : "left";
    g.fillStyle = view.palette.back;
    const wide = textWidth(g, text) + 6, y = height - 10;
    g.fillRect(left ? x - 2 - wide : x + 3, y - 7, wide, 14);
    g.fillStyle = dark ? "#e4eaf0" : "#1d2730";
    g.fillText(text, left ? x - 5 : x + 6, y);
}

function listenMemory(view) {
    const canvas = document.getElementById("memory");
    canvas.addEventListener("pointermove", (event) => {
        const [x, y] = pointOn(canvas, event), at = memoryRank(view);
        const curve = memoryOf(at.trace, at.r);
        moveCursor(view, x);
        if (!curve || x < GUTTER) return showTip(view, null);
        const time = view.t0 +
            (x - GUTTER) / (canvas.clientWidth - GUTTER) * (view.t1 - view.t0);
        showTip(view, {name: rankName(view, at.t, at.trace.ranks[at.r].rank), facts: [
            ["time", duration(time)], ["allocated", amount(bytesAt(curve, time), "B")],
            ["peak", amount(curve.peak, "B") + " at " + duration(curve.at)]]},
        x, y + canvas.offsetTop);
    });
    canvas.addEventListener("pointerleave", () => {
        moveCursor(view, -1);
        showTip(view, null);
    });
    canvas.addEventListener("click", () => nextMemory(view));
    canvas.addEventListener("wheel", (event) => wheel(view, event), {passive: false});
}

function moveCursor(view, x) {
    if (x === view.cursor || view.memoryFrame) return;
    view.memoryFrame = requestAnimationFrame(() => {
        view.memoryFrame = 0;
        view.cursor = x;
        showMemory(view);
    });
}
