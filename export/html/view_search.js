/* Search for ops: the query is matched against the distinct strings of a trace, which are few, and
   ops are then found by string number. */

class Hits {
    /* An op is a hit if every word of the query occurs in its rank, id, part, scope, label, op or
       attributes, or in the name of a tensor that it reads or writes. */
    constructor(view, query) {
        const words = query.toLowerCase().split(/\s+/).filter((word) => word !== "");
        const ofRank = words.filter((word) => /^rank[0-9]+$/.test(word));
        this.ranks = new Set(ofRank.map((word) => Number(word.slice(4))));
        this.words = words.filter((word) => !ofRank.includes(word));
        this.key = this.words.join(" ");
        this.columns = new Map(); /* per trace: the columns on which its hits depend */
        this.lists = [];
        this.count = 0;
        for (let t = 0; t < view.traces.length; t++) this.collect(view.traces[t], t);
        this.at = -1;
    }

    /* The hits of a rank, as bytes and as a list. key: equal for ranks with the same hits. Columns
       in which no string contains a word are not part of the key, because ranks may differ in
       them. */
    of(trace, r) {
        const id = /^r([0-9]+)\.o([0-9]+)$/.exec(this.key);
        const none = this.ranks.size > 0 && !this.ranks.has(trace.ranks[r].rank);
        if (none) return trace.shared("hits", "none" + trace.ranks[r].nodes, () => ({
            on: new Uint8Array(trace.ranks[r].nodes), key: "none", list: new Uint32Array(0)}));
        if (!this.columns.has(trace)) this.columns.set(trace, this.columnsOf(trace));
        const key = this.key + ":" + trace.key(r, ...this.columns.get(trace)) +
            (id ? ":" + r : "");
        return trace.shared("hits", key, () => {
            const on = new Uint8Array(trace.ranks[r].nodes), flags = trace.column(r, "flags");
            if (id) this.markId(trace, r, on, Number(id[1]), Number(id[2]));
            else this.mark(trace, r, on);
            const list = [];
            for (let i = 0; i < on.length; i++) if (on[i] && !(flags[i] & VIRTUAL)) list.push(i);
            return {on, key, list: Uint32Array.from(list)};
        });
    }

    columnsOf(trace) {
        const names = ["scope", "label", "op", "phase", "step"];
        if (this.anyIn(trace, "attributes")) names.push("attributes");
        if (this.anyIn(trace, "tensor_name")) names.push("tensor_name", "uses");
        return names;
    }

    /* Per string: whether it contains a word. */
    bits(trace, word) {
        return trace.shared("word", word, () =>
            Uint8Array.from(trace.texts, (text) => text.toLowerCase().includes(word) ? 1 : 0));
    }

    /* Whether any string that this column uses, on any rank, contains a word. */
    anyIn(trace, name) {
        const used = trace.shared("used", name, () => {
            const off = name === "tensor_name" ? 1 : 0, out = new Set();
            for (const values of new Set(trace.ranks.map((_, r) => trace.column(r, name))))
                for (const value of values) out.add(value - off);
            out.delete(-1);
            return out;
        });
        return this.words.some((word) => {
            const bit = this.bits(trace, word);
            for (const number of used) if (bit[number]) return true;
            return false;
        });
    }

    markId(trace, r, on, rank, id) {
        if (trace.ranks[r].rank !== rank) return;
        const i = trace.column(r, "id").indexOf(id);
        if (i >= 0) on[i] = 1;
    }

    mark(trace, r, on) {
        const names = ["scope", "label", "op", "attributes"].map((name) => trace.column(r, name));
        const phase = trace.column(r, "phase"), step = trace.column(r, "step");
        on.fill(1);
        this.words.forEach((word) => {
            const bit = this.bits(trace, word), parts = new Map();
            const tensors = this.tensorMarks(trace, r, bit);
            for (let i = 0; i < on.length; i++) {
                if (!on[i]) continue;
                let hit = bit[names[0][i]] || bit[names[1][i]] ||
                    bit[names[2][i]] || bit[names[3][i]] || tensors && tensors[i];
                if (!hit) {
                    const key = phase[i] * 2 ** 32 + step[i];
                    if (!parts.has(key))
                        parts.set(key, partName(trace, phase[i], step[i]).includes(word));
                    hit = parts.get(key);
                }
                on[i] = hit ? 1 : 0;
            }
        });
    }

    /* Nodes that use a tensor whose own name contains the word; null if there are none. */
    tensorMarks(trace, r, bit) {
        const name = trace.column(r, "tensor_name");
        if (!name.some((number) => number > 0 && bit[number - 1])) return null;
        const {first, tensors} = trace.uses(r), out = new Uint8Array(first.length - 1);
        for (let i = 0; i < out.length; i++)
            for (let k = first[i]; k < first[i + 1]; k++)
                if (name[tensors[k]] > 0 && bit[name[tensors[k]] - 1]) out[i] = 1;
        return out;
    }

    collect(trace, t) {
        for (let r = 0; r < trace.ranks.length; r++) {
            const {list, key} = this.of(trace, r);
            if (list.length > 0) this.lists.push({trace, t, r, list, key});
            this.count += list.length;
        }
    }

    /* "3 of 32 found, 8 hidden" (by the legend) */
    text(view) {
        if (this.count === 0) return "no results";
        const hidden = this.hiddenIn(view), all = hidden === this.count;
        return (this.at >= 0 ? this.at + 1 + " of " : "") + this.count.toLocaleString("en") +
            " found" + (hidden === 0 ? ""
            : ", " + (all ? "all" : hidden.toLocaleString("en")) + " hidden");
    }

    hiddenIn(view) {
        if (view.hidden.size === 0) return 0;
        return this.lists.reduce((sum, {trace, r, list, key}) => sum +
            trace.shared("hits", [key, trace.key(r, "category"), "hidden", view.version].join(),
                () => {
                    const category = trace.column(r, "category"), names = trace.head.categories;
                    return list.filter((i) => view.hidden.has(names[category[i]])).length;
                }), 0);
    }

    /* The next or previous hit, rank by rank; wraps around. */
    go(by) {
        if (this.count === 0) return null;
        this.at = this.at < 0 ? (by > 0 ? 0 : this.count - 1)
            : (this.at + by + this.count) % this.count;
        let left = this.at;
        for (const {trace, t, r, list} of this.lists) {
            if (left < list.length) return {trace, t, r, i: list[left]};
            left -= list.length;
        }
        return null;
    }
}
