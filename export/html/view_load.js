/* Starts the viewer when the report is loaded. */

async function start() {
    const begin = performance.now(), traces = [];
    try {
        for (let t = 0, element; (element = document.getElementById("trace" + t)); t++)
            traces.push(new Trace(await unpack(element)));
    } catch (error) {
        document.body.prepend(make("p", "The viewer cannot start (" + error.message +
            "); it needs a browser of 2023 or later. The tables below are complete."));
        return;
    }
    document.body.classList.add("live");
    const view = new View(traces);
    window.view = view;
    listen(view);
    view.draw();
    view.firstMs = performance.now() - begin;
    setTimeout(() => traces.forEach((trace) => trace.uses(0)) || new Hits(view, "\u0000"),
        0); /* decode columns in advance, so that the first search is fast */
    document.body.dataset.ready = "1";
}

document.addEventListener("DOMContentLoaded", start);
