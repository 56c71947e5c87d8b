#include "tests/support/picture_check.h"

#include <string.h>

bool draw(drawn *x, syn_graph *graph, const syn_export_options *options) {
    *x = (drawn){.graph = graph};
    const syn_status s = options->comm_graph
                             ? syn__pic_comm_view(&x->d, graph, options, 1e7, &x->err)
                             : syn__pic_trace_view(&x->d, graph, options, 1e7, &x->err);
    return s == SYN_OK;
}

void drop(drawn *x) {
    syn__pic_drawing_free(&x->d);
    syn_graph_free(x->graph);
}

int count_look(const syn__pic_drawing *d, int look) {
    int n = 0;
    for (size_t i = 0; i < d->n_boxes; i++)
        n += d->boxes[i].look == look && strncmp(d->boxes[i].id, "legend", 6) != 0;
    return n;
}

int count_label(const syn__pic_drawing *d, int look, const char *part) {
    int n = 0;
    for (size_t i = 0; i < d->n_boxes; i++)
        n += d->boxes[i].look == look && strstr(d->boxes[i].label, part) != NULL;
    return n;
}
