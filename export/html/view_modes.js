/* Navigation in each picture, by mouse and keys: zoom around a point, pan by pixels, show
   everything, show an op, the frame of the visible part in the overview, and the layout for
   printing. */

/* Size in CSS pixels left for the picture by title and legend, on both A4 and Letter. */
const PAGE = {w: 960, h: 590}, UPRIGHT = {w: 700, h: 850};
const READABLE = 0.35; /* smallest scale at which a graph is readable on paper */

class TimeMode {
    constructor(view) {
        this.view = view;
        this.picture = new TimePicture(view);
        this.small = new TimePicture(view);
    }

    get width() {
        return Math.max(1, this.view.canvas.clientWidth - GUTTER);
    }

    setWindow(t0, t1) {
        const view = this.view, whole = view.end - view.begin;
        const width = Math.max(2, Math.min(t1 - t0, whole));
        view.t0 = Math.max(view.begin, Math.min(t0, view.end - width));
        view.t1 = view.t0 + width;
        view.redraw();
    }

    zoom(factor, x) {
        const {t0, t1} = this.view, at = t0 + (x - GUTTER) / this.width * (t1 - t0);
        this.setWindow(at - (at - t0) * factor, at + (t1 - at) * factor);
    }

    move(dx, dy) {
        const view = this.view, by = dx * (view.t1 - view.t0) / this.width;
        view.scroll += dy;
        this.setWindow(view.t0 + by, view.t1 + by);
    }

    fit() {
        this.view.scroll = 0;
        this.setWindow(this.view.begin, this.view.end);
    }

    /* Moves the window so that it contains an op, and zooms so that the op is visible. */
    reveal(at, close) {
        const view = this.view, {start, end} = at.trace.span(at.r), s = start[at.i], e = end[at.i];
        if (at.trace.column(at.r, "lane")[at.i] === 0) return view.say(isView(at)
            ? "A view takes no time and is only in the graph: press g, then Enter."
            : "This op took no time, so it is not drawn.");
        const width = view.t1 - view.t0, middle = (s + e) / 2;
        if (close || e - s < 3 * width / this.width || e - s > width) {
            const wide = Math.max(20 * (e - s), 60);
            this.setWindow(middle - wide / 2, middle + wide / 2);
        } else if (s < view.t0 || e > view.t1) {
            this.setWindow(middle - width / 2, middle + width / 2);
        }
        if (!this.picture.layout) return;
        const place = this.picture.placeOf(at), height = view.canvas.clientHeight;
        if (place && (place.y < AXIS || place.y + place.h > height))
            view.scroll += place.y - height / 2;
    }

    /* The visible part, in the overview: [x, y, w, h]. */
    frame(w, h) {
        const view = this.view, scale = (w - GUTTER) / (view.end - view.begin);
        const x = GUTTER + (view.t0 - view.begin) * scale;
        return [x, 0, Math.max(2, (view.t1 - view.t0) * scale), h];
    }

    /* Centres the visible part on a point of the overview. */
    go(x, y, w) {
        const view = this.view, half = (view.t1 - view.t0) / 2;
        const at = view.begin + (x - GUTTER) / (w - GUTTER) * (view.end - view.begin);
        this.setWindow(at - half, at + half);
    }

    /* Prints what the screen shows, without empty space below. */
    paper() {
        const memory = document.getElementById("memory").clientHeight, most = PAGE.h - memory;
        const {total} = timeLayout(this.view, most);
        return {w: PAGE.w, h: Math.min(most, total + RANK_GAP), memory};
    }

    click(x, y) {
        const view = this.view, rank = this.picture.rankAt(x, y);
        if (this.picture.threadsAt(x, y)) return setThreads(view, true);
        if (!rank) return view.select(this.picture.find(x, y), false);
        view.ask();
        view.open.set(rank.t + "." + rank.trace.ranks[rank.r].rank, !rank.full);
        view.redraw();
    }
}

class GraphMode {
    constructor(view) {
        this.view = view;
        this.picture = this.small = new GraphPicture(view);
    }

    zoom(factor, x, y) {
        const view = this.view, z = Math.max(0.01, Math.min(3, view.z / factor));
        view.gx += x / view.z - x / z;
        view.gy += y / view.z - y / z;
        view.z = z;
        view.fitted = false;
        view.redraw();
    }

    move(dx, dy) {
        const view = this.view, {clientWidth: w, clientHeight: h} = view.canvas;
        const within = (at, length, seen) => Math.max(-seen / 2, Math.min(at, length - seen / 2));
        view.fitted = false;
        view.gx = within(view.gx + dx / view.z, this.picture.w, w / view.z);
        view.gy = within(view.gy + dy / view.z, this.picture.h, h / view.z);
        view.redraw();
    }

    fit() {
        this.view.z = 0;
        this.view.redraw();
    }

    reveal(at, close) {
        const view = this.view, {clientWidth: w, clientHeight: h} = view.canvas;
        if (!view.graphRanks.includes(at.trace.ranks[at.r].rank))
            view.setGraphRanks([at.trace.ranks[at.r].rank]);
        this.picture.ready(w, h);
        let place = this.picture.placeOf(at);
        if (!place && isView(at)) {
            if (!close) return view.say("Views compute nothing and are hidden. Enter shows them.");
            view.setViews(true);
            this.picture.ready(w, h);
            place = this.picture.placeOf(at);
        }
        if (!place) return view.say("This op took no time, so it is not drawn.");
        if (close) view.z = Math.max(view.z, 1);
        const x = (place.x - view.gx) * view.z, y = (place.y - view.gy) * view.z;
        if (close || x < 0 || y < 0 || x + place.w * view.z > w || y + place.h * view.z > h) {
            view.fitted = false;
            view.gx = place.x + place.w / 2 - w / view.z / 2;
            view.gy = place.y + place.h / 2 - h / view.z / 2;
        }
        view.redraw();
    }

    scale(w, h) {
        const s = Math.min(w / this.picture.w, h / this.picture.h);
        return [s, (w - this.picture.w * s) / 2];
    }

    frame(w, h) {
        const view = this.view, [s, left] = this.scale(w, h);
        const {clientWidth, clientHeight} = view.canvas;
        return [
            left + view.gx * s, view.gy * s, clientWidth / view.z * s, clientHeight / view.z * s
        ];
    }

    go(x, y, w, h) {
        const view = this.view, [s, left] = this.scale(w, h);
        view.fitted = false;
        view.gx = (x - left) / s - view.canvas.clientWidth / view.z / 2;
        view.gy = y / s - view.canvas.clientHeight / view.z / 2;
        view.redraw();
    }

    /* Prints the whole graph if it is readable on one page; otherwise, or if the user selected a
       part, what the screen shows. */
    paper() {
        const view = this.view, {clientWidth, clientHeight} = view.canvas;
        this.picture.ready(clientWidth, clientHeight);
        const {w, h} = this.picture, upright = h > w;
        const page = upright ? UPRIGHT : PAGE;
        const z = Math.min(page.w / (w + 20), page.h / (h + 20), 1.25);
        if (view.fitted && z >= READABLE)
            return {w: (w + 20) * z, h: (h + 20) * z, upright, view: {z, gx: -10, gy: -10}};
        const by = Math.min(PAGE.w / clientWidth, PAGE.h / clientHeight);
        return {w: clientWidth * by, h: clientHeight * by, view: {z: view.z * by}};
    }

    click(x, y) {
        this.picture.click(x, y);
    }
}
