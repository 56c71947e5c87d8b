/* Mouse, keys, buttons and dropped files. */

function listen(view) {
    listenMouse(view);
    listenOverview(view);
    listenButtons(view);
    document.addEventListener("keydown", (event) => {
        if (event.ctrlKey || event.metaKey || event.altKey) return;
        if (event.target.closest("input, select")) {
            if (event.key !== "Escape") return;
            event.target.blur();
            if (event.target.id !== "query") return;
        }
        if (pressKey(view, event.key)) event.preventDefault();
    });
    addEventListener("beforeprint", () => view.setPrinting(true));
    addEventListener("afterprint", () => view.setPrinting(false));
    addEventListener("resize", () => {
        if (!view.paper) view.redraw("all");
    });
    addEventListener("popstate", () => view.goAddress());
    listenFiles(view);
}

function pointOn(canvas, event) {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
}

function listenMouse(view) {
    const canvas = view.canvas;
    let from = null, moved = false;
    canvas.addEventListener("pointerdown", (event) => {
        from = pointOn(canvas, event);
        moved = false;
        canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
        const [x, y] = pointOn(canvas, event);
        if (!from) {
            const at = view.picture.find(x, y);
            canvas.style.cursor = at || view.picture.rankAt(x, y) ? "pointer" : "";
            showTip(view, at, x, y);
            return;
        }
        if (!moved && Math.hypot(x - from[0], y - from[1]) < 4) return;
        moved = true;
        canvas.classList.add("dragging");
        showTip(view, null);
        view.move(from[0] - x, from[1] - y);
        from = [x, y];
    });
    canvas.addEventListener("pointerup", (event) => {
        if (from && !moved) {
            canvas.focus();
            view.now.click(...pointOn(canvas, event));
        }
        from = null;
        canvas.classList.remove("dragging");
    });
    canvas.addEventListener("pointerleave", () => showTip(view, null));
    canvas.addEventListener("dblclick", () => {
        if (view.selected) view.reveal(view.selected, true);
    });
    canvas.addEventListener("wheel", (event) => {
        const [x, y] = pointOn(canvas, event), unit = event.deltaMode === 1 ? 30 : 1;
        event.preventDefault();
        showTip(view, null);
        if (event.shiftKey || x < GUTTER && view.mode === "time")
            view.move(0, (event.deltaY || event.deltaX) * unit);
        else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) view.move(event.deltaX * unit, 0);
        else view.zoom(Math.exp(event.deltaY * unit * 0.0016), x, y);
    }, {passive: false});
}

function listenOverview(view) {
    const canvas = view.overview;
    const go = (event) => {
        if (event.buttons === 0) return;
        view.now.go(...pointOn(canvas, event), canvas.clientWidth, canvas.clientHeight);
    };
    canvas.addEventListener("pointerdown", (event) => {
        canvas.setPointerCapture(event.pointerId);
        go(event);
    });
    canvas.addEventListener("pointermove", go);
}

function listenButtons(view) {
    const on = (id, what) => { document.getElementById(id).onclick = what; };
    on("mode-time", () => view.setMode("time"));
    on("mode-graph", () => view.setMode("graph"));
    on("mode-table", () => view.setTables(!document.body.classList.contains("tables")));
    on("critical", () => view.setCritical(!view.critical));
    on("fit", () => view.fit());
    on("theme", () => view.chooseTheme(!view.dark));
    on("side", () => view.setPanel(!view.panel));
    on("help", () => view.help());
    document.getElementById("colour").onchange = (event) => view.setColour(event.target.value);
    document.getElementById("level").onchange = (event) =>
        view.setLevel(Number(event.target.value));
    document.getElementById("rank").onchange = (event) => view.setRank(event.target.value);
    const query = document.getElementById("query");
    query.addEventListener("input", () => view.find(query.value));
    query.addEventListener("keydown", (event) => {
        if (event.key === "Enter") view.goHit(event.shiftKey ? -1 : 1);
    });
}

/* Handles a key. Returns false if the key has no function. */
function pressKey(view, key) {
    const middle = view.canvas.clientWidth / 2 + GUTTER / 2, far = view.canvas.clientWidth / 8;
    const height = view.canvas.clientHeight / 2;
    const actions = {
        w: () => view.zoom(0.75, middle, height), s: () => view.zoom(1 / 0.75, middle, height),
        "+": () => view.zoom(0.75, middle, height), "-": () => view.zoom(1 / 0.75, middle, height),
        a: () => view.move(-far, 0), d: () => view.move(far, 0),
        ArrowLeft: () => view.move(-far, 0), ArrowRight: () => view.move(far, 0),
        ArrowUp: () => view.move(0, -60), ArrowDown: () => view.move(0, 60),
        0: () => view.fit(), Home: () => view.fit(),
        g: () => view.setMode(view.mode === "time" ? "graph" : "time"),
        t: () => view.setTables(!document.body.classList.contains("tables")),
        "/": () => document.getElementById("query").focus(),
        n: () => view.goHit(1), p: () => view.goHit(-1),
        c: () => view.setCritical(!view.critical),
        k: () => view.nextColour(),
        l: () => view.chooseTheme(!view.dark),
        e: () => view.setLanes(!view.lanes),
        v: () => view.setViews(!view.views),
        1: () => view.setLevel(1), 2: () => view.setLevel(2), 3: () => view.setLevel(3),
        Enter: () => { if (view.selected) view.reveal(view.selected, true); },
        "[": () => view.step(-1), "]": () => view.step(1),
        i: () => view.select(view.selected && sourcesOf(view.selected)[0] || view.selected, true),
        o: () => view.select(view.selected && usersOf(view.selected)[0] || view.selected, true),
        b: () => view.setPanel(!view.panel),
        "?": () => view.help(),
        Escape: () => {
            document.getElementById("query").value = "";
            view.select(null);
            view.find("");
        },
    };
    if (!Object.hasOwn(actions, key)) return false;
    actions[key]();
    return true;
}

/* A dropped report becomes trace B. */
function listenFiles(view) {
    document.addEventListener("dragover", (event) => event.preventDefault());
    document.addEventListener("drop", async (event) => {
        event.preventDefault();
        const file = event.dataTransfer.files[0];
        if (!file) return;
        try {
            const trace = await readPage(await file.text());
            trace.head.source = file.name;
            view.compareWith(trace);
        } catch (error) {
            view.say(file.name + ": " + error.message);
        }
    });
}

async function readPage(text) {
    const page = new DOMParser().parseFromString(text, "text/html"); /* does not run scripts */
    const element = page.getElementById("trace0");
    if (!element || element.type !== "text/plain")
        throw new Error("not an HTML report of syntorch export --format html");
    return new Trace(await unpack(element));
}
