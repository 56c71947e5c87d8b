/* Colours: how an op is painted, the legend, and what is faint. A colour is an index into a
   palette: first categories, then waiting, then ramps. FAINT is added for faint ops. */

const CATEGORY_COLOURS = {
    other: "#8795a1", matmul: "#2f74d0", attention: "#8a56cc", norm: "#d9a400",
    elementwise: "#43a35f", reduction: "#1f9c9c", embedding: "#a4703f", "data movement": "#7d8fa8",
    view: "#b9c4ce", random: "#dd6fae", communication: "#d53a36",
};
const CATEGORY_NAMES = {
    matmul: "matrix product", attention: "attention, softmax", norm: "normalisation",
    elementwise: "element-wise", communication: "communication",
};
const WAIT = 15, RAMP = 16, RAMP_STEPS = 32, CHANGE = RAMP + RAMP_STEPS, UNKNOWN = 14, FAINT = 128;
const OWN = CHANGE + RAMP_STEPS, OWN_MOST = FAINT - OWN; /* colours of a CSV file */
const RAMP_STOPS = ["#3b2f7f", "#2f6fa8", "#2aa08a", "#8fc640", "#fbd724"]; /* dark to light */
const CHANGE_STOPS = ["#15803d", "#7fbf8f", "#c9ced4", "#f0a060", "#c2410c"]; /* less to more */

const METRICS = {
    category: {name: "kind of op"},
    time: {name: "time", unit: "s", scale: 1e-9},
    flops: {name: "flops", unit: "FLOP", scale: 1},
    bytes: {name: "bytes", unit: "B", scale: 1},
    intensity: {name: "flops per byte", unit: "FLOP/B", scale: 1},
    change: {name: "time difference", unit: "", scale: 1},
    csv: {name: "CSV file"},
};

