/* Texts next to the picture: legend, tooltip, and details of the selected op. Names are inserted as
   text nodes only. */

function make(tag, text, attributes = {}) {
    const element = document.createElement(tag);
    if (text !== undefined && text !== null) element.textContent = text;
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    return element;
}

function fill(element, ...children) {
    element.replaceChildren(...children);
    return element;
}

/* ---- Legend ---- */

function showLegend(view) {
    const box = document.getElementById("legend"), palette = view.palette;
    const chips = [];
    if (view.colour === "category") {
        view.categories.forEach(([name, place]) => {
            const off = view.hidden.has(name);
            const chip = make("button", null, {class: off ? "chip off" : "chip",
                "aria-pressed": String(!off), title:
                "click: show or hide; double click or Shift: show only this kind"});
            const sample = make("i");
            sample.style.background = palette.css[place];
            chip.append(sample, CATEGORY_NAMES[name] || name);
            chip.onclick = (event) => event.shiftKey ? view.onlyCategory(name)
                : view.toggleCategory(name);
            chip.ondblclick = () => view.onlyCategory(name);
            chips.push(chip);
        });
    } else if (view.colour === "csv") {
        chips.push(...csvLegend(view));
    } else {
        chips.push(...rampLegend(view));
    }
    if (view.mode === "time" && view.waits)
        chips.push(colourChip(view, WAIT, "waiting for other ranks"));
    if (view.mode === "graph") chips.push(...linesLegend(view));
    chips.push(make("span", view.mode === "graph"
        ? "wheel: zoom \u00b7 click: open \u00b7 ?: keys"
        : "wheel: zoom \u00b7 drag: move \u00b7 ?: keys", {class: "hint"}));
    fill(box, ...chips);
}

function colourChip(view, place, text) {
    const chip = make("span", null, {class: "chip"}), sample = make("i");
    sample.style.background = view.palette.css[place];
    chip.append(sample, text);
    return chip;
}

/* The meaning of the lines between forward and backward, if there are any. */
function linesLegend(view) {
    const {parts = []} = view.modes.graph.picture, out = [];
    const add = (name, text) => {
        const chip = make("span", null, {class: "chip"});
        chip.append(make("i", null, {class: "line " + name}), text);
        out.push(chip);
    };
    if (parts.some(({edges}) => edges.some(isAcross))) add("kept", "saved for backward");
    if (parts.some(({pairs}) => pairs.some(isBeside))) add("pair", "tp_enter and its all_reduce");
    return out;
}

function rampLegend(view) {
    const change = view.colour === "change", ramp = make("span", null, {class: "ramp"});
    const stops = change ? CHANGE_STOPS : RAMP_STOPS;
    ramp.style.background = "linear-gradient(to right, " + stops.join(", ") + ")";
    if (change) return [make("span", "half the time or less"), ramp, make("span", "double or more"),
        make("span", "(B compared with A)"), colourChip(view, UNKNOWN, "only in A or only in B")];
    const ranges = view.traces.map((trace) => metricRange(trace, view.colour));
    return [
        make("span", metricText(Math.min(...ranges.map((k) => k.low)), view.colour)), ramp,
        make("span",
            metricText(Math.max(...ranges.map((k) => k.high)), view.colour) + ", logarithmic")
    ];
}

/* ---- An op ---- */

function opName(at) {
    const {trace, r, i} = at, scope = trace.text(r, i, "scope");
    return (scope ? scope + " / " : "") + trace.text(r, i, "label");
}

/* [name, text] pairs for everything known about an op; zeros are omitted if they carry no
   information. */
function factsOf(view, at) {
    const {trace, r, i} = at, column = (name) => trace.column(r, name)[i], head = trace.head;
    const facts = [["op", trace.text(r, i, "op") + ", " + head.categories[column("category")]],
        ["rank", String(trace.ranks[r].rank)]];
    if (column("lane") > 0) facts.push(["track", trace.ranks[r].lanes[column("lane") - 1][0]]);
    facts.push(["phase", partName(trace, column("phase"), column("step"))]);
    if (column("lane") > 0 && head.clock !== "order") {
        const {start} = trace.span(r), wait = column("wait");
        const whole = column("duration") - wait, itself = metricOf(trace, r, "time")[i];
        facts.push(["time", duration(whole) +
            (itself < whole ? ", self " + duration(itself) : "")]);
        if (wait > 0) facts.push(["wait", duration(wait) + " for other ranks"]);
        facts.push(["start", duration(start[i])]);
    }
    if (column("comm") > 0) {
        const group = column("group");
        facts.push(["payload", amount(column("comm_bytes"), "B")]);
        if (group > 0) facts.push(["group", head.groups[group - 1].name + ", " +
            plural(head.groups[group - 1].ranks.length, "rank")]);
        if (column("peer") > 0) facts.push(["peer", "rank " + (column("peer") - 1)]);
    }
    if (column("flops") > 0) facts.push(["flops", amount(column("flops"), "FLOP")]);
    const bytes = column("read") + column("written");
    if (bytes > 0) facts.push(["memory", amount(column("read"), "B") + " read, " +
        amount(column("written"), "B") + " written"]);
    if (bytes > 0 && column("flops") > 0)
        facts.push(["intensity", Number((column("flops") / bytes).toPrecision(3)) + " FLOP/B"]);
    if (trace.text(r, i, "attributes")) facts.push(["attributes", trace.text(r, i, "attributes")]);
    if (view.critical) facts.push(["slack", slackText(view, at)]);
    facts.push(["id", trace.id(r, i)]);
    return facts;
}

