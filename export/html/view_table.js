/* Tables that can be sorted, filtered and copied as CSV. A column is {name, unit, value, key, text,
   kind}: value(row) is the number or string that the CSV contains; rows are sorted by it, or by
   key(row) if there is one; text(row) is the text of the cell. */

const MOST_ROWS = 400; /* of a table; its CSV has all rows */

class DataTable {
    /* id: names the table in the address. The first column names the row; rows are sorted by column
       number `usual` first. */
    constructor(view, id, columns, rows, usual) {
        Object.assign(this, {view, id, columns, rows});
        const own = view.tables.get(id) || {};
        const by = columns.findIndex(({name}) => name === own.by);
        this.by = by >= 0 ? by : usual;
        this.up = by >= 0 ? own.up === true : this.by === 0;
        this.element = make("div", null, {class: "data"});
        this.query = make("input", null, {type: "search", placeholder: "Filter rows",
            "aria-label": "Filter rows by " + columns[0].name});
        this.query.value = own.query || "";
        this.query.oninput = () => this.change();
        this.count = make("output");
        const copy = make("button", "Copy as CSV"), tools = make("div", null, {class: "tools"});
        copy.onclick = () => copyText(view, this.csv(), "The table is in the clipboard as CSV.");
        tools.append(this.query, this.count, copy);
        const table = make("table"), top = make("thead"), head = make("tr");
        this.heads = columns.map((column, c) => {
            const th = make("th", null, {scope: "col"}), button = make("button", column.name);
            button.onclick = () => this.sort(c);
            th.append(button);
            return th;
        });
        this.body = make("tbody");
        head.append(...this.heads);
        top.append(head);
        table.append(top, this.body);
        const scroll = make("div", null, {class: "scroll"});
        scroll.append(table);
        this.element.append(tools, scroll);
        this.show();
    }

    /* Sorts by a column: numbers by the largest first, names by the alphabet; then the reverse. */
    sort(by) {
        this.up = by === this.by ? !this.up : by === 0;
        this.by = by;
        this.change();
    }

    change() {
        const {by, up, columns, query} = this;
        this.view.tables.set(this.id, {by: columns[by].name, up, query: query.value});
        this.show();
        this.view.noteAddress();
    }

    visible() {
        const words = this.query.value.toLowerCase().split(/\s+/), [name] = this.columns;
        const {value, key = value} = this.columns[this.by], sign = this.up ? 1 : -1;
        const compare = (a, b) => typeof a === "string"
            ? a.localeCompare(b, "en", {numeric: true}) : a - b;
        return this.rows.filter((row) => {
            const text = name.text(row).toLowerCase();
            return words.every((word) => text.includes(word));
        }).sort((a, b) => sign * compare(key(a), key(b)));
    }

    show() {
        const rows = this.visible();
        this.heads.forEach((th, c) => {
            if (c === this.by) th.setAttribute("aria-sort", this.up ? "ascending" : "descending");
            else th.removeAttribute("aria-sort");
        });
        fill(this.body, ...rows.slice(0, MOST_ROWS).map((row) => this.line(row)));
        this.count.textContent = rows.length > MOST_ROWS
            ? "first " + MOST_ROWS + " of " + plural(rows.length, "row")
            : plural(rows.length, "row");
    }

    line(row) {
        const tr = make("tr");
        this.columns.forEach(({text, kind}, c) => {
            const cell = c === 0 ? make("th", text(row), {scope: "row"}) : make("td", text(row));
            if (kind) cell.className = kind(row);
            tr.append(cell);
        });
        return tr;
    }

    csv() {
        const line = (cells) => cells.map(csvCell).join() + "\n";
        return line(this.columns.map(({name, unit}) => unit ? name + " (" + unit + ")" : name)) +
            this.visible().map((row) => line(this.columns.map(({value}) => value(row)))).join("");
    }
}

function csvCell(value) {
    const text = typeof value === "number" ? String(Math.round(value * 1000) / 1000) : value;
    return /[",\r\n]/.test(text) ? "\"" + text.replace(/"/g, "\"\"") + "\"" : text;
}

/* Browsers without the clipboard interface, or that deny it, copy a selection instead. */
async function copyText(view, text, said) {
    try {
        await navigator.clipboard.writeText(text);
    } catch {
        const area = make("textarea"), focus = document.activeElement;
        area.value = text;
        document.body.append(area);
        area.select();
        const done = document.execCommand("copy");
        area.remove();
        if (focus) focus.focus();
        if (!done) return view.say("The browser does not allow copying.");
    }
    view.say(said);
}

/* ---- Sums ---- */

const NO_SUM = {calls: 0, ns: 0, wait: 0, flops: 0, bytes: 0};

/* Columns of sums {name, calls, ns, wait, flops, bytes}. */
function sumColumns(what, rows, timed) {
    const number = (name, key, unit, text) => ({name, unit, value: (row) => row[key],
        text: (row) => text(row[key])});
    const all = rows.reduce((sum, row) => sum + row.ns, 0);
    return [
        {name: what, value: (row) => row.name, text: (row) => row.name || "(top level)"},
        number("calls", "calls", "", (n) => n.toLocaleString("en")),
        ...timed ? [
            number("time", "ns", "ns", duration),
            {name: "share", unit: "%", value: (row) => all > 0 ? 100 * row.ns / all : 0,
                text: (row) => (all > 0 ? 100 * row.ns / all : 0).toFixed(1) + " %"},
        ] : [],
        ...timed && rows.some((row) => row.wait > 0)
            ? [number("wait", "wait", "ns", duration)] : [],
        number("flops", "flops", "FLOP", (v) => amount(v, "FLOP")),
        number("bytes", "bytes", "B", (v) => amount(v, "B")),
    ];
}

function sumTable(view, id, what, rows) {
    const timed = view.clock !== "order";
    return new DataTable(view, id, sumColumns(what, rows, timed), rows, timed ? 2 : 1).element;
}

const SUM_NAMES = [
    ["op", (trace, r, i) => trace.text(r, i, "op")],
    ["layer", (trace, r, i) => layerOf(trace.text(r, i, "scope"))],
    ["rank", (trace, r) => "rank " + trace.ranks[r].rank],
];

/* Replaces the tables of the file by tables of the current traces that can be sorted. */
function showTables(view) {
    if (view.tabled === view.traces) return;
    view.tabled = view.traces;
    document.querySelectorAll(".table:not(#comparison)").forEach((old) => old.remove());
    view.traces.forEach((trace, t) => {
        const section = make("section", null, {class: "table"});
        section.append(make("h2", labelsOf(view.traces)[t]));
        for (const [what, nameOf] of SUM_NAMES) {
            const rows = [...sumsBy(trace, nameOf)].map(([name, sum]) => ({name, ...sum}));
            section.append(make("h3", "By " + what),
                sumTable(view, "AB"[t] + "-" + what, what, rows));
        }
        document.body.append(section);
    });
}