function channels(hex) {
    return [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
}

function mix(a, b, t) {
    const x = channels(a), y = channels(b);
    return "#" +
        x.map((v, i) => Math.round(v + (y[i] - v) * t).toString(16).padStart(2, "0")).join("");
}

function along(stops, t) {
    const at = Math.min(t * (stops.length - 1), stops.length - 1.0001), i = Math.floor(at);
    return mix(stops[i], stops[i + 1], at - i);
}

/* css: as text; pixel: 32 bits for ImageData, without alpha; ink: colour of text on it. */
function makePalette(head, dark, csv) {
    const back = dark ? "#14181d" : "#ffffff", css = new Array(256).fill(back);
    head.categories.forEach((name, i) => { css[i] = CATEGORY_COLOURS[name] || "#8795a1"; });
    css[UNKNOWN] = dark ? "#4a5560" : "#c4ccd4";
    css[WAIT] = dark ? "#6b3534" : "#f3bcb8";
    for (let i = 0; i < RAMP_STEPS; i++) {
        css[RAMP + i] = along(RAMP_STOPS, i / (RAMP_STEPS - 1));
        css[CHANGE + i] = along(CHANGE_STOPS, i / (RAMP_STEPS - 1));
    }
    if (csv && csv.places) for (const [colour, place] of csv.places) css[place] = colour;
    for (let i = 0; i < FAINT; i++) css[FAINT + i] = mix(css[i], back, 0.82);
    const pixel = Uint32Array.from(css, (hex) => {
        const [r, g, b] = channels(hex);
        return r | g << 8 | b << 16;
    });
    const ink = css.map((hex, i) => {
        const [r, g, b] = channels(hex), light = 0.299 * r + 0.587 * g + 0.114 * b;
        return i >= FAINT ? (dark ? "#66717c" : "#a3adb7") : light > 150 ? "#10161c" : "#ffffff";
    });
    return {css, pixel, ink, back, dark};
}

/* A metric of all nodes of a rank; 0 for nodes that do not have it. */
function metricOf(trace, r, name) {
    const columns = {time: ["duration", "wait"], flops: ["flops"],
        bytes: ["read", "written", "comm_bytes"],
        intensity: ["flops", "read", "written"]}[name];
    const key = name === "time" ? trace.timeKey(r) : trace.key(r, ...columns);
    return trace.shared("metric " + name, key, () => {
        const [a, b, c] = columns.map((column) => trace.column(r, column));
        const out = new Float64Array(a.length);
        for (let i = 0; i < out.length; i++)
            out[i] = name === "time" ? a[i] - b[i]
                : name === "flops"   ? a[i]
                : name === "bytes"   ? c[i] || a[i] + b[i]
                : b[i] + c[i] > 0    ? a[i] / (b[i] + c[i])
                                     : 0;
        if (name === "time") leaveCalled(trace, r, out);
        return out;
    });
}

/* Subtracts from the time of host ops the time of the ops that they called. */
function leaveCalled(trace, r, times) {
    const duration = trace.column(r, "duration");
    for (const {nodes, callers} of rowsOf(trace, r))
        for (let k = 0; callers && k < nodes.length; k++)
            if (callers[k] >= 0)
                times[callers[k]] = Math.max(0, times[callers[k]] - duration[nodes[k]]);
}

/* The total time of nodes of a rank. Host and device run concurrently, so their times are never
   added to each other. */
function timesOf(trace, r, nodes) {
    const time = metricOf(trace, r, "time"), lane = trace.column(r, "lane"), out = {};
    const hosts = hostLanes(trace, r);
    for (const i of nodes) {
        const where = hosts[lane[i]] ? "host" : "device";
        if (lane[i] > 0) out[where] = (out[where] || 0) + time[i];
    }
    return out;
}

/* [name, text] pairs for the result of timesOf; a single pair if the rank has no host threads. */
function timeTexts(trace, r, {host, device}) {
    if (!hostLanes(trace, r).includes(true)) return [["op time", duration(device || 0)]];
    return [["host", host], ["device", device]].filter(([, ns]) => ns !== undefined)
        .map(([where, ns]) => [where, duration(ns)]);
}

/* The smallest and the largest nonzero value of a metric over all ranks. */
function metricRange(trace, name) {
    return trace.shared("range", name, () => {
        let low = Infinity, high = 0;
        for (const values of new Set(trace.ranks.map((_, r) => metricOf(trace, r, name))))
            for (const v of values)
                if (v > 0) {
                    if (v < low) low = v;
                    if (v > high) high = v;
                }
        return high > 0 ? {low, high} : {low: 1, high: 1};
    });
}

function rampPlace(value, range) {
    const all = Math.log(range.high / range.low);
    if (!(value > 0)) return UNKNOWN;
    return RAMP + (all > 0 ? Math.round((RAMP_STEPS - 1) * Math.log(value / range.low) / all) : 0);
}

/* The colour for a ratio of times: one half and below is one end of the ramp, two and above the
   other. */
function changePlace(ratio) {
    if (!(ratio > 0)) return UNKNOWN;
    const t = Math.max(-1, Math.min(1, Math.log2(ratio)));
    return CHANGE + Math.round((RAMP_STEPS - 1) * (t + 1) / 2);
}

/* Colours of a rank's nodes before some are made faint. */
function plainPaint(trace, r, mode) {
    if (mode === "category") return trace.column(r, "category");
    if (mode === "change") return changePaint(trace, r);
    if (mode === "csv") return csvPaint(trace, r);
    const values = metricOf(trace, r, mode), range = metricRange(trace, mode);
    return trace.shared("paint " + mode, values.id || (values.id = ++paintCount), () =>
        Uint8Array.from(values, (v) => rampPlace(v, range)));
}
let paintCount = 0;

/* The nodes that are faint: kinds that the legend hides, and everything except hits or the critical
   path, if these are shown. */
function faintOf(trace, r, view) {
    const marks = view.critical ? view.criticalOf(trace).on[r] : null;
    const hits = view.hits ? view.hits.of(trace, r) : null;
    if (!marks && !hits && view.hidden.size === 0) return null;
    const category = trace.column(r, "category"), names = trace.head.categories;
    const hidden = names.map((name) => view.hidden.has(name));
    const key =
        [trace.key(r, "category"), hits ? hits.key : "", marks ? r : "", view.version].join();
    return trace.shared("faint", key, () => {
        const out = new Uint8Array(category.length);
        for (let i = 0; i < out.length; i++)
            if (hidden[category[i]] || marks && !marks[i] || hits && !hits.on[i]) out[i] = FAINT;
        return out;
    });
}

/* The colours of a rank's nodes; ranks that look alike share the array. */
function paintOf(trace, r, view) {
    const plain = plainPaint(trace, r, view.colour), faint = faintOf(trace, r, view);
    if (!faint) return plain;
    plain.id = plain.id || ++paintCount;
    faint.id = faint.id || ++paintCount;
    return trace.shared("painted", plain.id + "," + faint.id, () =>
        plain.map((colour, i) => colour | faint[i]));
}

/* ---- Formatting of amounts ---- */

function plural(n, word) {
    return n.toLocaleString("en") + " " + word + (n === 1 ? "" : "s");
}

/* Bytes in powers of 1024, as in pictures and reports; everything else in powers of 1000. */
function amount(value, unit) {
    const binary = unit === "B", base = binary ? 1024 : 1000;
    const prefixes = ["", binary ? "Ki" : "k", ..."MGTPE"].map(
        (prefix, i) => binary && i > 1 ? prefix + "i" : prefix);
    let i = 0;
    for (; value >= base - 0.5 && i + 1 < prefixes.length; i++) value /= base;
    const digits = value < 100 ? Number(value.toPrecision(3)) : Math.round(value);
    return digits + " " + prefixes[i] + unit;
}

function duration(ns) {
    const units = ["ns", "\u00b5s", "ms", "s"];
    let i = 0, v = Math.abs(ns);
    for (; v >= 999.5 && i < 3; i++) v /= 1000;
    return (ns < 0 ? "-" : "") + Number(v.toPrecision(v < 999.5 ? 3 : 6)) + " " + units[i];
}

function metricText(value, mode) {
    return mode === "time" ? duration(value) : amount(value, METRICS[mode].unit);
}
