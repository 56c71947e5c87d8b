/* The viewer: its state, and what the user can do. */

const NARROW = 700; /* CSS pixels; on narrower screens the panel opens only on request */

class View {
    constructor(traces) {
        this.version = 0; /* changes with what is hidden */
        this.mode = "time";
        this.colour = "category";
        this.scroll = 0;
        this.open = new Map();
        this.hidden = new Set();
        this.hits = null;
        this.selected = null;
        this.critical = false;
        this.area = null;       /* view_area.js */
        this.drawnArea = null;  /* while the mouse drags it */
        this.areaBy = "op";
        this.selecting = false; /* whether dragging selects an area */
        this.csv = null;        /* colours of a file (view_csv.js) */
        this.memory = true;
        this.memoryAt = {t: 0, r: 0};
        this.cursor = -1;
        this.threads = false;    /* whether threads of one kind have tracks of their own */
        this.tables = new Map(); /* id of a table -> its order and filter */
        this.notes = new Map();  /* "Ar0.o7" -> text */
        this.z = this.gx = this.gy = 0; /* the graph's zoom (0: not determined yet), left, top */
        this.level = 2;
        this.opened = new Map(); /* path of a box -> whether the user opened or closed it */
        this.unfolded = new Set();
        this.views = false;
        this.fitted = false; /* z, gx and gy are as fit() set them */
        this.panel = innerWidth > NARROW;
        this.paper = null;   /* while printing: {w, h, memory}, the sizes of the picture */
        this.asked = null;     /* the next change gets a history entry */
        this.addressTimer = 0; /* the address does not describe the current view yet */
        this.canvas = document.getElementById("picture");
        this.overview = document.getElementById("overview");
        this.modes = {time: new TimeMode(this), graph: new GraphMode(this)};
        this.setTraces(traces);
        readAddress(this);
        this.setTheme(this.dark);
    }

    setTraces(traces) {
        const first = this.traces === undefined;
        this.traces = traces;
        for (const trace of traces) {
            trace.view = this;
            trace.forget();
        }
        this.clock = traces[0].head.clock;
        const begin = Math.min(...traces.map((trace) => trace.begin));
        const end = Math.max(...traces.map((trace) => trace.end));
        const margin = Math.max(1, (end - begin) * 0.01);
        this.begin = begin - margin;
        this.end = end + margin;
        this.t0 = this.begin;
        this.t1 = this.end;
        this.usualLanes = traces.reduce((n, trace) => n + trace.ranks.length, 0) <= 4;
        this.lanes = this.usualLanes;
        this.categories = traces[0].head.categories.map((name, i) => [name, i]).filter(([, i]) =>
            traces.some((trace) => trace.ranks.some((_, r) => trace.shared("has " + i,
                trace.key(r, "category", "lane"), () => {
                    const lane = trace.column(r, "lane");
                    return trace.column(r, "category").some((c, k) => c === i && lane[k] > 0);
                }))));
        this.waits = traces.some((trace) => trace.ranks.some((_, r) => trace.shared("waits",
            trace.timeKey(r), () => trace.column(r, "wait").some((ns) => ns > 0))));
        this.offerRanks();
        const title = document.getElementById("title");
        title.textContent = title.title = labelsOf(traces).join("  |  ");
        showComparison(this);
        if (!first) showTables(this);
        this.offerColours();
    }

    offerColours() {
        fill(document.getElementById("colour"), ...this.colourNames().map((name) =>
            make("option", name === "csv" ? this.csv.name : METRICS[name].name, {value: name})));
    }

    colourNames() {
        return Object.keys(METRICS).filter((name) => this.canColour(name));
    }

