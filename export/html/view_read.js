/* Reads files that are dropped on the report or opened with its menu: reports, execution traces
   (.et), JSON of `syntorch`, Chakra JSON, Chrome traces, and CSV files with colours. Each reader of
   a format has a file of its own and returns a graph (view_build.js). */

/* Reads files that belong together, such as the .et files of all ranks. Returns {colours} or
   {trace}. */
async function readFiles(files, vocabulary) {
    const graphs = [];
    for (const file of files) {
        const read = await readFile(file, vocabulary);
        if (read.colours || read.trace) {
            if (files.length > 1)
                throw new Error(file.name + ": open this file alone; only files of execution " +
                    "traces are opened together");
            return read;
        }
        graphs.push(read);
    }
    const graph = joinRanks(graphs.filter((one) => one.ranks.length > 0));
    for (const {groups} of graphs) addGroups(graph, groups);
    checkGraph(graph);
    placeInTime(graph);
    return {trace: buildTrace(graph, vocabulary)};
}

async function readFile(file, vocabulary) {
    let bytes = new Uint8Array(await file.arrayBuffer());
    try {
        if (bytes[0] === 0x1f && bytes[1] === 0x8b) bytes = await inflate(bytes, "gzip");
        const name = file.name.replace(/\.gz$/, "");
        const read = await readBytes(bytes, name, vocabulary);
        if (read.ranks) Object.assign(read, {source: file.name, title: read.title || name});
        if (read.trace) read.trace.head.source = file.name;
        return read;
    } catch (error) {
        throw new Error(file.name + ": " + error.message);
    }
}

async function readBytes(bytes, name, vocabulary) {
    const rank = Number((/\.([0-9]+)\.et$/.exec(name) || [])[1] || 0);
    if (/\.et$/.test(name)) return chakraGraph([readEt(bytes, rank)], vocabulary);
    const text = new TextDecoder().decode(bytes), first = text.trimStart()[0];
    if (/\.csv$/i.test(name)) return {colours: readColours(text, name)};
    if (first === "<") return {trace: await readPage(text)};
    if (first !== "{" && first !== "[") throw new Error("not a report, an execution trace (.et), " +
        "JSON of a trace, or a CSV with the columns op, label or id and value or colour");
    let json;
    try {
        json = JSON.parse(text);
    } catch (error) {
        throw new Error("the JSON is damaged: " + error.message);
    }
    return readJson(json, rank, vocabulary);
}

function readJson(json, rank, vocabulary) {
    if (json.graph && json.graph.format === "syntorch") return nodeLinkGraph(json);
    if (Array.isArray(json) || Array.isArray(json.traceEvents)) return chromeGraph(json);
    if (Array.isArray(json.ranks)) return chakraGraph(json.ranks.map(chakraJsonRank), vocabulary);
    if (json.metadata && Array.isArray(json.nodes))
        return chakraGraph([chakraJsonRank({rank, ...json})], vocabulary);
    if (Object.values(json).every((list) => Array.isArray(list) && list.every(Number.isInteger)))
        return {ranks: [], groups: Object.entries(json).map(([id, ranks]) =>
            ({id: Number(id), name: "group " + id, ranks}))};
    throw new Error(Array.isArray(json.nodes) && json.schema
        ? "a PyTorch host trace; convert it with: syntorch convert pytorch"
        : "unknown JSON; accepted are traces of syntorch, Chakra JSON and Chrome traces");
}

/* Puts the ranks of several files into one graph. Times of each file count from its base, in us. */
function joinRanks(graphs) {
    if (graphs.length === 0) throw new Error("the files have no trace");
    const least = graphs.reduce((low, {base = Infinity}) => Math.min(low, base), Infinity);
    for (const {base = Infinity, ranks} of graphs)
        for (const {nodes} of base < Infinity ? ranks : [])
            for (const node of nodes)
                if (node.start !== undefined) node.start += Math.round(1000 * (base - least));
    const [first, ...more] = graphs;
    for (const graph of more) {
        first.ranks.push(...graph.ranks);
        addGroups(first, graph.groups);
    }
    first.ranks.sort((a, b) => a.rank - b.rank);
    const twice = first.ranks.find(({rank}, k) => k > 0 && first.ranks[k - 1].rank === rank);
    if (twice) throw new Error("two files have rank " + twice.rank);
    if (more.length > 0) first.title += ", " + plural(first.ranks.length, "rank");
    return first;
}

function addGroups(graph, groups) {
    for (const group of groups)
        if (!graph.groups.some(({id}) => id === group.id)) graph.groups.push(group);
}

function checkGraph(graph) {
    if (graph.ranks.every(({nodes}) => nodes.length === 0)) throw new Error("the trace has no ops");
    const known = (tensors) => (t) => Number.isInteger(t) && t >= 0 && t < tensors.length;
    for (const {rank, nodes, tensors} of graph.ranks)
        for (const {id, inputs = [], outputs = []} of nodes)
            if (![...inputs, ...outputs].every(known(tensors)))
                throw new Error("op " + id + " of rank " + rank + " has a tensor that is missing");
}

/* Asks what to do with a trace that was opened, and does it. */
function offerTrace(view, trace) {
    const dialog = document.getElementById("opened"), show = make("button", "Show it"),
          compare = make("button", "Compare with A"), cancel = make("button", "Cancel");
    const then = (button, what) => {
        button.onclick = () => {
            dialog.close();
            what();
        };
    };
    then(show, () => view.showTrace(trace));
    then(compare, () => view.compareWith(trace));
    then(cancel, () => {});
    const row = make("div", null, {class: "tools"});
    row.append(show, compare, cancel);
    fill(dialog, make("h2", trace.head.title), make("p", [trace.head.source,
        plural(trace.ranks.length, "rank"), plural(trace.nodes, "op")].filter((s) => s)
        .join(", ")), row);
    document.getElementById("note").style.display = "none";
    dialog.showModal();
}

async function openFiles(view, files) {
    if (files.length === 0) return;
    view.say("Reading " + plural(files.length, "file") + " \u2026");
    try {
        const {colours, trace} = await readFiles([...files], view.traces[0].head);
        if (colours) setColours(view, colours);
        else offerTrace(view, trace);
    } catch (error) {
        view.say(error.message);
    }
}

/* Dropped files, and files that the menu opens. */
function listenFiles(view) {
    const input = document.getElementById("files");
    document.addEventListener("dragover", (event) => event.preventDefault());
    document.addEventListener("drop", (event) => {
        event.preventDefault();
        openFiles(view, event.dataTransfer.files);
    });
    input.onchange = async () => {
        await openFiles(view, input.files);
        input.value = "";
    };
}

async function readPage(text) {
    const page = new DOMParser().parseFromString(text, "text/html"); /* does not run scripts */
    const element = page.getElementById("trace0");
    if (!element || element.type !== "text/plain")
        throw new Error("not an HTML report of syntorch export --format html");
    return new Trace(await unpack(element));
}
