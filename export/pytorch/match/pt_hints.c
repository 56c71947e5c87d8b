/* Decides which hints apply to a rank; see pt_hints.h. */
#include "export/pytorch/match/pt_hints.h"
#include "export/pytorch/read/pt_tensors.h"

const char *syn_pytorch_hint_name(syn_pytorch_hint hint) {
    static const char *const names[] = {
#define SYN_X(id, name, sentence) name,
        SYN_PYTORCH_HINT_LIST(SYN_X)
#undef SYN_X
    };
    return names[hint];
}

const char *syn_pytorch_hint_sentence(syn_pytorch_hint hint) {
    static const char *const sentences[] = {
#define SYN_X(id, name, sentence) sentence,
        SYN_PYTORCH_HINT_LIST(SYN_X)
#undef SYN_X
    };
    return sentences[hint];
}

static uint32_t bit(bool holds, syn_pytorch_hint hint) {
    return holds ? 1u << hint : 0;
}

/* Hints about the matching of host nodes and CPU events. */
static uint32_t matching_hints(const syn__pt_rank *rank, bool distrusted) {
    const syn_pytorch_matches *m = &rank->matches;
    const uint64_t found = m->host_rf_id + m->host_external + m->host_time;
    const bool ids = m->host_rf_id > 0;
    const bool few = m->cpu_events > 0 && found * 2 < m->host_calls && found * 2 < m->cpu_events;
    return bit(m->cpu_events == 0, SYN_PYTORCH_HINT_NO_CPU_OPS) |
           bit(m->cpu_events > 0 && !ids && !distrusted, SYN_PYTORCH_HINT_NO_RF_IDS) |
           bit(m->renumbered, SYN_PYTORCH_HINT_RENUMBERED_STEPS) |
           bit(m->repeats, SYN_PYTORCH_HINT_REPEATED_STEPS) |
           bit(m->device_outside * 10 > m->device_events, SYN_PYTORCH_HINT_OTHER_STEPS) |
           bit(few, SYN_PYTORCH_HINT_FEW_MATCHES) |
           bit(m->cpu_events_kept > 0, SYN_PYTORCH_HINT_UNRECORDED_OPS) |
           bit(m->cpu_events > 0 && !few && found * 10 < m->host_calls * 9,
               SYN_PYTORCH_HINT_UNTIMED_OPS);
}

static bool has_correlation(const syn__pt_device *device) {
    for (size_t i = 0; i < device->n_events; i++) {
        const syn__pt_event *e = &device->events[i];
        const bool work = e->class_ == SYN__PT_KERNEL || e->class_ == SYN__PT_MEMCPY ||
                          e->class_ == SYN__PT_MEMSET;
        if (work && e->correlation > 0) return true;
    }
    return false;
}

static uint32_t made_hints(const syn__pt_rank *rank) {
    bool shapes = false;
    for (size_t i = 0; i < rank->host.n_nodes && !shapes; i++)
        shapes = rank->host.nodes[i].inputs_bytes > 0;
    return bit(true, SYN_PYTORCH_HINT_NO_HOST_TRACE) |
           bit(rank->host.n_nodes == 0, SYN_PYTORCH_HINT_NO_CPU_OPS) |
           bit(rank->host.n_nodes > 0 && !shapes, SYN_PYTORCH_HINT_NO_SHAPES);
}

/* Whether all tensors of the host trace are on the CPU. If so, no device had any work. */
static bool is_all_on_cpu(const syn__pt_rank *rank) {
    bool on_cpu = false, elsewhere = false;
    for (size_t i = 0; i < rank->host.n_nodes && !elsewhere; i++) {
        const syn__pt_io io = syn__pt_io_of(&rank->host.nodes[i]);
        for (int k = 0; k < 2; k++) syn__pt_find_devices(io.values[k], &on_cpu, &elsewhere);
    }
    return on_cpu && !elsewhere;
}

/* Whether events were lost. If so, missing events may have been recorded. */
static bool lost_events(const syn_pytorch_note *notes) {
    return notes && notes[SYN_PYTORCH_ANOMALY_TRUNCATED].count +
                            notes[SYN_PYTORCH_ANOMALY_BROKEN].count +
                            notes[SYN_PYTORCH_ANOMALY_ODD_PHASE].count >
                        0;
}

static uint32_t device_hints(const syn__pt_rank *rank, const syn_pytorch_note *notes) {
    const uint64_t *n = rank->device.n_class;
    if (rank->matches.device_events == 0)
        return bit(!lost_events(notes) && !is_all_on_cpu(rank), SYN_PYTORCH_HINT_NO_DEVICE_WORK);
    return bit(!has_correlation(&rank->device), SYN_PYTORCH_HINT_NO_CORRELATION) |
           bit(n[SYN__PT_RUNTIME] > 0 && n[SYN__PT_SYNC] == 0, SYN_PYTORCH_HINT_NO_SYNC_EVENTS);
}

uint32_t syn__pt_hints_of(const syn__pt_rank *rank, const syn_pytorch_note *notes) {
    const uint64_t absent = notes ? notes[SYN_PYTORCH_ANOMALY_MISSING_PARENT].count : 0;
    uint32_t hints = bit(absent * 2 > rank->host.n_nodes, SYN_PYTORCH_HINT_MANY_ORPHANS);
    if (rank->host.n_linked > 0) return hints;
    if (rank->host.from_event) return hints | made_hints(rank) | device_hints(rank, notes);
    if (!rank->has_device) return hints | bit(true, SYN_PYTORCH_HINT_NO_DEVICE_TRACE);
    hints |= matching_hints(rank, notes && notes[SYN_PYTORCH_ANOMALY_OTHER_RUN].count > 0);
    return hints | device_hints(rank, notes);
}