function slackText(view, at) {
    const found = view.criticalOf(at.trace);
    if (found.on[at.r][at.i]) return "none, because the op is on the critical path";
    return "can take " + duration(found.slack[at.r][at.i]) + " longer without delaying the end";
}

function definitions(facts, name = "") {
    const list = make("dl", null, {class: name});
    for (const [name, text] of facts) list.append(make("dt", name), make("dd", text));
    return list;
}

function link(view, at, text, small) {
    const a = make("a", text, {tabindex: "0", role: "button"});
    if (small) a.append(make("br"), make("small", small));
    a.onclick = () => view.select(at, true);
    a.onkeydown = (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        a.onclick();
    };
    return a;
}

const TENSOR_ROLES = ["parameter", "input", "persistent", "view", "partial sum"];

function tensorText(trace, r, t) {
    const flags = trace.column(r, "tensor_flags")[t];
    const roles = TENSOR_ROLES.filter((_, bit) => flags >> bit & 1);
    return [trace.texts[trace.column(r, "tensor_spec")[t]], trace.tensorPart(r, t),
        amount(trace.column(r, "tensor_bytes")[t], "B"), ...roles].filter((s) => s !== "")
        .join(" \u00b7 ");
}

/* One line per tensor that the op reads or produces, with the ops at the other end. */
function tensorLinks(view, at, inputs) {
    const {trace, r, i} = at, uses = trace.uses(r), out = [];
    const from = inputs ? uses.first[i] : uses.split[i],
          to = inputs ? uses.split[i] : uses.first[i + 1];
    for (let k = from; k < to; k++) {
        const tensor = uses.tensors[k], name = trace.tensorName(r, tensor);
        const maker = uses.producer[tensor];
        if (inputs && maker >= 0)
            out.push(link(view, {...at, i: maker}, name, tensorText(trace, r, tensor)));
        else {
            const line = make("div", name);
            line.append(make("br"), make("small", tensorText(trace, r, tensor)));
            out.push(line);
        }
    }
    return out;
}

function showPanel(view) {
    const panel = document.getElementById("panel"), at = view.selected;
    if (!at && view.area && view.mode === "time") {
        if (panel.firstChild !== areaPanel(view)) fill(panel, areaPanel(view));
        return;
    }
    if (!at) {
        fill(panel, ...overviewPanel(view));
        return;
    }
    const sections = [make("h2", opName(at)), definitions(factsOf(view, at)),
        noteField(view, at)];
    const add = (title, lines) => {
        if (lines.length > 0) sections.push(make("h3", title), ...lines.slice(0, 60));
        if (lines.length > 60) sections.push(make("small", "and " + (lines.length - 60) + " more"));
    };
    add("Inputs", tensorLinks(view, at, true));
    add("Outputs", tensorLinks(view, at, false));
    add("Used by",
        usersOf(at).map((to) => link(view, to, opName(to), to.trace.text(to.r, to.i, "op"))));
    add("Other dependencies", waitsOf(view, at));
    add("Same call on other ranks", partnersOf(at).map((to) => link(view, to,
        "rank " + to.trace.ranks[to.r].rank, opName(to))));
    const pair = pairedWith(at);
    if (pair) add("Tensor-parallel pair", [link(view, pair, opName(pair),
        "forward copies a tensor to all ranks, backward sums its gradients")]);
    if (view.traces.length > 1) add("In the other trace", otherLinks(view, at));
    fill(panel, ...sections);
    panel.scrollTop = 0;
}

function waitsOf(view, at) {
    const deps = at.trace.deps(at.r), out = [];
    for (let k = deps.first[at.i]; k < deps.first[at.i + 1]; k++) {
        const to = {...at, i: deps.nodes[k]};
        const why = at.trace.head.classes.filter((_, bit) => deps.classes[k] >> bit & 1).join(", ");
        out.push(link(view, to, opName(to), why));
    }
    return out;
}

