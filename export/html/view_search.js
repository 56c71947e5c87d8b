/* Finding ops: a text is looked for in the few different names, then ops are told by number. */

class Hits {
    /* Words of the query must all be in an op's rank, id, part, scope, label, op, attributes or in
       the name of a tensor that it uses or makes. */
    constructor(view, query) {
        this.words = query.toLowerCase().split(/\s+/).filter((word) => word !== "");
        this.key = this.words.join(" ");
        this.list = [];
        for (let t = 0; t < view.traces.length; t++) this.collect(view.traces[t], t);
        this.at = -1;
    }

    /* Nodes of a rank that are hits, as bytes; key tells those of different ranks apart. */
    of(trace, r) {
        const id = /^r([0-9]+)\.o([0-9]+)$/.exec(this.key);
        const own = id || this.words.some((word) => /^(rank|r)?[0-9]+$/.test(word));
        const key = this.key + ":" +
            trace.key(
                r, "scope", "label", "op", "attributes", "phase", "step", "uses", "tensor_name") +
            (own ? ":" + r : "");
        return trace.shared("hits", key, () => {
            const on = new Uint8Array(trace.ranks[r].nodes);
            if (id) this.markId(trace, r, on, Number(id[1]), Number(id[2]));
            else this.mark(trace, r, on);
            return {on, key};
        });
    }

    markId(trace, r, on, rank, id) {
        if (trace.ranks[r].rank !== rank) return;
        const i = trace.column(r, "id").indexOf(id);
        if (i >= 0) on[i] = 1;
    }

    mark(trace, r, on) {
        const bits = this.words.map((word) => trace.shared("word", word, () =>
            Uint8Array.from(trace.texts, (text) => text.toLowerCase().includes(word) ? 1 : 0)));
        const names = ["scope", "label", "op", "attributes"].map((name) => trace.column(r, name));
        const phase = trace.column(r, "phase"), step = trace.column(r, "step");
        const rank = "rank" + trace.ranks[r].rank;
        this.words.forEach((word, k) => {
            const bit = bits[k], parts = new Map(), tensors = this.tensorMarks(trace, r, bit);
            for (let i = 0; i < on.length; i++) {
                if (k > 0 && !on[i]) continue;
                let hit = word === rank || bit[names[0][i]] || bit[names[1][i]] ||
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

    /* Nodes that use a tensor whose own name has the word; null: none does. */
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
            const {on} = this.of(trace, r), flags = trace.column(r, "flags");
            for (let i = 0; i < on.length; i++)
                if (on[i] && !(flags[i] & VIRTUAL)) this.list.push({trace, t, r, i});
        }
    }

    /* The next or previous hit; wraps. */
    go(by) {
        if (this.list.length === 0) return null;
        this.at = (this.at + by + this.list.length) % this.list.length;
        return this.list[this.at];
    }
}