    /* Offers single ranks and pairs of neighbours for the graph, limited to the first 256 ranks. */
    offerRanks() {
        const numbers = this.traces[0].ranks.map((rank) => rank.rank).slice(0, 256);
        const choices = numbers.length <= 4 ? [numbers] : [];
        for (let k = 0; k + 1 < numbers.length && numbers.length > 2; k += 2)
            choices.push(numbers.slice(k, k + 2));
        if (numbers.length > 1) choices.push(...numbers.map((n) => [n]));
        this.usualRanks = this.graphRanks = numbers.slice(0, 2);
        if (numbers.length === 3) choices.push(this.graphRanks);
        fill(document.getElementById("rank"), ...choices.map((ranks) =>
            make("option", ranks.join(" and "), {value: ranks.join()})));
    }

    criticalOf(trace) {
        return findCritical(trace);
    }

    get now() {
        return this.modes[this.mode];
    }

    get picture() {
        return this.now.picture;
    }

    /* ---- Drawing ---- */

    /* Draws with the next frame. what: "all" also updates legend and panel, "overview" also the
       overview. */
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
        const tables = document.body.classList.contains("tables");
        if (stale === "all") {
            this.showButtons();
            if (this.mode === "graph" && !tables)
                this.picture.ready(this.canvas.clientWidth, this.canvas.clientHeight);
            showLegend(this);
            showPanel(this);
        }
        if (!tables) this.drawPictures(stale);
        if (!this.paper) this.noteAddress();
    }

    drawPictures(stale) {
        const begin = performance.now();
        this.onCanvas(this.canvas, (g, w, h, density) => this.picture.draw(g, w, h, density));
        if (!this.paper) this.drawOverview(stale);
        showMemory(this);
        this.drawMs = performance.now() - begin;
    }

    /* To be called before a step that Back should undo. later: the state is recorded when it has
       settled, as after zooming. */
    ask(later) {
        if (this.addressTimer && !(later && this.asked)) writeAddress(this);
        if (!later || !this.asked) this.asked = later ? "later" : "now";
    }

    noteAddress() {
        clearTimeout(this.addressTimer);
        if (this.asked === "now") writeAddress(this);
        else this.addressTimer = setTimeout(() => writeAddress(this), 250);
    }

    /* Shows the state of the address, as after Back. */
    goAddress() {
        clearTimeout(this.addressTimer);
        this.addressTimer = 0;
        this.asked = null;
        readAddress(this);
        this.setTheme(this.dark);
    }

    onCanvas(canvas, draw) {
        const {paper} = this, w = paper ? paper.w : canvas.clientWidth;
        const h = !paper ? canvas.clientHeight : canvas === this.canvas ? paper.h : paper.memory;
        const density = Math.max(window.devicePixelRatio || 1, paper ? 3 : 0);
        if (canvas.width !== Math.round(w * density)) canvas.width = Math.round(w * density);
        if (canvas.height !== Math.round(h * density)) canvas.height = Math.round(h * density);
        const g = canvas.getContext("2d");
        g.setTransform(density, 0, 0, density, 0, 0);
        draw(g, w, h, density);
    }

    /* The overview is drawn once; only the frame of the visible part is redrawn each time. */
    drawOverview(stale) {
        const {clientWidth: w, clientHeight: h} = this.overview;
        const density = window.devicePixelRatio || 1, wide = Math.round(w * density);
        if (!this.small || stale || this.small.width !== wide) {
            this.small = document.createElement("canvas");
            this.small.width = wide;
            this.small.height = Math.round(h * density);
            const g = this.small.getContext("2d");
            g.setTransform(density, 0, 0, density, 0, 0);
            this.now.small.drawOverview(g, w, h, density);
        }
        this.onCanvas(this.overview, (g) => {
            const [x, y, wide, high] = this.now.frame(w, h);
            g.drawImage(this.small, 0, 0, w, h);
            g.fillStyle = this.dark ? "rgba(0, 0, 0, 0.55)" : "rgba(90, 105, 120, 0.28)";
            g.beginPath();
            g.rect(this.mode === "time" ? GUTTER : 0, 0, w, h);
            g.rect(x, y, wide, high);
            g.fill("evenodd");
            g.strokeStyle = this.dark ? "#6cb0ff" : "#1f6feb";
            g.strokeRect(x, y + 0.5, wide, high - 1);
            g.fillStyle = this.dark ? "#9aa8b5" : "#5c6b78";
            g.font = "11px system-ui, sans-serif";
            if (this.mode === "time") g.fillText("overview", 10, h / 2 + 4);
        });
    }

    showButtons() {
        const tables = document.body.classList.contains("tables");
        for (const mode of ["time", "graph"])
            document.getElementById("mode-" + mode)
                .classList.toggle("on", !tables && this.mode === mode);
        document.getElementById("mode-table").classList.toggle("on", tables);
        document.getElementById("critical").classList.toggle("on", this.critical);
        document.getElementById("side").classList.toggle("on", this.panel);
        document.body.classList.toggle("alone", !this.panel);
        document.body.classList.toggle("graph", this.mode === "graph");
        document.body.classList.toggle("remember", this.memory && hasMemory(this));
        document.body.classList.toggle("measuring", this.mode === "time" && this.area !== null &&
            !this.selected);
        document.getElementById("area").classList.toggle("on", this.selecting);
        for (const id of ["mode-time", "mode-graph", "mode-table", "area", "critical", "side"]) {
            const button = document.getElementById(id);
            button.setAttribute("aria-pressed", String(button.classList.contains("on")));
        }
        document.getElementById("colour").value = this.colour;
        document.getElementById("level").value = String(this.level);
        document.getElementById("rank").value = this.graphRanks.join();
        const found = document.getElementById("found");
        found.textContent = this.hits ? this.hits.text(this) : "";
        found.title = this.hits && this.hits.hiddenIn(this) > 0
            ? "Hidden in the legend: click a kind to show it" : "";
    }

    /* Prints with the light theme, at the printer's resolution, and as large as fits a page. */
    setPrinting(on) {
        if (on === (this.paper !== null)) return;
        const page = document.getElementById("page");
        if (on) {
            this.before =
                {dark: this.dark, z: this.z, gx: this.gx, gy: this.gy, scroll: this.scroll};
            this.paper = document.body.classList.contains("tables") ? {} : this.now.paper();
            Object.assign(this, this.paper.view);
        } else {
            this.paper = null;
            Object.assign(this, this.before);
        }
        for (const {style} of [this.canvas, document.getElementById("memory")])
            style.width = on && this.paper.w ? this.paper.w + "px" : "";
        page.textContent = on && this.paper.upright ? "@page { size: portrait; }" : "";
        this.setTheme(on ? false : this.dark);
        this.draw();
    }

    chooseTheme(dark) {
        this.ask();
        this.setTheme(dark);
    }

    setTheme(dark) {
        this.dark = dark;
        document.documentElement.classList.toggle("dark", dark);
        this.palette = makePalette(this.traces[0].head, dark, this.csv);
        this.redraw("all");
    }

    /* ---- View ---- */

    zoom(factor, x, y) {
        this.ask("later");
        this.now.zoom(factor, x, y);
    }

    move(dx, dy) {
        this.now.move(dx, dy);
    }

    fit() {
        this.ask();
        this.now.fit();
    }

    reveal(at, close) {
        if (close) this.ask();
        this.now.reveal(at, close);
    }

    /* at: {trace, t, r, i}: the trace and its index, the index of the rank, and the node; null: no
       selection. */
    select(at, show) {
        if ((at && at.trace ? this.keyOf(at) : null) !== this.keyOf(this.selected)) this.ask();
        this.selected = at && at.trace ? at : null;
        if (this.selected) {
            this.panel = true;
            this.speak(spokenOp(this, this.selected));
        }
        if (this.selected && show) this.reveal(at);
        this.redraw("all");
    }

    keyOf(at) {
        return at && [at.t, at.r, at.i].join();
    }

    find(query) {
        const begin = performance.now();
        this.query = query.trim();
        for (const trace of this.traces) if (trace.cache.size > 20000) trace.forget();
        this.hits = this.query === "" ? null : new Hits(this, this.query);
        this.findMs = performance.now() - begin;
        this.redraw("all");
    }

    goHit(by) {
        const at = this.hits && this.hits.go(by);
        if (at) this.select(at, true);
    }

    toggleCategory(name) {
        this.ask();
        if (!this.hidden.delete(name)) this.hidden.add(name);
        this.version = [...this.hidden].sort().join();
        this.redraw("all");
    }

    onlyCategory(name) {
        this.ask();
        this.hidden =
            new Set(this.categories.map(([other]) => other).filter((other) => other !== name));
        this.version = [...this.hidden].sort().join();
        this.redraw("all");
    }

    canColour(name) {
        return Object.hasOwn(METRICS, name) && (name !== "change" || this.traces.length > 1) &&
            (name !== "csv" || this.csv !== null);
    }

    setColour(name) {
        this.ask();
        this.colour = this.canColour(name) ? name : "category";
        this.redraw("all");
    }

    nextColour() {
        const names = this.colourNames();
        this.setColour(names[(names.indexOf(this.colour) + 1) % names.length]);
    }

    setCritical(on) {
        if (on && this.traces[0].head.pathless)
            return this.say("The critical path needs a trace from: syntorch convert pytorch");
        this.ask();
        this.critical = on;
        this.redraw("all");
    }

    /* Shows ranks lane by lane, or with one line each. */
    setLanes(on) {
        this.ask();
        this.lanes = on;
        this.open.clear();
        this.redraw();
    }

    compareWith(trace) {
        this.changeTraces([this.traces[0], trace]);
    }

    /* Replaces the traces by one that was opened. */
    showTrace(trace) {
        document.title = trace.head.title;
        this.notes.clear();
        this.changeTraces([trace]);
        this.mode = usualMode(this);
    }

    changeTraces(traces) {
        this.setTraces(traces);
        this.modes.graph.picture.stale = true;
        this.selected = this.area = null;
        this.memoryAt = {t: 0, r: 0};
        this.open.clear();
        this.opened.clear();
        this.find(this.query || "");
        this.setTheme(this.dark);
    }

    /* ---- The graph ---- */

    setMode(mode) {
        this.ask();
        this.mode = mode;
        document.body.classList.remove("tables");
        document.body.classList.toggle("graph", mode === "graph");
        if (mode === "graph" && this.selected) this.reveal(this.selected);
        this.redraw("all");
    }

    relayout() {
        this.modes.graph.picture.stale = true;
        this.redraw("all");
    }

    setLevel(level) {
        this.ask();
        this.level = level >= 1 && level <= 3 ? level : 2;
        this.opened.clear();
        this.z = 0;
        this.relayout();
    }

    setGraphRanks(ranks) {
        this.ask();
        this.graphRanks = ranks;
        this.z = 0;
        this.relayout();
    }

    setRank(text) {
        this.setGraphRanks(text.split(",").map(Number));
    }

    setViews(on) {
        this.ask();
        this.views = on;
        this.relayout();
    }

    isOpen(item, depth) {
        const own = this.opened.get(item.path);
        return own !== undefined ? own : depth <= this.level || this.level === 3;
    }

    setOpen(item, open) {
        this.ask();
        this.opened.set(item.path, open);
        this.relayout();
    }

    toggleFold(path) {
        this.ask();
        if (!this.unfolded.delete(path)) this.unfolded.add(path);
        this.relayout();
    }

    setPanel(on) {
        this.panel = on;
        this.redraw("all");
    }

    setTables(on) {
        this.ask();
        if (on) showTables(this);
        document.body.classList.toggle("tables", on);
        this.redraw("all");
    }

    /* Selects the op before or after the selected one in its row. */
    step(by) {
        if (!this.selected) return this.select(firstVisible(this), true);
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

    /* Lets screen readers say what was selected or read. */
    speak(text) {
        document.getElementById("spoken").textContent = text;
    }

    byId(t, rank, id) {
        const trace = this.traces[t];
        const r = trace ? trace.ranks.findIndex((k) => k.rank === rank) : -1;
        const i = r >= 0 ? trace.column(r, "id").indexOf(id) : -1;
        return i >= 0 ? {trace, t, r, i} : null;
    }
}