/* The composition of the critical path: time by op, and gaps in which no op of it ran. */
function criticalPanel(view, trace) {
    const {on} = view.criticalOf(trace), sums = new Map();
    let all = 0;
    trace.ranks.forEach((_, r) => {
        const time = trace.head.recorded ? on[r] : metricOf(trace, r, "time");
        const hosts = hostLanes(trace, r), lane = trace.column(r, "lane");
        for (let i = 0; i < time.length; i++) {
            if (!on[r][i] || lane[i] === 0) continue;
            const op = trace.text(r, i, "op") + (hosts[lane[i]] ? " (host)" : "");
            sums.set(op, (sums.get(op) || 0) + time[i]);
            all += time[i];
        }
    });
    const span = trace.end - trace.begin;
    const share = (ns) => duration(ns) + ", " + Number((100 * ns / span).toPrecision(2)) + " %";
    const rows = [...sums].sort((a, b) => b[1] - a[1]).slice(0, 12);
    return [make("h3", "Critical path"), definitions(rows.map(([op, ns]) => [op, share(ns)])
        .concat(span > all ? [["gaps between ops", share(span - all)]] : []))];
}

const WHAT_YOU_SEE = {
    time:
        "Time runs from left to right. Each stream or thread of a rank has a track; the bands " +
        "above the tracks are phases, layers and blocks. Communication between ranks is red, and " +
        "the time in which a rank waits for others is pale red.",
    graph: "Ops run from top to bottom, in boxes for phases, layers and blocks. Communication " +
        "between ranks is red. Identical boxes are drawn once, with their number. Click a box to " +
        "open it, and its title to close it.",
};

function overviewPanel(view) {
    const out = [make("h2", "What you see"), make("p", WHAT_YOU_SEE[view.mode])];
    view.traces.forEach((trace, t) => {
        const ops = trace.ranks.reduce((sum, _, r) =>
            sum + rowsOf(trace, r).reduce((n, row) => n + row.nodes.length, 0), 0);
        const facts = [["ops", ops.toLocaleString("en")], ["ranks", String(trace.ranks.length)]];
        if (trace.head.clock !== "order")
            facts.push(["duration", duration(trace.end - trace.begin)]);
        facts.push(["times", trace.head.clock === "order"
            ? "unknown, only the order of ops is known"
            : trace.head.clock + (trace.head.rounded ? ", rounded by less than 1 %" : "")]);
        if (view.critical) out.push(...criticalPanel(view, trace));
        out.push(make("h3", view.traces.length > 1 ? labelsOf(view.traces)[t] : "The run"),
            definitions(facts.concat(trace.head.facts.map(([name, text]) =>
                [name, text.length > 90 ? text.slice(0, 90) + "\u2026" : text])), "facts"));

    });
    out.push(...noteLinks(view));
    out.push(make("h3", "Keys", {class: "keys", tabindex: "-1"}), definitions(KEYS, "keys"));
    return out;
}

/* An op as a sentence for screen readers. */
function spokenOp(view, at) {
    return opName(at) + ", " + factsOf(view, at)
        .filter(([name]) => ["rank", "time", "flops"].includes(name)).map(([, text]) => text)
        .join(", ");
}

function showTip(view, at, x, y) {
    const tip = document.getElementById("tip");
    if (!at) {
        tip.style.display = "none";
        return;
    }
    const facts =
        at.facts || factsOf(view, at).filter(([name]) => name !== "id" && name !== "track");
    fill(tip, make("b", at.name || opName(at)));
    for (const [name, text] of facts) {
        const line = make("div");
        line.append(make("small", name + " "), text);
        tip.append(line);
    }
    if (at.trace && at.i !== undefined) tip.append(...shapesTip(at));
    tip.style.display = "block";
    const stage = document.getElementById("stage");
    const left = x + 16 + tip.offsetWidth > stage.clientWidth ? x - 12 - tip.offsetWidth : x + 16;
    const below = y + 18 + tip.offsetHeight > stage.clientHeight;
    tip.style.left = Math.max(2, left) + "px";
    tip.style.top = Math.max(2, below ? y - 12 - tip.offsetHeight : y + 18) + "px";
}

function shapesTip(at) {
    const {trace, r, i} = at, uses = trace.uses(r), spec = trace.column(r, "tensor_spec");
    const texts = (from, to) =>
        Array.from(uses.tensors.subarray(from, to), (t) => trace.texts[spec[t]]);
    const from = texts(uses.first[i], uses.split[i]), to = texts(uses.split[i], uses.first[i + 1]);
    const all = (from.length > 4 ? from.slice(0, 4).concat("\u2026") : from).join(", ") +
        " \u2192 " + (to.length > 4 ? to.slice(0, 4).concat("\u2026") : to).join(", ");
    return from.length + to.length > 0 ? [make("div", all)] : [];
}
