/* Mouse, keys, buttons and dropped files. */

function listen(view) {
    listenTouch(view);
    listenMouse(view);
    listenMemory(view);
    listenOverview(view);
    listenButtons(view);
    document.addEventListener("keydown", (event) => {
        if (event.ctrlKey || event.metaKey || event.altKey) return;
        if (event.target.closest("input, select, textarea, dialog")) {
            if (event.key !== "Escape" || event.target.closest("dialog")) return;
            event.target.blur();
            if (event.target.id !== "query") return;
        }
        if (["Enter", " "].includes(event.key) && event.target.closest("button, a, summary"))
            return;
        const scrolls = document.body.classList.contains("tables") ||
            event.target.closest("#panel");
        if (scrolls && (event.key === " " || event.key.startsWith("Arrow"))) return;
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
    let from = null, moved = false, drag = null;
    canvas.addEventListener("pointerdown", (event) => {
        from = pointOn(canvas, event);
        moved = false;
        const edge = edgeAt(view, from[0]), select = event.shiftKey || view.selecting;
        drag = view.mode === "time" && from[0] >= GUTTER && (edge || select)
            ? {edge, from, area: view.area} : null;
        canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
        const [x, y] = pointOn(canvas, event);
        if (!from) {
            const at = view.picture.find(x, y);
            canvas.style.cursor = edgeAt(view, x) ? "ew-resize"
                : at || view.picture.rankAt(x, y) ? "pointer"
                : view.selecting || event.shiftKey ? "crosshair" : "";
            if (view.mode === "time") moveCursor(view, x);
            showTip(view, at, x, y);
            return;
        }
        if (!moved && Math.hypot(x - from[0], y - from[1]) < 4) return;
        moved = true;
        canvas.classList.add("dragging");
        showTip(view, null);
        if (drag) {
            view.drawnArea = areaWhile(view, drag, [x, y]);
            return view.redraw();
        }
        view.move(from[0] - x, from[1] - y);
        from = [x, y];
    });
    canvas.addEventListener("pointerup", (event) => {
        if (from && !moved) {
            canvas.focus();
            view.now.click(...pointOn(canvas, event));
        }
        if (drag && moved) setArea(view, view.drawnArea);
        from = drag = null;
        canvas.classList.remove("dragging");
    });
    canvas.addEventListener("pointercancel", () => {
        from = drag = view.drawnArea = null;
        canvas.classList.remove("dragging");
        view.redraw();
    });
    canvas.addEventListener("pointerleave", () => {
        showTip(view, null);
        moveCursor(view, -1);
    });
    canvas.addEventListener("dblclick", () => {
        if (view.selected) view.reveal(view.selected, true);
    });
    canvas.addEventListener("wheel", (event) => wheel(view, event), {passive: false});
}

function wheel(view, event) {
    const [x, y] = pointOn(view.canvas, event), unit = event.deltaMode === 1 ? 30 : 1;
    event.preventDefault();
    showTip(view, null);
    if (event.shiftKey || x < GUTTER && view.mode === "time")
        view.move(0, (event.deltaY || event.deltaX) * unit);
    else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) view.move(event.deltaX * unit, 0);
    else view.zoom(Math.exp(event.deltaY * unit * 0.0016), x, y);
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
    on("area", () => {
        view.selecting = !view.selecting;
        view.redraw("all");
    });
    const menu = document.getElementById("file");
    const chosen = (id, what) => on(id, () => {
        menu.open = false;
        what();
    });
    chosen("save-svg", () => saveSvg(view));
    chosen("save-png", () => savePng(view));
    chosen("open", () => document.getElementById("files").click());
    document.addEventListener("pointerdown", (event) => {
        if (!menu.contains(event.target)) menu.open = false;
    });
    on("critical", () => view.setCritical(!view.critical));
    on("fit", () => view.fit());
    on("theme", () => view.chooseTheme(!view.dark));
    on("side", () => view.setPanel(!view.panel));
    on("help", () => showKeys(view));
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
