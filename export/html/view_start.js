/* The viewer: what it shows, what the user does to it, and how that is kept behind the # of the
   address. */

const KEYS = [
    ["w s, wheel", "zoom in, out"], ["a d, \u2190 \u2192", "move left, right"],
    ["\u2191 \u2193", "move up, down"], ["0", "show everything"],
    ["t", "tables"], ["/", "find"], ["n p", "next, previous that was found"],
    ["c", "critical path, and slack of each op"], ["k", "next colouring"],
    ["Enter", "zoom to the selected op"], ["[ ]", "op before, after in its lane"],
    ["i o", "first input, first user"], ["e", "ranks lane by lane, or one line each"],
    ["l", "light or dark"], ["Esc", "nothing selected or found"],
];

class View {
    constructor(traces) {
        this.version = 0; /* of what is hidden */
        this.mode = "time";
        this.colour = "category";
        this.scroll = 0;
        this.open = new Map();
        this.hidden = new Set();
        this.hits = null;
        this.selected = null;
        this.critical = false;
        this.dark = matchMedia("(prefers-color-scheme: dark)").matches;
        this.canvas = document.getElementById("picture");
        this.overview = document.getElementById("overview");
        this.time = new TimePicture(this);
        this.overviewPicture = new TimePicture(this);
        this.setTraces(traces);
        this.readAddress();
        this.setTheme(this.dark);
    }

    setTraces(traces) {
        this.traces = traces;
        for (const trace of traces) {
            trace.view = this;
            for (const name of trace.cache.keys())
                if (/^(matches|change|painted|paint change):/.test(name)) trace.cache.delete(name);
        }
        this.clock = traces[0].head.clock;
        const begin = Math.min(...traces.map((trace) => trace.begin));
        const end = Math.max(...traces.map((trace) => trace.end));
        const margin = Math.max(1, (end - begin) * 0.01);
        this.begin = begin - margin;
        this.end = end + margin;
        this.t0 = this.begin;
        this.t1 = this.end;
        this.lanes = traces.reduce((n, trace) => n + trace.ranks.length, 0) <= 4;
        this.categories = traces[0].head.categories.map((name, i) => [name, i]).filter(([, i]) =>
            traces.some((trace) => trace.ranks.some((_, r) => trace.shared("has " + i,
                trace.key(r, "category", "lane"), () => {
                    const lane = trace.column(r, "lane");
                    return trace.column(r, "category").some((c, k) => c === i && lane[k] > 0);
                }))));
        this.waits = traces.some(
            (trace) => trace.ranks.some((_, r) => trace.shared("waits", trace.key(r, "wait"),
                                            () => trace.column(r, "wait").some((ns) => ns > 0))));
        document.getElementById("title").textContent =
            traces.map((trace) => trace.head.title).join("  |  ");
        showComparison(this);
        const names = Object.keys(METRICS).filter((name) => name !== "change" || traces.length > 1);
        fill(document.getElementById("colour"), ...names.map((name) =>
            make("option", METRICS[name].name, {value: name})));
    }

    criticalOf(trace) {
        return findCritical(trace);
    }

    get picture() {
        return this.time;
    }

    /* ---- Drawing ---- */

    /* Draws with the next frame; what: "all" also legend and panel, "overview" also the small
       one. */
    redraw(what) {
        if (what) this.stale = this.stale === "all" ? "all" : what;
        if (this.frame) return;
        this.frame = requestAnimationFrame(() => {
            this.frame = 0;
            this.draw();
        });
    }

    draw() {
        const stale = this.stale;
        this.stale = null;
        if (stale === "all") {
            showLegend(this);
            showPanel(this);
            this.showButtons();
        }
        const begin = performance.now();
        this.onCanvas(this.canvas, (g, w, h, density) => this.picture.draw(g, w, h, density));
        this.drawOverview(stale);
        this.drawMs = performance.now() - begin;
        this.writeAddress();
    }

    onCanvas(canvas, draw) {
        const density = window.devicePixelRatio || 1, {clientWidth: w, clientHeight: h} = canvas;
        if (canvas.width !== Math.round(w * density)) canvas.width = Math.round(w * density);
        if (canvas.height !== Math.round(h * density)) canvas.height = Math.round(h * density);
        const g = canvas.getContext("2d");
        g.setTransform(density, 0, 0, density, 0, 0);
        draw(g, w, h, density);
    }

