/* What is shown, as text behind the # of the address. What makes no sense there is not obeyed. */

function writeAddress(view) {
    const state = new URLSearchParams();
    if (view.t0 > view.begin || view.t1 < view.end)
        state.set("time", Math.round(view.t0) + "-" + Math.round(view.t1));
    if (view.mode !== (view.clock === "order" ? "graph" : "time")) state.set("mode", view.mode);
    if (view.mode === "graph") {
        state.set("level", String(view.level));
        state.set("ranks", view.graphRanks.join());
        if (view.z > 0)
            state.set("at", [view.gx, view.gy, view.z * 1000].map(Math.round).join());
    }
    if (view.scroll > 0) state.set("scroll", String(Math.round(view.scroll)));
    if (view.colour !== "category") state.set("colour", view.colour);
    if (view.hidden.size > 0) state.set("hide", [...view.hidden].join("."));
    if (view.query) state.set("find", view.query);
    if (view.critical) state.set("critical", "1");
    if (view.selected)
        state.set("op",
            "AB"[view.selected.t] + view.selected.trace.id(view.selected.r, view.selected.i));
    const text = "#" + state;
    if (location.hash === text || location.hash === "" && text === "#") return;
    try {
        history.replaceState(null, "", text);
    } catch {
        /* some browsers forbid it for files; the picture is the same */
    }
}

function readAddress(view) {
    const state = new URLSearchParams(location.hash.slice(1));
    const times = /^(-?[0-9]+)-(-?[0-9]+)$/.exec(state.get("time") || "");
    if (times && Number(times[2]) > Number(times[1])) {
        view.t0 = Math.max(view.begin, Number(times[1]));
        view.t1 = Math.min(view.end, Number(times[2]));
    }
    view.scroll = Number(state.get("scroll")) || 0;
    const usual = view.clock === "order" ? "graph" : "time";
    view.mode = ["graph", "time"].includes(state.get("mode")) ? state.get("mode") : usual;
    view.level =
        [1, 2, 3].includes(Number(state.get("level"))) ? Number(state.get("level")) : 2;
    if (/^[0-9]+(,[0-9]+){0,3}$/.test(state.get("ranks") || ""))
        view.graphRanks = state.get("ranks").split(",").map(Number);
    const at = /^(-?[0-9]+),(-?[0-9]+),([1-9][0-9]*)$/.exec(state.get("at") || "");
    if (at) [view.gx, view.gy, view.z] = [Number(at[1]), Number(at[2]), at[3] / 1000];
    view.modes.graph.picture.stale = true;
    view.setColour(state.get("colour") || "category");
    view.hidden = new Set((state.get("hide") || "").split(".").filter((name) => name !== ""));
    view.version = [...view.hidden].sort().join();
    view.critical = state.get("critical") === "1";
    view.query = state.get("find") || "";
    if (view.query) {
        document.getElementById("query").value = view.query;
        view.hits = new Hits(view, view.query);
    }
    const id = /^([AB])r([0-9]+)\.o([0-9]+)$/.exec(state.get("op") || "");
    if (id) view.selected = view.byId("AB".indexOf(id[1]), Number(id[2]), Number(id[3]));
}
