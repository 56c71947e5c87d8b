/* Colours of ops from a CSV file of the user. */

/* Reads a CSV with a heading: one of the columns op, label or id, and value (a number) or colour.
   Returns {name, by, values}: values maps a name to a number or to a colour. */
function readColours(text, name) {
    const [head = [], ...lines] = csvLines(text);
    const names = head.map((cell) => cell.trim().toLowerCase());
    const by = ["id", "label", "op"].find((key) => names.includes(key));
    const what = ["value", "colour", "color"].find((key) => names.includes(key));
    if (!by || !what) throw new Error("the CSV has the columns " + (names.join(", ") || "(none)") +
        "; needed are op, label or id, and value or colour");
    const values = new Map(), key = names.indexOf(by), at = names.indexOf(what);
    lines.forEach((line, k) => {
        const cell = (line[at] || "").trim();
        const value = what === "value" ? Number(cell) : hexColour(cell);
        if (cell === "" || value === null || Number.isNaN(value)) throw new Error("line " +
            (k + 2) + " has the " + what + " \"" + cell + "\", which is no " +
            (what === "value" ? "number" : "colour"));
        values.set((line[key] || "").trim(), value);
    });
    if (values.size === 0) throw new Error("the CSV has no lines below its heading");
    return {name, by, values, numbers: what === "value"};
}

/* Lines of cells. Cells may be quoted; the separator is a comma or, if the heading has none, a
   semicolon or tab. */
function csvLines(text) {
    const heading = text.slice(0, text.search(/[\r\n]|$/));
    const separator = [",", ";", "\t"].find((mark) => heading.includes(mark)) || ",";
    const lines = [], cell = new RegExp("(?:\"((?:[^\"]|\"\")*)\"|([^" + separator +
        "\r\n]*))(" + separator + "|\r?\n|\r|$)", "y");
    let line = [];
    text = text.replace(/^\ufeff/, "");
    while (cell.lastIndex < text.length) {
        const found = cell.exec(text);
        if (!found) throw new Error("the quotes of line " + (lines.length + 1) + " do not match");
        line.push(found[1] === undefined ? found[2] : found[1].replace(/""/g, "\""));
        if (found[3] === separator) continue;
        if (line.some((one) => one !== "")) lines.push(line);
        line = [];
    }
    return line.length > 0 ? [...lines, line] : lines;
}

/* "#rrggbb" for any colour of CSS; null: not a colour. */
function hexColour(text) {
    if (!CSS.supports("color", text)) return null;
    const g = document.createElement("canvas").getContext("2d");
    g.fillStyle = text;
    return /^#[0-9a-f]{6}$/.test(g.fillStyle) ? g.fillStyle : null;
}

/* The value of each node of a rank; undefined: not in the file. */
function csvValues(view, trace, r) {
    const {by, values} = view.csv;
    return trace.shared("csv", trace.key(r, "op", "label", "id") + (by === "id" ? "@" + r : ""),
        () => Array.from(trace.column(r, "op"), (_, i) => values.get(by === "id"
            ? trace.id(r, i) : trace.text(r, i, by))));
}

/* Colours of a rank's nodes: places of the palette. */
function csvPaint(trace, r) {
    const view = trace.view, {numbers, places, range} = view.csv;
    const values = csvValues(view, trace, r);
    return trace.shared("csv paint", values.id || (values.id = ++paintCount), () =>
        Uint8Array.from(values, (value) => value === undefined ? UNKNOWN
            : numbers ? linearPlace(value, range) : places.get(value)));
}

function linearPlace(value, {low, high}) {
    return RAMP + (high > low ? Math.round((RAMP_STEPS - 1) * (value - low) / (high - low)) : 0);
}

/* Calls each(name, lane) for each op; by: op, label or id. */
function eachName(view, by, each) {
    for (const trace of view.traces)
        trace.ranks.forEach((_, r) => trace.column(r, "lane").forEach((lane, i) =>
            each(by === "id" ? trace.id(r, i) : trace.text(r, i, by), lane)));
}

/* The number of ops that a file names. */
function countColoured(view, {by, values}) {
    let found = 0;
    eachName(view, by, (name) => { found += values.has(name) ? 1 : 0; });
    return found;
}

/* The message for a file that names no op of the trace, with names that it has. */
function noneColoured(view, {name, by, values}) {
    const names = new Set();
    eachName(view, by, (own, lane) => {
        if (lane > 0 && names.size < 3) names.add(own);
    });
    return name + " colours no op: the trace has no " + by + " \"" + [...values.keys()][0] +
        "\" but has, for example, " + [...names].join(", ") + ".";
}

/* Colours ops by a file that was read. Files with more colours than the palette has places for
   share the last one. */
function setColours(view, colours) {
    const found = countColoured(view, colours);
    if (found === 0) return view.say(noneColoured(view, colours));
    view.ask();
    const all = [...colours.values.values()], kinds = [...new Set(all)];
    view.csv = colours;
    if (colours.numbers) colours.range = all.reduce(({low, high}, v) =>
        ({low: Math.min(low, v), high: Math.max(high, v)}), {low: Infinity, high: -Infinity});
    else colours.places = new Map(kinds.map((colour, k) =>
        [colour, OWN + Math.min(k, OWN_MOST - 1)]));
    for (const trace of view.traces) trace.forget();
    view.offerColours();
    view.colour = "csv";
    view.setTheme(view.dark);
    view.say(colours.name + " colours " + plural(found, "op") + ".");
}

/* The legend of a file: a ramp with its range, or its colours with the names that have them. */
function csvLegend(view) {
    const {name, numbers, range, values, places} = view.csv;
    const rest = colourChip(view, UNKNOWN, "not in " + name);
    if (numbers) {
        const ramp = make("span", null, {class: "ramp"});
        ramp.style.background = "linear-gradient(to right, " + RAMP_STOPS.join(", ") + ")";
        return [make("span", String(range.low)), ramp, make("span", String(range.high)), rest];
    }
    return [...places].slice(0, 12).map(([colour, place]) => {
        const names = [...values].filter(([, own]) => own === colour).map(([key]) => key);
        return colourChip(view, place, names.slice(0, 3).join(", ") +
            (names.length > 3 ? " and " + (names.length - 3) + " more" : ""));
    }).concat([rest]);
}
