#include "export/pytorch/match/pt_matcher.h"
#include "export/pytorch/read/pt_events.h"

void syn__pt_note_node(const syn__pt_matcher *m, syn_pytorch_anomaly kind, uint32_t node) {
    syn__pt_note_host(m->rank, m->notes, kind, node);
}

void syn__pt_note_event(const syn__pt_matcher *m, syn_pytorch_anomaly kind, uint32_t event) {
    const syn__pt_event *e = &m->rank->device.events[event];
    syn__pt_note_at(m->notes, kind, m->rank->device_input.name,
                    (uint64_t)(e->text - m->rank->device_input.data), SYN_PYTORCH_NO_PLACE);
}

bool syn__pt_is_free(const syn__pt_matcher *m, uint32_t event) {
    const syn__pt_event *e = &m->rank->device.events[event];
    return syn__pt_is_cpu(e) && (m->distrust || !(e->flags & SYN__PT_EVENT_RF_ID)) &&
           m->event_node[event] == SYN__PT_NONE;
}