    /* The whole in small is drawn once, and the frame of what is seen over it each time. */
    drawOverview(stale) {
        const {clientWidth: w, clientHeight: h} = this.overview,
                                             density = window.devicePixelRatio || 1;
        if (!this.small || stale || this.small.width !== Math.round(w * density)) {
            this.small = document.createElement("canvas");
            this.small.width = Math.round(w * density);
            this.small.height = Math.round(h * density);
            const g = this.small.getContext("2d");
            g.setTransform(density, 0, 0, density, 0, 0);
            this.overviewPicture.drawOverview(g, w, h, density);
        }
        this.onCanvas(this.overview, (g) => {
            g.drawImage(this.small, 0, 0, w, h);
            const scale = (w - GUTTER) / (this.end - this.begin);
            const x0 = GUTTER + (this.t0 - this.begin) * scale,
                  x1 = GUTTER + (this.t1 - this.begin) * scale;
            g.fillStyle = this.dark ? "rgba(0, 0, 0, 0.55)" : "rgba(90, 105, 120, 0.28)";
            g.fillRect(GUTTER, 0, x0 - GUTTER, h);
            g.fillRect(x1, 0, w - x1, h);
            g.strokeStyle = this.dark ? "#6cb0ff" : "#1f6feb";
            g.strokeRect(x0, 0.5, Math.max(2, x1 - x0), h - 1);
            g.fillStyle = this.dark ? "#9aa8b5" : "#5c6b78";
            g.font = "11px system-ui, sans-serif";
            g.fillText("overview", 10, h / 2 + 4);
        });
    }

    showButtons() {
        const tables = document.body.classList.contains("tables");
        for (const mode of ["time"])
            document.getElementById("mode-" + mode)
                .classList.toggle("on", !tables && this.mode === mode);
        document.getElementById("mode-table").classList.toggle("on", tables);
        document.getElementById("critical").classList.toggle("on", this.critical);
        document.getElementById("colour").value = this.colour;
        document.getElementById("found").textContent = !this.hits ? ""
            : this.hits.list.length === 0 ? "nothing found"
                : (this.hits.at >= 0 ? this.hits.at + 1 + " of " : "") +
                    this.hits.list.length.toLocaleString("en") + " found";
    }

    setTheme(dark) {
        this.dark = dark;
        document.documentElement.classList.toggle("dark", dark);
        this.palette = makePalette(this.traces[0].head, dark);
        this.redraw("all");
    }

    /* ---- What is shown ---- */

    setWindow(t0, t1) {
        const whole = this.end - this.begin, width = Math.max(2, Math.min(t1 - t0, whole));
        this.t0 = Math.max(this.begin, Math.min(t0, this.end - width));
        this.t1 = this.t0 + width;
        this.redraw();
    }

    zoom(factor, x) {
        const at =
            this.t0 + (x - GUTTER) / (this.canvas.clientWidth - GUTTER) * (this.t1 - this.t0);
        this.setWindow(at - (at - this.t0) * factor, at + (this.t1 - at) * factor);
    }

    move(dx, dy) {
        const by = dx * (this.t1 - this.t0) / (this.canvas.clientWidth - GUTTER);
        this.scroll += dy;
        this.setWindow(this.t0 + by, this.t1 + by);
    }

    fit() {
        this.scroll = 0;
        this.setWindow(this.begin, this.end);
    }

    /* Moves the window so that an op is in it, and near enough to be seen. */
    reveal(at, close) {
        const {start, end} = at.trace.span(at.r), s = start[at.i], e = end[at.i];
        if (at.trace.column(at.r, "lane")[at.i] === 0) return;
        const width = this.t1 - this.t0, pixel = width / (this.canvas.clientWidth - GUTTER);
        if (close || e - s < 3 * pixel || e - s > width) {
            const wide = Math.max(20 * (e - s), 60);
            this.setWindow((s + e) / 2 - wide / 2, (s + e) / 2 + wide / 2);
        } else if (s < this.t0 || e > this.t1) {
            this.setWindow((s + e) / 2 - width / 2, (s + e) / 2 + width / 2);
        }
        const place = this.time.layout && this.time.placeOf(at);
        if (!place) return;
        const height = this.canvas.clientHeight;
        if (place.y < AXIS || place.y + place.h > height) this.scroll += place.y - height / 2;
    }

    select(at, show) {
        this.selected = at;
        if (at && show) this.reveal(at);
        this.redraw("all");
    }

    hover() {}

    find(query) {
        const begin = performance.now();
        this.query = query.trim();
        this.hits = this.query === "" ? null : new Hits(this, this.query);
        this.findMs = performance.now() - begin;
        this.redraw("all");
    }

    goHit(by) {
        const at = this.hits && this.hits.go(by);
        if (at) this.select(at, true);
    }

    toggleCategory(name) {
        if (!this.hidden.delete(name)) this.hidden.add(name);
        this.version = [...this.hidden].sort().join();
        this.redraw("all");
    }

    onlyCategory(name) {
        this.hidden =
            new Set(this.categories.map(([other]) => other).filter((other) => other !== name));
        this.version = [...this.hidden].sort().join();
        this.redraw("all");
    }

