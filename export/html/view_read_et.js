/* Reads execution traces of Chakra (.et): protobuf messages, each behind its length as a varint,
   as export/chakra/wire/et_def.proto describes them. */

const ET_TYPES = ["INVALID_NODE", "METADATA_NODE", "MEM_LOAD_NODE", "MEM_STORE_NODE", "COMP_NODE",
    "COMM_SEND_NODE", "COMM_RECV_NODE", "COMM_COLL_NODE"];

const utf8 = new TextDecoder();

class Message {
    constructor(bytes, at, end) {
        this.bytes = bytes;
        this.at = at;
        this.end = end;
    }

    /* A varint of up to 64 bits, as a BigInt if it is large. */
    varint() {
        let value = 0, scale = 1;
        for (let n = 0; n < 10; n++) {
            if (this.at >= this.end) throw new Error("the file ends within a number");
            const byte = this.bytes[this.at++];
            if (n === 7 && (byte & 127) > 0 || n > 7) return this.large(value, byte, n);
            value += (byte & 127) * scale;
            scale *= 128;
            if (byte < 128) return value;
        }
        throw new Error("a number is longer than 64 bits");
    }

    large(low, byte, n) {
        let value = BigInt(low), shift = BigInt(7 * n);
        for (;; n++) {
            value |= BigInt(byte & 127) << shift;
            shift += 7n;
            if (byte < 128) return Number(BigInt.asIntN(64, value));
            if (n >= 9 || this.at >= this.end) throw new Error("a number is longer than 64 bits");
            byte = this.bytes[this.at++];
        }
    }

    /* Calls each(field, value) for every field: a number, or a Message of its bytes. */
    each(use) {
        while (this.at < this.end) {
            const key = this.varint(), kind = key % 8, at = this.at;
            if (kind === 0) {
                use(Math.floor(key / 8), this.varint());
                continue;
            }
            const n = kind === 1 ? 8 : kind === 5 ? 4 : kind === 2 ? this.varint() : -1;
            if (n < 0 || this.at + n > this.end)
                throw new Error("not an execution trace: a field at byte " + at + " is damaged");
            this.at += n;
            use(Math.floor(key / 8), new Message(this.bytes, this.at - n, this.at));
        }
    }

    text() {
        if (this.end - this.at > 40) return utf8.decode(this.bytes.subarray(this.at, this.end));
        let out = ""; /* most texts are short, for which this is faster */
        for (let at = this.at; at < this.end; at++) {
            const byte = this.bytes[at];
            if (byte > 127) return utf8.decode(this.bytes.subarray(this.at, this.end));
            out += String.fromCharCode(byte);
        }
        return out;
    }

    get data() {
        return new DataView(this.bytes.buffer, this.bytes.byteOffset);
    }

    /* Packed numbers. */
    numbers() {
        const out = [];
        while (this.at < this.end) out.push(this.varint());
        return out;
    }
}

function readEt(bytes, rank) {
    const file = new Message(bytes, 0, bytes.length), messages = [];
    while (file.at < file.end) {
        const n = file.varint();
        if (file.at + n > file.end)
            throw new Error("not an execution trace, or cut: message " + messages.length +
                " ends behind the file");
        messages.push(new Message(bytes, file.at, file.at + n));
        file.at += n;
    }
    if (messages.length === 0) throw new Error("the execution trace is empty");
    const metadata = [];
    messages[0].each((field, value) => { if (field === 2) metadata.push(etAttribute(value)); });
    return {rank, metadata, nodes: messages.slice(1).map(etNode)};
}

function etNode(message) {
    const node = {id: 0, name: "", type: "INVALID_NODE", ctrl: [], data: [], start: 0, duration: 0,
        attr: []};
    message.each((field, value) => {
        const list = field === 4 ? node.ctrl : node.data;
        if (field === 1) node.id = value;
        else if (field === 2) node.name = value.text();
        else if (field === 3) node.type = ET_TYPES[value] || "INVALID_NODE";
        else if (field === 4 || field === 5)
            list.push(...typeof value === "number" ? [value] : value.numbers());
        else if (field === 6) node.start = value;
        else if (field === 7) node.duration = value;
        else if (field === 10) addAttribute(node.attr, value);
    });
    return node;
}

/* Attributes of nodes that the viewer uses; the others are not decoded, because there are many. */
const ET_USED = new Set(["op", "phase", "step", "stream", "comm_type", "comm_size", "comm_src",
    "comm_dst", "comm_tag", "pg_name", "pg_desc", "wall_ns", "wait_ns", "predicted_ns", "inputs",
    "outputs", "num_ops", "clamped", "tensor_size", "is_cpu_op", "tid", "inclusive_dur",
    "launch_deps"]);

/* The name is the first field in all known files; otherwise the attribute is decoded. */
function addAttribute(list, message) {
    const {bytes, at} = message, n = bytes[at + 1];
    const known = bytes[at] !== 10 || n > 127 ||
        ET_USED.has(new Message(bytes, at + 2, at + 2 + n).text());
    if (known) list.push(etAttribute(message));
}

/* {name, doc, value}: a number, text, or an array of them. */
function etAttribute(message) {
    const out = {name: "", doc: "", value: 0};
    message.each((field, value) => {
        if (field === 1) out.name = value.text();
        else if (field === 2) out.doc = value.text();
        else out.value = etValue(field, value);
    });
    return out;
}

const ET_FIXED = {3: ["getFloat64", 8], 5: ["getFloat32", 4], 19: ["getUint32", 4],
    21: ["getBigUint64", 8], 23: ["getInt32", 4], 25: ["getBigInt64", 8]};

function etValue(field, value) {
    const zigzag = (v) => v % 2 ? -(v + 1) / 2 : v / 2;
    const single = field % 2 ? field : field - 1, fixed = ET_FIXED[single];
    if (field !== single) return etList(single, value);
    if (fixed) return Number(value.data[fixed[0]](value.at, true));
    if (single === 15 || single === 17) return zigzag(value);
    return single === 29 || single === 31 ? value.text() : value;
}

function etList(single, message) {
    const out = [];
    message.each((field, value) => {
        if (field !== 1) return;
        if (typeof value === "number") return out.push(etValue(single, value));
        if (single === 29 || single === 31) return out.push(value.text());
        const fixed = ET_FIXED[single];
        if (!fixed) return out.push(...value.numbers().map((v) => etValue(single, v)));
        for (let at = value.at; at + fixed[1] <= value.end; at += fixed[1])
            out.push(Number(value.data[fixed[0]](at, true)));
    });
    return out;
}
