/* Keys: what they do, and their list in the panel. */

const KEYS = [
    ["w s, wheel", "zoom in, out"], ["a d, \u2190 \u2192", "move left, right"],
    ["\u2191 \u2193", "move up, down"], ["0", "show everything"], ["g", "timeline or graph"],
    ["t", "tables"], ["/", "find"], ["n p", "next, previous search result"],
    ["x, shift drag", "timeline: select what is visible, an area"],
    ["m M", "timeline: memory curve; of the next rank"],
    ["f", "open or save a file"],
    ["N", "note at the selected op"],
    ["c", "critical path, and slack of each op"], ["k", "next colour scheme"],
    ["Enter", "zoom to the selected op"], ["[ ]", "previous, next op of the track"],
    ["{ }", "op at the same time on the track above, below"],
    ["i o", "first input, first op that uses its output"],
    ["e", "timeline: all tracks, or one line per rank"],
    ["u", "timeline: fold or unfold threads of one kind"],
    ["b", "this panel"], ["1 2 3", "graph: layers, blocks, ops"],
    ["Space", "graph: open or close the box of the selected op"],
    ["r", "graph: show repeated boxes one by one, or once"],
    ["v", "graph: views, which compute nothing"],
    ["l", "light or dark theme"], ["Esc", "clear selection and search, leave Select"],
];

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
        x: () => areaOfScreen(view),
        m: () => {
            view.ask();
            view.memory = !view.memory;
            view.redraw("all");
        },
        M: () => nextMemory(view),
        f: () => openMenu(),
        N: () => focusNote(view),
        c: () => view.setCritical(!view.critical),
        k: () => view.nextColour(),
        l: () => view.chooseTheme(!view.dark),
        e: () => view.setLanes(!view.lanes),
        u: () => setThreads(view, !view.threads),
        v: () => view.setViews(!view.views),
        1: () => view.setLevel(1), 2: () => view.setLevel(2), 3: () => view.setLevel(3),
        Enter: () => { if (view.selected) view.reveal(view.selected, true); },
        "[": () => view.step(-1), "]": () => view.step(1),
        "{": () => stepTrack(view, -1), "}": () => stepTrack(view, 1),
        " ": () => toggleBox(view),
        r: () => toggleRepeats(view),
        i: () => view.select(view.selected && sourcesOf(view.selected)[0] || view.selected, true),
        o: () => view.select(view.selected && usersOf(view.selected)[0] || view.selected, true),
        b: () => view.setPanel(!view.panel),
        "?": () => showKeys(view),
        Escape: () => {
            document.getElementById("query").value = "";
            document.getElementById("file").open = false;
            view.selecting = false;
            if (view.area) setArea(view, null);
            view.select(null);
            view.find("");
        },
    };
    if (!Object.hasOwn(actions, key)) return false;
    actions[key]();
    return true;
}

/* Shows the list of keys in the panel, which has it if nothing is selected. */
function showKeys(view) {
    if (document.body.classList.contains("tables")) view.setTables(false);
    if (view.area) setArea(view, null);
    view.select(null);
    view.setPanel(true);
    view.draw();
    const heading = document.querySelector("#panel h3.keys");
    heading.scrollIntoView();
    heading.focus();
}

function openMenu() {
    document.getElementById("file").open = true;
    document.getElementById("open").focus();
}

/* The first op that is visible in the timeline, if no other is selected. */
function firstVisible(view) {
    for (const {trace, t, r} of rowNumbers(view))
        for (const {nodes, e} of rowsOf(trace, r)) {
            const k = firstAbove(e, view.t0);
            if (k < nodes.length) return {trace, t, r, i: nodes[k]};
        }
    return null;
}

/* Selects the op that runs at the time of the selected one on another track. */
function stepTrack(view, by) {
    const at = view.selected;
    if (!at) return view.select(firstVisible(view), true);
    const rows = rowNumbers(view).flatMap(({trace, t, r}) =>
        rowsOf(trace, r).map((row) => ({trace, t, r, row})));
    let k = rows.findIndex(({trace, r, row}) =>
        trace === at.trace && r === at.r && row.nodes.includes(at.i));
    const {start} = at.trace.span(at.r);
    for (k += by; rows[k]; k += by) {
        const {row, ...of} = rows[k];
        if (row.nodes.length === 0) continue;
        const found = Math.min(firstAbove(row.e, start[at.i]), row.nodes.length - 1);
        return view.select({...of, i: row.nodes[found]}, true);
    }
}

/* The item of the graph that draws the selected op, or null. */
function selectedItem(view) {
    const at = view.selected, {parts} = view.modes.graph.picture;
    const part = at && view.mode === "graph" && parts &&
        parts.find(({trace, r}) => trace === at.trace && r === at.r);
    if (!part) view.say("Select an op in the graph first.");
    return part ? part.of[at.i] || null : null;
}

function toggleBox(view) {
    const item = selectedItem(view);
    if (!item) return;
    const box = item.what.kids ? item : item.parent;
    if (box.parent) view.setOpen(box.what, box.kids === null);
}

function toggleRepeats(view) {
    let item = selectedItem(view);
    while (item && !item.what.copies) item = item.parent;
    if (item) view.toggleFold(item.what.path);
}