    setColour(name) {
        this.colour =
            METRICS[name] && (name !== "change" || this.traces.length > 1) ? name : "category";
        this.redraw("all");
    }

    nextColour() {
        const names = Object.keys(METRICS).slice(0, this.traces.length > 1 ? 6 : 5);
        this.setColour(names[(names.indexOf(this.colour) + 1) % names.length]);
    }

    setCritical(on) {
        this.critical = on;
        this.redraw("all");
    }

    /* Ranks lane by lane, or one line each. */
    setLanes(on) {
        this.lanes = on;
        this.open.clear();
        this.redraw();
    }

    goOverview(x) {
        const at = this.begin +
            (x - GUTTER) / (this.overview.clientWidth - GUTTER) * (this.end - this.begin);
        const half = (this.t1 - this.t0) / 2;
        this.setWindow(at - half, at + half);
    }

    compareWith(trace) {
        this.setTraces([this.traces[0], trace]);
        this.setTheme(this.dark);
    }

    setTables(on) {
        document.body.classList.toggle("tables", on);
        this.redraw("all");
    }

    /* The op before or after the selected one in its row. */
    step(by) {
        if (!this.selected) return;
        const {trace, t, r, i} = this.selected;
        for (const row of rowsOf(trace, r)) {
            const k = row.nodes.indexOf(i);
            if (k >= 0 && k + by >= 0 && k + by < row.nodes.length)
                this.select({trace, t, r, i: row.nodes[k + by]}, true);
            if (k >= 0) return;
        }
    }

    say(text) {
        const note = document.getElementById("note");
        note.textContent = text;
        note.style.display = "block";
        clearTimeout(this.noteTimer);
        this.noteTimer = setTimeout(() => { note.style.display = "none"; }, 6000);
    }

    /* ---- The address ---- */

    writeAddress() {
        const state = new URLSearchParams();
        if (this.t0 > this.begin || this.t1 < this.end)
            state.set("time", Math.round(this.t0) + "-" + Math.round(this.t1));
        if (this.scroll > 0) state.set("scroll", String(Math.round(this.scroll)));
        if (this.colour !== "category") state.set("colour", this.colour);
        if (this.hidden.size > 0) state.set("hide", [...this.hidden].join("."));
        if (this.query) state.set("find", this.query);
        if (this.critical) state.set("critical", "1");
        if (this.selected)
            state.set("op",
                "AB"[this.selected.t] + this.selected.trace.id(this.selected.r, this.selected.i));
        const text = "#" + state;
        if (location.hash === text || location.hash === "" && text === "#") return;
        try {
            history.replaceState(null, "", text);
        } catch {
            /* some browsers forbid it for files; the picture is the same */
        }
    }

    readAddress() {
        const state = new URLSearchParams(location.hash.slice(1));
        const window = /^(-?[0-9]+)-(-?[0-9]+)$/.exec(state.get("time") || "");
        if (window && Number(window[2]) > Number(window[1])) {
            this.t0 = Math.max(this.begin, Number(window[1]));
            this.t1 = Math.min(this.end, Number(window[2]));
        }
        this.scroll = Number(state.get("scroll")) || 0;
        this.setColour(state.get("colour") || "category");
        this.hidden = new Set((state.get("hide") || "").split(".").filter((name) => name !== ""));
        this.version = [...this.hidden].sort().join();
        this.critical = state.get("critical") === "1";
        this.query = state.get("find") || "";
        if (this.query) {
            document.getElementById("query").value = this.query;
            this.hits = new Hits(this, this.query);
        }
        const id = /^([AB])r([0-9]+)\.o([0-9]+)$/.exec(state.get("op") || "");
        if (id) this.selected = this.byId("AB".indexOf(id[1]), Number(id[2]), Number(id[3]));
    }

    byId(t, rank, id) {
        const trace = this.traces[t];
        const r = trace ? trace.ranks.findIndex((k) => k.rank === rank) : -1;
        const i = r >= 0 ? trace.column(r, "id").indexOf(id) : -1;
        return i >= 0 ? {trace, t, r, i} : null;
    }
}

async function start() {
    const begin = performance.now(), traces = [];
    try {
        for (let t = 0, element; (element = document.getElementById("trace" + t)); t++)
            traces.push(new Trace(await unpack(element)));
    } catch (error) {
        document.body.prepend(make("p", "The viewer cannot start (" + error.message +
            "); it needs a browser of 2023 or later. The tables below are complete."));
        return;
    }
    document.body.classList.add("live");
    const view = new View(traces);
    window.view = view;
    listen(view);
    view.draw();
    view.firstMs = performance.now() - begin;
    document.body.dataset.ready = "1";
}

document.addEventListener("DOMContentLoaded", start);
