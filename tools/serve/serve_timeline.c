/* Writes PREFIX.timeline.json: Chrome trace events with a process for each replica; see
   serve_files.h. Requests are asynchronous slices, because they overlap. */
#include <math.h>
#include <stdio.h>

#include "syntorch/base/memory.h"
#include "tools/serve/serve_files.h"

enum { MAX_REQUESTS = 2000 };

/* ---- Events ---- */

static void put_us(syn_sink *json, const char *key, int64_t ns) {
    syn_sink_printf(json, ",\"%s\":%lld.%03d", key, (long long)(ns / 1000), (int)(ns % 1000));
}

/* Begins an event: {"ph":...,"pid":...,"ts":... */
static void begin_event(syn_sink *json, const char *phase, int32_t replica, double ns) {
    syn_sink_printf(json, ",\n{\"ph\":\"%s\",\"pid\":%d", phase, replica);
    put_us(json, "ts", llround(ns));
}

static void put_process(syn_sink *json, int32_t replica, const char *role, bool first) {
    syn_sink_printf(
        json,
        "%s\n{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"args\":{\"name\":"
        "\"replica %d%s%s%s\"}},\n"
        "{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":%d,\"args\":"
        "{\"sort_index\":%d}},\n"
        "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%d,\"tid\":0,\"args\":{\"name\":"
        "\"steps\"}}",
        first ? "" : ",", replica, replica, role[0] ? " (" : "", role, role[0] ? ")" : "", replica,
        replica, replica);
}

syn_status serve_timeline_open(serve_timeline *t, const char *path, const serve_run *run,
                               syn_error *err) {
    int32_t n = 0;
    *t = (serve_timeline){
        .max_steps = serve_given.timeline_steps, .max_requests = MAX_REQUESTS, .cut_ns = INFINITY};
    SYN_TRY(syn_sink_open_file(&t->json, path, err));
    syn_sink_text(t->json, "{\"displayTimeUnit\":\"ms\",\n\"traceEvents\":[");
    for (int32_t p = 0; p < run->n_pools; p++) {
        const serve_pool_options *o = serve_pool_get(run->sim.pools[p]);
        for (int32_t i = 0; i < o->layout.dp; i++, n++) put_process(t->json, n, o->role, n == 0);
    }
    t->states = syn_calloc(2 * (size_t)n, sizeof *t->states);
    if (!t->states) return SYN_FAIL_NOMEM(err, 2 * (size_t)n * sizeof *t->states, "a timeline");
    t->shown = t->states + n;
    return SYN_OK;
}

/* ---- Steps and counters ---- */

static void put_counters(serve_timeline *t, int32_t replica, double ns, const serve_state *now) {
    serve_state *shown = &t->shown[replica];
    const bool first = !shown->scheduled;
    if (first || shown->running != now->running || shown->waiting != now->waiting) {
        begin_event(t->json, "C", replica, ns);
        syn_sink_printf(t->json,
                        ",\"name\":\"requests\",\"args\":{\"running\":%lld,\"waiting\":%lld}}",
                        (long long)now->running, (long long)now->waiting);
    }
    if (first || shown->cache_usage != now->cache_usage) {
        begin_event(t->json, "C", replica, ns);
        syn_sink_printf(t->json, ",\"name\":\"KV cache\",\"args\":{\"used %%\":%.3f}}",
                        100 * now->cache_usage);
    }
    *shown = *now;
    shown->scheduled = true;
}

/* Sequences of a step that compute prompt tokens. */
static int64_t count_prompts(const serving_step *step) {
    int64_t n = 0;
    for (int64_t i = 0; i < step->n; i++)
        if (step->rows[i].request &&
            step->rows[i].keys - step->rows[i].queries < step->rows[i].request->prompt)
            n++;
    return n;
}

static void put_step(serve_timeline *t, const serve_step *step) {
    static const char *const names[SYN_LIMIT_COUNT] = {"compute_ms", "memory_ms", "launches_ms",
                                                       "communication_ms"};
    syn_sink *json = t->json;
    const int64_t start = llround(step->start_ns), n = step->rows->n;
    const int64_t prompt = serve_prompt_tokens(step->rows), decode = n - count_prompts(step->rows);
    begin_event(json, "X", step->replica, step->start_ns);
    put_us(json, "dur", llround(step->end_ns) - start);
    syn_sink_text(json, ",\"tid\":0,");
    if (prompt == 0)
        syn_sink_printf(json, "\"cat\":\"decode\",\"name\":\"decode %lld\"", (long long)decode);
    else if (decode == 0)
        syn_sink_printf(json, "\"cat\":\"prefill\",\"name\":\"prefill %lld\"", (long long)prompt);
    else
        syn_sink_printf(json, "\"cat\":\"prefill\",\"name\":\"prefill %lld + %lld\"",
                        (long long)prompt, (long long)decode);
    syn_sink_printf(json,
                    ",\"args\":{\"step\":%lld,\"tokens\":%lld,\"prompt_tokens\":%lld,"
                    "\"output_tokens\":%lld,\"sequences\":%lld,\"cache_usage\":%.6g",
                    (long long)step->number, (long long)step->rows->tokens, (long long)prompt,
                    (long long)step->output_tokens, (long long)n, step->cache_usage);
    for (int i = 0; i < SYN_LIMIT_COUNT; i++)
        syn_sink_printf(json, ",\"%s\":%.6g", names[i], step->time->parts[i] / 1e6);
    syn_sink_text(json, "}}");
}

