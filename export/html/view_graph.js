/* The graph: ranks side by side, ops below their dependencies, collectives as bars between
   ranks. */

const COLUMN_GAP = 70, HEAD = 30;

class GraphPicture {
    constructor(view) {
        this.view = view;
        this.stale = true;
    }

    /* The ranks shown, for both traces if there are two. */
    columns() {
        const view = this.view, out = [];
        view.traces.forEach((trace, t) => {
            for (const number of view.graphRanks) {
                const r = trace.ranks.findIndex((rank) => rank.rank === number);
                if (r >= 0) out.push({trace, t, r});
            }
        });
        return out.length > 0 ? out : [{trace: view.traces[0], t: 0, r: 0}];
    }

    layoutAll() {
        this.parts = this.columns();
        let x = 0;
        this.h = 0;
        for (const part of this.parts) {
            const {trace, r} = part;
            Object.assign(part, layoutRank(this.view, trace, r, this.parts.length === 1),
                {left: x});
            x += part.w + COLUMN_GAP;
            this.h = Math.max(this.h, part.h + HEAD);
        }
        this.w = x - COLUMN_GAP;
        this.joins = this.findJoins();
        this.stale = false;
    }

    /* Pairs of items in neighbouring columns that take part in the same collective or message. */
    findJoins() {
        const out = new Map();
        for (let k = 0; k + 1 < this.parts.length; k++) {
            const a = this.parts[k], b = this.parts[k + 1];
            if (a.trace !== b.trace) continue;
            const meeting = meetingOf(a.trace), first = a.trace.first;
            for (const at of a.trace.joined) {
                const left = at.find(([r]) => r === a.r), right = at.find(([r]) => r === b.r);
                if (!left || !right) continue;
                const from = a.of[left[1]], to = b.of[right[1]];
                const key = [k, from.order, to.order].join();
                if (!out.has(key))
                    out.set(key, {k, from, to, n: 0, m: meeting[first[a.r] + left[1]]});
                out.get(key).n++;
            }
        }
        return [...out.values()];
    }

    /* Shows the whole graph if it is readable at that size, otherwise its top. */
    fit(width, height) {
        const scale = Math.min((width - 40) / this.w, (height - 30) / this.h);
        this.view.z = Math.min(1.25, Math.max(scale, Math.min(0.62, (width - 40) / this.w)));
        this.view.gx = -(width / this.view.z - this.w) / 2;
        this.view.gy = this.view.z > scale ? -12 / this.view.z
            : -(height / this.view.z - this.h) / 2;
    }

    ready(width, height) {
        if (this.stale) this.layoutAll();
        if (this.view.z > 0) return;
        this.fit(width, height);
        this.view.fitted = true;
    }

    draw(g, width, height) {
        const view = this.view, palette = view.palette;
        this.ready(width, height);
        g.fillStyle = palette.back;
        g.fillRect(0, 0, width, height);
        g.save();
        g.scale(view.z, view.z);
        g.translate(-view.gx, -view.gy);
        this.seen = {x0: view.gx, x1: view.gx + width / view.z, y0: view.gy,
            y1: view.gy + height / view.z};
        this.ink = palette.dark ? "#e4eaf0" : "#1d2730";
        this.soft = palette.dark ? "#9aa8b5" : "#5c6b78";
        for (const part of this.parts) {
            g.save();
            g.translate(part.left, HEAD);
            this.part = part;
            this.paint = paintOf(part.trace, part.r, view);
            for (const kid of part.root.kids || []) this.drawBoxes(g, kid);
            if (view.z > 0.06) drawEdges(this, g);
            g.restore();
        }
        this.drawJoins(g);
        for (const part of this.parts) {
            g.save();
            g.translate(part.left, HEAD);
            this.part = part;
            this.paint = paintOf(part.trace, part.r, view);
            this.drawItems(g, part.root);
            g.restore();
        }
        g.restore();
        this.drawHeads(g);
    }

    shows(item) {
        const {x0, x1, y0, y1} = this.seen, x = item.x + this.part.left, y = item.y + HEAD;
        return x < x1 && x + item.w > x0 && y < y1 && y + item.h > y0;
    }

