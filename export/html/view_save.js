/* Saves the view as SVG or PNG: the title, the legend, the picture and the memory curve. */

const SHEET = {title: 30, row: 20, margin: 10};

/* Draws the view as a sheet, and returns its size if g is null. */
function drawSheet(view, g, density) {
    const {clientWidth: w, clientHeight: h} = view.canvas;
    const memory = document.getElementById("memory").clientHeight;
    const rows = legendRows(view, w), top = SHEET.title + rows.length * SHEET.row + 4;
    if (!g) return [w, top + h + memory];
    const ink = view.dark ? "#e4eaf0" : "#1d2730";
    g.fillStyle = view.palette.back;
    g.fillRect(0, 0, w, top + h + memory);
    g.font = "600 15px system-ui, sans-serif";
    g.textBaseline = "middle";
    g.textAlign = "left";
    drawText(g, labelsOf(view.traces).join("  |  "), SHEET.margin, SHEET.title / 2, w - 20, ink);
    g.font = "12px system-ui, sans-serif";
    rows.forEach((row, k) => {
        for (const {x, text, colours} of row) {
            const y = SHEET.title + k * SHEET.row, wide = colours.length > 1 ? 4 : 11;
            colours.forEach((colour, c) => {
                g.fillStyle = colour;
                g.fillRect(x + c * wide, y + 4, wide, 11);
            });
            g.fillStyle = ink;
            g.fillText(text, x + colours.length * wide + 5, y + 10);
        }
    });
    const part = (y, high, draw) => {
        g.save();
        g.translate(0, y);
        g.beginPath();
        g.rect(0, 0, w, high);
        g.clip();
        draw();
        g.restore();
    };
    part(top, h, () => view.picture.draw(g, w, h, density));
    if (memory > 0) part(top + h, memory, () => drawMemory(view, g, w, memory));
}

/* The entries of the legend in rows: {x, text, colours}. */
function legendRows(view, width) {
    const entries = [], g = document.createElement("canvas").getContext("2d");
    g.font = "12px system-ui, sans-serif";
    for (const child of document.getElementById("legend").children) {
        const sample = child.querySelector("i:not(.line)"), colours = [];
        if (child.className === "hint" || child.classList.contains("off") ||
            child.querySelector("i.line")) continue;
        if (sample) colours.push(sample.style.background);
        if (child.className === "ramp")
            for (let k = 0; k < RAMP_STEPS; k++) colours.push(view.palette.css[k +
                (view.colour === "change" ? CHANGE : RAMP)]);
        entries.push({text: child.textContent, colours});
    }
    const rows = [[]];
    let x = SHEET.margin;
    for (const entry of entries) {
        const wide = textWidth(g, entry.text) + 22 +
            entry.colours.length * (entry.colours.length > 1 ? 4 : 11);
        if (x + wide > width && x > SHEET.margin) {
            rows.push([]);
            x = SHEET.margin;
        }
        rows[rows.length - 1].push({...entry, x});
        x += wide;
    }
    return rows;
}

function svgOfView(view) {
    const g = new SvgContext(...drawSheet(view, null));
    drawSheet(view, g, 2);
    return g.text();
}

function hasPicture(view) {
    if (!document.body.classList.contains("tables")) return true;
    view.say("Tables are no picture: press t, then save.");
    return false;
}

function saveSvg(view) {
    if (!hasPicture(view)) return;
    saveFile(view, new Blob([svgOfView(view)], {type: "image/svg+xml"}), ".svg");
}

function savePng(view) {
    if (!hasPicture(view)) return;
    const canvas = document.createElement("canvas"), [w, h] = drawSheet(view, null);
    const density = Math.max(2, window.devicePixelRatio || 1), g = canvas.getContext("2d");
    canvas.width = Math.round(w * density);
    canvas.height = Math.round(h * density);
    g.scale(density, density);
    drawSheet(view, g, density);
    canvas.toBlob((blob) => saveFile(view, blob, ".png"), "image/png");
}

/* Offers a file as a download, named after the title. */
function saveFile(view, blob, ending) {
    const name = labelsOf(view.traces)[0].replace(/[^A-Za-z0-9.]+/g, "-")
        .replace(/^[-.]+|[-.]+$/g, "").slice(0, 60) || "trace";
    const a = make("a", null, {download: name + ending});
    a.href = URL.createObjectURL(blob);
    a.click();
    setTimeout(() => URL.revokeObjectURL(a.href), 60000);
    view.say(name + ending + " is saved.");
}
