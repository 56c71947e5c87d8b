/* Fingers on the picture: two of them zoom and move it, and a double tap zooms in. A single finger
   acts as the mouse does. These listeners run before those of the mouse and withhold events from
   them. */

const TAP = {ms: 300, px: 30}; /* the longest pause and distance between the taps of a double tap */
const CLOSEST = 20;            /* pixels between two fingers; closer ones do not zoom further */

function listenTouch(view) {
    const {canvas} = view, fingers = new Map();
    let pinched = false, touched = false, down = null, tap = null;
    const endDrag = () => canvas.dispatchEvent(new PointerEvent("pointercancel"));
    const listen = (kind, withholds) => canvas.addEventListener(kind, (event) => {
        if (event.pointerType === "touch" && withholds(event, pointOn(canvas, event)))
            event.stopImmediatePropagation();
    });
    listen("pointerdown", (event, at) => {
        fingers.set(event.pointerId, at);
        pinched = fingers.size > 1;
        if (pinched) endDrag();
        else down = at;
        return pinched;
    });
    listen("pointermove", (event, at) => {
        const before = [...fingers.values()];
        if (fingers.has(event.pointerId)) fingers.set(event.pointerId, at);
        if (fingers.size > 1) pinch(view, before, [...fingers.values()]);
        return pinched;
    });
    listen("pointerup", (event, at) => {
        fingers.delete(event.pointerId);
        if (pinched) return true;
        const last = tap;
        tap = isNear(down, at) ? {at, time: event.timeStamp} : null;
        if (!tap || !last || tap.time - last.time > TAP.ms || !isNear(last.at, at)) return false;
        tap = null;
        endDrag();
        view.zoom(0.5, ...at);
        return true;
    });
    listen("pointercancel", (event) => {
        fingers.delete(event.pointerId);
        return false;
    });
    canvas.addEventListener("pointerdown", (event) => { touched = event.pointerType === "touch"; });
    canvas.addEventListener("dblclick", (event) => {
        if (touched) event.stopImmediatePropagation();
    });
}

function isNear(a, b) {
    return Math.hypot(a[0] - b[0], a[1] - b[1]) <= TAP.px;
}

/* Moves and zooms the picture as two fingers moved: from the points a and b to c and d. */
function pinch(view, [a, b], [c, d]) {
    const spread = (p, q) => Math.max(CLOSEST, Math.hypot(p[0] - q[0], p[1] - q[1]));
    const x = (a[0] + b[0]) / 2, y = (a[1] + b[1]) / 2;
    view.zoom(spread(a, b) / spread(c, d), x, y);
    view.move(x - (c[0] + d[0]) / 2, y - (c[1] + d[1]) / 2);
}
