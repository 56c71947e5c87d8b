/* An area of the timeline: a range of time and of tracks, for which the panel shows sums by op,
   layer and rank. An area is {t0, t1, from, to}; from and to number the rows of all ranks from top
   to bottom. */

const EDGE = 5; /* pixels around an edge of the area in which it can be dragged */

/* Per rank from top to bottom: {trace, t, r, first}, where first is the number of its first row. */
function rowNumbers(view) {
    const out = [];
    let first = 0;
    view.traces.forEach((trace, t) => trace.ranks.forEach((_, r) => {
        out.push({trace, t, r, first});
        first += rowsOf(trace, r).length;
    }));
    out.rows = first;
    return out;
}

/* The time of the run that is closest to a time; the timeline has margins around the run. */
function withinRun({traces}, ns) {
    return Math.max(Math.min(...traces.map(({begin}) => begin)),
        Math.min(ns, Math.max(...traces.map(({end}) => end))));
}

/* The area between two points of the canvas. Points on the axis include all tracks. */
function areaBetween(view, a, b) {
    const {picture} = view, numbers = rowNumbers(view);
    const timeAt = (x) => withinRun(view,
        view.t0 + (Math.max(x, GUTTER) - GUTTER) / picture.perNs);
    const [x0, x1] = [a[0], b[0]].sort((x, y) => x - y);
    const [y0, y1] = [a[1], b[1]].sort((x, y) => x - y);
    const area = {t0: timeAt(x0), t1: timeAt(x1), from: numbers.rows, to: -1};
    for (const line of picture.layout.lines) {
        const top = line.y - view.scroll;
        if (!line.rows || line.rows.length === 0 || top > y1 || top + line.h < y0) continue;
        const [from, to] = rowsOfLine(numbers, line);
        area.from = Math.min(area.from, from);
        area.to = Math.max(area.to, to);
    }
    return y0 < AXIS || area.to < 0 ? {...area, from: 0, to: numbers.rows - 1} : area;
}

/* The numbers of the first and last row that a line of the timeline draws. */
function rowsOfLine(numbers, line) {
    const {first} = numbers.find(({trace, r}) => trace === line.trace && r === line.r);
    const all = rowsOf(line.trace, line.r).map((row, k) => line.rows.includes(row) ? k : -1)
        .filter((k) => k >= 0);
    return [first + all[0], first + all[all.length - 1]];
}

/* Calls each(trace, t, r, i, part, busy, wait) for each op in the area: the part of the op that is
   within it, and the times in it. The time of a host op excludes the ops that it called. */
function eachInArea(view, area, each) {
    const within = (from, to) => Math.max(0, Math.min(to, area.t1) - Math.max(from, area.t0));
    for (const {trace, t, r, first} of rowNumbers(view)) {
        const called = new Float64Array(trace.ranks[r].nodes), found = [];
        rowsOf(trace, r).forEach((row, number) => {
            const {nodes, s, e, w, callers} = row, mine = number + first;
            const inside = mine >= area.from && mine <= area.to;
            for (let k = firstAbove(e, area.t0); k < nodes.length && s[k] < area.t1; k++) {
                if (callers && callers[k] >= 0) called[callers[k]] += within(s[k], e[k]);
                if (inside) found.push(nodes[k], s[k], w[k], e[k]);
            }
        });
        for (let k = 0; k < found.length; k += 4) {
            const [i, s, w, e] = found.slice(k, k + 4);
            const part = e > s ? within(s, e) / (e - s) : 1;
            each(trace, t, r, i, part, Math.max(0, within(w, e) - called[i]), within(s, w));
        }
    }
}

/* Sums over the area by op, layer and rank, as rows of tables. Flops and bytes of an op that
   crosses an edge count in proportion to its time within. */
function sumArea(view, area) {
    const sums = SUM_NAMES.map(([what]) => ({what, by: new Map()}));
    eachInArea(view, area, (trace, t, r, i, part, busy, wait) => {
        const host = hostLanes(trace, r)[trace.column(r, "lane")[i]] ? 1 : 0;
        const keys = [trace.column(r, "op")[i], trace.column(r, "scope")[i], r];
        sums.forEach(({by}, k) => {
            const key = (keys[k] * 2 + t) * 2 + host;
            let sum = by.get(key);
            if (!sum) by.set(key, sum = {...NO_SUM, name:
                (view.traces.length > 1 ? "AB"[t] + ": " : "") +
                SUM_NAMES[k][1](trace, r, i) + (host ? " (host)" : "")});
            sum.calls++;
            sum.ns += busy;
            sum.wait += wait;
            sum.flops += part * trace.column(r, "flops")[i];
            sum.bytes += part * (trace.column(r, "read")[i] + trace.column(r, "written")[i]);
        });
    });
    return sums.map(({what, by}) => ({what, rows: sameNames([...by.values()])}));
}

/* Adds sums of equal names: scopes of one layer. */
function sameNames(rows) {
    const names = new Map();
    for (const row of rows) {
        const sum = names.get(row.name);
        if (!sum) names.set(row.name, row);
        else for (const key in NO_SUM) sum[key] += row[key];
    }
    return [...names.values()];
}

function setArea(view, area) {
    view.ask();
    view.area = area;
    view.drawnArea = view.areaPanel = null;
    if (area) {
        view.selected = null;
        view.panel = true;
        view.speak(areaText(view, area));
    }
    view.redraw("all");
}

