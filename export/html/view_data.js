/* A trace in the layout of html_columns.h. Columns are decoded when first used; ranks with the same
   column share the array. */

async function unpack(element) {
    const text = atob(element.textContent);
    const bytes = new Uint8Array(text.length);
    for (let i = 0; i < bytes.length; i++) bytes[i] = text.charCodeAt(i);
    if (element.dataset.packed !== "deflate") return bytes;
    return inflate(bytes);
}

/* Decompresses chunk by chunk, because a Blob or a Response would go through another process. */
async function inflate(bytes, format = "deflate") {
    const stream = new DecompressionStream(format), writer = stream.writable.getWriter();
    const reader = stream.readable.getReader(), chunks = [];
    const wrong = () => {}; /* damage is reported by the reader */
    writer.write(bytes).catch(wrong);
    writer.close().catch(wrong);
    let n = 0;
    for (let part; !(part = await reader.read()).done; n += part.value.length)
        chunks.push(part.value);
    const out = new Uint8Array(n);
    n = 0;
    for (const chunk of chunks) {
        out.set(chunk, n);
        n += chunk.length;
    }
    return out;
}

class Reader {
    constructor(bytes, at = 0) {
        this.bytes = bytes;
        this.at = at;
    }
    get() {
        const b = this.bytes;
        let byte = b[this.at++], value = byte & 127, scale = 128;
        for (; byte > 127; scale *= 128) {
            byte = b[this.at++];
            value += (byte & 127) * scale;
        }
        return value;
    }
    signed() {
        const v = this.get();
        return v % 2 ? -(v + 1) / 2 : v / 2;
    }
}

/* Decodes the numbers of a column, most of which take one byte. */
function readAll(bytes, out) {
    for (let i = 0, at = 0; i < out.length; i++) {
        let byte = bytes[at++], value = byte & 127;
        for (let scale = 128; byte > 127; scale *= 128) {
            byte = bytes[at++];
            value += (byte & 127) * scale;
        }
        out[i] = value;
    }
}

function readSigned(bytes, out) {
    readAll(bytes, out);
    for (let i = 0; i < out.length; i++) out[i] = out[i] % 2 ? -(out[i] + 1) / 2 : out[i] / 2;
}

const COLUMN_ARRAYS = {
    kind: Uint8Array, category: Uint8Array, flags: Uint8Array, phase: Uint8Array,
    step: Uint32Array, scope: Uint32Array, label: Uint32Array, op: Uint32Array,
    attributes: Uint32Array, lane: Uint16Array, gap_size: Uint8Array, duration_size: Uint8Array,
    wait_size: Uint8Array, comm: Uint8Array, group: Uint32Array,
    number: Uint32Array, peer: Uint32Array, tensor_name: Uint32Array, tensor_spec: Uint32Array,
    tensor_flags: Uint8Array, tensor_part: Uint32Array,
};
const SIGNED_COLUMNS = new Set(["id", "gap", "tag", "tensor_base"]);
const POWERS = Float64Array.from({length: 64}, (_, k) => 2 ** k);
const VIRTUAL = 1; /* bit of flags */
const PARAMETER = 1, TERM = 16; /* bits of tensor_flags */

