/* The state of the view as text after the # of the address. Invalid values are ignored. Each
   deliberate step gets an entry in the browser's history, so that Back undoes it; changes between
   two steps, such as panning, update the entry. */

const MOST_BOXES = 80; /* limit of opened or closed boxes of each kind, because addresses have a
                          length limit */

function addressOf(view) {
    const state = new URLSearchParams(), graph = view.mode === "graph";
    const all = (name, values) =>
        [...values].slice(0, MOST_BOXES).forEach((value) => state.append(name, value));
    const chosen = (map, on) => [...map].filter(([, is]) => is === on).map(([path]) => path);
    if (view.t0 > view.begin || view.t1 < view.end)
        state.set("time", Math.round(view.t0) + "-" + Math.round(view.t1));
    if (view.mode !== usualMode(view)) state.set("mode", view.mode);
    if (document.body.classList.contains("tables")) state.set("tables", "1");
    if (graph) {
        state.set("level", String(view.level));
        state.set("ranks", view.graphRanks.join());
        if (view.z > 0 && !view.fitted)
            state.set("at", [view.gx, view.gy, view.z * 1000].map(Math.round).join());
    }
    all("open", chosen(view.opened, true));
    all("close", chosen(view.opened, false));
    all("unfold", view.unfolded);
    if (view.views) state.set("views", "1");
    if (view.lanes !== view.usualLanes) state.set("lanes", view.lanes ? "1" : "0");
    all("full", chosen(view.open, true));
    all("line", chosen(view.open, false));
    if (view.scroll > 0) state.set("scroll", String(Math.round(view.scroll)));
    if (view.colour !== "category") state.set("colour", view.colour);
    if (view.hidden.size > 0) state.set("hide", [...view.hidden].join("."));
    if (view.query) state.set("find", view.query);
    if (view.area) {
        const {t0, t1, from, to} = view.area;
        state.set("area", [t0, t1, from, to].map(Math.round).join());
        if (view.areaBy !== "op") state.set("by", view.areaBy);
    }
    for (const [id, {by, up, query}] of view.tables)
        state.append("table", [id, by, up ? "up" : "down", query].join("~"));
    for (const [id, text] of view.notes) state.append("note", id + "~" + text);
    if (view.threads) state.set("threads", "1");
    if (!view.memory) state.set("memory", "0");
    if (view.memoryAt.t + view.memoryAt.r > 0)
        state.set("curve", view.memoryAt.t + "." + view.memoryAt.r);
    if (view.critical) state.set("critical", "1");
    if (view.dark !== usualDark()) state.set("theme", view.dark ? "dark" : "light");
    if (view.selected)
        state.set("op",
            "AB"[view.selected.t] + view.selected.trace.id(view.selected.r, view.selected.i));
    return "#" + state;
}

function usualMode(view) {
    return view.clock === "order" ? "graph" : "time";
}

function usualDark() {
    return matchMedia("(prefers-color-scheme: dark)").matches;
}

/* Writes a new history entry if the change was deliberate, otherwise replaces the current one. */
function writeAddress(view) {
    const text = addressOf(view), how = view.asked ? "pushState" : "replaceState";
    clearTimeout(view.addressTimer);
    view.asked = null;
    view.addressTimer = 0;
    if (location.hash === text || location.hash === "" && text === "#") return;
    try {
        history[how](null, "", text);
    } catch {
        /* some browsers forbid it for local files; the view works anyway */
    }
}

