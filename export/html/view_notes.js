/* Notes of the user at ops. They are part of the address, so that a link contains them. */

const LONGEST_NOTE = 200; /* characters; addresses have a length limit */

function noteKey({trace, t, r, i}) {
    return "AB"[t] + trace.id(r, i);
}

/* The op at which a note is, or null. */
function notedOp(view, key) {
    const id = /^([AB])r([0-9]+)\.o([0-9]+)$/.exec(key);
    return id && view.byId("AB".indexOf(id[1]), Number(id[2]), Number(id[3]));
}

/* The field of the panel for a note at the selected op. */
function noteField(view, at) {
    const field = make("textarea", null, {id: "note-text", rows: "2", maxlength: LONGEST_NOTE,
        placeholder: "Your note at this op (N)", "aria-label": "Note at this op"});
    field.value = view.notes.get(noteKey(at)) || "";
    field.oninput = () => {
        const text = field.value.trim();
        if (text) view.notes.set(noteKey(at), text);
        else view.notes.delete(noteKey(at));
        view.redraw();
    };
    return field;
}

function focusNote(view) {
    if (!view.selected) return view.say("Select an op first: a note is at an op.");
    view.setPanel(true);
    view.draw();
    document.getElementById("note-text").focus();
}

/* Links to all ops with notes, for the panel. */
function noteLinks(view) {
    const links = [];
    for (const [key, text] of view.notes) {
        const at = notedOp(view, key);
        if (at) links.push(link(view, at, text, opName(at)));
    }
    return links.length > 0 ? [make("h3", "Notes"), ...links] : [];
}

/* Draws notes above their ops in the timeline. */
function drawNotes(view, g, box) {
    g.font = "11px system-ui, sans-serif";
    g.textBaseline = "middle";
    g.textAlign = "left";
    for (const [key, text] of view.notes) {
        const at = notedOp(view, key), place = at && view.picture.placeOf(at);
        if (!place || place.x1 < box.x || place.x0 > box.x + box.width) continue;
        const short = text.length > 40 ? text.slice(0, 39) + "\u2026" : text;
        const wide = textWidth(g, short) + 10, x = Math.max(box.x,
            Math.min(place.x0, box.x + box.width - wide)), y = place.y - 15;
        g.fillStyle = "#fff3b0";
        g.strokeStyle = "#b08800";
        g.lineWidth = 1;
        g.beginPath();
        g.rect(x, y, wide, 15);
        g.fill();
        g.stroke();
        g.fillStyle = "#10161c";
        g.fillText(short, x + 5, y + 8);
    }
}