    /* Draws open boxes, outer ones below inner ones. */
    drawBoxes(g, item) {
        if (!item.kids || !this.shows(item)) return;
        const dark = this.view.palette.dark, level = Math.min(item.depth, 4);
        this.drawStack(g, item);
        g.fillStyle = dark ? ["#1a2027", "#1d242c", "#222a33", "#27303a", "#2c3641"][level]
            : ["#ffffff", "#f4f7fa", "#eaf0f5", "#e0e8ef", "#d8e2ea"][level];
        g.strokeStyle = dark ? "#3d4854" : "#c3ced8";
        g.lineWidth = 1;
        roundRect(g, item.x, item.y, item.w, item.h, 9);
        g.fill();
        g.stroke();
        this.drawTitle(g, item);
        for (const kid of item.kids) this.drawBoxes(g, kid);
    }

    /* Draws two edges behind a box that represents several. */
    drawStack(g, item) {
        if (!item.what.copies || this.view.unfolded.has(item.what.path)) return;
        g.fillStyle = this.view.palette.dark ? "#232b34" : "#eef2f6";
        g.strokeStyle = this.view.palette.dark ? "#4a5866" : "#aebbc7";
        for (const by of [8, 4]) {
            roundRect(g, item.x + by, item.y + by, item.w, item.h, 9);
            g.fill();
            g.stroke();
        }
    }

    drawTitle(g, item) {
        if (item.w * this.view.z < 34) return;
        const size = Math.min(13, Math.max(13, 9 / this.view.z));
        g.textBaseline = "middle";
        g.textAlign = "left";
        g.font = "600 " + size + "px system-ui, sans-serif";
        drawText(g, item.texts[0], item.x + 12, item.y + 15, item.w - 24, this.ink);
        this.drawBadge(g, item);
    }

    drawBadge(g, item) {
        if (!item.what.copies) return;
        const unfolded = this.view.unfolded.has(item.what.path);
        const text = (unfolded ? "\u25be " : "\u00d7 ") + item.what.copies.length;
        g.font = "600 12px system-ui, sans-serif";
        g.fillStyle = this.view.palette.dark ? "#8fa3b5" : "#37474f";
        roundRect(g, item.x + item.w - 52, item.y + 6, 44, 18, 9);
        g.fill();
        g.fillStyle = this.view.palette.back;
        g.textAlign = "center";
        g.fillText(text, item.x + item.w - 30, item.y + 15.5);
        g.textAlign = "left";
    }

    drawItems(g, item) {
        if (item.kids) {
            if (item.parent && !this.shows(item)) return;
            for (const kid of item.kids) this.drawItems(g, kid);
        } else if (this.shows(item)) {
            if (item.what.i === undefined) this.drawClosed(g, item);
            else this.drawOp(g, item);
        }
    }

    drawOp(g, item) {
        const view = this.view, palette = view.palette, place = this.paint[item.what.i];
        const {x, y, w, h} = item,
                        comm = this.part.trace.column(this.part.r, "comm")[item.what.i] > 0;
        const isView = this.part.trace.column(this.part.r, "flags")[item.what.i] & VIRTUAL;
        g.fillStyle = palette.css[place];
        g.strokeStyle = isView ? this.soft : palette.css[place];
        g.lineWidth = 1;
        roundRect(g, x, y, w, h, comm ? 3 : 7);
        g.fill();
        if (isView) {
            g.setLineDash([4, 3]);
            g.stroke();
            g.setLineDash([]);
        }
        this.markSelected(g, item);
        if (h * view.z < 9) return;
        g.textBaseline = "middle";
        g.textAlign = "center";
        g.font = "600 13px system-ui, sans-serif";
        const second = item.texts[1] !== "";
        drawText(
            g, item.texts[0], x + w / 2, y + (second ? 13 : h / 2), w - 14, palette.ink[place]);
        g.font = "11px system-ui, sans-serif";
        if (second) drawText(g, item.texts[1], x + w / 2, y + 28, w - 12, palette.ink[place]);
        g.font = "10px system-ui, sans-serif";
        drawText(g, item.texts[2], x + w / 2, y + h - 9, w - 12, palette.ink[place]);
        g.textAlign = "left";
    }

    markSelected(g, item) {
        const at = this.view.selected;
        if (!at || at.trace !== this.part.trace || at.r !== this.part.r) return;
        if (this.part.of[at.i] !== item) return;
        g.strokeStyle = this.view.palette.dark ? "#6cb0ff" : "#1f6feb";
        g.lineWidth = 3;
        roundRect(g, item.x - 3, item.y - 3, item.w + 6, item.h + 6, 9);
        g.stroke();
    }

