/* Start times for a graph whose trace has none, as timeline_simulate.c finds them: an op starts
   when all ops that it depends on and the op before it on its stream have ended. Ranks of a
   collective start its transfer together, and a receive waits for its send. Links that several
   groups share are not simulated. */

/* Sets clock, start, duration and wait. */
function placeInTime(graph) {
    const nodes = graph.ranks.flatMap((rank) => rank.nodes);
    if (nodes.every((node) => node.start !== undefined || !isPlaced(node))) return;
    if (nodes.every((node) => !(node.duration > 0))) graph.clock = "order";
    if (graph.clock === "order")
        for (const node of nodes) node.duration = isPlaced(node) ? STEP_NS : 0;
    simulateGraph(graph);
}

function isPlaced(node) {
    return node.track !== undefined && !(node.flags & VIRTUAL);
}

/* An event is one op, or all ops of a collective. */
function simulateGraph(graph) {
    const events = findEvents(graph), ready = events.filter((event) => event.left === 0);
    for (let k = 0; k < ready.length; k++) {
        endEvent(ready[k]);
        for (const next of ready[k].next)
            if (--next.left === 0) ready.push(next);
    }
    for (const event of events) if (!event.ended) endEvent(event); /* in a circle of waits */
}

function endEvent(event) {
    const {sent} = event.nodes[0];
    let begin = sent && sent.start || 0, longest = 0;
    const arrivals = event.nodes.map((node) => {
        let arrival = 0;
        for (const other of node.before)
            if (other.start !== undefined)
                arrival = Math.max(arrival, other.start + other.duration);
        begin = Math.max(begin, arrival);
        if (isPlaced(node)) longest = Math.max(longest, node.duration || 0);
        return arrival;
    });
    const end = Math.max(begin + longest, sent && sent.start + sent.duration || 0);
    event.nodes.forEach((node, k) => {
        node.start = arrivals[k];
        node.wait = begin - arrivals[k];
        node.duration = end - arrivals[k];
        delete node.before;
    });
    event.ended = true;
}

function findEvents(graph) {
    const events = [], meetings = new Map(), of = new Map();
    for (const rank of graph.ranks)
        for (const node of rank.nodes) {
            const meets = node.group > 0 && node.comm && !/^(send|recv)$/.test(node.comm);
            const key = meets ? node.group + "/" + node.number : null;
            let event = key && meetings.get(key);
            if (!event) events.push(event = {nodes: [], next: [], left: 0});
            if (key) meetings.set(key, event);
            event.nodes.push(node);
            of.set(node, event);
        }
    const sends = new Map();
    for (const rank of graph.ranks) {
        const streams = new Map(), makers = makersOf(rank);
        for (const node of rank.nodes) {
            node.before = (node.deps || []).map(([k]) => rank.nodes[k])
                .concat((node.inputs || []).map((t) => makers.get(t)).filter((k) => k));
            if (node.comm === "send")
                pushTo(sends, messageKey(rank.rank, node.peer - 1, node), node);
            if (!isPlaced(node)) continue;
            for (const stream of streamsOf(node)) {
                const last = streams.get(stream);
                if (last) node.before.push(last);
                streams.set(stream, node);
            }
        }
    }
    for (const rank of graph.ranks)
        for (const node of rank.nodes) {
            if (node.comm !== "recv") continue;
            const sent = sends.get(messageKey(node.peer - 1, rank.rank, node)) || [];
            if (sent.length > 0) node.sent = sent.shift();
        }
    for (const [node, event] of of)
        for (const other of node.sent ? [...node.before, node.sent] : node.before)
            if (of.get(other) !== event) {
                of.get(other).next.push(event);
                event.left++;
            }
    return events;
}

/* The streams on which a node runs in order: those of messages have one per peer, and calls of a
   group are in order too (streams.h). */
function streamsOf(node) {
    const {comm, peer, tag, group, stream = 0} = node;
    if (comm === "send") return ["send " + peer];
    if (comm === "recv") return ["recv " + peer + " " + tag];
    return comm && group > 0 ? [stream, "group " + group] : [stream];
}

function makersOf(rank) {
    const makers = new Map();
    for (const node of rank.nodes) for (const t of node.outputs || []) makers.set(t, node);
    return makers;
}

function messageKey(from, to, {tag}) {
    return [from, to, tag].join();
}

function pushTo(map, key, value) {
    if (!map.has(key)) map.set(key, []);
    map.get(key).push(value);
}