/* Shows what the address describes, with defaults for everything else. */
function readAddress(view) {
    const state = new URLSearchParams(location.hash.slice(1));
    const yes = (name) => state.get(name) === "1";
    const one = (name, values, usual) =>
        values.includes(state.get(name)) ? state.get(name) : usual;
    const times = /^(-?[0-9]+)-(-?[0-9]+)$/.exec(state.get("time") || "");
    const some = times && Number(times[2]) > Number(times[1]);
    view.t0 = some ? Math.max(view.begin, Number(times[1])) : view.begin;
    view.t1 = some ? Math.min(view.end, Number(times[2])) : view.end;
    view.scroll = Number(state.get("scroll")) || 0;
    view.mode = one("mode", ["graph", "time"], usualMode(view));
    document.body.classList.toggle("tables", yes("tables"));
    view.lanes = one("lanes", ["0", "1"], view.usualLanes ? "1" : "0") === "1";
    view.open = new Map(state.getAll("full").map((rank) => [rank, true])
        .concat(state.getAll("line").map((rank) => [rank, false])));
    readGraph(view, state);
    readArea(view, state);
    const curve = /^([01])\.([0-9]{1,7})$/.exec(state.get("curve") || "");
    view.threads = yes("threads");
    view.memory = state.get("memory") !== "0";
    view.memoryAt = curve ? {t: Number(curve[1]), r: Number(curve[2])} : {t: 0, r: 0};
    const colour = state.get("colour");
    view.colour = view.canColour(colour) ? colour : "category";
    view.hidden = new Set((state.get("hide") || "").split(".").filter((name) => name !== ""));
    view.version = [...view.hidden].sort().join();
    view.critical = yes("critical");
    view.dark = one("theme", ["dark", "light"], usualDark() ? "dark" : "light") === "dark";
    readFound(view, state.get("find") || "");
    const id = /^([AB])r([0-9]+)\.o([0-9]+)$/.exec(state.get("op") || "");
    view.selected = id ? view.byId("AB".indexOf(id[1]), Number(id[2]), Number(id[3])) : null;
}

/* The area of the timeline, the order and filters of tables, and the notes. */
function readArea(view, state) {
    const at = /^(-?[0-9]+),(-?[0-9]+),([0-9]+),([0-9]+)$/.exec(state.get("area") || "");
    const [t0, t1, from, to] = at ? at.slice(1).map(Number) : [0, 0, 1, 0];
    view.area = t1 >= t0 && to >= from && to < rowNumbers(view).rows
        ? {t0: withinRun(view, t0), t1: withinRun(view, t1), from, to} : null;
    view.areaBy = ["op", "layer", "rank"].includes(state.get("by")) ? state.get("by") : "op";
    view.areaPanel = null;
    view.tables = new Map(state.getAll("table").map((text) => text.split("~"))
        .filter((all) => all.length >= 4).map(([id, by, up, ...query]) =>
            [id, {by, up: up === "up", query: query.join("~")}]));
    view.notes = new Map(state.getAll("note").map((text) => /^([AB]r[0-9]+\.o[0-9]+)~(.+)$/s
        .exec(text)).filter((all) => all).map(([, id, text]) => [id, text.slice(0, LONGEST_NOTE)]));
    if (view.tabled || document.body.classList.contains("tables")) {
        view.tabled = null;
        showTables(view);
    }
    if (view.tables.size > 0) showComparison(view);
}

function readGraph(view, state) {
    const level = Number(state.get("level"));
    const at = /^(-?[0-9]+),(-?[0-9]+),([1-9][0-9]*)$/.exec(state.get("at") || "");
    view.level = [1, 2, 3].includes(level) ? level : 2;
    view.graphRanks = /^[0-9]+(,[0-9]+){0,3}$/.test(state.get("ranks") || "")
        ? state.get("ranks").split(",").map(Number) : view.usualRanks;
    view.opened = new Map(state.getAll("open").map((path) => [path, true])
        .concat(state.getAll("close").map((path) => [path, false])));
    view.unfolded = new Set(state.getAll("unfold"));
    view.views = state.get("views") === "1";
    view.fitted = false;
    [view.gx, view.gy, view.z] = at ? [Number(at[1]), Number(at[2]), at[3] / 1000] : [0, 0, 0];
    view.modes.graph.picture.stale = true;
}

function readFound(view, query) {
    if (query === (view.query || "")) return;
    view.query = query;
    document.getElementById("query").value = query;
    view.hits = query ? new Hits(view, query) : null;
}