    /* Draws a closed box: its name, its number of ops, and a bar that shows how its time is
       divided. */
    drawClosed(g, item) {
        const palette = this.view.palette, {x, y, w, h} = item;
        this.drawStack(g, item);
        g.fillStyle = palette.dark ? "#2a333d" : "#ffffff";
        g.strokeStyle = palette.dark ? "#5b6a79" : "#8fa0b0";
        g.lineWidth = 1.2;
        roundRect(g, x, y, w, h, 7);
        g.fill();
        g.stroke();
        this.markSelected(g, item);
        const bars = this.shares(item), high = bars.length > 1 ? 3 : 5;
        bars.forEach((bar, k) => {
            let left = x + 8;
            for (const [place, share] of bar) {
                g.fillStyle = palette.css[place];
                g.fillRect(left, y + h - 10 + k * 4, share * (w - 16), high);
                left += share * (w - 16);
            }
        });
        if (h * this.view.z < 11) return;
        this.drawTitle(g, item);
        g.font = "11px system-ui, sans-serif";
        drawText(g, item.texts[1], x + 12, y + 31, w - 20, this.soft);
    }

    /* Bars of [colour, share of the time], or share of the ops if no op has a time. Host and device
       have a bar each, whose lengths have the ratio of their times. */
    shares(item) {
        const {trace, r} = this.part, time = metricOf(trace, r, "time");
        const lane = trace.column(r, "lane"), hosts = hostLanes(trace, r);
        const bars = [new Map(), new Map()], all = [0, 0];
        for (const i of item.nodes) {
            const k = hosts[lane[i]] ? 0 : 1, more = trace.head.clock === "order" ? 1 : time[i];
            all[k] += more;
            bars[k].set(this.paint[i], (bars[k].get(this.paint[i]) || 0) + more);
        }
        const longest = Math.max(...all);
        return bars.filter((bar, k) => all[k] > 0).map((bar) => [...bar].sort((a, b) => b[1] - a[1])
            .map(([place, sum]) => [place, sum / longest]));
    }

    drawJoins(g) {
        for (const {k, from, to, n} of this.joins) {
            const a = this.parts[k], b = this.parts[k + 1];
            const x0 = a.left + from.x + from.w, x1 = b.left + to.x;
            const y0 = from.y + HEAD, y1 = to.y + HEAD;
            if (Math.max(y0 + from.h, y1 + to.h) < this.seen.y0 || Math.min(y0, y1) > this.seen.y1)
                continue;
            const op = from.what.i !== undefined && to.what.i !== undefined;
            const inset = op ? 9 : from.h / 2 - 3;
            const place = op ? paintOf(a.trace, a.r, this.view)[from.what.i] : 0;
            g.fillStyle = op ? this.view.palette.css[place] : "rgba(213, 58, 54, 0.55)";
            g.beginPath();
            g.moveTo(x0, y0 + inset);
            g.lineTo(x1, y1 + inset);
            g.lineTo(x1, y1 + to.h - inset);
            g.lineTo(x0, y0 + from.h - inset);
            g.fill();
            if (this.view.z < 0.45) continue;
            g.fillStyle = op ? this.view.palette.ink[place] : CATEGORY_COLOURS.communication;
            g.font = "11px system-ui, sans-serif";
            g.textAlign = "center";
            g.textBaseline = "middle";
            drawText(g,
                op ? this.joinText(a, from) : plural(n, "collective"),
                (x0 + x1) / 2, (y0 + y1 + from.h) / 2 - (op ? 0 : 12), x1 - x0, g.fillStyle);
            g.textAlign = "left";
        }
    }

    /* "8 KiB" */
    joinText({trace, r}, item) {
        const i = item.what.i, bytes = trace.column(r, "comm_bytes")[i];
        return bytes > 0 ? amount(bytes, "B") : "";
    }

    /* Names of ranks stay visible at the top. */
    drawHeads(g) {
        const view = this.view;
        g.font = "600 13px system-ui, sans-serif";
        g.textAlign = "center";
        g.textBaseline = "middle";
        for (const part of this.parts) {
            const x = (part.left + part.w / 2 - view.gx) * view.z;
            const y = Math.max(14, (HEAD / 2 + 2 - view.gy) * view.z);
            const text = rankName(view, part.t, part.trace.ranks[part.r].rank);
            const w = g.measureText(text).width + 22;
            g.fillStyle = view.palette.dark ? "#343d47" : "#dfe6ec";
            roundRect(g, x - w / 2, y - 11, w, 22, 11);
            g.fill();
            g.fillStyle = this.ink;
            g.fillText(text, x, y + 0.5);
        }
        g.textAlign = "left";
    }