/* The visible part of the timeline as an area. */
function areaOfScreen(view) {
    const tables = document.body.classList.contains("tables");
    if (tables || view.mode !== "time")
        return view.say("Only the timeline has areas: press " + (tables ? "t." : "g."));
    const {clientWidth: w, clientHeight: h} = view.canvas;
    setArea(view, areaBetween(view, [GUTTER, AXIS + 1], [w, h]));
}

function areaText(view, {t0, t1, from, to}) {
    const ranks = ranksOfArea(view, {from, to}).length, tracks = to - from + 1;
    return "area of " + (view.clock === "order" ? plural(Math.round((t1 - t0) / 1000), "step")
        : duration(t1 - t0)) + ", " + plural(tracks, "track") + " of " + plural(ranks, "rank");
}

function ranksOfArea(view, {from, to}) {
    const numbers = rowNumbers(view);
    return numbers.filter(({first}, k) =>
        first <= to && (k + 1 < numbers.length ? numbers[k + 1].first : numbers.rows) > from);
}

/* ---- Panel ---- */

/* The panel of an area. Its elements are kept until the area changes, because the user types in
   them. */
function areaPanel(view) {
    if (view.areaPanel) return view.areaPanel;
    const {area} = view, sums = sumArea(view, area), box = make("div", null, {class: "area"});
    const calls = sums[2].rows.reduce((n, row) => n + row.calls, 0);
    const facts = [["ops", calls.toLocaleString("en")],
        ["ranks", ranksOfArea(view, area).length.toLocaleString("en")]];
    if (view.clock !== "order") facts.unshift(["duration", duration(area.t1 - area.t0)],
        ["from", duration(area.t0)], ["to", duration(area.t1)]);
    const zoom = make("button", "Zoom to area"), clear = make("button", "Clear");
    zoom.onclick = () => {
        view.ask();
        view.modes.time.setWindow(area.t0, area.t1);
    };
    clear.onclick = () => setArea(view, null);
    const tabs = make("nav", null, {"aria-label": "Sums by"}), table = make("div");
    const show = (what) => {
        view.areaBy = what;
        for (const tab of tabs.children)
            tab.setAttribute("aria-pressed", String(tab.dataset.what === what));
        const {rows} = sums.find((sum) => sum.what === what);
        fill(table, sumTable(view, "area-" + what, what, rows));
    };
    for (const {what} of sums) {
        const tab = make("button", "By " + what, {"data-what": what});
        tab.onclick = () => {
            show(what);
            view.noteAddress();
        };
        tabs.append(tab);
    }
    const row = make("div", null, {class: "tools"});
    row.append(tabs, zoom, clear);
    box.append(make("h2", "Area"), definitions(facts), row, table);
    show(view.areaBy);
    return view.areaPanel = box;
}

/* ---- Mouse ---- */

/* The edge of the area at a point of the canvas: "t0", "t1" or null. */
function edgeAt(view, x) {
    const {area, picture} = view;
    if (view.mode !== "time" || !area || !picture.perNs || x < GUTTER) return null;
    const xOf = (ns) => GUTTER + (ns - view.t0) * picture.perNs;
    return ["t1", "t0"].find((edge) => Math.abs(xOf(area[edge]) - x) <= EDGE) || null;
}

/* The area while the mouse is at `to`: of an edge that is dragged, or from the point `from`. */
function areaWhile(view, {edge, from, area}, to) {
    if (!edge) return areaBetween(view, from, to);
    const at = areaBetween(view, to, to).t0, other = area[edge === "t0" ? "t1" : "t0"];
    return {...area, t0: Math.min(at, other), t1: Math.max(at, other)};
}

/* ---- Drawing ---- */

function drawArea(view, g, xOf, box) {
    const area = view.drawnArea || view.area, numbers = area && rowNumbers(view);
    if (!area) return;
    const lines = view.picture.layout.lines.filter((line) => {
        if (!line.rows || line.rows.length === 0) return false;
        const [from, to] = rowsOfLine(numbers, line);
        return from <= area.to && to >= area.from;
    });
    if (lines.length === 0) return;
    const x0 = xOf(area.t0), x1 = Math.max(xOf(area.t1), x0 + 1), last = lines[lines.length - 1];
    const y0 = lines[0].y - box.scroll - 2, y1 = last.y + last.h - box.scroll + 2;
    const mark = view.palette.dark ? "#6cb0ff" : "#1f6feb";
    g.fillStyle = view.palette.dark ? "rgba(108, 176, 255, 0.16)" : "rgba(31, 111, 235, 0.12)";
    g.fillRect(x0, y0, x1 - x0, y1 - y0);
    g.strokeStyle = mark;
    g.lineWidth = 1.5;
    g.strokeRect(x0, y0, x1 - x0, y1 - y0);
    if (view.clock === "order") return;
    const text = duration(area.t1 - area.t0);
    g.font = "600 12px system-ui, sans-serif";
    const wide = textWidth(g, text) + 12, middle = (Math.max(x0, box.x) +
        Math.min(x1, box.x + box.width)) / 2;
    const x = Math.max(box.x, Math.min(middle - wide / 2, box.x + box.width - wide));
    const y = Math.max(AXIS + 1, Math.min(y0 + 3, box.bottom - 20));
    g.fillStyle = mark;
    roundRect(g, x, y, wide, 18, 4);
    g.fill();
    g.fillStyle = view.palette.dark ? "#10161c" : "#ffffff";
    g.textAlign = "left";
    g.textBaseline = "middle";
    g.fillText(text, x + 6, y + 9.5);
}