class Trace {
    constructor(bytes) {
        const length = new DataView(bytes.buffer).getUint32(0, true);
        this.head = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length)));
        if (this.head.format !== "syntorch view" || this.head.format_version !== 1)
            throw new Error("the data of this report has another version than its viewer");
        this.texts = this.head.texts;
        this.ranks = this.head.ranks;
        for (const rank of this.ranks) {
            if (rank.like === undefined) continue;
            for (const name in rank.renamed) rank.renamed[name] = new Map(rank.renamed[name]);
            rank.lanes = this.ranks[rank.like].lanes.map((lane) => this.renamedLane(rank, lane));
        }
        this.cache = new Map();
        this.columns = this.ranks.map(() => ({})); /* per rank: decoded columns and other cached
                                                      values */
        this.place = {}; /* column name -> index */
        this.head.columns.forEach((name, i) => { this.place[name] = i; });
        this.readHeld(new Reader(bytes, 4 + length));
        this.first = [0]; /* per rank: its first node among the nodes of all ranks */
        for (const rank of this.ranks)
            this.first.push(this.first[this.first.length - 1] + rank.nodes);
        this.nodes = this.first[this.ranks.length];
        this.end = 0;
        this.begin = Infinity;
        const spans = new Set(this.ranks.map((_, r) => this.span(r)));
        if (this.begin > this.end) this.begin = 0;
        for (const {start, end} of this.begin === 0 ? [] : spans) this.shift(start, end);
        this.end -= this.begin;
        this.begin = 0;
    }

    readHeld(reader) {
        this.held = [];
        for (let n = reader.get(); n > 0; n--) {
            const bytes = reader.get();
            this.held.push(reader.bytes.subarray(reader.at, reader.at + bytes));
            reader.at += bytes;
        }
        this.whose = this.ranks.map(() => this.head.columns.map(() => reader.get()));
    }

    /* A track of an identical rank. Tracks of groups have the name of the rank's own group. */
    renamedLane(rank, lane) {
        const group = rank.renamed.group && rank.renamed.group.get(lane[2]);
        return group ? [this.head.groups[group - 1].name, lane[1], group] : lane;
    }

    /* The map from the values of a column to those of an identical rank; undefined: the values are
       the same. */
    renaming(r, name) {
        return this.ranks[r].renamed && this.ranks[r].renamed[name];
    }

    /* A key that is equal for ranks whose columns of these names are equal. */
    key(r, ...names) {
        return names.map((name) => this.whose[r][this.place[name]] +
            (this.renaming(r, name) ? "@" + r : "")).join() + "/" + this.ranks[r].nodes;
    }

    shared(what, key, make) {
        const name = what + ":" + key;
        let value = this.cache.get(name);
        if (value === undefined) this.cache.set(name, value = make());
        return value;
    }

    /* Drops everything that depends on a query, a filter or the other trace. */
    forget() {
        for (const name of this.cache.keys())
            if (/^(hits|word|faint|painted|matches|change|csv|csv paint):/.test(name))
                this.cache.delete(name);
    }

    column(r, name) {
        return this.columns[r][name] || (this.columns[r][name] = this.readColumn(r, name));
    }

    readColumn(r, name) {
        return this.shared(name, this.key(r, name, ...this.sizes(name)), () => {
            const count = name.startsWith("tensor_") ? this.ranks[r].tensors : this.ranks[r].nodes;
            const out = new (COLUMN_ARRAYS[name] || Float64Array)(count);
            const bytes = this.held[this.whose[r][this.place[name]]];
            if (bytes.length > 0) this.decode(r, name, bytes, out);
            this.rename(r, name, out);
            return out;
        });
    }

    decode(r, name, bytes, out) {
        (SIGNED_COLUMNS.has(name) ? readSigned : readAll)(bytes, out);
        if (name === "id")
            for (let i = 1; i < out.length; i++) out[i] += out[i - 1];
        if (this.place[name + "_size"] !== undefined) this.addSize(r, name, out);
    }

    rename(r, name, out) {
        const to = this.renaming(r, name);
        if (!to) return;
        const peer = name === "tag" && this.column(r, "peer"); /* only messages have a tag */
        for (let i = 0; i < out.length; i++)
            if (to.has(out[i]) && (!peer || peer[i] > 0)) out[i] = to.get(out[i]);
    }

    /* Other columns that the values of a column depend on. */
    sizes(name) {
        return name === "wait" ? ["wait_size", "duration", "duration_size"]
            : name === "gap" || name === "duration" ? [name + "_size"] : [];
    }

    addSize(r, name, out) {
        const size = this.column(r, name + "_size");
        for (let i = 0; i < out.length; i++) if (size[i] > 0) out[i] *= POWERS[size[i]];
        if (name !== "wait") return;
        const duration = this.column(r, "duration");
        for (let i = 0; i < out.length; i++) out[i] = Math.min(out[i], duration[i]);
    }

    /* A key that is equal for ranks whose ops run at the same times. */
    timeKey(r) {
        const own = this.columns[r];
        return own.timeKey || (own.timeKey = this.key(r, "lane", "gap", "gap_size", "duration",
            "duration_size", "wait", "wait_size"));
    }

    /* Makes times count from the start of the first op. */
    shift(start, end) {
        for (let i = 0; i < start.length; i++) {
            start[i] -= this.begin;
            end[i] -= this.begin;
        }
    }

    /* Start and end of each node in ns; 0 for nodes that are not shown. */
    span(r) {
        return this.shared("span", this.timeKey(r), () => {
            const lane = this.column(r, "lane"), gap = this.column(r, "gap");
            const duration = this.column(r, "duration"), n = lane.length;
            const start = new Float64Array(n), end = new Float64Array(n);
            const free = new Float64Array(this.ranks[r].lanes.length + 1);
            for (let i = 0; i < n; i++) {
                if (lane[i] === 0) continue;
                start[i] = free[lane[i]] + gap[i];
                free[lane[i]] = end[i] = start[i] + duration[i];
                if (start[i] < this.begin) this.begin = start[i];
                if (end[i] > this.end) this.end = end[i];
            }
            return {start, end};
        });
    }

    /* Tensors of each node: its inputs are tensors[first[i] .. split[i] - 1], its outputs follow up
       to first[i + 1] - 1. producer: per tensor its node; -1: none. */
    uses(r) {
        return this.shared("uses", this.key(r, "uses"), () => {
            const n = this.ranks[r].nodes, first = new Uint32Array(n + 1),
                  split = new Uint32Array(n);
            const producer = new Int32Array(this.ranks[r].tensors).fill(-1), tensors = [];
            const reader = new Reader(this.held[this.whose[r][this.place.uses]]);
            for (let i = 0, last = 0; i < n; i++) {
                first[i] = tensors.length;
                if (reader.bytes.length > 0) {
                    for (let k = reader.get(); k > 0; k--) tensors.push(last - reader.signed());
                    split[i] = tensors.length;
                    for (let k = reader.get(); k > 0; k--) {
                        last += reader.signed();
                        tensors.push(last);
                        producer[last] = i;
                    }
                }
                first[i + 1] = tensors.length;
            }
            return {first, split, tensors: Uint32Array.from(tensors), producer};
        });
    }

    /* Dependencies of each node in addition to the producers of its inputs: nodes, and one bit per
       class. */
    deps(r) {
        return this.shared("deps", this.key(r, "deps"), () => {
            const n = this.ranks[r].nodes, first = new Uint32Array(n + 1), nodes = [], classes = [];
            const reader = new Reader(this.held[this.whose[r][this.place.deps]]);
            const width = 2 ** this.head.classes.length;
            for (let i = 0; i < n; i++) {
                first[i] = nodes.length;
                for (let k = reader.bytes.length > 0 ? reader.get() : 0; k > 0; k--) {
                    const value = reader.get();
                    nodes.push(i - Math.floor(value / width));
                    classes.push(value % width);
                }
            }
            first[n] = nodes.length;
            return {first, nodes: Uint32Array.from(nodes), classes};
        });
    }

    /* Calls each(node) for each node of the rank that node i depends on. */
    eachSource(r, i, each) {
        const uses = this.uses(r), deps = this.deps(r);
        for (let k = uses.first[i]; k < uses.split[i]; k++)
            if (uses.producer[uses.tensors[k]] >= 0) each(uses.producer[uses.tensors[k]]);
        for (let k = deps.first[i]; k < deps.first[i + 1]; k++) each(deps.nodes[k]);
    }

    /* Per node: the nodes that use its outputs or wait for it, as first and nodes. */
    users(r) {
        return this.shared("users", this.key(r, "uses", "deps"), () => {
            const n = this.ranks[r].nodes, first = new Uint32Array(n + 2);
            for (let i = 0; i < n; i++) this.eachSource(r, i, (from) => { first[from + 2]++; });
            for (let i = 0; i < n; i++) first[i + 2] += first[i + 1];
            const nodes = new Uint32Array(first[n + 1]);
            for (let i = 0; i < n; i++)
                this.eachSource(r, i, (from) => { nodes[first[from + 1]++] = i; });
            return {first, nodes};
        });
    }

    text(r, i, name) {
        return this.texts[this.column(r, name)[i]];
    }

    tensorName(r, t) {
        const name = this.column(r, "tensor_name")[t];
        if (name > 0) return this.texts[name - 1];
        const uses = this.uses(r), i = uses.producer[t];
        let place = 0;
        while (uses.tensors[uses.split[i] + place] !== t) place++;
        return this.text(r, i, "scope") + "/" + this.text(r, i, "label") + ":" + place;
    }

    /* "columns 0-63 of 128"; "" if the tensor is not sharded. */
    tensorPart(r, t) {
        const place = this.column(r, "tensor_part")[t]; /* undefined if there is no tensor */
        return place > 0 ? this.ranks[r].parts[place - 1] : "";
    }

    id(r, i) {
        return "r" + this.ranks[r].rank + ".o" + this.column(r, "id")[i];
    }

    /* Collectives as lists of [rank, node], by group and number; and messages as pairs of a send
       and its receive. */
    meetings() {
        return this.shared("meetings", "", () => {
            const found = new Map(), list = [], ends = new Map(), messages = [];
            const send = this.head.comms.indexOf("send") + 1,
                  recv = this.head.comms.indexOf("recv") + 1;
            for (let r = 0; r < this.ranks.length; r++) {
                const comm = this.column(r, "comm"), group = this.column(r, "group");
                const number = this.column(r, "number");
                for (let i = 0; i < comm.length; i++) {
                    if (comm[i] === 0) continue;
                    if (comm[i] === send || comm[i] === recv) {
                        this.addMessage(ends, messages, r, i, comm[i] === send);
                        continue;
                    }
                    if (group[i] === 0) continue;
                    const key = group[i] * 2 ** 32 + number[i];
                    let at = found.get(key);
                    if (at === undefined) {
                        found.set(key, at = []);
                        list.push(at);
                    }
                    at.push([r, i]);
                }
            }
            return {list: list.filter((at) => at.length > 1), messages};
        });
    }

    /* Matches the k-th send of a channel with its k-th receive. */
    addMessage(ends, messages, r, i, isSend) {
        const self = this.ranks[r].rank, peer = this.column(r, "peer")[i] - 1;
        const channel =
            (isSend ? [self, peer] : [peer, self]).join() + "," + this.column(r, "tag")[i];
        if (!ends.has(channel)) ends.set(channel, {sends: [], recvs: []});
        const c = ends.get(channel), mine = isSend ? c.sends : c.recvs;
        mine.push([r, i]);
        const other = (isSend ? c.recvs : c.sends)[mine.length - 1];
        if (other) messages.push(isSend ? [[r, i], other] : [other, [r, i]]);
    }
}
