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
    ["i o", "first input, first op that uses its output"],
    ["e", "timeline: all tracks, or one line per rank"],
    ["b", "this panel"], ["1 2 3", "graph: layers, blocks, ops"],
    ["v", "graph: views, which compute nothing"],
    ["l", "light or dark theme"], ["Esc", "clear selection and search"],
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
            document.getElementById("file").open = false;
            if (view.area) setArea(view, null);
            view.select(null);
            view.find("");
        },
    };
    if (!Object.hasOwn(actions, key)) return false;
    actions[key]();
    return true;
}

function openMenu() {
    document.getElementById("file").open = true;
    document.getElementById("open").focus();
}