    /* ---- Mouse ---- */

    itemAt(x, y) {
        if (this.stale) return null;
        const view = this.view, gx = x / view.z + view.gx, gy = y / view.z + view.gy - HEAD;
        for (const part of this.parts) {
            let item = part.root, found = null;
            const px = gx - part.left;
            while (item) {
                const kids = item.kids || [];
                item =
                    kids.find((k) => px >= k.x && px <= k.x + k.w && gy >= k.y && gy <= k.y + k.h);
                if (item) found = item;
            }
            if (found) return {part, item: found};
        }
        return null;
    }

    /* The op at a point; for a box, its sums. */
    find(x, y) {
        const at = this.itemAt(x, y);
        if (!at) return null;
        const {part: {trace, t, r}, item} = at;
        if (item.what.i !== undefined) return {trace, t, r, i: item.what.i};
        return item.kids ? null
                         : {name: item.texts[0], facts: this.boxFacts(trace, r, item), box: item};
    }

    boxFacts(trace, r, item) {
        const sum = (name) => item.nodes.reduce((all, i) => all + metricOf(trace, r, name)[i], 0);
        const facts = [["ops", item.nodes.length.toLocaleString("en")]];
        if (trace.head.clock !== "order")
            facts.push(...timeTexts(trace, r, timesOf(trace, r, item.nodes)));
        facts.push(["flops", amount(sum("flops"), "FLOP")], ["bytes", amount(sum("bytes"), "B")]);
        const comm = trace.column(r, "comm_bytes");
        const sent = item.nodes.reduce((all, i) => all + comm[i], 0);
        if (sent > 0) facts.push(["payload", amount(sent, "B")]);
        const parts = weightParts(trace, r, item.nodes);
        if (parts.length > 0) facts.push(["weights", parts.join("; ")]);
        if (item.what.copies)
            facts.push([item.what.loose ? "similar" : "identical",
                item.what.copies.length + " boxes, " + (item.what.loose
                    ? "of which the first is drawn" : "drawn once")]);
        return facts;
    }

    /* Handles a click: on a badge it unfolds identical boxes, on a closed box it opens the box, on
       the title of an open box it closes the box. */
    click(x, y) {
        const at = this.itemAt(x, y), view = this.view;
        if (!at) return view.select(null);
        const {part: {trace, t, r}, item} = at, gy = y / view.z + view.gy - HEAD;
        const gx = x / view.z + view.gx - at.part.left;
        if (item.what.copies && gy < item.y + 26 && gx > item.x + item.w - 54)
            return view.toggleFold(item.what.path);
        if (item.what.i !== undefined) return view.select({trace, t, r, i: item.what.i}, false);
        if (item.what.ofOps && !item.kids) return view.toggleFold(item.what.path);
        if (!item.kids) return view.setOpen(item.what, true);
        return gy < item.y + TITLE + 4 ? view.setOpen(item.what, false) : view.select(null);
    }

    rankAt() {
        return null;
    }

    /* The rectangle of an op's item, {x, y, w, h} in the graph, or null. */
    placeOf(at) {
        const part = this.parts && this.parts.find((p) => p.trace === at.trace && p.r === at.r);
        const item = part && part.of[at.i];
        return item ? {x: part.left + item.x, y: HEAD + item.y, w: item.w, h: item.h} : null;
    }

    drawOverview(g, width, height) {
        const view = this.view, scale = Math.min(width / this.w, height / this.h);
        g.fillStyle = view.palette.dark ? "#1c2229" : "#f6f8fa";
        g.fillRect(0, 0, width, height);
        g.translate((width - this.w * scale) / 2, 0);
        g.scale(scale, scale);
        for (const part of this.parts) {
            const paint = paintOf(part.trace, part.r, view);
            g.save();
            g.translate(part.left, HEAD);
            const draw = (item) => {
                if (item.kids) item.kids.forEach(draw);
                else {
                    g.fillStyle = item.what.i === undefined ? "#93a3b2"
                                                            : view.palette.css[paint[item.what.i]];
                    g.fillRect(
                        item.x, item.y, Math.max(item.w, 1 / scale), Math.max(item.h, 1 / scale));
                }
            };
            draw(part.root);
            g.restore();
        }
        g.setTransform(1, 0, 0, 1, 0, 0);
    }
}