syn_status serve_timeline_step(void *user, const serve_step *step, syn_error *err) {
    serve_timeline *t = user;
    (void)err;
    if (step->rows->n == 0) return SYN_OK; /* a dummy token for the other replicas' experts */
    if (t->steps++ >= t->max_steps) return SYN_OK;
    put_counters(t, step->replica, step->start_ns, &t->states[step->replica]);
    put_step(t, step);
    const serve_state idle = {.running = 0, .cache_usage = step->cache_usage};
    if (step->running + step->waiting == 0) put_counters(t, step->replica, step->end_ns, &idle);
    t->written_steps++;
    if (t->steps == t->max_steps) t->cut_ns = step->end_ns;
    return SYN_OK;
}

syn_status serve_timeline_changed(void *user, const serve_state *state, syn_error *err) {
    serve_timeline *t = user;
    (void)err;
    if (state->scheduled) t->states[state->replica] = *state;
    return SYN_OK;
}

/* ---- Requests ---- */

/* Begins (phase "b") or ends ("e") a slice of a request. The caller ends the object. */
static void put_slice(syn_sink *json, const char *phase, const serve_request *r, int32_t replica,
                      const char *name, double ns) {
    begin_event(json, phase, replica, ns);
    syn_sink_printf(json, ",\"cat\":\"request\",\"id\":%lld,\"name\":\"%s\"", (long long)r->q.id,
                    name);
}

/* A part of a request on a replica. */
static void put_part(syn_sink *json, const serve_request *r, int32_t replica, const char *name,
                     double from_ns, double to_ns) {
    put_slice(json, "b", r, replica, name, from_ns);
    syn_sink_char(json, '}');
    put_slice(json, "e", r, replica, name, to_ns);
    syn_sink_char(json, '}');
}

static void begin_request(syn_sink *json, const serve_request *r, int32_t replica, double ns) {
    put_slice(json, "b", r, replica, "request", ns);
    syn_sink_printf(json,
                    ",\"args\":{\"request\":%lld,\"input_tokens\":%d,\"output_tokens\":%d,"
                    "\"cached_tokens\":%d,\"preemptions\":%d}}",
                    (long long)r->q.id, r->given.prompt, r->given.output, r->hits,
                    r->q.preemptions);
}

static void end_request(syn_sink *json, const serve_request *r, int32_t replica, double ns) {
    put_slice(json, "e", r, replica, "request", ns);
    syn_sink_char(json, '}');
}

syn_status serve_timeline_finished(void *user, const serve_request *r, syn_error *err) {
    serve_timeline *t = user;
    const int32_t first = r->prompt_replica;
    double from_ns = r->first_ns;
    (void)err;
    t->requests++;
    if (r->q.id >= t->max_requests || r->given.arrival_ns >= t->cut_ns) return SYN_OK;
    begin_request(t->json, r, first, r->given.arrival_ns);
    put_part(t->json, r, first, "queued", r->given.arrival_ns, r->scheduled_ns);
    put_part(t->json, r, first, "prefill", r->scheduled_ns, r->first_ns);
    if (r->received_ns >= 0) {
        from_ns = r->received_ns;
        put_part(t->json, r, first, "KV transfer", r->first_ns, from_ns);
        end_request(t->json, r, first, from_ns);
        begin_request(t->json, r, r->replica, from_ns);
    }
    if (r->given.output > 1) put_part(t->json, r, r->replica, "decode", from_ns, r->last_ns);
    end_request(t->json, r, r->replica, r->last_ns);
    t->written_requests++;
    return SYN_OK;
}

/* ---- The end ---- */

void serve_timeline_note(const serve_timeline *t, char *text, size_t bytes) {
    text[0] = '\0';
    if (t->steps > t->written_steps)
        snprintf(text, bytes,
                 "the timeline has the first %lld of %lld steps (--timeline-steps) and %lld of "
                 "%lld requests",
                 (long long)t->written_steps, (long long)t->steps, (long long)t->written_requests,
                 (long long)t->requests);
    else if (t->requests > t->written_requests)
        snprintf(text, bytes,
                 "the timeline has all steps, but only the first %lld of %lld requests",
                 (long long)t->written_requests, (long long)t->requests);
}

syn_status serve_timeline_close(serve_timeline *t, const serve_run *run, bool keep,
                                syn_error *err) {
    char note[200], title[160];
    if (t->json) {
        serve_timeline_note(t, note, sizeof note);
        syn_sink_text(t->json, "\n],\n\"otherData\":{\"clock\":\"predicted\",\"generator\":"
                               "\"syntorch " SYN_VERSION "\",\"title\":");
        syn_sink_json_string(t->json, run->config.name);
        syn_sink_text(t->json, ",\"hardware\":");
        syn_sink_json_string(t->json, syn_hardware_title(&run->hw, title, sizeof title));
        if (note[0]) syn_sink_text(t->json, ",\"note\":");
        if (note[0]) syn_sink_json_string(t->json, note);
        syn_sink_text(t->json, "}}\n");
    }
    const syn_status s = syn_sink_close(t->json, keep, err);
    syn_free(t->states);
    *t = (serve_timeline){.json = NULL};
    return s;
}
